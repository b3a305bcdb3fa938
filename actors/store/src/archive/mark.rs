//! The mark of an archive: a file that tells the archive from the empty directory below a disk that is not mounted.

use std::fs;
use std::io;
use std::path::Path;

use super::{SUFFIX, create};
use crate::Error;
use crate::directory::{io_error, replace};
use crate::sled::random;

const FILE: &str = "callboard-archive";

/// Makes an archive in `directory`, which is made if it is missing. An archive that is there stays as it is.
///
/// Returns true if the archive is new.
///
/// # Errors
/// [`Error::Io`] if the directory cannot be made or written, or holds files that are no archive's.
pub fn init_archive(directory: &Path) -> Result<bool, Error> {
    let init = || -> io::Result<bool> {
        create(directory)?;
        if read(directory)?.is_some() {
            return Ok(false);
        }
        if !has_segments(directory)? && fs::read_dir(directory)?.any(is_foreign) {
            return Err(io::Error::other(
                "it is not empty, and holds no archive; name another directory",
            ));
        }
        write(directory).map(|_| true)
    };
    init().map_err(|error| {
        let error = io_error(&error);
        Error::Io(format!("the archive {}: {error}", directory.display()).into())
    })
}

/// The identity of the archive in `directory`. Without a mark, a directory with segments of an older program is
/// marked; so is any directory for a store that never had an archive (`known` is `None`).
///
/// # Errors
/// The directory cannot be read, or the archive of this store is not there.
pub(super) fn find(directory: &Path, known: Option<&str>) -> io::Result<String> {
    let is_there = directory.exists();
    if is_there && let Some(id) = read(directory)? {
        return Ok(id);
    }
    if !(is_there && has_segments(directory)?) {
        if known.is_some() {
            return Err(absent());
        }
        create(directory)?;
        tracing::info!(directory = %directory.display(), "a new archive of the journal was made");
    }
    write(directory)
}

/// Passes if `directory` is marked as an archive.
///
/// # Errors
/// It is not, or cannot be read.
pub(super) fn check(directory: &Path) -> io::Result<()> {
    if directory.exists() && read(directory)?.is_some() { Ok(()) } else { Err(absent()) }
}

fn absent() -> io::Error {
    io::Error::other(
        "its directory is not marked as an archive: mount its disk, or make a new archive with callboard backup \
         init --archive DIRECTORY, and then a backup",
    )
}

fn read(directory: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(directory.join(FILE)) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(directory: &Path) -> io::Result<String> {
    let id = format!("{:016x}", random());
    replace(directory, FILE, &format!("{id}\n"))?;
    Ok(id)
}

fn has_segments(directory: &Path) -> io::Result<bool> {
    let mut names = fs::read_dir(directory)?.filter_map(Result::ok).map(|file| file.file_name());
    Ok(names.any(|name| name.to_string_lossy().ends_with(SUFFIX)))
}

/// True for a file that a new file system does not have.
fn is_foreign(file: io::Result<fs::DirEntry>) -> bool {
    file.is_ok_and(|file| file.file_name() != "lost+found")
}
