//! Instants, durations and cursors: what is read is written and read again as the same.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_common::duration;
use callboard_domain::Timestamp;
use callboard_wire::events::parse_cursor;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(at) = bounded(|| text.parse::<Timestamp>()) {
        assert_eq!(at.to_string().parse(), Ok(at));
    }
    if let Some(duration) = bounded(|| duration::parse(text)) {
        assert_eq!(duration::parse(&duration::format(duration)), Some(duration));
    }
    let _ = bounded(|| parse_cursor(text));
});
