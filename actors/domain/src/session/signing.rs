//! The keys that sign access tokens, by name: a session ends with the key that it is bound to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::digest::Digest;
use crate::error::Error;

/// The name of a signing key, 16 hexadecimal digits: the beginning of a SHA-256, which says nothing about
/// a random key. Access tokens carry it as `kid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SigningKeyId(u64);

impl SigningKeyId {
    /// The name of a key.
    #[must_use]
    pub fn of(key: &str) -> Self {
        let digest = Digest::of(&format!("callboard signing key:{key}"));
        let first = digest.as_bytes().iter().take(8);
        Self(first.fold(0, |id, byte| id << 8 | u64::from(*byte)))
    }
}

impl fmt::Display for SigningKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text that is not the name of a signing key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 16 hexadecimal digits in lower case")]
pub struct InvalidSigningKeyId;

impl FromStr for SigningKeyId {
    type Err = InvalidSigningKeyId;

    fn from_str(text: &str) -> Result<Self, InvalidSigningKeyId> {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if text.len() != 16 || !is_hex {
            return Err(InvalidSigningKeyId);
        }
        u64::from_str_radix(text, 16).map(Self).map_err(|_| InvalidSigningKeyId)
    }
}

impl From<SigningKeyId> for String {
    fn from(id: SigningKeyId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for SigningKeyId {
    type Error = InvalidSigningKeyId;

    fn try_from(text: String) -> Result<Self, InvalidSigningKeyId> {
        text.parse()
    }
}

/// The signing keys whose tokens count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeys {
    /// The key that signs.
    pub current: SigningKeyId,
    /// Keys that signed before, each with the instant from which its tokens and sessions are refused;
    /// `None` is never.
    pub previous: Vec<(SigningKeyId, Option<Timestamp>)>,
}

impl SigningKeys {
    /// One key alone.
    #[must_use]
    pub const fn new(current: SigningKeyId) -> Self {
        Self { current, previous: Vec::new() }
    }

    /// The instant from which the sessions that are bound to `key` are refused; `None` is never.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if the key is gone.
    pub fn end_of(
        &self,
        key: Option<SigningKeyId>,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        let is_valid = |until: &Option<Timestamp>| until.is_none_or(|until| now < until);
        let mut previous = self.previous.iter();
        match key {
            Some(key) if key == self.current => Ok(None),
            key => previous
                .find(|(known, until)| Some(*known) == key && is_valid(until))
                .map(|(_, until)| *until)
                .ok_or_else(|| {
                    let message = "the session is over: its signing key was removed";
                    Error::InvalidToken(message.to_owned())
                }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const LATER: Timestamp = Timestamp::from_millis(1_800_000_000_001);

    fn id(key: &str) -> SigningKeyId {
        SigningKeyId::of(key)
    }

    #[test]
    fn a_name_leads_back_from_its_text_and_says_nothing_else() {
        let name = id("one key").to_string();
        assert_eq!((name.len(), name.parse()), (16, Ok(id("one key"))));
        assert_ne!(id("one key"), id("one key "));
        for text in
            ["", "../../dev/null", "0123456789ABCDEF", "+123456789abcdef", "0123456789abcde"]
        {
            assert_eq!(text.parse::<SigningKeyId>(), Err(InvalidSigningKeyId), "{text}");
        }
    }

    #[test]
    fn a_session_ends_with_the_key_that_it_is_bound_to() {
        let previous = vec![(id("b"), Some(LATER)), (id("c"), None)];
        let keys = SigningKeys { current: id("a"), previous };
        assert_eq!(keys.end_of(Some(id("a")), LATER), Ok(None));
        assert_eq!(keys.end_of(Some(id("b")), NOW), Ok(Some(LATER)));
        assert!(keys.end_of(Some(id("b")), LATER).is_err());
        assert_eq!(keys.end_of(Some(id("c")), Timestamp::MAX), Ok(None));
        assert!(keys.end_of(Some(id("d")), NOW).is_err());
        assert!(keys.end_of(None, NOW).is_err());
    }
}
