//! The messages of a batch's actor.

use callboard_domain::Error;
use callboard_domain::batch::Batch;
use tokio::sync::oneshot;

/// The failed rows that a retry runs anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retry {
    /// Rows that failed with one of these codes; any but that of a rejection if empty.
    pub codes: Vec<String>,
    /// Rows with one of these keys; any if empty.
    pub keys: Vec<String>,
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A message to a batch.
#[derive(Debug)]
pub(crate) enum Message {
    /// A row may have ended, or been held or decided; or the server was started again.
    Look,
    /// The execution of a row has ended.
    Ended(u32),
    /// The upload is complete.
    Loaded(Box<Batch>, Reply<Batch>),
    /// A client lets no further row start.
    Pause(Reply<Batch>),
    /// A client lets rows start again.
    Resume(Reply<Batch>),
    /// A client cancels the batch.
    Cancel(Reply<Batch>),
    /// A client runs failed rows anew; the answer has their number.
    Retry(Retry, Reply<(Batch, u32)>),
    /// A client deletes the batch, or its upload broke off.
    Delete(Reply<()>),
    /// The time for a record of progress has come; sent by the actor itself.
    Tick,
    /// More rows may be started; sent by the actor itself, behind what others ask of it.
    Next,
}
