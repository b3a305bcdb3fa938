//! Makes a store as small as its live data.
//!
//! sled uses freed space again, but its file never becomes smaller. So the live data is written to a new
//! directory, read back and compared, and the two change places in one step.
//!
//! ```text
//! store           the old one ─┐ exchanged ┌─▶ the new one
//! store.compact   the new one ─┘           └─▶ the old one, removed
//! ```
//!
//! The new directory's journal is empty: the old one's files still hold bytes of rows that were deleted.
//!
//! A crash at any moment leaves a complete store. The directory under the second name is never needed, and
//! the next opening removes it.
//!
//! Deliberately absent: compaction of a store in use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::opening::{check_shutdown, in_sled, open_tree, sled_error};
use super::watchdog::close;
use super::{SledOptions, SledStore, reclaim};
use crate::archive::COVERAGE_FILE;
use crate::directory::{FORMAT_FILE, corrupt, io_error, lock, locked, read_format};
use crate::shutdown::{self, Shutdown};
use crate::{Error, journal, mark, panics, repair};

/// The bytes that go to sled in one batch. All are synced at the end.
const PIECE: usize = 1 << 20;

/// The files that are copied: those that sled does not make, without the state and the journal.
const FILES: [&str; 2] = [mark::FILE, FORMAT_FILE];

/// The sizes of a store around its compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of the store's files before.
    pub before: u64,
    /// The bytes of the store's files now.
    pub after: u64,
}

/// Makes the store at `path` as small as its live data. The disk must have that much free space.
/// `archive` is that of [`SledOptions`].
///
/// # Errors
/// [`Error::Locked`] if a process has it open, [`Error::Corrupt`] if it is damaged, [`Error::Io`] if there
/// is none, if the disk fails or is full, or if the file system cannot exchange two directories. After an
/// error all live data is there, in the old files or in the new ones.
pub fn compact(
    path: &Path,
    cache_bytes: u64,
    archive: Option<PathBuf>,
) -> Result<Compacted, Error> {
    if read_format(path)?.is_none() {
        return Err(Error::Io(format!("there is no store at {}", path.display()).into()));
    }
    // Opening reports damage, and closing brings the whole journal to sled.
    let options = SledOptions::new(path.into(), cache_bytes, Box::new(|_| ()));
    drop(SledStore::open(SledOptions { archive, ..options })?);
    let _lock = lock(path)?;
    let Shutdown::Clean(_) = check_shutdown(path, read_format(path)?)? else {
        return Err(locked(path));
    };
    shutdown::mark_open(path, true).map_err(|error| io_error(&error))?;
    let beside = beside(path);
    // sled panics on a disk that fails, also where it is dropped.
    let exchanged = in_sled(|| write(path, &beside, cache_bytes)).and_then(|()| {
        let exchange = || -> io::Result<Compacted> {
            let sizes = Compacted { before: size(path)?, after: size(&beside)? };
            renameat_with(CWD, path, CWD, &beside, RenameFlags::EXCHANGE)?;
            Ok(sizes)
        };
        exchange().map_err(|error| io_error(&error))
    });
    match exchanged {
        Ok(sizes) => clear(path).map(|()| sizes).map_err(|error| io_error(&error)),
        Err(error) => {
            // The store is complete, and not noted as clean: a disk that failed may have lost writes.
            let _ = remove(&beside);
            Err(error)
        }
    }
}

/// Removes the directory beside the store at `path`: the old store, or the incomplete new one. The caller
/// has the lock.
pub(super) fn clear(path: &Path) -> io::Result<()> {
    let beside = beside(path);
    if beside.exists() {
        // A power cut brings this directory back until the exchange is durable.
        repair::sync_all(path)?;
        remove(&beside)?;
    }
    Ok(())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".compact");
    name.into()
}

/// Writes the live data of `path` to the new directory `to`, durably.
fn write(path: &Path, to: &Path, cache_bytes: u64) -> Result<(), Error> {
    let io = |error: io::Error| io_error(&error);
    remove(to).and_then(|()| fs::create_dir(to)).map_err(io)?;
    let (old, _) = open_tree(path, cache_bytes)?;
    let (new, db) = open_tree(to, cache_bytes)?;
    silently(|| copy(&old, &new))?;
    if !close(new) {
        return Err(corrupt(to, "sled could not write it"));
    }
    for file in FILES {
        fs::copy(path.join(file), to.join(file)).map_err(io)?;
    }
    if path.join(COVERAGE_FILE).exists() {
        fs::copy(path.join(COVERAGE_FILE), to.join(COVERAGE_FILE)).map_err(io)?;
    }
    journal::make_empty(to).map_err(io)?;
    repair::sync_all(to).map_err(io)?;
    // The new directory is opened as the next opening will open it.
    let (new, _) = open_tree(to, cache_bytes)?;
    let same = silently(|| is_same(&old, &new))?;
    if !close(new) || !close(old) || !same {
        return Err(corrupt(to, "its rows are not those that were written"));
    }
    db.sync_all()
        .and_then(|()| shutdown::mark_clean(to))
        .and_then(|()| repair::sync_all(to))
        .map_err(io)
}

fn copy(old: &sled::Db, new: &sled::Db) -> sled::Result<()> {
    let (mut batch, mut size) = (sled::Batch::default(), 0);
    for row in old.iter() {
        let (key, value) = row?;
        size += key.len() + value.len();
        batch.insert(key, value);
        if size >= PIECE {
            size = 0;
            new.apply_batch(std::mem::take(&mut batch))?;
        }
    }
    new.apply_batch(batch)?;
    reclaim::flush(new).map(drop)
}

fn is_same(old: &sled::Db, new: &sled::Db) -> sled::Result<bool> {
    let (mut old, mut new) = (old.iter(), new.iter());
    loop {
        match (old.next().transpose()?, new.next().transpose()?) {
            (None, None) => return Ok(true),
            (old, new) if old != new => return Ok(false),
            (Some(_), _) | (_, Some(_)) => {}
        }
    }
}

fn silently<T>(work: impl FnOnce() -> sled::Result<T>) -> Result<T, Error> {
    match panics::catch_silently(work) {
        Ok(done) => done.map_err(|error| sled_error(&error)),
        Err(message) => Err(Error::Io(format!("sled says: {message}").into())),
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Bytes of the files in a directory.
fn size(directory: &Path) -> io::Result<u64> {
    fs::read_dir(directory)?.map(|file| Ok(file?.metadata()?.len())).sum()
}
