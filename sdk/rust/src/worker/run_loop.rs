//! The protocol's side of a worker: the connection, the leases, the heartbeats, the results.
//!
//! ```text
//!            frames                     effects
//! socket ◀─────────▶ runner ◀─────────▶ session (pure)
//!                      │ one task each
//!                      ▼
//!                    Handle ──Report──▶ runner
//! ```
//!
//! It outlives its server: it reconnects with a jittered backoff, resumes its leases, and keeps every result until the
//! server acknowledged it.
//!
//! [`crate::Worker`] stands on it, and so does the worker of Callboard's own program. Its items may change in
//! any version.

mod backoff;
mod dial;
mod frames;
mod gather;
mod outbox;
mod runner;
mod session;

pub use dial::{Dial, DialError, Identity, Socket, Tcp};
pub use frames::{Assign, Function, MAX_FRAME, Of, Register, Report};
pub use gather::gather;
pub use runner::{Handle, Reporting, Runner, Text};

/// The reason why a worker gave up. A server that is away is no reason.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The address can't be one of a server.
    #[error("the server's address {address} can't be used: {reason}")]
    Address {
        /// The setting as given.
        address: String,
        /// The fault.
        reason: &'static str,
    },
    /// The certificate or its key can't be used.
    #[error("the client certificate can't be used: {0}")]
    Certificate(String),
    /// The key has characters that no header may have. The error does not show it.
    #[error("the worker's key can't be sent in a header")]
    Key,
    /// The worker cannot be used as it was set up: the text says why.
    #[error("{0}")]
    Setup(String),
    /// The server doesn't take this key.
    #[error("the server refused the worker's key with status {status}: {message}")]
    Refused {
        /// The status, 401 or 403.
        status: u16,
        /// The server's own text.
        message: String,
    },
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        Self::Setup(error.to_string())
    }
}
