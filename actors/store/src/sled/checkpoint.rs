//! Checkpoints: rows that are durable in the journal go to sled, once a second, sooner if there are many,
//! and at the end.
//!
//! ```text
//! a checkpoint   the journal switches files ─▶ its groups so far go to the archive, if there is one
//!                ─▶ the rows so far go to sled, in pieces, each synced; the last piece holds the number
//!                of their last group ─▶ they leave the overlay
//! ```
//!
//! A power cut may tear a checkpoint: until it has ended the journal keeps all of its rows, and the next
//! opening writes them again. A row is a value and not a change, so that writing it twice is harmless.
//!
//! Deliberately absent: any promise to a writer; the journal has kept it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::pin::pin;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::FailureHook;
use super::layers::Layers;
use super::opening::{CHECKPOINT, in_sled, sled_error};
use super::reclaim;
use crate::Error;
use crate::archive::Archive;
use crate::directory::io_error;
use crate::journal::{Group, Journal};
use crate::mark::Mark;
use crate::overlay::Rows;

/// The longest time that a row is only in the journal, but for the checkpoint under way.
const INTERVAL: Duration = Duration::from_secs(1);
/// The bytes that go to sled between two syncs. If a power cut keeps a later one of sled's segments and
/// loses an earlier one, sled refuses to open. A segment has 512 KB, and sled writes several times the
/// bytes of a put.
const PIECE: usize = 64 << 10;
/// The most bytes of groups that wait for the reader of a snapshot. Beyond, the snapshot fails.
const GROUP_BUFFER_BYTES: usize = 64 << 20;

/// The journal, and the checkpoints that follow it.
#[derive(Debug)]
pub(super) struct Checkpointer {
    journal: Mutex<Copied>,
    archive: Option<Archive>,
    mark: Mark,
    state: Mutex<State>,
    changed: Condvar,
    /// Told when a checkpoint has begun, so that the next one has room again, and when there is none any more.
    begun: Notify,
    /// The bytes at which a checkpoint begins at once. Twice as many stall writers.
    max_bytes: usize,
}

/// The journal, and the groups that others have yet to copy.
#[derive(Debug)]
struct Copied {
    journal: Journal,
    /// The groups since the last checkpoint, if there is an archive.
    unarchived: Vec<Bytes>,
    /// The groups that a snapshot has yet to read.
    tap: Option<GroupBuffer>,
}

/// The groups since a snapshot began, up to [`GROUP_BUFFER_BYTES`].
#[derive(Debug, Default)]
struct GroupBuffer {
    groups: Vec<Bytes>,
    bytes: usize,
}

/// A journal at one moment, with every row above sled.
pub(super) struct JournalView {
    pub(super) lineage: u32,
    /// The number of the last group.
    pub(super) group: u64,
    pub(super) overlay: Rows,
}

#[derive(Debug, Default)]
struct State {
    requested: bool,
    closing: bool,
    failed: Option<Error>,
}

impl Checkpointer {
    pub(super) fn new(
        journal: Journal,
        mark: Mark,
        archive: Option<Archive>,
        max_bytes: usize,
    ) -> Self {
        let journal = Mutex::new(Copied { journal, unarchived: Vec::new(), tap: None });
        let (state, changed, begun) = (Mutex::default(), Condvar::new(), Notify::new());
        Self { journal, archive, mark, state, changed, begun, max_bytes }
    }

    /// The lineage of the journal, and the number of its last group.
    pub(super) fn ends(&self) -> (u32, u64) {
        let copied = self.copied();
        (copied.journal.lineage(), copied.journal.last())
    }

    /// The archive of the journal.
    pub(super) const fn archive(&self) -> Option<&Archive> {
        self.archive.as_ref()
    }

    /// Begins to copy groups for a snapshot; `None` if another one is being made.
    pub(super) fn begin_snapshot(&self, layers: &Layers) -> Option<JournalView> {
        let mut copied = self.copied();
        if copied.tap.is_some() {
            return None;
        }
        copied.tap = Some(GroupBuffer::default());
        let (lineage, group) = (copied.journal.lineage(), copied.journal.last());
        Some(JournalView { lineage, group, overlay: layers.overlay().rows() })
    }

    /// The groups since the last call; `None` if they became too many. `last` ends the copying.
    pub(super) fn copied_groups(&self, last: bool) -> Option<(u64, Vec<Bytes>)> {
        let mut copied = self.copied();
        let tap = std::mem::take(copied.tap.as_mut()?);
        if last || tap.bytes > GROUP_BUFFER_BYTES {
            copied.tap = None;
        }
        (tap.bytes <= GROUP_BUFFER_BYTES).then(|| (copied.journal.last(), tap.groups))
    }

    /// Ends a snapshot.
    pub(super) fn end_snapshot(&self) {
        self.copied().tap = None;
    }

    fn copied(&self) -> MutexGuard<'_, Copied> {
        self.journal.lock().expect("no holder panics")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Makes a group durable in the journal, and then readable.
    pub(super) fn commit(&self, layers: &Layers, group: Group) -> Result<(), Error> {
        self.stall(layers)?;
        let mut copied = self.copied();
        let (group, rows) = copied.journal.append(group).map_err(|error| io_error(&error))?;
        self.mark.write(copied.journal.last()).map_err(|error| io_error(&error))?;
        if let Some(tap) = &mut copied.tap
            && tap.bytes <= GROUP_BUFFER_BYTES
        {
            tap.bytes += group.len();
            tap.groups.push(group.clone());
        }
        if self.archive.is_some() {
            copied.unarchived.push(group);
        }
        let mut overlay = layers.overlay_mut();
        overlay.apply(rows);
        let due = overlay.bytes() >= self.max_bytes;
        drop(overlay);
        drop(copied);
        if due {
            self.state().requested = true;
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Ready while the rows since the last checkpoint are few enough that a large group does not stall the writers
    /// behind it.
    pub(super) async fn room(&self, layers: &Layers) {
        loop {
            let mut begun = pin!(self.begun.notified());
            // `enable` registers the wait first, so that a checkpoint that begins in between is noticed.
            begun.as_mut().enable();
            let ends = {
                let state = self.state();
                state.closing || state.failed.is_some()
            };
            if ends || layers.overlay().bytes() < self.max_bytes {
                return;
            }
            begun.await;
        }
    }

    /// Slows writers down to the speed of checkpoints, on a disk that cannot keep up.
    fn stall(&self, layers: &Layers) -> Result<(), Error> {
        let mut state = self.state();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if layers.overlay().bytes() < 2 * self.max_bytes {
                return Ok(());
            }
            state = self.changed.wait(state).expect("no holder panics");
        }
    }

    /// Requests the last checkpoint.
    pub(super) fn close(&self) {
        self.state().closing = true;
        self.changed.notify_all();
        self.begun.notify_waiters();
    }

    /// Makes checkpoints until the last one, or until one fails.
    pub(super) fn run(&self, layers: &Layers, sled: &mut SyncedSled, failure: &FailureHook) {
        loop {
            let closing = self.wait();
            let checkpoint = in_sled(|| self.checkpoint(layers, sled));
            let ended = checkpoint.is_err() || closing;
            if let Err(error) = checkpoint {
                tracing::error!(%error, "a checkpoint failed: the journal cannot be written to sled");
                self.state().failed = Some(error.clone());
                failure.call(&error);
            }
            self.changed.notify_all();
            self.begun.notify_waiters();
            if ended {
                return;
            }
        }
    }

    /// Waits until a checkpoint is due. Returns true if that checkpoint is the last one.
    fn wait(&self) -> bool {
        let idle = |state: &mut State| !state.requested && !state.closing;
        let waited = self.changed.wait_timeout_while(self.state(), INTERVAL, idle);
        let (mut state, _) = waited.expect("no holder panics");
        state.requested = false;
        state.closing
    }

    fn checkpoint(&self, layers: &Layers, sled: &mut SyncedSled) -> Result<(), Error> {
        let mut copied = self.copied();
        let Some(rows) = layers.overlay_mut().begin_checkpoint() else { return Ok(()) };
        let last = copied.journal.switch();
        let unarchived = std::mem::take(&mut copied.unarchived);
        drop(copied);
        self.begun.notify_waiters();
        if let Some(archive) = &self.archive {
            // An opening archives again from the last checkpoint on, so the archive comes before sled.
            archive.append(unarchived);
        }
        sled.write(&rows, last)?;
        // Freed when the overlay is unlocked again.
        let written = layers.overlay_mut().end_checkpoint();
        drop(written);
        Ok(())
    }
}

/// sled, and its file, which sled itself does not sync.
#[derive(Debug)]
pub(super) struct SyncedSled {
    tree: sled::Db,
    db: File,
    high_water: HighWater,
}

impl SyncedSled {
    pub(super) fn new(tree: sled::Db, db: File) -> Self {
        Self { tree, db, high_water: HighWater::default() }
    }

    /// Makes rows durable, and the note that sled has the groups up to `last`.
    pub(super) fn write(&mut self, rows: &Rows, last: u64) -> Result<(), Error> {
        let mut batch = sled::Batch::default();
        let mut size = 0;
        for (key, row) in rows {
            match row {
                Some(row) => {
                    self.high_water.raise(&self.tree, key)?;
                    batch.insert(key.as_ref(), row.as_ref());
                }
                // A row that came and went between two checkpoints was never in sled.
                None if !self.contains(key)? => continue,
                None => batch.remove(key.as_ref()),
            }
            size += key.len() + row.as_ref().map_or(0, Bytes::len);
            if size >= PIECE {
                size = 0;
                self.apply(std::mem::take(&mut batch))?;
            }
        }
        batch.insert(&CHECKPOINT, &last.to_le_bytes());
        self.apply(batch)
    }

    fn contains(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(!self.high_water.exceeded_by(&self.tree, key)?
            && self.tree.contains_key(key).map_err(|error| sled_error(&error))?)
    }

    fn apply(&self, batch: sled::Batch) -> Result<(), Error> {
        self.tree.apply_batch(batch).map_err(|error| sled_error(&error))?;
        reclaim::flush(&self.tree).map_err(|error| sled_error(&error))?;
        // sled's flush only has the kernel begin to write (sync_file_range).
        self.db.sync_data().map_err(|error| io_error(&error))
    }
}

/// The greatest key that sled ever had of each table. Identifiers ascend, so that most rows which come and
/// go between two checkpoints are above it, and sled need not look for them.
#[derive(Debug, Default)]
struct HighWater(BTreeMap<[u8; PREFIX], Vec<u8>>);

/// The part of a key that names its space, table and environment.
const PREFIX: usize = 3;

impl HighWater {
    /// True if `key` is greater than every key of its table that `tree` has or is about to have.
    fn exceeded_by(&mut self, tree: &sled::Db, key: &[u8]) -> Result<bool, Error> {
        let Some(prefix) = key.first_chunk() else { return Ok(false) };
        Ok(self.greatest(tree, *prefix)?.as_slice() < key)
    }

    /// Counts a key that `tree` is about to have.
    fn raise(&mut self, tree: &sled::Db, key: &[u8]) -> Result<(), Error> {
        let Some(prefix) = key.first_chunk() else { return Ok(()) };
        // The first key of a table counts too: until its batch is applied, the tree does not show it.
        let greatest = self.greatest(tree, *prefix)?;
        if greatest.as_slice() < key {
            greatest.clear();
            greatest.extend_from_slice(key);
        }
        Ok(())
    }

    fn greatest(&mut self, tree: &sled::Db, prefix: [u8; PREFIX]) -> Result<&mut Vec<u8>, Error> {
        match self.0.entry(prefix) {
            Entry::Occupied(greatest) => Ok(greatest.into_mut()),
            Entry::Vacant(vacant) => {
                let last = tree.scan_prefix(prefix).keys().next_back().transpose();
                let last = last.map_err(|error| sled_error(&error))?;
                Ok(vacant.insert(last.map_or_else(|| prefix.to_vec(), |last| last.to_vec())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::{Context, Waker};

    use super::*;
    use crate::journal::Checkpoint as Place;

    /// A directory, and sled in another one, without a thread of its own.
    fn opened() -> (tempfile::TempDir, SyncedSled) {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let db = File::create(directory.path().join("db")).expect("a file can be made");
        let config = sled::Config::new().temporary(true).flush_every_ms(None);
        (directory, SyncedSled::new(config.open().expect("it opens"), db))
    }

    #[test]
    fn a_row_of_the_first_checkpoint_goes_in_the_second() {
        let (_directory, mut sled) = opened();
        let row = |key: &'static [u8], row: Option<&'static [u8]>| {
            (Bytes::from_static(key), row.map(Bytes::from_static))
        };
        let first = Rows::from([row(b"rA0a", Some(b"there")), row(b"rA0b", None)]);
        sled.write(&first, 1).expect("it is written");
        assert!(sled.tree.contains_key(b"rA0a").expect("it can be read"));
        sled.write(&Rows::from([row(b"rA0a", None)]), 2).expect("it is written");
        assert!(!sled.tree.contains_key(b"rA0a").expect("it can be read"));
    }

    #[test]
    fn what_sled_has_replaced_is_freed_after_each_piece() {
        let (_directory, mut sled) = opened();
        let replaced = Arc::new(());
        let kept = Arc::clone(&replaced);
        crossbeam_epoch::pin().defer(move || drop(kept));
        let rows = Rows::from([(Bytes::from_static(b"rA0a"), Some(Bytes::from_static(b"row")))]);
        sled.write(&rows, 1).expect("it is written");
        assert_eq!(Arc::strong_count(&replaced), 1);
    }

    #[test]
    fn there_is_room_until_the_bytes_of_a_checkpoint_and_once_one_has_begun_or_none_will() {
        let (directory, mut sled) = opened();
        let place = Place { group: 0, salt: 1 };
        let (journal, _) = Journal::open(directory.path(), place, true).expect("it opens");
        let mark = Mark::open(directory.path(), 0).expect("it can be made");
        let layers = Layers::new(sled.tree.clone());
        let checkpointer = Checkpointer::new(journal, mark, None, 8);
        let has_room = || {
            let mut room = pin!(checkpointer.room(&layers));
            room.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        let commit = |value: &[u8]| {
            let mut group = Group::default();
            group.put(b"rA0a", value);
            checkpointer.commit(&layers, group).expect("it is durable");
        };
        commit(b"row");
        assert!(has_room());
        commit(b"longer");
        assert!(!has_room());
        checkpointer.checkpoint(&layers, &mut sled).expect("it is written");
        assert!(has_room());
        commit(b"as long");
        checkpointer.close();
        assert!(has_room(), "nobody waits for a checkpoint that does not come");
    }

    #[test]
    fn no_key_that_is_there_exceeds_the_high_water_mark() {
        let tree = sled::Config::new().temporary(true).open().expect("it opens");
        let exceeded_by = |mark: &mut HighWater, key: &[u8]| {
            mark.exceeded_by(&tree, key).expect("it can be read")
        };
        for key in [&b"rA0b"[..], b"rA0d", b"rB0a"] {
            tree.insert(key, b"").expect("it is written");
        }
        let mut mark = HighWater::default();
        for (key, exceeds) in [
            (&b"rA0d"[..], false),
            (b"rA0c", false),
            (b"rA0da", true),
            (b"rC0a", true),
            (b"rA", false),
        ] {
            assert_eq!(exceeded_by(&mut mark, key), exceeds, "{}", key.escape_ascii());
        }
        // A key that is about to be written raises the mark, before a question about its table and after.
        for key in [&b"rA0x"[..], b"rA0e", b"rC0b", b"rD0a"] {
            mark.raise(&tree, key).expect("it can be read");
        }
        for (key, exceeds) in [
            (&b"rA0x"[..], false),
            (b"rA0y", true),
            (b"rC0a", false),
            (b"rD0a", false),
            (b"rD0b", true),
        ] {
            assert_eq!(exceeded_by(&mut mark, key), exceeds, "{}", key.escape_ascii());
        }
    }
}
