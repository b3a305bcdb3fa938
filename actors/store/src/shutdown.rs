//! The state in which the last process left the data directory.
//!
//! ```text
//! callboard-state  [boot id] while a process has the directory; [closed <length of db>] afterwards
//! ```

use std::fs::{self, File};
use std::io;
use std::path::Path;

use crate::Error;
use crate::directory::{io_error, replace, retry};
use crate::mark;

const FILE: &str = "callboard-state";
/// Linux makes another one at each start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The last shutdown of a directory's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shutdown {
    /// Closed, with `db` of this length.
    Clean(u64),
    /// The process died, and the machine went on: all that was written is there.
    Killed,
    /// The machine may have lost power, or the directory is of an older program.
    Unknown,
}

pub(crate) fn last(directory: &Path) -> Result<Shutdown, Error> {
    let state = match fs::read(directory.join(FILE)) {
        Ok(state) => String::from_utf8_lossy(&state).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Shutdown::Unknown),
        Err(error) => return Err(io_error(&error)),
    };
    if let Some(length) = state.strip_prefix("closed ") {
        return Ok(length.trim().parse().map_or(Shutdown::Unknown, Shutdown::Clean));
    }
    let killed = !state.is_empty() && Some(state) == boot_id();
    Ok(if killed { Shutdown::Killed } else { Shutdown::Unknown })
}

/// Notes durably that a process has the directory. `intact`: all that was written before is there.
pub(crate) fn mark_open(directory: &Path, intact: bool) -> io::Result<()> {
    replace(directory, FILE, &boot_id().filter(|_| intact).unwrap_or_default())
}

/// Notes durably that the directory is closed.
pub(crate) fn mark_clean(directory: &Path) -> io::Result<()> {
    File::open(directory.join(mark::FILE))?.sync_all()?;
    let db = File::open(directory.join("db"))?;
    // A thread of sled's may still truncate the file; it holds the lock as long.
    retry(|| db.try_lock().is_ok().then_some(())).ok_or(io::ErrorKind::WouldBlock)?;
    db.sync_all()?;
    replace(directory, FILE, &format!("closed {}\n", db.metadata()?.len()))
}

fn boot_id() -> Option<String> {
    fs::read_to_string(BOOT_ID).ok().filter(|id| !id.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_says_how_it_was_left() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(last(path).unwrap(), Shutdown::Unknown);
        mark::Mark::open(path, 0).unwrap();
        fs::write(path.join("db"), "four").unwrap();
        mark_open(path, true).unwrap();
        assert_eq!(last(path).unwrap(), Shutdown::Killed);
        fs::write(path.join(FILE), "another boot").unwrap();
        assert_eq!(last(path).unwrap(), Shutdown::Unknown);
        mark_clean(path).unwrap();
        assert_eq!(last(path).unwrap(), Shutdown::Clean(4));
    }
}
