//! A stored login in use: its access token, renewed when it is about to end or was refused.
//!
//! Deliberately absent: the password. When the refresh token has ended too, a person signs in.

use callboard_common::secret::Secret;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{Login, Store};
use crate::cli::client::{Call, Client};
use crate::cli::failure::Failure;

/// A token with less than this left is renewed before it is used.
const MARGIN_SECONDS: i64 = 60;

/// A stored login in use.
pub(in crate::cli) struct Session {
    store: Store,
    server: String,
    login: Mutex<Login>,
}

impl Session {
    /// The login that was found at this server.
    pub(in crate::cli) fn new(store: Store, server: String, login: Login) -> Self {
        Self { store, server, login: Mutex::new(login) }
    }

    /// As it stands now.
    pub(in crate::cli) async fn login(&self) -> Login {
        self.login.lock().await.clone()
    }

    /// An access token with some time left.
    pub(in crate::cli) async fn bearer(&self, client: &Client) -> Result<Secret, Failure> {
        let login = self.login().await;
        let token = Secret::new(login.token);
        if !ends_soon(&login.expires_at, Timestamp::now()) {
            return Ok(token);
        }
        self.renew(client, &token).await?;
        Ok(Secret::new(self.login().await.token))
    }

    /// Another access token instead of `stale`: the one that somebody else got meanwhile, or one
    /// for the refresh token. It is on disk before it is used.
    pub(in crate::cli) async fn renew(
        &self,
        client: &Client,
        stale: &Secret,
    ) -> Result<(), Failure> {
        let mut current = self.login.lock().await;
        let lock = self.store.lock().await?;
        let stored = self.store.read()?.login(&self.server).ok_or_else(|| self.ended())?;
        if stored.token != stale.expose() {
            *current = stored;
            return Ok(());
        }
        let call =
            Call::post(&["auth", "refresh"]).json(&json!({"refreshToken": stored.refresh_token}));
        let answer = client
            .send_as_nobody(&call)
            .await
            .map_err(|failure| if failure.exit_code() == 4 { self.ended() } else { failure })?;
        let fresh = Login::read(&answer.data)?;
        self.store.change(&lock, |logins| logins.renew(&self.server, fresh.clone()))?;
        *current = fresh;
        Ok(())
    }

    fn ended(&self) -> Failure {
        let server = &self.server;
        Failure::NotSignedIn(format!(
            "the login at {server} has ended: callboard auth login --server {server} --email YOU"
        ))
    }
}

impl Login {
    /// Reads what a login or a refresh is answered with.
    pub(in crate::cli) fn read(session: &Value) -> Result<Self, Failure> {
        let text = |value: &Value| {
            let lacks = || Failure::Other("the server's answer is no session".into());
            value.as_str().map(str::to_owned).ok_or_else(lacks)
        };
        Ok(Self {
            email: text(&session["user"]["email"])?,
            role: text(&session["user"]["role"])?,
            token: text(&session["token"])?,
            refresh_token: text(&session["refreshToken"])?,
            expires_at: text(&session["expiresAt"])?,
        })
    }
}

/// Whether too little is left; what cannot be read is left to the server to refuse.
fn ends_soon(expires_at: &str, now: Timestamp) -> bool {
    let margin = MARGIN_SECONDS.seconds();
    expires_at.parse::<Timestamp>().is_ok_and(|end| now.checked_add(margin).is_ok_and(|n| n >= end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_within_its_last_minute() {
        let now: Timestamp = "2026-11-21T10:00:00Z".parse().unwrap();
        assert!(ends_soon("2026-11-21T10:01:00.000Z", now));
        assert!(ends_soon("2026-11-21T09:00:00.000Z", now));
        assert!(!ends_soon("2026-11-21T10:01:00.001Z", now));
        assert!(!ends_soon("soon", now));
    }
}
