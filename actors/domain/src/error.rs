//! All refusals that a caller may receive, in one enum.
//!
//! The edge maps each to a status and a code in one exhaustive match (docs/reference/errors.md). Deliberately
//! absent: internal causes. The code that handles one logs it; the caller receives
//! [`Error::Internal`] or [`Error::Unavailable`].

use std::fmt;

use crate::Timestamp;
use crate::execution::Use;
use crate::names::names;
use crate::problem::Problems;

/// A refusal, whose text is a lower-case sentence that names the thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field breaks a rule.
    #[error("{0}")]
    Invalid(Fault),
    /// A plan, a template or an input has faults; the error carries all of them.
    #[error("{0}")]
    InvalidDefinition(Problems),
    /// The body is not JSON, or exceeds the limits of JSON bodies.
    #[error("the body is not valid JSON: {0}")]
    InvalidJson(String),
    /// The body is not YAML, or exceeds the limits of YAML bodies.
    #[error("the body is not valid YAML: {0}")]
    InvalidYaml(String),
    /// The callback URL leads to an address inside the network.
    #[error("{field} {url} must lead to a public address, or to one that webhooks.allow lists")]
    CallbackForbidden {
        /// The field, as a path such as `tasks[2].callbackUrl`.
        field: String,
        /// The address.
        url: String,
    },
    /// The password breaks one of the password rules.
    #[error("the password {0}")]
    WeakPassword(String),
    /// The request has no credentials, or unreadable ones.
    #[error("{0}")]
    Unauthorized(String),
    /// The token or key was not issued by this service, or was revoked.
    #[error("{0}")]
    InvalidToken(String),
    /// The token or key is past its lifetime.
    #[error("the {0} has expired: {cure}", cure = renewal(.0))]
    TokenExpired(&'static str),
    /// The e-mail or the password is wrong; the caller may not learn which.
    #[error("wrong e-mail or password")]
    InvalidCredentials,
    /// The caller lacks the permission.
    #[error("{0}")]
    Forbidden(String),
    /// An admin set the caller's password: only a change of the password is permitted.
    #[error("the password must be changed first, at POST /api/auth/password")]
    PasswordChangeRequired,
    /// The resource does not exist, or the caller may not know of it.
    #[error("{kind} {id} does not exist")]
    NotFound {
        /// The kind of resource, such as `task`.
        kind: &'static str,
        /// The identifier as given, shortened.
        id: String,
    },
    /// The path does not exist.
    #[error("no route matches this path: GET /api/openapi.json lists all")]
    NoRoute,
    /// The path exists, the method does not.
    #[error("method {method} is not allowed here; allowed: {allow}")]
    MethodNotAllowed {
        /// The method of the request.
        method: String,
        /// The methods of the path, separated by a comma and a space.
        allow: String,
    },
    /// The state of the resource does not permit this.
    #[error("{0}")]
    InvalidState(String),
    /// The approval has a decision.
    #[error("{task} was already decided by {by} at {at}")]
    AlreadyDecided {
        /// The task of the approval.
        task: String,
        /// The reviewer, or `system`.
        by: String,
        /// The time of the decision.
        at: Timestamp,
    },
    /// Others have gone by the decision on an output, so it cannot be taken back.
    #[error(
        "the output of task {task} was used ({uses}), so its decision stays: ask with asCorrection for another \
         one beside it",
        uses = named(used_by)
    )]
    OutputUsed {
        /// The task of the approval.
        task: String,
        /// The uses that are known.
        used_by: Vec<Use>,
    },
    /// Another request with the same idempotency key has no result yet.
    #[error(
        "a request with this idempotency key is still running: send this again once it is answered"
    )]
    IdempotencyKeyInUse,
    /// The idempotency key belongs to another request.
    #[error("this idempotency key was already used with a different body: use another key")]
    IdempotencyKeyReused,
    /// Another template has this identifier and version.
    #[error(
        "template {id} {version} already exists, or was deleted, with different content: publish this content \
         as a higher version"
    )]
    VersionExists {
        /// The template's identifier.
        id: String,
        /// The version.
        version: String,
    },
    /// The worst-case cost exceeds the budget.
    #[error("{0}")]
    BudgetExceeded(String),
    /// Another account has this e-mail.
    #[error("a user with the e-mail {0} already exists")]
    EmailExists(String),
    /// The body is too large.
    #[error("the body is larger than {limit} bytes")]
    PayloadTooLarge {
        /// The largest accepted body, in bytes.
        limit: usize,
    },
    /// The range of a file begins behind its end.
    #[error("the range begins behind the end of the file, which has {bytes} bytes")]
    RangeNotSatisfiable {
        /// The bytes of the file.
        bytes: u64,
    },
    /// The body did not arrive in time.
    #[error("the body did not arrive within {seconds} seconds")]
    BodyTooSlow {
        /// The time limit, in seconds.
        seconds: u64,
    },
    /// The request line and the headers are too large.
    #[error("the headers are larger than {limit} bytes")]
    HeadersTooLarge {
        /// The largest accepted headers, in bytes.
        limit: usize,
    },
    /// The body has an unsupported content type; the text names the supported ones.
    #[error("the content type must be {0}")]
    UnsupportedMediaType(&'static str),
    /// The account's request quota is used up.
    #[error(
        "the rate limit of {limit} requests per minute is reached: send this again in {retry_after} s"
    )]
    RateLimited {
        /// Requests per minute.
        limit: u32,
        /// The wait until a request is admitted, in whole seconds, at least 1.
        retry_after: u64,
    },
    /// Too much of the account waits for its turn to be computed.
    #[error(
        "the account has {limit} {what} waiting for a processor, which is its limit: send this again once \
         some of its requests are answered"
    )]
    TooMuchWaits {
        /// The counted thing: requests or bytes.
        what: &'static str,
        /// The account's limit.
        limit: usize,
    },
    /// The address has as many connections open as it may.
    #[error(
        "the address has {limit} connections open, which is its limit \
         ([server] connections_per_address): close one first"
    )]
    TooManyConnections {
        /// The address's limit.
        limit: u32,
    },
    /// The account has as many of these open as it may.
    #[error("the account has {limit} {what} open, which is its limit: close one first")]
    TooManyOpen {
        /// The kind of connection, such as `event streams`.
        what: &'static str,
        /// The account's limit.
        limit: u32,
    },
    /// The account has as many unfinished tasks as it may.
    #[error(
        "the account has {has} unfinished tasks and may have {limit} ([limits] unfinished_tasks): wait for \
         some to end, or cancel some"
    )]
    TooManyUnfinished {
        /// The current number.
        has: u32,
        /// The account's limit.
        limit: u32,
    },
    /// The account has as many schedules as it may.
    #[error(
        "the account has {has} schedules and may have {limit} ([limits] schedules): delete some that it does \
         not need"
    )]
    TooManySchedules {
        /// The current number.
        has: u32,
        /// The account's limit.
        limit: u32,
    },
    /// The account stores as much as it may.
    #[error(
        "the account stores about {stored} bytes and may store {limit} ([limits] stored_bytes): what has \
         ended is removed after [retention] ended; files can be deleted"
    )]
    QuotaExceeded {
        /// The approximate number of bytes that the account stores.
        stored: u64,
        /// The account's limit, in bytes.
        limit: u64,
    },
    /// The account's unfinished bodies and frames take as much memory as they may.
    #[error(
        "the account's unfinished bodies and frames take {limit} bytes, which is its limit: finish one first"
    )]
    TooMuchUnfinished {
        /// The account's limit, in bytes.
        limit: usize,
    },
    /// Everything is paused, and new work is refused meanwhile.
    #[error(
        "everything is paused since {since}, and new work is refused until it is resumed: {reason}"
    )]
    Paused {
        /// The beginning of the pause.
        since: Timestamp,
        /// The reason that was given.
        reason: String,
    },
    /// The disk has too little room for new work.
    #[error(
        "the disk of the data directory has {free} bytes free, and new work needs {needed} ([store] min_free_bytes): \
         make room for {} more; running work goes on",
        needed.saturating_sub(*free)
    )]
    DiskLow {
        /// The free bytes.
        free: u64,
        /// The bytes that must be free.
        needed: u64,
    },
    /// The disk is full: what adds something is refused.
    #[error(
        "the disk of the data directory is full ({free} bytes free): until it has {needed}, no work, decision, signal \
         or definition is accepted and no task is leased; make room for {} more. Reads, cancels, deletes and erasure \
         go on",
        needed.saturating_sub(*free)
    )]
    DiskFull {
        /// The free bytes.
        free: u64,
        /// The bytes that must be free.
        needed: u64,
    },
    /// A bug or a damaged row; the caller learns no details.
    #[error("internal error")]
    Internal,
    /// The service is starting, draining or overloaded, or the disk failed.
    #[error("the service is unavailable: {0}")]
    Unavailable(&'static str),
}

/// The way to another credential of this kind.
fn renewal(kind: &str) -> &'static str {
    match kind {
        "API key" => "make another one with callboard keys create",
        "access token" => "renew it at POST /api/auth/refresh, or sign in again",
        "invitation" => "ask an admin for another one",
        "setup link" => "restart the server, which prints another one",
        _ => "sign in again",
    }
}

/// The uses of an output, in words.
fn named(uses: &[Use]) -> String {
    let named: Vec<_> = uses.iter().map(|it| format!("{} {}", it.kind, it.id)).collect();
    named.join(", ")
}

impl Error {
    /// A field breaks a rule; `message` names the field, the fault and the remedy.
    pub fn invalid(field: impl Into<String>, rule: Rule, message: impl Into<String>) -> Self {
        Self::Invalid(Fault { field: field.into(), rule, message: message.into() })
    }

    /// The same refusal of a part of a request: the paths of its fields begin with `outer`, such as
    /// `tasks[2]`.
    #[must_use]
    pub fn within(self, outer: &str) -> Self {
        if let Self::Invalid(Fault { field, rule, message }) = self {
            let message = within(outer, &field, message);
            return Self::invalid(format!("{outer}.{field}"), rule, message);
        }
        if let Self::InvalidDefinition(problems) = self {
            return Self::InvalidDefinition(problems.within(outer));
        }
        self
    }

    /// No resource of this kind has this `id`, of which the error repeats at most 64 characters.
    #[must_use]
    pub fn not_found(kind: &'static str, id: impl fmt::Display) -> Self {
        Self::NotFound { kind, id: id.to_string().chars().take(64).collect() }
    }
}

/// The message about a field, which begins with the field's path, about the same field within `outer`.
pub(crate) fn within(outer: &str, field: &str, message: String) -> String {
    if message.starts_with(field) { format!("{outer}.{message}") } else { message }
}

/// A field that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// The field, as a path such as `tasks[2].prompt`.
    pub field: String,
    /// The broken rule.
    pub rule: Rule,
    /// The field, the fault and the remedy.
    pub message: String,
}

names! {
    /// The rules that a field can break.
    Rule {
        /// The field is missing.
        Required = "required",
        /// The value has the wrong JSON type.
        Type = "type",
        /// The number is outside its range.
        Range = "range",
        /// The string does not match its pattern.
        Pattern = "pattern",
        /// The value is not one of the allowed values.
        Enum = "enum",
        /// The string or the list is too short or too long.
        Length = "length",
        /// The field does not exist.
        Unknown = "unknown",
        /// The string does not have its format (a timestamp, a URL, an e-mail).
        Format = "format",
        /// The name is reserved.
        Reserved = "reserved",
        /// A `{{…}}` cannot be resolved.
        Placeholder = "placeholder",
        /// The step does not exist.
        Step = "step",
        /// A schema refers to a place outside itself.
        Ref = "ref",
    }
}
