//! The embedded store: sled 0.34.7 behind a journal, made to survive a power cut.
//!
//! As it comes sled does not: its flush is no fsync, a half-written `conf` or snapshot makes it
//! refuse to open, large values go to files that it never syncs, and a sync in its own thread that fails
//! is told to nobody. Eight measures, each of which a test shows to be needed:
//!
//! 1. A commit is one synced write to the journal (`journal.rs`), by one thread.
//! 2. Rows go to sled in rounds: `apply_batch` on one tree, `flush()`, `sync_data()` of `db`; until
//!    then they stand in the journal (`settle.rs`).
//! 3. Before opening: broken and half-made files that sled can make again are removed.
//! 4. And its log is made to end where it ends, whatever opening does to what is before (`anchor.rs`).
//! 5. After opening, before the first answer: the journal's rows are brought to sled, and every file
//!    and directory is synced.
//! 6. No key and value over [`MAX_ROW`], ever, so that `blobs/` stays empty.
//! 7. Whatever was not left in order is read from the disk, and not from what the system shows of it, which
//!    a failed sync makes untrue (`repair.rs`).
//! 8. `db` is held open from before sled opens it until after it was closed, and synced by way of that: so
//!    each failed sync of it is told to a later one of ours.
//!
//! And sled takes damage for the end of its log, or leaves out what is damaged. So the number of the newest
//! commit is noted beside its files (`mark.rs`), and what it is about to replay is checked first
//! (`scrub.rs`).
//!
//! sled alone was safe against power cuts, too (docs/adr/0001-journal.md); the journal is for speed, and tells damage.
//! Besides this module only `floor.rs`, which is measured against, names sled. Deliberately absent:
//! sled's transactions, its several trees (a batch is atomic within one only) and its `flush_async`
//! (many at once hang for good).

mod compact;
mod engine;
mod layers;
mod opening;
mod settle;
mod waker;

use std::fs::{self, File};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use crate::batch::{Batch, Epoch, Key, LogId, MAX_ROW};
use crate::committer::{Committer, Job, Shared, read_logs};
use crate::directory::{FORMAT, WITH_JOURNAL, corrupt, failed, lock, read_format, write_format};
use crate::index::Loader;
use crate::journal::Journal;
use crate::mark::{self, Left, Mark};
use crate::query::{Page, Query};
use crate::quiet::quietly;
use crate::row::{ROWS, encode_key, split_listed};
use crate::{Answer, Error, OnFailure, Record, Row, Stats, Store, Ticket, log, repair};

pub use compact::{Compacted, compact};
use engine::SledEngine;
use layers::Layers;
use opening::{
    bring_back, check_left, check_noted, next_epoch, open_db, open_tree, sled_failed, standing,
};
use settle::{Below, Frontier, Rounds};
use waker::{Waker, close};

/// From how many bytes in the journal on they are brought to sled at once.
const ROUND: usize = 4 << 20;

/// How a [`SledStore`] is opened.
pub struct SledOptions {
    /// The data directory; made if it is not there.
    pub path: PathBuf,
    /// How much of the data sled keeps in memory.
    pub cache_bytes: u64,
    /// Called once if a write or a sync fails.
    pub on_failure: OnFailure,
    /// From how many bytes in the journal on they are brought to sled at once: few in tests.
    #[doc(hidden)]
    pub round: usize,
    /// Leaves out one of the measures.
    #[doc(hidden)]
    pub sabotage: Option<Sabotage>,
}

impl SledOptions {
    /// A store at `path`.
    #[must_use]
    pub fn new(path: PathBuf, cache_bytes: u64, on_failure: OnFailure) -> Self {
        Self { path, cache_bytes, on_failure, round: ROUND, sabotage: None }
    }
}

/// A measure to leave out, so that the power-loss test can show that it would notice. There is no
/// way to set this from the program's configuration.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Commits are answered without a sync.
    NoSync,
    /// Rows are brought to sled without a sync, and the journal is overwritten all the same.
    NoSettling,
    /// Broken files are left where they are.
    NoRepair,
    /// Rows of any size are let through.
    LargeRows,
    /// `db` is opened after sled has opened it.
    LateDescriptor,
}

/// The embedded store.
#[derive(Debug)]
pub struct SledStore {
    // Dropped in this order: nobody holds the tree when its directory is given up.
    inbox: Option<mpsc::Sender<Job>>,
    writers: Vec<JoinHandle<()>>,
    rounds: Arc<Rounds>,
    settler: Option<JoinHandle<()>>,
    waker: Option<Waker>,
    layers: Option<Arc<Layers>>,
    closing: Arc<AtomicBool>,
    failure: Failure,
    shared: Arc<Shared>,
    epoch: Epoch,
    db: File,
    path: PathBuf,
    _lock: File,
}

/// A directory in which sled is open.
struct Opened {
    tree: sled::Db,
    db: File,
    path: PathBuf,
    known: Option<u32>,
    lock: File,
    round: usize,
    sabotage: Option<Sabotage>,
}

/// Tells the owner of the process, once, that the disk failed.
#[derive(Clone)]
struct Failure(Arc<Mutex<Option<OnFailure>>>);

impl std::fmt::Debug for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Failure").field(&self.has_come()).finish()
    }
}

impl Failure {
    fn tell(&self, error: &Error) {
        let tell = self.0.lock().expect("no holder panics").take();
        if let Some(tell) = tell {
            tell(error);
        }
    }

    fn has_come(&self) -> bool {
        self.0.lock().expect("no holder panics").is_none()
    }
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
        let SledOptions { path, cache_bytes, on_failure, round, sabotage } = options;
        fs::create_dir_all(&path).map_err(|error| failed(&error))?;
        let lock = lock(&path)?;
        compact::clear(&path).map_err(|error| failed(&error))?;
        if !matches!(mark::left(&path)?, Left::Closed(_)) {
            repair::read_anew(&path).map_err(|error| failed(&error))?;
        }
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
        let (tree, db) = open_tree(&path, cache_bytes)?;
        let opened = Opened { tree: tree.clone(), db, path, known, lock, round, sabotage };
        let begun = Self::begin(opened, on_failure);
        if begun.is_err() {
            // It panics if the disk fails.
            let _ = quietly(|| close(tree));
        }
        begun
    }

    fn begin(opened: Opened, on_failure: OnFailure) -> Result<Self, Error> {
        let Opened { tree, db, path, known, lock, round, sabotage } = opened;
        let waker = Some(Waker::start(tree.clone()).map_err(|error| failed(&error))?);
        let epoch = next_epoch(&tree, &path, known)?;
        let late = sabotage == Some(Sabotage::LateDescriptor);
        let db = if late { open_db(&path)? } else { db };
        let synced = sabotage != Some(Sabotage::NoSync);
        let settled = synced && sabotage != Some(Sabotage::NoSettling);
        let frontier = Frontier::default();
        let of_rounds = db.try_clone().map_err(|error| failed(&error))?;
        let mut below = Below { tree: tree.clone(), db: of_rounds, synced: settled, frontier };
        let new = known.is_none_or(|known| known < WITH_JOURNAL);
        let (journal, missing) = Journal::open(&path, standing(&tree, &path, known)?, new, synced)?;
        check_noted(&path, journal.last(), new)?;
        bring_back(&mut below, &path, &missing, journal.last())?;
        let mark = Mark::open(&path, journal.last()).map_err(|error| failed(&error))?;
        repair::sync_all(&path).and_then(|()| db.sync_all()).map_err(|error| failed(&error))?;
        if known != Some(FORMAT) {
            write_format(&path).map_err(|error| failed(&error))?;
        }
        mark::taken(&path, true).map_err(|error| failed(&error))?;

        let max_row = if sabotage == Some(Sabotage::LargeRows) { usize::MAX } else { MAX_ROW };
        let layers = Arc::new(Layers::over(tree));
        let rounds = Arc::new(Rounds::new(journal, mark, round));
        let engine = SledEngine::new(Arc::clone(&layers), Arc::clone(&rounds), max_row);
        let logs = read_logs(&engine, |id| last_log_row(&layers, id))?;
        let shared = Arc::new(Shared::new(logs));
        let (inbox, jobs) = mpsc::channel();
        let committer = Committer::new(engine, epoch, shared.clone(), max_row);
        let closing = Arc::new(AtomicBool::new(false));
        let failure = Failure(Arc::new(Mutex::new(Some(on_failure))));
        let commit = {
            let failure = failure.clone();
            let tell = Box::new(move |error: &Error| failure.tell(error));
            move || committer.run(&jobs, tell)
        };
        let loader = {
            let (layers, shared, closing) = (layers.clone(), shared.clone(), closing.clone());
            let path = path.clone();
            move || load(&layers, &shared, &closing, &path)
        };
        let settle = {
            let (rounds, layers, failure) = (rounds.clone(), layers.clone(), failure.clone());
            move || rounds.run(&layers, &mut below, &failure)
        };
        Ok(Self {
            inbox: Some(inbox),
            writers: vec![spawn("store-committer", commit)?, spawn("store-loader", loader)?],
            rounds,
            settler: Some(spawn("store-settler", settle)?),
            waker,
            layers: Some(layers),
            closing,
            failure,
            shared,
            epoch,
            db,
            path,
            _lock: lock,
        })
    }

    fn layers(&self) -> &Layers {
        self.layers.as_ref().expect("only drop takes it")
    }

    fn read(&self, key: &Key) -> Result<Option<Bytes>, Error> {
        let mut on_disk = Vec::with_capacity(1 + key.0.len());
        encode_key(&key.0, &mut on_disk);
        self.layers().read(&on_disk, |row| row.map(|row| value(&key.0, row)).transpose())?
    }

    fn read_rows(&self, from: &Key, to: &Key, limit: usize) -> Result<Vec<Row>, Error> {
        let (mut first, mut last) = (Vec::new(), Vec::new());
        encode_key(&from.0, &mut first);
        encode_key(&to.0, &mut last);
        let mut rows = Vec::new();
        if first < last && limit > 0 {
            self.layers().walk(&first, Bound::Excluded(&last), |key, row| {
                rows.push((Key(key[1..].into()), value(&key[1..], row)?));
                Ok(rows.len() < limit)
            })?;
        }
        Ok(rows)
    }

    fn read_records(&self, id: LogId, after: u64, limit: usize) -> Result<Vec<Record>, Error> {
        let bounds = self.shared.bounds(id);
        let start = bounds.oldest.max(after.saturating_add(1));
        let mut records = Vec::new();
        if start > bounds.newest || limit == 0 {
            return Ok(records);
        }
        let before = self.layers().last(&log::key(id, 0, 0), &log::key(id, start, u8::MAX))?;
        let first = before.and_then(|key| log::read_key(&key)).map_or(start, |(first, _)| first);
        let mut unpacker = log::Unpacker::default();
        let (from, to) = (log::key(id, first, 0), log::key(id, bounds.newest, u8::MAX));
        self.layers().walk(&from, Bound::Included(&to), |key, row| {
            let record = |sequence, bytes: &[u8]| {
                if sequence >= start && sequence <= bounds.newest && records.len() < limit {
                    let bytes = Bytes::copy_from_slice(bytes);
                    records.push(Record { log: id, sequence, bytes });
                }
            };
            if unpacker.row(key, row, record).is_none() {
                let reason = "its rows do not follow each other".into();
                return Err(Error::Corrupt { path: format!("log {}", id.0), reason });
            }
            Ok(records.len() < limit)
        })?;
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

    fn tail(&self) -> tokio::sync::mpsc::UnboundedReceiver<Vec<Record>> {
        self.shared.tail()
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn stats(&self) -> Stats {
        let bytes_on_disk = self.layers().tree.size_on_disk().unwrap_or(0);
        Stats { bytes_on_disk, ..self.shared.stats() }
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        self.inbox = None;
        self.closing.store(true, Ordering::Relaxed);
        for thread in self.writers.drain(..) {
            // The committer catches its panics; one of the loader's concerns its index only.
            let _ = thread.join();
        }
        self.rounds.close();
        if let Some(thread) = self.settler.take() {
            // It catches its panics.
            let _ = thread.join();
        }
        let Some(layers) = self.layers.take() else { return };
        let tree = layers.tree.clone();
        drop(layers);
        let flushed = catch_unwind(AssertUnwindSafe(|| tree.flush().is_ok())).unwrap_or(false);
        self.waker = None;
        // It panics if the disk fails.
        let closed = quietly(|| close(tree)).unwrap_or(false);
        let synced = self.db.sync_all().is_ok();
        if flushed && closed && synced && !self.failure.has_come() {
            // Without this note the next opening takes the directory for that of a killed process.
            let _ = mark::closed(&self.path);
        }
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

fn last_log_row(layers: &Layers, id: LogId) -> Result<Option<(Bytes, Bytes)>, Error> {
    let key = layers.last(&log::key(id, 0, 0), &log::key(id, u64::MAX, u8::MAX))?;
    let Some(key) = key else { return Ok(None) };
    let row = layers.read(&key, |row| row.map(Bytes::copy_from_slice))?;
    Ok(row.map(|row| (Bytes::from(key), row)))
}

/// Builds the index from the rows.
fn load(layers: &Layers, shared: &Shared, closing: &AtomicBool, path: &Path) {
    let fetch = |key: &Key| {
        let mut on_disk = Vec::new();
        encode_key(&key.0, &mut on_disk);
        let block = |row: Option<&[u8]>| split_listed(row?)?.0.map(Box::from);
        layers.read(&on_disk, block).ok().flatten()
    };
    let read = || {
        let mut loader = Loader::default();
        let listed = (Bound::Included([ROWS, Key::FIRST_LISTED]), Bound::Excluded([ROWS + 1, 0]));
        // What comes above it meanwhile stands among the index's changes.
        for row in layers.tree.range(listed) {
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
