//! A store that fails at one commit, for tests: they fail or crash at every commit in turn and recover, and
//! the outcome must be the same.
//!
//! Deliberately absent: chance. A plan names the commit by its number.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::batch::{Batch, Epoch, Key, LogId, Partition};
use crate::ownership::PartitionSet;
use crate::query::{Page, Query};
use crate::{Error, Measured, Outcome, ReadFuture, Record, Row, Stats, Store, Ticket, WholeRow};

/// The failure of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The commit is refused and changes nothing. Later ones succeed.
    NotApplied,
    /// The commit is applied and answered with `Unknown`. Later ones succeed.
    UnknownApplied,
    /// The commit is not applied and answered with `Unknown`. Later ones succeed.
    UnknownLost,
    /// This commit and all later ones are neither applied nor answered.
    Silent,
    /// The commit is applied, and answered at the next one. Later ones succeed.
    Late,
    /// The process dies before the commit is applied: this one and all later ones are `Unknown`.
    CrashBefore,
    /// The process dies after the commit was applied: this one and all later ones are `Unknown`.
    CrashAfter,
}

/// A store around `inner` that fails at one commit.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    /// The number of the commit, from 1, and its failure.
    plan: Option<(u64, Fault)>,
    commits: AtomicU64,
    /// The replies of silent and late commits.
    pending: std::sync::Mutex<Vec<oneshot::Sender<Outcome>>>,
}

impl FaultyStore {
    /// A store that only counts commits (see [`FaultyStore::commits`]).
    #[must_use]
    pub fn transparent(inner: Arc<dyn Store>) -> Self {
        Self { inner, plan: None, commits: AtomicU64::new(0), pending: std::sync::Mutex::default() }
    }

    /// A store whose `k`-th commit, counted from 1, meets `fault`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, k: u64, fault: Fault) -> Self {
        Self { plan: Some((k, fault)), ..Self::transparent(inner) }
    }

    /// The number of commits so far.
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::SeqCst)
    }

    /// True if the fault has happened.
    pub fn has_failed(&self) -> bool {
        self.plan.is_some_and(|(k, _)| self.commits() >= k)
    }

    fn fail(&self, batch: Batch, fault: Fault, first: bool) -> Ticket {
        let broken = || Outcome::Unknown(Error::Io("the test says so".into()));
        match fault {
            Fault::NotApplied if first => {
                Ticket::answered(Outcome::NotApplied(Error::Io("the test says so".into())))
            }
            Fault::UnknownLost | Fault::CrashBefore if first => Ticket::answered(broken()),
            Fault::UnknownApplied | Fault::CrashAfter if first => {
                drop(self.inner.commit(batch));
                Ticket::answered(broken())
            }
            Fault::NotApplied | Fault::UnknownApplied | Fault::UnknownLost => {
                self.inner.commit(batch)
            }
            Fault::Late if first => {
                drop(self.inner.commit(batch));
                let (reply, ticket) = Ticket::new();
                self.pending.lock().expect("no holder panics").push(reply);
                ticket
            }
            Fault::Late => {
                for late in self.pending.lock().expect("no holder panics").drain(..) {
                    // The ticket may have been dropped.
                    let _ = late.send(Outcome::Committed);
                }
                self.inner.commit(batch)
            }
            Fault::Silent => {
                let (reply, ticket) = Ticket::new();
                self.pending.lock().expect("no holder panics").push(reply);
                ticket
            }
            Fault::CrashBefore | Fault::CrashAfter => {
                Ticket::answered(Outcome::Unknown(Error::Stopped))
            }
        }
    }
}

impl Store for FaultyStore {
    fn commit(&self, batch: Batch) -> Ticket {
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        match self.plan {
            Some((k, fault)) if number >= k => self.fail(batch, fault, number == k),
            Some(_) | None => self.inner.commit(batch),
        }
    }

    fn room(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.inner.room()
    }

    fn get<'a>(&'a self, key: &'a Key) -> ReadFuture<'a, Option<Bytes>> {
        self.inner.get(key)
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<Row>> {
        self.inner.scan(from, to, limit)
    }

    fn scan_partitions(
        &self,
        partitions: PartitionSet,
        from: Key,
        to: Key,
        limit: usize,
    ) -> ReadFuture<'_, Vec<Row>> {
        self.inner.scan_partitions(partitions, from, to, limit)
    }

    fn scan_whole(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<WholeRow>> {
        self.inner.scan_whole(from, to, limit)
    }

    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page> {
        self.inner.query(query)
    }

    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>> {
        self.inner.read_log(log, after, limit)
    }

    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)> {
        self.inner.log_bounds(log)
    }

    fn tail(&self) -> mpsc::UnboundedReceiver<Vec<Record>> {
        self.inner.tail()
    }

    fn epoch(&self, partition: Partition) -> Option<Epoch> {
        self.inner.epoch(partition)
    }

    fn measure(&self, after: Vec<u8>) -> ReadFuture<'_, Measured> {
        self.inner.measure(after)
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchId, Op};
    use crate::testing::memory::MemoryStore;

    /// Commits three rows. Returns which answers were `Committed` and which rows are there.
    async fn three_commits(fault: Fault) -> (Vec<bool>, Vec<bool>) {
        let memory = Arc::new(MemoryStore::new());
        let store = FaultyStore::new(memory.clone(), 2, fault);
        let key = |n: u8| Key::new(1, 1, &[n]);
        let (mut answers, mut rows) = (Vec::new(), Vec::new());
        for n in 1..=3 {
            let op = Op::Insert { key: key(n), value: Bytes::new() };
            let batch = Batch { id: BatchId(u128::from(n)), guards: Vec::new(), ops: vec![op] };
            let ticket = store.commit(batch);
            if fault != Fault::Silent || n == 1 {
                answers.push(matches!(ticket.await, Outcome::Committed));
            }
            rows.push(memory.get(&key(n)).await.unwrap().is_some());
        }
        (answers, rows)
    }

    #[tokio::test]
    async fn each_fault_does_what_it_says() {
        let (yes, no) = (true, false);
        let expected = [
            (Fault::NotApplied, vec![yes, no, yes], [yes, no, yes]),
            (Fault::UnknownApplied, vec![yes, no, yes], [yes, yes, yes]),
            (Fault::UnknownLost, vec![yes, no, yes], [yes, no, yes]),
            (Fault::Silent, vec![yes], [yes, no, no]),
            (Fault::CrashBefore, vec![yes, no, no], [yes, no, no]),
            (Fault::CrashAfter, vec![yes, no, no], [yes, yes, no]),
        ];
        for (fault, answers, rows) in expected {
            assert_eq!(three_commits(fault).await, (answers, rows.to_vec()), "{fault:?}");
        }
    }
}
