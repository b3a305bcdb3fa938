//! The bytes of log records on disk: many small records in a row, a large one over several.
//!
//! ```text
//! key    [space 'l'][log][number of the first record u64, big-endian][part u8]
//! value  [length varint][record …][length varint][record …] …
//!        [length of all that varint][the same as a block of LZ4]     in part 255
//! ```
//!
//! A record that is larger than a row is alone in parts 0, 1, 2 … of its number; its length, in part 0, is
//! then greater than the rest of that row. The records that a group of batches appends to a log are packed
//! and compressed together, for they are much alike: a hundred of them take a row or two. A row is written
//! once, and later deleted.

use bytes::Bytes;

use crate::batch::{LogId, MAX_ROW};
use crate::row::{LOGS, META, read_varint, write_varint};

/// The largest record.
pub(crate) const MAX_RECORD: usize = 64 * 1024;

/// The part number of a compressed row.
pub(crate) const COMPRESSED: u8 = u8::MAX;

const KEY: usize = 11;
/// The bytes of records in one row.
const CAPACITY: usize = MAX_ROW - KEY;
/// The most rows of one record, which has its length before it.
pub(crate) const MAX_PARTS: usize = (MAX_RECORD + 3).div_ceil(CAPACITY);
/// The most bytes of records that are compressed together, but for a larger record.
const BLOCK: usize = 16 * 1024;
/// A smaller block is not compressed: there is nothing to gain.
const MIN_BLOCK: usize = 512;

/// The oldest and the newest number of a log; `(0, 0)` if it never had a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Bounds {
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
}

impl Bounds {
    /// Counts the next record, and returns its number.
    pub(crate) fn append(&mut self) -> u64 {
        self.newest += 1;
        self.oldest = self.oldest.max(1);
        self.newest
    }

    /// Drops the numbers before `before`.
    pub(crate) fn trim(&mut self, before: u64) {
        if self.newest > 0 {
            self.oldest = self.oldest.max(before.min(self.newest + 1));
        }
    }
}

/// The key of a row of `log`.
pub(crate) fn key(log: LogId, first: u64, part: u8) -> [u8; KEY] {
    let mut key = [0; KEY];
    key[..2].copy_from_slice(&[LOGS, log.0]);
    key[2..10].copy_from_slice(&first.to_be_bytes());
    key[10] = part;
    key
}

/// The number of the first record, and the part, of a row.
pub(crate) fn read_key(key: &[u8]) -> Option<(u64, u8)> {
    let (_, rest) = key.split_first_chunk::<2>()?;
    let (first, rest) = rest.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*first), *rest.first()?))
}

/// The key of a log's bounds, which a trim writes: numbers go on where every record was trimmed.
pub(crate) fn trim_key(log: LogId) -> [u8; 3] {
    [META, b'l', log.0]
}

pub(crate) fn encode_bounds(bounds: Bounds) -> [u8; 16] {
    let mut row = [0; 16];
    row[..8].copy_from_slice(&bounds.oldest.to_le_bytes());
    row[8..].copy_from_slice(&bounds.newest.to_le_bytes());
    row
}

pub(crate) fn decode_bounds(row: &[u8]) -> Option<Bounds> {
    let (oldest, rest) = row.split_first_chunk::<8>()?;
    let (newest, _) = rest.split_first_chunk::<8>()?;
    Some(Bounds { oldest: u64::from_le_bytes(*oldest), newest: u64::from_le_bytes(*newest) })
}

/// Packs `records`, numbered from `first` without gaps, into rows.
pub(crate) fn pack<'a>(
    log: LogId,
    first: u64,
    records: impl Iterator<Item = &'a Bytes>,
    write: impl FnMut(&[u8], &[u8]),
) {
    let mut packer = Packer { log, raw: Vec::new(), row: Vec::new(), write };
    let (mut block, mut size, mut block_first): (Vec<&Bytes>, _, _) = (Vec::new(), 0, first);
    for record in records {
        if !block.is_empty() && size + record.len() > BLOCK {
            packer.pack(block_first, &block);
            block_first += block.len() as u64;
            (size, block) = (0, Vec::new());
        }
        size += record.len();
        block.push(record);
    }
    packer.pack(block_first, &block);
}

struct Packer<W> {
    log: LogId,
    raw: Vec<u8>,
    row: Vec<u8>,
    write: W,
}

impl<W: FnMut(&[u8], &[u8])> Packer<W> {
    /// Writes `records` to one row if they fit, compressed or plain. Otherwise writes each half by itself,
    /// or a single record to several rows.
    fn pack(&mut self, first: u64, records: &[&Bytes]) {
        self.raw.clear();
        for record in records {
            write_varint(record.len(), &mut self.raw);
            self.raw.extend_from_slice(record);
        }
        if self.compress() {
            (self.write)(&key(self.log, first, COMPRESSED), &self.row);
        } else if self.raw.len() <= CAPACITY || records.len() == 1 {
            for (part, piece) in (0..).zip(self.raw.chunks(CAPACITY)) {
                (self.write)(&key(self.log, first, part), piece);
            }
        } else {
            let (left, right) = records.split_at(records.len() / 2);
            self.pack(first, left);
            self.pack(first + left.len() as u64, right);
        }
    }

    /// Compresses `raw` to `row`. Returns false if that does not fit a row, or is not smaller.
    fn compress(&mut self) -> bool {
        if self.raw.len() < MIN_BLOCK {
            return false;
        }
        self.row.clear();
        write_varint(self.raw.len(), &mut self.row);
        let head = self.row.len();
        self.row.resize(head + lz4_flex::block::get_maximum_output_size(self.raw.len()), 0);
        let length = lz4_flex::block::compress_into(&self.raw, &mut self.row[head..]);
        self.row.truncate(head + length.expect("the row has the space for the worst case"));
        self.row.len() <= CAPACITY && self.row.len() < self.raw.len()
    }
}

/// The records of a compressed row; `None` if it is damaged.
fn decompress(row: &[u8]) -> Option<Vec<u8>> {
    let (length, block) = read_varint(row)?;
    if length > BLOCK + 2 * MAX_RECORD {
        return None;
    }
    let raw = lz4_flex::block::decompress(block, length).ok()?;
    (raw.len() == length).then_some(raw)
}

/// Decodes rows in key order to records. The first row must be a part 0 or a compressed one.
#[derive(Debug, Default)]
pub(crate) struct Unpacker {
    number: u64,
    missing: usize,
    record: Vec<u8>,
}

impl Unpacker {
    /// Calls `found` with the number and the bytes of every record that `row` completes. `None` if the row
    /// does not follow the one before it.
    pub(crate) fn row(
        &mut self,
        key: &[u8],
        row: &[u8],
        mut found: impl FnMut(u64, &[u8]),
    ) -> Option<()> {
        let (first, part) = read_key(key)?;
        if part > 0 && part != COMPRESSED {
            self.missing =
                (first == self.number).then(|| self.missing.checked_sub(row.len()))??;
            self.record.extend_from_slice(row);
            if self.missing == 0 {
                found(first, &self.record);
            }
            return Some(());
        }
        if self.missing > 0 {
            return None;
        }
        let raw = if part == COMPRESSED { Some(decompress(row)?) } else { None };
        let (mut number, mut rest) = (first, raw.as_deref().unwrap_or(row));
        while !rest.is_empty() {
            let (length, after) = read_varint(rest)?;
            if let Some((record, after)) = after.split_at_checked(length) {
                found(number, record);
                rest = after;
            } else if raw.is_some() {
                return None;
            } else {
                self.number = number;
                self.missing = length - after.len();
                self.record.clear();
                self.record.extend_from_slice(after);
                rest = &[];
            }
            number += 1;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(records: &[Bytes]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        pack(LogId(7), 1, records.iter(), |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
        });
        rows
    }

    #[test]
    fn records_keep_their_bytes() {
        let rows = rows(&[Bytes::from_static(b"first"), Bytes::from_static(b"")]);
        assert_eq!(rows, [(b"l\x07\0\0\0\0\0\0\0\x01\0".to_vec(), b"\x05first\0".to_vec())]);
    }

    #[test]
    fn a_compressed_row_keeps_its_bytes() {
        let rows = rows(&vec![Bytes::from_static(b"an event like any other"); 30]);
        let key = b"l\x07\0\0\0\0\0\0\0\x01\xff".to_vec();
        let value = b"\xd0\x05\xff\x09\x17an event like any other\x18\0\xff\xff\xa1\x60 other";
        assert_eq!(rows, [(key, value.to_vec())]);
    }

    /// Bytes that do not compress.
    fn noise(length: usize) -> Bytes {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        (0..length).map(|_| next()).collect()
    }

    fn come_back(records: &[Bytes]) -> usize {
        let (mut unpacker, mut found) = (Unpacker::default(), Vec::new());
        let rows = rows(records);
        for (key, value) in &rows {
            assert!(key.len() + value.len() <= MAX_ROW);
            let record = |number, record: &[u8]| found.push((number, record.to_vec()));
            unpacker.row(key, value, record).unwrap();
        }
        let expected = (1..).zip(records.iter().map(|record| record.to_vec()));
        assert_eq!(found, expected.collect::<Vec<_>>());
        rows.len()
    }

    #[test]
    fn records_of_every_size_come_back_with_their_numbers() {
        let sizes = [10, 4000, 4083, 4084, 4085, 0, 65_536, 3, 8170, 1, 16_384, 16_385];
        come_back(&sizes.map(|size| Bytes::from(vec![42; size])));
        come_back(&sizes.map(noise));
        let mixed = sizes.iter().enumerate();
        let mixed =
            mixed.map(|(at, size)| if at % 2 == 0 { noise(*size) } else { vec![42; *size].into() });
        come_back(&mixed.collect::<Vec<_>>());
    }

    #[test]
    fn hundreds_of_records_cost_a_few_rows() {
        assert_eq!(come_back(&vec![Bytes::from(vec![1; 39]); 300]), 1);
        assert_eq!(come_back(&vec![noise(39); 3000]), 8);
        assert_eq!(come_back(&(0..300).map(|at| noise(at % 39)).collect::<Vec<_>>()), 1);
    }

    #[test]
    fn a_damaged_row_is_no_row() {
        let rows = rows(&vec![Bytes::from_static(b"an event like any other"); 30]);
        let (key, value) = &rows[0];
        for at in 0..value.len() {
            for cut in [false, true] {
                let mut damaged = value.clone();
                if cut {
                    damaged.truncate(at);
                } else {
                    damaged[at] ^= 0x55;
                }
                let mut count = 0;
                // It may still be a row, and then the records say for themselves that they are not right.
                if Unpacker::default().row(key, &damaged, |_, _| count += 1).is_some() {
                    assert!(!cut, "{at}");
                }
                assert!(count <= 720);
            }
        }
    }

    #[test]
    fn numbers_go_on_after_everything_was_trimmed() {
        let mut bounds = Bounds::default();
        bounds.trim(5);
        assert_eq!(bounds, Bounds::default());
        assert_eq!((bounds.append(), bounds.append()), (1, 2));
        bounds.trim(9);
        assert_eq!(bounds, Bounds { oldest: 3, newest: 2 });
        assert_eq!(bounds.append(), 3);
        assert_eq!(decode_bounds(&encode_bounds(bounds)), Some(bounds));
    }
}
