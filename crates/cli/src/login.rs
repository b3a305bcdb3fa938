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

use callboard_client::{LockFuture, LockedLogin, Login, LoginStore, Server, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::failure::Failure;

/// The longest wait for the lock; longer than a renewal may take.
const LOCK_PATIENCE: Duration = Duration::from_secs(75);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The file of the logins.
#[derive(Debug, Clone)]
pub(super) struct Store {
    path: PathBuf,
}

/// All logins.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Logins {
    /// The server of the last login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) current: Option<String>,
    #[serde(default)]
    logins: BTreeMap<String, Login>,
}

/// The login at one server, as a session uses it.
pub(super) struct Stored {
    store: Store,
    server: String,
}

struct Locked<'a> {
    stored: &'a Stored,
    lock: Lock,
}

/// A login that a program stored for as long as its server runs.
#[derive(Debug)]
pub struct TemporaryLogin {
    store: Store,
    server: String,
    email: String,
    /// The usual server before this login.
    before: Option<String>,
}

impl TemporaryLogin {
    /// Stores the answer to a sign-in at `server` as `callboard auth login` does: later commands use it.
    /// Other logins stay.
    ///
    /// # Errors
    /// The reason why the login cannot be stored.
    pub async fn take(server: &str, session: &Value) -> Result<Self, String> {
        let words = |failure: Failure| failure.words();
        let login = Login::read(session).ok_or("the sign-in has no session")?;
        let server = Server::parse(server).map_err(|error| error.to_string())?.to_string();
        let store = Store::of_user().map_err(words)?;
        let (email, mut before) = (login.email.clone(), None);
        let lock = store.lock().await.map_err(words)?;
        let stored = store.change(&lock, |logins| {
            before = logins.current.take().filter(|usual| *usual != server);
            logins.keep(&server, login);
        });
        stored.map_err(words)?;
        Ok(Self { store, server, email, before })
    }

    /// The file of the login.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.store.path()
    }

    /// Removes the login, unless another program signed in at the server meanwhile. The earlier
    /// usual server is restored, unless it was changed.
    ///
    /// # Errors
    /// The reason why the login stays.
    pub async fn give_back(self) -> Result<(), String> {
        let Self { store, server, email, before } = self;
        let words = |failure: Failure| failure.words();
        let lock = store.lock().await.map_err(words)?;
        let removed = store.change(&lock, |logins| {
            if logins.login(&server).is_none_or(|login| login.email != email) {
                return;
            }
            let was_usual = logins.current.as_deref() == Some(&*server);
            logins.forget(&server);
            if was_usual {
                logins.current = before.filter(|before| logins.login(before).is_some());
            }
        });
        removed.map_err(words)
    }
}

/// The lock of a renewal. Dropping it releases the lock, and so does the end of the process.
pub(super) struct Lock(#[expect(dead_code, reason = "it is held, not used")] File);

impl Store {
    /// The login of the program's user.
    pub(super) fn of_user() -> Result<Self, Failure> {
        let given = |name| std::env::var_os(name).filter(|path| !path.is_empty());
        let config = given("XDG_CONFIG_HOME").map(PathBuf::from);
        // The specification says to ignore a relative path.
        let config = config
            .filter(|path| path.is_absolute())
            .or_else(|| given("HOME").map(|home| PathBuf::from(home).join(".config")))
            .ok_or_else(|| Failure::Other("neither XDG_CONFIG_HOME nor HOME is set".into()))?;
        Ok(Self { path: config.join("callboard").join("credentials.json") })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The logins; none if there is no file.
    pub(super) fn read(&self) -> Result<Logins, Failure> {
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::Other(format!("{} cannot be read: {error}", self.path.display()))
        };
        match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| cannot(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Logins::default()),
            Err(error) => Err(cannot(&error)),
        }
    }

    /// Changes the logins: all of the change is on disk, or nothing of it.
    pub(super) fn change(
        &self,
        _held: &Lock,
        change: impl FnOnce(&mut Logins),
    ) -> Result<(), Failure> {
        let mut logins = self.read()?;
        change(&mut logins);
        let text = serde_json::to_vec_pretty(&logins).expect("logins have a JSON form");
        self.replace(&text).map_err(|error| {
            Failure::Other(format!("{} cannot be written: {error}", self.path.display()))
        })
    }

    /// Waits until no other process of this user holds the lock.
    pub(super) async fn lock(&self) -> Result<Lock, Failure> {
        let path = self.path.with_extension("lock");
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::Other(format!("{} cannot be locked: {error}", path.display()))
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
    pub(super) const fn new(store: Store, server: String) -> Self {
        Self { store, server }
    }
}

impl LoginStore for Stored {
    fn lock(&self) -> LockFuture<'_> {
        Box::pin(async move {
            let lock = self.store.lock().await.map_err(|failure| failure.words())?;
            Ok(Box::new(Locked { stored: self, lock }) as Box<dyn LockedLogin>)
        })
    }
}

impl LockedLogin for Locked<'_> {
    fn read(&self) -> Result<Option<Login>, StoreError> {
        let logins = self.stored.store.read().map_err(|failure| failure.words())?;
        Ok(logins.login(&self.stored.server))
    }

    fn write(&mut self, login: &Login) -> Result<(), StoreError> {
        let Stored { store, server } = self.stored;
        let changed = store.change(&self.lock, |logins| logins.renew(server, login.clone()));
        changed.map_err(|failure| failure.words().into())
    }
}

impl Logins {
    /// The login at this server.
    pub(super) fn login(&self, server: &str) -> Option<Login> {
        self.logins.get(server).cloned()
    }

    /// Keeps a login and makes its server the usual one.
    pub(super) fn keep(&mut self, server: &str, login: Login) {
        self.current = Some(server.to_owned());
        self.logins.insert(server.to_owned(), login);
    }

    /// Replaces the tokens of a login; the usual server stays.
    pub(super) fn renew(&mut self, server: &str, login: Login) {
        self.logins.insert(server.to_owned(), login);
    }

    /// Forgets the login at this server. True if there was one.
    pub(super) fn forget(&mut self, server: &str) -> bool {
        if self.current.as_deref() == Some(server) {
            self.current = None;
        }
        self.logins.remove(server).is_some()
    }
}
