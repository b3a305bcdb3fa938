//! YAML documents: a value that is read can be written as JSON and is read again as the same.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_protocol::document::{Format, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = bounded(|| parse(bytes, Format::Yaml)) {
        let written = serde_json::to_vec(&value).expect("a value is written");
        assert_eq!(parse(&written, Format::Json).ok(), Some(value));
    }
});
