//! PostgreSQL as the store that several nodes share.
//!
//! ```text
//! callboard.row     key, value        the rows, logs and notes of the embedded store, byte for byte
//! callboard.log     id, newest        the numbers of the logs, moved on by each commit that appends
//! callboard.writer  node, fence, n    one row a node: its next group, while it is not fenced
//! callboard.node    id, expires, …    one row a node: alive by the database's clock
//! callboard.part    p, owner, epoch   one row a partition
//! ```
//!
//! Groups of batches are staged by the same committer as in the embedded store. Lists are answered from the
//! same index in memory, which a node builds when it claims partitions: queries are right on the owner of
//! the partitions that they concern.
//!
//! Deliberately absent: advisory locks, LISTEN and NOTIFY, and transactions of more than one call.

mod engine;
mod errors;
mod follow;
mod gathered;
mod heads;
mod link;
mod migrate;
mod nodes;
mod rows;
mod schema;
mod scratch;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;

use crate::batch::{Batch, Epoch, Key, LogId, Partition};
use crate::committer::{Committer, Job, Shared};
use crate::ownership::{NodeId, PartitionSet};
use crate::query::{Page, Query};
use crate::row::{disk_key, value, whole};
use crate::{
    Error, Inspected, Measured, OnFailure, ReadFuture, Record, Row, Stats, Store, Ticket, WholeRow,
};

pub use migrate::{Migrated, migrate};
pub use scratch::Scratch;
pub use session::Address;

use engine::PgEngine;
use follow::Load;
use gathered::Gathered;
use link::Link;
use nodes::Owned;

/// The options of a [`PostgresStore`].
pub struct PostgresOptions {
    /// The database.
    pub address: Address,
    /// The node.
    pub node: NodeId,
    /// The time from a renewal until the node's row expires.
    pub term: Duration,
    /// The longest wait for a database that does not answer. A longer silence fails a read; in a commit
    /// it ends the store.
    pub patience: Duration,
    /// Called once if a commit failed for good.
    pub on_failure: OnFailure,
}

impl PostgresOptions {
    /// A store at `address`, for `node`.
    #[must_use]
    pub fn new(address: Address, node: NodeId, on_failure: OnFailure) -> Self {
        let (term, patience) = (Duration::from_secs(5), Duration::from_mins(1));
        Self { address, node, term, patience, on_failure }
    }
}

/// Passes if the database at `address` answers, takes writes and is of a version and with settings that a node can
/// use. Nothing is written.
///
/// # Errors
/// Those of [`PostgresStore::open`], but for the tables.
pub async fn check(address: Address) -> Result<(), Error> {
    Link::new(address, tokio::runtime::Handle::current(), Duration::from_secs(5)).check().await
}

/// Looks at the tables of the database at `address`, which nodes may use; changes nothing. `None` if there are none.
///
/// # Errors
/// Those of [`PostgresStore::open`].
pub async fn inspect(address: Address) -> Result<Option<Inspected>, Error> {
    let link = Link::new(address, tokio::runtime::Handle::current(), Duration::from_secs(5));
    schema::inspect(&link).await
}

/// A node's connection to the shared store.
pub struct PostgresStore {
    runtime: Option<Runtime>,
    inbox: Option<mpsc::Sender<Job>>,
    committer: Option<JoinHandle<()>>,
    link: Arc<Link>,
    gathered: Arc<Gathered>,
    owned: Arc<Owned>,
    shared: Arc<Shared>,
    load: Arc<Load>,
    term: Duration,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("owned", &self.owned).finish_non_exhaustive()
    }
}

impl PostgresStore {
    /// Connects to the database, and makes the tables in an empty one. The node has not joined yet.
    ///
    /// # Errors
    /// [`Error::Io`] if the database cannot be reached, is too old or refuses; [`Error::Newer`] if a newer
    /// program has written the tables.
    pub async fn open(options: PostgresOptions) -> Result<Self, Error> {
        let PostgresOptions { address, node, term, patience, on_failure } = options;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| Error::Io(error.to_string().into()))?;
        let handle = runtime.handle().clone();
        let link = Arc::new(Link::new(address, handle.clone(), patience));
        let opened = async {
            link.check().await?;
            schema::migrate(&link).await?;
            rows::logs(&link).await
        };
        let logs = match opened.await {
            Ok(logs) => logs,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let owned = Arc::new(Owned::new(node));
        let newest: BTreeMap<_, _> = logs.iter().map(|(log, it)| (*log, it.newest)).collect();
        let shared = Arc::new(Shared::new(logs));
        shared.expect_others(newest);
        let engine = PgEngine::new(handle.clone(), Arc::clone(&link), Arc::clone(&owned));
        let committer = Committer::new(engine, Epoch(0), Arc::clone(&shared));
        let (inbox, jobs) = mpsc::channel();
        let run = move || committer.run(&jobs, |error| on_failure(error));
        let committer = thread::Builder::new().name("store-committer".into()).spawn(run);
        let committer = committer.map_err(|error| Error::Io(error.to_string().into()))?;
        handle.spawn(follow::run(Arc::clone(&link), Arc::clone(&shared)));
        let reads = Arc::clone(&link);
        let call = move |keys: Vec<_>| -> gathered::Answer {
            let link = Arc::clone(&reads);
            Box::pin(async move { rows::at(&link, &keys).await })
        };
        let gathered = Arc::new(Gathered::new(handle, Box::new(call)));
        Ok(Self {
            runtime: Some(runtime),
            inbox: Some(inbox),
            committer: Some(committer),
            link,
            gathered,
            owned,
            shared,
            load: Arc::default(),
            term,
        })
    }

    /// Builds the list index anew, in the background: rows may have changed under another owner.
    fn load_index(&self) {
        let Some(runtime) = &self.runtime else { return };
        let (link, shared) = (Arc::clone(&self.link), Arc::clone(&self.shared));
        let turn = self.load.begin(&shared);
        runtime.spawn(Arc::clone(&self.load).run(turn, link, shared));
    }
}

impl Store for PostgresStore {
    fn commit(&self, batch: Batch) -> Ticket {
        let (reply, ticket) = Ticket::new();
        if let Some(inbox) = &self.inbox {
            // The thread has ended after a failure: the job is dropped, and its ticket says that the
            // store has stopped.
            let _ = inbox.send(Job { batch, reply });
        }
        ticket
    }

    fn get<'a>(&'a self, key: &'a Key) -> ReadFuture<'a, Option<Bytes>> {
        Box::pin(async move {
            let row = self.gathered.get(disk_key(key)).await?;
            row.map(|row| value(&key.0, &row)).transpose()
        })
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
        let read = |key: &[u8], row: &[u8]| Ok((Key(key.into()), value(key, row)?));
        Box::pin(rows::scan(&self.link, partitions, (from, to), limit, read))
    }

    fn scan_whole(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<WholeRow>> {
        Box::pin(rows::scan(&self.link, PartitionSet::ALL, (from, to), limit, whole))
    }

    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page> {
        Box::pin(self.shared.index.query(query))
    }

    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>> {
        Box::pin(rows::records(&self.link, log, after, limit))
    }

    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)> {
        Box::pin(async move {
            let bounds = rows::bounds(&self.link, log).await?;
            Ok((bounds.oldest, bounds.newest))
        })
    }

    fn tail(&self) -> tokio::sync::mpsc::UnboundedReceiver<Vec<Record>> {
        self.shared.tail()
    }

    fn epoch(&self, partition: Partition) -> Option<Epoch> {
        self.owned.epoch(partition)
    }

    fn measure(&self, _: Vec<u8>) -> ReadFuture<'_, Measured> {
        Box::pin(rows::sample(&self.link))
    }

    fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.inbox = None;
        self.link.close();
        if let Some(committer) = self.committer.take() {
            // The thread catches its own panics.
            let _ = committer.join();
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
