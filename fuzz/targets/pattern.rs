//! Regular expressions: their cost is told from their text, and bounds what their compilation takes.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_domain::cost;
use callboard_domain::pattern::{self, Patterns};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if bounded(|| pattern::cost(text)) <= cost::MAX {
        let _ = bounded(|| Patterns::with_budget(1 << 20).compile(text, 1 << 18));
    }
});
