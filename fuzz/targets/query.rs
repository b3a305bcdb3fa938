//! Query strings of lists.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_wire::read::query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = bounded(|| query::parse::<callboard_wire::tasks::ListTasks>(text));
});
