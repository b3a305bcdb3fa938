//! Makes a store as small as what lives in it.
//!
//! sled uses again what it frees, but its file never becomes smaller. So what lives is written to a new
//! directory, read back and compared, and the two change places in one step.
//!
//! ```text
//! store           the old one ─┐ exchanged ┌─▶ the new one
//! store.compact   the new one ─┘           └─▶ the old one, removed
//! ```
//!
//! Whatever cuts this short leaves a whole store. What stands under the second name is never needed: the
//! next opening removes it.
//!
//! Deliberately absent: any of this while the store is in use.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::opening::{check_left, open_tree, sled_failed};
use super::waker::close;
use super::{SledOptions, SledStore, message};
use crate::directory::{FORMAT_FILE, corrupt, failed, lock, read_format};
use crate::journal;
use crate::mark::{self, Left, MARK};
use crate::quiet::quietly;
use crate::{Error, repair};

/// How many bytes are given to sled at once. Nothing of it is needed before all of it is synced.
const PIECE: usize = 1 << 20;

/// Everything in a store that sled does not make, but for how it was left.
const FILES: [&str; 4] = [journal::FILES[0], journal::FILES[1], MARK, FORMAT_FILE];

/// What a compaction came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of the store's files before.
    pub before: u64,
    /// Bytes of its files now.
    pub after: u64,
}

/// Makes the store at `path` as small as what lives in it. It needs as much room as that meanwhile.
///
/// # Errors
/// [`Error::Locked`] if somebody has it open, [`Error::Corrupt`] if it is damaged, [`Error::Io`] if there
/// is none, if the disk fails or is full, or if the file system cannot exchange two directories. After an
/// error all that lived is there, in the old files or in the new ones.
pub fn compact(path: &Path, cache_bytes: u64) -> Result<Compacted, Error> {
    if read_format(path)?.is_none() {
        return Err(Error::Io(format!("there is no store at {}", path.display()).into()));
    }
    // Opened and closed in order, sled has all that the journal has, and what is wrong was said.
    drop(SledStore::open(SledOptions::new(path.into(), cache_bytes, Box::new(|_| ())))?);
    let _lock = lock(path)?;
    let Left::Closed(_) = check_left(path, read_format(path)?)? else {
        return Err(Error::Locked(path.display().to_string()));
    };
    mark::taken(path, true).map_err(|error| failed(&error))?;
    let beside = beside(path);
    // sled panics on a disk that fails, also where it is dropped.
    let written = catch_unwind(AssertUnwindSafe(|| write(path, &beside, cache_bytes)));
    let written = written.unwrap_or_else(|panic| Err(Error::Io(said(message(&*panic)).into())));
    let exchanged = written.and_then(|()| {
        let exchange = || -> io::Result<Compacted> {
            let sizes = Compacted { before: size(path)?, after: size(&beside)? };
            renameat_with(CWD, path, CWD, &beside, RenameFlags::EXCHANGE)?;
            Ok(sizes)
        };
        exchange().map_err(|error| failed(&error))
    });
    match exchanged {
        Ok(sizes) => clear(path).map(|()| sizes).map_err(|error| failed(&error)),
        Err(error) => {
            // It is whole, but not left in order: who knows what a disk has that failed.
            let _ = remove(&beside);
            Err(error)
        }
    }
}

/// Removes what stands beside the store at `path`: the old one, or what a compaction has left that was cut
/// short. The caller has the lock.
pub(super) fn clear(path: &Path) -> io::Result<()> {
    let beside = beside(path);
    if beside.exists() {
        // The exchange may not be durable yet, and then this is what a power cut would bring back.
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

/// Writes all that lives in `path` to the new directory `to`, and makes it durable there.
fn write(path: &Path, to: &Path, cache_bytes: u64) -> Result<(), Error> {
    let io = |error: io::Error| failed(&error);
    remove(to).and_then(|()| fs::create_dir(to)).map_err(io)?;
    let (old, _) = open_tree(path, cache_bytes)?;
    let (new, db) = open_tree(to, cache_bytes)?;
    in_sled(|| copy(&old, &new))?;
    if !close(new) {
        return Err(corrupt(to, "sled could not write it"));
    }
    for file in FILES {
        fs::copy(path.join(file), to.join(file)).map_err(io)?;
    }
    repair::sync_all(to).map_err(io)?;
    // As the next opening will find it.
    let (new, _) = open_tree(to, cache_bytes)?;
    let same = in_sled(|| is_same(&old, &new))?;
    if !close(new) || !close(old) || !same {
        return Err(corrupt(to, "what was written is not what is read back"));
    }
    db.sync_all().and_then(|()| mark::closed(to)).and_then(|()| repair::sync_all(to)).map_err(io)
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
    new.flush().map(drop)
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

fn in_sled<T>(work: impl FnOnce() -> sled::Result<T>) -> Result<T, Error> {
    match quietly(work) {
        Ok(done) => done.map_err(|error| sled_failed(&error)),
        Err(panic) => Err(Error::Io(said(&panic).into())),
    }
}

fn said(panic: &str) -> String {
    format!("sled says: {panic}")
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
