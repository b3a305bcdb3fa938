//! The bytes of one row on disk.
//!
//! ```text
//! key    [space 'r'][table][environment][rest …]
//! value  [value …]                                              a plain row
//!        [length u16][entry block …][value …]                   a listed row; length 0: not listed
//! block  [stamp u64][list 2][mask u8][sort u64 …][field u8, length varint, term …] …
//! ```
//!
//! Integers are little-endian, and big-endian in keys. A row holds its own index entry, so that a put
//! writes one row. The stamp orders all puts ever made: of two rows of one document in one list, the
//! index shows the one with the greater stamp.

use std::io::Write;

use bytes::Bytes;

use crate::batch::{Entry, Key, MAX_ROW, Op};
use crate::log::MAX_RECORD;
use crate::{Error, WholeRow};

/// The first byte of the keys of rows.
pub(crate) const ROWS: u8 = b'r';
/// The first byte of the keys of log records.
pub(crate) const LOGS: u8 = b'l';
/// The first byte of the keys of the store's own notes.
pub(crate) const META: u8 = b'm';

const LENGTH: usize = 2;
const FIXED: usize = 8 + 2 + 1;

/// The key of a row on disk.
pub(crate) fn disk_key(key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + key.0.len());
    encode_key(&key.0, &mut bytes);
    bytes
}

/// Writes the key of a row on disk.
pub(crate) fn encode_key(key: &[u8], to: &mut Vec<u8>) {
    to.clear();
    to.push(ROWS);
    to.extend_from_slice(key);
}

/// The bytes that a row takes on disk, which [`MAX_ROW`] limits.
fn size(key: &Key, value: &[u8], entry: Option<&Entry>) -> usize {
    let listed = if key.is_listed() { LENGTH + entry.map_or(0, block_size) } else { 0 };
    1 + key.0.len() + listed + value.len()
}

/// Checks the limits of an operation.
pub(crate) fn check(op: &Op) -> Result<(), Error> {
    let misuse = |text: &str| Err(Error::Io(text.into()));
    let (size, limit) = match op {
        Op::Put { key, entry: Some(_), .. } if !key.is_listed() => {
            return misuse("an entry was given for a row of a table that is not listed");
        }
        Op::Put { key, entry: Some(_), .. } if key.0.len() < 18 => {
            return misuse("the key of a listed row does not end in a document id");
        }
        Op::Put { key, value, entry } => (size(key, value, entry.as_ref()), MAX_ROW),
        Op::Insert { key, value } => (size(key, value, None), MAX_ROW),
        Op::Append { record, .. } => (record.len(), MAX_RECORD),
        Op::Delete { .. } | Op::Trim { .. } => return Ok(()),
    };
    if size > limit { Err(Error::TooLarge(size)) } else { Ok(()) }
}

fn block_size(entry: &Entry) -> usize {
    let terms: usize =
        entry.terms.iter().map(|(_, term)| 1 + varint_size(term.len()) + term.len()).sum();
    FIXED + 8 * entry.sort.iter().flatten().count() + terms
}

/// Writes a listed row on disk, and returns the offset of `value` in it.
pub(crate) fn encode_listed(
    stamp: u64,
    entry: Option<&Entry>,
    value: &[u8],
    to: &mut Vec<u8>,
) -> usize {
    to.clear();
    let length = entry.map_or(0, block_size);
    let length = u16::try_from(length).expect("a row over MAX_ROW was refused before");
    to.extend_from_slice(&length.to_le_bytes());
    if let Some(entry) = entry {
        to.extend_from_slice(&stamp.to_le_bytes());
        to.extend_from_slice(&entry.list);
        to.push(u8::from(entry.sort[0].is_some()) | u8::from(entry.sort[1].is_some()) << 1);
        for value in entry.sort.iter().flatten() {
            to.extend_from_slice(&value.to_le_bytes());
        }
        for (field, term) in &entry.terms {
            to.push(*field);
            write_varint(term.len(), to);
            to.extend_from_slice(term);
        }
    }
    let head = to.len();
    to.extend_from_slice(value);
    debug_assert!(to.len() <= MAX_ROW);
    head
}

/// Splits a listed row on disk into its entry block, if it has an entry, and the offset of its value.
pub(crate) fn split_listed(row: &[u8]) -> Option<(Option<&[u8]>, usize)> {
    let (length, rest) = row.split_first_chunk::<LENGTH>()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let block = rest.get(..length)?;
    Some(((length > 0).then_some(block), LENGTH + length))
}

/// The value in a row on disk.
pub(crate) fn value(key: &[u8], row: &[u8]) -> Result<Bytes, Error> {
    let at = match key.first() {
        Some(table) if *table >= Key::FIRST_LISTED => split_listed(row).map(|(_, at)| at),
        _ => Some(0),
    };
    let path = || format!("the row {:?}", Key(key.into()));
    let at =
        at.ok_or_else(|| Error::Corrupt { path: path(), reason: "its entry is cut short".into() })?;
    Ok(Bytes::copy_from_slice(&row[at..]))
}

/// The row on disk with its index entry.
pub(crate) fn whole(key: &[u8], row: &[u8]) -> Result<WholeRow, Error> {
    let value = value(key, row)?;
    let key = Key(key.into());
    let block = if key.is_listed() { entry_block(Some(row)) } else { None };
    let Some(block) = block else { return Ok((key, value, None)) };
    let Some(block) = Block::read(&block) else {
        let (path, reason) = (format!("the row {key:?}"), "its entry cannot be read".into());
        return Err(Error::Corrupt { path, reason });
    };
    let terms = block.terms().map(|(field, term)| (field, term.into())).collect();
    Ok((key, value, Some(Entry { list: block.list, terms, sort: block.sort })))
}

/// The entry block of a row on disk.
pub(crate) fn entry_block(row: Option<&[u8]>) -> Option<Box<[u8]>> {
    split_listed(row?)?.0.map(Box::from)
}

/// An entry block, read in place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a> {
    pub(crate) stamp: u64,
    pub(crate) list: [u8; 2],
    pub(crate) sort: [Option<u64>; 2],
    terms: &'a [u8],
}

impl<'a> Block<'a> {
    /// Reads a block; `None` if it is malformed.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (stamp, rest) = bytes.split_first_chunk::<8>()?;
        let (list, rest) = rest.split_first_chunk::<2>()?;
        let (mask, mut rest) = rest.split_first()?;
        let mut sort = [None; 2];
        for (bit, value) in sort.iter_mut().enumerate() {
            if mask >> bit & 1 == 1 {
                let (bytes, after) = rest.split_first_chunk::<8>()?;
                *value = Some(u64::from_le_bytes(*bytes));
                rest = after;
            }
        }
        Some(Self { stamp: u64::from_le_bytes(*stamp), list: *list, sort, terms: rest })
    }

    /// The fields and their terms.
    pub(crate) fn terms(self) -> impl Iterator<Item = (u8, &'a [u8])> {
        let mut rest = self.terms;
        std::iter::from_fn(move || {
            let (field, after) = rest.split_first()?;
            let (length, after) = read_varint(after)?;
            let (term, after) = after.split_at_checked(length)?;
            rest = after;
            Some((*field, term))
        })
    }
}

/// Writes a length, seven bits a byte, the smallest first, to memory that has the space.
pub(crate) fn write_varint(mut value: usize, to: &mut impl Write) {
    let mut push = |byte| to.write_all(&[byte]).expect("memory takes it");
    while value >= 0x80 {
        push(u8::try_from(value & 0x7f).expect("seven bits fit") | 0x80);
        value >>= 7;
    }
    push(u8::try_from(value).expect("seven bits fit"));
}

/// Reads a length; returns it and the bytes after it.
pub(crate) fn read_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// The bytes that [`write_varint`] takes.
pub(crate) fn varint_size(value: usize) -> usize {
    let bits = usize::BITS - value.leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            list: [1, 2],
            terms: vec![(3, Box::from(&b"pending"[..])), (4, Box::from(&b""[..]))],
            sort: [None, Some(7)],
        }
    }

    #[test]
    fn a_listed_row_keeps_its_bytes_and_its_reading() {
        let mut bytes = Vec::new();
        let head = encode_listed(0x0102, Some(&entry()), b"value", &mut bytes);
        let golden =
            b"\x1e\0\x02\x01\0\0\0\0\0\0\x01\x02\x02\x07\0\0\0\0\0\0\0\x03\x07pending\x04\0value";
        assert_eq!(bytes, golden);

        let (block, at) = split_listed(&bytes).unwrap();
        assert_eq!((at, &bytes[at..]), (head, &b"value"[..]));
        let block = Block::read(block.unwrap()).unwrap();
        assert_eq!((block.stamp, block.list, block.sort), (0x0102, [1, 2], [None, Some(7)]));
        assert_eq!(block.terms().collect::<Vec<_>>(), [(3, &b"pending"[..]), (4, &b""[..])]);
    }

    #[test]
    fn a_row_off_every_list_costs_two_bytes() {
        let mut bytes = Vec::new();
        encode_listed(9, None, b"v", &mut bytes);
        assert_eq!(bytes, b"\0\0v");
        assert!(split_listed(&bytes).unwrap().0.is_none());
    }

    #[test]
    fn the_size_said_beforehand_is_the_size_written() {
        let key = Key::new(0x80, 1, &[5; 16]);
        let (mut on_disk, mut value) = (Vec::new(), Vec::new());
        encode_key(&key.0, &mut on_disk);
        encode_listed(u64::MAX, Some(&entry()), b"value", &mut value);
        assert_eq!(size(&key, b"value", Some(&entry())), on_disk.len() + value.len());
    }

    #[test]
    fn lengths_survive_and_say_their_size() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 65_536] {
            let mut bytes = Vec::new();
            write_varint(length, &mut bytes);
            assert_eq!(bytes.len(), varint_size(length));
            assert_eq!(read_varint(&bytes), Some((length, &[][..])));
        }
    }
}
