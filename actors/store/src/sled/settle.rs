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
    pub(super) fn run(&self, layers: &Layers, below: &Below, failure: &Failure) {
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

    fn hold(&self, layers: &Layers, below: &Below) -> Result<(), Error> {
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
pub(super) fn write(below: &Below, rows: &Rows, last: u64) -> Result<(), Error> {
    let mut batch = sled::Batch::default();
    let mut size = 0;
    for (key, row) in rows {
        match row {
            Some(row) => batch.insert(key.as_ref(), row.as_ref()),
            // What came and went within the round was never there.
            None if !below.tree.contains_key(key).map_err(|error| sled_failed(&error))? => continue,
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
}

impl Below {
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
