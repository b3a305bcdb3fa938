//! The write-ahead journal: rows that are committed and not durable in sled yet.
//!
//! The journal has two files. While a checkpoint writes the groups of one to sled, further groups go to
//! the other; a file is overwritten from its beginning once sled has all of its groups, synced. So a
//! commit costs one write and one sync of a few sectors that the file already has, and sled, which is
//! slow to sync, syncs once a second.
//!
//! ```text
//! file    [group][group] …                each begins at a sector
//! group   [magic u32][length u32][number u64][crc32 u32][op …][zeros to the end of the sector]
//! op      [length of the key u16][length of the value u32, or TOMBSTONE][key][value]
//! ```
//!
//! Integers are little-endian; groups are numbered without gaps, over both files and all openings. The
//! CRC covers the directory's salt, the number and the ops, so that no text of a client passes for a
//! group. A group is written after the one before it was synced. So a valid group behind a broken one,
//! or after a gap, says that acknowledged data is damaged; a broken group at the end is the trace that
//! a power cut leaves.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;

use crate::Error;
use crate::directory::{corrupt, io_error};

#[cfg(test)]
mod tests;

/// The unit that a disk writes whole.
const SECTOR: usize = 512;
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"cbj1");
pub(crate) const HEADER: usize = 4 + 4 + 8 + 4;
/// The value that stands in place of a value's length if the row is deleted.
const TOMBSTONE: u32 = u32::MAX;
/// The growth of a file, in bytes: a write within the file's size leaves the inode alone.
const GROWTH: usize = 1 << 20;

pub(crate) const FILES: [&str; 2] = ["journal.0", "journal.1"];

/// A key and its new value; `None` deletes the row.
pub(crate) type RowChange = (Bytes, Option<Bytes>);

/// The rows of batches that are committed together, in the form that is written.
#[derive(Debug)]
pub(crate) struct Group(Vec<u8>);

impl Default for Group {
    fn default() -> Self {
        Self(vec![0; HEADER])
    }
}

impl Group {
    /// An empty group with the capacity that this one used: the next is about as large.
    pub(crate) fn next(&self) -> Self {
        let mut bytes = Vec::with_capacity(self.0.len().next_multiple_of(SECTOR));
        bytes.resize(HEADER, 0);
        Self(bytes)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        encode_op(key, Some(value), &mut self.0);
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        encode_op(key, None, &mut self.0);
    }

    /// The bytes of group `number`, padded to the end of the sector, and its rows, which are slices of them.
    fn encode(self, number: u64, salt: u64) -> (Bytes, Vec<RowChange>) {
        let mut bytes = self.0;
        let end = bytes.len();
        let length = u32::try_from(end).expect("a group is small");
        let checksum = checksum(salt, number, &bytes[HEADER..]);
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..HEADER].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(end.next_multiple_of(SECTOR), 0);
        let bytes = Bytes::from(bytes);
        let rows = decode(&bytes.slice(..end)).expect("it was just encoded");
        (bytes, rows)
    }
}

fn checksum(salt: u64, number: u64, ops: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&salt.to_le_bytes());
    crc.update(&number.to_le_bytes());
    crc.update(ops);
    crc.finalize()
}

/// The two files, open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    files: [File; 2],
    sizes: [u64; 2],
    /// The file that is written, and the offset of the next group.
    current: usize,
    at: u64,
    /// The number of the next group.
    next: u64,
    salt: u64,
}

/// sled's note of the last checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// The last group whose rows sled has, all synced.
    pub(crate) group: u64,
    /// The beginning of every CRC of this directory.
    pub(crate) salt: u64,
}

impl Journal {
    /// Opens the journal in `directory`, and makes it if `new`. Also returns the groups after the last
    /// checkpoint, in order: they must be in sled before the next group is appended.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a group that was once synced is damaged or missing, [`Error::Io`] if
    /// the disk fails.
    pub(crate) fn open(
        directory: &Path,
        checkpoint: Checkpoint,
        new: bool,
    ) -> Result<(Self, Vec<Bytes>), Error> {
        let mut found = BTreeMap::new();
        let mut last_file = 0;
        let mut sizes = [0; 2];
        let mut open = |at: usize| -> Result<File, Error> {
            let path = directory.join(FILES[at]);
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(new).truncate(false).open(&path);
            let file = file.map_err(|error| {
                if error.kind() == io::ErrorKind::NotFound {
                    corrupt(directory, &format!("its file {} is missing", FILES[at]))
                } else {
                    io_error(&error)
                }
            })?;
            let bytes = Bytes::from(std::fs::read(&path).map_err(|error| io_error(&error))?);
            sizes[at] = bytes.len() as u64;
            for (number, group) in groups(&bytes, checkpoint.salt) {
                if found.last_key_value().is_none_or(|(last, _)| *last < number) {
                    last_file = at;
                }
                found.insert(number, group);
            }
            Ok(file)
        };
        let files = [open(0)?, open(1)?];
        let replayed = found.split_off(&(checkpoint.group + 1));
        let next = replayed.last_key_value().map_or(checkpoint.group, |(last, _)| *last) + 1;
        let missing = (checkpoint.group + 1..next).find(|number| !replayed.contains_key(number));
        if let Some(number) = missing {
            let reason =
                format!("group {number} of its journal is damaged, and a later one is not");
            return Err(corrupt(directory, &reason));
        }
        // The newest groups are not overwritten yet: they replace the end of sled's log, should it be lost.
        let current = if next > 1 { 1 - last_file } else { 0 };
        let journal = Self { files, sizes, current, at: 0, next, salt: checkpoint.salt };
        Ok((journal, replayed.into_values().collect()))
    }

    /// Makes `group` durable. Returns its bytes, without the padding, and its rows.
    pub(crate) fn append(&mut self, group: Group) -> io::Result<(Bytes, Vec<RowChange>)> {
        let length = group.0.len();
        let (bytes, rows) = group.encode(self.next, self.salt);
        let (file, size) = (&self.files[self.current], &mut self.sizes[self.current]);
        let end = self.at + bytes.len() as u64;
        if end > *size {
            let grown = bytes.len().next_multiple_of(GROWTH);
            file.write_all_at(&vec![0; grown], *size)?;
            *size += grown as u64;
        }
        file.write_all_at(&bytes, self.at)?;
        file.sync_data()?;
        self.at = end;
        self.next += 1;
        Ok((bytes.slice(..length), rows))
    }

    /// Switches to the other file, all groups of which are in sled. Returns the number of the last group.
    pub(crate) fn switch(&mut self) -> u64 {
        self.current = 1 - self.current;
        self.at = 0;
        self.last()
    }

    /// The number of the last group.
    pub(crate) const fn last(&self) -> u64 {
        self.next - 1
    }

    /// Identifies the history of this directory. A restored directory begins another.
    pub(crate) fn lineage(&self) -> u32 {
        lineage(self.salt)
    }
}

/// Names a salt without revealing it.
pub(crate) fn lineage(salt: u64) -> u32 {
    crc32fast::hash(&salt.to_le_bytes())
}

/// Makes the files of a journal without groups in `directory`: for a store that has every group of the
/// old journal, whose files hold the bytes of rows that were deleted since. The caller syncs.
pub(crate) fn make_empty(directory: &Path) -> io::Result<()> {
    FILES.iter().try_for_each(|file| std::fs::write(directory.join(file), vec![0; GROWTH]))
}

/// Every valid group in the bytes of a file.
fn groups(file: &Bytes, salt: u64) -> Vec<(u64, Bytes)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < file.len() {
        if let Some((number, group)) = group(&file.slice(at..), salt) {
            at += group.len().next_multiple_of(SECTOR);
            found.push((number, group));
        } else {
            at += SECTOR;
        }
    }
    found
}

/// The number of a valid group.
pub(crate) fn number(group: &Bytes) -> u64 {
    group[8..].first_chunk().map_or(0, |number| u64::from_le_bytes(*number))
}

/// The number and the bytes of the group that `bytes` begin with, without the padding.
pub(crate) fn group(bytes: &Bytes, salt: u64) -> Option<(u64, Bytes)> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (expected, _) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    if u32::from_le_bytes(*magic) != MAGIC || length < HEADER || length > bytes.len() {
        return None;
    }
    let number = u64::from_le_bytes(*number);
    let valid = checksum(salt, number, &bytes[HEADER..length]) == u32::from_le_bytes(*expected);
    valid.then(|| (number, bytes.slice(..length)))
}

/// True if `bytes` begin like a group and end before it does.
pub(crate) fn is_cut(bytes: &[u8]) -> bool {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER>() else { return true };
    let length = header[4..].first_chunk().map_or(0, |length| u32::from_le_bytes(*length));
    header.starts_with(&MAGIC.to_le_bytes())
        && usize::try_from(length).is_ok_and(|length| length > bytes.len())
}

/// The rows of a group; `None` if they cannot be decoded.
pub(crate) fn decode(group: &Bytes) -> Option<Vec<RowChange>> {
    decode_ops(&ops(group))
}

/// The operations of a group, without its header.
#[must_use]
pub fn ops(group: &Bytes) -> Bytes {
    group.slice(HEADER.min(group.len())..)
}

/// The keys of operations, and each operation whole; `None` if they cannot be decoded.
#[must_use]
pub fn split_ops(ops: &Bytes) -> Option<Vec<(Bytes, Bytes)>> {
    let rows = decode_ops(ops)?;
    let mut at = 0;
    let split = rows.into_iter().map(|(key, row)| {
        let from = at;
        at += 2 + 4 + key.len() + row.map_or(0, |row| row.len());
        (key, ops.slice(from..at))
    });
    Some(split.collect())
}

/// Appends the operation that puts a row, or deletes it.
pub(crate) fn encode_op(key: &[u8], value: Option<&[u8]>, to: &mut Vec<u8>) {
    let length = u16::try_from(key.len()).expect("a key is short");
    let size = value.map_or(TOMBSTONE, |value| u32::try_from(value.len()).expect("a row is small"));
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(&size.to_le_bytes());
    to.extend_from_slice(key);
    to.extend_from_slice(value.unwrap_or_default());
}

/// The rows of operations; `None` if they cannot be decoded.
pub(crate) fn decode_ops(group: &Bytes) -> Option<Vec<RowChange>> {
    let mut rows = Vec::new();
    let mut at = 0;
    while at < group.len() {
        let rest = group.get(at..)?;
        let (key, rest) = rest.split_first_chunk()?;
        let (value, _) = rest.split_first_chunk()?;
        let (key, value) = (usize::from(u16::from_le_bytes(*key)), u32::from_le_bytes(*value));
        let length = if value == TOMBSTONE { 0 } else { usize::try_from(value).ok()? };
        let from = at + 2 + 4;
        at = from + key + length;
        if at > group.len() {
            return None;
        }
        let put = (value != TOMBSTONE).then(|| group.slice(from + key..at));
        rows.push((group.slice(from..from + key), put));
    }
    Some(rows)
}
