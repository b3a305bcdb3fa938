//! The disk of a model run: a memory store that takes its time, forgets unwritten commits when
//! the power goes, and fails as ordered.
//!
//! Commits stand in a line. A group of them is applied and answered after a while, as a committer does; one whose
//! ticket was dropped may come later, but never after another that names one of its keys. Time is tokio's, which the
//! run pauses.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use callboard_store::testing::memory::MemoryStore;
use callboard_store::{
    Batch, Epoch, Error, Key, LogId, Measured, Op, Outcome, Page, Partition, PartitionSet, Query,
    ReadFuture, Record, Row, Stats, Store, Ticket, WholeRow,
};
use tokio::sync::{mpsc, oneshot};

use super::chance::Chance;

/// The longest pause around a read of rows, in milliseconds: of a process that starts, and of one that runs.
const COLD: u64 = 80;
pub(super) const WARM: u64 = 4;

/// The behaviour of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manner {
    /// How long a group may take, in milliseconds; 0: each commit is there at once.
    pub(super) slow: u64,
    /// The fault of the disk.
    pub(super) flaw: Option<Flaw>,
}

/// A planted bug, outside the program under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It answers before anything is written.
    Lies,
    /// It answers before anything is written of a batch that creates tasks.
    LiesToSubmissions,
    /// A worker's late answer arrives under the task's current lease, as if leases were not compared.
    LeasesNotCompared,
    /// When the process dies at a commit, half of it is written.
    Tears,
    /// A commit that nobody waits for may come after a later one of the same keys.
    Reorders,
}

/// The fault at a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// It is refused and changes nothing; later ones are as usual.
    Refused,
    /// The process dies before it is applied.
    CrashBefore,
    /// The process dies after it was applied, and nobody hears of it.
    CrashAfter,
}

struct Job {
    batch: Batch,
    answer: oneshot::Sender<Outcome>,
}

/// Why nothing is written any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The process has died.
    Dead,
    /// Another node owns what is stored.
    Fenced,
}

struct State {
    line: VecDeque<Job>,
    /// The commits that nobody waits for and that may come later.
    held: Vec<Job>,
    pumping: bool,
    count: u64,
    plan: Option<(u64, Trouble)>,
    end: Option<End>,
    troubled: bool,
    /// The longest pause around a read of rows, in milliseconds.
    pause: u64,
    chance: Chance,
}

struct Inner {
    store: Arc<MemoryStore>,
    manner: Manner,
    state: Mutex<State>,
}

/// The disk of one start of the process.
#[derive(Clone)]
pub(super) struct Disk(Arc<Inner>);

impl Disk {
    pub(super) fn new(store: Arc<MemoryStore>, manner: Manner, chance: Chance) -> Self {
        let state = State {
            line: VecDeque::new(),
            held: Vec::new(),
            pumping: false,
            count: 0,
            plan: None,
            end: None,
            troubled: false,
            pause: COLD,
            chance,
        };
        Self(Arc::new(Inner { store, manner, state: Mutex::new(state) }))
    }

    /// At the `k`-th commit from now, counted from 1, this happens.
    pub(super) fn plan(&self, k: u64, trouble: Trouble) {
        let mut state = self.0.state();
        state.plan = Some((state.count + k, trouble));
    }

    /// Reads of rows take so long at most before and after, in milliseconds.
    pub(super) fn pause(&self, most: u64) {
        self.0.state().pause = most;
    }

    /// Drops the planned faults that have not happened.
    pub(super) fn spare(&self) {
        self.0.state().plan = None;
    }

    /// Whether the process has died of a commit.
    pub(super) fn is_dead(&self) -> bool {
        self.0.state().end == Some(End::Dead)
    }

    /// Another node has taken over: of what stands in line, the first `applied` are written, and the database refuses
    /// the rest and all that comes.
    pub(super) fn fence(&self, applied: usize) {
        let mut state = self.0.state();
        let applied = applied.min(state.line.len());
        let written: Vec<_> = state.line.drain(..applied).collect();
        for job in written {
            self.0.apply(&mut state, job);
        }
        (state.end, state.troubled) = (Some(End::Fenced), true);
        for job in
            std::mem::take(&mut state.line).into_iter().chain(std::mem::take(&mut state.held))
        {
            let _ = job.answer.send(Outcome::Fenced);
        }
    }

    /// Whether anything went wrong here: then actors may break, and callers hear of it.
    pub(super) fn was_troubled(&self) -> bool {
        self.0.state().troubled
    }

    /// The power goes: of what stands in line, the first `applied` are written, and nobody hears of
    /// them.
    pub(super) fn kill(&self, applied: usize) {
        let mut state = self.0.state();
        let applied = applied.min(state.line.len());
        let written: Vec<_> = state.line.drain(..applied).collect();
        for job in written {
            self.0.apply(&mut state, job);
        }
        state.die();
    }
}

impl State {
    fn die(&mut self) {
        self.end = Some(End::Dead);
        self.troubled = true;
        for job in self.line.drain(..).chain(self.held.drain(..)) {
            let _ = job.answer.send(Outcome::Unknown(Error::Stopped));
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Writes a batch, unless something goes wrong at this one.
    fn apply(&self, state: &mut State, job: Job) {
        if let Some(end) = state.end {
            let _ = job.answer.send(match end {
                End::Dead => Outcome::Unknown(Error::Stopped),
                End::Fenced => Outcome::Fenced,
            });
            return;
        }
        state.count += 1;
        let trouble = state.plan.filter(|(k, _)| *k == state.count).map(|(_, trouble)| trouble);
        match trouble {
            None => {
                let outcome = self.write(job.batch);
                let _ = job.answer.send(outcome);
            }
            Some(Trouble::Refused) => {
                state.troubled = true;
                let why = Error::Io("the test says so".into());
                let _ = job.answer.send(Outcome::NotApplied(why));
            }
            Some(trouble) => {
                let Job { mut batch, answer } = job;
                if self.manner.flaw == Some(Flaw::Tears) {
                    batch.ops.truncate(batch.ops.len() / 2);
                    self.write(batch);
                } else if trouble == Trouble::CrashAfter {
                    self.write(batch);
                }
                let _ = answer.send(Outcome::Unknown(Error::Io("the test says so".into())));
                state.die();
            }
        }
    }

    fn write(&self, batch: Batch) -> Outcome {
        let mut ticket = tokio::task::unconstrained(self.store.commit(batch));
        match Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => unreachable!("memory answers at once"),
        }
    }

    /// Writes a group: the commits in line, and those held that may wait no longer.
    fn group(&self) {
        let mut state = self.state();
        let state = &mut *state;
        let count = if state.chance.percent(70) {
            state.line.len()
        } else {
            state.chance.index(state.line.len() + 1)
        };
        if state.line.is_empty() {
            for job in std::mem::take(&mut state.held) {
                self.apply(state, job);
            }
        }
        for _ in 0..count {
            let Some(job) = state.line.pop_front() else { break };
            if job.answer.is_closed() && state.chance.percent(50) {
                state.held.push(job);
                continue;
            }
            let reorders = self.manner.flaw == Some(Flaw::Reorders);
            if !reorders && state.held.iter().any(|held| share_a_key(&held.batch, &job.batch)) {
                for job in std::mem::take(&mut state.held) {
                    self.apply(state, job);
                }
            }
            self.apply(state, job);
        }
    }

    /// How long a read of rows is under way before it is made, and after that.
    fn pauses_of_read(&self) -> (Duration, Duration) {
        let mut state = self.state();
        let most = state.pause;
        let mut pause = || {
            let slow = self.manner.slow > 0 && most > 0 && state.chance.percent(50);
            Duration::from_millis(if slow { state.chance.below(most) } else { 0 })
        };
        (pause(), pause())
    }

    fn nap(&self) -> Duration {
        Duration::from_millis(self.state().chance.below(self.manner.slow + 1))
    }

    async fn pump(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.nap()).await;
            self.group();
            let mut state = self.state();
            if state.line.is_empty() && state.held.is_empty() {
                state.pumping = false;
                return;
            }
        }
    }
}

async fn pass(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

fn keys(batch: &Batch) -> impl Iterator<Item = &Key> {
    batch.ops.iter().filter_map(|op| match op {
        Op::Put { key, .. } | Op::Insert { key, .. } | Op::Delete { key } => Some(key),
        Op::Append { .. } | Op::Trim { .. } => None,
    })
}

/// True if the batch writes unfinished tasks and their texts, and ends none.
fn creates_tasks(batch: &Batch) -> bool {
    let of_table = |table: u8| keys(batch).any(move |key| key.0.first() == Some(&table));
    let ends = batch.ops.iter().any(|op| matches!(op, Op::Delete { .. }));
    of_table(0x80) && of_table(0x10) && !ends
}

fn share_a_key(one: &Batch, other: &Batch) -> bool {
    keys(one).any(|key| keys(other).any(|also| also == key))
}

impl Store for Disk {
    fn commit(&self, batch: Batch) -> Ticket {
        let (mut answer, ticket) = Ticket::new();
        let mut state = self.0.state();
        let lies = match self.0.manner.flaw {
            Some(Flaw::Lies) => true,
            Some(Flaw::LiesToSubmissions) => creates_tasks(&batch),
            Some(Flaw::Tears | Flaw::Reorders | Flaw::LeasesNotCompared) | None => false,
        };
        if lies && state.end.is_none() {
            let truth = std::mem::replace(&mut answer, Ticket::new().0);
            let _ = truth.send(Outcome::Committed);
        }
        let job = Job { batch, answer };
        if self.0.manner.slow == 0 || state.end.is_some() {
            self.0.apply(&mut state, job);
            return ticket;
        }
        state.line.push_back(job);
        if !std::mem::replace(&mut state.pumping, true) {
            tokio::spawn(Arc::clone(&self.0).pump());
        }
        ticket
    }

    fn get<'a>(&'a self, key: &'a Key) -> ReadFuture<'a, Option<Bytes>> {
        self.0.store.get(key)
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<Row>> {
        let (before, after) = self.0.pauses_of_read();
        Box::pin(async move {
            pass(before).await;
            let rows = self.0.store.scan(from, to, limit).await;
            pass(after).await;
            rows
        })
    }

    fn scan_partitions(
        &self,
        partitions: PartitionSet,
        from: Key,
        to: Key,
        limit: usize,
    ) -> ReadFuture<'_, Vec<Row>> {
        self.0.store.scan_partitions(partitions, from, to, limit)
    }

    fn scan_whole(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<WholeRow>> {
        self.0.store.scan_whole(from, to, limit)
    }

    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page> {
        self.0.store.query(query)
    }

    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>> {
        self.0.store.read_log(log, after, limit)
    }

    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)> {
        self.0.store.log_bounds(log)
    }

    fn tail(&self) -> mpsc::UnboundedReceiver<Vec<Record>> {
        self.0.store.tail()
    }

    fn epoch(&self, partition: Partition) -> Option<Epoch> {
        self.0.store.epoch(partition)
    }

    fn measure(&self, after: Vec<u8>) -> ReadFuture<'_, Measured> {
        self.0.store.measure(after)
    }

    fn stats(&self) -> Stats {
        self.0.store.stats()
    }
}
