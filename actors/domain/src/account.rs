//! Users: the stored record, and the rules for e-mail, name and role (docs/reference/accounts.md).
//!
//! The password rules are in [`password`], the limit on failed attempts in [`throttle`].

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use self::external::ExternalId;
use crate::Timestamp;
use crate::access::Role;
use crate::error::{Error, Rule};
use crate::id::UserId;
use crate::rate::Tier;

pub mod comparison;
pub mod external;
pub mod password;
pub mod recovery;
pub mod throttle;

/// The longest e-mail, in characters.
pub const MAX_EMAIL: usize = 254;

/// The longest name of a user or a key, in characters.
pub const MAX_NAME: usize = 100;

/// The fate of the unfinished work of a deleted user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkLeft {
    /// It is being cancelled.
    ToCancel,
    /// It was cancelled, or there was none.
    Cancelled,
    /// This user answers for it.
    HandedOver(UserId),
}

/// A user as it is stored.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The identifier.
    pub id: UserId,
    /// The e-mail to sign in with.
    pub email: Email,
    /// The name for people.
    pub name: String,
    /// The role, which grants the user's permissions.
    pub role: Role,
    /// The billing tier; `None` means the configured default.
    #[serde(rename = "plan")]
    pub tier: Option<Tier>,
    /// The hash of the password.
    pub password_hash: PasswordHash,
    /// True from an admin's change of the password until the user's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_change_password: bool,
    /// The identity of a user who signs in at a provider.
    pub external: Option<ExternalId>,
    /// The creation time.
    pub created_at: Timestamp,
}

/// An e-mail address: ASCII, no spaces, one `@`, the domain in lower case.
///
/// The owner's spelling is kept; addresses that differ only in case are the same account, see
/// [`Email::key`]. A domain outside ASCII is written in its `xn--` form, so that two addresses that
/// look alike are never two accounts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Email(String);

impl Email {
    /// Reads an e-mail address; spaces around it are dropped.
    ///
    /// # Errors
    /// [`Error::Invalid`], field `email`: rule `length` above [`MAX_EMAIL`], else `format`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.chars().count() > MAX_EMAIL {
            let message = format!("email must have at most {MAX_EMAIL} characters");
            return Err(Error::invalid("email", Rule::Length, message));
        }
        match text.split_once('@') {
            Some((local, domain)) if is_local_part(local) && is_domain(domain) => {
                Ok(Self(format!("{local}@{}", domain.to_ascii_lowercase())))
            }
            Some(_) | None => {
                let message = "email must be an address such as ada@example.com, in ASCII";
                Err(Error::invalid("email", Rule::Format, message))
            }
        }
    }

    /// The key for comparison and look-up: the address in lower case.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// The address as its owner wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The part before the `@`.
    #[must_use]
    pub fn local_part(&self) -> &str {
        self.0.split_once('@').map_or("", |(local, _)| local)
    }
}

impl fmt::Display for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// True for 1 to 64 characters that need no quoting in a mail's header, dots only between others.
fn is_local_part(text: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    text.len() <= 64 && text.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_plain))
}

/// True for labels of letters, digits and inner hyphens; one label is enough (`ada@localhost`).
fn is_domain(text: &str) -> bool {
    text.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}

/// The hash of a password as a PHC string, which holds the salt and the cost. `Debug` does not show
/// it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// Wraps a PHC string without checking it.
    #[must_use]
    pub const fn new(phc: String) -> Self {
        Self(phc)
    }

    /// The PHC string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// Reads the name of a user or a key: 1 to [`MAX_NAME`] characters once trimmed, none of them a
/// control character.
///
/// # Errors
/// [`Error::Invalid`], field `name`: rule `length`, or `pattern`.
pub fn display_name(text: &str) -> Result<String, Error> {
    let name = text.trim();
    if !(1..=MAX_NAME).contains(&name.chars().count()) {
        let message = format!("name must have 1 to {MAX_NAME} characters");
        return Err(Error::invalid("name", Rule::Length, message));
    }
    if name.chars().any(char::is_control) {
        let message = "name must have no control characters";
        return Err(Error::invalid("name", Rule::Pattern, message));
    }
    Ok(name.to_owned())
}

/// A change that an admin makes to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The user gets this role.
    Role(Role),
    /// The user is deleted.
    Deletion,
}

/// Passes if an admin remains after `change` of the user `id`.
///
/// # Errors
/// [`Error::InvalidState`] if none would remain, [`Error::NotFound`] if there is no such user.
pub fn keep_an_admin<'a>(
    users: impl IntoIterator<Item = &'a User>,
    id: UserId,
    change: Change,
) -> Result<(), Error> {
    let mut subject = None;
    let mut has_another_admin = false;
    for user in users {
        if user.id == id {
            subject = Some(user.role);
        } else {
            has_another_admin |= user.role == Role::Admin;
        }
    }
    let role = subject.ok_or_else(|| Error::not_found("user", id))?;
    let verb = match change {
        Change::Role(Role::Admin) => return Ok(()),
        Change::Role(
            Role::Operator | Role::Reviewer | Role::Viewer | Role::Worker | Role::Backup,
        ) => "demoted",
        Change::Deletion => "deleted",
    };
    if role == Role::Admin && !has_another_admin {
        let message = format!(
            "user {id} is the last admin and cannot be {verb}: make another user an admin first"
        );
        return Err(Error::InvalidState(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
