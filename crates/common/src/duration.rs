//! Durations as people write them: `500ms`, `60s`, `5m`, `24h`, `90d`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads digits followed by one unit; `None` for any other text.
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let count: u64 = count.parse().ok()?;
    count.checked_mul(*millis).map(Duration::from_millis)
}

/// Writes a duration in the largest unit that divides it, down to milliseconds.
#[must_use]
pub fn format(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let whole = |(_, unit): &&(&str, u64)| millis >= *unit && millis.is_multiple_of(*unit);
    let (name, unit) = UNITS.iter().rev().find(whole).unwrap_or(&UNITS[0]);
    format!("{}{name}", millis / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_digits_and_a_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("60s", 60_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("90d", 7_776_000_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "60",
            "60 s",
            "1.5s",
            "-1s",
            "60S",
            "1h30m",
            "99999999999999999999s",
            "9999999999999999d",
            "é",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(format(Duration::from_hours(36)), "36h");
        assert_eq!(format(Duration::from_millis(1500)), "1500ms");
        assert_eq!(format(Duration::ZERO), "0ms");
    }
}
