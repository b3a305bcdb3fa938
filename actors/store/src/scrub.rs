//! Checks the part of its log that sled 0.34.7 will replay when it opens.
//!
//! sled replays its log from its newest snapshot on. sled takes a message or a segment that fails its
//! checksum for an overwritten one and goes on with the next segment, silently and without the rest of
//! that one. sled checks the part before the snapshot when it reads it. The layouts are in `segments.rs`.
//!
//! The check is only for a directory that did not lose power: after a power cut, a segment that looks overwritten may
//! be just that.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::segments::{Header, SEGMENT, headers, snapshot};

/// The first damage to the part of the log that sled will replay in `directory`.
pub(crate) fn damage(directory: &Path) -> io::Result<Option<String>> {
    let db = File::open(directory.join("db"))?;
    let from = snapshot(directory)? / SEGMENT * SEGMENT;
    let mut segments = Vec::new();
    for header in headers(&db)? {
        match header {
            Header::Valid(segment) if segment.lsn >= from => segments.push(segment),
            Header::Valid(_) | Header::Empty => {}
            Header::Damaged(at) => {
                return Ok(Some(format!("the segment at {at} of its file db is damaged")));
            }
        }
    }
    // An anchored segment names itself, and says nothing of the segment before it.
    let stable = segments.iter().map(|segment| segment.stable.min(segment.lsn.saturating_sub(1)));
    let end = stable.max().unwrap_or(from) / SEGMENT * SEGMENT;
    for segment in segments.iter().filter(|segment| segment.lsn < end) {
        let messages = segment.messages(&db)?;
        if !messages.complete {
            let at = segment.at + messages.end - segment.lsn;
            return Ok(Some(format!("its file db is damaged at {at}")));
        }
    }
    Ok(None)
}
