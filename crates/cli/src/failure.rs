//! The failures of a command, and their exit codes (docs/reference/cli.md).
//!
//! Deliberately absent: success, which is 0 and needs no words.

use std::fmt::Write as _;
use std::io::Write as _;

use callboard_client::{ApiError, Error, StoreError};
use serde_json::Value;

use super::output::escaped;

/// The reason why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server refused the call.
    Refused(Box<ApiError>),
    /// No server answers at the address, or it is out of service.
    Unreachable {
        /// The server's address.
        server: String,
        /// The error.
        reason: String,
    },
    /// A wait was longer than its limit.
    TimedOut(String),
    /// The awaited work ended without success.
    WorkFailed(String),
    /// The credentials are missing or no longer valid.
    NotSignedIn(String),
    /// The command line asks for the impossible.
    Usage(String),
    /// Another user or program was first, as a check before the call showed.
    Conflict(String),
    /// An item that the command line names does not exist.
    Missing(String),
    /// The document to send has faults, which were found without the server.
    Invalid {
        /// The faulty document.
        what: String,
        /// The faults, each with its field.
        faults: Vec<Fault>,
    },
    /// Any other failure.
    Other(String),
    /// The reader of the output has stopped: a quiet end.
    OutputClosed,
    /// The user pressed Ctrl-C at a question.
    Interrupted,
}

/// One fault of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The code, such as `MISSING_DEPENDENCY`.
    pub(super) code: String,
    /// The field, as a path.
    pub(super) field: String,
    /// The message, for people.
    pub(super) message: String,
}

impl Fault {
    /// Every fault that the server reports.
    fn all(refusal: &ApiError) -> Vec<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let faults = refusal.details["errors"].as_array().into_iter().flatten();
        faults
            .map(|fault| Self {
                code: text(&fault["code"]),
                field: text(&fault["field"]),
                message: text(&fault["message"]),
            })
            .collect()
    }
}

/// The user who decided before, and the time, if another user was first.
pub(super) fn decided(refusal: &ApiError) -> Option<(&str, &str)> {
    let details = &refusal.details;
    let by = details["decidedBy"].as_str()?;
    Some((by, details["decidedAt"].as_str().unwrap_or_default()))
}

fn exit_code(refusal: &ApiError) -> u8 {
    match (refusal.status, refusal.code.as_str()) {
        // The same key with another body conflicts with the earlier request.
        (409, _) | (422, "IDEMPOTENCY_KEY_REUSED") => 6,
        // Other credentials would not help.
        (403, "BUDGET_EXCEEDED") => 1,
        (400 | 413 | 415 | 422, _) => 5,
        (401 | 403, _) => 4,
        (404, _) => 3,
        (429, _) => 7,
        (408 | 504, _) => 8,
        (502 | 503, _) => 9,
        _ => 1,
    }
}

impl Failure {
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Other(_) => 1,
            Self::Usage(_) => 2,
            Self::Missing(_) => 3,
            Self::NotSignedIn(_) => 4,
            Self::Conflict(_) => 6,
            Self::Invalid { .. } => 5,
            Self::TimedOut(_) => 8,
            Self::Unreachable { .. } => 9,
            Self::WorkFailed(_) => 10,
            Self::Interrupted => 130,
            Self::Refused(refusal) => exit_code(refusal),
        }
    }

    /// True if another user or program was first.
    pub(super) fn is_conflict(&self) -> bool {
        self.exit_code() == 6
    }

    /// True if the same command may work in a moment: the server restarts, or a network hiccups.
    pub(super) fn may_pass(&self) -> bool {
        self.exit_code() == 9 || matches!(self, Self::TimedOut(_))
    }

    /// Writes the reason to standard error.
    pub(super) fn print(&self) {
        let text = self.words();
        if !text.is_empty() {
            // The reader of standard error may be gone.
            let _ = writeln!(std::io::stderr(), "callboard: {text}");
        }
    }

    /// The reason in words; empty for a quiet end.
    pub(super) fn words(&self) -> String {
        match self {
            Self::OutputClosed | Self::Interrupted => String::new(),
            Self::Refused(refusal) => refusal_text(refusal),
            Self::Unreachable { server, reason } => {
                format!("the server {server} cannot be reached: {}", escaped(reason))
            }
            Self::Invalid { what, faults } => format!("{}{}", escaped(what), list(faults)),
            Self::TimedOut(text)
            | Self::WorkFailed(text)
            | Self::NotSignedIn(text)
            | Self::Usage(text)
            | Self::Conflict(text)
            | Self::Missing(text)
            | Self::Other(text) => escaped(text),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::Api(refusal) => Self::Refused(refusal),
            Error::NotSignedIn { refusal, .. }
                if matches!(refusal.code.as_str(), "INVALID_CREDENTIALS" | "INVALID_TOKEN") =>
            {
                Self::NotSignedIn(refusal.message)
            }
            Error::NotSignedIn { server, .. } => Self::NotSignedIn(format!(
                "not signed in at {server}: callboard auth login --server {server} --email YOU, or \
                 set CALLBOARD_API_KEY_FILE"
            )),
            Error::LoginEnded { server } => Self::NotSignedIn(format!(
                "{text}: callboard auth login --server {server} --email YOU"
            )),
            Error::Unreachable { server, reason } => Self::Unreachable { server, reason },
            Error::TimedOut { .. } => Self::TimedOut(text),
            Error::InvalidArgument(text) => Self::Usage(text),
            Error::InvalidKey => Self::NotSignedIn(text),
            Error::UnexpectedAnswer { .. }
            | Error::Setup(_)
            | Error::Store(_)
            | Error::Ended { .. }
            | Error::StreamReset { .. }
            | Error::EventGap { .. }
            | Error::OutputMismatch(_)
            | Error::InvalidSignature(_) => Self::Other(text),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error.to_string())
    }
}

fn refusal_text(refusal: &ApiError) -> String {
    let mut text = escaped(&refusal.message);
    if text.is_empty() {
        text = format!("the server answered {}", refusal.status);
    }
    if let Some(hint) = other_kind(refusal) {
        let _ = write!(text, ": {hint}");
    }
    let mut notes: Vec<String> = Vec::new();
    notes.extend((!refusal.code.is_empty()).then(|| escaped(&refusal.code)));
    notes.extend(decided(refusal).map(|(by, at)| format!("by {} at {}", escaped(by), escaped(at))));
    notes.extend(refusal.request_id.iter().map(|id| format!("request {}", escaped(id))));
    if !notes.is_empty() {
        let _ = write!(text, " ({})", notes.join(", "));
    }
    let faults = Fault::all(refusal);
    if faults.len() > 1 {
        text.push_str(&list(&faults));
    }
    text
}

/// The kinds of identifiers: the prefix, the item, and the command that shows it.
const KINDS: [(&str, &str, &str); 4] = [
    ("dt_task_", "a task", "callboard tasks show"),
    ("dt_plan_", "a plan", "callboard plans show"),
    ("dt_exec_", "an execution", "callboard executions show"),
    ("dt_batch_", "a batch", "callboard tasks batch"),
];

/// The kind of an identifier that the server does not know because it is of another kind than the
/// command takes, and the command for it.
fn other_kind(refusal: &ApiError) -> Option<String> {
    let (asked, id) = refusal.message.strip_suffix(" does not exist")?.rsplit_once(' ')?;
    let (_, kind, command) = KINDS.iter().find(|(prefix, _, _)| id.starts_with(prefix))?;
    let is_other = refusal.status == 404 && !kind.ends_with(asked);
    is_other.then(|| format!("it is the identifier of {kind}; use {command} {}", escaped(id)))
}

fn list(faults: &[Fault]) -> String {
    faults.iter().fold(String::new(), |mut text, fault| {
        let Fault { code, field, message } = fault;
        let (field, message) = (escaped(field), escaped(message));
        let _ = write!(text, "\n  {field}: {message} ({})", escaped(code));
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exit_code(status: u16, code: &str) -> u8 {
        let body = json!({"success": false, "error": {"code": code, "message": "no"}});
        Failure::Refused(Box::new(ApiError::read(status, &body))).exit_code()
    }

    #[test]
    fn every_class_of_refusal_has_its_exit_code() {
        for (status, code, expected) in [
            (400, "VALIDATION_ERROR", 5),
            (413, "PAYLOAD_TOO_LARGE", 5),
            (401, "TOKEN_EXPIRED", 4),
            (403, "FORBIDDEN", 4),
            (403, "BUDGET_EXCEEDED", 1),
            (404, "NOT_FOUND", 3),
            (405, "METHOD_NOT_ALLOWED", 1),
            (409, "INVALID_STATE", 6),
            (422, "IDEMPOTENCY_KEY_REUSED", 6),
            (429, "RATE_LIMIT_EXCEEDED", 7),
            (500, "INTERNAL_ERROR", 1),
            (503, "UNAVAILABLE", 9),
        ] {
            assert_eq!(exit_code(status, code), expected, "{status} {code}");
        }
    }

    #[test]
    fn who_was_first_is_told() {
        let details = json!({"decidedBy": "usr_1", "decidedAt": "2026-11-21T10:00:00.000Z"});
        let error = json!({"code": "ALREADY_DECIDED", "message": "too late", "details": details});
        let text = refusal_text(&ApiError::read(409, &json!({"error": error})));
        assert_eq!(text, "too late (ALREADY_DECIDED, by usr_1 at 2026-11-21T10:00:00.000Z)");
    }

    #[test]
    fn an_identifier_of_another_kind_is_told_with_the_command_for_it() {
        let text = |message: &str| {
            let error = json!({"code": "NOT_FOUND", "message": message});
            refusal_text(&ApiError::read(404, &json!({"error": error})))
        };
        assert_eq!(
            text("task dt_plan_1 does not exist"),
            "task dt_plan_1 does not exist: it is the identifier of a plan; use callboard plans show \
             dt_plan_1 (NOT_FOUND)"
        );
        let known = "task dt_task_1 does not exist (NOT_FOUND)";
        assert_eq!(text("task dt_task_1 does not exist"), known);
        assert_eq!(
            text("template mine-v1 does not exist"),
            "template mine-v1 does not exist (NOT_FOUND)"
        );
    }

    #[test]
    fn every_fault_is_told_and_none_of_them_commands_the_terminal() {
        let body = json!({
            "error": {"code": "CIRCULAR_DEPENDENCY", "message": "a circle", "details": {"errors": [
                {"code": "CIRCULAR_DEPENDENCY", "field": "steps", "message": "a circle"},
                {"code": "VALIDATION_ERROR", "field": "name", "message": "\u{1b}[2J"},
            ]}},
            "meta": {"requestId": "r1"},
        });
        assert_eq!(
            refusal_text(&ApiError::read(400, &body)),
            "a circle (CIRCULAR_DEPENDENCY, request r1)\n  steps: a circle (CIRCULAR_DEPENDENCY)\n  \
             name: \\u{1b}[2J (VALIDATION_ERROR)"
        );
    }
}
