//! Cron expressions and the names of time zones: read, and asked for their instants.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_domain::Timestamp;
use callboard_domain::schedule::{Timetable, Timing};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str)| {
    let (cron, zone) = texts;
    for zone in ["UTC", "Europe/Berlin", zone] {
        let timing = Timing::Cron { cron: cron.to_owned(), zone: zone.to_owned() };
        let Ok(table) = bounded(|| Timetable::compile(&timing)) else { continue };
        let now = Timestamp::from_millis(1_790_000_000_000);
        let next = bounded(|| table.next_after(now)).expect("it matches within 28 years");
        assert!(next > now);
        let last = bounded(|| table.backwards(now, next).next());
        assert_eq!(last, Some(next));
    }
});
