//! A login that a server of this machine stores for as long as it runs.

use std::path::Path;

use callboard_client::logins::Store;
use callboard_client::{Login, Server, StoreError};
use serde_json::Value;

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
        let words = |error: StoreError| error.to_string();
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
        let words = |error: StoreError| error.to_string();
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
