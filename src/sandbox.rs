//! The sandbox's worker: runs the tasks of test keys on the simulated model (docs/reference/sandbox.md).
//!
//! The worker connects within the process when the sandbox is first used, serves every queue and every model, and is a
//! worker as any other: it holds leases, sends heartbeats, and is listed in the sandbox.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::access::Role;
use callboard_domain::function::{Announced, Output};
use callboard_domain::id::{Environment, WorkerId};
use callboard_domain::task::{Completion, Failure, JudgeUsage, LeaseToken};
use callboard_domain::usage::{Tokens, Usage};
use callboard_domain::worker::Profile;
use callboard_runtime::handle::WorkerLink;
use callboard_runtime::worker::{Assignment, WorkerCommand, WorkerMessage};
use callboard_runtime::{Handle, Owner, SANDBOX_QUEUE};
use callboard_worker::confidence::{self, Measured};
use callboard_worker::provider::simulated::Simulated;
use callboard_worker::provider::{self, Request};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// The worker's account and name.
const NAME: &str = "sandbox";
/// The worker's id, the same over restarts: a task that ran when the server died is known to be
/// lost as soon as the worker registers again.
const WORKER: WorkerId = WorkerId::from_u128(0);
/// The most tasks at once, each with its texts in memory.
const CONCURRENCY: usize = 64;
/// The pause before another connection.
const PAUSE: Duration = Duration::from_secs(1);
/// The time for the further calls that make a confidence.
const FURTHER: Duration = Duration::from_mins(1);
/// The most pieces of an output that are sent as one.
const PIECES: usize = 64;

/// Works whenever a sandbox has work, with a worker for each. Never returns.
pub(crate) async fn run(handle: Handle) {
    // Dropped with this, and the workers with it.
    let mut workers = JoinSet::new();
    loop {
        let environment = handle.sandbox_used().await;
        workers.spawn(work(handle.clone(), environment));
    }
}

async fn work(handle: Handle, environment: Environment) {
    loop {
        match connect(&handle, environment).await {
            Ok((link, commands)) => Worker::new(handle.clone(), link).serve(commands).await,
            // The server is stopping.
            Err(error) => tracing::debug!(%error, "the sandbox's worker cannot connect"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

type Commands = mpsc::UnboundedReceiver<WorkerCommand>;

async fn connect(
    handle: &Handle,
    environment: Environment,
) -> Result<(WorkerLink, Commands), Error> {
    let id = NAME.into();
    let owner = Owner { id, role: Role::Worker, environment, trace: None, bound: Arc::default() };
    let profile = Profile {
        name: NAME.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        queues: vec![SANDBOX_QUEUE.into()],
        models: vec!["*".into()],
        functions: [every_function()].into(),
        concurrency: CONCURRENCY,
    };
    let (outgoing, commands) = mpsc::unbounded_channel();
    // No task of an earlier connection runs any more.
    let resume = Some((WORKER, Vec::new()));
    let (link, _) = handle.connect_worker(&owner, profile, resume, outgoing).await?;
    Ok((link, commands))
}

/// The worker on one connection.
struct Worker {
    handle: Handle,
    link: Arc<WorkerLink>,
    calls: JoinSet<(LeaseToken, WorkerMessage)>,
    /// The leases whose results are not acknowledged yet.
    held: HashMap<LeaseToken, AbortHandle>,
}

impl Worker {
    fn new(handle: Handle, link: WorkerLink) -> Self {
        Self { handle, link: Arc::new(link), calls: JoinSet::new(), held: HashMap::new() }
    }

    /// Follows the server's commands until the connection ends.
    async fn serve(mut self, mut commands: Commands) {
        let mut beat = tokio::time::interval(self.handle.worker_terms().1);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(WorkerCommand::Assign(assignment)) => self.start(*assignment),
                    Some(WorkerCommand::Leases(leases, _)) => {
                        leases.lost.into_iter().for_each(|lease| self.abort(lease));
                    }
                    Some(WorkerCommand::Cancel(lease, _)) => self.abort(lease),
                    Some(WorkerCommand::Ack(lease, ..)) => drop(self.held.remove(&lease)),
                    // The sandbox's worker cannot be drained.
                    Some(WorkerCommand::Drain(_)) => {}
                    Some(WorkerCommand::Close) | None => return,
                },
                // A call that was aborted has no result; the server bounds the time of one that panicked.
                Some(ended) = self.calls.join_next() => {
                    if let Ok((lease, result)) = ended && self.held.contains_key(&lease) {
                        self.link.say(result);
                    }
                }
                _ = beat.tick() => {
                    let leases = self.held.keys().copied().collect();
                    self.link.say(WorkerMessage::Heartbeat(leases, Vec::new()));
                }
            }
        }
    }

    fn start(&mut self, assignment: Assignment) {
        let lease = assignment.lease;
        let call = call(Arc::clone(&self.link), assignment);
        self.held.insert(lease, self.calls.spawn(async move { (lease, call.await) }));
    }

    fn abort(&mut self, lease: LeaseToken) {
        if let Some(call) = self.held.remove(&lease) {
            call.abort();
        }
    }
}

/// The result of a function that costs nothing.
fn free() -> Completion {
    Completion {
        usage: Usage::default(),
        confidence: None,
        confidence_source: None,
        finish_reason: None,
        service_tier: None,
        judge: None,
        thinking: None,
    }
}

fn every_function() -> Announced {
    let name = Announced::EVERY.to_owned();
    Announced { name, description: None, input_schema: None, output_schema: None }
}

/// The value of a simulated function without an outputSchema: it says so, and shows the args.
fn simulated(function: &str, args: &Map<String, Value>) -> Output {
    Output::Json(json!({"simulated": true, "function": function, "args": args}).to_string())
}

/// Runs a task to its result.
async fn call(link: Arc<WorkerLink>, assignment: Assignment) -> WorkerMessage {
    let Assignment { lease, task, inputs, max_tokens, .. } = assignment;
    let called = task.spec.work().function().zip(inputs.args.as_deref());
    if let (Some((function, args)), None) = (called, &inputs.output_schema) {
        return WorkerMessage::Completed(lease, simulated(function, args), free());
    }
    let is_call = called.is_some();
    let request = Request {
        model: task.model().to_owned(),
        system_prompt: inputs.system_prompt,
        context: inputs.context,
        // The simulated model looks at no file.
        messages: inputs.messages.iter().map(|it| it.with_files(|_| None)).collect(),
        files: Vec::new(),
        prompt: inputs.prompt,
        max_tokens,
        temperature: task.spec.temperature,
        sampling: task.spec.sampling.as_deref().cloned().unwrap_or_default(),
        service_tier: task.spec.service_tier(),
        output_schema: inputs.output_schema.map(|schema| schema.source().clone()),
        without_logprobs: false,
    };
    let (ask, until) = (inputs.confidence, Instant::now() + FURTHER);
    let (sender, mut pieces) = mpsc::channel(PIECES);
    let deltas = sender.into();
    let complete = async {
        let provider = Simulated::default();
        let measured = confidence::complete(&provider, &request, ask.as_deref(), &deltas, until);
        let result = measured.await;
        drop(deltas);
        result
    };
    let stream = async {
        let mut some = Vec::new();
        while pieces.recv_many(&mut some, PIECES).await > 0 {
            link.say(WorkerMessage::Delta(lease, some.concat()));
            some.clear();
        }
    };
    match tokio::join!(complete, stream).0 {
        Ok(Measured { completion, judge, .. }) => {
            let used =
                |Tokens { input, output, .. }: Tokens| Usage { input, output, ..Usage::default() };
            let judge = judge.map(|(model, tokens)| JudgeUsage { model, usage: used(tokens) });
            let usage = used(completion.usage);
            let source = completion.confidence_source.as_str().to_owned();
            let completed = Completion {
                usage,
                confidence: completion.confidence,
                confidence_source: Some(source),
                finish_reason: completion.finish_reason,
                service_tier: completion.service_tier,
                judge: judge.map(Box::new),
                thinking: None,
            };
            if is_call {
                let output = Output::Json(completion.output);
                return WorkerMessage::Completed(lease, output, free());
            }
            WorkerMessage::Completed(lease, completion.output.into(), completed)
        }
        Err(failure) => failed(lease, failure),
    }
}

fn failed(lease: LeaseToken, failure: provider::Failure) -> WorkerMessage {
    let provider::Failure { code, message, retryable, retry_after_ms, limits: _ } = failure;
    let failure = Failure::of_worker(code.as_str(), message, retryable);
    let retry_after = retry_after_ms.map(Duration::from_millis);
    WorkerMessage::Failed(lease, Failure { retry_after, ..failure })
}
