//! Conditions: compiled, and evaluated within their fuel.
#![no_main]

#[path = "../bound.rs"]
mod bound;

use bound::bounded;
use callboard_domain::condition::{Condition, FUEL, MAX_PLAN_PATTERNS};
use callboard_domain::fuel::Fuel;
use callboard_domain::pattern::Patterns;
use callboard_domain::render::{Meta, Output, Scope};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

struct Values(Map<String, Value>);

impl Scope for Values {
    fn input(&self) -> &Map<String, Value> {
        &self.0
    }
    fn output(&self, step: &str) -> Output<'_> {
        if step == "s" { Output::Skipped } else { Output::Completed(r#"{"a": [1, 2.5, "x", null]}"#) }
    }
    fn env(&self, _: &str) -> Option<&str> {
        None
    }
    fn meta(&self, _: Meta) -> Option<&str> {
        Some("name")
    }
}

fuzz_target!(|text: &str| {
    let mut patterns = Patterns::with_budget(MAX_PLAN_PATTERNS);
    let Ok(condition) = bounded(|| Condition::compile(text, &mut patterns)) else { return };
    let input = serde_json::json!({"n": 7, "list": [3, 1, 2], "text": "aaaaaaaaaaaaaaaaaaaaaaaa!", "o": {"p": true}});
    let Value::Object(input) = input else { unreachable!("it is an object") };
    let mut fuel = Fuel::new(FUEL);
    let first = bounded(|| condition.evaluate(&Values(input.clone()), &mut fuel));
    let second = condition.evaluate(&Values(input), &mut Fuel::new(FUEL));
    assert_eq!(first.is_ok(), second.is_ok(), "the same values give the same result");
});
