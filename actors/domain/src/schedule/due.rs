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

/// The delay of an occurrence.
pub(super) fn delay(schedule: ScheduleId, at: Timestamp, jitter_ms: u64) -> Duration {
    if jitter_ms == 0 {
        return Duration::ZERO;
    }
    let mut hash = Sha256::new();
    hash.update(schedule.as_u128().to_be_bytes());
    hash.update(at.as_millis().to_be_bytes());
    let bytes: [u8; 32] = hash.finalize().into();
    let (head, _) = bytes.split_first_chunk().expect("a digest has 32 bytes");
    Duration::from_millis(u64::from_be_bytes(*head) % (jitter_ms + 1))
}

/// The due occurrences; `None` if there is none. Occurrences become due in their order: while the delay
/// of one runs, those after it wait.
pub(super) fn due(schedule: &Schedule, timetable: &Timetable, now: Timestamp) -> Option<Due> {
    let next = schedule.next?;
    let fires = |at: Timestamp| at.after(schedule.delay(at));
    if fires(next) > now {
        return None;
    }
    // The list has one more than ever runs, to see if some are left out.
    let ahead = timetable.backwards(schedule.cursor, now);
    let mut found: Vec<_> = ahead.take(MAX_CAUGHT_UP + 1).collect();
    found.reverse();
    let ripe = found.iter().take_while(|at| fires(**at) <= now).count();
    found.truncate(ripe.max(1));
    let last = *found.last().unwrap_or(&next);
    let is_late = now.since(fires(last)) > ON_TIME;
    let first = match schedule.settings.catch_up {
        CatchUp::None if is_late => found.len(),
        CatchUp::None | CatchUp::Last => found.len().saturating_sub(1),
        CatchUp::All => found.len().saturating_sub(MAX_CAUGHT_UP),
    };
    let run = found.split_off(first.min(found.len()));
    Some(Due { run, missed: found.last().copied(), last })
}
