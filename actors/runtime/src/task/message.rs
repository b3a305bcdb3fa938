//! What a task's actor is told, and by whom.

use callboard_domain::Error;
use callboard_domain::execution::Retry;
use callboard_domain::task::{Completion, Event, Failure, LeaseId, LeaseToken, Refusal, Task};
use callboard_store::Op;
use tokio::sync::oneshot;

use crate::concurrency::Running;
use crate::seat::Taken;
use crate::shard::Address;
use crate::worker::Verdict;

/// What a task is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// A worker has a free place for it.
    Lease {
        /// The place.
        place: Taken,
        /// Its share of what its account may run at once.
        running: Option<Running>,
    },
    /// A worker answers.
    Settle(Box<Settlement>),
    /// A lease ran out.
    LeaseExpired(LeaseId),
    /// A restart of the server kept a lease from its worker.
    Undelivered(LeaseId),
    /// An instant passed that it had asked for.
    TimePassed,
    /// Its execution has let go of it.
    Stop,
    /// Somebody, who is named, wants it to stop.
    Cancel(String, oneshot::Sender<Result<Task, Error>>),
    /// Its approval ends its wait for a reviewer.
    Judged(Box<Judgement>),
    /// The server was started again: perform what is outstanding.
    Recover,
    /// From now on the actor that hears this is that of another task.
    Become(Address),
}

/// A worker's answer.
#[derive(Debug)]
pub(crate) struct Settlement {
    /// Under which lease.
    pub(crate) lease: LeaseToken,
    /// The answer.
    pub(crate) answer: Answer,
    /// Where the verdict goes. Dropped without one if this actor breaks.
    pub(crate) verdict: Verdict,
}

/// What ends a task's wait for a reviewer.
#[derive(Debug)]
pub(crate) struct Judgement {
    /// What happened to the task.
    pub(crate) event: Event,
    /// What is committed with it.
    pub(crate) along: Alongside,
    /// Where the approval hears what became of it. Dropped without a word if this actor breaks.
    pub(crate) reply: oneshot::Sender<Result<Task, Refusal>>,
}

/// What is committed with a step of a task, if the task takes it as it was foreseen.
#[derive(Debug, Default)]
pub(crate) struct Alongside {
    /// Rows of its approval and of the task that tries again.
    pub(crate) rows: Vec<Op>,
    /// The text that replaces its output.
    pub(crate) edit: Option<String>,
    /// The task that tries again, for its execution.
    pub(crate) retry: Option<Retry>,
}

/// What a worker answers.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The model's output. The cost is filled in by the task.
    Output(String, Completion),
    /// It failed.
    Failure(Failure),
}
