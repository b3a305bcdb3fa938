//! The mark: the number of the newest commit, in a file beside the journal. Damage to the journal's last
//! group looks like a write that a power cut tore; the mark distinguishes the two.
//!
//! ```text
//! callboard-mark   two slots of 512 bytes: [number of the newest group u64][crc32 of it u32]
//! ```
//!
//! The mark is written after its group became durable and before the commit is acknowledged, without a
//! sync of its own. After a crash of the process it counts every acknowledged commit; after a power cut it
//! may be behind; it is never ahead. The slots take turns, each in a sector of its own.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Error;
use crate::directory::{corrupt, io_error};

pub(crate) const FILE: &str = "callboard-mark";
const SLOT: usize = 512;

/// The number of the newest commit that was marked; `None` without a mark.
pub(crate) fn read(directory: &Path) -> Result<Option<u64>, Error> {
    let bytes = match fs::read(directory.join(FILE)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(&error)),
    };
    let slot = |at: usize| {
        let (number, rest) = bytes.get(at..)?.split_first_chunk::<8>()?;
        let crc = u32::from_le_bytes(*rest.first_chunk::<4>()?);
        (crc == crc32fast::hash(number)).then(|| u64::from_le_bytes(*number))
    };
    let newest = slot(0).max(slot(SLOT));
    newest.map(Some).ok_or_else(|| corrupt(directory, &format!("its file {FILE} is damaged")))
}

/// The open file.
#[derive(Debug)]
pub(crate) struct Mark(File);

impl Mark {
    /// Opens the mark of `directory`, or makes one; durable with the directory's next sync.
    pub(crate) fn open(directory: &Path, number: u64) -> io::Result<Self> {
        let path = directory.join(FILE);
        if !path.exists() {
            let new = directory.join("callboard-mark.new");
            let mark = Self(File::create(&new)?);
            mark.0.set_len(2 * SLOT as u64)?;
            mark.write(number)?;
            mark.0.sync_all()?;
            fs::rename(new, &path)?;
        }
        OpenOptions::new().write(true).open(path).map(Self)
    }

    /// Marks the commit `number` as durable.
    pub(crate) fn write(&self, number: u64) -> io::Result<()> {
        let number_bytes = number.to_le_bytes();
        let mut slot = [0; 12];
        slot[..8].copy_from_slice(&number_bytes);
        slot[8..].copy_from_slice(&crc32fast::hash(&number_bytes).to_le_bytes());
        self.0.write_all_at(&slot, (number % 2) * SLOT as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_mark_counts_and_one_slot_may_break() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(directory.path()).unwrap(), None);
        let mark = Mark::open(directory.path(), 0).unwrap();
        assert_eq!(read(directory.path()).unwrap(), Some(0));
        mark.write(1).unwrap();
        mark.write(2).unwrap();
        assert_eq!(read(directory.path()).unwrap(), Some(2));
        mark.0.write_all_at(&[0xff], 3).unwrap();
        assert_eq!(read(directory.path()).unwrap(), Some(1));
        mark.0.write_all_at(&[0xff], 512 + 3).unwrap();
        assert!(read(directory.path()).is_err());
    }
}
