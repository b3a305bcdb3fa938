//! API keys: their format, their stored record, their lifetime (docs/reference/accounts.md).
//!
//! ```text
//! svc_live_ 8Vw0…32 characters…qT3 0a9ZkQ
//! └ kind ─┘ └─ secret, base62 ───┘ └ CRC-32 of the 32, base62, zero-padded
//! ```
//!
//! The checksum lets a mistyped key be refused before any look-up; it is no secret. The store has the
//! SHA-256 of the whole text and its last four characters. A plain hash is enough, because the
//! secret has 190 random bits. Refresh tokens have the same format, see [`refresh`]. Deliberately
//! absent: randomness, which the caller passes in, and the time of a key's last use, which changes
//! with every request and is kept apart from the record.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use zeroize::Zeroizing;

use crate::Timestamp;
use crate::access::{Account, Role, covers};
use crate::digest::Digest;
use crate::error::{Error, Rule};
use crate::id::{Environment, KeyId, Mode, UserId};
use crate::rate::Tier;

pub mod invitation;
mod notice;
pub mod refresh;
pub mod selection;

pub use notice::NOTICES;

/// The number of random bytes that [`mint`] takes. [`mint`] needs 32 bytes whose lower six bits are below
/// 62; the chance that 64 bytes hold fewer is under 2^-100.
pub const ENTROPY_BYTES: usize = 64;

const SECRET_LEN: usize = 32;
const CHECKSUM_LEN: usize = 6;
/// The characters of the number of a project, and of its check.
const NUMBER_LEN: usize = 3;
const CHECK_LEN: usize = 2;
/// The highest number of a project that a key can name.
pub const MAX_PROJECT: u32 = 62 * 62 * 62 - 1;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The kind of a key, which its prefix names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A key for production, with the permissions of its role.
    Live,
    /// A key for the sandbox.
    Test,
    /// A key that runs tasks and does nothing else.
    Worker,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Live, Self::Test, Self::Worker];

    /// The beginning of such a key.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Live => "svc_live_",
            Self::Test => "svc_test_",
            Self::Worker => "svc_worker_",
        }
    }

    /// The kind of a key with this role in production or the sandbox.
    ///
    /// # Errors
    /// [`Error::Invalid`], field `role`, rule `enum`: a test key is an operator's, a reviewer's or a viewer's.
    pub fn of(role: Role, mode: Mode) -> Result<Self, Error> {
        match (mode, role) {
            (Mode::Live, Role::Worker) => Ok(Self::Worker),
            (
                Mode::Live,
                Role::Admin | Role::Operator | Role::Reviewer | Role::Viewer | Role::Backup,
            ) => Ok(Self::Live),
            (Mode::Test, Role::Operator | Role::Reviewer | Role::Viewer) => Ok(Self::Test),
            (Mode::Test, Role::Admin | Role::Worker | Role::Backup) => {
                let message = "the role of a test key must be one of operator, reviewer, viewer";
                Err(Error::invalid("role", Rule::Enum, message))
            }
        }
    }
}

/// The whole text of a key or a refresh token. The text is shown only once, and not by `Debug`; a drop
/// overwrites it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text, for the client that asked for it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The stored form, by which the key is found.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.0)
    }

    /// The last four characters, by which people distinguish keys.
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

/// Makes a key of the project with this number. Every base62 character is equally likely in every position: six bits of
/// each byte select a character, and the two values without one are skipped. Five of the characters name a project
/// other than `default`, and 160 random bits remain.
///
/// Returns `None` if too few bytes select a character, which does not happen with random bytes, and if a key of
/// `default` would name another project by chance, once in 3,844 times.
#[must_use]
pub fn mint(kind: Kind, project: u32, entropy: &[u8; ENTROPY_BYTES]) -> Option<Secret> {
    let random = base62(entropy, SECRET_LEN)?;
    let secret = if project == 0 {
        Some(random).filter(|secret| project_in(secret).is_none())?
    } else {
        let number = digits(project, NUMBER_LEN);
        let rest = &random[NUMBER_LEN + CHECK_LEN..];
        format!("{number}{}{rest}", check_of(&number, rest))
    };
    Some(with_checksum(kind.prefix(), &secret))
}

/// The number of the project that a key names; `None` for a key of `default`, and for a text that is no key.
#[must_use]
pub fn project_named(text: &str) -> Option<u32> {
    let secret = Kind::ALL.into_iter().find_map(|kind| checked(kind.prefix(), text))?;
    project_in(secret)
}

fn project_in(secret: &str) -> Option<u32> {
    let (number, rest) = secret.split_at_checked(NUMBER_LEN)?;
    let (check, rest) = rest.split_at_checked(CHECK_LEN)?;
    if check != check_of(number, rest) {
        return None;
    }
    let value = |sum: u32, character: u8| {
        let digit = ALPHABET.iter().position(|it| *it == character)?;
        Some(sum * 62 + u32::try_from(digit).ok()?)
    };
    number.bytes().try_fold(0, value).filter(|number| *number > 0)
}

/// The check of a project's number, over the rest of the secret as well.
fn check_of(number: &str, rest: &str) -> String {
    let crc = crc32fast::hash(format!("project {number}{rest}").as_bytes());
    digits(crc % 3_844, CHECK_LEN)
}

/// `length` random characters.
fn base62(entropy: &[u8; ENTROPY_BYTES], length: usize) -> Option<String> {
    let text: String = entropy
        .iter()
        .filter_map(|byte| ALPHABET.get(usize::from(byte & 63)))
        .take(length)
        .map(|character| char::from(*character))
        .collect();
    (text.len() == length).then_some(text)
}

fn with_checksum(prefix: &str, secret: &str) -> Secret {
    Secret(Zeroizing::new(format!("{prefix}{secret}{}", checksum(secret))))
}

/// The secret in a text with this prefix and a valid checksum.
fn checked<'a>(prefix: &str, text: &'a str) -> Option<&'a str> {
    let rest = text.strip_prefix(prefix)?;
    let is_base62 = rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if rest.len() != SECRET_LEN + CHECKSUM_LEN || !is_base62 {
        return None;
    }
    let (secret, given) = rest.split_at(SECRET_LEN);
    (checksum(secret) == given).then_some(secret)
}

/// True for a credential with the prefix of this service, which only [`parse`] may read; any other
/// credential is an access token.
#[must_use]
pub fn has_service_prefix(text: &str) -> bool {
    text.starts_with("svc_")
}

/// Reads a key and verifies its checksum. The key need not exist.
///
/// # Errors
/// [`Error::InvalidToken`] if the text cannot be a key.
pub fn parse(text: &str) -> Result<(Kind, Digest), Error> {
    Kind::ALL
        .into_iter()
        .find(|kind| checked(kind.prefix(), text).is_some())
        .map(|kind| (kind, Digest::of(text)))
        .ok_or_else(|| {
            Error::InvalidToken("the API key is malformed: check that it is complete".to_owned())
        })
}

/// CRC-32 in base62, most significant character first, zero-padded to six.
fn checksum(secret: &str) -> String {
    digits(crc32fast::hash(secret.as_bytes()), CHECKSUM_LEN)
}

/// A number in base62, most significant character first, zero-padded.
fn digits(mut number: u32, length: usize) -> String {
    let mut text = vec![b'0'; length];
    for place in text.iter_mut().rev() {
        *place = ALPHABET[usize::try_from(number % 62).expect("less than 62")];
        number /= 62;
    }
    text.into_iter().map(char::from).collect()
}

/// The stored record of an API key.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// The identifier.
    pub id: KeyId,
    /// The name for people.
    pub name: String,
    /// The role, which grants the key's permissions.
    pub role: Role,
    /// Production or sandbox.
    pub environment: Environment,
    /// The billing tier; `None` means the configured default.
    #[serde(rename = "plan")]
    pub tier: Option<Tier>,
    /// The queues that a worker key is bound to; empty for one that may serve every queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<String>,
    /// The SHA-256 of the key.
    pub digest: Digest,
    /// The first characters of the key, such as `svc_live_`.
    pub prefix: String,
    /// The last four characters of the key.
    pub last4: String,
    /// The creation time.
    pub created_at: Timestamp,
    /// The first instant at which the key is refused as expired.
    pub expires_at: Timestamp,
    /// The first instant at which the key is refused as revoked; in the future while a rotated key
    /// overlaps with its successor.
    pub revoked_at: Option<Timestamp>,
    /// The account that asked for the key; `None` for the program itself, and for a key older than
    /// this field.
    pub created_by: Option<Account>,
    /// The user who answers for the key: the user who asked for it, or the one who answers for the key
    /// that asked.
    pub user: Option<UserId>,
}

/// The state of a key at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStatus {
    /// The key is accepted.
    Active,
    /// The key is past its lifetime.
    Expired,
    /// The key was revoked.
    Revoked,
}

impl KeyStatus {
    /// The name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl ApiKey {
    /// The state of the key at `now`.
    #[must_use]
    pub fn status(&self, now: Timestamp) -> KeyStatus {
        if self.revoked_at.is_some_and(|revoked| revoked <= now) {
            KeyStatus::Revoked
        } else if self.expires_at <= now {
            KeyStatus::Expired
        } else {
            KeyStatus::Active
        }
    }

    /// Passes if the key is valid at `now`.
    ///
    /// # Errors
    /// [`Error::InvalidToken`] once revoked, [`Error::TokenExpired`] once expired.
    pub fn check(&self, now: Timestamp) -> Result<(), Error> {
        match self.status(now) {
            KeyStatus::Active => Ok(()),
            KeyStatus::Revoked => {
                Err(Error::InvalidToken("the API key was revoked: use another one".to_owned()))
            }
            KeyStatus::Expired => Err(Error::TokenExpired("API key")),
        }
    }

    /// The first instant at which the key is refused.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        self.revoked_at.map_or(self.expires_at, |revoked| revoked.min(self.expires_at))
    }

    /// The lifetime with which the key was created, which its successor gets as well.
    #[must_use]
    pub fn lifetime(&self) -> Duration {
        self.expires_at.since(self.created_at)
    }

    /// Passes if the key can have a successor at `now`: it is active, and has none yet.
    ///
    /// # Errors
    /// [`Error::InvalidState`].
    pub fn check_rotation(&self, now: Timestamp) -> Result<(), Error> {
        let state = match (self.status(now), self.revoked_at) {
            (KeyStatus::Active, None) => return Ok(()),
            (KeyStatus::Active, Some(_)) => "already rotated",
            (KeyStatus::Revoked, _) => "revoked",
            (KeyStatus::Expired, _) => "expired",
        };
        Err(Error::InvalidState(format!(
            "key {} is {state} and cannot be rotated: create a new key",
            self.id
        )))
    }

    /// True if `user` answers for the key and could no longer give its role; `role` is the user's
    /// new role, `None` for a deleted user.
    #[must_use]
    pub fn ends_with(&self, user: UserId, role: Option<Role>) -> bool {
        self.user == Some(user) && !role.is_some_and(|role| covers(role, self.role))
    }

    /// The key with a revocation from `at` on; an earlier revocation stands.
    #[must_use]
    pub fn revoked(mut self, at: Timestamp) -> Self {
        self.revoked_at = Some(self.revoked_at.map_or(at, |before| before.min(at)));
        self
    }
}

/// The lifetime of a key created without `expiresIn`: 90 days.
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

/// Reads the `overlap` of a rotation, during which the old key stays valid: `30s`, `15m`, `1h`, `7d`.
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

/// A number without sign or leading zero; saturates.
fn whole_number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
