//! The shared store as one active period uses it: reads that fail are counted.
//!
//! An actor whose read fails breaks, and its caller hears nothing. The count shows the caller's node that
//! the reason is the database, not the program. Deliberately absent: commits, whose outcome ends the active period.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use callboard_store::{
    Batch, Epoch, Error, Key, LogId, Measured, Page, Partition, PartitionSet, Query, ReadFuture,
    Record, Row, Stats, Store, Ticket, WholeRow,
};
use tokio::sync::mpsc::UnboundedReceiver;

/// The number of reads that have failed.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailedReads(Arc<AtomicU64>);

impl FailedReads {
    /// The number so far.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    async fn watch<T>(&self, read: ReadFuture<'_, T>) -> Result<T, Error> {
        let read = read.await;
        if let Err(Error::Io(_) | Error::Stopped) = &read {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
        read
    }
}

/// A store whose failed reads are counted.
pub(super) struct WatchedStore {
    store: Arc<dyn Store>,
    failed: FailedReads,
}

impl WatchedStore {
    pub(super) fn new(store: Arc<dyn Store>, failed: FailedReads) -> Self {
        Self { store, failed }
    }
}

impl Store for WatchedStore {
    fn commit(&self, batch: Batch) -> Ticket {
        self.store.commit(batch)
    }

    fn room(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.store.room()
    }

    fn get<'a>(&'a self, key: &'a Key) -> ReadFuture<'a, Option<Bytes>> {
        Box::pin(self.failed.watch(self.store.get(key)))
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<Row>> {
        Box::pin(self.failed.watch(self.store.scan(from, to, limit)))
    }

    fn scan_whole(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<WholeRow>> {
        Box::pin(self.failed.watch(self.store.scan_whole(from, to, limit)))
    }

    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page> {
        Box::pin(self.failed.watch(self.store.query(query)))
    }

    fn scan_partitions(
        &self,
        partitions: PartitionSet,
        from: Key,
        to: Key,
        limit: usize,
    ) -> ReadFuture<'_, Vec<Row>> {
        Box::pin(self.failed.watch(self.store.scan_partitions(partitions, from, to, limit)))
    }

    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>> {
        Box::pin(self.failed.watch(self.store.read_log(log, after, limit)))
    }

    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)> {
        Box::pin(self.failed.watch(self.store.log_bounds(log)))
    }

    fn tail(&self) -> UnboundedReceiver<Vec<Record>> {
        self.store.tail()
    }

    fn epoch(&self, partition: Partition) -> Option<Epoch> {
        self.store.epoch(partition)
    }

    fn measure(&self, after: Vec<u8>) -> ReadFuture<'_, Measured> {
        Box::pin(self.failed.watch(self.store.measure(after)))
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }
}
