//! The journal: what was committed and does not stand durably in sled yet.
//!
//! Two files, written in turns. While the rows of the groups in one are brought to sled, further
//! groups go to the other; a file is overwritten from its beginning only when sled has all that was
//! in it, synced. So a commit costs one write and one sync of a few sectors that the file already
//! has, and sled, which is slow to sync, is asked to once in a while.
//!
//! ```text
//! file    [group][group] …                each begins at a sector
//! group   [magic u32][length u32][number u64][crc32 u32][op …][zeros to the end of the sector]
//! op      [length of the key u16][length of the value u32, or DELETED][key][value]
//! ```
//!
//! Numbers are little-endian; groups are numbered without gaps, over both files and all openings.
//! The CRC is of a secret of the directory, the number and the ops, so that no text that a client
//! wrote passes for a group. A group is written after the one before it was synced; so a valid group
//! behind a broken one, or after a gap, says that something acknowledged is damaged, while a
//! broken one at the end is what a power cut leaves.
//!
//! Deliberately absent: what the rows are, and where they go (see `sled/settle.rs`).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;

use crate::Error;
use crate::directory::{corrupt, failed};

#[cfg(test)]
mod tests;

/// What a disk writes whole.
const SECTOR: usize = 512;
const MAGIC: u32 = u32::from_le_bytes(*b"cbj1");
const HEAD: usize = 4 + 4 + 8 + 4;
const DELETED: u32 = u32::MAX;
/// How much a file grows by: a write within it needs no change of its inode.
const GROWTH: usize = 1 << 20;

/// The names of the two files.
pub(crate) const FILES: [&str; 2] = ["journal.0", "journal.1"];

/// A row as the journal has it: `None` if it goes.
pub(crate) type Change = (Bytes, Option<Bytes>);

/// Rows that are committed together.
#[derive(Debug)]
pub(crate) struct Group {
    bytes: Vec<u8>,
    rows: Vec<(Range<usize>, Option<Range<usize>>)>,
}

impl Default for Group {
    fn default() -> Self {
        Self { bytes: vec![0; HEAD], rows: Vec::new() }
    }
}

impl Group {
    /// An empty one, with as much room as this one has used: it will be about as large.
    pub(crate) fn follower(&self) -> Self {
        let mut bytes = Vec::with_capacity(self.bytes.len().next_multiple_of(SECTOR));
        bytes.resize(HEAD, 0);
        Self { bytes, rows: Vec::with_capacity(self.rows.len()) }
    }

    /// Adds a row.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.op(key, u32::try_from(value.len()).expect("a row is small"));
        self.bytes.extend_from_slice(value);
        let end = self.bytes.len();
        let key = end - value.len() - key.len()..end - value.len();
        self.rows.push((key, Some(end - value.len()..end)));
    }

    /// Removes a row.
    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.op(key, DELETED);
        let end = self.bytes.len();
        self.rows.push((end - key.len()..end, None));
    }

    fn op(&mut self, key: &[u8], value: u32) {
        let length = u16::try_from(key.len()).expect("a key is short");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self.bytes.extend_from_slice(key);
    }

    /// The bytes of this as group `number`, and its rows, which are parts of them.
    fn seal(mut self, number: u64, secret: u64) -> (Bytes, Vec<Change>) {
        let length = u32::try_from(self.bytes.len()).expect("a group is small");
        let sum = sum(secret, number, &self.bytes[HEAD..]);
        self.bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&length.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&number.to_le_bytes());
        self.bytes[16..HEAD].copy_from_slice(&sum.to_le_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(SECTOR), 0);
        let bytes = Bytes::from(self.bytes);
        let part = |range| bytes.slice(range);
        let rows = self.rows.into_iter().map(|(key, value)| (part(key), value.map(part)));
        let rows = rows.collect();
        (bytes, rows)
    }
}

fn sum(secret: u64, number: u64, ops: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&secret.to_le_bytes());
    sum.update(&number.to_le_bytes());
    sum.update(ops);
    sum.finalize()
}

/// The two files, open for groups to come.
#[derive(Debug)]
pub(crate) struct Journal {
    files: [File; 2],
    sizes: [u64; 2],
    /// The file that groups go to now, and where in it.
    current: usize,
    at: u64,
    /// The number of the next group.
    next: u64,
    secret: u64,
    synced: bool,
}

/// Where the journal of a directory stands, as sled knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The last group whose rows sled has, all synced.
    pub(crate) settled: u64,
    /// What the CRCs of this directory begin with.
    pub(crate) secret: u64,
}

impl Journal {
    /// Opens the journal in `directory`, and makes it if `new`. Also returns the groups that sled
    /// does not have, in order: the next groups are to be written only when it has them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a group that was once synced is damaged or missing, [`Error::Io`] if
    /// the disk fails.
    pub(crate) fn open(
        directory: &Path,
        standing: Standing,
        new: bool,
        synced: bool,
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
                    failed(&error)
                }
            })?;
            let bytes = Bytes::from(std::fs::read(&path).map_err(|error| failed(&error))?);
            sizes[at] = bytes.len() as u64;
            for (number, group) in groups(&bytes, standing.secret) {
                if found.last_key_value().is_none_or(|(last, _)| *last < number) {
                    last_file = at;
                }
                found.insert(number, group);
            }
            Ok(file)
        };
        let files = [open(0)?, open(1)?];
        let missing = found.split_off(&(standing.settled + 1));
        let next = missing.last_key_value().map_or(standing.settled, |(last, _)| *last) + 1;
        if missing.len() as u64 != next - standing.settled - 1 {
            let gap = (standing.settled + 1..next).find(|number| !missing.contains_key(number));
            let reason = format!(
                "group {} of its journal is damaged, and a later one is not",
                gap.unwrap_or(next)
            );
            return Err(corrupt(directory, &reason));
        }
        // The newest groups stay for a while: should sled have lost its end, they are there.
        let current = if next > 1 { 1 - last_file } else { 0 };
        let journal = Self { files, sizes, current, at: 0, next, secret: standing.secret, synced };
        Ok((journal, missing.into_values().collect()))
    }

    /// Writes `group`. When this returns it is durable; its rows are returned.
    pub(crate) fn append(&mut self, group: Group) -> io::Result<Vec<Change>> {
        let (bytes, rows) = group.seal(self.next, self.secret);
        let (file, size) = (&self.files[self.current], &mut self.sizes[self.current]);
        let end = self.at + bytes.len() as u64;
        if end > *size {
            let grown = bytes.len().next_multiple_of(GROWTH);
            file.write_all_at(&vec![0; grown], *size)?;
            *size += grown as u64;
        }
        file.write_all_at(&bytes, self.at)?;
        if self.synced {
            file.sync_data()?;
        }
        self.at = end;
        self.next += 1;
        Ok(rows)
    }

    /// Goes on in the other file, all of which sled has; returns the number of the last group so far.
    pub(crate) fn turn(&mut self) -> u64 {
        self.current = 1 - self.current;
        self.at = 0;
        self.last()
    }

    /// The number of the last group.
    pub(crate) const fn last(&self) -> u64 {
        self.next - 1
    }
}

/// Every valid group in the bytes of a file.
fn groups(file: &Bytes, secret: u64) -> Vec<(u64, Bytes)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < file.len() {
        if let Some((number, group)) = group(&file.slice(at..), secret) {
            at += group.len().next_multiple_of(SECTOR);
            found.push((number, group));
        } else {
            at += SECTOR;
        }
    }
    found
}

/// The group that `bytes` begin with, without what fills its last sector.
fn group(bytes: &Bytes, secret: u64) -> Option<(u64, Bytes)> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (expected, _) = rest.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    if u32::from_le_bytes(*magic) != MAGIC || length < HEAD || length > bytes.len() {
        return None;
    }
    let number = u64::from_le_bytes(*number);
    let whole = sum(secret, number, &bytes[HEAD..length]) == u32::from_le_bytes(*expected);
    whole.then(|| (number, bytes.slice(..length)))
}

/// The rows of a group; `None` if they make no sense.
pub(crate) fn rows(group: &Bytes) -> Option<Vec<Change>> {
    let mut rows = Vec::new();
    let mut at = HEAD;
    while at < group.len() {
        let rest = group.get(at..)?;
        let (key, rest) = rest.split_first_chunk()?;
        let (value, _) = rest.split_first_chunk()?;
        let (key, value) = (usize::from(u16::from_le_bytes(*key)), u32::from_le_bytes(*value));
        let length = if value == DELETED { 0 } else { usize::try_from(value).ok()? };
        let from = at + 2 + 4;
        at = from + key + length;
        if at > group.len() {
            return None;
        }
        let put = (value != DELETED).then(|| group.slice(from + key..at));
        rows.push((group.slice(from..from + key), put));
    }
    Some(rows)
}
