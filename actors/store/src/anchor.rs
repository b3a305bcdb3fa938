//! Has sled 0.34.7 find the end of its log by one segment alone.
//!
//! sled looks for the end from the segment on in which, as the headers say, the log was last synced, and
//! takes for torn whatever does not follow that one without a gap. The header of a segment names one
//! before it. When sled opens, it writes zeros over each segment that nothing lives in any more, that one
//! too, and counts on the snapshot that it has written just before; but a snapshot is renamed without a
//! sync of its directory. A power cut that loses its name and keeps the zeros leaves a log without a
//! beginning: sled opens it, and it is empty.
//!
//! ```text
//! segments   zeros │ lsn 512 KiB, stable 511 KiB            ─▶ the log ends at 0: nothing is there
//! anchored   zeros │ lsn 512 KiB, stable 512 KiB, its own   ─▶ the log ends behind its last message
//! ```
//!
//! So the segment in which the log ends is made to name itself before sled opens: then what was before
//! it need not be there.
//!
//! It ends before a batch that is not whole. There sled wipes the rest of the segment first, and the
//! segments behind it later: one of those, anchored, would have sled take its half of the batch if that
//! is cut short. From sled's `pagecache/iterator.rs`, `snapshot.rs` and `segment.rs`.
//!
//! Deliberately absent: any change of what stands behind the headers.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;

use crate::Error;
use crate::directory::{failed, retry};
use crate::segments::{Header, SEGMENT, Segment, headers, snapshot};

/// Has the end of the log in `directory` found by the segment in which it is, durably. All of it was
/// synced. A power cut does not tear the header: it stands in one sector.
pub(crate) fn set(directory: &Path) -> Result<(), Error> {
    let io = |error: io::Error| failed(&error);
    let db = match File::options().read(true).write(true).open(directory.join("db")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        db => db.map_err(io)?,
    };
    // A thread of sled's may still cut the file; it holds the lock as long.
    let lock = || match db.try_lock() {
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => Some(Err(failed(&error))),
        Ok(()) => Some(Ok(())),
    };
    retry(lock).unwrap_or_else(|| Err(Error::Locked(directory.display().to_string())))?;
    let known = snapshot(directory).map_err(io)?;
    let Some(end) = segment_of_the_end(&db, known).map_err(io)? else { return Ok(()) };
    if end.stable < end.lsn {
        let anchored = Segment { stable: end.lsn, ..end };
        anchored.write_header(&db).and_then(|()| db.sync_data()).map_err(io)?;
    }
    Ok(())
}

/// The segment in which sled's log ends, with a snapshot up to `known`: where it is torn, or where the
/// first batch begins that is not whole.
fn segment_of_the_end(db: &File, known: u64) -> io::Result<Option<Segment>> {
    let segments = headers(db)?.into_iter().filter_map(|header| match header {
        Header::Right(segment) => Some((segment.lsn, segment)),
        Header::Free | Header::Damaged(_) => None,
    });
    let segments: BTreeMap<_, _> = segments.collect();
    let stable = segments.values().map(|segment| segment.stable).fold(known, u64::max);
    let (mut log, mut end) = (Vec::new(), 0);
    let mut next = segments.get(&(stable / SEGMENT * SEGMENT));
    while let Some(segment) = next {
        let messages = segment.messages(db)?;
        end = messages.end;
        next = segments.get(&(segment.lsn + SEGMENT)).filter(|_| messages.whole);
        log.push((*segment, messages.batches));
    }
    let cut = |(_, batches): &&(Segment, Vec<_>)| batches.iter().any(|(_, last)| *last >= end);
    Ok(log.iter().find(cut).or(log.last()).map(|(segment, _)| *segment))
}

#[cfg(test)]
mod tests;
