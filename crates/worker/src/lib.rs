//! The worker program: a client of the worker protocol that runs leased
//! tasks on a model provider.
//!
//! ```text
//! run loop (the library's) ──Assign──▶ call ──Request──▶ provider
//!                        ◀──Report──
//! ```
//!
//! The connection, the leases and the results are those of every worker in Rust
//! ([`callboard_client::worker::run_loop`]). Deliberately absent: retries of a task (the server decides), a
//! store (a worker that dies loses its leases, and the server notices), and any log of a prompt, an output
//! or a key.

mod call;
pub mod confidence;
pub mod files;
pub mod provider;
mod trace;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use callboard_client::worker::run_loop::{Register, Runner, Tcp};
use callboard_client::{Client, Credential, Secret, Server};
use callboard_otlp::Spans;

use call::Calls;
pub use callboard_client::worker::run_loop::{Error, Identity};
use provider::Provider;

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

/// Works until `shutdown` is ready and running tasks have finished, or the server sends the worker
/// away.
///
/// After `shutdown` the worker takes no new lease, gives running tasks the time of `grace`, gives back what still
/// runs then, and returns.
///
/// # Errors
/// The address or the key can't be used, or the server refuses the key.
pub async fn run(options: Options, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
    let dial = Tcp::new(&options.server, &options.key, options.identity)?;
    let key = Credential::Key(Secret::new(options.key.trim().to_owned()));
    let client = Client::new(Server::of_worker(&options.server)?, key)?;
    let register = Register {
        name: options.name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        queues: options.queues,
        models: options.models.unwrap_or_else(|| vec!["*".to_owned()]),
        functions: Vec::new(),
        concurrency: options.concurrency.max(1),
        resume: None,
    };
    let calls = Calls::new(options.provider, options.spans, register.concurrency).reading(client);
    Runner::new(dial, register, Arc::new(calls), options.grace).run(shutdown).await
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
