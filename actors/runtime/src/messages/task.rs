//! The messages of a task's actor.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::function::Output;
use callboard_domain::model_limits::Reported;
use callboard_domain::task::{Completion, Failure, LeaseId, LeaseToken, Task};
use tokio::sync::oneshot;

use crate::kernel::join::Join;
use crate::limits::permits::Permits;
use crate::messages::capacity::SlotPermit;
use crate::messages::worker::{AckSender, Called};

/// A message to a task.
#[derive(Debug)]
pub(crate) enum Message {
    /// A worker has a free slot.
    Lease(SlotPermit, Permits),
    /// A worker answers.
    Result(Box<WorkerResult>),
    /// The provider reported its limits to the holder of a lease.
    Reported(LeaseId, Box<Reported>),
    /// A lease ran out.
    LeaseExpired(LeaseId),
    /// The server went down before a worker heard of its lease.
    Undelivered(LeaseId),
    /// The task's timer fired.
    TimePassed,
    /// The task's execution stops the task.
    Stop,
    /// The named account cancels the task.
    Cancel(String, oneshot::Sender<Result<Task, Error>>),
    /// An operator gives the task another priority.
    Reprioritize(u8, oneshot::Sender<Result<(), Error>>),
    /// The task's approval ends the wait for a reviewer.
    Join(Box<Join>),
    /// The calls that the worker, whose key may be bound to queues, made under the lease.
    Called(LeaseId, Box<Called>, Arc<[String]>),
    /// The server was started again while a worker had the task, which holds these permits.
    Recover(Permits),
}

/// A worker's answer.
#[derive(Debug)]
pub(crate) struct WorkerResult {
    /// The lease of the answer.
    pub(crate) lease: LeaseToken,
    pub(crate) answer: Answer,
    /// The queues that the worker's key is bound to, if it is.
    pub(crate) bound: Arc<[String]>,
    /// The way back for the acknowledgement; dropped without one if the task's actor breaks.
    pub(crate) ack: AckSender,
}

/// The answer of a worker.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The model's output. The task fills in the cost.
    Output(Output, Completion),
    /// The attempt failed.
    Failure(Failure),
}
