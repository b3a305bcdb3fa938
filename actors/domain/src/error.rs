//! Everything that a caller may be told, in one enum.
//!
//! The edge maps it to a status and a code in one exhaustive match (PROTOCOL.md 2). Deliberately
//! absent: what went wrong inside. That is logged where it is handled; the caller hears
//! [`Error::Internal`] or [`Error::Unavailable`].

use std::fmt;

use crate::Timestamp;
use crate::problem::Problems;

/// A refusal. Its text is a lower-case sentence that names the thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field breaks a rule.
    #[error("{0}")]
    Invalid(Fault),
    /// A plan, a template or an input has faults; all of them are told.
    #[error("{0}")]
    InvalidDefinition(Problems),
    /// The body is no JSON that the service takes.
    #[error("the body is not valid JSON: {0}")]
    InvalidJson(String),
    /// The body is no YAML that the service takes.
    #[error("the body is not valid YAML: {0}")]
    InvalidYaml(String),
    /// The callback address may not be called.
    #[error("{0} may not be called: it is not a public address")]
    CallbackForbidden(String),
    /// The password breaks the password rules.
    #[error("the password {0}")]
    WeakPassword(String),
    /// No credentials, or none that can be read.
    #[error("{0}")]
    Unauthorized(String),
    /// The token or key is not one of ours, or no longer valid.
    #[error("{0}")]
    InvalidToken(String),
    /// The token or key was valid once.
    #[error("the {0} has expired")]
    TokenExpired(&'static str),
    /// E-mail or password are wrong; which of them is not told.
    #[error("the e-mail or the password is wrong")]
    InvalidCredentials,
    /// The role may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such thing, or the caller may not know of it.
    #[error("{kind} {id} does not exist")]
    NotFound {
        /// What was looked for, such as `task`.
        kind: &'static str,
        /// Its identifier as given, shortened.
        id: String,
    },
    /// There is no such path.
    #[error("there is nothing at this path")]
    NoRoute,
    /// The path exists, the method does not.
    #[error("{method} is not allowed here, only {allow}")]
    MethodNotAllowed {
        /// The method that was used.
        method: String,
        /// The methods that exist, separated by a comma and a space.
        allow: String,
    },
    /// The thing is in a state in which this cannot be done.
    #[error("{0}")]
    InvalidState(String),
    /// The approval was decided before.
    #[error("{task} was already decided by {by} at {at}")]
    AlreadyDecided {
        /// The task.
        task: String,
        /// Who decided.
        by: String,
        /// When.
        at: Timestamp,
    },
    /// A request with the same idempotency key is still under way.
    #[error("a request with this idempotency key is still under way")]
    IdempotencyKeyInUse,
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used before with another body")]
    IdempotencyKeyReused,
    /// There is another template with this identifier and version.
    #[error("template {id} {version} already exists with other content")]
    VersionExists {
        /// The template.
        id: String,
        /// The version.
        version: String,
    },
    /// What it costs at worst does not fit into what may be spent.
    #[error("{0}")]
    BudgetExceeded(String),
    /// Another account has this e-mail.
    #[error("a user with the e-mail {0} already exists")]
    EmailExists(String),
    /// The body is too large.
    #[error("the body is larger than {limit} bytes")]
    PayloadTooLarge {
        /// What is taken, in bytes.
        limit: usize,
    },
    /// The body did not arrive in time.
    #[error("the body did not arrive within {seconds} seconds")]
    BodyTooSlow {
        /// How long was waited, in seconds.
        seconds: u64,
    },
    /// The request's line and headers are too large.
    #[error("the headers are larger than {limit} bytes")]
    HeadersTooLarge {
        /// What is taken, in bytes.
        limit: usize,
    },
    /// The body is of a kind that is not taken.
    #[error("the content type must be {0}")]
    UnsupportedMediaType(&'static str),
    /// Too many requests.
    #[error("more than {limit} requests in a minute")]
    RateLimited {
        /// Requests per minute.
        limit: u32,
        /// When the next request will be taken, in whole seconds from now, at least 1.
        retry_after: u64,
    },
    /// Something broke inside; nothing of it is told.
    #[error("something went wrong on our side")]
    Internal,
    /// Not now: starting, draining, too busy, or the disk failed.
    #[error("the service cannot take this right now: {0}")]
    Unavailable(&'static str),
}

impl Error {
    /// A field breaks a rule; `message` says what would be right.
    pub fn invalid(field: impl Into<String>, rule: Rule, message: impl Into<String>) -> Self {
        Self::Invalid(Fault { field: field.into(), rule, message: message.into() })
    }

    /// Nothing is known by `id`. At most 64 characters of it are repeated.
    #[must_use]
    pub fn not_found(kind: &'static str, id: impl fmt::Display) -> Self {
        Self::NotFound { kind, id: id.to_string().chars().take(64).collect() }
    }
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The field, as a path such as `tasks[2].prompt`.
    pub field: String,
    /// The rule.
    pub rule: Rule,
    /// What is wrong and what would be right.
    pub message: String,
}

/// The rules that a field can break (PROTOCOL.md 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It must be there.
    Required,
    /// It must be of another type.
    Type,
    /// The number lies outside its range.
    Range,
    /// The text does not match its pattern.
    Pattern,
    /// It must be one of a few values.
    Enum,
    /// Too short, too long, too many, too few.
    Length,
    /// There is no such field.
    Unknown,
    /// The text is not of its format (an instant, an address, an e-mail).
    Format,
    /// The name is reserved.
    Reserved,
    /// A `{{…}}` that cannot be resolved.
    Placeholder,
    /// It names no step.
    Step,
    /// A schema refers to something outside itself.
    Ref,
}

impl Rule {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Type => "type",
            Self::Range => "range",
            Self::Pattern => "pattern",
            Self::Enum => "enum",
            Self::Length => "length",
            Self::Unknown => "unknown",
            Self::Format => "format",
            Self::Reserved => "reserved",
            Self::Placeholder => "placeholder",
            Self::Step => "step",
            Self::Ref => "ref",
        }
    }
}
