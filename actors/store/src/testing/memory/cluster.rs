//! Several nodes of one process over one memory store, each with a connection that a test can cut or
//! freeze. Time is tokio's, which a test may pause.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::MemoryStore;
use super::disk::Disk;
use crate::batch::{Batch, Epoch, LogId, Partition};
use crate::ownership::{NodeId, NodeRow, Ownership, PartitionRow, PartitionSet, View};
use crate::{Error, Outcome, ReadFuture, Record, Stats};

const PARTITIONS: usize = 256;

/// A memory store that several nodes share.
#[derive(Debug, Clone)]
pub struct Cluster(Arc<Mutex<Database>>);

impl Cluster {
    /// An empty store without nodes, in which a node's row expires after `term`.
    #[must_use]
    pub fn new(term: Duration) -> Self {
        let database = Database { term, processes: Vec::new(), ..Database::owned_at(Epoch(0)) };
        Self(Arc::new(Mutex::new(database)))
    }

    /// A new process of the node `id`, which has not joined yet.
    #[must_use]
    pub fn node(&self, id: NodeId) -> MemoryStore {
        let mut database = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        database.processes.push(Process::default());
        let process = database.processes.len() - 1;
        MemoryStore { id, process, database: Arc::clone(&self.0) }
    }

    /// Lets the row of a node expire at once.
    pub fn expire(&self, id: NodeId) {
        self.with(id, |node, _| node.expires = Instant::now());
    }

    /// Lets the row of a node have been alive for a term.
    pub fn ripen(&self, id: NodeId) {
        self.with(id, |node, term| node.since = node.since.checked_sub(term).unwrap_or(node.since));
    }

    fn with(&self, id: NodeId, change: impl FnOnce(&mut Node, Duration)) {
        let mut database = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let term = database.term;
        if let Some(node) = database.nodes.get_mut(&id) {
            change(node, term);
        }
    }
}

/// The state of a process's connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Link {
    #[default]
    Up,
    Cut,
    Frozen,
}

impl Link {
    pub(super) fn is_frozen(self) -> bool {
        self == Self::Frozen
    }

    pub(super) fn is_cut(self) -> bool {
        self == Self::Cut
    }
}

/// The error of a call over a cut connection.
pub(super) fn cut() -> Error {
    Error::Io("the connection is cut".into())
}

/// A process with a connection to the database.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) link: watch::Sender<Link>,
    /// The commits that were called while the link was frozen.
    pub(super) waiting: Vec<(Batch, oneshot::Sender<Outcome>)>,
    /// The epochs of the partitions that the process owns as far as it knows.
    pub(super) epochs: Vec<Option<Epoch>>,
    pub(super) tail: Option<mpsc::UnboundedSender<Vec<Record>>>,
    /// The newest number of each log that the tail was sent.
    pub(super) published: BTreeMap<LogId, u64>,
    incarnation: u64,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            link: watch::Sender::default(),
            waiting: Vec::new(),
            epochs: vec![None; PARTITIONS],
            tail: None,
            published: BTreeMap::new(),
            incarnation: 0,
        }
    }
}

#[derive(Debug)]
struct Node {
    row: NodeRow,
    expires: Instant,
    /// The beginning of the time in which the row has not expired.
    since: Instant,
}

/// The store that the nodes share, and their connections.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) disk: Disk,
    pub(super) processes: Vec<Process>,
    pub(super) stats: Stats,
    partitions: Vec<PartitionRow>,
    nodes: BTreeMap<NodeId, Node>,
    term: Duration,
}

impl Database {
    /// An empty store whose one process owns every partition.
    pub(super) fn owned_at(epoch: Epoch) -> Self {
        let process = Process { epochs: vec![Some(epoch); PARTITIONS], ..Process::default() };
        Self {
            disk: Disk::default(),
            processes: vec![process],
            stats: Stats::default(),
            partitions: vec![PartitionRow { owner: None, epoch }; PARTITIONS],
            nodes: BTreeMap::new(),
            term: Duration::from_secs(5),
        }
    }

    pub(super) fn reopened(&self) -> Self {
        let epoch = Epoch(self.partitions[0].epoch.0 + 1);
        Self { disk: self.disk.clone(), ..Self::owned_at(epoch) }
    }

    pub(super) fn apply(&mut self, process: usize, batch: Batch) -> Outcome {
        let mut fenced = false;
        for (partition, epoch) in &batch.guards {
            let at = usize::from(partition.0);
            if self.partitions[at].epoch != *epoch {
                fenced = true;
                let known = &mut self.processes[process].epochs[at];
                known.take_if(|known| known == epoch);
            }
        }
        if fenced {
            return Outcome::Fenced;
        }
        let appended = match self.disk.apply(batch) {
            Ok(appended) => appended,
            Err(outcome) => return outcome,
        };
        self.stats.batches += 1;
        self.stats.syncs += 1;
        if !appended.is_empty() {
            let Self { processes, disk, .. } = self;
            for process in processes {
                process.publish(disk);
            }
        }
        Outcome::Committed
    }

    fn view(&self, now: Instant) -> View {
        let row = |node: &Node| NodeRow {
            expires_in: node.expires.saturating_duration_since(now),
            expired_for: now.saturating_duration_since(node.expires),
            ..node.row.clone()
        };
        View { nodes: self.nodes.values().map(row).collect(), partitions: self.partitions.clone() }
    }

    fn is_expired(&self, node: NodeId, now: Instant) -> bool {
        self.nodes.get(&node).is_none_or(|node| node.expires <= now)
    }

    fn release(&mut self, node: NodeId, partitions: PartitionSet) {
        for partition in partitions.iter() {
            let row = &mut self.partitions[usize::from(partition.0)];
            row.owner.take_if(|owner| *owner == node);
        }
    }

    fn claim(&mut self, id: NodeId, partitions: PartitionSet, now: Instant) -> PartitionSet {
        let Some(me) = self.nodes.get(&id).filter(|me| me.expires > now) else {
            return PartitionSet::EMPTY;
        };
        let may_take_over = now.duration_since(me.since) >= self.term;
        let is_free = |partition: &Partition| {
            let owner = self.partitions[usize::from(partition.0)].owner;
            owner.is_none_or(|owner| owner != id && may_take_over && self.is_expired(owner, now))
        };
        let gained: PartitionSet = partitions.iter().filter(is_free).collect();
        for partition in gained.iter() {
            let row = &mut self.partitions[usize::from(partition.0)];
            *row = PartitionRow { owner: Some(id), epoch: Epoch(row.epoch.0 + 1) };
        }
        gained
    }
}

impl Process {
    /// Sends the records that the tail has not been sent.
    fn publish(&mut self, disk: &Disk) {
        let Some(tail) = self.tail.as_ref().filter(|_| *self.link.borrow() == Link::Up) else {
            return;
        };
        for (log, newest) in disk.newest() {
            let published = self.published.entry(log).or_default();
            let records: Vec<_> = disk.records(log, *published).collect();
            *published = newest;
            if !records.is_empty() {
                // The receiver may have been dropped.
                let _ = tail.send(records);
            }
        }
    }
}

impl MemoryStore {
    /// Cuts the node's connection: reads fail, and a commit's outcome is unknown and nothing changes.
    pub fn cut_off(&self) {
        self.process(|process| process.link.send_replace(Link::Cut));
    }

    /// Stops the node's connection: reads and commits wait for [`MemoryStore::heal`].
    pub fn freeze(&self) {
        self.process(|process| process.link.send_replace(Link::Frozen));
    }

    /// Connects the node again. The commits that waited are applied, or fenced, in their order.
    pub fn heal(&self) {
        let mut database = self.database();
        let process = &mut database.processes[self.process];
        process.link.send_replace(Link::Up);
        for (batch, reply) in std::mem::take(&mut process.waiting) {
            let outcome = database.apply(self.process, batch);
            // The ticket may have been dropped.
            let _ = reply.send(outcome);
        }
        let Database { processes, disk, .. } = &mut *database;
        processes[self.process].publish(disk);
    }

    /// Lets the node's row expire at once.
    pub fn expire(&self) {
        if let Some(node) = self.database().nodes.get_mut(&self.id) {
            node.expires = Instant::now();
        }
    }

    fn write<'a, T: Send + 'a>(
        &'a self,
        write: impl FnOnce(&mut Database, Instant) -> Result<T, Error> + Send + 'a,
    ) -> ReadFuture<'a, T> {
        Box::pin(async move {
            self.connected().await?;
            write(&mut self.database(), Instant::now())
        })
    }
}

impl Ownership for MemoryStore {
    fn id(&self) -> NodeId {
        self.id
    }

    fn term(&self) -> Duration {
        self.database().term
    }

    fn join<'a>(&'a self, address: &'a str) -> ReadFuture<'a, ()> {
        self.write(move |database, now| {
            let before = database.nodes.get(&self.id).map_or(0, |node| node.row.incarnation);
            let row = NodeRow {
                id: self.id,
                incarnation: before + 1,
                address: address.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                is_draining: false,
                expires_in: database.term,
                expired_for: Duration::ZERO,
                report: Bytes::new(),
            };
            database.release(self.id, PartitionSet::ALL);
            let process = &mut database.processes[self.process];
            process.incarnation = row.incarnation;
            process.epochs.fill(None);
            let node = Node { row, expires: now + database.term, since: now };
            database.nodes.insert(self.id, node);
            Ok(())
        })
    }

    fn renew(&self, report: Bytes) -> ReadFuture<'_, View> {
        self.write(move |database, now| {
            let incarnation = database.processes[self.process].incarnation;
            let node = database.nodes.get_mut(&self.id);
            let node = node.filter(|node| node.row.incarnation == incarnation);
            let node = node.ok_or(Error::Stopped)?;
            if node.expires <= now {
                node.since = now;
            }
            node.expires = now + database.term;
            node.row.report = report;
            let Database { partitions, processes, .. } = database;
            let known = processes[self.process].epochs.iter_mut();
            for (row, known) in partitions.iter().zip(known) {
                let held = (row.owner == Some(self.id)).then_some(row.epoch);
                known.take_if(|known| Some(*known) != held);
            }
            Ok(database.view(now))
        })
    }

    fn claim(&self, partitions: PartitionSet) -> ReadFuture<'_, PartitionSet> {
        self.write(move |database, now| {
            let gained = database.claim(self.id, partitions, now);
            let Database { partitions, processes, .. } = database;
            for partition in gained.iter().map(|partition| usize::from(partition.0)) {
                processes[self.process].epochs[partition] = Some(partitions[partition].epoch);
            }
            Ok(gained)
        })
    }

    fn release(&self, partitions: PartitionSet) -> ReadFuture<'_, ()> {
        self.write(move |database, _| {
            database.release(self.id, partitions);
            for partition in partitions.iter() {
                database.processes[self.process].epochs[usize::from(partition.0)] = None;
            }
            Ok(())
        })
    }

    fn drain(&self, node: NodeId, is_draining: bool) -> ReadFuture<'_, bool> {
        self.write(move |database, _| {
            let node = database.nodes.get_mut(&node);
            Ok(node.map(|node| node.row.is_draining = is_draining).is_some())
        })
    }

    fn leave(&self) -> ReadFuture<'_, ()> {
        self.write(move |database, _| {
            database.release(self.id, PartitionSet::ALL);
            database.nodes.remove(&self.id);
            database.processes[self.process].epochs.fill(None);
            Ok(())
        })
    }
}
