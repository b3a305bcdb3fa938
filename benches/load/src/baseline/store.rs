//! The baseline: sled with one committer thread, the least that makes records of many writers durable
//! together. Benchmarks measure it beside programs on the real store.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc;

use tokio::sync::oneshot;

use crate::error::{Error, broken};

/// The most records that share a sync, as in the real store.
const GROUP: usize = 256;

/// A record, and its ticket's sender.
#[derive(Debug)]
pub(super) struct Job {
    /// The record's bytes.
    pub(super) record: Vec<u8>,
    /// Receives the outcome of the record's commit.
    pub(super) done: oneshot::Sender<Result<(), Error>>,
}

/// The thread's inbox. The thread ends with its last clone.
#[derive(Debug, Clone)]
pub(super) struct Committer(mpsc::Sender<Job>);

impl Committer {
    /// A committer on a new sled in `directory`.
    pub(super) fn open(directory: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let config = sled::Config::new().path(directory).cache_capacity(cache_bytes);
        let tree = config.open().map_err(Error::of("the store failed"))?;
        let db = File::open(directory.join("db")).map_err(Error::of("the store failed"))?;
        let (inbox, jobs) = mpsc::channel();
        std::thread::spawn(move || run(&tree, &db, &jobs));
        Ok(Self(inbox))
    }

    /// Queues a record.
    pub(super) fn send(&self, job: Job) {
        // If the thread has ended, the dropped sender says so.
        let _ = self.0.send(job);
    }

    /// Returns when the record is durable.
    pub(super) async fn commit(&self, record: Vec<u8>) -> Result<(), Error> {
        let (done, committed) = oneshot::channel();
        self.send(Job { record, done });
        committed.await.unwrap_or_else(|_| Err(broken("the store has stopped")))
    }
}

fn run(tree: &sled::Db, db: &File, jobs: &mpsc::Receiver<Job>) {
    let mut number = 0_u128;
    let mut waiting = Vec::with_capacity(GROUP);
    while let Ok(first) = jobs.recv() {
        let mut batch = sled::Batch::default();
        for job in std::iter::once(first).chain(jobs.try_iter().take(GROUP - 1)) {
            number += 1;
            batch.insert(&number.to_be_bytes(), job.record);
            waiting.push(job.done);
        }
        let outcome = commit(tree, db, batch);
        for done in waiting.drain(..) {
            // The receiver may have been dropped.
            let _ = done.send(outcome.clone().map_err(broken));
        }
        if outcome.is_err() {
            return;
        }
    }
}

fn commit(tree: &sled::Db, db: &File, batch: sled::Batch) -> Result<(), String> {
    tree.apply_batch(batch).map_err(|error| error.to_string())?;
    tree.flush().map_err(|error| error.to_string())?;
    db.sync_data().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_committed_is_there_after_a_start() {
        let directory = tempfile::tempdir().unwrap();
        let baseline = Committer::open(directory.path(), 1 << 20).unwrap();
        for record in [vec![1], vec![2; 1024]] {
            baseline.commit(record).await.unwrap();
        }
        // Read beside the running one: nothing was closed, as after kill -9.
        let copy = tempfile::tempdir().unwrap();
        for file in ["db", "conf"] {
            std::fs::copy(directory.path().join(file), copy.path().join(file)).unwrap();
        }
        let tree = sled::Config::new().path(copy.path()).open().unwrap();
        let records: Vec<_> = tree.iter().values().map(|v| v.unwrap().to_vec()).collect();
        assert_eq!(records, [vec![1], vec![2; 1024]]);
    }
}
