//! Invitations: a link by which a person makes the own account (docs/reference/accounts.md).
//!
//! ```text
//! svc_invite_ 8Vw0…32 characters…qT3 0a9ZkQ
//!             └─ secret, base62 ───┘ └ CRC-32
//! ```
//!
//! The store has the SHA-256 of the token. An invitation that was accepted or revoked has no row, because a
//! missing one is just as invalid. Deliberately absent: the right of its maker, which is asked when it is
//! accepted.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{
    Digest, ENTROPY_BYTES, SECRET_LEN, Secret, base62, checked, days, whole_number, with_checksum,
};
use crate::Timestamp;
use crate::access::{Account, Role};
use crate::account::Email;
use crate::error::{Error, Rule};
use crate::id::InvitationId;

/// The beginning of every token of an invitation.
pub const PREFIX: &str = "svc_invite_";

/// The lifetime of an invitation without `expiresIn`: 7 days.
pub const DEFAULT_LIFETIME: Duration = days(7);

/// The most invitations that are open at once.
pub const MAX_OPEN: usize = 1_000;

const MAX_DAYS: u64 = 30;

/// An open invitation as it is stored.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    /// The identifier, which holds the time of creation.
    pub id: InvitationId,
    /// The SHA-256 of the token.
    pub digest: Digest,
    /// The e-mail of the invited person, who signs in with it; `None` lets the person choose.
    pub email: Option<Email>,
    /// The name of the person, unless the person gives another one.
    pub name: Option<String>,
    /// The role of the account.
    pub role: Role,
    /// The account that made the invitation; `None` for the program itself.
    pub created_by: Option<Account>,
    /// The first instant at which the invitation is refused as expired.
    pub expires_at: Timestamp,
}

impl Invitation {
    /// Passes until the invitation expires.
    ///
    /// # Errors
    /// [`Error::TokenExpired`].
    pub fn check(&self, now: Timestamp) -> Result<(), Error> {
        if now < self.expires_at { Ok(()) } else { Err(Error::TokenExpired("invitation")) }
    }

    /// The e-mail of the account: the invited one, or else the one that the person gives.
    ///
    /// # Errors
    /// [`Error::Invalid`], field `email`: rule `required` if neither is there, `enum` if they differ.
    pub fn email_of(&self, given: Option<Email>) -> Result<Email, Error> {
        match (&self.email, given) {
            (Some(invited), Some(given)) if invited.key() != given.key() => {
                let message = format!("email must be {invited}, to which the invitation is");
                Err(Error::invalid("email", Rule::Enum, message))
            }
            (Some(invited), _) => Ok(invited.clone()),
            (None, Some(given)) => Ok(given),
            (None, None) => {
                let message = "email is missing: the invitation is to no address";
                Err(Error::invalid("email", Rule::Required, message))
            }
        }
    }
}

/// Makes a token. `None` as for [`super::mint`].
#[must_use]
pub fn mint(entropy: &[u8; ENTROPY_BYTES]) -> Option<Secret> {
    base62(entropy, SECRET_LEN).map(|secret| with_checksum(PREFIX, &secret))
}

/// The digest of a token with a valid checksum. The invitation need not exist.
///
/// # Errors
/// [`Error::InvalidToken`] if the text cannot be a token.
pub fn parse(text: &str) -> Result<Digest, Error> {
    match checked(PREFIX, text) {
        Some(_) => Ok(Digest::of(text)),
        None => Err(Error::InvalidToken("the token of the invitation is malformed".to_owned())),
    }
}

/// Reads `expiresIn`: whole days, `1d` to `30d`.
///
/// # Errors
/// [`Error::Invalid`], field `expiresIn`: rule `format`, or `range`.
pub fn lifetime(text: &str) -> Result<Duration, Error> {
    let message = "expiresIn must be a number of days from 1d to 30d";
    match text.strip_suffix('d').and_then(whole_number) {
        Some(count @ 1..=MAX_DAYS) => Ok(days(count)),
        Some(_) => Err(Error::invalid("expiresIn", Rule::Range, message)),
        None => Err(Error::invalid("expiresIn", Rule::Format, message)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::entropy;
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn email(text: &str) -> Email {
        Email::parse(text).expect("an e-mail")
    }

    fn invitation(email: Option<Email>) -> Invitation {
        Invitation {
            id: InvitationId::from_u128(1 << 10),
            digest: Digest::ZERO,
            email,
            name: None,
            role: Role::Reviewer,
            created_by: None,
            expires_at: START.after(DEFAULT_LIFETIME),
        }
    }

    #[test]
    fn a_token_is_found_by_its_digest_and_a_mistyped_one_is_refused_before() {
        let token = mint(&entropy(7)).expect("enough");
        assert!(token.expose().starts_with(PREFIX));
        assert_eq!(parse(token.expose()), Ok(token.digest()));
        for wrong in
            ["", PREFIX, &token.expose()[..30], &token.expose().replace("svc_invite_", "svc_live_")]
        {
            assert!(matches!(parse(wrong), Err(Error::InvalidToken(_))), "{wrong}");
        }
    }

    #[test]
    fn an_invitation_expires() {
        let invitation = invitation(None);
        let end = START.after(DEFAULT_LIFETIME);
        assert_eq!(invitation.check(START), Ok(()));
        assert_eq!(invitation.check(end), Err(Error::TokenExpired("invitation")));
    }

    #[test]
    fn an_invitation_to_an_address_makes_no_account_of_another() {
        let ada = || email("ada@example.com");
        let to_ada = invitation(Some(ada()));
        assert_eq!(to_ada.email_of(None), Ok(ada()));
        assert_eq!(to_ada.email_of(Some(email("ADA@example.com"))), Ok(ada()));
        assert!(to_ada.email_of(Some(email("eve@example.com"))).is_err());
        assert_eq!(invitation(None).email_of(Some(ada())), Ok(ada()));
        assert!(invitation(None).email_of(None).is_err());
    }

    #[test]
    fn a_lifetime_is_one_to_thirty_days() {
        assert_eq!(lifetime("1d"), Ok(days(1)));
        assert_eq!(lifetime("30d"), Ok(days(30)));
        for wrong in ["0d", "31d", "7", "7h", "", "-1d", "07d"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
