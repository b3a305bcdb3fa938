//! Bytes, index terms and one durable commit.
//!
//! A store takes [`Batch`]es and answers each once it cannot be lost any more. A store has rows, listed
//! rows (which a [`Query`] finds) and logs (append-only, numbered in the order of commits). The store
//! knows nothing of tasks, of actors or of HTTP: [`table::Table`] and its users give the bytes a
//! meaning.
//!
//! Deliberately absent: transactions that read (every key has one writer, which knows its last value), and
//! any wall clock but that of the archive's records.

pub mod batch;
pub mod measure;
pub mod ownership;
pub mod postgres;
#[doc(hidden)]
pub mod probe;
pub mod query;
pub mod sled;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod anchor;
mod archive;
mod committer;
mod directory;
mod index;
mod journal;
mod log;
mod mark;
mod overlay;
mod panics;
mod repair;
mod reserve;
mod row;
mod scrub;
mod segments;
mod shutdown;
mod ticket;
mod version;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

pub use archive::{
    ArchiveReader, ArchiveState, BackupNote, Finding, Protection, VerificationRecord, init_archive,
    prune_archive, prune_lineages,
};
pub use batch::{Batch, BatchId, Entry, Epoch, Key, LogId, Op, Partition, Terms};
pub use committer::DEFERRED;
pub use directory::{Inspected, advice, create_private, inspect, is_in_use};
pub use measure::{Measured, Size};
pub use ownership::{Ownership, PartitionSet};
pub use query::{Filter, Order, Page, Query};
pub use reserve::Reserve;
pub use ticket::Ticket;
pub use version::{ROWS, Written};

/// A boxed future of a read: a store behind a network has to wait.
pub type ReadFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// One row: its key and its value.
pub type Row = (Key, Bytes);

/// One row with its index entry, if it stands in a list.
pub type WholeRow = (Key, Bytes, Option<Entry>);

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The log.
    pub log: LogId,
    /// The record's number: 1 for the first, without gaps, in the order of commits.
    pub sequence: u64,
    /// The appended bytes.
    pub bytes: Bytes,
}

/// The outcome of a batch.
#[derive(Debug)]
pub enum Outcome {
    /// Every operation of the batch is on disk and survives a power cut.
    Committed,
    /// A guard named an epoch that is over; nothing was changed.
    Fenced,
    /// An [`Op::Insert`] found its key taken; nothing was changed.
    Conflict(Key),
    /// The batch was refused before a write; nothing was changed.
    NotApplied(Error),
    /// The disk or the connection failed during the commit: the batch may or may not be there. The embedded
    /// store answers so to every batch of that commit, and takes no further batch; a shared one, when it
    /// could not find out for a long time.
    Unknown(Error),
}

/// An error of a store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The data directory is in use by another process.
    #[error(
        "the data directory {0} is in use by another process; stop it first, or name another with --data-dir"
    )]
    Locked(String),
    /// A newer program has written the store.
    #[error(
        "{place} was written by a newer program than this one ({own}), which would lose what it does not know; start \
         callboard of {program}, or restore a backup from before the upgrade",
        own = version::PROGRAM
    )]
    Newer {
        /// The store.
        place: String,
        /// The program to use, as words.
        program: String,
    },
    /// The data directory is damaged.
    #[error(
        "the data directory {path} cannot be read: {reason}; restore it from a backup, or name an empty one with --data-dir"
    )]
    Corrupt {
        /// The directory, or the part of it.
        path: String,
        /// The damage: a clause about the directory, whose subject is "it" or "its …".
        reason: String,
    },
    /// A row or a record over the limit.
    #[error(
        "{0} bytes are too large: a store takes {row} in a row and {record} in a log record",
        row = batch::MAX_ROW,
        record = log::MAX_RECORD
    )]
    TooLarge(usize),
    /// The disk or the connection failed.
    #[error("the store failed: {0}")]
    Io(Arc<str>),
    /// More terms than [`Filter::MAX_BEGUN`] begin with the bytes of a filter: nothing was looked up.
    #[error("too many terms begin with the bytes of a filter")]
    Vague,
    /// The store has stopped, after a failure or because it closes.
    #[error("the store has stopped")]
    Stopped,
}

/// Called once, after a failure that leaves nothing known about the disk.
pub type OnFailure = Box<dyn FnOnce(&Error) + Send>;

/// The figures of a store since it was opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Batches committed.
    pub batches: u64,
    /// Syncs for the commits: many batches share one.
    pub syncs: u64,
}

/// A durable store of rows, listed rows and logs.
pub trait Store: Send + Sync + 'static {
    /// Queues `batch` and returns at once. Batches are applied in the order of these calls, each completely
    /// or not at all. A batch whose ticket was dropped may be applied some milliseconds later, but before
    /// every later one that names one of its keys.
    fn commit(&self, batch: Batch) -> Ticket;

    /// Ready while a large batch does not make those behind it wait for the disk. A commit that does not wait for this
    /// is taken all the same.
    fn room(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }

    /// The value at `key`, after the last answered commit or a later one.
    fn get<'a>(&'a self, key: &'a Key) -> ReadFuture<'a, Option<Bytes>>;

    /// The rows with `from <= key < to`, in key order, at most `limit`.
    fn scan(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<Row>>;

    /// The same with the index entries of listed rows, the terms in any order.
    fn scan_whole(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<WholeRow>>;

    /// The documents of a query, and their exact total, after every batch that was answered before the
    /// call.
    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page>;

    /// The same as [`Store::scan`] for the rows of some partitions, whose keys begin with a document id that ends in the
    /// partition. A store that is open in one process only, which owns every partition, answers for all.
    fn scan_partitions(
        &self,
        partitions: PartitionSet,
        from: Key,
        to: Key,
        limit: usize,
    ) -> ReadFuture<'_, Vec<Row>>;

    /// The records of `log` with a number greater than `after`, in order, at most `limit`.
    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>>;

    /// The numbers of the oldest kept and the newest record of `log`: `(0, 0)` if it never
    /// had one; `oldest == newest + 1` when all were trimmed.
    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)>;

    /// A receiver of every record that is committed from now on, in the order of commits, those of several
    /// batches together: after they became durable and before their tickets resolve. The records of other
    /// nodes are among them. A second call closes the first receiver.
    fn tail(&self) -> mpsc::UnboundedReceiver<Vec<Record>>;

    /// The epoch that guards of the partition must name; `None` if this node does not own it. The epoch
    /// grows with every opening, and with every change of the owner.
    fn epoch(&self, partition: Partition) -> Option<Epoch>;

    /// Measures the rows behind the key `after` on disk, empty at first, without waiting for long: the embedded store a
    /// part of them, a shared one a sample of all. Rows that change meanwhile may count or not.
    fn measure(&self, after: Vec<u8>) -> ReadFuture<'_, Measured>;

    /// Figures since the opening.
    fn stats(&self) -> Stats;
}
