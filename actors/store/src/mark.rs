//! Which commit was the newest, and how the directory was left: noted beside the journal, because
//! damage to its last group looks like a write that was under way.
//!
//! ```text
//! callboard-mark   two slots of 512 bytes: [number of the newest group u64][crc32 of it u32]
//! callboard-state  [boot id] while a process has the directory; [closed <length of db>] afterwards
//! ```
//!
//! A mark is written after its group became durable and before anybody is told, without a sync of its
//! own: after a crash of the process it has all that was answered, after a power cut it may be behind,
//! and it is never ahead. The slots take turns, each in a sector of its own.
//!
//! Deliberately absent: where the numbers come from (see `journal.rs`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Error;
use crate::directory::{corrupt, failed, retry};

pub(crate) const MARK: &str = "callboard-mark";
const STATE: &str = "callboard-state";
const SLOT: usize = 512;
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// How a directory was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// In order, with `db` of this length.
    Closed(u64),
    /// The process died, and the machine went on: all that was written is there.
    Killed,
    /// The machine may have lost power, or the directory is of an older program.
    Unknown,
}

/// How `directory` was left.
pub(crate) fn left(directory: &Path) -> Result<Left, Error> {
    let state = match fs::read(directory.join(STATE)) {
        Ok(state) => String::from_utf8_lossy(&state).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Left::Unknown),
        Err(error) => return Err(failed(&error)),
    };
    if let Some(length) = state.strip_prefix("closed ") {
        return Ok(length.trim().parse().map_or(Left::Unknown, Left::Closed));
    }
    Ok(if !state.is_empty() && Some(state) == boot() { Left::Killed } else { Left::Unknown })
}

/// Notes durably that a process has the directory; `whole` if all that was written before is there.
pub(crate) fn taken(directory: &Path, whole: bool) -> io::Result<()> {
    write_state(directory, &boot().filter(|_| whole).unwrap_or_default())
}

/// Notes durably that the directory is left in order.
pub(crate) fn closed(directory: &Path) -> io::Result<()> {
    File::open(directory.join(MARK))?.sync_all()?;
    let db = File::open(directory.join("db"))?;
    // A thread of sled's may still cut the file; it holds the lock as long.
    retry(|| db.try_lock().is_ok().then_some(())).ok_or(io::ErrorKind::WouldBlock)?;
    db.sync_all()?;
    write_state(directory, &format!("closed {}\n", db.metadata()?.len()))
}

fn write_state(directory: &Path, state: &str) -> io::Result<()> {
    let new = directory.join("callboard-state.new");
    fs::write(&new, state)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, directory.join(STATE))?;
    File::open(directory)?.sync_all()
}

/// Another one after every start of the machine.
fn boot() -> Option<String> {
    fs::read_to_string(BOOT).ok().filter(|id| !id.trim().is_empty())
}

/// The number of the newest commit that was noted; `None` if there is no mark.
pub(crate) fn read(directory: &Path) -> Result<Option<u64>, Error> {
    let bytes = match fs::read(directory.join(MARK)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    let slot = |at: usize| {
        let (number, rest) = bytes.get(at..)?.split_first_chunk::<8>()?;
        let crc = u32::from_le_bytes(*rest.first_chunk::<4>()?);
        (crc == crc32fast::hash(number)).then(|| u64::from_le_bytes(*number))
    };
    let newest = slot(0).max(slot(SLOT));
    newest.map(Some).ok_or_else(|| corrupt(directory, &format!("{MARK} is damaged")))
}

/// Where marks are written.
#[derive(Debug)]
pub(crate) struct Mark(File);

impl Mark {
    /// The mark of `directory`, made if it is not there; durable with the directory's next sync.
    pub(crate) fn open(directory: &Path, number: u64) -> io::Result<Self> {
        let path = directory.join(MARK);
        if !path.exists() {
            let new = directory.join("callboard-mark.new");
            let mark = Self(File::create(&new)?);
            mark.0.set_len(2 * SLOT as u64)?;
            mark.write(number)?;
            mark.0.sync_all()?;
            fs::rename(new, &path)?;
        }
        OpenOptions::new().write(true).open(path).map(Self)
    }

    /// Notes that the commit `number` is durable.
    pub(crate) fn write(&self, number: u64) -> io::Result<()> {
        let number_bytes = number.to_le_bytes();
        let mut slot = [0; 12];
        slot[..8].copy_from_slice(&number_bytes);
        slot[8..].copy_from_slice(&crc32fast::hash(&number_bytes).to_le_bytes());
        self.0.write_all_at(&slot, (number % 2) * SLOT as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_mark_counts_and_one_slot_may_break() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), None);
        let mark = Mark::open(directory.path(), 0).unwrap();
        assert_eq!(read(directory.path()).unwrap(), Some(0));
        mark.write(1).unwrap();
        mark.write(2).unwrap();
        assert_eq!(read(directory.path()).unwrap(), Some(2));
        mark.0.write_all_at(&[0xff], 3).unwrap();
        assert_eq!(read(directory.path()).unwrap(), Some(1));
        mark.0.write_all_at(&[0xff], 512 + 3).unwrap();
        assert!(read(directory.path()).is_err());
    }

    #[test]
    fn a_directory_says_how_it_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(left(path).unwrap(), Left::Unknown);
        Mark::open(path, 0).unwrap();
        fs::write(path.join("db"), "four").unwrap();
        taken(path, true).unwrap();
        assert_eq!(left(path).unwrap(), Left::Killed);
        fs::write(path.join(STATE), "another boot").unwrap();
        assert_eq!(left(path).unwrap(), Left::Unknown);
        closed(path).unwrap();
        assert_eq!(left(path).unwrap(), Left::Closed(4));
    }
}
