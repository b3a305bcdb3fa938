//! Has sled 0.34.7 find the end of its log by the last segment alone.
//!
//! sled looks for the end from the segment on in which, as the headers say, the log was last synced, and
//! takes for torn whatever does not follow that one without a gap. The header of a segment names the
//! one before it, as a rule. When sled opens, it writes zeros over each segment that nothing lives in
//! any more, that one too, and counts on the snapshot that it has written just before; but a snapshot
//! is renamed without a sync of its directory. A power cut that loses its name and keeps the zeros
//! leaves a log without a beginning: sled opens it, and it is empty.
//!
//! ```text
//! segments   zeros │ lsn 512 KiB, stable 511 KiB            ─▶ the log ends at 0: nothing is there
//! anchored   zeros │ lsn 512 KiB, stable 512 KiB, its own   ─▶ the log ends behind its last message
//! ```
//!
//! So the last segment is made to name itself before sled opens, if all that it counts on is whole: then
//! what was before it need not be there. From `pagecache/iterator.rs` and `segment.rs`.
//!
//! Deliberately absent: any change where something is torn before the end. There sled cuts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

use crate::directory::retry;
use crate::segments::{Header, SEGMENT, Segment, headers, snapshot};

/// Has the end of the log in `directory` found by its last segment, durably. All of it was synced.
pub(crate) fn set(directory: &Path) -> io::Result<()> {
    let db = match File::options().read(true).write(true).open(directory.join("db")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        db => db?,
    };
    // A thread of sled's may still cut the file; it holds the lock as long.
    if retry(|| db.try_lock().is_ok().then_some(())).is_none() {
        return Ok(());
    }
    let Some(last) = last_that_follows(&db, snapshot(directory)?)? else { return Ok(()) };
    if last.stable < last.lsn {
        Segment { stable: last.lsn, ..last }.write_header(&db)?;
        db.sync_data()?;
    }
    Ok(())
}

/// The last segment that follows, without a gap and without a tear, the one from which on sled looks for
/// the end of its log, with a snapshot up to `known`.
fn last_that_follows(db: &File, known: u64) -> io::Result<Option<Segment>> {
    let segments = headers(db)?.into_iter().filter_map(|header| match header {
        Header::Right(segment) => Some((segment.lsn, segment)),
        Header::Free | Header::Damaged(_) => None,
    });
    let segments: BTreeMap<_, _> = segments.collect();
    let stable = segments.values().map(|segment| segment.stable).fold(known, u64::max);
    let mut last = segments.get(&(stable / SEGMENT * SEGMENT)).copied();
    while let Some(segment) = last
        && let Some(next) = segments.get(&(segment.lsn + SEGMENT))
        && segment.first_wrong(db)?.is_none()
    {
        last = Some(*next);
    }
    Ok(last)
}

#[cfg(test)]
mod tests;
