//! The stored logins: `$XDG_CONFIG_HOME/callboard/credentials.json`, mode 0600, one for each server.
//!
//! A refresh token is taken once, so two processes must not use the same one: a renewal holds the
//! lock file, reads the logins anew (another process may have renewed it), and writes the new
//! tokens before it uses them. Deliberately absent: API keys, which stand in files of their own.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{LockFuture, LockedLogin, Login, LoginStore, StoreError};

/// The longest wait for the lock; longer than a renewal may take.
const LOCK_PATIENCE: Duration = Duration::from_secs(75);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The file of the logins.
#[derive(Debug, Clone)]
pub struct Store {
    path: PathBuf,
}

/// All logins.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Logins {
    /// The server of the last login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    logins: BTreeMap<String, Login>,
}

/// The login at one server, as a session uses it.
#[derive(Debug)]
pub struct Stored {
    store: Store,
    server: String,
}

struct Locked<'a> {
    stored: &'a Stored,
    lock: Lock,
}

/// The lock of a renewal. Dropping it releases the lock, and so does the end of the process.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held, not used")] File);

impl Store {
    /// The login of the program's user.
    ///
    /// # Errors
    /// Neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub fn of_user() -> Result<Self, StoreError> {
        let given = |name| std::env::var_os(name).filter(|path| !path.is_empty());
        let config = given("XDG_CONFIG_HOME").map(PathBuf::from);
        // The specification says to ignore a relative path.
        let config = config
            .filter(|path| path.is_absolute())
            .or_else(|| given("HOME").map(|home| PathBuf::from(home).join(".config")))
            .ok_or_else(|| StoreError::from("neither XDG_CONFIG_HOME nor HOME is set"))?;
        Ok(Self { path: config.join("callboard").join("credentials.json") })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The logins; none if there is no file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> Result<Logins, StoreError> {
        let cannot = |error: &dyn std::fmt::Display| {
            StoreError::from(format!("{} cannot be read: {error}", self.path.display()))
        };
        match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| cannot(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Logins::default()),
            Err(error) => Err(cannot(&error)),
        }
    }

    /// Changes the logins: all of the change is on disk, or nothing of it.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn change(&self, _held: &Lock, change: impl FnOnce(&mut Logins)) -> Result<(), StoreError> {
        let mut logins = self.read()?;
        change(&mut logins);
        let text = serde_json::to_vec_pretty(&logins)?;
        self.replace(&text).map_err(|error| {
            StoreError::from(format!("{} cannot be written: {error}", self.path.display()))
        })
    }

    /// Waits until no other process of this user holds the lock.
    ///
    /// # Errors
    /// The lock cannot be taken.
    pub async fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.path.with_extension("lock");
        let cannot = |error: &dyn std::fmt::Display| {
            StoreError::from(format!("{} cannot be locked: {error}", path.display()))
        };
        if let Some(directory) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(|error| cannot(&error))?;
        }
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(|error| cannot(&error))?;
        let deadline = tokio::time::Instant::now() + LOCK_PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(TryLockError::WouldBlock) if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(LOCK_PAUSE).await;
                }
                Err(TryLockError::WouldBlock) => return Err(cannot(&"another process holds it")),
                Err(TryLockError::Error(error)) => return Err(cannot(&error)),
            }
        }
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        // Only the holder of the lock writes, so the name is free, or left over from a crash.
        let draft = self.path.with_extension("new");
        let _ = fs::remove_file(&draft);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)
    }
}

impl Stored {
    /// The login at `server`.
    #[must_use]
    pub const fn new(store: Store, server: String) -> Self {
        Self { store, server }
    }
}

impl LoginStore for Stored {
    fn lock(&self) -> LockFuture<'_> {
        Box::pin(async move {
            let lock = self.store.lock().await?;
            Ok(Box::new(Locked { stored: self, lock }) as Box<dyn LockedLogin>)
        })
    }
}

impl LockedLogin for Locked<'_> {
    fn read(&self) -> Result<Option<Login>, StoreError> {
        let logins = self.stored.store.read()?;
        Ok(logins.login(&self.stored.server))
    }

    fn write(&mut self, login: &Login) -> Result<(), StoreError> {
        let Stored { store, server } = self.stored;
        store.change(&self.lock, |logins| logins.renew(server, login.clone()))
    }
}

impl Logins {
    /// The login at this server.
    #[must_use]
    pub fn login(&self, server: &str) -> Option<Login> {
        self.logins.get(server).cloned()
    }

    /// Keeps a login and makes its server the usual one.
    pub fn keep(&mut self, server: &str, login: Login) {
        self.current = Some(server.to_owned());
        self.logins.insert(server.to_owned(), login);
    }

    /// Replaces the tokens of a login; the usual server stays.
    pub fn renew(&mut self, server: &str, login: Login) {
        self.logins.insert(server.to_owned(), login);
    }

    /// Forgets the login at this server. True if there was one.
    pub fn forget(&mut self, server: &str) -> bool {
        if self.current.as_deref() == Some(server) {
            self.current = None;
        }
        self.logins.remove(server).is_some()
    }
}
