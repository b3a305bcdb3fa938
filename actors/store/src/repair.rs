//! What a power cut can leave in a data directory that sled 0.34.7 then refuses to open.
//!
//! sled writes three kinds of small files without care: `conf` is never synced, a snapshot is
//! renamed without a sync of its directory, and a snapshot in the making is taken for a finished
//! one. All three can be made again from `db`, which is synced in every round before the journal lets
//! go of its rows (`sled/settle.rs`), so a broken one is removed. The layouts, from sled's
//! `config.rs` and `snapshot.rs`:
//!
//! ```text
//! conf                    [parameters …][crc32 of them u32]            more than 8 bytes
//! snap.<lsn, 16 hex>      [pages …][length u64][crc32 of pages u32]    more than 12 bytes
//! snap.<lsn>.generating   the same, before its rename
//! ```
//!
//! Deliberately absent: any change to `db` or to what is in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};

/// Removes the broken and the half-made files of `directory`, and then makes what is left durable:
/// after a mere crash of the process `db` may be in memory only, while the snapshot that sled
/// writes next, and syncs, already counts on it.
pub(crate) fn repair(directory: &Path) -> io::Result<()> {
    let conf = directory.join("conf");
    if conf.exists() && !is_whole(&conf, 8, 4)? {
        remove(&conf)?;
    }
    let mut good = Vec::new();
    for path in snapshots(directory)? {
        if is_whole(&path, 12, 12)? {
            good.push(path);
        } else {
            remove(&path)?;
        }
    }
    let (half_made, finished): (Vec<_>, Vec<_>) =
        good.into_iter().partition(|path| path.extension().is_some_and(|end| end == "generating"));
    if !finished.is_empty() {
        half_made.iter().try_for_each(|path| remove(path))?;
    }
    sync_files(directory)
}

/// The first file in `blobs/`: sled puts values there that it never syncs.
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
    for file in fs::read_dir(directory)? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::File::open(file.path())?.sync_all()?;
        }
    }
    fs::File::open(directory)?.sync_all()
}

/// Has what is read next of the files in `directory` come from the disk, after what is not there yet was
/// written. After a sync that failed, Linux shows what it could not write as if it stood there, and says
/// of the next sync that it succeeded (fsync(2); lwn.net/Articles/752063): who starts again would count on
/// what a power cut then takes.
pub(crate) fn read_anew(directory: &Path) -> io::Result<()> {
    sync_files(directory)?;
    for file in fs::read_dir(directory)? {
        let file = file?;
        if file.file_type()?.is_file() {
            fadvise(fs::File::open(file.path())?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn snapshots(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for file in fs::read_dir(directory)? {
        let file = file?;
        if file.file_name().to_string_lossy().starts_with("snap.") {
            found.push(file.path());
        }
    }
    Ok(found)
}

/// Whether a file is longer than `shortest` and ends in the CRC of all but its last `trailer` bytes.
fn is_whole(path: &Path, shortest: usize, trailer: usize) -> io::Result<bool> {
    let bytes = fs::read(path)?;
    let Some((_, crc)) = bytes.split_last_chunk::<4>().filter(|_| bytes.len() > shortest) else {
        return Ok(false);
    };
    Ok(crc32fast::hash(&bytes[..bytes.len() - trailer]) == u32::from_le_bytes(*crc))
}

fn remove(path: &Path) -> io::Result<()> {
    tracing::warn!(file = %path.display(), "removing a file that a power cut left half-written; it is made again");
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
