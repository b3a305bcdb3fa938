//! The data directory: its lock, its format, and the errors about it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::version::Written;
use crate::{Error, version};

/// Makes a directory that only its owner may enter; one that is there is closed to others.
///
/// # Errors
/// The directory cannot be made, or is not the owner's to change.
pub fn create_private(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7700))?;
    }
    Ok(())
}

/// The format that is written. A greater one is a newer program's; before 4 the store did not say which program
/// wrote its rows, and before 3 nothing was compressed.
pub(crate) const FORMAT: u32 = 4;
/// The first format with a journal.
pub(crate) const WITH_JOURNAL: u32 = 2;
pub(crate) const FORMAT_FILE: &str = "callboard-format";
/// The content of the format's file in a directory whose restore is not complete.
const RESTORING: &str = "restoring";

/// Locks the directory for this process. A store that was just closed keeps the lock for a moment.
pub(crate) fn lock(path: &Path) -> Result<File, Error> {
    let take = || -> io::Result<Option<File>> {
        let directory = File::open(path)?;
        match directory.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // A compaction puts another directory in its place.
        let (locked, there) = (directory.metadata()?, fs::metadata(path)?);
        let same = (locked.dev(), locked.ino()) == (there.dev(), there.ino());
        Ok(same.then_some(directory))
    };
    retry(|| take().map_err(|error| io_error(&error)).transpose())
        .unwrap_or_else(|| Err(locked(path)))
}

/// A store as its files say, without an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspected {
    /// The version of its rows, and the first program that wrote it; 0 and no program for programs that noted none.
    pub written: Written,
    /// The bytes of its files.
    pub bytes: u64,
    /// True if the next opening changes its format, from then on unreadable to programs of before.
    pub is_changed_by_opening: bool,
}

/// Looks at the store in the directory `path`, which may be in use; changes nothing. `None` if there is none.
///
/// # Errors
/// Those of an opening that the files foretell, [`Error::Newer`] among them.
pub fn inspect(path: &Path) -> Result<Option<Inspected>, Error> {
    if !path.join("db").exists() {
        return Ok(None);
    }
    version::check_file(path)?;
    let format = read_format(path)?;
    let unknown = || Written { rows: 0, program: String::new() };
    let written = version::read(path)?.unwrap_or_else(unknown);
    let files = fs::read_dir(path).map_err(|error| io_error(&error))?;
    let bytes = files.filter_map(|file| Some(file.ok()?.metadata().ok()?.len())).sum();
    let is_changed_by_opening = format != Some(FORMAT) || written.rows < version::ROWS;
    Ok(Some(Inspected { written, bytes, is_changed_by_opening }))
}

/// Calls `attempt` for a second, until it returns a value.
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let value = attempt();
        if value.is_some() || Instant::now() > deadline {
            return value;
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
        Err(error) => return Err(io_error(&error)),
    };
    if text.trim() == RESTORING {
        let reason = "its restore was not completed; remove it, and restore the backup again";
        return Err(corrupt(path, reason));
    }
    let mut words = text.split_whitespace();
    match words.next().unwrap_or_default().parse() {
        Ok(format) if format <= FORMAT => Ok(Some(format)),
        // A newer program names itself behind its format.
        Ok(format) => {
            if let Some(program) = words.next() {
                return Err(version::newer(&place(path), Some(program)));
            }
            let reason = format!(
                "its file {FORMAT_FILE} says {format}, and {FORMAT} is the last that this program knows: a newer one \
                 wrote it, or it is damaged"
            );
            Err(corrupt(path, &reason))
        }
        Err(_) => Err(corrupt(path, &format!("its file {FORMAT_FILE} holds no number"))),
    }
}

/// Notes the format, last of all: a directory with a format was complete once.
pub(crate) fn write_format(path: &Path) -> io::Result<()> {
    replace(path, FORMAT_FILE, &format!("{FORMAT}\n"))
}

/// Notes durably that a restore into the directory has begun; [`write_format`] takes its place.
pub(crate) fn mark_restored(path: &Path) -> io::Result<()> {
    replace(path, FORMAT_FILE, &format!("{RESTORING}\n"))
}

/// Replaces the file `name` in `directory`, durably and in one step.
pub(crate) fn replace(directory: &Path, name: &str, contents: &str) -> io::Result<()> {
    let new = directory.join(format!("{name}.new"));
    fs::write(&new, contents)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// The directory in an error's text.
pub(crate) fn place(path: &Path) -> String {
    format!("the data directory {}", path.display())
}

/// True if another process has the store in the directory `path`.
///
/// # Errors
/// The directory cannot be opened.
pub fn is_in_use(path: &Path) -> io::Result<bool> {
    match File::open(path)?.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

pub(crate) fn locked(path: &Path) -> Error {
    Error::Locked(path.display().to_string())
}

pub(crate) fn corrupt(path: &Path, reason: &str) -> Error {
    Error::Corrupt { path: path.display().to_string(), reason: reason.into() }
}

pub(crate) fn io_error(error: &io::Error) -> Error {
    Error::Io(format!("{error}{}", advice(error)).into())
}

/// Advice about a disk that failed in this way, to be appended to the error; may be empty.
#[must_use]
pub fn advice(error: &io::Error) -> &'static str {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        "; free some space for the data directory and start again: what was acknowledged is kept"
    } else {
        ""
    }
}
