//! A login in use: its access token, renewed before it ends or after the server refused it.
//!
//! A refresh token counts once, so two processes must not send the same one. A renewal holds the lock of the store,
//! reads the login again (another process may have renewed it), and writes the new tokens before it uses them.

use std::pin::Pin;

use callboard_common::secret::Secret;
use jiff::{Timestamp, ToSpan};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::{Call, Client, Error};

/// A token with less than this left is renewed before it is used. The shortest lifetime is a minute.
const MARGIN_SECONDS: i64 = 30;

/// The tokens of one login. `Debug` does not show them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    /// The user's address.
    pub email: String,
    /// The user's role at the time of the login.
    pub role: String,
    /// The access token.
    pub token: String,
    /// The token that renews the access token, once.
    pub refresh_token: String,
    /// The end of the access token, in ISO 8601.
    pub expires_at: String,
}

/// A failure of a store of logins.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// The future of a lock on a stored login.
pub type LockFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn LockedLogin + 'a>, StoreError>> + Send + 'a>>;

/// A store that keeps a login beyond this process.
pub trait LoginStore: Send + Sync {
    /// Waits until no other process holds the login.
    fn lock(&self) -> LockFuture<'_>;
}

/// A stored login that only this process may change. Dropping it releases the lock.
pub trait LockedLogin: Send {
    /// Reads the login; `None` if it was removed.
    ///
    /// # Errors
    /// The store cannot be read.
    fn read(&self) -> Result<Option<Login>, StoreError>;

    /// Replaces the login, which is durable when this returns.
    ///
    /// # Errors
    /// The store cannot be written.
    fn write(&mut self, login: &Login) -> Result<(), StoreError>;
}

/// A login in use.
pub struct Session {
    store: Option<Box<dyn LoginStore>>,
    login: Mutex<Login>,
}

impl Session {
    /// A session whose renewed tokens live in this process only.
    #[must_use]
    pub fn new(login: Login) -> Self {
        Self { store: None, login: Mutex::new(login) }
    }

    /// A session that writes its renewed tokens to `store`.
    #[must_use]
    pub fn stored(login: Login, store: Box<dyn LoginStore>) -> Self {
        Self { store: Some(store), login: Mutex::new(login) }
    }

    /// The current login.
    pub async fn login(&self) -> Login {
        self.login.lock().await.clone()
    }

    /// Replaces the access token `stale`: by the one that another process received meanwhile, or by one
    /// for the refresh token. Boxed, because a renewal sends a call, and a call may lead to a renewal.
    pub(crate) fn renew<'a>(
        &'a self,
        client: &'a Client,
        stale: &'a Secret,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
        Box::pin(self.replace(client, stale))
    }

    async fn replace(&self, client: &Client, stale: &Secret) -> Result<(), Error> {
        let mut current = self.login.lock().await;
        let ended = || Error::LoginEnded { server: client.server().to_string() };
        let mut locked = match &self.store {
            Some(store) => Some(store.lock().await.map_err(Error::Store)?),
            None => None,
        };
        let stored = match &locked {
            Some(locked) => locked.read().map_err(Error::Store)?.ok_or_else(ended)?,
            None => current.clone(),
        };
        if stored.token != stale.expose() {
            *current = stored;
            return Ok(());
        }
        let call =
            Call::post(&["auth", "refresh"]).json(&json!({"refreshToken": stored.refresh_token}));
        let answer = client.anonymous().send(&call).await;
        let answer =
            answer.map_err(|error| if error.refuses_credentials() { ended() } else { error })?;
        let fresh = Login::read(&answer.data).ok_or_else(|| Error::UnexpectedAnswer {
            server: client.server().to_string(),
            problem: "with no session".into(),
        })?;
        if let Some(locked) = &mut locked {
            locked.write(&fresh).map_err(Error::Store)?;
        }
        *current = fresh;
        Ok(())
    }
}

impl Login {
    /// True if the access token is to be renewed before it is used.
    pub(crate) fn ends_soon(&self) -> bool {
        ends_within(MARGIN_SECONDS, &self.expires_at, Timestamp::now())
    }

    /// True if the access token does not count any more.
    pub(crate) fn has_ended(&self) -> bool {
        ends_within(0, &self.expires_at, Timestamp::now())
    }

    /// Reads the data with which the server answers a login or a refresh; `None` if it lacks a member.
    #[must_use]
    pub fn read(session: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            email: text(&session["user"]["email"])?,
            role: text(&session["user"]["role"])?,
            token: text(&session["token"])?,
            refresh_token: text(&session["refreshToken"])?,
            expires_at: text(&session["expiresAt"])?,
        })
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("email", &self.email).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// True if no more than these seconds are left. The server refuses a token whose end cannot be read.
fn ends_within(seconds: i64, expires_at: &str, now: Timestamp) -> bool {
    let margin = seconds.seconds();
    expires_at.parse::<Timestamp>().is_ok_and(|end| now.checked_add(margin).is_ok_and(|n| n >= end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_within_its_last_half_minute() {
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        let ends_soon = |at| ends_within(MARGIN_SECONDS, at, now);
        assert!(ends_soon("2026-11-21T10:00:30.000Z"));
        assert!(ends_soon("2026-11-21T09:00:00.000Z"));
        assert!(!ends_soon("2026-11-21T10:00:30.001Z"));
        assert!(!ends_soon("soon"));
    }
}
