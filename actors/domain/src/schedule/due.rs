//! The occurrences whose time has come, and those of them that run.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{CatchUp, Schedule, Timetable};
use crate::Timestamp;
use crate::id::ScheduleId;

/// The longest delay with which an occurrence counts as on time.
pub const ON_TIME: Duration = Duration::from_mins(1);
/// The most occurrences that are made up for at once.
pub const MAX_CAUGHT_UP: usize = 100;

/// The occurrences whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The occurrences that run, in their order.
    pub run: Vec<Timestamp>,
    /// The last occurrence that is left out because it was missed.
    pub missed: Option<Timestamp>,
    /// The last occurrence of all: every one up to it is decided by this.
    pub last: Timestamp,
}

/// The delay of an occurrence: it ends before the occurrence that follows.
pub(super) fn delay(
    schedule: ScheduleId,
    (at, following): (Timestamp, Option<Timestamp>),
    jitter_ms: u64,
) -> Duration {
    let room = following.map_or(u64::MAX, |following| {
        following.as_millis().saturating_sub(at.as_millis()).saturating_sub(1)
    });
    let longest = jitter_ms.min(room);
    if longest == 0 {
        return Duration::ZERO;
    }
    let mut hash = Sha256::new();
    hash.update(schedule.as_u128().to_be_bytes());
    hash.update(at.as_millis().to_be_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    let (head, _) = bytes.split_first_chunk().expect("a digest has 32 bytes");
    Duration::from_millis(u64::from_be_bytes(*head) % (longest + 1))
}

/// The due occurrences; `None` if there is none. Each starts before the instant of the one after it, so they
/// become due in their order.
pub(super) fn due(schedule: &Schedule, timetable: &Timetable, now: Timestamp) -> Option<Due> {
    let next = schedule.next?;
    if schedule.wakes_at()? > now {
        return None;
    }
    // The list has one more than ever runs, to see if some are left out, and one that is delayed.
    let mut found = Vec::new();
    let mut following = None;
    for at in timetable.backwards(schedule.cursor, now).take(MAX_CAUGHT_UP + 2) {
        let is_delayed = schedule.settings.jitter_ms > 0;
        let after = following.or_else(|| timetable.next_after(at).filter(|_| is_delayed));
        found.push((at, schedule.starts_at(at, after)));
        following = Some(at);
    }
    found.reverse();
    found.retain(|(_, starts)| *starts <= now);
    let last = found.last().map_or(next, |(at, _)| *at);
    let late = found.iter().take_while(|(_, starts)| now.since(*starts) > ON_TIME).count();
    let newest = found.len().saturating_sub(1);
    let first = match schedule.settings.catch_up {
        CatchUp::None => late,
        CatchUp::Last => late.min(newest),
        CatchUp::All => found.len().saturating_sub(MAX_CAUGHT_UP),
    };
    let mut found: Vec<_> = found.into_iter().map(|(at, _)| at).collect();
    let run = found.split_off(first);
    Some(Due { run, missed: found.last().copied(), last })
}
