//! One thread that makes the batches of many actors durable together.
//!
//! ```text
//! commit ─▶ inbox ─▶ drain all that wait ─▶ check each ─▶ one write ─▶ one sync
//!                                              ─▶ index ─▶ tail ─▶ tickets, in order
//! ```
//!
//! There is no timer for those who wait: a lone writer pays one sync, and while that runs the others
//! gather for the next. What nobody waits for is held back a little (see [`held`]). Of two operations
//! on one key in a group only the later one is written.
//!
//! Once a write or a sync has failed nothing is known about the disk: everyone in the group is
//! told so, the owner of the process is told once, and the thread ends, which answers all that
//! comes later.
//!
//! Deliberately absent: how bytes get to the disk (see [`Engine`]).

mod group;
mod held;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::batch::{Batch, Epoch, Key, LogId};
use crate::index::Index;
use crate::log::{self, Bounds};
use crate::row::{encode_key, split_listed};
use crate::{Error, OnFailure, Outcome, Record, Stats};

use group::Group;
use held::Held;

#[cfg(test)]
mod tests;

/// The most batches that share a sync.
const GROUP: usize = 256;

/// Where rows are kept: what the committer asks of a disk.
pub(crate) trait Engine: Send + 'static {
    /// Reads the row at `key` in place.
    fn read<R>(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error>;

    /// Up to `limit` keys with `from <= key < to`, in order.
    fn keys(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error>;

    /// Adds to what [`Engine::commit`] writes.
    fn put(&mut self, key: &[u8], value: &[u8]);

    /// Adds to what [`Engine::commit`] writes.
    fn delete(&mut self, key: &[u8]);

    /// Writes everything since the last call, whole or not at all; when it returns, it is durable.
    fn commit(&mut self) -> Result<(), Error>;
}

/// A batch in line.
pub(crate) struct Job {
    pub(crate) batch: Batch,
    pub(crate) answer: oneshot::Sender<Outcome>,
}

/// What readers see of the committer.
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

    /// Sends every record from now on to the returned receiver, and to no other.
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
            bytes_on_disk: 0,
        }
    }
}

/// The thread's own state.
pub(crate) struct Committer<E> {
    engine: E,
    epoch: Epoch,
    shared: Arc<Shared>,
    logs: BTreeMap<LogId, Bounds>,
    stamp: u64,
    max_row: usize,
    /// Logs of which trimmed rows may be left on the disk.
    unswept: BTreeSet<LogId>,
}

impl<E: Engine> Committer<E> {
    /// A committer for one opening of `engine`. Rows over `max_row` bytes are refused.
    pub(crate) fn new(engine: E, epoch: Epoch, shared: Arc<Shared>, max_row: usize) -> Self {
        let logs = shared.logs.read().expect("no holder panics").clone();
        let unswept = logs.keys().copied().collect();
        // Stamps grow with every put, over openings too: 2^40 puts an opening, 2^24 openings.
        Self { engine, epoch, shared, logs, stamp: epoch.0 << 40, max_row, unswept }
    }

    /// Commits what comes in until nobody can send any more, or until the engine fails.
    pub(crate) fn run(mut self, inbox: &Receiver<Job>, on_failure: OnFailure) {
        let mut held = Held::default();
        while let Some(mut jobs) = gather(inbox, &mut held) {
            let (batches, answers): (Vec<_>, Vec<_>) =
                jobs.drain(..).map(|job| (job.batch, job.answer)).unzip();
            // The engine may panic on a broken disk; that must not leave the process half alive.
            let outcomes = catch_unwind(AssertUnwindSafe(|| self.commit(&batches)))
                .unwrap_or_else(|_| Err(Error::Io("the engine panicked".into())));
            match outcomes {
                // A caller that has dropped its ticket doesn't want the answer.
                Ok(outcomes) => {
                    for (answer, outcome) in answers.into_iter().zip(outcomes) {
                        let _ = answer.send(outcome);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "the store failed in mid-commit and takes no further batch");
                    for answer in answers {
                        let _ = answer.send(Outcome::Unknown(error.clone()));
                    }
                    on_failure(&error);
                    return;
                }
            }
        }
    }

    fn commit(&mut self, batches: &[Batch]) -> Result<Vec<Outcome>, Error> {
        let Self { engine, epoch, logs, stamp, max_row, unswept, shared } = self;
        let mut group = Group::new(engine, &shared.index, *epoch, logs, stamp, *max_row, unswept);
        let mut outcomes = Vec::with_capacity(batches.len());
        for batch in batches {
            outcomes.push(group.stage(batch)?);
        }
        let written = group.finish()?;
        if written.is_empty() {
            return Ok(outcomes);
        }
        let (changes, records) = written.write(&mut self.engine, &self.logs);
        let changes = self.shared.index.note(changes);
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

/// The next group: whatever is in line by now, but for what can wait. `None` at the end.
fn gather(inbox: &Receiver<Job>, held: &mut Held) -> Option<Vec<Job>> {
    loop {
        let first = match held.left(Instant::now()) {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => inbox.recv_timeout(left),
        };
        if let Err(RecvTimeoutError::Disconnected) = first {
            let rest = held.all();
            return (!rest.is_empty()).then_some(rest);
        }
        let came = first.into_iter().chain(inbox.try_iter().take(GROUP - 1));
        let jobs = held.take(came, Instant::now());
        if !jobs.is_empty() {
            return Some(jobs);
        }
    }
}

/// The entry block of the row at `key`.
pub(crate) fn block<E: Engine>(engine: &E, key: &Key) -> Result<Option<Box<[u8]>>, Error> {
    let mut on_disk = Vec::with_capacity(1 + key.0.len());
    encode_key(&key.0, &mut on_disk);
    engine.read(&on_disk, |row| {
        row.and_then(split_listed).and_then(|(block, _)| block.map(Box::from))
    })
}

/// The bounds of every log of `engine`.
pub(crate) fn read_logs<E: Engine>(
    engine: &E,
    last_row: impl Fn(LogId) -> Result<Option<(Bytes, Bytes)>, Error>,
) -> Result<BTreeMap<LogId, Bounds>, Error> {
    let mut logs = BTreeMap::new();
    for id in (0..=u8::MAX).map(LogId) {
        let mut bounds = engine
            .read(&log::trim_key(id), |note| note.and_then(log::read_bounds))?
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
