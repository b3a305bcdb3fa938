//! The reasons for which a call fails.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::StoreError;

/// The reason for which a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused the call.
    #[error("{0}")]
    Api(Box<ApiError>),
    /// The server refused a call that carried no credentials.
    #[error("not signed in at {server}: {refusal}")]
    NotSignedIn {
        /// The server's address.
        server: String,
        /// The server's answer.
        refusal: Box<ApiError>,
    },
    /// The refresh token has ended: the user must sign in again.
    #[error("the login at {server} has ended")]
    LoginEnded {
        /// The server's address.
        server: String,
    },
    /// No server answers at the address.
    #[error("the server {server} cannot be reached: {reason}")]
    Unreachable {
        /// The server's address.
        server: String,
        /// The innermost cause.
        reason: String,
    },
    /// The answer did not arrive in time.
    #[error("{server} did not answer within {} seconds", .limit.as_secs())]
    TimedOut {
        /// The server's address.
        server: String,
        /// The time that an answer may take.
        limit: Duration,
    },
    /// The answer lacks the form that Callboard's answers have.
    #[error("{server} answered {problem}")]
    UnexpectedAnswer {
        /// The server's address.
        server: String,
        /// The difference.
        problem: String,
    },
    /// An address or a header value cannot be used.
    #[error("{0}")]
    InvalidArgument(String),
    /// The API key has characters that no header may have. The error does not show the key.
    #[error("the API key holds characters that no key has")]
    InvalidKey,
    /// The system's certificates or resolver cannot be used.
    #[error("the HTTP client could not be set up: {0}")]
    Setup(String),
    /// A stored login cannot be read or written.
    #[error("{0}")]
    Store(StoreError),
    /// A task or an execution ended without an output.
    #[error("{item} {status}{}{message}", if .message.is_empty() { "" } else { ": " })]
    Ended {
        /// The kind and the identifier, such as `task dt_task_9`.
        item: String,
        /// The status, such as `failed`.
        status: String,
        /// The code of the failure, such as `TASK_TIMEOUT`, if there is one.
        code: Option<String>,
        /// The failure's text; empty if there is none.
        message: String,
    },
    /// The text streamed so far is void: another attempt of the task wrote another text.
    #[error("the text streamed so far is void: task {task} has another one")]
    StreamReset {
        /// The task.
        task: String,
    },
    /// Events are missing, because the server does not keep them any more: read the current state, then go on from `to`.
    #[error("events are missing: read the current state, then go on after {to}")]
    EventGap {
        /// The place in the log from which on none is missing.
        to: String,
    },
    /// An output is no value of the type.
    #[error("the output does not fit the type: {0}")]
    OutputMismatch(String),
    /// A webhook is not the server's, or is too old.
    #[error("{0}")]
    InvalidSignature(&'static str),
}

/// The kind of a refusal, by its status. [`ApiError::code`] says more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// 400, 415, 422 and the like: the request is wrong.
    Invalid,
    /// 401: the credentials are missing, wrong or ended.
    Unauthorized,
    /// 403: the credentials do not permit it.
    Forbidden,
    /// 404: there is no such thing.
    NotFound,
    /// 409: the thing is in another state, or exists already.
    Conflict,
    /// 413: the body is too large.
    TooLarge,
    /// 429: too many calls, or a limit of the account.
    Limited,
    /// 502, 503, 504, 507: the server is not ready, or its disk has no room for new work.
    Unavailable,
    /// Another status of 500 and above: a fault of the server.
    Server,
}

/// An error that the server reported (the `error` of an envelope).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// The code for programs, such as `VALIDATION_ERROR`.
    pub code: String,
    /// The sentence for people.
    pub message: String,
    /// The further details of the server, such as every fault of a definition; null if none.
    pub details: Value,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// The request's name in the server's log.
    pub request_id: Option<String>,
}

impl Error {
    /// True if the same call may succeed in a moment: the server restarts or asks for patience, or the
    /// network failed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Api(error) => matches!(error.status, 429 | 502 | 503),
            Self::NotSignedIn { .. }
            | Self::LoginEnded { .. }
            | Self::UnexpectedAnswer { .. }
            | Self::InvalidArgument(_)
            | Self::InvalidKey
            | Self::Setup(_)
            | Self::Store(_)
            | Self::Ended { .. }
            | Self::StreamReset { .. }
            | Self::EventGap { .. }
            | Self::OutputMismatch(_)
            | Self::InvalidSignature(_) => false,
        }
    }

    /// The server's refusal, if it is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&ApiError> {
        match self {
            Self::Api(refusal) | Self::NotSignedIn { refusal, .. } => Some(refusal),
            Self::LoginEnded { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::UnexpectedAnswer { .. }
            | Self::InvalidArgument(_)
            | Self::InvalidKey
            | Self::Setup(_)
            | Self::Store(_)
            | Self::Ended { .. }
            | Self::StreamReset { .. }
            | Self::EventGap { .. }
            | Self::OutputMismatch(_)
            | Self::InvalidSignature(_) => None,
        }
    }

    /// The kind of the server's refusal, if it is one.
    #[must_use]
    pub fn kind(&self) -> Option<ErrorKind> {
        self.refusal().map(ApiError::kind)
    }

    /// True if the server refused the credentials.
    pub(crate) fn refuses_credentials(&self) -> bool {
        match self {
            Self::NotSignedIn { .. } => true,
            Self::Api(error) => matches!(error.status, 401 | 403),
            Self::LoginEnded { .. }
            | Self::Unreachable { .. }
            | Self::TimedOut { .. }
            | Self::UnexpectedAnswer { .. }
            | Self::InvalidArgument(_)
            | Self::InvalidKey
            | Self::Setup(_)
            | Self::Store(_)
            | Self::Ended { .. }
            | Self::StreamReset { .. }
            | Self::EventGap { .. }
            | Self::OutputMismatch(_)
            | Self::InvalidSignature(_) => false,
        }
    }
}

impl ApiError {
    /// The kind, by the status.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self.status {
            401 => ErrorKind::Unauthorized,
            403 => ErrorKind::Forbidden,
            404 => ErrorKind::NotFound,
            409 => ErrorKind::Conflict,
            413 => ErrorKind::TooLarge,
            429 => ErrorKind::Limited,
            502..=504 | 507 => ErrorKind::Unavailable,
            500.. => ErrorKind::Server,
            _ => ErrorKind::Invalid,
        }
    }

    /// Reads the body of a refusal.
    #[must_use]
    pub fn read(status: u16, body: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let error = &body["error"];
        Self {
            status,
            code: text(&error["code"]),
            message: text(&error["message"]),
            details: error["details"].clone(),
            retryable: error["retryable"].as_bool().unwrap_or_default(),
            request_id: body["meta"]["requestId"].as_str().map(str::to_owned),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() {
            write!(f, "the server answered {}", self.status)?;
        } else {
            f.write_str(&self.message)?;
        }
        if self.code.is_empty() { Ok(()) } else { write!(f, " ({})", self.code) }
    }
}

impl std::error::Error for ApiError {}
