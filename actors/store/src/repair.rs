//! Repairs a data directory that sled 0.34.7 would refuse to open after a power cut.
//!
//! sled writes three kinds of small files without care: `conf` is never synced, a snapshot is renamed
//! without a sync of its directory, and an unfinished snapshot is taken for a finished one. sled can make
//! all three again from `db`, which each checkpoint syncs before the journal is overwritten
//! (`sled/checkpoint.rs`); so a broken one is removed. The layouts, from sled's `config.rs` and
//! `snapshot.rs`:
//!
//! ```text
//! conf                    [parameters …][crc32 of them u32]            more than 8 bytes
//! snap.<lsn, 16 hex>      [pages …][length u64][crc32 of pages u32]    more than 12 bytes
//! snap.<lsn>.generating   the same, before its rename
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

/// Removes the broken and the half-made files of `directory`, and syncs the others: after a mere crash of
/// the process `db` may be in memory only, and sled's next snapshot, which it syncs, relies on it.
pub(crate) fn repair(directory: &Path) -> io::Result<()> {
    let conf = directory.join("conf");
    if conf.exists() && !has_valid_crc(&conf, 8, 4)? {
        remove(&conf)?;
    }
    let mut good = Vec::new();
    let is_snapshot = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"snap."))
    };
    for path in files(directory)?.into_iter().filter(is_snapshot) {
        if has_valid_crc(&path, 12, 12)? {
            good.push(path);
        } else {
            remove(&path)?;
        }
    }
    let (generating, finished): (Vec<_>, Vec<_>) =
        good.into_iter().partition(|path| path.extension().is_some_and(|end| end == "generating"));
    if !finished.is_empty() {
        generating.iter().try_for_each(|path| remove(path))?;
    }
    sync_files(directory)
}

/// The first file in `blobs/`, where sled puts large values and never syncs them.
pub(crate) fn first_blob(directory: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read_dir(directory.join("blobs")) {
        Ok(mut files) => files.next().transpose().map(|file| file.map(|file| file.path())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Syncs every file of `directory`, itself and its parent.
pub(crate) fn sync_all(directory: &Path) -> io::Result<()> {
    sync_files(directory)?;
    let blobs = directory.join("blobs");
    if blobs.exists() {
        fs::File::open(blobs)?.sync_all()?;
    }
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn sync_files(directory: &Path) -> io::Result<()> {
    for path in files(directory)? {
        fs::File::open(path)?.sync_all()?;
    }
    fs::File::open(directory)?.sync_all()
}

/// Syncs the files of `directory` and drops them from the page cache, so that they are read from the disk.
/// After a failed sync Linux shows the writes that it lost as if they were there, and the next sync
/// succeeds (fsync(2); lwn.net/Articles/752063): a new process would rely on them until a power cut.
pub(crate) fn drop_page_cache(directory: &Path) -> io::Result<()> {
    sync_files(directory)?;
    for path in files(directory)? {
        fadvise(fs::File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for file in fs::read_dir(directory)? {
        let file = file?;
        if file.file_type()?.is_file() {
            files.push(file.path());
        }
    }
    Ok(files)
}

/// True if a file has more than `shortest` bytes and ends in the CRC of all but its last `trailer` bytes.
fn has_valid_crc(path: &Path, shortest: usize, trailer: usize) -> io::Result<bool> {
    let bytes = fs::read(path)?;
    let Some((_, crc)) = bytes.split_last_chunk::<4>().filter(|_| bytes.len() > shortest) else {
        return Ok(false);
    };
    Ok(crc32fast::hash(&bytes[..bytes.len() - trailer]) == u32::from_le_bytes(*crc))
}

fn remove(path: &Path) -> io::Result<()> {
    tracing::warn!(file = %path.display(), "removing a file that a power cut left half-written; sled makes it again");
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(body: &[u8], between: &[u8]) -> Vec<u8> {
        [body, between, &crc32fast::hash(body).to_le_bytes()].concat()
    }

    fn files(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn whole_files_stay() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("conf"), whole(b"parameters", b"")).unwrap();
        fs::write(directory.path().join("snap.01"), whole(b"pages", &[0; 8])).unwrap();
        repair(directory.path()).unwrap();
        assert_eq!(files(directory.path()), ["conf", "snap.01"]);
    }

    #[test]
    fn broken_and_half_made_files_go() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("conf"), b"parameters and a wrong crc").unwrap();
        fs::write(directory.path().join("snap.01"), whole(b"pages", &[0; 8])).unwrap();
        fs::write(directory.path().join("snap.02"), b"").unwrap();
        fs::write(directory.path().join("snap.02.generating"), whole(b"pages", &[0; 8])).unwrap();
        fs::write(directory.path().join("db"), b"untouched").unwrap();
        repair(directory.path()).unwrap();
        assert_eq!(files(directory.path()), ["db", "snap.01"]);
    }
}
