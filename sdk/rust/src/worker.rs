//! A worker: runs tasks on any model, and calls functions, in your own program.
//!
//! ```no_run
//! use callboard_client::Client;
//! use callboard_client::worker::{Failure, Worker};
//! use futures_util::stream;
//!
//! #[derive(serde::Deserialize)]
//! struct Args {
//!     a: i64,
//!     b: i64,
//! }
//!
//! # async fn example(client: Client) -> Result<(), callboard_client::worker::Error> {
//! Worker::new(&client)
//!     .queues(["loud"])
//!     .function("add", |args: Args| async move { Ok::<_, Failure>(args.a + args.b) })
//!     .model("shout", |task| {
//!         let words: Vec<_> = task.prompt.split(' ').map(|word| word.to_uppercase() + " ").collect();
//!         stream::iter(words)
//!     })
//!     .run()
//!     .await
//! # }
//! ```
//!
//! The worker registers, sends heartbeats, and reconnects when the connection breaks; what runs goes on
//! meanwhile, and a result is kept until the server has acknowledged it. A task that is cancelled, or whose
//! lease was lost, is dropped at its next `await`. On SIGTERM and SIGINT the worker takes no new task, lets
//! what runs finish within its grace, and gives back the rest, so that others have it at once.
//!
//! Logs go to `tracing`, and never hold a prompt, an output or a key.

mod function;
mod model;
#[doc(hidden)]
pub mod run_loop;
mod task;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, Stream};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{Client, Credential};

pub use function::FunctionSpec;
pub use model::{Answer, Piece};
pub use run_loop::{Error, Identity};
pub use task::{ChatTurn, Content, Failure, Message, Part, Task, TaskFile, Usage};

use function::{Called, Functions};
use model::{Models, Streamed};
use run_loop::{Register, Runner, Tcp};
use task::Work;

/// The usual time in which running tasks may finish: a container is often killed 30 s after it was asked to end.
const GRACE: Duration = Duration::from_secs(25);
const CONCURRENCY: u32 = 4;

/// A worker of one server, before it runs.
#[must_use = "a worker does nothing before `run`"]
pub struct Worker {
    client: Client,
    server: String,
    key: Option<String>,
    identity: Option<Identity>,
    name: String,
    queues: Vec<String>,
    concurrency: u32,
    grace: Duration,
    models: Models,
    functions: Functions,
}

impl Worker {
    /// A worker of the client's server. The client's credential must be a key of the role `worker`.
    pub fn new(client: impl AsRef<Client>) -> Self {
        let client = client.as_ref();
        let key = match client.credential() {
            Credential::Key(key) => Some(key.expose().to_owned()),
            Credential::None | Credential::Session(_) => None,
        };
        Self {
            client: client.clone(),
            server: client.server().to_string(),
            key,
            identity: None,
            name: host_name(),
            queues: vec!["default".to_owned()],
            concurrency: CONCURRENCY,
            grace: GRACE,
            models: Vec::new(),
            functions: HashMap::new(),
        }
    }

    /// The name in lists. By default it is that of the machine.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The queues to take tasks from, in place of `default`.
    pub fn queues<Q: Into<String>>(self, queues: impl IntoIterator<Item = Q>) -> Self {
        Self { queues: queues.into_iter().map(Into::into).collect(), ..self }
    }

    /// The number of tasks at once, at least 1; by default 4.
    pub fn concurrency(self, concurrency: u32) -> Self {
        Self { concurrency: concurrency.max(1), ..self }
    }

    /// The time that running tasks get when the worker is asked to end; by default 25 s.
    pub fn grace(self, grace: Duration) -> Self {
        Self { grace, ..self }
    }

    /// The certificate to present, where the server asks for one.
    pub fn identity(self, identity: Identity) -> Self {
        Self { identity: Some(identity), ..self }
    }

    /// Runs tasks of a model: an exact name, a prefix such as `gpt-*`, or `*`. The pieces that the stream yields
    /// are the output, and the server shows them as they come. A piece is a text, an [`Answer`], which ends
    /// the stream and says more of the result, or a `Result` of one of them.
    pub fn model<F, S, P>(mut self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Task) -> S + Send + Sync + 'static,
        S: Stream<Item = P> + Send + 'static,
        P: Into<Piece> + Send + 'static,
    {
        self.models.push((name.into(), Arc::new(Streamed::new(handler))));
        self
    }

    /// Runs tasks of a model like [`Worker::model`], with an answer in one piece.
    pub fn model_once<F, W, A>(self, name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Task) -> W + Send + Sync + 'static,
        W: Future<Output = Result<A, Failure>> + Send + 'static,
        A: Into<Answer> + Send + 'static,
    {
        self.model(name, move |task| {
            handler(task).map(|answer| answer.map(Into::<Answer>::into)).into_stream()
        })
    }

    /// Runs tasks and steps that call this function. The args of a call are checked by `Args`: a call that does
    /// not fit fails, without another attempt, and the text says which member is wrong. The value that the
    /// handler returns becomes JSON, which is the output.
    pub fn function<Args, F, W, R>(self, name: impl Into<FunctionSpec>, handler: F) -> Self
    where
        Args: DeserializeOwned + Send + 'static,
        F: Fn(Args) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Serialize + Send + 'static,
    {
        self.function_with(name, move |args, _| handler(args))
    }

    /// As [`Worker::function`], with the task, which knows the attempt, and can be charged for.
    pub fn function_with<Args, F, W, R>(mut self, name: impl Into<FunctionSpec>, handler: F) -> Self
    where
        Args: DeserializeOwned + Send + 'static,
        F: Fn(Args, Task) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Failure>> + Send + 'static,
        R: Serialize + Send + 'static,
    {
        let spec = name.into();
        let called = Arc::new(Called::new(handler));
        self.functions.insert(spec.announced.name.clone(), (spec.announced, called));
        self
    }

    /// Runs until SIGTERM or SIGINT comes, and what runs has finished, or the server sends the worker away. A second
    /// signal ends it at once.
    ///
    /// # Errors
    /// The worker cannot be used as it was set up, or the server refuses its key.
    pub async fn run(self) -> Result<(), Error> {
        let (mut first, mut second) = (Signals::new()?, Signals::new()?);
        let again = async {
            second.next().await;
            second.next().await;
        };
        let running = self.run_until(async move { first.next().await });
        tokio::select! {
            ended = running => ended,
            () = again => Ok(()),
        }
    }

    /// Runs until `shutdown` is ready, and what runs has finished, or the server sends the worker away.
    ///
    /// # Errors
    /// As [`Worker::run`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), Error> {
        let setup = |why: &str| Error::Setup(why.to_owned());
        let key = self.key.ok_or_else(|| {
            setup("a worker needs a key of the role worker: set CALLBOARD_API_KEY or CALLBOARD_API_KEY_FILE")
        })?;
        if self.models.is_empty() && self.functions.is_empty() {
            return Err(setup(
                "the worker runs no model and no function: call `model` or `function`",
            ));
        }
        let dial = Tcp::new(&self.server, &key, self.identity)?;
        let mut functions: Vec<_> =
            self.functions.values().map(|(announced, _)| announced.clone()).collect();
        functions.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let register = Register {
            name: self.name,
            version: format!("callboard-rust {}", env!("CARGO_PKG_VERSION")),
            queues: self.queues,
            models: self.models.iter().map(|(name, _)| name.clone()).collect(),
            functions,
            concurrency: self.concurrency,
            resume: None,
        };
        let work = Work { models: self.models, functions: self.functions, client: self.client };
        Runner::new(dial, register, Arc::new(work), self.grace).run(shutdown).await
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Worker");
        shown.field("server", &self.server).field("name", &self.name).field("queues", &self.queues);
        shown.field("concurrency", &self.concurrency).field("grace", &self.grace);
        shown.finish_non_exhaustive()
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "worker".to_owned() } else { name.to_owned() }
}

/// The signals that ask a program to end.
#[cfg(unix)]
struct Signals(tokio::signal::unix::Signal, tokio::signal::unix::Signal);

#[cfg(unix)]
impl Signals {
    fn new() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let of = |kind| signal(kind).map_err(|error| Error::Setup(format!("no signals: {error}")));
        Ok(Self(of(SignalKind::terminate())?, of(SignalKind::interrupt())?))
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Result<Self, Error> {
        Ok(Self)
    }

    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
