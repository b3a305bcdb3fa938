//! Timestamps: milliseconds of Unix time, written as ISO 8601 in UTC.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant: milliseconds since 1970-01-01T00:00:00Z, never before it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The last instant that has a four-digit year: 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(253_402_300_799_999);

    /// The instant `millis` milliseconds after the Unix epoch, at most [`Self::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        if millis > Self::MAX.0 { Self::MAX } else { Self(millis) }
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The instant `duration` after this one, in whole milliseconds.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }
}

/// The part of the time by which a process is behind the wall clock, or ahead of it, that it makes up for while
/// `elapsed` pass, all in milliseconds: an eighth of them at most, so that no wait is much shorter or longer for it.
#[must_use]
pub fn slew(behind: i64, elapsed: u64) -> i64 {
    // A process that did not look for long does not catch up with all of it at once.
    const LONGEST: u64 = 8_000;
    let most = (elapsed.min(LONGEST) / 8).cast_signed();
    behind.clamp(-most, most)
}

impl fmt::Display for Timestamp {
    /// `2026-11-21T04:53:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Formatted here because every list writes hundreds of them: days to a civil date by the
        // era method, in which a year begins in March.
        let (days, millis) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1000 % 60, millis % 1000);
        let mut text = *b"0000-00-00T00:00:00.000Z";
        let mut put = |digits: std::ops::Range<usize>, mut number: u64| {
            for digit in text[digits].iter_mut().rev() {
                *digit += u8::try_from(number % 10).expect("it is a digit");
                number /= 10;
            }
        };
        put(0..4, year);
        put(5..7, month);
        put(8..10, day);
        put(11..13, hour);
        put(14..16, minute);
        put(17..19, second);
        put(20..23, milli);
        f.write_str(str::from_utf8(&text).expect("it is ASCII"))
    }
}

/// A text that is not an ISO 8601 instant with an offset, or one outside the years 1970 to 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be an ISO 8601 instant such as 2026-11-21T04:53:00.000Z")]
pub struct InvalidTimestamp;

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let instant: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp)?;
        let millis = u64::try_from(instant.as_millisecond()).map_err(|_| InvalidTimestamp)?;
        if millis > Self::MAX.0 { Err(InvalidTimestamp) } else { Ok(Self(millis)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_process_follows_the_wall_clock_by_an_eighth_and_settles() {
        assert_eq!((slew(1, 8), slew(-1, 8), slew(0, 1_000)), (1, -1, 0));
        assert_eq!((slew(3_600_000, 1_000), slew(-360_000, 80)), (125, -10));
        assert_eq!(slew(i64::MIN, u64::MAX), -1_000);
        let (mut behind, mut looks) = (1_000, 0);
        while behind != 0 {
            behind -= slew(behind, 80);
            looks += 1;
        }
        assert_eq!(looks, 100);
    }

    #[test]
    fn an_instant_is_written_in_utc_with_milliseconds() {
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_millis(951_782_400_007).to_string(), "2000-02-29T00:00:00.007Z");
    }

    #[test]
    fn an_offset_is_understood_and_nonsense_is_refused() {
        let instant: Timestamp = "2026-11-21T06:53:00+02:00".parse().expect("ISO 8601");
        assert_eq!(instant.to_string(), "2026-11-21T04:53:00.000Z");
        for text in ["", "yesterday", "2026-11-21", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z"]
        {
            assert_eq!(text.parse::<Timestamp>(), Err(InvalidTimestamp), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_text_form_leads_back_to_the_instant(millis in 0..=Timestamp::MAX.as_millis()) {
            let instant = Timestamp::from_millis(millis);
            prop_assert_eq!(instant.to_string().parse(), Ok(instant));
        }
    }
}
