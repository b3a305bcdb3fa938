//! A snapshot of a store in use: its rows as sled has them, and the groups that were committed meanwhile.
//!
//! ```text
//! origin ─▶ overlay ─▶ rows, groups, rows, groups … ─▶ end
//! ```
//!
//! sled's rows are read while checkpoints change them. Writing the rows, then the overlay, then every group
//! in order gives the store as it was after the last group: a group holds values and no changes, and a row
//! that no group names did not change.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::checkpoint::{Checkpointer, JournalView};
use super::layers::Layers;
use super::opening::{CHECKPOINT, SALT, sled_error};
use crate::journal::{encode_op, number, ops};
use crate::{Error, panics};

/// The bytes of rows in one [`Piece`], about.
const PIECE: usize = 256 << 10;

/// A part of a snapshot, in the order in which a snapshot yields them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// The beginning.
    Origin {
        /// Identifies the directory; a restored one has another.
        lineage: u32,
        /// The number of the last group before the snapshot.
        group: u64,
    },
    /// The rows above sled at the beginning, as operations.
    Overlay(Bytes),
    /// Rows of sled as operations, in the order of their keys over all pieces.
    Rows(Bytes),
    /// A group that was committed since the beginning.
    Group {
        /// The group's number: one more than the last.
        number: u64,
        /// The group's operations.
        ops: Bytes,
    },
    /// The end: without it, a snapshot is incomplete.
    End {
        /// The number of the last group.
        group: u64,
    },
}

/// A snapshot under way. A drop ends it.
#[derive(Debug)]
pub struct Snapshot {
    layers: Weak<Layers>,
    checkpointer: Arc<Checkpointer>,
    ready: VecDeque<Piece>,
    reading: Reading,
}

#[derive(Debug)]
enum Reading {
    /// The rows behind this key.
    Rows(Vec<u8>),
    Done,
}

impl Snapshot {
    pub(super) fn begin(
        layers: &Arc<Layers>,
        checkpointer: &Arc<Checkpointer>,
    ) -> Result<Self, Error> {
        let JournalView { lineage, group, overlay } = checkpointer
            .begin_snapshot(layers)
            .ok_or_else(|| Error::Io("another backup is being made; wait for its end".into()))?;
        let mut rows = Vec::new();
        for (key, row) in &overlay {
            encode_op(key, row.as_deref(), &mut rows);
        }
        let ready = [Piece::Origin { lineage, group }, Piece::Overlay(rows.into())].into();
        Ok(Self {
            layers: Arc::downgrade(layers),
            checkpointer: Arc::clone(checkpointer),
            ready,
            reading: Reading::Rows(Vec::new()),
        })
    }

    fn read(&mut self) -> Result<(), Error> {
        let Reading::Rows(after) = &self.reading else { return Ok(()) };
        let layers = self.layers.upgrade().ok_or(Error::Stopped)?;
        let read = panics::catch(|| rows(&layers.tree, after));
        let (rows, last) =
            read.map_err(|message| Error::Io(format!("sled says: {message}").into()))??;
        drop(layers);
        if !rows.is_empty() {
            self.ready.push_back(Piece::Rows(rows.into()));
        }
        self.reading = last.map_or(Reading::Done, Reading::Rows);
        let done = matches!(self.reading, Reading::Done);
        let (group, groups) = self.checkpointer.copied_groups(done).ok_or_else(|| {
            let text = "the store changes faster than the backup is read; try a faster reader";
            Error::Io(text.into())
        })?;
        let piece = |group: &Bytes| Piece::Group { number: number(group), ops: ops(group) };
        self.ready.extend(groups.iter().map(piece));
        if done {
            self.ready.push_back(Piece::End { group });
        }
        Ok(())
    }
}

impl Iterator for Snapshot {
    type Item = Result<Piece, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() && matches!(self.reading, Reading::Rows(_)) {
            if let Err(error) = self.read() {
                self.reading = Reading::Done;
                self.checkpointer.end_snapshot();
                return Some(Err(error));
            }
        }
        self.ready.pop_front().map(Ok)
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // A snapshot that was read to its end has no tap any more, and another may have begun.
        if matches!(self.reading, Reading::Rows(_)) {
            self.checkpointer.end_snapshot();
        }
    }
}

/// The next rows behind `after`, as operations, and the key of the last one if there may be more.
fn rows(tree: &sled::Db, after: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>), Error> {
    use std::ops::Bound::{Excluded, Unbounded};
    let mut rows = Vec::new();
    for row in tree.range::<&[u8], _>((Excluded(after), Unbounded)) {
        let (key, value) = row.map_err(|error| sled_error(&error))?;
        if *key != CHECKPOINT && *key != SALT {
            encode_op(&key, Some(&value), &mut rows);
        }
        if rows.len() >= PIECE {
            return Ok((rows, Some(key.to_vec())));
        }
    }
    Ok((rows, None))
}
