//! Web addresses and e-mail addresses in requests.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_domain::account::Email;
use callboard_wire::read;
use callboard_wire::tasks::CreateTask;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let body = serde_json::json!({"prompt": "x", "callbackUrl": text}).to_string();
    let _ = bounded(|| read::body::<CreateTask>(body.as_bytes()));
    let _ = bounded(|| Email::parse(text));
});
