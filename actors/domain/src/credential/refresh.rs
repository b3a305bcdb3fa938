//! Refresh tokens: made and recognised as keys are, and each knows its family (SPEC.md, "JWT
//! sessions"; PROTOCOL.md 7).
//!
//! ```text
//! svc_refresh_ 8Vw0…16 characters x7Q2…16 characters 0a9ZkQ
//!              └ its family's ──┘ └ its own ───────┘ └ CRC-32
//! ```
//!
//! The first half is the same in all tokens of a family, so that a used one is known for what it is
//! however long ago it was replaced, and nothing has to be kept of it. Each half has 95 random bits.
//! Stored are the SHA-256 of the first half and of the whole. Deliberately absent: what a token is
//! good for at the moment, which is [`crate::session`].

use crate::error::Error;

use super::{Digest, ENTROPY_BYTES, SECRET_LEN, Secret, base62, opened, sealed};

/// What every refresh token begins with.
pub const PREFIX: &str = "svc_refresh_";

const FAMILY_LEN: usize = SECRET_LEN / 2;

/// A refresh token whose checksum is right. Never shown by `Debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshToken(Secret);

impl RefreshToken {
    /// The first token of a new family. `None` as for [`super::mint`].
    #[must_use]
    pub fn first(entropy: &[u8; ENTROPY_BYTES]) -> Option<Self> {
        base62(entropy, SECRET_LEN).map(|secret| Self(sealed(PREFIX, &secret)))
    }

    /// Another token of the same family. `None` as for [`super::mint`].
    #[must_use]
    pub fn sibling(&self, entropy: &[u8; ENTROPY_BYTES]) -> Option<Self> {
        let own = base62(entropy, SECRET_LEN - FAMILY_LEN)?;
        Some(Self(sealed(PREFIX, &format!("{}{own}", self.shared()))))
    }

    /// Reads the text of a token and proves its checksum. Whether there is such a one is not known
    /// yet.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] if no such token can ever have been made.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match opened(PREFIX, text) {
            Some(_) => Ok(Self(Secret(text.to_owned()))),
            None => Err(Error::InvalidToken("the refresh token is malformed".to_owned())),
        }
    }

    /// What its family is looked up by.
    #[must_use]
    pub fn family(&self) -> Digest {
        Digest::of(self.shared())
    }

    /// What is stored of the whole.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.0.digest()
    }

    /// The text, to be shown to whoever signed in.
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
        RefreshToken::first(&entropy(seed)).expect("enough of the bytes can be used")
    }

    #[test]
    fn a_refresh_token_looks_like_a_key_and_is_none() {
        let token = minted(1);
        let secret = token.expose().strip_prefix("svc_refresh_").expect("its prefix");
        assert_eq!(secret.len(), 32 + 6);
        assert_eq!(checksum(&secret[..32]), secret[32..]);
        assert!(super::super::is_ours(token.expose()));
        assert!(parse(token.expose()).is_err(), "it is no key");
        assert!(RefreshToken::parse(&format!("svc_live_{secret}")).is_err(), "nor the other way");
    }

    #[test]
    fn a_sibling_shares_the_family_and_nothing_else() {
        let first = minted(1);
        let next = first.sibling(&entropy(2)).expect("enough of the bytes can be used");
        assert_eq!(next.family(), first.family());
        assert_ne!(next.digest(), first.digest());
        assert_eq!(RefreshToken::parse(next.expose()), Ok(next.clone()));
        assert_ne!(next.expose()[28..44], first.expose()[28..44]);
        assert_ne!(minted(2).family(), first.family());
        assert_eq!(first.sibling(&[0xff; ENTROPY_BYTES]), None);
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
