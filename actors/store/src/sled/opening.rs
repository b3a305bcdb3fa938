//! Opening a directory: what is there must be what was left, or it is said what is wrong with it.
//!
//! Deliberately absent: the repair of what a power cut leaves (see `repair.rs`).

use std::fs;
use std::io;
use std::path::Path;

use crate::batch::Epoch;
use crate::directory::{corrupt, failed, retry};
use crate::mark::{self, Left};
use crate::quiet::quietly;
use crate::row::META;
use crate::{Error, repair, scrub};

const EPOCH: [u8; 2] = [META, b'e'];
/// The number of the newest commit.
pub(super) const NUMBER: [u8; 2] = [META, b'n'];

/// How the directory was left; an error if it is damaged where sled would not say so.
pub(super) fn check_left(path: &Path, known: Option<u32>) -> Result<Left, Error> {
    let left = mark::left(path)?;
    if known.is_none() || left == Left::Unknown {
        return Ok(Left::Unknown);
    }
    let length = match fs::metadata(path.join("db")) {
        Ok(db) => db.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(corrupt(path, "its file db is gone"));
        }
        Err(error) => return Err(failed(&error)),
    };
    match left {
        Left::Closed(before) if before != length => {
            let reason = format!("its file db has {length} bytes, and was left with {before}");
            return Err(corrupt(path, &reason));
        }
        Left::Closed(_) | Left::Killed | Left::Unknown => {}
    }
    match scrub::damage(path).map_err(|error| failed(&error))? {
        Some(damage) => Err(corrupt(path, &damage)),
        None => Ok(left),
    }
}

pub(super) fn open_tree(path: &Path, cache_bytes: u64) -> Result<sled::Db, Error> {
    // flush_every_ms stays on: sled collects its garbage in that thread only.
    let config = sled::Config::new().path(path).cache_capacity(cache_bytes);
    let open = || match quietly(|| config.open()) {
        Ok(Ok(tree)) => Some(Ok(tree)),
        Ok(Err(sled::Error::Io(error))) if error.to_string().contains("could not acquire lock") => {
            None
        }
        Ok(Err(sled::Error::Io(error))) if !is_damage(&error) => Some(Err(failed(&error))),
        Ok(Err(error)) => Some(Err(corrupt(path, &error.to_string()))),
        Err(panic) => {
            // It panics on a disk that fails, as it does on damage.
            let disk = repair::sync_all(path).map_err(|error| failed(&error));
            Some(Err(disk.err().unwrap_or_else(|| corrupt(path, &format!("sled says: {panic}")))))
        }
    };
    retry(open).unwrap_or_else(|| Err(Error::Locked(path.display().to_string())))
}

/// Counts this opening, durably.
pub(super) fn next_epoch(tree: &sled::Db, path: &Path, known: Option<u32>) -> Result<Epoch, Error> {
    let last = tree.get(EPOCH).map_err(|error| corrupt(path, &error.to_string()))?;
    let last = match last.as_deref().map(<[u8; 8]>::try_from) {
        Some(Ok(bytes)) => u64::from_le_bytes(bytes),
        None if known.is_none() && tree.is_empty() => 0,
        // A store that was in use has its counter. Going on would be a silent reset.
        None | Some(Err(_)) => return Err(corrupt(path, "its contents are lost")),
    };
    tree.insert(EPOCH, &(last + 1).to_le_bytes()).map_err(|error| sled_failed(&error))?;
    tree.flush().map_err(|error| sled_failed(&error))?;
    Ok(Epoch(last + 1))
}

/// The number of the newest commit that is there; an error if a newer one was answered.
pub(super) fn newest_commit(tree: &sled::Db, path: &Path) -> Result<u64, Error> {
    let there = tree.get(NUMBER).map_err(|error| sled_failed(&error))?;
    let there = match there.as_deref().map(<[u8; 8]>::try_from) {
        Some(Ok(bytes)) => Some(u64::from_le_bytes(bytes)),
        Some(Err(_)) => return Err(corrupt(path, "the number of its newest commit is damaged")),
        None => None,
    };
    match (there, mark::read(path)?) {
        (there, Some(noted)) if there.unwrap_or(0) < noted => {
            let there = there.unwrap_or(0);
            Err(corrupt(path, &format!("its newest commit is {there}, and {noted} was answered")))
        }
        (Some(_), None) => Err(corrupt(path, "its file callboard-mark is gone")),
        (there, _) => Ok(there.unwrap_or(0)),
    }
}

/// Whether sled, and not the system, found fault with a file. An error that sled copied has lost its
/// number, but not its kind.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
}

/// What the system says of the disk; or else what sled says of its file, which is damage.
pub(super) fn sled_failed(error: &sled::Error) -> Error {
    match error {
        sled::Error::Io(error) if !is_damage(error) => failed(error),
        sled::Error::Io(_)
        | sled::Error::Corruption { .. }
        | sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_) => {
            Error::Corrupt { path: "(its file db)".into(), reason: error.to_string() }
        }
    }
}
