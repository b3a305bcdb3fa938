//! Group commit: one thread makes the batches of many actors durable together.
//!
//! ```text
//! commit ─▶ inbox ─▶ all batches that wait ─▶ check each ─▶ one write ─▶ one sync
//!                                              ─▶ index ─▶ tail ─▶ tickets, in order
//! ```
//!
//! A batch with a ticket is never delayed by a timer: a lone writer pays one sync, and during that sync
//! the batches of the others gather for the next one. A batch whose ticket was dropped may be deferred
//! (see [`deferred`]). A group writes only the later one of two operations on one key.
//!
//! A failed write or sync leaves the state of the disk unknown: every ticket of the group says so,
//! the owner of the process is notified once, and the thread ends, which answers all later batches.

mod deferred;
mod group;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::batch::{Batch, Epoch, Key, LogId, Partition};
use crate::index::{Index, StagedChanges};
use crate::log::{self, Bounds};
use crate::row::{disk_key, entry_block};
use crate::{Error, Outcome, Record, Stats, panics};

pub use deferred::DEFERRED;
use deferred::DeferredCommits;
use group::Staging;

#[cfg(test)]
mod tests;

/// The most batches that share a sync.
const GROUP: usize = 256;

/// The rows on a disk, as the committer uses them.
pub(crate) trait Engine: Send + 'static {
    /// Reads the row at `key` in place.
    fn read<R>(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error>;

    /// The keys with `from <= key < to`, in order, at most `limit`.
    fn keys(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error>;

    /// Adds a row to the next [`Engine::commit`].
    fn put(&mut self, key: &[u8], value: &[u8]);

    /// Adds a row of log records to the next [`Engine::commit`].
    fn append(&mut self, key: &[u8], value: &[u8]) {
        self.put(key, value);
    }

    /// Adds the deletion of a row to the next [`Engine::commit`].
    fn delete(&mut self, key: &[u8]);

    /// The epoch that guards of a partition must name; `None` if this process does not own it.
    fn epoch(&self, partition: Partition) -> Option<Epoch>;

    /// The least stamp of the next put.
    fn least_stamp(&self) -> u64 {
        0
    }

    /// Reads ahead the rows that the staging of `batches` asks for.
    fn read_ahead(&mut self, _batches: &[Batch], _index: &Index) -> Result<(), Error> {
        Ok(())
    }

    /// Makes all puts and deletions since the last call durable, together or not at all; `logs` has the
    /// bounds of the logs afterwards.
    fn commit(&mut self, logs: &BTreeMap<LogId, Bounds>) -> Result<Applied, Error>;
}

/// The outcome of [`Engine::commit`].
pub(crate) enum Applied {
    /// The group is durable. The numbers of a log's new records are so much greater than they were staged:
    /// other processes had appended to it.
    Yes(Vec<(LogId, u64)>),
    /// Another process has changed the bounds that the group was staged on, and nothing was written:
    /// the group is to be staged again, on these bounds.
    Moved(BTreeMap<LogId, Bounds>),
}

/// A batch in the inbox.
pub(crate) struct Job {
    pub(crate) batch: Batch,
    pub(crate) reply: oneshot::Sender<Outcome>,
}

/// The receiver of committed records.
#[derive(Debug, Default)]
struct Tail {
    to: Option<mpsc::UnboundedSender<Vec<Record>>>,
    /// The newest number of each log that was sent, where several processes append to the logs.
    published: Option<BTreeMap<LogId, u64>>,
}

impl Tail {
    /// Sends records in order. Leaves out those that were sent, and those after a gap, which
    /// [`Shared::publish`] closes; returns true if there is one.
    fn send(&mut self, mut records: Vec<Record>) -> bool {
        let mut has_gap = false;
        if let Some(published) = &mut self.published {
            records.retain(|record| {
                let published = published.entry(record.log).or_default();
                let is_next = record.sequence == *published + 1;
                if is_next {
                    *published = record.sequence;
                }
                has_gap |= record.sequence > *published;
                is_next
            });
        }
        if records.is_empty() {
            return has_gap;
        }
        if let Some(to) = &self.to
            && to.send(records).is_err()
        {
            self.to = None;
        }
        has_gap
    }
}

/// The committer's state that readers see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) index: Index,
    pub(crate) logs: RwLock<BTreeMap<LogId, Bounds>>,
    tail: Mutex<Tail>,
    /// Notified when a record comes whose predecessors this process has not read.
    pub(crate) gap: Notify,
    batches: AtomicU64,
    syncs: AtomicU64,
}

impl Shared {
    pub(crate) fn new(logs: BTreeMap<LogId, Bounds>) -> Self {
        Self {
            index: Index::new(),
            logs: RwLock::new(logs),
            tail: Mutex::default(),
            gap: Notify::new(),
            batches: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    /// Returns the one receiver of all records from now on.
    pub(crate) fn tail(&self) -> mpsc::UnboundedReceiver<Vec<Record>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.tail.lock().expect("no holder panics").to = Some(sender);
        receiver
    }

    /// Begins to look after gaps: other processes append to the logs too, which are now at `newest`.
    pub(crate) fn expect_others(&self, newest: BTreeMap<LogId, u64>) {
        self.tail.lock().expect("no holder panics").published = Some(newest);
    }

    /// The newest number of a log that the tail was sent.
    pub(crate) fn published(&self, log: LogId) -> u64 {
        let tail = self.tail.lock().expect("no holder panics");
        tail.published
            .as_ref()
            .and_then(|published| published.get(&log).copied())
            .unwrap_or_default()
    }

    /// Goes on after a record: those up to it were trimmed before they could be sent.
    pub(crate) fn skip(&self, log: LogId, to: u64) {
        if let Some(published) = &mut self.tail.lock().expect("no holder panics").published {
            let published = published.entry(log).or_default();
            *published = to.max(*published);
        }
    }

    /// Sends records, also of other processes, that a reader has found.
    pub(crate) fn publish(&self, records: Vec<Record>) {
        if self.tail.lock().expect("no holder panics").send(records) {
            self.gap.notify_one();
        }
    }

    pub(crate) fn bounds(&self, log: LogId) -> Bounds {
        self.logs.read().expect("no holder panics").get(&log).copied().unwrap_or_default()
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            batches: self.batches.load(Ordering::Relaxed),
            syncs: self.syncs.load(Ordering::Relaxed),
        }
    }
}

/// The thread's state.
pub(crate) struct Committer<E> {
    engine: E,
    shared: Arc<Shared>,
    logs: BTreeMap<LogId, Bounds>,
    stamp: u64,
    /// Logs that may have trimmed rows on the disk, all from this record on.
    unswept: BTreeMap<LogId, u64>,
}

/// All logs, from their first record on.
fn whole(logs: &BTreeMap<LogId, Bounds>) -> BTreeMap<LogId, u64> {
    logs.keys().map(|log| (*log, 0)).collect()
}

impl<E: Engine> Committer<E> {
    /// A committer for one opening of `engine`.
    pub(crate) fn new(engine: E, epoch: Epoch, shared: Arc<Shared>) -> Self {
        let logs = shared.logs.read().expect("no holder panics").clone();
        let unswept = whole(&logs);
        // Stamps ascend with every put, over openings too: 2^40 puts an opening, 2^24 openings.
        Self { engine, shared, logs, stamp: epoch.0 << 40, unswept }
    }

    /// Commits batches until the inbox is closed, or until the engine fails.
    pub(crate) fn run(mut self, inbox: &Receiver<Job>, on_failure: impl FnOnce(&Error)) {
        let mut deferred = DeferredCommits::default();
        while let Some(jobs) = next_group(inbox, &mut deferred) {
            let (batches, replies): (Vec<_>, Vec<_>) =
                jobs.into_iter().map(|job| (job.batch, job.reply)).unzip();
            // The engine may panic on a broken disk; that must not leave the process half alive.
            let outcomes = panics::catch(|| self.commit(&batches))
                .unwrap_or_else(|_| Err(Error::Io("the engine panicked".into())));
            match outcomes {
                Ok(outcomes) => {
                    for (reply, outcome) in replies.into_iter().zip(outcomes) {
                        // The ticket may have been dropped.
                        let _ = reply.send(outcome);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "a commit failed: the store takes no further batch");
                    for reply in replies {
                        let _ = reply.send(Outcome::Unknown(error.clone()));
                    }
                    on_failure(&error);
                    return;
                }
            }
        }
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        loop {
            if let Some(outcomes) = self.try_commit(batches)? {
                return Ok(outcomes);
            }
        }
    }

    /// Commits a group; `None` if it is to be staged again.
    fn try_commit(&mut self, batches: &[Batch]) -> Result<Option<Vec<Outcome>>, Error> {
        self.engine.read_ahead(batches, &self.shared.index)?;
        self.stamp = self.stamp.max(self.engine.least_stamp());
        let mut staging = Staging::new(self);
        let mut outcomes = Vec::with_capacity(batches.len());
        for batch in batches {
            outcomes.push(staging.stage(batch)?);
        }
        let staged = staging.finish()?;
        if staged.is_empty() {
            return Ok(Some(outcomes));
        }
        let (changes, mut records) = staged.write(&mut self.engine, &self.logs);
        let changes = self.shared.index.hold_while_loading(changes);
        match self.engine.commit(&self.logs)? {
            Applied::Yes(shifts) => self.renumber(&shifts, &mut records),
            Applied::Moved(logs) => {
                let fetch = |key: &Key| block(&self.engine, key).ok().flatten();
                self.shared.index.withdraw(changes, &fetch);
                self.unswept = whole(&logs);
                self.logs = logs;
                return Ok(None);
            }
        }

        if let StagedChanges::Ready(changes) = changes {
            let fetch = |key: &Key| block(&self.engine, key).ok().flatten();
            self.shared.index.apply(&changes, &fetch);
        }
        self.publish(records);
        let committed =
            outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Committed)).count();
        self.shared.batches.fetch_add(committed as u64, Ordering::Relaxed);
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(Some(outcomes))
    }

    /// Gives records the numbers under which they were committed.
    fn renumber(&mut self, shifts: &[(LogId, u64)], records: &mut [Record]) {
        for (log, shift) in shifts {
            if let Some(bounds) = self.logs.get_mut(log) {
                bounds.newest += shift;
            }
            for record in records.iter_mut().filter(|record| record.log == *log) {
                record.sequence += shift;
            }
        }
    }

    fn publish(&self, records: Vec<Record>) {
        if *self.shared.logs.read().expect("no holder panics") != self.logs {
            self.shared.logs.write().expect("no holder panics").clone_from(&self.logs);
        }
        if records.is_empty() {
            return;
        }
        self.shared.publish(records);
    }
}

/// The batches that are committed together next: all that wait, but for deferred ones. `None` at the end.
fn next_group(inbox: &Receiver<Job>, deferred: &mut DeferredCommits) -> Option<Vec<Job>> {
    loop {
        let first = match deferred.next_due(Instant::now()) {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => inbox.recv_timeout(due),
        };
        if let Err(RecvTimeoutError::Disconnected) = first {
            let rest = deferred.drain();
            return (!rest.is_empty()).then_some(rest);
        }
        let received = first.into_iter().chain(inbox.try_iter().take(GROUP - 1));
        let jobs = deferred.select(received, Instant::now());
        if !jobs.is_empty() {
            return Some(jobs);
        }
    }
}

/// The entry block of the row at `key`.
fn block<E: Engine>(engine: &E, key: &Key) -> Result<Option<Box<[u8]>>, Error> {
    engine.read(&disk_key(key), entry_block)
}

/// The bounds of every log of `engine`.
pub(crate) fn read_logs<E: Engine>(
    engine: &E,
    last_row: impl Fn(LogId) -> Result<Option<(Bytes, Bytes)>, Error>,
) -> Result<BTreeMap<LogId, Bounds>, Error> {
    let mut logs = BTreeMap::new();
    for id in (0..=u8::MAX).map(LogId) {
        let mut bounds = engine
            .read(&log::trim_key(id), |row| row.and_then(log::decode_bounds))?
            .unwrap_or_default();
        if let Some((key, row)) = last_row(id)? {
            let mut newest = log::read_key(&key).map_or(0, |(first, _)| first);
            if log::read_key(&key).is_some_and(|(_, part)| part == 0 || part == log::COMPRESSED) {
                log::Unpacker::default().row(&key, &row, |number, _| newest = number);
            }
            bounds.newest = bounds.newest.max(newest);
            bounds.oldest = bounds.oldest.max(1);
        }
        if bounds.newest > 0 {
            logs.insert(id, bounds);
        }
    }
    Ok(logs)
}
