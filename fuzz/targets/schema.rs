//! JSON Schemas: compiled if their cost permits, and a value checked on fuel.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_domain::cost;
use callboard_domain::fuel::Fuel;
use callboard_domain::schema::{self, Schema};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|texts: (&str, &str)| {
    let (Ok(source), Ok(value)) =
        (serde_json::from_str::<Value>(texts.0), serde_json::from_str::<Value>(texts.1))
    else {
        return;
    };
    if bounded(|| cost::fault([("s".to_owned(), &source)])).is_some() {
        return;
    }
    if let Ok(schema) = bounded(|| Schema::compile("s", &source)) {
        let _ = bounded(|| schema.check_input(&value, &mut Fuel::new(schema::FUEL)));
    }
});
