//! Query strings of lists.
#![no_main]

use callboard_wire::read::query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = query::parse::<callboard_wire::tasks::ListTasks>(text);
});
