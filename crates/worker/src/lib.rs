//! The worker program: a client of the worker protocol that runs leased
//! tasks on a model provider.
//!
//! ```text
//!            frames                     effects
//! socket ◀─────────▶ runner ◀─────────▶ session (pure)
//!                      │ one task each
//!                      ▼
//!                    calls ──Request──▶ provider
//! ```
//!
//! The worker outlives its server: it reconnects with a jittered backoff, resumes its leases, and
//! keeps every result until the server acknowledged it. Deliberately absent: retries of a task (the
//! server decides), a store (a worker that dies loses its leases, and the server notices), and any
//! log of a prompt, an output or a key.

mod backoff;
mod call;
pub mod confidence;
mod dial;
mod outbox;
pub mod provider;
mod runner;
mod session;
mod trace;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use callboard_otlp::Spans;
use callboard_protocol::workers::Register;

pub use dial::Identity;
use provider::Provider;
use runner::Runner;
use session::Session;

/// The settings of a worker.
pub struct Options {
    /// The server's address, such as `http://127.0.0.1:8080`; `https`, `ws` and `wss` too.
    pub server: String,
    /// A worker key. `Debug` does not show it.
    pub key: String,
    /// The certificate to present, where the server asks for one.
    pub identity: Option<Identity>,
    /// The worker's name, for people.
    pub name: String,
    /// The queues to take tasks from.
    pub queues: Vec<String>,
    /// The models to announce. `None` announces `*`: any.
    pub models: Option<Vec<String>>,
    /// The number of tasks to run at once, at least 1.
    pub concurrency: u32,
    /// The providers.
    pub provider: Arc<dyn Provider>,
    /// The sender of the spans of model calls; `None` makes no spans.
    pub spans: Option<Spans>,
    /// The time that running tasks get when the worker is asked to end.
    pub grace: Duration,
}

/// The usual [`Options::grace`]: a container is often killed 30 s after it was asked to end.
pub const GRACE: Duration = Duration::from_secs(25);

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
    /// The server doesn't take this key.
    #[error("the server refused the worker's key with status {status}: {message}")]
    Refused {
        /// The status, 401 or 403.
        status: u16,
        /// The server's own text.
        message: String,
    },
}

/// Works until `shutdown` is ready and running tasks have finished, or the server sends the worker
/// away.
///
/// After `shutdown` the worker takes no new lease, gives running tasks the time of `grace`, gives back what still
/// runs then, and returns.
///
/// # Errors
/// The address or the key can't be used, or the server refuses the key.
pub async fn run(options: Options, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
    let dial = dial::Tcp::new(&options.server, &options.key, options.identity)?;
    let session = Session::new(Register {
        name: options.name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        queues: options.queues,
        models: options.models.unwrap_or_else(|| vec!["*".to_owned()]),
        functions: Vec::new(),
        concurrency: options.concurrency.max(1),
        resume: None,
    });
    let runner = Runner::new(dial, session, (options.provider, options.spans), options.grace);
    runner.run(shutdown).await
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("server", &self.server)
            .field("grace", &self.grace)
            .field("name", &self.name)
            .field("queues", &self.queues)
            .field("models", &self.models)
            .field("concurrency", &self.concurrency)
            .field("provider", &self.provider)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
