//! Users: what is kept of them, and the rules for their e-mail, name and role (SPEC.md, "User";
//! PROTOCOL.md 7).
//!
//! The rules for passwords are in [`password`], the limit on failed tries in [`throttle`].
//! Deliberately absent: hashing, which takes long on purpose and belongs to the edge, and sessions,
//! which are [`crate::session`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::access::Role;
use crate::error::{Error, Rule};
use crate::id::UserId;
use crate::rate::Plan;

pub mod password;
pub mod throttle;

/// The longest e-mail, in characters.
pub const MAX_EMAIL: usize = 254;

/// The longest name of a user or a key, in characters.
pub const MAX_NAME: usize = 100;

/// A user as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Its identifier.
    pub id: UserId,
    /// Its e-mail, by which it signs in.
    pub email: Email,
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Its plan, where it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The hash of its password.
    pub password_hash: PasswordHash,
    /// When it was made.
    pub created_at: Timestamp,
}

/// An e-mail that can be written to: ASCII, no spaces, one `@`, the domain in lower case.
///
/// It is shown as its owner wrote it; two that differ only in case are the same account, see
/// [`Email::key`]. A name outside ASCII is written in its `xn--` form, so that two e-mails which
/// look alike are never two accounts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Email(String);

impl Email {
    /// Reads an e-mail; spaces around it are dropped.
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

    /// What e-mails are compared and looked up by: all of it in lower case.
    #[must_use]
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What stands before the `@`.
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

/// 1 to 64 of the characters that need no quoting in a mail's header; dots only between others.
fn is_local_part(text: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte);
    text.len() <= 64 && text.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_plain))
}

/// Labels of letters, digits and inner hyphens; one alone will do, as in `ada@localhost`.
fn is_domain(text: &str) -> bool {
    text.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}

/// The hash of a password as a PHC string, which holds its salt and its cost. Never shown by
/// `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// Takes a PHC string as it is.
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

/// What an admin is about to do with a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Give it this role.
    Role(Role),
    /// Delete it.
    Deletion,
}

/// Passes if there will still be an admin after `change` of the user `id` (PROTOCOL.md 7).
///
/// # Errors
/// [`Error::InvalidState`] if there would be none, [`Error::NotFound`] if there is no such user.
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
    let deed = match change {
        Change::Role(Role::Admin) => return Ok(()),
        Change::Role(Role::Operator | Role::Viewer | Role::Worker) => "demoted",
        Change::Deletion => "deleted",
    };
    if role == Role::Admin && !has_another_admin {
        let message = format!("user {id} is the last admin and cannot be {deed}");
        return Err(Error::InvalidState(message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
