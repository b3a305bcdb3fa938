//! Query strings of lists.
#![no_main]

use callboard::wire::read::query;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = query::parse::<callboard::wire::tasks::ListTasks>(text);
});
