//! The writing of one backup: pieces become chunks.

use std::path::Path;

use bytes::Bytes;
use callboard_store::sled::{Piece, split_ops};

use crate::manifest::{Chunk, FORMAT, Manifest, NamedFile};
use crate::repository::{Kept, Repository};
use crate::{Error, encode, failed};

/// The bytes after which a chunk of rows ends at the next key that [`is_cut`] picks.
const LEAST: usize = 64 << 10;
/// The bytes after which a chunk ends at the latest.
const MOST: usize = 4 << 20;
/// The number of keys of which one ends a chunk.
const EVERY: u32 = 256;

/// A backup that is being written. Without [`Writer::finish`] the repository holds none, and none of
/// its chunks.
#[derive(Debug)]
pub struct Writer<'r> {
    repository: &'r Repository,
    manifest: Manifest,
    rows: Vec<u8>,
    tail: Vec<u8>,
    /// The number of the last group so far.
    last: u64,
    begun: bool,
    ended: bool,
    /// The chunks that no earlier backup has.
    added: Vec<Chunk>,
    complete: bool,
}

impl Drop for Writer<'_> {
    /// A backup that failed leaves nothing, so that a full disk is not fuller than before.
    fn drop(&mut self) {
        if !self.complete {
            self.repository.discard(&self.manifest.id, &self.added);
        }
    }
}

impl<'r> Writer<'r> {
    /// Begins the backup `id`, made by this version of the program.
    ///
    /// # Errors
    /// [`Error::Io`] if there is a backup with this id.
    pub fn begin(repository: &'r Repository, id: &str, version: &str) -> Result<Self, Error> {
        if repository.has(id) {
            return Err(Error::Io(format!("there is a backup {id} already; try again")));
        }
        let manifest = Manifest {
            format: FORMAT,
            id: id.into(),
            ended_at: None,
            version: version.into(),
            lineage: 0,
            from_group: 0,
            group: 0,
            rows: 0,
            bytes: 0,
            new_bytes: 0,
            chunks: Vec::new(),
            tail: Vec::new(),
            files: Vec::new(),
        };
        let (rows, tail) = (Vec::new(), Vec::new());
        Ok(Self {
            repository,
            manifest,
            rows,
            tail,
            last: 0,
            begun: false,
            ended: false,
            added: Vec::new(),
            complete: false,
        })
    }

    /// Adds the next piece of the snapshot.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if the piece does not follow the one before it, [`Error::Io`] if the
    /// disk fails.
    pub fn push(&mut self, piece: &Piece) -> Result<(), Error> {
        let misplaced = || Err(Error::Incomplete("its pieces are out of order".into()));
        if self.ended || self.begun == matches!(piece, Piece::Origin { .. }) {
            return misplaced();
        }
        match piece {
            Piece::Origin { lineage, group } => {
                self.begun = true;
                (self.manifest.lineage, self.manifest.from_group) = (*lineage, *group);
                self.last = *group;
            }
            Piece::Rows(ops) => self.add_rows(ops)?,
            Piece::Group { number, .. } if *number != self.last + 1 => return misplaced(),
            Piece::Group { number, .. } => {
                self.last = *number;
                self.add_to_tail(piece)?;
            }
            Piece::Overlay(_) => self.add_to_tail(piece)?,
            Piece::End { group } if *group != self.last => return misplaced(),
            Piece::End { group } => {
                self.manifest.group = *group;
                self.ended = true;
            }
        }
        Ok(())
    }

    /// Adds a file of the data directory.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read.
    pub fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let bytes = std::fs::read(path).map_err(failed(path))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let chunk = self.keep(&bytes)?;
        self.manifest.files.push(NamedFile { name, chunk });
        Ok(())
    }

    /// Completes the backup, durably.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if the snapshot's end is missing, [`Error::Io`] if the disk fails.
    pub fn finish(mut self, ended_at: Option<String>) -> Result<Manifest, Error> {
        if !self.ended {
            return Err(Error::Incomplete("the stream ended before the backup did".into()));
        }
        self.end_rows()?;
        self.end_tail()?;
        self.manifest.ended_at = ended_at;
        self.repository.add(&self.manifest)?;
        self.complete = true;
        Ok(self.manifest.clone())
    }

    fn add_rows(&mut self, ops: &Bytes) -> Result<(), Error> {
        let rows = split_ops(ops)
            .ok_or_else(|| Error::Incomplete("a piece of rows is malformed".into()))?;
        for (key, op) in rows {
            self.rows.extend_from_slice(&op);
            self.manifest.rows += 1;
            let length = self.rows.len();
            if (length >= LEAST && is_cut(&key)) || length >= MOST {
                self.end_rows()?;
            }
        }
        Ok(())
    }

    fn add_to_tail(&mut self, piece: &Piece) -> Result<(), Error> {
        self.tail.extend_from_slice(&encode(Ok(piece)));
        if self.tail.len() >= MOST { self.end_tail() } else { Ok(()) }
    }

    fn end_rows(&mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.rows);
        if !rows.is_empty() {
            let chunk = self.keep(&rows)?;
            self.manifest.chunks.push(chunk);
        }
        Ok(())
    }

    fn end_tail(&mut self) -> Result<(), Error> {
        let tail = std::mem::take(&mut self.tail);
        if !tail.is_empty() {
            let chunk = self.keep(&tail)?;
            self.manifest.tail.push(chunk);
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<Chunk, Error> {
        let (chunk, kept) = self.repository.keep(bytes)?;
        self.manifest.bytes += chunk.bytes;
        if kept != Kept::Known {
            self.manifest.new_bytes += chunk.bytes;
        }
        if kept == Kept::Added {
            self.added.push(chunk.clone());
        }
        Ok(chunk)
    }
}

/// True for one key in [`EVERY`]: the same keys in each backup.
fn is_cut(key: &[u8]) -> bool {
    crc32fast::hash(key).is_multiple_of(EVERY)
}
