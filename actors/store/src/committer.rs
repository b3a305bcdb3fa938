//! Group commit: one thread makes the batches of many actors durable together.
//!
//! ```text
//! commit ─▶ inbox ─▶ all batches that wait ─▶ check each ─▶ one write ─▶ one sync
//!                                              ─▶ index ─▶ tail ─▶ tickets, in order
//! ```
//!
//! A batch with a ticket is never delayed by a timer: a lone writer pays one sync, and during that sync
//! the batches of the others gather for the next one. A batch whose ticket was dropped may be deferred
//! (see [`deferred`]). Of two operations on one key in a group only the later one is written.
//!
//! After a write or a sync has failed nothing is known about the disk: every ticket of the group says so,
//! the owner of the process is told once, and the thread ends, which answers all later batches.
//!
//! Deliberately absent: the way of bytes to the disk (see [`Engine`]).

mod deferred;
mod group;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::batch::{Batch, Epoch, Key, LogId};
use crate::index::Index;
use crate::log::{self, Bounds};
use crate::row::{disk_key, entry_block};
use crate::{Error, Outcome, Record, Stats, panics};

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

    /// Up to `limit` keys with `from <= key < to`, in order.
    fn keys(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error>;

    /// Adds a row to the next [`Engine::commit`].
    fn put(&mut self, key: &[u8], value: &[u8]);

    /// Adds the deletion of a row to the next [`Engine::commit`].
    fn delete(&mut self, key: &[u8]);

    /// Makes all puts and deletions since the last call durable, together or not at all.
    fn commit(&mut self) -> Result<(), Error>;
}

/// A batch in the inbox.
pub(crate) struct Job {
    pub(crate) batch: Batch,
    pub(crate) reply: oneshot::Sender<Outcome>,
}

/// The committer's state that readers see.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) index: Index,
    pub(crate) logs: RwLock<BTreeMap<LogId, Bounds>>,
    tail: Mutex<Option<mpsc::UnboundedSender<Vec<Record>>>>,
    batches: AtomicU64,
    syncs: AtomicU64,
}

impl Shared {
    pub(crate) fn new(logs: BTreeMap<LogId, Bounds>) -> Self {
        Self {
            index: Index::new(),
            logs: RwLock::new(logs),
            tail: Mutex::new(None),
            batches: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    /// Returns the one receiver of all records from now on.
    pub(crate) fn tail(&self) -> mpsc::UnboundedReceiver<Vec<Record>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        *self.tail.lock().expect("no holder panics") = Some(sender);
        receiver
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
    epoch: Epoch,
    shared: Arc<Shared>,
    logs: BTreeMap<LogId, Bounds>,
    stamp: u64,
    /// Logs that may have trimmed rows on the disk.
    unswept: BTreeSet<LogId>,
}

impl<E: Engine> Committer<E> {
    /// A committer for one opening of `engine`.
    pub(crate) fn new(engine: E, epoch: Epoch, shared: Arc<Shared>) -> Self {
        let logs = shared.logs.read().expect("no holder panics").clone();
        let unswept = logs.keys().copied().collect();
        // Stamps ascend with every put, over openings too: 2^40 puts an opening, 2^24 openings.
        Self { engine, epoch, shared, logs, stamp: epoch.0 << 40, unswept }
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
        let mut staging = Staging::new(self);
        let mut outcomes = Vec::with_capacity(batches.len());
        for batch in batches {
            outcomes.push(staging.stage(batch)?);
        }
        let staged = staging.finish()?;
        if staged.is_empty() {
            return Ok(outcomes);
        }
        let (changes, records) = staged.write(&mut self.engine, &self.logs);
        let changes = self.shared.index.hold_while_loading(changes);
        self.engine.commit()?;

        if let Some(changes) = changes {
            let fetch = |key: &Key| block(&self.engine, key).ok().flatten();
            self.shared.index.apply(&changes, &fetch);
        }
        self.publish(records);
        let committed =
            outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Committed)).count();
        self.shared.batches.fetch_add(committed as u64, Ordering::Relaxed);
        self.shared.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(outcomes)
    }

    fn publish(&self, records: Vec<Record>) {
        if *self.shared.logs.read().expect("no holder panics") != self.logs {
            self.shared.logs.write().expect("no holder panics").clone_from(&self.logs);
        }
        if records.is_empty() {
            return;
        }
        let mut tail = self.shared.tail.lock().expect("no holder panics");
        if let Some(sender) = &*tail
            && sender.send(records).is_err()
        {
            *tail = None;
        }
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
