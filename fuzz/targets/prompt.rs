//! Prompts with placeholders: rendering is one pass, within its limit.
#![no_main]

use callboard_domain::render::{MAX_PROMPT, Meta, Output, PromptTemplate, Scope};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

struct Values<'a>(Map<String, Value>, &'a str);

impl Scope for Values<'_> {
    fn input(&self) -> &Map<String, Value> {
        &self.0
    }
    fn output(&self, _: &str) -> Output<'_> {
        Output::Completed(self.1)
    }
    fn env(&self, _: &str) -> Option<&str> {
        Some(self.1)
    }
    fn meta(&self, _: Meta) -> Option<&str> {
        Some("name")
    }
}

fuzz_target!(|texts: (&str, &str)| {
    let (source, value) = texts;
    let input = [("x".to_owned(), Value::String(value.to_owned()))].into_iter().collect();
    let (template, faults) = PromptTemplate::parse(source);
    assert_eq!(template.source(), source);
    let scope = Values(input, value);
    if let Ok(rendered) = template.render(&scope) {
        assert!(rendered.len() <= MAX_PROMPT);
        if faults.is_empty() && !source.contains("{{") {
            assert_eq!(rendered, source);
        }
    }
});
