//! The messages between a worker, its actor and its connection (docs/reference/workers.md).

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::Timestamp;
use callboard_domain::confidence::ask::Calls;
use callboard_domain::file::File;
use callboard_domain::function::Output;
use callboard_domain::id::FileId;
use callboard_domain::model_limits::{Limited, Reported};
use callboard_domain::task::{Completion, Failure, Inputs, LeaseToken, Task};
use callboard_domain::trace::TraceContext;
use callboard_domain::worker::{Leases, Profile};
use tokio::sync::{mpsc, oneshot};

use crate::kernel::address::WorkerAddress;
use crate::kernel::directory::Directory;
use crate::messages::capacity::SlotPermit;

/// A message to a worker's actor. Every one but `Look` comes by way of the directory.
#[derive(Debug)]
pub(crate) enum Message {
    /// The worker registers on a new connection.
    Register(Box<Registration>),
    /// The worker says something on its connection of this number.
    Heard(u64, Box<WorkerMessage>),
    /// The worker's connection of this number ended.
    Disconnected(u64),
    /// A task is the worker's own, with a slot.
    Assign(Box<Assignment>, SlotPermit),
    /// A lease from before a restart is watched over.
    Watch(LeaseToken),
    /// A lease is over, for this reason.
    Revoke(LeaseToken, &'static str),
    /// A task has taken or refused an answer.
    ResultHandled(LeaseToken, Of, AckResult),
    /// A task's actor broke over an answer: it must be sent again.
    ResultLost,
    /// Drop this: by then every earlier message is handled, and every earlier command has been sent.
    Flush(mpsc::Sender<()>),
    /// The worker is to take nothing new.
    Drain,
    /// The server stops.
    Close,
    /// Look at the clock.
    Look,
}

/// A task for a worker.
#[derive(Debug, Clone)]
pub struct Assignment {
    /// The lease to answer under.
    pub lease: LeaseToken,
    /// The deadline of the attempt.
    pub deadline: Timestamp,
    /// The task, running.
    pub task: Task,
    /// The task's texts.
    pub inputs: Inputs,
    /// The files of the inputs, of which one may have been deleted.
    pub files: Vec<(FileId, Option<File>)>,
    /// The token limit of the task's call.
    pub max_tokens: Option<u64>,
    /// The trace context that the worker's own spans belong to.
    pub trace: Option<Box<TraceContext>>,
}

/// The registration of a worker.
#[derive(Debug)]
pub struct Registration {
    /// The account of the worker's key: only the same account may resume a worker.
    pub account: String,
    /// The queues that the worker's key is bound to; none if it may serve every queue.
    pub bound: Arc<[String]>,
    /// The content of the worker's `register` frame.
    pub profile: Profile,
    /// The leases that the worker works on.
    pub leases: Vec<LeaseToken>,
    /// The channel of commands to the worker.
    pub outgoing: mpsc::UnboundedSender<WorkerCommand>,
    /// The answer: the number of the connection and the state of the leases.
    pub reply: oneshot::Sender<(u64, Leases)>,
}

/// A message from a worker.
#[derive(Debug)]
pub enum WorkerMessage {
    /// The worker is alive and works on these; it named other texts too, which are no leases.
    Heartbeat(Vec<LeaseToken>, Vec<String>),
    /// A piece of an output.
    Delta(LeaseToken, String),
    /// An output.
    Completed(LeaseToken, Output, Completion),
    /// A failure.
    Failed(LeaseToken, Failure),
    /// The provider's own limits, which came with the answer that follows.
    Reported(LeaseToken, Box<Reported>),
    /// The calls of the attempt whose output follows.
    Called(LeaseToken, Box<Called>),
    /// The worker takes nothing new.
    Draining,
    /// The worker stops before these leases have a result.
    Returned(Vec<LeaseToken>),
}

/// The calls of an attempt.
#[derive(Debug)]
pub struct Called {
    /// The number of calls; 0 if the worker does not count them.
    pub calls: Calls,
    /// The further call that the provider refused with 429 or 529.
    pub limited: Option<Limited>,
}

/// A command to a worker on its connection.
#[derive(Debug)]
pub enum WorkerCommand {
    /// A task.
    Assign(Box<Assignment>),
    /// The answer to a heartbeat, with the texts that are no leases.
    Leases(Leases, Vec<String>),
    /// The fate of a worker's result.
    Ack(LeaseToken, Of, AckResult),
    /// A lease is over.
    Cancel(LeaseToken, &'static str),
    /// Finish within this time.
    Drain(Duration),
    /// The connection is over: the worker is to connect again.
    Close,
}

/// The kind of the acknowledged result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// An output.
    Complete,
    /// A failure.
    Fail,
}

/// The fate of a worker's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckResult {
    /// The result counts, and is durable.
    Applied,
    /// The result had been applied before.
    Duplicate,
    /// The lease is not current: nothing changed.
    Stale,
}

/// The channel for the acknowledgement of a result.
#[derive(Debug)]
pub(crate) struct AckSender(Option<(Arc<WorkerDirectory>, WorkerAddress, LeaseToken, Of)>);

/// The actors of workers.
pub(crate) type WorkerDirectory = Directory<WorkerAddress, Message>;

impl AckSender {
    pub(crate) const fn new(
        workers: Arc<WorkerDirectory>,
        worker: WorkerAddress,
        lease: LeaseToken,
        of: Of,
    ) -> Self {
        Self(Some((workers, worker, lease, of)))
    }

    pub(crate) fn send(mut self, result: AckResult) {
        if let Some((workers, worker, lease, of)) = self.0.take() {
            workers.send(worker, Message::ResultHandled(lease, of, result));
        }
    }
}

impl Drop for AckSender {
    fn drop(&mut self) {
        if let Some((workers, worker, ..)) = self.0.take() {
            workers.send_if_awake(&worker, Message::ResultLost);
        }
    }
}
