//! Bytes, index terms and one durable commit.
//!
//! A store takes [`Batch`]es and answers each once it can no longer be lost. It
//! knows rows, listed rows (rows that can be found by [`Query`]) and logs
//! (append-only, numbered in the order of commit). It knows nothing of tasks,
//! of actors or of HTTP: what the bytes mean is said by [`table::Table`] and its
//! users.
//!
//! Deliberately absent: transactions that read (every key has one writer, which
//! knows what it wrote), and any wall clock.

pub mod batch;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
pub mod faulty;
pub mod floor;
pub mod memory;
#[doc(hidden)]
pub mod probe;
pub mod query;
pub mod sled;
pub mod table;

mod anchor;
mod committer;
mod directory;
mod index;
mod journal;
mod log;
mod mark;
mod overlay;
mod quiet;
mod repair;
mod row;
mod scrub;
mod segments;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

pub use batch::{Batch, BatchId, Entry, Epoch, Key, LogId, Op, Partition, Terms};
pub use directory::advice;
pub use query::{Filter, Order, Page, Query};

/// A boxed answer of a read: engines behind a network need to wait for it.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// One row: its key and its value.
pub type Row = (Key, Bytes);

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The log it stands in.
    pub log: LogId,
    /// Its number: 1 for the first, without gaps, in the order of commit.
    pub sequence: u64,
    /// What was appended.
    pub bytes: Bytes,
}

/// What became of a batch.
#[derive(Debug)]
pub enum Outcome {
    /// Every operation of the batch is on disk and will survive a power cut.
    Committed,
    /// A guard named an epoch that is over; nothing was changed.
    Fenced,
    /// An [`Op::Insert`] found its key taken; nothing was changed.
    Conflict(Key),
    /// The batch was refused before anything was written; nothing was changed.
    NotApplied(Error),
    /// The disk or the connection failed in mid-commit: the batch may or may not be there.
    /// The embedded store answers so once, to everyone, and takes no further batch.
    Unknown(Error),
}

/// Why a store could not answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The data directory is in use by another process.
    #[error(
        "the data directory {0} is in use by another process; stop it first, or name another with --data-dir"
    )]
    Locked(String),
    /// The data directory holds something this program cannot read.
    #[error(
        "the data directory {path} cannot be read: {reason}; restore it from a backup, or name an empty one with --data-dir"
    )]
    Corrupt {
        /// Where it is.
        path: String,
        /// What was found.
        reason: String,
    },
    /// A row was larger than a store takes.
    #[error("a row of {0} bytes is larger than a store takes")]
    TooLarge(usize),
    /// The disk or the connection failed.
    #[error("the store failed: {0}")]
    Io(Arc<str>),
    /// The store has stopped after an earlier failure.
    #[error("the store has stopped")]
    Stopped,
}

/// The place of a batch in the line of commits: resolves to its [`Outcome`].
///
/// The batch is in line from the moment [`Store::commit`] returned; dropping the
/// ticket does not take it back.
#[derive(Debug)]
pub struct Ticket(oneshot::Receiver<Outcome>);

impl Ticket {
    /// A ticket and the end that resolves it.
    #[must_use]
    pub fn new() -> (oneshot::Sender<Outcome>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.0)
            .poll(context)
            .map(|answer| answer.unwrap_or(Outcome::Unknown(Error::Stopped)))
    }
}

/// Called once when the store has failed and nothing is known about the disk any more.
pub type OnFailure = Box<dyn FnOnce(&Error) + Send>;

/// Figures of a store since it was opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Batches committed.
    pub batches: u64,
    /// Syncs they took: many batches share one.
    pub syncs: u64,
    /// Bytes on disk, where the engine knows them.
    pub bytes_on_disk: u64,
}

/// A durable home for rows, listed rows and logs.
pub trait Store: Send + Sync + 'static {
    /// Puts `batch` in line and returns at once. Batches are applied in the order
    /// of these calls, each whole or not at all. One whose ticket was dropped may be applied some
    /// milliseconds later than its turn, but never after a later one that names one of its keys.
    fn commit(&self, batch: Batch) -> Ticket;

    /// The value at `key`, as of the last commit that was answered or a later one.
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Bytes>>;

    /// Up to `limit` rows with `from <= key < to`, in key order.
    fn scan(&self, from: Key, to: Key, limit: usize) -> Answer<'_, Vec<Row>>;

    /// The listed rows that `query` asks for, and their exact total. Sees every
    /// batch that was answered before the call.
    fn query<'a>(&'a self, query: &'a Query) -> Answer<'a, Page>;

    /// Up to `limit` records of `log` with a number greater than `after`, in order.
    fn read_log(&self, log: LogId, after: u64, limit: usize) -> Answer<'_, Vec<Record>>;

    /// The numbers of the oldest kept and the newest record of `log`: `(0, 0)` if it never
    /// had one; `oldest == newest + 1` when all were trimmed.
    fn log_bounds(&self, log: LogId) -> Answer<'_, (u64, u64)>;

    /// Every record committed from now on, in the order of commit, those of several batches
    /// together, after they became durable and before their tickets resolve. One receiver is enough
    /// for a process: a second call closes the first.
    fn tail(&self) -> mpsc::UnboundedReceiver<Vec<Record>>;

    /// The epoch that guards are compared with. Greater after every opening.
    fn epoch(&self) -> Epoch;

    /// What this store has done so far.
    fn stats(&self) -> Stats;
}
