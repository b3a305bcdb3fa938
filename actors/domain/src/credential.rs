//! API keys: how they are made, recognised, stored and ended (SPEC.md, "API keys"; PROTOCOL.md 7).
//!
//! ```text
//! svc_live_ 8Vw0…32 characters…qT3 0a9ZkQ
//! └ kind ─┘ └─ secret, base62 ───┘ └ CRC-32 of the 32, base62, zero-padded
//! ```
//!
//! The checksum lets a mistyped key be refused before any look-up; it is no secret. Stored are the
//! SHA-256 of the whole text and its last four characters. A plain hash is enough, because the
//! secret has 190 random bits. Refresh tokens are made the same way, see [`refresh`]. Deliberately
//! absent: randomness, which the caller passes in; and when a key was last used, which changes with
//! every request and is kept apart from the record.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::access::Role;
use crate::digest::Digest;
use crate::error::{Error, Rule};
use crate::id::{Environment, KeyId};
use crate::rate::Plan;

pub mod refresh;

/// Random bytes that [`mint`] takes. It needs 32 of which six bits are below 62; that 64 do not
/// hold as many has a chance under 2^-100.
pub const ENTROPY_BYTES: usize = 64;

const SECRET_LEN: usize = 32;
const CHECKSUM_LEN: usize = 6;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What a key's first characters say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Production, by the key's role.
    Live,
    /// The sandbox only.
    Test,
    /// Runs tasks and nothing else.
    Worker,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Live, Self::Test, Self::Worker];

    /// What the text of such a key begins with.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Live => "svc_live_",
            Self::Test => "svc_test_",
            Self::Worker => "svc_worker_",
        }
    }

    /// The kind that a key of this role and environment is.
    ///
    /// # Errors
    /// [`Error::Invalid`], field `role`, rule `enum`: a test key is an operator's or a viewer's.
    pub fn of(role: Role, environment: Environment) -> Result<Self, Error> {
        match (environment, role) {
            (Environment::Live, Role::Worker) => Ok(Self::Worker),
            (Environment::Live, Role::Admin | Role::Operator | Role::Viewer) => Ok(Self::Live),
            (Environment::Test, Role::Operator | Role::Viewer) => Ok(Self::Test),
            (Environment::Test, Role::Admin | Role::Worker) => {
                let message = "the role of a test key must be one of operator, viewer";
                Err(Error::invalid("role", Rule::Enum, message))
            }
        }
    }
}

/// The whole text of a key or a refresh token. It is shown once, and never by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, to be shown to whoever asked for it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored of it, and looked up by.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }

    /// Its last four characters, by which people tell keys apart.
    #[must_use]
    pub fn last4(&self) -> &str {
        &self.0[self.0.len() - 4..]
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Makes the text of a key. Every base62 character is equally likely in every place: of each byte
/// six bits are taken, and the two values that stand for no character are skipped.
///
/// Returns `None` if too few of the bytes could be used, which does not happen with random ones.
#[must_use]
pub fn mint(kind: Kind, entropy: &[u8; ENTROPY_BYTES]) -> Option<Secret> {
    base62(entropy, SECRET_LEN).map(|secret| sealed(kind.prefix(), &secret))
}

/// Random characters, `length` of them.
fn base62(entropy: &[u8; ENTROPY_BYTES], length: usize) -> Option<String> {
    let text: String = entropy
        .iter()
        .filter_map(|byte| ALPHABET.get(usize::from(byte & 63)))
        .take(length)
        .map(|character| char::from(*character))
        .collect();
    (text.len() == length).then_some(text)
}

/// A secret between its prefix and its checksum.
fn sealed(prefix: &str, secret: &str) -> Secret {
    Secret(format!("{prefix}{secret}{}", checksum(secret)))
}

/// The secret of a text that has this prefix and the right checksum.
fn opened<'a>(prefix: &str, text: &'a str) -> Option<&'a str> {
    let rest = text.strip_prefix(prefix)?;
    let is_base62 = rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if rest.len() != SECRET_LEN + CHECKSUM_LEN || !is_base62 {
        return None;
    }
    let (secret, given) = rest.split_at(SECRET_LEN);
    (checksum(secret) == given).then_some(secret)
}

/// Whether a credential claims to be one of the service's own rather than an access token: it is
/// then to be read by [`parse`] and by nothing else.
#[must_use]
pub fn is_ours(text: &str) -> bool {
    text.starts_with("svc_")
}

/// Reads the text of a key and proves its checksum. Whether such a key exists is not known yet.
///
/// # Errors
/// [`Error::InvalidToken`] if no such key can ever have been made.
pub fn parse(text: &str) -> Result<(Kind, Digest), Error> {
    Kind::ALL
        .into_iter()
        .find(|kind| opened(kind.prefix(), text).is_some())
        .map(|kind| (kind, Digest::of(text)))
        .ok_or_else(|| Error::InvalidToken("the API key is malformed".to_owned()))
}

/// CRC-32 in base62, most significant character first, zero-padded to six.
fn checksum(secret: &str) -> String {
    let mut rest = crc32fast::hash(secret.as_bytes());
    let mut text = [b'0'; CHECKSUM_LEN];
    for place in text.iter_mut().rev() {
        *place = ALPHABET[usize::try_from(rest % 62).expect("less than 62")];
        rest /= 62;
    }
    text.into_iter().map(char::from).collect()
}

/// What is stored of an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Its identifier.
    pub id: KeyId,
    /// What its maker calls it.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The keyspace it sees.
    pub environment: Environment,
    /// Its plan, where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The SHA-256 of its text.
    pub digest: Digest,
    /// The first characters of its text, such as `svc_live_`.
    pub prefix: String,
    /// The last four characters of its text.
    pub last4: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// The first instant at which it is no longer taken.
    pub expires_at: Timestamp,
    /// The first instant at which it is refused as revoked; may lie ahead while a rotated key
    /// overlaps with its successor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Passes if the key is valid at `now`.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] once revoked, [`Error::TokenExpired`] once expired.
    pub fn check(&self, now: Timestamp) -> Result<(), Error> {
        if self.revoked_at.is_some_and(|revoked| revoked <= now) {
            Err(Error::InvalidToken("the API key was revoked".to_owned()))
        } else if self.expires_at <= now {
            Err(Error::TokenExpired("API key"))
        } else {
            Ok(())
        }
    }

    /// The key as revoked from `at` on; an earlier revocation stands.
    #[must_use]
    pub fn revoked(mut self, at: Timestamp) -> Self {
        self.revoked_at = Some(self.revoked_at.map_or(at, |before| before.min(at)));
        self
    }
}

/// The lifetime of a key that is made without one: 90 days (SPEC.md, "JWT sessions").
pub const DEFAULT_LIFETIME: Duration = days(90);

const MAX_DAYS: u64 = 36_500;

const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 86_400)
}

/// Reads `expiresIn`: whole days, `1d` to `36500d`.
///
/// # Errors
/// [`Error::Invalid`], field `expiresIn`: rule `format`, or `range`.
pub fn lifetime(text: &str) -> Result<Duration, Error> {
    let count = text.strip_suffix('d').and_then(whole_number);
    let message = "expiresIn must be a number of days from 1d to 36500d";
    match count {
        Some(count @ 1..=MAX_DAYS) => Ok(days(count)),
        Some(_) => Err(Error::invalid("expiresIn", Rule::Range, message)),
        None => Err(Error::invalid("expiresIn", Rule::Format, message)),
    }
}

/// Reads the `overlap` of a rotation, for which the old key lives on: `30s`, `15m`, `1h`, `7d`.
///
/// # Errors
/// [`Error::Invalid`], field `overlap`: rule `format`, or `range` above 36500 days.
pub fn overlap(text: &str) -> Result<Duration, Error> {
    let message = "overlap must be a duration such as 30s, 15m, 1h or 7d, of at most 36500d";
    let format = || Error::invalid("overlap", Rule::Format, message);
    let (number, unit) =
        text.char_indices().last().map(|(at, unit)| (&text[..at], unit)).ok_or_else(format)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(format()),
    };
    let total = whole_number(number).ok_or_else(format)?.saturating_mul(seconds);
    let overlap = Duration::from_secs(total);
    if overlap > days(MAX_DAYS) {
        return Err(Error::invalid("overlap", Rule::Range, message));
    }
    Ok(overlap)
}

/// A number without sign or leading zero; one too large for any limit counts as the largest.
fn whole_number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// Reads a key's name: 1 to 100 characters once trimmed, none of them a control character.
///
/// # Errors
/// [`Error::Invalid`], field `name`: rule `length`, or `pattern`.
pub fn name(text: &str) -> Result<String, Error> {
    crate::account::display_name(text)
}

#[cfg(test)]
mod tests;
