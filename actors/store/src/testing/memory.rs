//! A store in memory, for tests: the model that the others are compared with, and the store under the
//! actors' tests.
//!
//! The contents survive a [`MemoryStore::reopen`], as on a disk. The store has one map, and a query
//! looks at every row. A [`Cluster`] is one such store that several nodes of a process share.
//!
//! Deliberately absent: indexes, threads, and answers that take time.

mod cluster;
mod disk;

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::batch::{Batch, Epoch, Key, LogId, Partition};
use crate::ownership::{NodeId, PartitionSet};
use crate::query::{Page, Query};
use crate::row::disk_key;
use crate::{
    Error, Measured, Outcome, ReadFuture, Record, Row, Size, Stats, Store, Ticket, WholeRow,
};

pub use cluster::Cluster;

use cluster::{Database, Process};

/// A store in memory: alone, or one node's connection to a [`Cluster`].
#[derive(Debug)]
pub struct MemoryStore {
    id: NodeId,
    process: usize,
    database: Arc<Mutex<Database>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store, whose one node owns every partition.
    #[must_use]
    pub fn new() -> Self {
        Self::alone(Database::owned_at(Epoch(1)))
    }

    fn alone(database: Database) -> Self {
        Self { id: NodeId(1), process: 0, database: Arc::new(Mutex::new(database)) }
    }

    /// A store with the contents of this one, as after a restart of the process. The two share nothing
    /// afterwards.
    #[must_use]
    pub fn reopen(&self) -> Self {
        Self::alone(self.database().reopened())
    }

    fn database(&self) -> MutexGuard<'_, Database> {
        self.database.lock().expect("no holder panics")
    }

    /// Reads, once the node is connected.
    fn read<'a, T: Send + 'a>(
        &'a self,
        read: impl FnOnce(&Database) -> T + Send + 'a,
    ) -> ReadFuture<'a, T> {
        Box::pin(async move {
            self.connected().await?;
            Ok(read(&self.database()))
        })
    }

    /// Waits while the node is frozen.
    async fn connected(&self) -> Result<(), Error> {
        let mut link = self.process(|process| process.link.subscribe());
        let frozen = link.borrow().is_frozen();
        if frozen {
            // The sender lives as long as the database.
            let _ = link.wait_for(|link| !link.is_frozen()).await;
        }
        if link.borrow().is_cut() { Err(cluster::cut()) } else { Ok(()) }
    }

    fn process<R>(&self, with: impl FnOnce(&mut Process) -> R) -> R {
        with(&mut self.database().processes[self.process])
    }
}

impl Store for MemoryStore {
    fn commit(&self, batch: Batch) -> Ticket {
        let (reply, ticket) = Ticket::new();
        let mut database = self.database();
        let process = &mut database.processes[self.process];
        if process.link.borrow().is_frozen() {
            process.waiting.push((batch, reply));
            return ticket;
        }
        let outcome = if process.link.borrow().is_cut() {
            Outcome::Unknown(cluster::cut())
        } else {
            database.apply(self.process, batch)
        };
        // The ticket is still here.
        let _ = reply.send(outcome);
        ticket
    }

    fn get<'a>(&'a self, key: &'a Key) -> ReadFuture<'a, Option<Bytes>> {
        self.read(|database| database.disk.rows.get(key).map(|row| row.value.clone()))
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<Row>> {
        self.scan_partitions(PartitionSet::ALL, from, to, limit)
    }

    fn scan_partitions(
        &self,
        partitions: PartitionSet,
        from: Key,
        to: Key,
        limit: usize,
    ) -> ReadFuture<'_, Vec<Row>> {
        self.read(move |database| {
            if from >= to {
                return Vec::new();
            }
            let rows = database.disk.rows.range(from..to);
            let rows = rows.filter(|(key, _)| {
                let partition = key.partition();
                partitions == PartitionSet::ALL
                    || partition.is_some_and(|partition| partitions.contains(partition))
            });
            let rows = rows.take(limit);
            rows.map(|(key, row)| (key.clone(), row.value.clone())).collect()
        })
    }

    fn scan_whole(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<WholeRow>> {
        self.read(move |database| {
            if from >= to {
                return Vec::new();
            }
            let rows = database.disk.rows.range(from..to).take(limit);
            rows.map(|(key, row)| (key.clone(), row.value.clone(), row.entry.clone())).collect()
        })
    }

    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page> {
        self.read(|database| database.disk.select(query))
    }

    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>> {
        self.read(move |database| database.disk.records(log, after).take(limit).collect())
    }

    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)> {
        self.read(move |database| {
            let bounds = database.disk.logs.get(&log).map(|(bounds, _)| *bounds);
            let bounds = bounds.unwrap_or_default();
            (bounds.oldest, bounds.newest)
        })
    }

    fn tail(&self) -> mpsc::UnboundedReceiver<Vec<Record>> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut database = self.database();
        let newest = database.disk.newest();
        let process = &mut database.processes[self.process];
        (process.tail, process.published) = (Some(sender), newest);
        receiver
    }

    fn epoch(&self, partition: Partition) -> Option<Epoch> {
        self.process(|process| process.epochs[usize::from(partition.0)])
    }

    fn measure(&self, _: Vec<u8>) -> ReadFuture<'_, Measured> {
        self.read(|database| {
            let mut measured = Measured::default();
            for (key, row) in &database.disk.rows {
                let bytes = (1 + key.0.len() + row.value.len()) as u64;
                measured.add(&disk_key(key), Size { rows: 1, bytes });
            }
            measured
        })
    }

    fn stats(&self) -> Stats {
        self.database().stats
    }
}
