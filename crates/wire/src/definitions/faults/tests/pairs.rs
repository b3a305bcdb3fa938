//! Every two fields of a step together: they mean something, or one of them is refused.

use callboard_domain::plan::StepSource;
use serde_json::{Map, Value, json};

use super::faults;
use crate::read::Components;

/// Every field of a step besides its id, with a value, and the fields without which it has no meaning.
fn fields() -> Vec<(&'static str, Value, &'static [&'static str])> {
    vec![
        ("prompt", json!("p"), &[]),
        ("title", json!("t {{input.x}}"), &["prompt"]),
        ("systemPrompt", json!("s"), &["prompt"]),
        ("messages", json!([{"role": "user", "content": "c"}]), &["prompt"]),
        ("files", json!(["{{input.scan}}"]), &[]),
        ("function", json!("f"), &[]),
        ("args", json!({"a": "{{input.x}}"}), &["function"]),
        ("dependsOn", json!(["z"]), &[]),
        ("condition", json!("true"), &[]),
        ("requiresApproval", json!(true), &["prompt"]),
        ("review", json!({"show": ["{{input.x}}"]}), &["prompt"]),
        ("type", json!("wait"), &["signal"]),
        ("signal", json!("go"), &["type"]),
        ("schema", json!({"type": "object"}), &["type", "signal"]),
        ("model", json!("m"), &["prompt"]),
        ("models", json!(["m", "n"]), &["prompt"]),
        ("fallbackOn", json!(["timeout"]), &["prompt"]),
        ("serviceTier", json!("flex"), &["prompt"]),
        ("queue", json!("q"), &["prompt"]),
        ("timeoutMs", json!(1_000), &[]),
        ("retry", json!({"maxAttempts": 2}), &["prompt"]),
        ("maxTokens", json!(5), &["prompt"]),
        ("temperature", json!(0.5), &["prompt"]),
        ("topP", json!(0.5), &["prompt"]),
        ("seed", json!(7), &["prompt"]),
        ("stop", json!(["x"]), &["prompt"]),
        ("frequencyPenalty", json!(0.5), &["prompt"]),
        ("forEach", json!("{{input.list}}"), &["prompt", "maxItems"]),
        ("item", json!("row"), &["prompt", "forEach", "maxItems"]),
        ("maxItems", json!(5), &["prompt", "forEach"]),
        ("concurrency", json!(2), &["prompt", "forEach", "maxItems"]),
        ("onItemError", json!("skip"), &["prompt", "forEach", "maxItems"]),
        ("minSuccess", json!(0.5), &["prompt", "forEach", "maxItems", "onItemError"]),
        ("concurrencyKey", json!("k"), &["prompt"]),
        ("concurrencyLimit", json!(2), &["prompt", "concurrencyKey"]),
        ("onConflict", json!("queue"), &["prompt", "concurrencyKey"]),
        ("fairnessKey", json!("f"), &["prompt"]),
        ("weight", json!(2), &["prompt", "fairnessKey"]),
        ("outputSchema", json!({"type": "object"}), &["prompt"]),
        ("confidence", json!({"method": "none"}), &["prompt"]),
    ]
}

/// The fields of a step that waits; each other one is refused beside `type: wait` and those that need it.
const OF_WAITS: [&str; 6] = ["dependsOn", "condition", "timeoutMs", "type", "signal", "schema"];

/// The fields of a step that calls a model; each is refused beside `function`, and beside those that need it.
const OF_MODELS: [&str; 14] = [
    "prompt",
    "systemPrompt",
    "messages",
    "model",
    "models",
    "fallbackOn",
    "serviceTier",
    "maxTokens",
    "temperature",
    "topP",
    "seed",
    "stop",
    "frequencyPenalty",
    "confidence",
];

/// The fields of a step that calls a model of which one is refused beside the other.
const AGAINST: [(&str, &str, &str); 2] =
    [("model", "models", "format"), ("model", "fallbackOn", "unknown")];

/// The field of the two that is refused, with the rule.
fn refused<'f>(one: &'f str, other: &'f str) -> Option<(&'f str, &'static str)> {
    let waits = |name| ["type", "signal", "schema"].contains(&name);
    if waits(one) && !OF_WAITS.contains(&other) {
        return Some((other, "unknown"));
    }
    let calls = |name| ["function", "args"].contains(&name);
    if calls(one) && OF_MODELS.contains(&other) {
        return Some((other, "unknown"));
    }
    let against = |it: &&(&str, &str, &str)| (it.0, it.1) == (one, other);
    AGAINST.iter().find(against).map(|(_, field, rule)| (*field, *rule))
}

#[test]
fn every_two_fields_of_a_step_mean_something_or_one_is_refused() {
    let fields = fields();
    let value = |name: &str| {
        let found = fields.iter().find(|(known, ..)| *known == name).expect("a field");
        (name.to_owned(), found.1.clone())
    };
    let needs = |name: &str| {
        let found = fields.iter().find(|(known, ..)| *known == name).expect("a field");
        found.2
    };
    let mut count = 0;
    for (number, (one, ..)) in fields.iter().enumerate() {
        for (other, ..) in &fields[number + 1..] {
            let expected = refused(one, other).or_else(|| refused(other, one));
            let all = [&[*one, *other][..], needs(one), needs(other)].concat();
            let (is_wait, is_call) = (all.contains(&"type"), all.contains(&"function"));
            let mut step: Map<_, _> = all.iter().map(|name| value(name)).collect();
            step.insert("id".into(), json!("a"));
            // A field that is refused in a wait needs nothing: it is alone there.
            if is_wait && expected.is_some() {
                step.retain(|name, _| {
                    ["id", "type", "signal", one, other].contains(&name.as_str())
                });
            } else if is_call {
                step.retain(|name, _| name != "prompt" || [*one, *other].contains(&"prompt"));
            } else if !is_wait {
                step.extend([value("prompt")]);
            }
            let steps = json!([step, {"id": "z", "prompt": "p"}]);
            let found = faults(json!({"name": "n", "steps": steps}));
            let expected = expected.map(|(field, rule)| (format!("steps[0].{field}"), rule.into()));
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{one} and {other}");
            count += 1;
        }
    }
    assert_eq!(count, fields.len() * (fields.len() - 1) / 2);
}

/// A field that is added must be in the table.
#[test]
fn the_table_has_every_field_of_a_step() {
    let mut components = Components::default();
    let _ = components.reference::<StepSource>();
    let known =
        components.schemas["StepRequest"]["properties"].as_object().expect("an object").keys();
    let mut known: Vec<_> = known.map(String::as_str).filter(|name| *name != "id").collect();
    let mut fields: Vec<_> = fields().into_iter().map(|(name, ..)| name).collect();
    known.sort_unstable();
    fields.sort_unstable();
    assert_eq!(fields, known);
}
