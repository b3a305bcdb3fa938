//! A restore: a backup, and the groups of an archive behind it, become a new data directory.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use callboard_store::sled::{Piece, Restore, group_ops};
use callboard_store::{ArchiveReader, Error as StoreError};

use crate::manifest::{Manifest, NamedFile};
use crate::repository::Repository;
use crate::{Error, Frames, failed};

/// Memory for the rows of the new store while it is written.
const CACHE: u64 = 64 << 20;

/// The state that was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// The number of the last group that was restored.
    pub group: u64,
    /// The number of groups from the archive.
    pub archived: u64,
    /// The time at which the last group was archived, in milliseconds since 1970.
    pub last_archived: Option<u64>,
}

/// Restores a backup to the data directory `to`, which must not hold a store, and then the groups of the
/// archive, if one is given, up to a moment in milliseconds since 1970.
///
/// # Errors
/// [`Error::Damaged`] if a chunk is damaged or missing, [`Error::Store`] if the archive has a gap before
/// the moment, or if the store cannot be written; [`Error::Io`] if a file cannot be written. The directory
/// then holds neither a store nor a file of the backup.
pub fn restore(
    repository: &Repository,
    manifest: &Manifest,
    to: &Path,
    archive: Option<(&Path, u64)>,
) -> Result<Restored, Error> {
    // A directory with other things in it keeps its mode: what is restored into it has modes of its own.
    if fs::read_dir(to).map_or(true, |mut entries| entries.next().is_none()) {
        callboard_store::create_private(to).map_err(failed(to))?;
    }
    let store = to.join("store");
    let mut restore = Restore::begin(&store, CACHE)?;
    let mut files = Vec::new();
    // The store becomes complete last: until then, an opening of the directory is refused.
    let restored = write(repository, manifest, &mut restore, archive).and_then(|restored| {
        write_files(repository, manifest, to, &mut files)?;
        restore.finish(restored.group)?;
        Ok(restored)
    });
    if restored.is_err() {
        // Another attempt begins with an empty directory, as this one did.
        let _ = fs::remove_dir_all(&store);
        for file in &files {
            let _ = fs::remove_file(file);
        }
        return restored;
    }
    sync(to)?;
    restored
}

/// Writes the files of the data directory, and notes their paths in `written`.
fn write_files(
    repository: &Repository,
    manifest: &Manifest,
    to: &Path,
    written: &mut Vec<PathBuf>,
) -> Result<(), Error> {
    for NamedFile { name, chunk } in &manifest.files {
        // Only the name of the file counts, and no path.
        let name = Path::new(name).file_name().unwrap_or_default();
        let path = to.join(name);
        let bytes = repository.chunk(chunk)?;
        // An attempt that was killed may have left the file.
        if fs::read(&path).is_ok_and(|left| left == bytes) {
            continue;
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.map_err(failed(&path))?;
        written.push(path.clone());
        file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed(&path))?;
    }
    sync(to)
}

fn sync(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(failed(directory))
}

fn write(
    repository: &Repository,
    manifest: &Manifest,
    restore: &mut Restore,
    archive: Option<(&Path, u64)>,
) -> Result<Restored, Error> {
    for chunk in &manifest.chunks {
        restore.write(&repository.chunk(chunk)?)?;
    }
    let mut frames = Frames::default();
    for chunk in &manifest.tail {
        frames.push(&repository.chunk(chunk)?);
        while let Some(piece) = frames.next_piece()? {
            if let Piece::Overlay(ops) | Piece::Group { ops, .. } = piece {
                restore.write(&ops)?;
            }
        }
    }
    let mut restored = Restored { group: manifest.group, archived: 0, last_archived: None };
    if let Some((directory, until)) = archive {
        let archived = ArchiveReader::open(directory, manifest.lineage, manifest.group)?;
        restored.group = archived.read(until, |time, epoch, group| -> Result<(), StoreError> {
            restored.archived += 1;
            restored.last_archived = Some(time);
            restore.raise_epoch(epoch);
            restore.write(&group_ops(group))
        })?;
    }
    Ok(restored)
}

/// Removes the segments of an archive that none of these backups needs, of which the oldest is the first: those
/// before the oldest of each lineage, and those of a lineage without a backup, once a later one is written.
/// Returns the number of removed segments.
///
/// # Errors
/// [`Error::Store`] if the archive cannot be read, or a file cannot be removed.
pub fn prune_archive(archive: &Path, kept: &[Manifest]) -> Result<usize, Error> {
    let mut removed = 0;
    let mut lineages = Vec::new();
    for manifest in kept {
        if !lineages.contains(&manifest.lineage) {
            lineages.push(manifest.lineage);
            removed += callboard_store::prune_archive(archive, manifest.lineage, manifest.group)?;
        }
    }
    Ok(removed + callboard_store::prune_lineages(archive, &lineages)?)
}

impl Manifest {
    /// Restores the backup to a temporary directory in the repository, opens the store there and reads
    /// its index. Removes the directory again.
    ///
    /// # Errors
    /// Those of [`restore`], and [`Error::Store`] if the store does not open.
    pub fn try_restore(&self, repository: &Repository) -> Result<(), Error> {
        use callboard_store::sled::{SledOptions, SledStore};
        let trial = repository.trial()?;
        let tried = restore(repository, self, &trial, None).and_then(|_| {
            let options = SledOptions::new(trial.join("store"), CACHE, Box::new(|_| ()));
            SledStore::open(options).map(drop).map_err(Error::from)
        });
        let removed = fs::remove_dir_all(&trial).map_err(failed(&trial));
        tried.and(removed)
    }
}
