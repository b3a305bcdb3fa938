//! Opening a directory: checks that its content is as it was left, and opens sled.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use bytes::Bytes;

use super::checkpoint::SyncedSled;
use super::reclaim;
use crate::batch::Epoch;
use crate::directory::{WITH_JOURNAL, corrupt, io_error, locked, place, retry};
use crate::journal::{self, Checkpoint};
use crate::overlay::Rows;
use crate::row::META;
use crate::shutdown::{self, Shutdown};
use crate::version::{self, ROWS, Written};
use crate::{Error, anchor, mark, panics, repair, scrub};

pub(super) const EPOCH: [u8; 2] = [META, b'e'];
/// The last group of the journal whose rows are in sled.
pub(super) const CHECKPOINT: [u8; 2] = [META, b'j'];
pub(super) const SALT: [u8; 2] = [META, b's'];
/// The version of the rows.
const WRITTEN: [u8; 2] = [META, b'f'];

/// The interval of sled's garbage collection, in milliseconds. sled's own thread collects between two
/// flushes, one segment of 512 KB at a time (`SegmentCleaner::pop` ends a turn with each). With sled's
/// default of 500 the file grows for as long as 1 MB of long texts a second comes and goes
/// (docs/performance.md, Disk).
pub(super) const COLLECT_EVERY: u64 = 100;

/// The last shutdown; an error if the directory is damaged in a way that sled would not report.
pub(super) fn check_shutdown(path: &Path, format: Option<u32>) -> Result<Shutdown, Error> {
    let last = shutdown::last(path)?;
    if format.is_none() || last == Shutdown::Unknown {
        return Ok(Shutdown::Unknown);
    }
    let length = match fs::metadata(path.join("db")) {
        Ok(db) => db.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(corrupt(path, "its file db is missing"));
        }
        Err(error) => return Err(io_error(&error)),
    };
    match last {
        Shutdown::Clean(before) if before != length => {
            let reason =
                format!("its file db has {length} bytes, and had {before} when it was closed");
            return Err(corrupt(path, &reason));
        }
        Shutdown::Clean(_) | Shutdown::Killed | Shutdown::Unknown => {}
    }
    match scrub::damage(path).map_err(|error| io_error(&error))? {
        Some(damage) => Err(corrupt(path, &damage)),
        None => Ok(last),
    }
}

/// Opens sled in a directory all of which was synced, and its file before that. Linux reports a failed
/// sync of a file to each descriptor that was open then, at its next sync (`errseq_t`), and to no later
/// one. sled has a thread that syncs and ignores a failure.
pub(super) fn open_tree(path: &Path, cache_bytes: u64) -> Result<(sled::Db, File), Error> {
    anchor::set(path)?;
    let mut options = File::options();
    let db = options.write(true).create(true).truncate(false).open(path.join("db"));
    let db = db.map_err(|error| io_error(&error))?;
    let config = sled::Config::new().path(path).cache_capacity(cache_bytes);
    let config = config.flush_every_ms(Some(COLLECT_EVERY));
    let open = || match panics::catch_silently(|| config.open()) {
        Ok(Ok(tree)) => Some(Ok(tree)),
        Ok(Err(sled::Error::Io(error))) if error.to_string().contains("could not acquire lock") => {
            None
        }
        Ok(Err(sled::Error::Io(error))) if !is_damage(&error) => Some(Err(io_error(&error))),
        Ok(Err(error)) => Some(Err(corrupt(path, &error.to_string()))),
        Err(message) => {
            // sled panics on a disk that fails, as it does on damage.
            let disk = repair::sync_all(path).map_err(|error| io_error(&error));
            let damage = || corrupt(path, &format!("sled says: {message}"));
            Some(Err(disk.err().unwrap_or_else(damage)))
        }
    };
    let tree = retry(open).unwrap_or_else(|| Err(locked(path)))?;
    Ok((tree, db))
}

/// Counts this opening, durably.
pub(super) fn next_epoch(
    tree: &sled::Db,
    path: &Path,
    format: Option<u32>,
) -> Result<Epoch, Error> {
    let last = tree.get(EPOCH).map_err(|error| corrupt(path, &error.to_string()))?;
    let last = match last.as_deref().map(<[u8; 8]>::try_from) {
        Some(Ok(bytes)) => u64::from_le_bytes(bytes),
        None if format.is_none() && tree.is_empty() => 0,
        // A store that was in use has an epoch. A new beginning would be a silent reset.
        None | Some(Err(_)) => return Err(emptied(path)),
    };
    tree.insert(EPOCH, &(last + 1).to_le_bytes()).map_err(|error| sled_error(&error))?;
    reclaim::flush(tree).map_err(|error| sled_error(&error))?;
    Ok(Epoch(last + 1))
}

/// The version of the rows; refuses that of a newer program.
pub(super) fn check_rows(tree: &sled::Db, path: &Path) -> Result<Written, Error> {
    let found = match tree.get(WRITTEN).map_err(|error| sled_error(&error))? {
        Some(record) => Written::decode(&record)
            .ok_or_else(|| corrupt(path, "the record of its rows is malformed"))?,
        None => Written { rows: 0, program: String::new() },
    };
    found.check(&place(path)).map(|()| found)
}

/// Notes durably that this program writes the rows. From then on, a program whose rows are older refuses them.
pub(super) fn record_rows(tree: &sled::Db, path: &Path, found: &Written) -> Result<(), Error> {
    if found.rows == ROWS {
        return version::write(path, found);
    }
    let own = Written::by_this_program();
    tree.insert(WRITTEN, own.encode()).map_err(|error| sled_error(&error))?;
    reclaim::flush(tree).map_err(|error| sled_error(&error))?;
    version::write(path, &own)
}

/// The last checkpoint. A directory without a journal gets its first note of one here.
pub(super) fn last_checkpoint(
    tree: &sled::Db,
    path: &Path,
    format: Option<u32>,
) -> Result<Checkpoint, Error> {
    let record = |key: [u8; 2]| -> Result<Option<u64>, Error> {
        let record = tree.get(key).map_err(|error| sled_error(&error))?;
        Ok(record.and_then(|record| record.as_ref().try_into().ok()).map(u64::from_le_bytes))
    };
    match (record(CHECKPOINT)?, record(SALT)?) {
        (Some(group), Some(salt)) => Ok(Checkpoint { group, salt }),
        (None, None) if format.is_none_or(|format| format < WITH_JOURNAL) => {
            let first = Checkpoint { group: 0, salt: random() };
            let mut notes = sled::Batch::default();
            notes.insert(&CHECKPOINT, &first.group.to_le_bytes());
            notes.insert(&SALT, &first.salt.to_le_bytes());
            tree.apply_batch(notes).map_err(|error| sled_error(&error))?;
            reclaim::flush(tree).map_err(|error| sled_error(&error))?;
            Ok(first)
        }
        _ => Err(emptied(path)),
    }
}

fn emptied(path: &Path) -> Error {
    corrupt(path, "its file db has lost its contents")
}

/// An unguessable number: the standard library seeds its maps with such.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// Compares the newest commit, `last`, with the mark.
pub(super) fn check_mark(path: &Path, last: u64, new: bool) -> Result<(), Error> {
    match mark::read(path)? {
        Some(marked) if last < marked => {
            let reason =
                format!("its newest commit is {last}, and commit {marked} was acknowledged");
            Err(corrupt(path, &reason))
        }
        None if !new => Err(corrupt(path, &format!("its file {} is missing", mark::FILE))),
        Some(_) | None => Ok(()),
    }
}

/// Writes groups of the journal, up to the number `last`, to sled.
pub(super) fn replay(
    sled: &mut SyncedSled,
    path: &Path,
    groups: &[Bytes],
    last: u64,
) -> Result<(), Error> {
    if groups.is_empty() {
        return Ok(());
    }
    let mut rows = Rows::new();
    for group in groups {
        let decoded = journal::decode(group);
        rows.extend(decoded.ok_or_else(|| corrupt(path, "a group of its journal is malformed"))?);
    }
    sled.write(&rows, last)
}

/// Runs `work`; a panic of sled's becomes an error.
pub(super) fn in_sled<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    let panicked = |message| Err(Error::Io(format!("sled says: {message}").into()));
    panics::catch(work).unwrap_or_else(panicked)
}

/// True if sled found the error in its file, and not the system. An error that sled copied keeps its kind
/// and loses its number.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
}

/// An error of the disk, or else of sled's file, which is damage.
pub(super) fn sled_error(error: &sled::Error) -> Error {
    match error {
        sled::Error::Io(error) if !is_damage(error) => io_error(error),
        sled::Error::Io(_)
        | sled::Error::Corruption { .. }
        | sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_) => {
            Error::Corrupt { path: "(its file db)".into(), reason: error.to_string() }
        }
    }
}
