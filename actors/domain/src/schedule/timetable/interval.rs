//! The instants of an expression with a `*` in its minute or its hour, which is an interval.
//!
//! ```text
//!                  change of the offset     change of the offset
//!   ──── stretch ──────────┼──── stretch ──────────┼──── stretch ───▶ time
//! ```
//!
//! Between two changes of a zone's offset the wall clock is time plus the offset, so each stretch is searched
//! with its own offset. A wall-clock time that the zone leaves out is in no stretch, and one that comes twice
//! is in two: an interval goes on evenly through both changes. This is the rule of vixie-cron and croner
//! (<https://docs.rs/croner/latest/croner/#daylight-saving-time-dst-handling>).

use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::{REPEATED_HOURS, instant};

/// The most stretches that a search looks at. One without an instant in any of them has times that the zone
/// leaves out, every year.
const MAX_STRETCHES: usize = 100;

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// True if an expression is an interval: its minute or its hour has a `*`.
pub(super) fn is_interval(cron: &Cron) -> bool {
    cron.pattern.minutes.from_wildcard || cron.pattern.hours.from_wildcard
}

/// The first instant at or after `start`, a whole second.
pub(super) fn first_from(cron: &Cron, zone: &TimeZone, start: Timestamp) -> Option<Timestamp> {
    let repeated = start.checked_add(SignedDuration::from_hours(REPEATED_HOURS)).ok()?;
    let mut at = start;
    for _ in 0..MAX_STRETCHES {
        let offset = zone.to_offset(at);
        let local = cron.find_next_occurrence(&offset.to_datetime(at), true).ok()?;
        let found = offset.to_timestamp(local).ok()?;
        let change = zone.following(at).next().map(|change| change.timestamp());
        let Some(change) = change.filter(|change| *change <= found) else { return Some(found) };
        // Later changes repeat no time before the start, so no instant precedes the one that was found.
        at = if change <= repeated { change } else { change.max(instant(zone, local)?) };
    }
    None
}

/// The last instant after `after` and up to `until`, a whole second.
pub(super) fn last_until(
    cron: &Cron,
    zone: &TimeZone,
    (after, until): (Timestamp, Timestamp),
) -> Option<Timestamp> {
    let mut at = until;
    while at > after {
        let offset = zone.to_offset(at);
        let local = cron.find_previous_occurrence(&offset.to_datetime(at), true).ok();
        let found = local.and_then(|local| offset.to_timestamp(local).ok());
        let Some(change) = last_change(zone, at) else { return found };
        if let Some(found) = found.filter(|found| *found >= change) {
            return Some(found);
        }
        at = change.checked_sub(SECOND).ok()?;
    }
    None
}

/// The last change of the offset at or before an instant.
fn last_change(zone: &TimeZone, at: Timestamp) -> Option<Timestamp> {
    let next = at.checked_add(SECOND).ok()?;
    zone.preceding(next).next().map(|change| change.timestamp())
}
