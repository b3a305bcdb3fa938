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
            | Self::Store(_) => false,
        }
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
            | Self::Store(_) => false,
        }
    }
}

impl ApiError {
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
