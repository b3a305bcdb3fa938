//! JSON documents: serde_json reads every accepted one as the same value.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_protocol::document::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = bounded(|| parse(bytes, Format::Json)) {
        assert_eq!(serde_json::from_slice::<serde_json::Value>(bytes).ok(), Some(value));
    }
});
