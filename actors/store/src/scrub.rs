//! Reads what sled 0.34.7 will replay when it opens, and says where it is damaged.
//!
//! sled replays its log from its newest snapshot on. A message or a segment there that fails its
//! checksum it takes for one that was overwritten half: it goes on with the next segment, without a
//! word, and what was said from there on is lost. What stands before the snapshot it checks when it reads it. The layouts are in
//! `segments.rs`.
//!
//! Only right for a directory that was not cut off from power: there, what sled takes for overwritten
//! may be just that. Deliberately absent: the end of the log, which may be torn after a kill, and of
//! which the mark says how far it must go (`mark.rs`).

use std::fs::File;
use std::io;
use std::path::Path;

use crate::segments::{Header, SEGMENT, headers, snapshot};

/// The first damage to what sled will replay in `directory`.
pub(crate) fn damage(directory: &Path) -> io::Result<Option<String>> {
    let db = File::open(directory.join("db"))?;
    let from = snapshot(directory)? / SEGMENT * SEGMENT;
    let mut segments = Vec::new();
    for header in headers(&db)? {
        match header {
            Header::Right(segment) if segment.lsn >= from => segments.push(segment),
            Header::Right(_) | Header::Free => {}
            Header::Damaged(at) => {
                return Ok(Some(format!("the segment at {at} of its file db is damaged")));
            }
        }
    }
    // What is its own anchor says nothing of the segment just before it.
    let stable = segments.iter().map(|segment| segment.stable.min(segment.lsn.saturating_sub(1)));
    let end = stable.max().unwrap_or(from) / SEGMENT * SEGMENT;
    for segment in segments.iter().filter(|segment| segment.lsn < end) {
        let messages = segment.messages(&db)?;
        if !messages.whole {
            let at = segment.at + messages.end - segment.lsn;
            return Ok(Some(format!("its file db is damaged at {at}")));
        }
    }
    Ok(None)
}
