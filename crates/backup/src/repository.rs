//! The repository: chunks and manifests in a directory.
//!
//! ```text
//! callboard-backups       the format
//! chunks/ab/abcd…         a chunk, named by its SHA-256
//! backups/ID.json         a manifest, and its SHA-256 in a second line
//! ```
//!
//! Files are written beside their place, synced and renamed; a manifest comes last. A run that fails removes its
//! chunks. One that is killed leaves chunks that no manifest names; [`Repository::prune`] removes them. The marker of the format is the
//! first file: a run that is killed before leaves an empty directory, or one with an unfinished marker.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::manifest::{Chunk, FORMAT, Manifest};
use crate::{Error, Keep, failed};

const MARKER: &str = "callboard-backups";
/// A file that is being written.
const NEW: &str = "new";
/// The beginnings of the names of directories in which a restore is tried.
const TRIAL: &str = ".trial-";

/// An open repository, locked for this process.
#[derive(Debug)]
pub struct Repository {
    path: PathBuf,
    _lock: File,
}

/// The way in which a chunk came to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// An earlier backup has it.
    Known,
    /// An earlier backup has it, and it was damaged.
    Mended,
    /// No backup has it.
    Added,
}

/// The result of a pruning.
#[derive(Debug, Clone, PartialEq)]
pub struct Pruned {
    /// The removed backups.
    pub backups: Vec<Manifest>,
    /// The number of removed chunks.
    pub chunks: usize,
    /// The bytes of the removed chunks.
    pub bytes: u64,
}

impl Repository {
    /// Makes a repository of the directory at `path`, which is empty or missing, and opens it. One that is there stays
    /// as it is.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be made or is not empty, or if another process uses the repository.
    pub fn init(path: &Path) -> Result<Self, Error> {
        if !path.join(MARKER).exists() {
            make_directory(path)?;
            if !is_empty(path).map_err(failed(path))? {
                let text = format!("{}, and the directory is not empty", none_at(path));
                return Err(Error::Io(text));
            }
        }
        Self::enter(path)
    }

    /// Opens the repository at `path`. None is made: the directory may be the one below a disk that is not mounted.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no repository, [`Error::Io`] if another process uses it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if !path.join(MARKER).exists() {
            let text = format!(
                "{}: mount its disk, or make a new repository with callboard backup init --in {}",
                none_at(path),
                path.display()
            );
            return Err(Error::NotFound(text));
        }
        Self::enter(path)
    }

    fn enter(path: &Path) -> Result<Self, Error> {
        let marker = path.join(MARKER);
        let directory = File::open(path).map_err(failed(path))?;
        if directory.try_lock().is_err() {
            let text = format!("{} is in use by another process; wait for its end", path.display());
            return Err(Error::Io(text));
        }
        let repository = Self { path: path.into(), _lock: directory };
        if !marker.exists() {
            repository.write(&marker, marked().as_bytes())?;
            path.canonicalize().and_then(|path| sync_ancestors(&path)).map_err(failed(path))?;
        }
        for name in ["chunks", "backups"] {
            make_directory(&path.join(name))?;
        }
        let format = fs::read_to_string(&marker).map_err(failed(&marker))?;
        if format.trim().parse::<u32>().is_ok_and(|format| format > FORMAT) {
            let text = format!("{} is of a newer program", path.display());
            return Err(Error::Damaged(text));
        }
        Ok(repository)
    }

    /// Every backup, the oldest first.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a manifest is damaged.
    pub fn list(&self) -> Result<Vec<Manifest>, Error> {
        self.ids()?.iter().map(|id| self.manifest(id)).collect()
    }

    /// The backup with this id; without an id the newest.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such backup, [`Error::Damaged`] if its manifest is
    /// damaged.
    pub fn find(&self, id: Option<&str>) -> Result<Manifest, Error> {
        let ids = self.ids()?;
        let found = match id {
            Some(id) => ids.iter().find(|known| known.as_str() == id),
            None => ids.last(),
        };
        let none = || match id {
            Some(id) => format!("no backup {id} in {}", self.path.display()),
            None => format!("no backup in {}", self.path.display()),
        };
        self.manifest(found.ok_or_else(|| Error::NotFound(none()))?)
    }

    /// Reads every chunk of a backup and compares it with its checksum.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the first chunk that is damaged or missing.
    pub fn verify(&self, manifest: &Manifest) -> Result<(), Error> {
        manifest.all_chunks().try_for_each(|chunk| self.chunk(chunk).map(drop))
    }

    /// Removes the backups that `keep` does not keep, and chunks that no backup names.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a manifest is damaged; then nothing is removed.
    pub fn prune(&self, keep: Keep) -> Result<Pruned, Error> {
        let all = self.list()?;
        let ids: Vec<_> = all.iter().map(|manifest| manifest.id.as_str()).collect();
        let ids = keep.kept(&ids);
        let (kept, all): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|manifest| ids.contains(&manifest.id));
        for manifest in &all {
            let path = self.place(&manifest.id);
            fs::remove_file(&path).map_err(failed(&path))?;
        }
        sync(&self.path.join("backups"))?;
        let named: BTreeSet<&str> =
            kept.iter().flat_map(Manifest::all_chunks).map(|chunk| chunk.sha256.as_str()).collect();
        let mut pruned = Pruned { backups: all, chunks: 0, bytes: 0 };
        let chunks = self.path.join("chunks");
        for folder in fs::read_dir(&chunks).map_err(failed(&chunks))? {
            let folder = folder.map_err(failed(&chunks))?.path();
            for file in fs::read_dir(&folder).map_err(failed(&folder))? {
                let file = file.map_err(failed(&folder))?;
                if !file.file_name().to_str().is_some_and(|name| named.contains(name)) {
                    let path = file.path();
                    pruned.bytes += file.metadata().map_err(failed(&path))?.len();
                    pruned.chunks += 1;
                    fs::remove_file(&path).map_err(failed(&path))?;
                }
            }
        }
        Ok(pruned)
    }

    /// A directory in the repository for a trial; none is left of an earlier one that was killed.
    pub(crate) fn trial(&self) -> Result<PathBuf, Error> {
        for entry in fs::read_dir(&self.path).map_err(failed(&self.path))? {
            let entry = entry.map_err(failed(&self.path))?;
            if entry.file_name().to_string_lossy().starts_with(TRIAL) {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(failed(&path))?;
            }
        }
        Ok(self.path.join(format!("{TRIAL}{}", std::process::id())))
    }

    /// The bytes of a chunk, checked.
    pub(crate) fn chunk(&self, chunk: &Chunk) -> Result<Bytes, Error> {
        let path = self.path_of(&chunk.sha256)?;
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::Damaged(format!("{} is missing", path.display())));
            }
            bytes => bytes.map_err(failed(&path))?,
        };
        if digest(&bytes) != chunk.sha256 {
            return Err(Error::Damaged(format!("{} is damaged", path.display())));
        }
        Ok(bytes.into())
    }

    /// Keeps a chunk.
    pub(crate) fn keep(&self, bytes: &[u8]) -> Result<(Chunk, Kept), Error> {
        let sha256 = digest(bytes);
        let path = self.path_of(&sha256)?;
        let chunk = Chunk { sha256, bytes: bytes.len() as u64 };
        // A chunk that was damaged since is written again.
        if fs::read(&path).is_ok_and(|kept| kept == bytes) {
            return Ok((chunk, Kept::Known));
        }
        let kept = if path.exists() { Kept::Mended } else { Kept::Added };
        if let Some(folder) = path.parent() {
            make_directory(folder)?;
        }
        self.write(&path, bytes)?;
        Ok((chunk, kept))
    }

    /// Removes the backup `id` and the chunks that came with it: the backup failed. What cannot be removed is left to
    /// [`Repository::prune`].
    pub(crate) fn discard(&self, id: &str, added: &[Chunk]) {
        let _ = fs::remove_file(self.place(id));
        let _ = fs::remove_file(self.path.join(NEW));
        for path in added.iter().filter_map(|chunk| self.path_of(&chunk.sha256).ok()) {
            let _ = fs::remove_file(path);
        }
    }

    /// Adds a backup, all of whose chunks are kept.
    pub(crate) fn add(&self, manifest: &Manifest) -> Result<(), Error> {
        sync(&self.path.join("chunks"))?;
        sync(&self.path)?;
        let json = serde_json::to_string(manifest).expect("a manifest is JSON");
        let text = format!("{json}\n{}\n", digest(json.as_bytes()));
        self.write(&self.place(&manifest.id), text.as_bytes())
    }

    /// True if there is a backup with this id.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.place(id).exists()
    }

    fn ids(&self) -> Result<BTreeSet<String>, Error> {
        let path = self.path.join("backups");
        let mut ids = BTreeSet::new();
        for file in fs::read_dir(&path).map_err(failed(&path))? {
            let name = file.map_err(failed(&path))?.file_name().to_string_lossy().into_owned();
            ids.extend(name.strip_suffix(".json").map(str::to_owned));
        }
        Ok(ids)
    }

    fn manifest(&self, id: &str) -> Result<Manifest, Error> {
        let path = self.place(id);
        let text = fs::read_to_string(&path).map_err(failed(&path))?;
        let damaged = || Error::Damaged(format!("{} is damaged", path.display()));
        let (json, sha256) = text.trim_end().split_once('\n').ok_or_else(damaged)?;
        if digest(json.as_bytes()) != sha256 {
            return Err(damaged());
        }
        serde_json::from_str(json).map_err(|_| damaged())
    }

    fn place(&self, id: &str) -> PathBuf {
        self.path.join("backups").join(format!("{id}.json"))
    }

    fn path_of(&self, sha256: &str) -> Result<PathBuf, Error> {
        let folder =
            sha256.get(..2).filter(|_| sha256.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let folder = folder.ok_or_else(|| Error::Damaged(format!("{sha256:?} names no chunk")))?;
        Ok(self.path.join("chunks").join(folder).join(sha256))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let new = self.path.join(NEW);
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, path)?;
            path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
        };
        write().map_err(failed(path))
    }
}

fn none_at(path: &Path) -> String {
    format!("there is no repository of backups at {}", path.display())
}

/// The contents of the marker.
fn marked() -> String {
    format!("{FORMAT}\n")
}

/// True if a directory has nothing, or nothing but the marker that a killed run has begun.
fn is_empty(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_begun = entry.file_name() == NEW
            && entry.file_type()?.is_file()
            && marked().as_bytes().starts_with(&fs::read(entry.path())?);
        if !is_begun {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes the names of a directory and of those above it durable.
fn sync_ancestors(path: &Path) -> io::Result<()> {
    path.ancestors().skip(1).try_for_each(|above| match File::open(above) {
        // Somebody else made it.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        directory => directory?.sync_all(),
    })
}

fn make_directory(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))
}

fn sync(directory: &Path) -> Result<(), Error> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(failed(directory))
}

fn digest(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes it");
        text
    })
}
