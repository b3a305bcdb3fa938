//! Reads what sled 0.34.7 will replay when it opens, and says where it is damaged.
//!
//! sled replays its log from its newest snapshot on. A message or a segment there that fails its
//! checksum it takes for one that was overwritten half: it goes on behind it, without a word, and
//! what it said is lost. What stands before the snapshot it checks when it reads it. The layouts, from
//! sled's `pagecache/logger.rs`, `serialization.rs` and `snapshot.rs`:
//!
//! ```text
//! segment   512 KiB: [crc32 u32][lsn i64][stable lsn i64] message … Cap, or less than 32 bytes
//! message   [crc32 u32][kind u8][length varint][segment number varint][page varint][body]
//! snapshot  [stable lsn + 1 i64] …
//! ```
//!
//! Only right for a directory that was not cut off from power: there, what sled takes for overwritten
//! may be just that. Deliberately absent: the end of the log, which may be torn after a kill, and of
//! which the mark says how far it must go (`mark.rs`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SEGMENT: u64 = 512 * 1024;
const SEGMENT_HEADER: usize = 20;
/// Where less than this is left in a segment, no message begins.
const RED_ZONE: usize = 32;
const CAP: u8 = 2;
const LAST_KIND: u8 = 11;

/// A segment by its header.
struct Segment {
    at: u64,
    lsn: u64,
    stable: u64,
}

/// The first damage to what sled will replay in `directory`.
pub(crate) fn damage(directory: &Path) -> io::Result<Option<String>> {
    let db = File::open(directory.join("db"))?;
    let from = snapshot(directory)? / SEGMENT * SEGMENT;
    let mut segments = Vec::new();
    for at in (0..db.metadata()?.len()).step_by(usize::try_from(SEGMENT).expect("small")) {
        let mut bytes = [0; SEGMENT_HEADER];
        if read(&db, &mut bytes, at)? < SEGMENT_HEADER || bytes == [0; SEGMENT_HEADER] {
            continue;
        }
        match header(at, &bytes) {
            Some(segment) if segment.lsn >= from => segments.push(segment),
            Some(_) => {}
            None => return Ok(Some(format!("the segment at {at} of its file db is damaged"))),
        }
    }
    let stable = segments.iter().map(|segment| segment.stable).max().unwrap_or(from);
    let end = stable / SEGMENT * SEGMENT;
    let mut bytes = vec![0; usize::try_from(SEGMENT).expect("small")];
    for segment in segments.iter().filter(|segment| segment.lsn < end) {
        let there = read(&db, &mut bytes, segment.at)?;
        if let Err(at) = messages(&bytes[..there], segment.lsn / SEGMENT) {
            let at = segment.at + at as u64;
            return Ok(Some(format!("its file db is damaged at {at}")));
        }
    }
    Ok(None)
}

/// Up to which lsn the newest snapshot goes; 0 without one.
fn snapshot(directory: &Path) -> io::Result<u64> {
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

fn header(at: u64, bytes: &[u8; SEGMENT_HEADER]) -> Option<Segment> {
    let crc = u32::from_le_bytes(*bytes.first_chunk()?) ^ u32::MAX;
    let lsn = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk()?;
        u64::try_from(i64::from_le_bytes(*bytes) ^ i64::MAX).ok()
    };
    let right = crc == crc32fast::hash(&bytes[4..]);
    Some(Segment { at, lsn: lsn(4)?, stable: lsn(12).unwrap_or(0) }).filter(|_| right)
}

/// Reads all messages of a segment; an error is the place of the first that is not right.
fn messages(segment: &[u8], number: u64) -> Result<(), usize> {
    let mut at = SEGMENT_HEADER;
    let whole = usize::try_from(SEGMENT).expect("small");
    while at + RED_ZONE <= whole {
        let (kind, length) = message(&segment[at.min(segment.len())..], number).ok_or(at)?;
        if kind == CAP {
            break;
        }
        at += length;
    }
    Ok(())
}

/// The kind and the length of the message that `bytes` begin with, if it is right.
fn message(bytes: &[u8], number: u64) -> Option<(u8, usize)> {
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
    (right && known).then_some((*kind, head + body.len()))
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
