//! The salt of a history: 128 random bits, without which its commitments reveal no text.
//!
//! ```text
//!   commitment = SHA-256 of the salt's 16 bytes and the text's UTF-8 bytes
//! ```
//!
//! The history holds commitments only. Salt and texts have rows of their own, so removing those rows
//! erases the texts, and the chain still verifies. A history that an earlier version began has no salt;
//! its commitments are the SHA-256 of the text alone.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;

/// 128 random bits, written as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt([u8; 16]);

impl Salt {
    /// The salt of these random bits.
    #[must_use]
    pub const fn of(random: u128) -> Self {
        Self(random.to_be_bytes())
    }

    /// The commitment to a text; without a salt, its plain digest.
    #[must_use]
    pub fn commit(salt: Option<Self>, text: &str) -> Digest {
        Digest::of_parts(salt.as_ref().map_or(&[], |salt| &salt.0[..]), text)
    }
}

impl fmt::Display for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A salt stays out of logs: beside a commitment it lets texts be guessed.
impl fmt::Debug for Salt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salt(…)")
    }
}

/// A text that is not a salt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a salt in hexadecimal, 32 digits")]
pub struct InvalidSalt;

impl FromStr for Salt {
    type Err = InvalidSalt;

    fn from_str(text: &str) -> Result<Self, InvalidSalt> {
        let is_salt = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_salt.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(Self::of).ok_or(InvalidSalt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commitment_depends_on_the_salt_and_the_text() {
        let salt = Salt::of(7);
        let made = Salt::commit(Some(salt), "yes");
        assert_eq!(made, Salt::commit(Some(salt), "yes"));
        assert_ne!(made, Salt::commit(Some(Salt::of(8)), "yes"));
        assert_ne!(made, Salt::commit(Some(salt), "no"));
        assert_eq!(Salt::commit(None, "yes"), Digest::of("yes"));
        // printf '\0…\7yes' | sha256sum
        let mut bytes = [0; 19];
        bytes[15] = 7;
        bytes[16..].copy_from_slice(b"yes");
        assert_eq!(made, Digest::of_parts(&bytes, ""));
    }

    #[test]
    fn a_salt_is_read_as_it_is_written() {
        for random in [0, 1, u128::MAX, 0x0123_4567] {
            let salt = Salt::of(random);
            assert_eq!(salt.to_string().parse(), Ok(salt));
        }
        for wrong in ["", "0", &"g".repeat(32), &"+".repeat(32), &"0".repeat(33)] {
            assert_eq!(wrong.parse::<Salt>(), Err(InvalidSalt), "{wrong}");
        }
        assert_eq!(format!("{:?}", Salt::of(1)), "Salt(…)");
    }
}
