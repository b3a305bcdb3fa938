//! The embedded store: sled 0.34.7 behind a journal, made to survive a power cut.
//!
//! sled alone does not survive one: its flush is no fsync, it refuses to open on a half-written `conf` or
//! snapshot, it never syncs the files of large values, and its own thread ignores a failed sync. Nine
//! measures help, and a test shows of each that it is needed:
//!
//! 1. One thread commits, with one synced write to the journal (`journal.rs`).
//! 2. Checkpoints bring rows to sled: `apply_batch` on one tree, `flush()`, `sync_data()` of `db`. Until
//!    then the journal keeps them (`checkpoint.rs`).
//! 3. Before sled opens, broken and half-made files that it can make again are removed (`repair.rs`).
//! 4. Before sled opens, the segment in which its log ends is anchored: the log no longer relies on earlier
//!    segments, which sled wipes in its opening (`anchor.rs`).
//! 5. After sled has opened and before the first answer, the journal is replayed, and every file and
//!    directory is synced.
//! 6. No key and value together exceed [`crate::batch::MAX_ROW`], so that `blobs/` stays empty.
//! 7. After an unclean shutdown files are read from the disk and not from the page cache, which shows
//!    writes that a failed sync has lost (`repair.rs`).
//! 8. `db` is open from before sled opens it until after sled has closed it, and is synced through that
//!    descriptor: Linux reports to it every failed sync, those of sled's own thread too (`opening.rs`).
//! 9. What a flush replaces is freed once sled's own thread has ceased to use it (`reclaim.rs`).
//!
//! sled also takes damage for the end of its log, or skips it. So the number of the newest commit
//! stands in a file of its own (`mark.rs`), and the part of the log that sled is about to replay is
//! checked first (`scrub.rs`).
//!
//! sled survived power cuts without the journal, too, which is for speed and for distinguishing damage
//! (docs/adr/0001-journal.md). Only this module and `floor.rs`, its baseline in benchmarks, name sled.
//! Deliberately absent: transactions of sled that change something, its further trees (a batch is atomic
//! within one only) and its `flush_async` (many at once hang for good).

mod checkpoint;
mod compact;
mod engine;
mod layers;
mod loader;
mod measure;
mod opening;
mod reclaim;
mod restore;
mod snapshot;
mod watchdog;

use std::fs::{self, File};
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use crate::archive::{Archive, BackupNote, Coverage, Protection, VerificationRecord};
use crate::batch::{Batch, Epoch, Key, LogId, Partition};
use crate::committer::{Committer, Job, Shared, read_logs};
use crate::directory::{FORMAT, WITH_JOURNAL, corrupt, io_error, lock, read_format, write_format};
use crate::journal::Journal;
use crate::mark::Mark;
use crate::ownership::PartitionSet;
use crate::query::{Page, Query};
use crate::row::{META, disk_key, value, whole};
use crate::shutdown::{self, Shutdown};
use crate::{
    Error, Measured, OnFailure, ReadFuture, Record, Row, Stats, Store, Ticket, WholeRow, log,
    panics, repair, version,
};

pub use crate::journal::{ops as group_ops, split_ops};
use checkpoint::{Checkpointer, SyncedSled};
pub use compact::{Compacted, compact};
use engine::SledEngine;
use layers::Layers;
pub use restore::Restore;
pub use snapshot::{Piece, Snapshot};

pub(crate) use opening::random;
use opening::{
    check_mark, check_rows, check_shutdown, last_checkpoint, next_epoch, open_tree, record_rows,
    replay,
};
use watchdog::{Watchdog, close};

const CHECKPOINT_BYTES: usize = 4 << 20;

/// The options of a [`SledStore`].
pub struct SledOptions {
    /// The data directory; made if it does not exist.
    pub path: PathBuf,
    /// The size of sled's cache.
    pub cache_bytes: u64,
    /// The directory that gets a copy of the journal; `None` for no copy.
    pub archive: Option<PathBuf>,
    /// Called once if a write or a sync fails.
    pub on_failure: OnFailure,
    /// The bytes in the journal at which a checkpoint begins at once: few in tests.
    #[doc(hidden)]
    pub checkpoint_bytes: usize,
}

impl SledOptions {
    /// A store at `path`.
    #[must_use]
    pub fn new(path: PathBuf, cache_bytes: u64, on_failure: OnFailure) -> Self {
        Self { path, cache_bytes, archive: None, on_failure, checkpoint_bytes: CHECKPOINT_BYTES }
    }
}

/// The embedded store.
#[derive(Debug)]
pub struct SledStore {
    // Dropped in this order: nothing holds the tree when the directory is unlocked.
    inbox: Option<mpsc::Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    checkpointer: Arc<Checkpointer>,
    checkpoints: Option<JoinHandle<()>>,
    watchdog: Option<Watchdog>,
    layers: Option<Arc<Layers>>,
    closing: Arc<AtomicBool>,
    failure: FailureHook,
    shared: Arc<Shared>,
    coverage: Arc<Coverage>,
    epoch: Epoch,
    db: File,
    path: PathBuf,
    _lock: File,
}

/// A key and a value as they stand on the disk.
pub(crate) type RawRow = (Vec<u8>, Vec<u8>);

/// A directory in which sled is open.
struct Opened {
    tree: sled::Db,
    db: File,
    path: PathBuf,
    format: Option<u32>,
    archive: Option<PathBuf>,
    lock: File,
    checkpoint_bytes: usize,
}

/// [`OnFailure`], which several threads may call and one does.
#[derive(Clone)]
struct FailureHook(Arc<Mutex<Option<OnFailure>>>);

impl std::fmt::Debug for FailureHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FailureHook").field(&self.was_called()).finish()
    }
}

impl FailureHook {
    fn new(hook: OnFailure) -> Self {
        Self(Arc::new(Mutex::new(Some(hook))))
    }

    fn call(&self, error: &Error) {
        let hook = self.0.lock().expect("no holder panics").take();
        if let Some(hook) = hook {
            hook(error);
        }
    }

    fn was_called(&self) -> bool {
        self.0.lock().expect("no holder panics").is_none()
    }
}

impl SledStore {
    /// Opens the store at `options.path`, or makes one there.
    ///
    /// Returns before the index of listed rows is built; only [`Store::query`] waits for it.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has the directory, [`Error::Newer`] if a newer program has written
    /// it, [`Error::Corrupt`] if its contents are damaged, [`Error::Io`] if the disk fails.
    pub fn open(options: SledOptions) -> Result<Self, Error> {
        let SledOptions { path, cache_bytes, archive, on_failure, checkpoint_bytes } = options;
        fs::create_dir_all(&path).map_err(|error| io_error(&error))?;
        let lock = lock(&path)?;
        version::check_file(&path)?;
        compact::clear(&path).map_err(|error| io_error(&error))?;
        if !matches!(shutdown::last(&path)?, Shutdown::Clean(_)) {
            repair::drop_page_cache(&path).map_err(|error| io_error(&error))?;
        }
        let format = read_format(&path)?;
        if let Some(blob) = repair::first_blob(&path).map_err(|error| io_error(&error))? {
            return Err(corrupt(&path, &format!("{} should not be there", blob.display())));
        }
        let last = check_shutdown(&path, format)?;
        // A directory that lost power is not known to be intact until sled has replayed its log.
        let intact = last != Shutdown::Unknown;
        shutdown::mark_open(&path, intact).map_err(|error| io_error(&error))?;
        repair::repair(&path).map_err(|error| io_error(&error))?;
        let (tree, db) = open_tree(&path, cache_bytes)?;
        let opened =
            Opened { tree: tree.clone(), db, path, format, archive, lock, checkpoint_bytes };
        let begun = Self::begin(opened, on_failure);
        if begun.is_err() {
            // sled panics if the disk fails.
            let _ = panics::catch_silently(|| close(tree));
        }
        begun
    }

    fn begin(opened: Opened, on_failure: OnFailure) -> Result<Self, Error> {
        let Opened { tree, db, path, format, archive, lock, checkpoint_bytes } = opened;
        let watchdog = Some(Watchdog::start(tree.clone()).map_err(|error| io_error(&error))?);
        let written = check_rows(&tree, &path)?;
        let epoch = next_epoch(&tree, &path, format)?;
        record_rows(&tree, &path, &written)?;
        let mut sled =
            SyncedSled::new(tree.clone(), db.try_clone().map_err(|error| io_error(&error))?);
        let new = format.is_none_or(|format| format < WITH_JOURNAL);
        let checkpoint = last_checkpoint(&tree, &path, format)?;
        let (journal, groups) = Journal::open(&path, checkpoint, new)?;
        check_mark(&path, journal.last(), new)?;
        let coverage = Arc::new(Coverage::read(&path).map_err(|error| io_error(&error))?);
        let archive = archive
            .map(|at| Archive::open(&at, checkpoint, epoch, &groups, Arc::clone(&coverage)))
            .transpose()?;
        replay(&mut sled, &path, &groups, journal.last())?;
        let mark = Mark::open(&path, journal.last()).map_err(|error| io_error(&error))?;
        repair::sync_all(&path).and_then(|()| db.sync_all()).map_err(|error| io_error(&error))?;
        if format != Some(FORMAT) {
            write_format(&path).map_err(|error| io_error(&error))?;
        }
        shutdown::mark_open(&path, true).map_err(|error| io_error(&error))?;

        let layers = Arc::new(Layers::new(tree));
        let checkpointer = Arc::new(Checkpointer::new(journal, mark, archive, checkpoint_bytes));
        let engine = SledEngine::new(Arc::clone(&layers), Arc::clone(&checkpointer), epoch);
        let logs = read_logs(&engine, |id| last_log_row(&layers, id))?;
        let shared = Arc::new(Shared::new(logs));
        let (inbox, jobs) = mpsc::channel();
        let committer = Committer::new(engine, epoch, shared.clone());
        let closing = Arc::new(AtomicBool::new(false));
        let failure = FailureHook::new(on_failure);
        let commit = {
            let failure = failure.clone();
            move || committer.run(&jobs, |error| failure.call(error))
        };
        let load = {
            let (layers, shared, closing) = (layers.clone(), shared.clone(), closing.clone());
            let path = path.clone();
            move || loader::load(&layers, &shared, &closing, &path)
        };
        let checkpoints = {
            let (checkpointer, layers) = (checkpointer.clone(), layers.clone());
            let failure = failure.clone();
            move || checkpointer.run(&layers, &mut sled, &failure)
        };
        Ok(Self {
            inbox: Some(inbox),
            threads: vec![spawn("store-committer", commit)?, spawn("store-loader", load)?],
            checkpointer,
            checkpoints: Some(spawn("checkpointer", checkpoints)?),
            watchdog,
            layers: Some(layers),
            closing,
            failure,
            shared,
            coverage,
            epoch,
            db,
            path,
            _lock: lock,
        })
    }

    /// Begins a snapshot of the store in use. Reading it blocks on the disk.
    ///
    /// # Errors
    /// [`Error::Io`] if another snapshot is being read.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let layers = self.layers.as_ref().ok_or(Error::Stopped)?;
        Snapshot::begin(layers, &self.checkpointer)
    }

    /// The first `limit` rows behind `after` as they stand on the disk, in the order of their keys,
    /// without the rows that only this engine needs.
    pub(crate) fn raw_rows(&self, after: &[u8], limit: usize) -> Result<Vec<RawRow>, Error> {
        let mut rows = Vec::new();
        let from = [after, &[0]].concat();
        self.layers().scan(&from, Bound::Unbounded, |key, row| {
            let is_note = key.first() == Some(&META) && key.get(1) != Some(&b'l');
            if !is_note {
                rows.push((key.to_vec(), row.to_vec()));
            }
            Ok(rows.len() < limit)
        })?;
        Ok(rows)
    }

    /// The last backup, and the archive behind it.
    #[must_use]
    pub fn protection(&self) -> Protection {
        let archive = self.checkpointer.archive().map(Archive::protection);
        let lineage = self.checkpointer.ends().0;
        let (backup, verification) = (self.coverage.backup(), self.coverage.verification());
        Protection { lineage, backup, verification, archive }
    }

    /// Notes a backup of this store that is complete, durably. An older one than the last changes nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the backup names a group that the store does not have, or if the disk fails.
    pub fn record_backup(&self, ended_at_ms: u64, group: u64) -> Result<(), Error> {
        let last = self.checkpointer.ends().1;
        if group > last {
            let text = format!("group {group} is not in the journal, which ends at group {last}");
            return Err(Error::Io(text.into()));
        }
        let backup = BackupNote { ended_at_ms, group, reaches_ms: None };
        self.coverage.backed_up(backup).map_err(|error| io_error(&error))
    }

    /// Notes the last verification of a backup of this store, durably.
    ///
    /// # Errors
    /// [`Error::Io`] if the disk fails.
    pub fn record_verification(&self, verification: VerificationRecord) -> Result<(), Error> {
        self.coverage.verified(verification).map_err(|error| io_error(&error))
    }

    fn layers(&self) -> &Layers {
        self.layers.as_ref().expect("only drop takes it")
    }

    fn read(&self, key: &Key) -> Result<Option<Bytes>, Error> {
        self.layers().read(&disk_key(key), |row| row.map(|row| value(&key.0, row)).transpose())?
    }

    fn read_rows<T>(
        &self,
        (from, to): (&Key, &Key),
        limit: usize,
        read: impl Fn(&[u8], &[u8]) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let mut rows = Vec::new();
        if from < to && limit > 0 {
            self.layers().scan(&disk_key(from), Bound::Excluded(&disk_key(to)), |key, row| {
                rows.push(read(&key[1..], row)?);
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
        self.layers().scan(&from, Bound::Included(&to), |key, row| {
            let record = |sequence, bytes: &[u8]| {
                if sequence >= start && sequence <= bounds.newest && records.len() < limit {
                    let bytes = Bytes::copy_from_slice(bytes);
                    records.push(Record { log: id, sequence, bytes });
                }
            };
            if unpacker.row(key, row, record).is_none() {
                let reason = "its rows are out of sequence".into();
                return Err(Error::Corrupt { path: format!("log {}", id.0), reason });
            }
            Ok(records.len() < limit)
        })?;
        Ok(records)
    }
}

impl Store for SledStore {
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
        Box::pin(async move { self.read(key) })
    }

    fn scan(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<Row>> {
        let read = |key: &[u8], row: &[u8]| Ok((Key(key.into()), value(key, row)?));
        Box::pin(async move { self.read_rows((&from, &to), limit, read) })
    }

    fn scan_whole(&self, from: Key, to: Key, limit: usize) -> ReadFuture<'_, Vec<WholeRow>> {
        Box::pin(async move { self.read_rows((&from, &to), limit, whole) })
    }

    fn scan_partitions(
        &self,
        _: PartitionSet,
        from: Key,
        to: Key,
        limit: usize,
    ) -> ReadFuture<'_, Vec<Row>> {
        self.scan(from, to, limit)
    }

    fn query<'a>(&'a self, query: &'a Query) -> ReadFuture<'a, Page> {
        Box::pin(self.shared.index.query(query))
    }

    fn read_log(&self, log: LogId, after: u64, limit: usize) -> ReadFuture<'_, Vec<Record>> {
        Box::pin(async move { self.read_records(log, after, limit) })
    }

    fn log_bounds(&self, log: LogId) -> ReadFuture<'_, (u64, u64)> {
        let bounds = self.shared.bounds(log);
        Box::pin(std::future::ready(Ok((bounds.oldest, bounds.newest))))
    }

    fn tail(&self) -> tokio::sync::mpsc::UnboundedReceiver<Vec<Record>> {
        self.shared.tail()
    }

    fn epoch(&self, _: Partition) -> Option<Epoch> {
        Some(self.epoch)
    }

    fn measure(&self, after: Vec<u8>) -> ReadFuture<'_, Measured> {
        Box::pin(async move { measure::part(self.layers(), &after) })
    }

    fn stats(&self) -> Stats {
        Stats { is_behind: self.checkpointer.is_behind(self.layers()), ..self.shared.stats() }
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        self.inbox = None;
        self.closing.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The committer catches its panics; a panic of the loader concerns the index only.
            let _ = thread.join();
        }
        self.checkpointer.close();
        if let Some(thread) = self.checkpoints.take() {
            // The thread catches its own panics.
            let _ = thread.join();
        }
        let Some(layers) = self.layers.take() else { return };
        let tree = layers.tree.clone();
        drop(layers);
        let flushed = panics::catch(|| reclaim::flush(&tree).is_ok()).unwrap_or(false);
        self.watchdog = None;
        // sled panics if the disk fails.
        let closed = panics::catch_silently(|| close(tree)).unwrap_or(false);
        let synced = self.db.sync_all().is_ok();
        if flushed && closed && synced && !self.failure.was_called() {
            // A missing note makes the next opening take the process for killed.
            let _ = shutdown::mark_clean(&self.path);
        }
    }
}

fn last_log_row(layers: &Layers, id: LogId) -> Result<Option<(Bytes, Bytes)>, Error> {
    let key = layers.last(&log::key(id, 0, 0), &log::key(id, u64::MAX, u8::MAX))?;
    let Some(key) = key else { return Ok(None) };
    let row = layers.read(&key, |row| row.map(Bytes::copy_from_slice))?;
    Ok(row.map(|row| (Bytes::from(key), row)))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Error> {
    thread::Builder::new().name(name.into()).spawn(run).map_err(|error| io_error(&error))
}
