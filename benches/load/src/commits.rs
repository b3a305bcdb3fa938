//! The rate of durable commits of a store by itself: the row of an item and one record of the log in each.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use callboard_store::ownership::NodeId;
use callboard_store::postgres::{Address, PostgresOptions, PostgresStore};
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{
    Batch, BatchId, Epoch, Key, LogId, Op, Outcome, Ownership, Partition, PartitionSet, Store,
};

use super::error::{Error, broken};
use super::meter::{Client, closed_loop};
use super::program::Ground;
use super::report::Row;

/// The number of writers: the most that share a sync.
const WRITERS: u64 = 256;
const CACHE_BYTES: u64 = 64 << 20;
const P: Partition = Partition(7);

struct Writer {
    store: Arc<dyn Store>,
    epoch: Epoch,
    next: Arc<AtomicU64>,
}

impl Client for Writer {
    async fn once(&mut self) -> Result<(), Error> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut id = u128::from(number).to_be_bytes();
        id[15] = P.0;
        let row = Op::Put { key: Key::new(1, 1, &id), value: vec![7; 500].into(), entry: None };
        let record = Op::Append { log: LogId(1), record: vec![7; 100].into() };
        let batch = Batch { id: BatchId(0), guards: vec![(P, self.epoch)], ops: vec![row, record] };
        let outcome = self.store.commit(batch).await;
        if matches!(outcome, Outcome::Committed) {
            Ok(())
        } else {
            Err(broken(format!("a commit failed: {outcome:?}")))
        }
    }
}

/// Measures the store of `ground`.
pub(super) async fn run(ground: &Ground) -> Result<Vec<Row>, Error> {
    let directory = ground.directory()?;
    ground.empty().await?;
    let store: Arc<dyn Store> = match ground.database() {
        None => Arc::new(embedded(directory.path())?),
        Some(address) => Arc::new(shared(address.clone()).await?),
    };
    let epoch = store.epoch(P).ok_or_else(|| broken("the store has no partition"))?;
    let next = Arc::default();
    let writer = |_| Writer { store: Arc::clone(&store), epoch, next: Arc::clone(&next) };
    let summary = closed_loop((0..WRITERS).map(writer).collect(), ground.options.span).await?;
    // No other holder of the store is left; dropping it waits for a thread.
    tokio::task::spawn_blocking(move || drop(store)).await.map_err(Error::of("no store"))?;
    let row = Row::of("commits", "a row and a record, durable, 256 writers", "commits/s");
    Ok(vec![row.figure(summary.rate).latencies(summary)])
}

fn embedded(directory: &Path) -> Result<SledStore, Error> {
    let options = SledOptions::new(directory.join("store"), CACHE_BYTES, Box::new(|_| ()));
    SledStore::open(options).map_err(Error::of("no store"))
}

async fn shared(address: Address) -> Result<PostgresStore, Error> {
    let options = PostgresOptions::new(address, NodeId(1), Box::new(|_| ()));
    let store = PostgresStore::open(options).await.map_err(Error::of("no store"))?;
    store.join("127.0.0.1:1").await.map_err(Error::of("no store"))?;
    store.claim(PartitionSet::ALL).await.map_err(Error::of("no store"))?;
    Ok(store)
}
