//! Brings to sled what is durable in the journal, in rounds: once in a while, when there is much of
//! it, and at the end.
//!
//! ```text
//! a round   the journal turns to its other file ─▶ the rows so far go to sled, in pieces, each
//!           synced; with the last one the number of their last group ─▶ they leave the overlay
//! ```
//!
//! A round need not be whole after a power cut: until the round has ended, every row of it stands
//! in the journal, and is written again at the next opening. Rows say what is, not what changes, so
//! that writing one twice is harmless.
//!
//! Deliberately absent: any promise to a writer; it was kept by the journal.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use super::layers::Layers;
use super::opening::{SETTLED, sled_failed};
use super::{Failure, message};
use crate::Error;
use crate::directory::failed;
use crate::journal::{Group, Journal};
use crate::mark::Mark;
use crate::overlay::Rows;

/// How long a row is in the journal only, at most, but for the round under way.
const EVERY: Duration = Duration::from_secs(1);
/// How many bytes sled is given before they are synced. With much more than one of its segments
/// (512 KB, and it writes several times what it is given) unsynced, a power cut that keeps a later
/// one and loses an earlier one leaves what it refuses to open.
const PIECE: usize = 64 << 10;

/// The journal, and whose turn it is.
#[derive(Debug)]
pub(super) struct Rounds {
    journal: Mutex<Journal>,
    mark: Mark,
    state: Mutex<State>,
    changed: Condvar,
    /// From how many bytes on a round begins at once. Twice as many keep writers waiting.
    limit: usize,
}

#[derive(Debug, Default)]
struct State {
    wanted: bool,
    closing: bool,
    failed: Option<Error>,
}

impl Rounds {
    pub(super) fn new(journal: Journal, mark: Mark, limit: usize) -> Self {
        let journal = Mutex::new(journal);
        Self { journal, mark, state: Mutex::default(), changed: Condvar::new(), limit }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Makes a group durable, and then readable.
    pub(super) fn commit(&self, layers: &Layers, group: Group) -> Result<(), Error> {
        self.wait_for_room(layers)?;
        let mut journal = self.journal.lock().expect("no holder panics");
        let rows = journal.append(group).map_err(|error| failed(&error))?;
        self.mark.write(journal.last()).map_err(|error| failed(&error))?;
        let mut overlay = layers.overlay_mut();
        overlay.take(rows);
        let due = overlay.bytes() >= self.limit;
        drop(overlay);
        drop(journal);
        if due {
            self.state().wanted = true;
            self.changed.notify_all();
        }
        Ok(())
    }

    /// A disk that cannot keep up slows its writers down.
    fn wait_for_room(&self, layers: &Layers) -> Result<(), Error> {
        let mut state = self.state();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if layers.overlay().bytes() < 2 * self.limit {
                return Ok(());
            }
            state = self.changed.wait(state).expect("no holder panics");
        }
    }

    /// Has a last round follow.
    pub(super) fn close(&self) {
        self.state().closing = true;
        self.changed.notify_all();
    }

    /// Holds rounds until told to close, or until sled fails.
    pub(super) fn run(&self, layers: &Layers, below: &mut Below, failure: &Failure) {
        loop {
            let closing = self.wait();
            let round = catch_unwind(AssertUnwindSafe(|| self.hold(layers, below)));
            let round = round.unwrap_or_else(|panic| {
                Err(Error::Io(format!("sled panicked: {}", message(&*panic)).into()))
            });
            let ended = round.is_err() || closing;
            if let Err(error) = round {
                tracing::error!(%error, "what is durable in the journal cannot be brought to its place");
                self.state().failed = Some(error.clone());
                failure.tell(&error);
            }
            self.changed.notify_all();
            if ended {
                return;
            }
        }
    }

    /// Waits until a round is due; says whether it is the last one.
    fn wait(&self) -> bool {
        let idle = |state: &mut State| !state.wanted && !state.closing;
        let waited = self.changed.wait_timeout_while(self.state(), EVERY, idle);
        let (mut state, _) = waited.expect("no holder panics");
        state.wanted = false;
        state.closing
    }

    fn hold(&self, layers: &Layers, below: &mut Below) -> Result<(), Error> {
        let mut journal = self.journal.lock().expect("no holder panics");
        let Some(rows) = layers.overlay_mut().settle() else { return Ok(()) };
        let last = journal.turn();
        drop(journal);
        write(below, &rows, last)?;
        let over = layers.overlay_mut().settled();
        drop(over);
        Ok(())
    }
}

/// Writes rows, and that the groups up to `last` are there; all of it is durable afterwards.
pub(super) fn write(below: &mut Below, rows: &Rows, last: u64) -> Result<(), Error> {
    let mut batch = sled::Batch::default();
    let mut size = 0;
    for (key, row) in rows {
        match row {
            Some(row) => {
                below.frontier.extend(&below.tree, key)?;
                batch.insert(key.as_ref(), row.as_ref());
            }
            // What came and went within the round was never there.
            None if !below.has(key)? => continue,
            None => batch.remove(key.as_ref()),
        }
        size += key.len() + row.as_ref().map_or(0, Bytes::len);
        if size >= PIECE {
            size = 0;
            below.sync(std::mem::take(&mut batch))?;
        }
    }
    batch.insert(&SETTLED, &last.to_le_bytes());
    below.sync(batch)
}

/// sled, and the file that it never syncs by itself.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) tree: sled::Db,
    pub(super) db: File,
    pub(super) synced: bool,
    pub(super) frontier: Frontier,
}

impl Below {
    /// Whether there is a row at `key`.
    fn has(&mut self, key: &[u8]) -> Result<bool, Error> {
        Ok(!self.frontier.lies_beyond(&self.tree, key)?
            && self.tree.contains_key(key).map_err(|error| sled_failed(&error))?)
    }

    fn sync(&self, batch: sled::Batch) -> Result<(), Error> {
        self.tree.apply_batch(batch).map_err(|error| sled_failed(&error))?;
        self.tree.flush().map_err(|error| sled_failed(&error))?;
        if self.synced {
            // sled's flush only asks the kernel to begin (sync_file_range).
            self.db.sync_data().map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

/// The greatest key that sled ever had of each table: identifiers ascend, so most rows
/// that come and go within a round lie beyond it, and sled need not be asked whether it has them.
#[derive(Debug, Default)]
pub(super) struct Frontier(BTreeMap<[u8; TABLE], Vec<u8>>);

/// The part of a key that names its table and environment.
const TABLE: usize = 3;

impl Frontier {
    /// Whether `key` lies beyond all that `tree` has of its table, and all that it is about to have.
    fn lies_beyond(&mut self, tree: &sled::Db, key: &[u8]) -> Result<bool, Error> {
        let Some(table) = key.first_chunk() else { return Ok(false) };
        Ok(self.greatest(tree, *table)?.as_slice() < key)
    }

    /// Takes note of a key that sled is about to have.
    fn extend(&mut self, tree: &sled::Db, key: &[u8]) -> Result<(), Error> {
        let Some(table) = key.first_chunk() else { return Ok(()) };
        // Asked of the tree before the key is in it: what is asked first later would not see it.
        let greatest = self.greatest(tree, *table)?;
        if greatest.as_slice() < key {
            greatest.clear();
            greatest.extend_from_slice(key);
        }
        Ok(())
    }

    fn greatest(&mut self, tree: &sled::Db, table: [u8; TABLE]) -> Result<&mut Vec<u8>, Error> {
        match self.0.entry(table) {
            Entry::Occupied(greatest) => Ok(greatest.into_mut()),
            Entry::Vacant(vacant) => {
                let last = tree.scan_prefix(table).keys().next_back().transpose();
                let last = last.map_err(|error| sled_failed(&error))?;
                Ok(vacant.insert(last.map_or_else(|| table.to_vec(), |last| last.to_vec())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_first_round_goes_in_the_second() {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let db = File::create(directory.path().join("db")).expect("a file can be made");
        let tree = sled::Config::new().temporary(true).open().expect("it opens");
        let mut below = Below { tree, db, synced: false, frontier: Frontier::default() };
        let row = |key: &'static [u8], row: Option<&'static [u8]>| {
            (Bytes::from_static(key), row.map(Bytes::from_static))
        };
        let first = Rows::from([row(b"rA0a", Some(b"there")), row(b"rA0b", None)]);
        write(&mut below, &first, 1).expect("it is written");
        assert!(below.tree.contains_key(b"rA0a").expect("it can be read"));
        write(&mut below, &Rows::from([row(b"rA0a", None)]), 2).expect("it is written");
        assert!(!below.tree.contains_key(b"rA0a").expect("it can be read"));
    }

    #[test]
    fn no_key_that_is_there_lies_beyond_the_frontier() {
        let tree = sled::Config::new().temporary(true).open().expect("it opens");
        let lies_beyond = |frontier: &mut Frontier, key: &[u8]| {
            frontier.lies_beyond(&tree, key).expect("it can be read")
        };
        for key in [&b"rA0b"[..], b"rA0d", b"rB0a"] {
            tree.insert(key, b"").expect("it is written");
        }
        let mut frontier = Frontier::default();
        for (key, beyond) in [
            (&b"rA0d"[..], false),
            (b"rA0c", false),
            (b"rA0da", true),
            (b"rC0a", true),
            (b"rA", false),
        ] {
            assert_eq!(lies_beyond(&mut frontier, key), beyond, "{}", key.escape_ascii());
        }
        // What is about to be written moves it, before anybody asked about that table and after.
        for key in [&b"rA0x"[..], b"rA0e", b"rC0b", b"rD0a"] {
            frontier.extend(&tree, key).expect("it can be read");
        }
        for (key, beyond) in [
            (&b"rA0x"[..], false),
            (b"rA0y", true),
            (b"rC0a", false),
            (b"rD0a", false),
            (b"rD0b", true),
        ] {
            assert_eq!(lies_beyond(&mut frontier, key), beyond, "{}", key.escape_ascii());
        }
    }
}
