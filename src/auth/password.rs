//! Hashing and checking passwords with argon2id (docs/reference/accounts.md).
//!
//! A hash takes some 20 ms of a core and 19 MiB, on purpose. So hashes run on the blocking threads, at most as many at
//! once as half the cores, and only so many may queue behind them, for a while: a flood of sign-ins is turned away and
//! takes neither the memory nor the time of other requests.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use argon2::password_hash::phc::{Output, PasswordHash as Phc, Salt};
use argon2::{
    ARGON2ID_IDENT, Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version,
};
use callboard_domain::Error;
use callboard_domain::account::PasswordHash;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task;

/// The cost of a hash: 19 MiB, two passes, one lane, which OWASP's Password Storage Cheat Sheet lists
/// as enough for argon2id.
const COST: Params = match Params::new(19 * 1024, 2, 1, Some(HASH_BYTES)) {
    Ok(params) => params,
    Err(_) => panic!("the cost is outside argon2's limits"),
};

const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;

/// The most attempts that may wait for each one being hashed: about a second's worth.
const WAITING_PER_CORE: usize = 32;
/// The longest wait for a core.
const WAITING: Duration = Duration::from_secs(5);

const BUSY: &str = "too many sign-ins at once: try again in a few seconds";

/// The hasher; clones share its bounds.
#[derive(Debug, Clone)]
pub struct Passwords {
    argon2: Argon2<'static>,
    /// A hash of the same cost that no password has, checked when there is no such user.
    dummy: Arc<str>,
    /// The permits of attempts that are hashed or wait for a core.
    places: Arc<Semaphore>,
    /// The permits of attempts that are hashed.
    cores: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self::new()
    }
}

impl Passwords {
    /// A hasher at OWASP's cost, for half the cores of this machine, and one at least.
    #[must_use]
    pub fn new() -> Self {
        let cores = (thread::available_parallelism().map_or(1, usize::from) / 2).max(1);
        Self::with(COST, cores, cores * WAITING_PER_CORE)
    }

    fn with(params: Params, cores: usize, waiting: usize) -> Self {
        Self {
            dummy: dummy(&params).into(),
            argon2: Argon2::new(Algorithm::Argon2id, Version::V0x13, params),
            places: Arc::new(Semaphore::new(cores + waiting)),
            cores: Arc::new(Semaphore::new(cores)),
        }
    }

    /// The hash of a password, with a salt of its own.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too many wait already, or for too long.
    pub async fn hash(&self, password: String) -> Result<PasswordHash, Error> {
        let argon2 = self.argon2.clone();
        self.slot()
            .await?
            .run(move || {
                let mut salt = [0; SALT_BYTES];
                rand::fill(&mut salt);
                let phc =
                    argon2.hash_password_with_salt(password.as_bytes(), &salt).map_err(internal)?;
                Ok(PasswordHash::new(phc.to_string()))
            })
            .await?
    }

    /// Passes if the password has this hash. `None` stands for a user that does not exist: the
    /// check takes as long as that of a wrong password and gives the same error.
    ///
    /// # Errors
    /// [`Error::InvalidCredentials`] if the password is wrong or there is no user,
    /// [`Error::Internal`] if the stored hash cannot be read.
    pub async fn verify(
        &self,
        slot: Slot,
        password: String,
        hash: Option<PasswordHash>,
    ) -> Result<(), Error> {
        let argon2 = self.argon2.clone();
        let dummy = Arc::clone(&self.dummy);
        slot.run(move || {
            let phc = hash.as_ref().map_or(&*dummy, PasswordHash::as_str);
            let phc = Phc::new(phc).map_err(internal)?;
            match argon2.verify_password(password.as_bytes(), &phc) {
                Ok(()) if hash.is_some() => Ok(()),
                Ok(()) | Err(argon2::password_hash::Error::PasswordInvalid) => {
                    Err(Error::InvalidCredentials)
                }
                Err(error) => Err(internal(error)),
            }
        })
        .await?
    }

    /// Waits for a core to hash on. A caller that leaves while it waits has taken nothing.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if too many wait already, or for too long.
    pub async fn slot(&self) -> Result<Slot, Error> {
        let busy = Error::Unavailable(BUSY);
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| busy.clone())?;
        let core = tokio::time::timeout(WAITING, Arc::clone(&self.cores).acquire_owned()).await;
        // The semaphore is never closed.
        let core = core.map_err(|_| busy)?.map_err(|_| Error::Internal)?;
        Ok(Slot { _place: place, _core: core })
    }
}

/// A core to hash on.
#[derive(Debug)]
pub struct Slot {
    _place: OwnedSemaphorePermit,
    _core: OwnedSemaphorePermit,
}

impl Slot {
    /// Runs `work` on a blocking thread. The work holds the slot, not the caller, who may leave
    /// before the end.
    async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let work = task::spawn_blocking(move || {
            let _held = self;
            work()
        });
        // The work neither panics nor is cancelled, unless the runtime is going down.
        work.await.map_err(|_| Error::Internal)
    }
}

/// A hash of these parameters that is all zeros: no known password has it, and checking it takes as
/// long as checking a real hash.
fn dummy(params: &Params) -> String {
    let phc = Phc {
        algorithm: ARGON2ID_IDENT,
        version: Some(Version::V0x13.into()),
        params: params.try_into().expect("the parameters can be written"),
        salt: Some(Salt::new(&[0; SALT_BYTES]).expect("the length is allowed")),
        hash: Some(Output::new(&[0; HASH_BYTES]).expect("the length is allowed")),
    };
    phc.to_string()
}

fn internal(error: impl fmt::Display) -> Error {
    tracing::error!(%error, "a password could not be hashed or checked");
    Error::Internal
}

#[cfg(test)]
mod tests;
