//! Refresh tokens: built like API keys, with a part that names the family (docs/reference/accounts.md).
//!
//! ```text
//! svc_refresh_ 8Vw0…16 characters x7Q2…16 characters 0a9ZkQ
//!              └ the family's ──┘ └ the token's ───┘ └ CRC-32
//! ```
//!
//! All tokens of a family share the first half, so that a reused token is recognised however long ago it was replaced,
//! without a list of replaced tokens. Each half has 95 random bits. The store has the SHA-256 of the first half and of
//! the whole.

use crate::error::Error;

use super::{Digest, ENTROPY_BYTES, SECRET_LEN, Secret, base62, checked, with_checksum};

/// The beginning of every refresh token.
pub const PREFIX: &str = "svc_refresh_";

const FAMILY_LEN: usize = SECRET_LEN / 2;

/// A refresh token with a valid checksum. `Debug` does not show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshToken(Secret);

impl RefreshToken {
    /// The first token of a new family. `None` as for [`super::mint`].
    #[must_use]
    pub fn new_family(entropy: &[u8; ENTROPY_BYTES]) -> Option<Self> {
        base62(entropy, SECRET_LEN).map(|secret| Self(with_checksum(PREFIX, &secret)))
    }

    /// The token that replaces this one in the family. `None` as for [`super::mint`].
    #[must_use]
    pub fn rotated(&self, entropy: &[u8; ENTROPY_BYTES]) -> Option<Self> {
        let own = base62(entropy, SECRET_LEN - FAMILY_LEN)?;
        Some(Self(with_checksum(PREFIX, &format!("{}{own}", self.shared()))))
    }

    /// Reads a token and verifies its checksum. The token need not exist.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if the text cannot be a token.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match checked(PREFIX, text) {
            Some(_) => Ok(Self(Secret(text.to_owned().into()))),
            None => Err(Error::InvalidToken("the refresh token is malformed".to_owned())),
        }
    }

    /// The stored key of the family.
    #[must_use]
    pub fn family(&self) -> Digest {
        Digest::of(self.shared())
    }

    /// The stored form of the token.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest()
    }

    /// The text, for the client that signed in.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    fn shared(&self) -> &str {
        &self.expose()[PREFIX.len()..PREFIX.len() + FAMILY_LEN]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::entropy;
    use super::super::{checksum, parse};
    use super::*;

    fn minted(seed: u64) -> RefreshToken {
        RefreshToken::new_family(&entropy(seed)).expect("enough of the bytes can be used")
    }

    #[test]
    fn a_refresh_token_looks_like_a_key_and_is_none() {
        let token = minted(1);
        let secret = token.expose().strip_prefix("svc_refresh_").expect("its prefix");
        assert_eq!(secret.len(), 32 + 6);
        assert_eq!(checksum(&secret[..32]), secret[32..]);
        assert!(super::super::has_service_prefix(token.expose()));
        assert!(parse(token.expose()).is_err(), "it is no key");
        assert!(RefreshToken::parse(&format!("svc_live_{secret}")).is_err(), "nor the other way");
    }

    #[test]
    fn a_rotated_token_shares_the_family_and_nothing_else() {
        let first = minted(1);
        let next = first.rotated(&entropy(2)).expect("enough of the bytes can be used");
        assert_eq!(next.family(), first.family());
        assert_ne!(next.digest(), first.digest());
        assert_eq!(RefreshToken::parse(next.expose()), Ok(next.clone()));
        assert_ne!(next.expose()[28..44], first.expose()[28..44]);
        assert_ne!(minted(2).family(), first.family());
        assert_eq!(first.rotated(&[0xff; ENTROPY_BYTES]), None);
    }

    #[test]
    fn its_text_is_not_shown_by_accident() {
        assert!(!format!("{:?}", minted(1)).contains("svc_refresh_"));
    }

    proptest! {
        #[test]
        fn every_change_of_a_single_character_is_noticed(
            seed in any::<u64>(), place in 0..50_usize, other in "[0-9A-Za-z_]",
        ) {
            let text = minted(seed).expose().to_owned();
            let changed = format!("{}{other}{}", &text[..place], &text[place + 1..]);
            prop_assert_eq!(RefreshToken::parse(&changed).is_ok(), changed == text);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC{0,60}", tail in "[0-9A-Za-z_é]{0,50}") {
            let _ = RefreshToken::parse(&text);
            let _ = RefreshToken::parse(&format!("svc_refresh_{tail}"));
        }
    }
}
