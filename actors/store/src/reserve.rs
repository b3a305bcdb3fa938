//! The reserve: a file that only takes room on the disk, so that a full disk has some to give back.
//!
//! ```text
//!   whole ── the disk is full at run time ──▶ half ── at a start, or for a compaction ──▶ none
//!     ▲                                         │                                          │
//!     └──────────── the disk has room ──────────┴──────────────────────────────────────────┘
//! ```
//!
//! Deliberately absent: the decision when (`src/http/pressure.rs`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

const FILE: &str = "reserve";

/// The reserve of a data directory.
#[derive(Debug, Clone)]
pub struct Reserve {
    directory: PathBuf,
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    /// A reserve of so many bytes; nothing is on the disk before [`Self::fill`].
    #[must_use]
    pub fn new(data_dir: &Path, bytes: u64) -> Self {
        Self { directory: data_dir.to_owned(), path: data_dir.join(FILE), bytes }
    }

    /// The bytes of a whole reserve.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes of the disk that this process may still take.
    ///
    /// # Errors
    /// The directory is not there.
    pub fn free(&self) -> io::Result<u64> {
        let disk = statvfs(&self.directory)?;
        Ok(disk.f_bavail * disk.f_frsize)
    }

    /// The bytes that it takes now.
    #[must_use]
    pub fn held(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }

    /// Makes it whole.
    ///
    /// # Errors
    /// The disk has no room, or its file system reserves none.
    pub fn fill(&self) -> io::Result<()> {
        if self.bytes == 0 {
            return self.keep(0);
        }
        if self.held() == self.bytes {
            return Ok(());
        }
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let filled = options
            .open(&self.path)
            .and_then(|file| Ok(fallocate(&file, FallocateFlags::empty(), 0, self.bytes)?));
        if filled.is_err() {
            let _ = self.keep(0);
        }
        filled
    }

    /// Gives all but `bytes` of it back to the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub fn keep(&self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            };
        }
        File::options().write(true).open(&self.path)?.set_len(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_reserve_takes_room_and_gives_it_back() {
        let directory = tempfile::tempdir().expect("a directory");
        let reserve = Reserve::new(directory.path(), 1 << 20);
        assert_eq!(reserve.held(), 0);
        reserve.keep(0).expect("there is nothing to give back");
        reserve.fill().expect("the disk has room");
        let blocks = || fs::metadata(&reserve.path).map_or(0, |file| file.blocks() * 512);
        assert_eq!((reserve.held(), blocks() >= 1 << 20), (1 << 20, true));
        reserve.keep(1 << 19).expect("it is there");
        assert_eq!((reserve.held(), blocks() <= 1 << 19), (1 << 19, true));
        reserve.fill().expect("the disk has room");
        assert_eq!(reserve.held(), 1 << 20);
        reserve.keep(0).expect("it is there");
        assert_eq!((reserve.held(), reserve.path.exists()), (0, false));
    }
}
