//! The messages of an execution's actor.

use callboard_domain::Error;
use callboard_domain::task::Task;
use callboard_store::Outcome;
use tokio::sync::oneshot;

use crate::kernel::join::Join;
use crate::messages::submission::Key;

pub(crate) type Reply = oneshot::Sender<Result<(), Error>>;

/// A message to an execution. `Committed` and `Rest` come from the actor itself, all others by way of
/// the directory.
#[derive(Debug)]
pub(crate) enum Message {
    /// An event that can end a task of the execution.
    Join(Box<Join>),
    /// A task of the execution has ended in a unit of its own.
    TaskEnded(Box<Task>),
    /// A client cancels the execution.
    Cancel(Reply),
    /// A client retries the steps that failed or were cancelled.
    Retry(Reply),
    /// A client sends a signal.
    Signal(Box<Sending>),
    /// The execution's timer fired.
    TimePassed,
    /// The server was started again: perform the outstanding effects.
    Recover,
    /// Steps are due that the last unit had no room for.
    Continue,
    /// The outcome of the pending commit.
    Committed(Outcome),
    /// The idle time has passed.
    Rest,
}

/// A signal, and the client who waits for the answer.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The signal's name.
    pub(crate) name: String,
    /// The payload, as the text that prompts get.
    pub(crate) payload: String,
    /// The idempotency key.
    pub(crate) key: Option<Key>,
    /// True if the signal takes the place of a kept one.
    pub(crate) replace: bool,
    /// The channel for the answer: true if the signal is a replay.
    pub(crate) reply: oneshot::Sender<Result<bool, Error>>,
}
