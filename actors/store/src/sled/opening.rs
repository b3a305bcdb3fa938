//! Opening a directory: what is there must be what was left, or it is said what is wrong with it.
//!
//! Deliberately absent: the repair of what a power cut leaves (see `repair.rs`).

use std::fs::{self, File};
use std::io;
use std::path::Path;

use bytes::Bytes;

use super::settle::{self, Below};
use crate::batch::Epoch;
use crate::directory::{WITH_JOURNAL, corrupt, failed, retry};
use crate::journal::{self, Standing};
use crate::mark::{self, Left};
use crate::overlay::Rows;
use crate::quiet::quietly;
use crate::row::META;
use crate::{Error, anchor, repair, scrub};

const EPOCH: [u8; 2] = [META, b'e'];
/// The last group of the journal whose rows are there.
pub(super) const SETTLED: [u8; 2] = [META, b'j'];
/// What the CRCs of the journal begin with.
const SECRET: [u8; 2] = [META, b's'];

/// How often sled collects its garbage, in milliseconds: it does so in the thread that flushes, a segment
/// of 512 KB at a time (`SegmentCleaner::pop` ends a turn with each). With its own 500 the file grows for as
/// long as 1 MB of long texts a second comes and goes (docs/performance.md, Disk).
const COLLECT_EVERY: u64 = 100;

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

/// Opens sled in a directory all of which was synced; and its file, before sled does. Whoever has a file
/// open when a sync of it fails is told so by his own next sync (Linux's `errseq_t`), and nobody else is.
/// sled has a thread that syncs and tells nobody what came of it, and goes on.
pub(super) fn open_tree(path: &Path, cache_bytes: u64) -> Result<(sled::Db, File), Error> {
    anchor::set(path)?;
    let db = open_db(path)?;
    let config = sled::Config::new().path(path).cache_capacity(cache_bytes);
    let config = config.flush_every_ms(Some(COLLECT_EVERY));
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
    let tree = retry(open).unwrap_or_else(|| Err(Error::Locked(path.display().to_string())))?;
    Ok((tree, db))
}

/// sled's file, for its syncs.
pub(super) fn open_db(path: &Path) -> Result<File, Error> {
    let mut options = File::options();
    let db = options.write(true).create(true).truncate(false).open(path.join("db"));
    db.map_err(|error| failed(&error))
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

/// Where the journal stands. Noted for the first time if the directory has none yet.
pub(super) fn standing(
    tree: &sled::Db,
    path: &Path,
    known: Option<u32>,
) -> Result<Standing, Error> {
    let note = |key: [u8; 2]| -> Result<Option<u64>, Error> {
        let note = tree.get(key).map_err(|error| sled_failed(&error))?;
        Ok(note.and_then(|note| note.as_ref().try_into().ok()).map(u64::from_le_bytes))
    };
    match (note(SETTLED)?, note(SECRET)?) {
        (Some(settled), Some(secret)) => Ok(Standing { settled, secret }),
        (None, None) if known.is_none_or(|known| known < WITH_JOURNAL) => {
            let standing = Standing { settled: 0, secret: random() };
            let mut notes = sled::Batch::default();
            notes.insert(&SETTLED, &standing.settled.to_le_bytes());
            notes.insert(&SECRET, &standing.secret.to_le_bytes());
            tree.apply_batch(notes).map_err(|error| sled_failed(&error))?;
            tree.flush().map_err(|error| sled_failed(&error))?;
            Ok(standing)
        }
        _ => Err(corrupt(path, "its contents are lost")),
    }
}

/// A number that nobody can guess: the standard library seeds its maps with such.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Whether every commit that was noted is there, the newest being `last`.
pub(super) fn check_noted(path: &Path, last: u64, new: bool) -> Result<(), Error> {
    match mark::read(path)? {
        Some(noted) if last < noted => {
            Err(corrupt(path, &format!("its newest commit is {last}, and {noted} was answered")))
        }
        None if !new => Err(corrupt(path, "its file callboard-mark is gone")),
        Some(_) | None => Ok(()),
    }
}

/// Brings to sled what stood in the journal only.
pub(super) fn bring_back(
    below: &mut Below,
    path: &Path,
    missing: &[Bytes],
    last: u64,
) -> Result<(), Error> {
    if missing.is_empty() {
        return Ok(());
    }
    let mut all = Rows::new();
    for group in missing {
        let rows = journal::rows(group);
        all.extend(rows.ok_or_else(|| corrupt(path, "a group of its journal makes no sense"))?);
    }
    settle::write(below, &all, last)
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
