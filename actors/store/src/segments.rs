//! The segments of sled 0.34.7 in its file `db`, and the position of its newest snapshot. Sources: sled's
//! `pagecache/logger.rs`, `serialization.rs` and `snapshot.rs`.
//!
//! ```text
//! segment   512 KiB: [crc32 u32][lsn i64][stable lsn i64] message … Cap, or less than 32 bytes
//! message   [crc32 u32][kind u8][length varint][segment number varint][page varint][body]
//! manifest  a message before a batch: [lsn of its last message i64]
//! snapshot  [stable lsn + 1 i64] …
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) const SEGMENT: u64 = 512 * 1024;
const SEGMENT_LENGTH: usize = 512 * 1024;
const SEGMENT_HEADER: usize = 20;
/// No message begins where less than this is left in a segment.
const RED_ZONE: usize = 32;
const CAP: u8 = 2;
const MANIFEST: u8 = 3;
const LAST_KIND: u8 = 11;

/// A segment, as its header describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// The segment's offset in the file.
    pub(crate) at: u64,
    /// The segment's position in the log.
    pub(crate) lsn: u64,
    /// The position up to which the log was synced when the segment was begun; the segment's own in an
    /// anchored one (`anchor.rs`).
    pub(crate) stable: u64,
}

/// The valid messages of a segment.
#[derive(Debug)]
pub(crate) struct Messages {
    /// The lsn behind the last one; that of the Cap, if there is one.
    pub(crate) end: u64,
    /// True if the log goes on in the next segment.
    pub(crate) complete: bool,
    /// The batches that begin here: the lsn of the manifest, and that of the last message.
    pub(crate) batches: Vec<(u64, u64)>,
}

/// The header of a segment.
#[derive(Debug)]
pub(crate) enum Header {
    Valid(Segment),
    /// Zeros, or the end of the file.
    Empty,
    /// A wrong checksum, at this offset.
    Damaged(u64),
}

/// The headers in the file `db`, in the order of the file.
pub(crate) fn headers(db: &File) -> io::Result<Vec<Header>> {
    let mut headers = Vec::new();
    let mut at = 0;
    while at < db.metadata()?.len() {
        let mut bytes = [0; SEGMENT_HEADER];
        let length = read(db, &mut bytes, at)?;
        headers.push(if length < SEGMENT_HEADER || bytes == [0; SEGMENT_HEADER] {
            Header::Empty
        } else {
            header(at, &bytes).map_or(Header::Damaged(at), Header::Valid)
        });
        at += SEGMENT;
    }
    Ok(headers)
}

fn header(at: u64, bytes: &[u8; SEGMENT_HEADER]) -> Option<Segment> {
    let crc = u32::from_le_bytes(*bytes.first_chunk()?) ^ u32::MAX;
    let lsn = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk()?;
        u64::try_from(i64::from_le_bytes(*bytes) ^ i64::MAX).ok()
    };
    let valid = crc == crc32fast::hash(&bytes[4..]);
    Some(Segment { at, lsn: lsn(4)?, stable: lsn(12).unwrap_or(0) }).filter(|_| valid)
}

impl Segment {
    /// Reads the messages, up to the first invalid one.
    pub(crate) fn messages(&self, db: &File) -> io::Result<Messages> {
        let mut bytes = vec![0; SEGMENT_LENGTH];
        let length = read(db, &mut bytes, self.at)?;
        Ok(messages(&bytes[..length], self.lsn))
    }

    pub(crate) fn write_header(&self, db: &File) -> io::Result<()> {
        let lsn = |lsn: u64| (i64::try_from(lsn).unwrap_or(i64::MAX) ^ i64::MAX).to_le_bytes();
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[4..12].copy_from_slice(&lsn(self.lsn));
        bytes[12..].copy_from_slice(&lsn(self.stable));
        let crc = crc32fast::hash(&bytes[4..]) ^ u32::MAX;
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        db.write_all_at(&bytes, self.at)
    }
}

fn messages(segment: &[u8], lsn: u64) -> Messages {
    let mut at = SEGMENT_HEADER;
    let mut messages = Messages { end: 0, complete: true, batches: Vec::new() };
    while at + RED_ZONE <= SEGMENT_LENGTH {
        let message = message(&segment[at.min(segment.len())..], lsn / SEGMENT);
        messages.complete = message.is_some();
        let Some((kind, body, length)) = message.filter(|(kind, ..)| *kind != CAP) else { break };
        if let (MANIFEST, Some(last)) = (kind, body.first_chunk()) {
            let last = u64::try_from(i64::from_le_bytes(*last)).unwrap_or(0);
            messages.batches.push((lsn + at as u64, last));
        }
        at += length;
    }
    messages.end = lsn + at as u64;
    messages
}

/// The kind, the body and the length of the message that `bytes` begin with; `None` if it is invalid.
fn message(bytes: &[u8], number: u64) -> Option<(u8, &[u8], usize)> {
    let (crc, rest) = bytes.split_first_chunk()?;
    let (kind, rest) = rest.split_first()?;
    let (length, rest) = varint(rest)?;
    let (of, rest) = varint(rest)?;
    let (_, rest) = varint(rest)?;
    let head = bytes.len() - rest.len();
    let body = rest.get(..usize::try_from(length).ok()?)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(body);
    hasher.update(&bytes[4..head]);
    let valid = hasher.finalize() ^ u32::MAX == u32::from_le_bytes(*crc);
    let known = (1..=LAST_KIND).contains(kind) && of == number;
    (valid && known).then_some((*kind, body, head + body.len()))
}

/// sled's numbers of one to nine bytes.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (more, value) = match first {
        0..=240 => return Some((u64::from(*first), rest)),
        241..=248 => (1, 240 + 256 * (u64::from(*first) - 241) + u64::from(*rest.first()?)),
        249 => (2, 2288 + 256 * u64::from(*rest.first()?) + u64::from(*rest.get(1)?)),
        250..=255 => {
            let more = usize::from(*first) - 247;
            let mut value = [0; 8];
            value[..more].copy_from_slice(rest.get(..more)?);
            (more, u64::from_le_bytes(value))
        }
    };
    Some((value, &rest[more..]))
}

/// The lsn up to which the newest snapshot goes; 0 without one.
pub(crate) fn snapshot(directory: &Path) -> io::Result<u64> {
    let mut newest = None;
    for file in fs::read_dir(directory)? {
        let name = file?.file_name().to_string_lossy().into_owned();
        if name.starts_with("snap.") && !name.ends_with(".generating") {
            newest = newest.max(Some(name));
        }
    }
    let Some(newest) = newest else { return Ok(0) };
    let mut shifted = [0; 8];
    let length = read(&File::open(directory.join(newest))?, &mut shifted, 0)?;
    let lsn = i64::from_le_bytes(shifted) - 1;
    Ok(u64::try_from(lsn).ok().filter(|_| length == 8).unwrap_or(0))
}

/// Fills `bytes` from the offset `at`, up to the end of the file. Returns the number of bytes read.
fn read(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
