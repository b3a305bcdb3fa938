//! The way back: the groups of an archive, in order, up to a moment.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::{HEADER, Segment, segments};
use crate::Error;
use crate::batch::Epoch;
use crate::directory::{corrupt, io_error};
use crate::journal::{lineage, number};

/// A restored archive: its groups between two moments.
#[derive(Debug)]
pub struct ArchiveReader {
    segments: Vec<PathBuf>,
    lineage: u32,
    next: u64,
}

impl ArchiveReader {
    /// A reader of the groups after number `after` of the directory with this lineage.
    ///
    /// # Errors
    /// [`Error::Io`] if the archive cannot be read.
    pub fn open(directory: &Path, lineage: u32, after: u64) -> Result<Self, Error> {
        let all = segments(directory, lineage).map_err(|error| io_error(&error))?;
        let begin = all.range(..=after + 1).next_back().map_or(0, |(first, _)| *first);
        let segments = all.range(begin..).rev().map(|(_, path)| path.clone()).collect();
        Ok(Self { segments, lineage, next: after + 1 })
    }

    /// Hands every group up to `until` (milliseconds since 1970) to `each`, with the time at which it was
    /// archived and the epoch of its opening, in order. Returns the number of the last one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a group before `until` is missing, [`Error::Io`] if the archive cannot be read,
    /// and the errors of `each`.
    pub fn read(
        mut self,
        until: u64,
        mut each: impl FnMut(u64, Epoch, &Bytes) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        while let Some(path) = self.segments.pop() {
            let segment = Segment::read(&path).map_err(|error| io_error(&error))?;
            let Some(segment) = segment.filter(|segment| lineage(segment.salt) == self.lineage)
            else {
                // The header was torn before a group followed, or is damaged: then a group is missing, as the
                // next segment shows.
                let length = fs::metadata(&path).map_err(|error| io_error(&error))?.len();
                if self.segments.is_empty() && length > HEADER as u64 {
                    return Err(self.damaged(&path));
                }
                continue;
            };
            let mut records = segment.records();
            for (time, group) in records.by_ref() {
                let number = number(&group);
                if number < self.next {
                    continue;
                }
                // The missing groups may be from before `until`, whatever comes behind them.
                if number > self.next {
                    let reason = format!("group {} of the journal is not in it", self.next);
                    return Err(corrupt(&path, &reason));
                }
                if time > until {
                    return Ok(self.next - 1);
                }
                each(time, segment.epoch, &group)?;
                self.next += 1;
            }
            // Groups that the next segment has again were torn in this one.
            if self.segments.is_empty() && records.is_damaged(until) {
                return Err(self.damaged(&path));
            }
        }
        Ok(self.next - 1)
    }

    fn damaged(&self, path: &Path) -> Error {
        let last = self.next - 1;
        let reason = format!(
            "it is damaged behind group {last} of the journal; an earlier moment can be restored"
        );
        corrupt(path, &reason)
    }
}
