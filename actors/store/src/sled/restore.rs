//! Makes a new directory from a snapshot and the groups after it.
//!
//! The directory begins a lineage of its own, and an opening finds it closed. Until it is complete, its
//! format says that it is being restored, which an opening refuses.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::opening::{CHECKPOINT, EPOCH, SALT, in_sled, open_tree, random, sled_error};
use super::reclaim;
use super::watchdog::close;
use crate::batch::Epoch;
use crate::directory::{corrupt, create_private, io_error, lock, mark_restored, write_format};
use crate::journal::{self, decode_ops};
use crate::mark::Mark;
use crate::{Error, repair, shutdown};

/// A directory that is being written.
#[derive(Debug)]
pub struct Restore {
    tree: sled::Db,
    db: File,
    path: PathBuf,
    epoch: u64,
    _lock: File,
}

impl Restore {
    /// Begins a store at `path`, where there must be nothing, or an empty directory.
    ///
    /// # Errors
    /// [`Error::Io`] if something is there, or if the disk fails.
    pub fn begin(path: &Path, cache_bytes: u64) -> Result<Self, Error> {
        let io = |error: io::Error| io_error(&error);
        create_private(path).map_err(io)?;
        if fs::read_dir(path).map_err(io)?.next().is_some() {
            let text = format!("{} is not empty; restore to a new directory", path.display());
            return Err(Error::Io(text.into()));
        }
        let lock = lock(path)?;
        mark_restored(path).map_err(io)?;
        let (tree, db) = open_tree(path, cache_bytes)?;
        Ok(Self { tree, db, path: path.into(), epoch: 0, _lock: lock })
    }

    /// Writes operations: those of rows, of an overlay or of a group.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they are malformed, [`Error::Io`] if the disk fails.
    pub fn write(&mut self, ops: &Bytes) -> Result<(), Error> {
        let rows = decode_ops(ops).ok_or_else(|| corrupt(&self.path, "a piece is malformed"))?;
        let mut batch = sled::Batch::default();
        for (key, row) in rows {
            match row {
                Some(row) => batch.insert(&key[..], &row[..]),
                None => batch.remove(&key[..]),
            }
        }
        in_sled(|| self.tree.apply_batch(batch).map_err(|error| sled_error(&error)))
    }

    /// Counts an opening of the old directory that came after the snapshot.
    pub const fn raise_epoch(&mut self, epoch: Epoch) {
        if self.epoch < epoch.0 {
            self.epoch = epoch.0;
        }
    }

    /// Completes the directory, durably; `group` is the number of the last group that was written.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the snapshot was of no store, [`Error::Io`] if the disk fails.
    pub fn finish(self, group: u64) -> Result<(), Error> {
        let Self { tree, db, path, epoch, _lock } = self;
        let io = |error: io::Error| io_error(&error);
        in_sled(|| {
            let last = tree.get(EPOCH).map_err(|error| sled_error(&error))?;
            let last =
                last.as_deref().and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?)));
            let last = last.ok_or_else(|| corrupt(&path, "the backup holds no store"))?;
            let mut notes = sled::Batch::default();
            notes.insert(&EPOCH, &last.max(epoch).to_le_bytes());
            notes.insert(&CHECKPOINT, &group.to_le_bytes());
            notes.insert(&SALT, &random().to_le_bytes());
            tree.apply_batch(notes).map_err(|error| sled_error(&error))?;
            reclaim::flush(&tree).map(drop).map_err(|error| sled_error(&error))
        })?;
        if !close(tree) {
            return Err(corrupt(&path, "sled could not write it"));
        }
        journal::make_empty(&path).map_err(io)?;
        drop(Mark::open(&path, group).map_err(io)?);
        db.sync_all().and_then(|()| repair::sync_all(&path)).map_err(io)?;
        shutdown::mark_clean(&path).and_then(|()| write_format(&path)).map_err(io)
    }
}
