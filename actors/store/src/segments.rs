//! The layout of what sled 0.34.7 keeps in its file `db`, and how far its newest snapshot goes: from
//! sled's `pagecache/logger.rs`, `serialization.rs` and `snapshot.rs`.
//!
//! ```text
//! segment   512 KiB: [crc32 u32][lsn i64][stable lsn i64] message … Cap, or less than 32 bytes
//! message   [crc32 u32][kind u8][length varint][segment number varint][page varint][body]
//! manifest  a message before a batch: [lsn of its last message i64]
//! snapshot  [stable lsn + 1 i64] …
//! ```
//!
//! Deliberately absent: what to make of it (see `scrub.rs` and `anchor.rs`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub(crate) const SEGMENT: u64 = 512 * 1024;
const SEGMENT_LENGTH: usize = 512 * 1024;
const SEGMENT_HEADER: usize = 20;
/// Where less than this is left in a segment, no message begins.
const RED_ZONE: usize = 32;
const CAP: u8 = 2;
const MANIFEST: u8 = 3;
const LAST_KIND: u8 = 11;

/// A segment by its header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// Where it stands in the file.
    pub(crate) at: u64,
    /// Its place in the log.
    pub(crate) lsn: u64,
    /// Up to where the log was synced when it was begun, as far as it says; an anchored one says its own
    /// lsn (`anchor.rs`).
    pub(crate) stable: u64,
}

/// What stands in a segment.
#[derive(Debug)]
pub(crate) struct Messages {
    /// The lsn behind its last message that is right; of the Cap, if it has one.
    pub(crate) end: u64,
    /// Whether the log goes on in the next segment.
    pub(crate) whole: bool,
    /// The batches that begin here: the lsn of the manifest, and that of the last message.
    pub(crate) batches: Vec<(u64, u64)>,
}

/// What a header says.
#[derive(Debug)]
pub(crate) enum Header {
    Right(Segment),
    /// Zeros, or the end of the file: nothing is said to be here.
    Free,
    /// Its checksum is wrong; where it stands.
    Damaged(u64),
}

/// The headers in the file `db`, in its order.
pub(crate) fn headers(db: &File) -> io::Result<Vec<Header>> {
    let mut headers = Vec::new();
    let mut at = 0;
    while at < db.metadata()?.len() {
        let mut bytes = [0; SEGMENT_HEADER];
        let there = read(db, &mut bytes, at)?;
        headers.push(if there < SEGMENT_HEADER || bytes == [0; SEGMENT_HEADER] {
            Header::Free
        } else {
            header(at, &bytes).map_or(Header::Damaged(at), Header::Right)
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
    let right = crc == crc32fast::hash(&bytes[4..]);
    Some(Segment { at, lsn: lsn(4)?, stable: lsn(12).unwrap_or(0) }).filter(|_| right)
}

impl Segment {
    /// Reads its messages, up to the first that is not right.
    pub(crate) fn messages(&self, db: &File) -> io::Result<Messages> {
        let mut bytes = vec![0; SEGMENT_LENGTH];
        let there = read(db, &mut bytes, self.at)?;
        Ok(messages(&bytes[..there], self.lsn))
    }

    /// Writes its header.
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
    let mut messages = Messages { end: 0, whole: true, batches: Vec::new() };
    while at + RED_ZONE <= SEGMENT_LENGTH {
        let message = message(&segment[at.min(segment.len())..], lsn / SEGMENT);
        messages.whole = message.is_some();
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

/// The kind, the body and the length of the message that `bytes` begin with, if it is right.
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
    let right = hasher.finalize() ^ u32::MAX == u32::from_le_bytes(*crc);
    let known = (1..=LAST_KIND).contains(kind) && of == number;
    (right && known).then_some((*kind, body, head + body.len()))
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

/// Up to which lsn the newest snapshot goes; 0 without one.
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
    let there = read(&File::open(directory.join(newest))?, &mut shifted, 0)?;
    let lsn = i64::from_le_bytes(shifted) - 1;
    Ok(u64::try_from(lsn).ok().filter(|_| there == 8).unwrap_or(0))
}

/// Reads what is there at `at`, up to all of `bytes`.
fn read(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut there = 0;
    while there < bytes.len() {
        match file.read_at(&mut bytes[there..], at + there as u64) {
            Ok(0) => break,
            Ok(more) => there += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(there)
}
