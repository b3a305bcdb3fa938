//! The embedded store: sled 0.34.7, made to survive a power cut.
//!
//! As it comes it does not: its flush is no fsync, a half-written `conf` or snapshot makes it
//! refuse to open, and large values go to files that it never syncs. Four measures, each of
//! which the power-loss test shows to be needed:
//!
//! 1. One committer thread: one `apply_batch` on one tree, `flush()`, `sync_data()` of `db`.
//! 2. Before opening: broken and half-made files that sled can make again are removed.
//! 3. After opening, before the first answer: every file and directory is synced.
//! 4. No key and value over [`MAX_ROW`], ever, so that `blobs/` stays empty.
//!
//! And it takes damage for the end of its log, or leaves out what is damaged. So every commit has a
//! number, the newest of which is noted beside sled's files too (`mark.rs`), and what sled is about to
//! replay is checked first (`scrub.rs`).
//!
//! Only this module names sled. Deliberately absent: sled's transactions, its several
//! trees (a batch is atomic within one only) and its `flush_async` (many at once hang for good).

mod opening;
mod waker;

use std::fs::{self, File};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use crate::batch::{Batch, Epoch, Key, LogId, MAX_ROW};
use crate::committer::{Committer, Engine, Job, Shared, read_logs};
use crate::directory::{corrupt, failed, lock, read_format, write_format};
use crate::index::Loader;
use crate::mark::{self, Left, Mark};
use crate::query::{Page, Query};
use crate::quiet::quietly;
use crate::row::{ROWS, encode_key, split_listed};
use crate::{Answer, Error, OnFailure, Record, Row, Stats, Store, Ticket, log, repair};

use opening::{NUMBER, check_left, newest_commit, next_epoch, open_tree, sled_failed};
use waker::{Waker, close};

/// How a [`SledStore`] is opened.
pub struct SledOptions {
    /// The data directory; made if it is not there.
    pub path: PathBuf,
    /// How much of the data sled keeps in memory.
    pub cache_bytes: u64,
    /// Called once if a write or a sync fails.
    pub on_failure: OnFailure,
    /// Leaves out one of the four measures.
    #[doc(hidden)]
    pub sabotage: Option<Sabotage>,
}

impl SledOptions {
    /// A store at `path`.
    #[must_use]
    pub fn new(path: PathBuf, cache_bytes: u64, on_failure: OnFailure) -> Self {
        Self { path, cache_bytes, on_failure, sabotage: None }
    }
}

/// A measure to leave out, so that the power-loss test can show that it would notice. There is no
/// way to set this from the program's configuration.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Commits are answered without a sync.
    NoSync,
    /// Broken files are left where they are.
    NoRepair,
    /// Rows of any size are let through.
    LargeRows,
}

/// The embedded store.
#[derive(Debug)]
pub struct SledStore {
    // Dropped in this order: nobody holds the tree when its directory is given up.
    inbox: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    waker: Option<Waker>,
    tree: Option<sled::Db>,
    closing: Arc<AtomicBool>,
    failing: Arc<AtomicBool>,
    shared: Arc<Shared>,
    epoch: Epoch,
    path: PathBuf,
    _lock: File,
}

/// A directory in which sled is open.
struct Opened {
    tree: sled::Db,
    path: PathBuf,
    known: Option<u32>,
    lock: File,
    sabotage: Option<Sabotage>,
}

impl SledStore {
    /// Opens the store at `options.path`, or a new one there.
    ///
    /// Returns at once: the index of listed rows is built in the background, and only
    /// [`Store::query`] waits for it.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has the directory, [`Error::Corrupt`] if it holds
    /// anything that this program cannot read, [`Error::Io`] if the disk fails.
    pub fn open(options: SledOptions) -> Result<Self, Error> {
        let SledOptions { path, cache_bytes, on_failure, sabotage } = options;
        fs::create_dir_all(&path).map_err(|error| failed(&error))?;
        let lock = lock(&path)?;
        let known = read_format(&path)?;
        if let Some(blob) = repair::first_blob(&path).map_err(|error| failed(&error))?
            && sabotage != Some(Sabotage::LargeRows)
        {
            return Err(corrupt(&path, &format!("{} should not be there", blob.display())));
        }
        let left = check_left(&path, known)?;
        // From here on it is not as it was left; and what a power cut has left is not known to be
        // whole until sled has replayed it.
        mark::taken(&path, left != Left::Unknown).map_err(|error| failed(&error))?;
        if sabotage != Some(Sabotage::NoRepair) {
            repair::repair(&path).map_err(|error| failed(&error))?;
        }
        let tree = open_tree(&path, cache_bytes)?;
        let opened = Opened { tree: tree.clone(), path, known, lock, sabotage };
        let begun = Self::begin(opened, on_failure);
        if begun.is_err() {
            // It panics if the disk fails.
            let _ = quietly(|| close(tree));
        }
        begun
    }

    fn begin(opened: Opened, on_failure: OnFailure) -> Result<Self, Error> {
        let Opened { tree, path, known, lock, sabotage } = opened;
        let waker = Some(Waker::start(tree.clone()).map_err(|error| failed(&error))?);
        let epoch = next_epoch(&tree, &path, known)?;
        let number = newest_commit(&tree, &path)?;
        let mark = Mark::open(&path, number).map_err(|error| failed(&error))?;
        let db = File::open(path.join("db")).map_err(|error| failed(&error))?;
        repair::sync_all(&path).map_err(|error| failed(&error))?;
        if known.is_none() {
            write_format(&path).map_err(|error| failed(&error))?;
        }
        mark::taken(&path, true).map_err(|error| failed(&error))?;

        let synced = sabotage != Some(Sabotage::NoSync);
        let max_row = if sabotage == Some(Sabotage::LargeRows) { usize::MAX } else { MAX_ROW };
        let batch = sled::Batch::default();
        let engine = SledEngine { tree: tree.clone(), db, batch, number, mark, synced, max_row };
        let logs = read_logs(&engine, |id| last_log_row(&tree, id))?;
        let shared = Arc::new(Shared::new(logs));
        let (inbox, jobs) = mpsc::channel();
        let committer = Committer::new(engine, epoch, shared.clone(), max_row);
        let (closing, failing) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let loader = {
            let (tree, shared, closing) = (tree.clone(), shared.clone(), closing.clone());
            let path = path.clone();
            move || load(&tree, &shared, &closing, &path)
        };
        let on_failure: OnFailure = {
            let failing = failing.clone();
            Box::new(move |error| {
                failing.store(true, Ordering::Relaxed);
                on_failure(error);
            })
        };
        let threads = vec![
            spawn("store-committer", move || committer.run(&jobs, on_failure))?,
            spawn("store-loader", loader)?,
        ];
        let inbox = Some(inbox);
        Ok(Self {
            inbox,
            threads,
            waker,
            tree: Some(tree),
            closing,
            failing,
            shared,
            epoch,
            path,
            _lock: lock,
        })
    }

    fn tree(&self) -> &sled::Db {
        self.tree.as_ref().expect("only drop takes the tree")
    }

    fn read(&self, key: &Key) -> Result<Option<Bytes>, Error> {
        let mut on_disk = Vec::with_capacity(1 + key.0.len());
        encode_key(&key.0, &mut on_disk);
        let row = self.tree().get(&on_disk).map_err(|error| sled_failed(&error))?;
        row.map(|row| value(&key.0, &row)).transpose()
    }

    fn read_rows(&self, from: &Key, to: &Key, limit: usize) -> Result<Vec<Row>, Error> {
        let (mut first, mut last) = (Vec::new(), Vec::new());
        encode_key(&from.0, &mut first);
        encode_key(&to.0, &mut last);
        if first >= last {
            return Ok(Vec::new());
        }
        let rows = self.tree().range(first..last).take(limit).map(|row| {
            let (key, row) = row.map_err(|error| sled_failed(&error))?;
            let value = value(&key[1..], &row)?;
            Ok((Key(key[1..].into()), value))
        });
        rows.collect()
    }

    fn read_records(&self, id: LogId, after: u64, limit: usize) -> Result<Vec<Record>, Error> {
        let bounds = self.shared.bounds(id);
        let start = bounds.oldest.max(after.saturating_add(1));
        let mut records = Vec::new();
        if start > bounds.newest || limit == 0 {
            return Ok(records);
        }
        let before = self.tree().range(log::key(id, 0, 0)..=log::key(id, start, 0)).next_back();
        let before = before.transpose().map_err(|error| sled_failed(&error))?;
        let first =
            before.and_then(|(key, _)| log::read_key(&key)).map_or(start, |(first, _)| first);
        let mut unpacker = log::Unpacker::default();
        for row in self.tree().range(log::key(id, first, 0)..=log::key(id, bounds.newest, u8::MAX))
        {
            let (key, row) = row.map_err(|error| sled_failed(&error))?;
            let record = |sequence, bytes: &[u8]| {
                if sequence >= start && sequence <= bounds.newest && records.len() < limit {
                    records.push(Record {
                        log: id,
                        sequence,
                        bytes: Bytes::copy_from_slice(bytes),
                    });
                }
            };
            if unpacker.row(&key, &row, record).is_none() {
                let reason = "its rows do not follow each other".into();
                return Err(Error::Corrupt { path: format!("log {}", id.0), reason });
            }
            if records.len() == limit {
                break;
            }
        }
        Ok(records)
    }
}

impl Store for SledStore {
    fn commit(&self, batch: Batch) -> Ticket {
        let (answer, ticket) = Ticket::new();
        if let Some(inbox) = &self.inbox {
            // The committer ends only after a failure. Then the job is dropped here, and its
            // ticket says that the store has stopped.
            let _ = inbox.send(Job { batch, answer });
        }
        ticket
    }

    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Bytes>> {
        Box::pin(async move { self.read(key) })
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> Answer<'_, Vec<Row>> {
        Box::pin(async move { self.read_rows(&from, &to, limit) })
    }

    fn query<'a>(&'a self, query: &'a Query) -> Answer<'a, Page> {
        Box::pin(self.shared.index.query(query))
    }

    fn read_log(&self, log: LogId, after: u64, limit: usize) -> Answer<'_, Vec<Record>> {
        Box::pin(async move { self.read_records(log, after, limit) })
    }

    fn log_bounds(&self, log: LogId) -> Answer<'_, (u64, u64)> {
        let bounds = self.shared.bounds(log);
        Box::pin(std::future::ready(Ok((bounds.oldest, bounds.newest))))
    }

    fn tail(&self) -> tokio::sync::mpsc::UnboundedReceiver<Record> {
        self.shared.tail()
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn stats(&self) -> Stats {
        let bytes_on_disk = self.tree().size_on_disk().unwrap_or(0);
        Stats { bytes_on_disk, ..self.shared.stats() }
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        self.inbox = None;
        self.closing.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The committer catches its panics; one of the loader's concerns its index only.
            let _ = thread.join();
        }
        let Some(tree) = self.tree.take() else { return };
        let flushed = catch_unwind(AssertUnwindSafe(|| tree.flush().is_ok())).unwrap_or(false);
        self.waker = None;
        // It panics if the disk fails.
        let closed = quietly(|| close(tree)).unwrap_or(false);
        if flushed && closed && !self.failing.load(Ordering::Relaxed) {
            // Without this note the next opening takes the directory for that of a killed process.
            let _ = mark::closed(&self.path);
        }
    }
}

/// The committer's side of sled.
struct SledEngine {
    tree: sled::Db,
    db: File,
    batch: sled::Batch,
    number: u64,
    mark: Mark,
    synced: bool,
    max_row: usize,
}

impl Engine for SledEngine {
    fn read<R>(&self, key: &[u8], with: impl FnOnce(Option<&[u8]>) -> R) -> Result<R, Error> {
        let row = self.tree.get(key).map_err(|error| sled_failed(&error))?;
        Ok(with(row.as_deref()))
    }

    fn keys(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Vec<u8>>, Error> {
        if from >= to {
            return Ok(Vec::new());
        }
        let keys = self.tree.range(from..to).keys().take(limit);
        keys.map(|key| key.map(|key| key.to_vec()).map_err(|error| sled_failed(&error))).collect()
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        // Checked before; one row too large here would cost everyone's data at a power cut.
        assert!(
            key.len() + value.len() <= self.max_row,
            "a row of {} bytes got past the checks",
            value.len()
        );
        self.batch.insert(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.batch.remove(key);
    }

    fn commit(&mut self) -> Result<(), Error> {
        let mut batch = std::mem::take(&mut self.batch);
        self.number += 1;
        batch.insert(&NUMBER, &self.number.to_le_bytes());
        self.tree.apply_batch(batch).map_err(|error| sled_failed(&error))?;
        self.tree.flush().map_err(|error| sled_failed(&error))?;
        if self.synced {
            // sled's flush only asks the kernel to begin (sync_file_range).
            self.db.sync_data().map_err(|error| failed(&error))?;
        }
        self.mark.write(self.number).map_err(|error| failed(&error))
    }
}

/// The value that a caller put, without what the store keeps in front of it.
fn value(key: &[u8], row: &[u8]) -> Result<Bytes, Error> {
    let at = match key.first() {
        Some(table) if *table >= Key::FIRST_LISTED => split_listed(row).map(|(_, at)| at),
        _ => Some(0),
    };
    let path = || format!("the row {:?}", Key(key.into()));
    let at =
        at.ok_or_else(|| Error::Corrupt { path: path(), reason: "its entry is cut short".into() })?;
    Ok(Bytes::copy_from_slice(&row[at..]))
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

fn last_log_row(tree: &sled::Db, id: LogId) -> Result<Option<(Bytes, Bytes)>, Error> {
    let row = tree.range(log::key(id, 0, 0)..=log::key(id, u64::MAX, u8::MAX)).next_back();
    let row = row.transpose().map_err(|error| sled_failed(&error))?;
    Ok(row.map(|(key, row)| (Bytes::copy_from_slice(&key), Bytes::copy_from_slice(&row))))
}

/// Builds the index from the rows.
fn load(tree: &sled::Db, shared: &Shared, closing: &AtomicBool, path: &Path) {
    let fetch = |key: &Key| {
        let mut on_disk = Vec::new();
        encode_key(&key.0, &mut on_disk);
        let row = tree.get(on_disk).ok().flatten()?;
        split_listed(&row).and_then(|(block, _)| block.map(Box::from))
    };
    let read = || {
        let mut loader = Loader::default();
        let listed = (Bound::Included([ROWS, Key::FIRST_LISTED]), Bound::Excluded([ROWS + 1, 0]));
        for row in tree.range(listed) {
            if closing.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            let (key, row) = row.map_err(|error| sled_failed(&error))?;
            let key = Key(key[1..].into());
            let read = split_listed(&row)
                .and_then(|(block, _)| block.map_or(Some(()), |block| loader.row(&key, block)));
            read.ok_or_else(|| {
                corrupt(path, &format!("the entry of the row {key:?} makes no sense"))
            })?;
        }
        Ok(loader)
    };
    let loader = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        Err(corrupt(path, &format!("sled panicked: {}", message(&*panic))))
    });
    shared.index.finish(loader, &fetch);
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    thread::Builder::new().name(name.into()).spawn(run).map_err(|error| failed(&error))
}
