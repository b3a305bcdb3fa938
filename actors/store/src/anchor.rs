//! Anchors sled's log: makes sled 0.34.7 find the end of its log by one segment alone.
//!
//! The header of a segment names an earlier position up to which the log was synced. sled looks for the
//! end from the segment on that the greatest such position is in, and takes a segment after a gap for
//! torn. When sled opens, it writes zeros over each segment that has no live page, that one too, and
//! relies on the snapshot that it has just written; but a snapshot is renamed without a sync of its
//! directory. A power cut that loses the snapshot's name and keeps the zeros leaves a log without a
//! beginning: sled opens it, and it is empty.
//!
//! ```text
//! segments   zeros │ lsn 512 KiB, stable 511 KiB            ─▶ the log ends at 0: nothing is there
//! anchored   zeros │ lsn 512 KiB, stable 512 KiB, its own   ─▶ the log ends behind its last message
//! ```
//!
//! So the header of the segment in which the log ends is made to name itself before sled opens. Then the
//! segments before it need not be there.
//!
//! The log ends before an incomplete batch. There sled wipes the rest of the segment first, and the
//! segments behind it later; if one of those were anchored and the wiping cut short, sled would take its
//! part of the batch. Sources: sled's `pagecache/iterator.rs`, `snapshot.rs` and `segment.rs`.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::Error;
use crate::directory::{io_error, locked, retry};
use crate::segments::{Header, SEGMENT, Segment, headers, snapshot};

/// Anchors the segment in which the log in `directory` ends, durably. The whole log must be synced. A power
/// cut does not tear the header, which is in one sector.
pub(crate) fn set(directory: &Path) -> Result<(), Error> {
    let io = |error: io::Error| io_error(&error);
    let db = match File::options().read(true).write(true).open(directory.join("db")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        db => db.map_err(io)?,
    };
    // A thread of sled's may still truncate the file; it holds the lock as long.
    let lock = || match db.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => Some(Err(io_error(&error))),
        Ok(()) => Some(Ok(())),
    };
    retry(lock).unwrap_or_else(|| Err(locked(directory)))?;
    let known = snapshot(directory).map_err(io)?;
    let Some(end) = last_segment(&db, known).map_err(io)? else { return Ok(()) };
    if end.stable < end.lsn {
        let anchored = Segment { stable: end.lsn, ..end };
        anchored.write_header(&db).and_then(|()| db.sync_data()).map_err(io)?;
    }
    Ok(())
}

/// The segment in which sled's log ends, with a snapshot up to `known`: at the tear of the log, or at the
/// beginning of the first incomplete batch.
fn last_segment(db: &File, known: u64) -> io::Result<Option<Segment>> {
    let segments = headers(db)?.into_iter().filter_map(|header| match header {
        Header::Valid(segment) => Some((segment.lsn, segment)),
        Header::Empty | Header::Damaged(_) => None,
    });
    let segments: BTreeMap<_, _> = segments.collect();
    let stable = segments.values().map(|segment| segment.stable).fold(known, u64::max);
    let (mut log, mut end) = (Vec::new(), 0);
    let mut next = segments.get(&(stable / SEGMENT * SEGMENT));
    while let Some(segment) = next {
        let messages = segment.messages(db)?;
        end = messages.end;
        next = segments.get(&(segment.lsn + SEGMENT)).filter(|_| messages.complete);
        log.push((*segment, messages.batches));
    }
    let cut = |(_, batches): &&(Segment, Vec<_>)| batches.iter().any(|(_, last)| *last >= end);
    Ok(log.iter().find(cut).or(log.last()).map(|(segment, _)| *segment))
}

#[cfg(test)]
mod tests;
