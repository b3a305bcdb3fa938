//! Why something could not be measured.

use serde_json::Value;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody answers there.
    #[error("{server} cannot be reached: {reason}")]
    Unreachable {
        /// The address.
        server: String,
        /// What happened.
        reason: String,
    },
    /// The server said no.
    #[error("the server answered {status}: {body}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The whole answer.
        body: Value,
    },
    /// A disk, a process or an answer is not as it has to be.
    #[error("{0}")]
    Broken(String),
}

impl Error {
    /// `what` did not work, because of `why`.
    pub(super) fn of<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Self + '_ {
        move |why| Self::Broken(format!("{what}: {why}"))
    }
}

/// A text as an error.
pub(super) fn broken(what: impl Into<String>) -> Error {
    Error::Broken(what.into())
}
