//! The data directory: who has it, and which format it has.
//!
//! Deliberately absent: what is in it (see `sled.rs`), and its repair (see `repair.rs`).

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// The format of a data directory. Greater ones are a newer program's; before 3 nothing was compressed.
pub(crate) const FORMAT: u32 = 3;
/// The first format with a journal.
pub(crate) const WITH_JOURNAL: u32 = 2;
pub(crate) const FORMAT_FILE: &str = "callboard-format";

/// Takes the directory for this process. A store that was just closed holds on for a moment.
pub(crate) fn lock(path: &Path) -> Result<File, Error> {
    let take = || -> io::Result<Option<File>> {
        let directory = File::open(path)?;
        match directory.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // A compaction puts another one in its place.
        let (locked, there) = (directory.metadata()?, fs::metadata(path)?);
        let same = (locked.dev(), locked.ino()) == (there.dev(), there.ino());
        Ok(same.then_some(directory))
    };
    retry(|| take().map_err(|error| failed(&error)).transpose())
        .unwrap_or_else(|| Err(Error::Locked(path.display().to_string())))
}

/// Asks for a second until there is an answer.
pub(crate) fn retry<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let answer = ask();
        if answer.is_some() || Instant::now() > deadline {
            return answer;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// The format of a directory; `None` before its first opening was complete.
pub(crate) fn read_format(path: &Path) -> Result<Option<u32>, Error> {
    let text = match fs::read_to_string(path.join(FORMAT_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
        Err(error) => return Err(failed(&error)),
    };
    match text.trim().parse() {
        Ok(format) if format <= FORMAT => Ok(Some(format)),
        Ok(format) => {
            let reason = format!(
                "it has format {format}, of a newer program; this one reads up to {FORMAT}"
            );
            Err(corrupt(path, &reason))
        }
        Err(_) => Err(corrupt(path, &format!("{FORMAT_FILE} holds no number"))),
    }
}

/// Written last, so that it says: what is here was complete once.
pub(crate) fn write_format(path: &Path) -> io::Result<()> {
    let new = path.join("callboard-format.new");
    fs::write(&new, format!("{FORMAT}\n"))?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, path.join(FORMAT_FILE))?;
    File::open(path)?.sync_all()
}

/// A directory that this program cannot read.
pub(crate) fn corrupt(path: &Path, reason: &str) -> Error {
    Error::Corrupt { path: path.display().to_string(), reason: reason.into() }
}

/// A disk that failed.
pub(crate) fn failed(error: &io::Error) -> Error {
    Error::Io(format!("{error}{}", advice(error)).into())
}

/// What to do about a disk that failed in this way, to be put behind the error; nothing if the error
/// says it all.
#[must_use]
pub fn advice(error: &io::Error) -> &'static str {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        "; free some space for the data directory and start again: what was acknowledged is kept"
    } else {
        ""
    }
}
