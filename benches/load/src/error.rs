//! The reason why a figure could not be measured.

/// The reason why a figure could not be measured.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The server refused a request, or does not answer.
    #[error(transparent)]
    Client(#[from] callboard_client::Error),
    /// A disk, a process or an answer has a fault.
    #[error("{0}")]
    Broken(String),
}

impl Error {
    /// The error of `what`, which did not work because of `why`.
    pub(super) fn of<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Self + '_ {
        move |why| Self::Broken(format!("{what}: {why}"))
    }
}

/// A text as an error.
pub(super) fn broken(what: impl Into<String>) -> Error {
    Error::Broken(what.into())
}
