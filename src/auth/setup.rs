//! The setup link of a server without an admin: its bearer makes the first one (docs/reference/accounts.md).
//!
//! The link lives in memory and ends with the process, an hour after the start, or with the first admin.
//! Deliberately absent: a log line with its token.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_common::secret::Secret;
use callboard_domain::digest::Digest;
use callboard_domain::{Error, Timestamp};

/// The time for which a setup link counts.
pub const LIFETIME: Duration = Duration::from_hours(1);

const PREFIX: &str = "svc_setup_";

/// A setup link that was given out.
#[derive(Debug)]
pub struct Setup {
    digest: Digest,
    expires_at: Timestamp,
}

impl Setup {
    /// A fresh link and its token.
    #[must_use]
    pub fn new(now: Timestamp) -> (Self, Secret) {
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()));
        let setup = Self { digest: Digest::of(&token), expires_at: now.after(LIFETIME) };
        (setup, Secret::new(token))
    }

    /// Passes if `token` is the link's and the link has not expired. Takes the same time for every
    /// wrong token.
    ///
    /// # Errors
    /// [`Error::InvalidToken`], [`Error::TokenExpired`].
    pub fn check(&self, token: &str, now: Timestamp) -> Result<(), Error> {
        let given = Digest::of(token);
        let pairs = given.as_bytes().iter().zip(self.digest.as_bytes());
        if pairs.fold(0, |different, (one, other)| different | (one ^ other)) != 0 {
            return Err(Error::InvalidToken("the setup token is not known".to_owned()));
        }
        if self.expires_at <= now {
            return Err(Error::TokenExpired("setup link"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_link_counts_for_an_hour_and_no_other_token_does() {
        let now = Timestamp::from_millis(1_800_000_000_000);
        let (setup, token) = Setup::new(now);
        assert_eq!(token.expose().len(), PREFIX.len() + 43);
        assert_eq!(setup.check(token.expose(), now), Ok(()));
        let end = now.after(LIFETIME);
        let expired = setup.check(token.expose(), end);
        assert_eq!(expired, Err(Error::TokenExpired("setup link")));
        let (_, other) = Setup::new(now);
        for wrong in ["", PREFIX, other.expose(), &token.expose()[1..]] {
            assert!(matches!(setup.check(wrong, now), Err(Error::InvalidToken(_))), "{wrong}");
        }
        assert!(!format!("{setup:?} {token:?}").contains(token.expose()));
    }
}
