//! The state file of an import or an export, by which the command goes on after it was interrupted.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The state file of a command on `file`, unless another one is given; none for standard input and output.
pub(super) fn path(given: Option<PathBuf>, file: &Path) -> Option<PathBuf> {
    given.or_else(|| {
        let mut name = file.file_name().filter(|_| file.as_os_str() != "-")?.to_owned();
        name.push(".state");
        Some(file.with_file_name(name))
    })
}

/// The state that the file holds, if it is there.
pub(super) fn read<S: DeserializeOwned>(path: &Path) -> Result<Option<S>, Failure> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            Failure::Other(format!(
                "{} is not a state file ({error}): remove it to start over",
                path.display()
            ))
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::Other(format!("{} cannot be read: {error}", path.display()))),
    }
}

/// Replaces the file. After `Ok` it is on the disk, whole.
pub(super) fn write(path: &Path, state: &impl Serialize) -> Result<(), Failure> {
    let written = || {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let mut file = File::create(&beside)?;
        serde_json::to_writer(&mut file, state)?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    written()
        .map_err(|error| Failure::Other(format!("{} cannot be written: {error}", path.display())))
}

/// Removes the file: the work is done.
pub(super) fn remove(path: &Path) -> Result<(), Failure> {
    fs::remove_file(path)
        .map_err(|error| Failure::Other(format!("{} cannot be removed: {error}", path.display())))
}
