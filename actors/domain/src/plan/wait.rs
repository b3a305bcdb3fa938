//! Wait steps: a step that runs no model and waits for a signal from outside.
//!
//! ```text
//!   {"id": "paid", "type": "wait", "signal": "payment", "timeoutMs": 3600000, "schema": {…}}
//! ```

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::check::Compiles;
use super::limits::MAX_ID;
use super::source::StepSource;
use crate::error::Rule;
use crate::fuel::{Fuel, OutOfFuel};
use crate::problem::Problem;
use crate::schema::Schema;

/// The source of a wait: the fields that only a step of the type `wait` has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct WaitSource {
    /// The name of the signal.
    pub signal: String,
    /// The JSON Schema of the signal's payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// A wait that passed every check.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// The name of the signal.
    pub signal: String,
    /// The time after which the step fails, in milliseconds; `None` waits as long as the execution.
    pub timeout_ms: Option<u64>,
    /// The schema of the payload.
    pub schema: Option<Schema>,
}

impl WaitSource {
    /// The size, in bytes.
    pub(super) fn size(&self) -> usize {
        self.signal.len() + self.schema.as_ref().map_or(0, |schema| schema.to_string().len())
    }

    /// Checks and compiles the wait of `step`; `at` is the path of the step, such as `steps[2]`. Some fields
    /// without a meaning were taken once, so one that is stored may have them.
    pub(super) fn compile(
        &self,
        step: &StepSource,
        at: &str,
        depth: Compiles,
        is_stored: bool,
    ) -> Result<Wait, Vec<Problem>> {
        let mut problems = if is_stored { Vec::new() } else { foreign(step, at) };
        if !is_signal_name(&self.signal) {
            problems.push(Problem::rule(Rule::Pattern, format!("{at}.signal"), SIGNAL_RULE));
        }
        let schema = self.schema.as_ref();
        let schema = schema.map(|source| depth.schema(&format!("{at}.schema"), source));
        let schema = schema.transpose().unwrap_or_else(|faults| {
            problems.extend(faults);
            None
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Wait { signal: self.signal.clone(), timeout_ms: step.timeout_ms, schema })
    }
}

impl Wait {
    /// Checks a payload against the schema; the paths of the faults begin with `payload`.
    ///
    /// # Errors
    /// The fuel does not last.
    pub fn check(
        &self,
        payload: &Value,
        fuel: &mut Fuel,
    ) -> Result<Result<(), Vec<Problem>>, OutOfFuel> {
        let Some(schema) = &self.schema else { return Ok(Ok(())) };
        let renamed = |fault: Problem| {
            let inner = fault.field.strip_prefix("input").unwrap_or(&fault.field);
            let field = format!("payload{inner}");
            let message = match fault.message.strip_prefix("input") {
                Some(rest) => format!("payload{rest}"),
                None => fault.message.clone(),
            };
            Problem { field, message, ..fault }
        };
        let checked = schema.check_input(payload, fuel)?;
        Ok(checked.map_err(|faults| faults.into_iter().map(renamed).collect()))
    }
}

/// The text that prompts get for a payload: a string as it is, null as nothing, all else as compact
/// JSON.
#[must_use]
pub fn payload_text(payload: &Value) -> String {
    match payload {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    }
}

const SIGNAL_RULE: &str = "must match ^[A-Za-z0-9][A-Za-z0-9._-]*$ and have at most 64 characters";

/// True for the name of a signal: it is part of a path.
#[must_use]
pub fn is_signal_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_ID).contains(&name.len())
        && name.bytes().all(inner)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// A fault for each field that a wait has no use for.
fn foreign(step: &StepSource, at: &str) -> Vec<Problem> {
    let StepSource { map, routing, flow, .. } = step;
    let given = [
        ("prompt", !step.prompt.is_empty()),
        ("systemPrompt", step.system_prompt.is_some()),
        ("messages", !step.messages.is_empty()),
        ("files", !step.files.is_empty()),
        ("model", step.model.is_some()),
        ("function", step.call.is_some()),
        ("queue", step.queue.is_some()),
        ("requiresApproval", step.requires_approval),
        ("review", step.review.is_some()),
        ("retry", step.retry.is_some()),
        ("maxTokens", step.max_tokens.is_some()),
        ("temperature", step.temperature.is_some()),
        ("forEach", map.for_each.is_some()),
        ("item", map.item.is_some()),
        ("maxItems", map.max_items.is_some()),
        ("concurrency", map.concurrency.is_some()),
        ("onItemError", map.on_item_error.is_some()),
        ("minSuccess", map.min_success.is_some()),
        ("models", !routing.models.is_empty()),
        ("fallbackOn", routing.fallback_on.is_some()),
        ("serviceTier", routing.service_tier.is_some()),
        ("concurrencyKey", flow.concurrency_key.is_some()),
        ("concurrencyLimit", flow.concurrency_limit.is_some()),
        ("onConflict", flow.on_conflict.is_some()),
        ("fairnessKey", flow.fairness_key.is_some()),
        ("weight", flow.weight.is_some()),
        ("outputSchema", step.output_schema.is_some()),
        ("title", step.title.is_some()),
        ("confidence", step.confidence.is_some()),
    ];
    let fault = |(name, _): (&str, bool)| {
        let says = match name {
            "outputSchema" => {
                "does not apply to a step of the type wait: describe its payload in schema"
            }
            _ => "does not apply to a step of the type wait, which calls no model",
        };
        Problem::rule(Rule::Unknown, format!("{at}.{name}"), says)
    };
    let sampling = step.sampling.given().map(|name| (name, true));
    given.into_iter().chain(sampling).filter(|(_, is_given)| *is_given).map(fault).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{MapSource, Plan, PlanSource};

    fn wait(id: &str, signal: &str) -> StepSource {
        let wait = Some(WaitSource { signal: signal.into(), schema: None });
        StepSource { id: id.into(), wait, ..StepSource::default() }
    }

    fn faults(step: StepSource) -> Vec<(String, String)> {
        let source = PlanSource { name: "p".into(), steps: vec![step], ..PlanSource::default() };
        let of = |problem: &Problem| {
            let rule = problem.code.rule().map_or(problem.code.as_str(), |rule| rule.as_str());
            (problem.field.clone(), rule.to_owned())
        };
        match Plan::compile(source, &[]) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.all().iter().map(of).collect(),
        }
    }

    fn fault(field: &str, rule: &str) -> (String, String) {
        (format!("steps[0].{field}"), rule.to_owned())
    }

    #[test]
    fn a_wait_needs_no_prompt_and_compiles_its_schema() {
        let schema = Some(json!({"type": "object", "required": ["paid"]}));
        let wait_source = Some(WaitSource { signal: "payment".into(), schema });
        let step = StepSource { timeout_ms: Some(5), wait: wait_source, ..wait("a", "") };
        let source = PlanSource { name: "p".into(), steps: vec![step], ..PlanSource::default() };
        let plan = Plan::compile(source, &[]).expect("it is sound");
        let wait = plan.steps()[0].wait().expect("it is a wait");
        assert_eq!((wait.signal.as_str(), wait.timeout_ms), ("payment", Some(5)));
        let check = |payload| wait.check(&payload, &mut Fuel::new(100_000)).expect("it is small");
        assert_eq!(check(json!({"paid": 1})), Ok(()));
        let missing = check(json!({})).expect_err("paid is missing");
        assert_eq!(missing[0].field, "payload.paid");
        assert!(missing[0].message.starts_with("payload"), "{}", missing[0].message);
    }

    #[test]
    fn every_field_that_a_wait_has_no_use_for_is_a_fault() {
        let step = StepSource {
            prompt: "p".into(),
            model: Some("m".into()),
            requires_approval: true,
            max_tokens: Some(1),
            ..wait("a", "go")
        };
        let expected = ["prompt", "model", "requiresApproval", "maxTokens"];
        assert_eq!(faults(step), expected.map(|field| fault(field, "unknown")));
    }

    /// They were taken once, and meant nothing; `forEach` in a wait crashed its execution.
    #[test]
    fn a_stored_wait_keeps_the_fields_that_mean_nothing() {
        let for_each = Some("{{input.list}}".into());
        let step = StepSource {
            map: MapSource { for_each, max_items: Some(5), ..MapSource::default() },
            output_schema: Some(json!({"type": "object"})),
            ..wait("a", "go")
        };
        let expected = ["forEach", "maxItems", "outputSchema"];
        assert_eq!(faults(step.clone()), expected.map(|field| fault(field, "unknown")));
        let source = PlanSource { name: "p".into(), steps: vec![step], ..PlanSource::default() };
        let plan = Plan::restored(source).expect("it was taken");
        assert!(plan.steps()[0].wait().is_some() && plan.steps()[0].for_each().is_none());
    }

    #[test]
    fn a_name_that_no_path_can_hold_is_a_fault() {
        for name in ["", "a/b", ".a", "ä", &"a".repeat(65)] {
            assert_eq!(faults(wait("a", name)), [fault("signal", "pattern")], "{name}");
        }
        for name in ["a", "Order.paid_2-x", &"a".repeat(64)] {
            assert_eq!(faults(wait("a", name)), []);
        }
        let mut remote = wait("a", "go");
        let schema = Some(json!({"$ref": "http://x/y"}));
        remote.wait = Some(WaitSource { schema, signal: "go".into() });
        let found = faults(remote);
        assert_eq!(found.first().map(|(_, rule)| rule.as_str()), Some("ref"), "{found:?}");
    }

    #[test]
    fn the_text_of_a_payload_is_as_placeholders_insert_it() {
        assert_eq!(payload_text(&json!("a \"b\"")), "a \"b\"");
        assert_eq!(payload_text(&Value::Null), "");
        assert_eq!(payload_text(&json!({"b": 1, "a": [true]})), r#"{"b":1,"a":[true]}"#);
    }
}
