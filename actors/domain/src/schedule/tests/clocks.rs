//! Changes of the clocks: fixed times and intervals, in both directions.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::{at, next, table};
use crate::Timestamp;
use crate::schedule::{Timetable, TimetableError, Timing};

fn hours_before(at: Timestamp, hours: u64) -> Timestamp {
    Timestamp::from_millis(at.as_millis() - hours * 3_600_000)
}

#[test]
fn a_fixed_time_in_a_gap_moves_to_its_end_and_several_are_one() {
    // On 29 March 2026 clocks in Berlin go from 02:00 to 03:00, which is 01:00 UTC.
    let half_past = table("30 2 * * *", "Europe/Berlin");
    let found = next(&half_past, "2026-03-27T12:00:00Z", 3);
    assert_eq!(found, ["2026-03-28T01:30", "2026-03-29T01:00", "2026-03-30T00:30"]);
    let quarters = table("0,15,30,45 2,3 * * *", "Europe/Berlin");
    let found = next(&quarters, "2026-03-29T00:00:00Z", 5);
    let expected = ["01:00", "01:15", "01:30", "01:45"].map(|time| format!("2026-03-29T{time}"));
    assert_eq!((&found[..4], found[4].as_str()), (&expected[..], "2026-03-30T00:00"));
}

#[test]
fn a_fixed_time_that_comes_twice_runs_once() {
    // On 25 October 2026 clocks in Berlin go from 03:00 back to 02:00, which is 01:00 UTC.
    let half_past = table("30 2 * * *", "Europe/Berlin");
    let found = next(&half_past, "2026-10-24T12:00:00Z", 2);
    assert_eq!(found, ["2026-10-25T00:30", "2026-10-26T01:30"]);
    // From within the second pass, too.
    let listed = table("0,30 2,3 * * *", "Europe/Berlin");
    let found = next(&listed, "2026-10-24T23:45:00Z", 4);
    let expected = ["00:00", "00:30", "02:00", "02:30"].map(|time| format!("2026-10-25T{time}"));
    assert_eq!(found, expected);
    assert_eq!(next(&listed, "2026-10-25T01:10:00Z", 1), ["2026-10-25T02:00"]);
    let back: Vec<_> =
        listed.backwards(at("2026-10-24T23:45:00Z"), at("2026-10-25T01:10:00Z")).collect();
    assert_eq!(back, [at("2026-10-25T00:30:00Z"), at("2026-10-25T00:00:00Z")]);
}

#[test]
fn an_interval_goes_on_evenly_when_the_clocks_change() {
    for (cron, minutes, zone, day) in [
        ("*/15 * * * *", 15, "Europe/Berlin", "2026-10-25"),
        ("*/15 * * * *", 15, "Europe/Berlin", "2026-03-29"),
        ("* * * * *", 1, "America/New_York", "2026-11-01"),
        ("@hourly", 60, "America/New_York", "2026-03-08"),
        ("30 * * * *", 60, "Europe/Berlin", "2026-10-25"),
        ("30 * * * *", 60, "Europe/Berlin", "2026-03-29"),
        ("5,20,35,50 */1 * * *", 15, "Europe/Berlin", "2026-10-25"),
        // Lord Howe changes by half an hour, Santiago and Beirut at midnight, and Apia left out a day.
        ("*/30 * * * *", 30, "Australia/Lord_Howe", "2026-04-05"),
        ("*/15 * * * *", 15, "Australia/Lord_Howe", "2026-10-04"),
        ("0 * * * *", 60, "America/Santiago", "2026-04-05"),
        ("0 * * * *", 60, "America/Santiago", "2026-09-06"),
        ("0 * * * *", 60, "Asia/Beirut", "2026-03-29"),
        ("0 * * * *", 60, "Asia/Beirut", "2026-10-25"),
        ("*/20 * * * *", 20, "Pacific/Apia", "2011-12-30"),
    ] {
        let table = table(cron, zone);
        let mut last = table.next_after(hours_before(at(&format!("{day}T00:00:00Z")), 24)).unwrap();
        let until = last.after(std::time::Duration::from_hours(72));
        while last < until {
            let found = table.next_after(last).expect("there is always one");
            assert_eq!(found.since(last).as_secs(), 60 * minutes, "{cron} in {zone} after {last}");
            last = found;
        }
    }
}

#[test]
fn an_interval_within_an_hour_follows_the_hour() {
    let halves = table("*/30 2 * * *", "Europe/Berlin");
    let found = next(&halves, "2026-10-24T12:00:00Z", 5);
    let expected = ["00:00", "00:30", "01:00", "01:30"].map(|time| format!("2026-10-25T{time}"));
    assert_eq!((&found[..4], found[4].as_str()), (&expected[..], "2026-10-26T01:00"));
    // On the day on which the hour is left out, so is the interval.
    assert_eq!(next(&halves, "2026-03-28T12:00:00Z", 1), ["2026-03-30T00:00"]);
}

#[test]
fn an_expression_whose_times_are_always_left_out_is_refused() {
    let beginning = |cron: &str| {
        let timing = Timing::Cron { cron: cron.into(), zone: "Europe/Berlin".into() };
        Timetable::beginning(&timing, at("2026-01-01T00:00:00Z")).err()
    };
    // In Berlin the clocks go forward on the last Sunday in March.
    assert_eq!(beginning("*/15 2 * 3 SUN#L"), Some(TimetableError::LeftOut));
    assert_eq!(beginning("15 2 * 3 SUN#L"), None);
    assert_eq!(beginning("*/15 2-3 * 3 SUN#L"), None);
    assert_eq!(beginning("*/15 2 29 3 *"), None);
}

#[test]
fn a_day_matches_if_its_number_or_its_weekday_does() {
    let either = table("0 0 13 * FRI", "UTC");
    let found = next(&either, "2026-11-01T00:00:00Z", 4);
    let days = ["06", "13", "20", "27"].map(|day| format!("2026-11-{day}T00:00"));
    assert_eq!(found, days);
    assert_eq!(next(&either, "2026-12-11T00:00:00Z", 1), ["2026-12-13T00:00"]);
    let both = table("0 0 13 * +FRI", "UTC");
    assert_eq!(next(&both, "2026-11-14T00:00:00Z", 1), ["2027-08-13T00:00"]);
    // A field that is a star takes no part.
    let fridays = table("0 0 * * FRI", "UTC");
    assert_eq!(next(&fridays, "2026-12-11T00:00:00Z", 1), ["2026-12-18T00:00"]);
}

/// The wall-clock time of an instant.
fn shown(zone: &TimeZone, at: Timestamp) -> DateTime {
    let second = i64::try_from(at.as_millis() / 1000).expect("an instant of this age");
    zone.to_datetime(jiff::Timestamp::from_second(second).expect("an instant of this age"))
}

#[test]
fn an_interval_is_each_minute_whose_wall_clock_matches() {
    for (zone, day) in [
        ("Europe/Berlin", "2026-03-29"),
        ("Europe/Berlin", "2026-10-25"),
        ("Australia/Lord_Howe", "2026-04-05"),
        ("Australia/Lord_Howe", "2026-10-04"),
        ("America/Santiago", "2026-04-05"),
        ("Asia/Beirut", "2026-03-29"),
        ("Pacific/Apia", "2011-12-30"),
        ("Africa/Cairo", "2026-10-30"),
    ] {
        let known = TimeZone::get(zone).expect("a zone");
        let begin = hours_before(at(&format!("{day}T00:00:00Z")), 18);
        for cron in ["*/7 * * * *", "*/20 0-3 * * *", "13 */2 * * *", "*/25 1 * * SUN", "0 * L * *"]
        {
            let table = table(cron, zone);
            let Timetable::Cron(parsed, _) = &table else {
                unreachable!("it has a cron expression")
            };
            let minutes = (1..=36 * 60).map(|n| begin.after(std::time::Duration::from_mins(n)));
            let matches = |at: &Timestamp| parsed.is_time_matching(&shown(&known, *at)).unwrap();
            let expected: Vec<_> = minutes.filter(matches).collect();
            let end = begin.after(std::time::Duration::from_hours(36));
            let mut forwards = Vec::new();
            let mut last = begin;
            while let Some(found) = table.next_after(last).filter(|found| *found <= end) {
                forwards.push(found);
                last = found;
            }
            assert_eq!(forwards, expected, "{cron} in {zone}");
            let mut backwards: Vec<_> = table.backwards(begin, end).collect();
            backwards.reverse();
            assert_eq!(backwards, expected, "{cron} in {zone}, backwards");
        }
    }
}
