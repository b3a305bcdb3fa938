//! Steps that call a function: the checks of the call and of the fields beside it.

use super::source::StepSource;
use crate::error::Rule;
use crate::function::{Call, MAX_ARGS, NAME_PATTERN, is_name, json_length};
use crate::problem::Problem;

/// The fault of a field that a call of a function has no use for, which follows the field's name.
pub const FOREIGN: &str = "does not apply beside function, which calls no model";

/// The faults of a call: field, rule, and words that follow the field's name.
#[must_use]
pub fn call_faults(call: &Call) -> Vec<(&'static str, Rule, String)> {
    let mut faults = Vec::new();
    if !is_name(&call.function) {
        faults.push(("function", Rule::Pattern, format!("must match {NAME_PATTERN}")));
    }
    if json_length(&call.args) > MAX_ARGS {
        let says = format!("must have at most {MAX_ARGS} bytes as compact JSON");
        faults.push(("args", Rule::Length, says));
    }
    faults
}

/// A fault for each field that a step with a call has no use for; `at` is the path of the step.
pub(super) fn foreign(step: &StepSource, at: &str) -> Vec<Problem> {
    let given = [
        ("prompt", !step.prompt.is_empty()),
        ("systemPrompt", step.system_prompt.is_some()),
        ("messages", !step.messages.is_empty()),
        ("model", step.model.is_some()),
        ("models", !step.routing.models.is_empty()),
        ("fallbackOn", step.routing.fallback_on.is_some()),
        ("serviceTier", step.routing.service_tier.is_some()),
        ("maxTokens", step.max_tokens.is_some()),
        ("temperature", step.temperature.is_some()),
        ("confidence", step.confidence.is_some()),
    ];
    let sampling = step.sampling.given().map(|name| (name, true));
    let given = given.into_iter().chain(sampling).filter(|(_, is_given)| *is_given);
    given.map(|(name, _)| Problem::rule(Rule::Unknown, format!("{at}.{name}"), FOREIGN)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::{Plan, PlanSource};
    use crate::task::Sampling;

    fn step(function: &str, args: &Value) -> StepSource {
        let args = args.as_object().cloned().unwrap_or_default();
        let call = Some(Call { function: function.into(), args });
        StepSource { id: "a".into(), call, ..StepSource::default() }
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
    fn a_call_needs_no_prompt_and_its_args_are_templates() {
        let args = json!({"id": "{{input.id}}", "plain": [1, {"note": "for {{input.name}}"}]});
        let source = PlanSource {
            name: "p".into(),
            steps: vec![step("lookup", &args)],
            ..PlanSource::default()
        };
        let plan = Plan::compile(source, &[]).expect("it is sound");
        assert!(plan.steps()[0].args().is_some());
        assert_eq!(plan.input_fields().into_iter().collect::<Vec<_>>(), ["id", "name"]);
        assert_eq!(plan.steps()[0].source().first_model().as_deref(), Some("function:lookup"));
    }

    #[test]
    fn every_field_that_a_call_has_no_use_for_is_a_fault() {
        let step = StepSource {
            prompt: "p".into(),
            system_prompt: Some("s".into()),
            model: Some("m".into()),
            max_tokens: Some(1),
            temperature: Some(0.5),
            sampling: Sampling { seed: Some(7), ..Sampling::default() },
            ..step("lookup", &json!({}))
        };
        let expected = ["prompt", "systemPrompt", "model", "maxTokens", "temperature", "seed"];
        assert_eq!(faults(step), expected.map(|field| fault(field, "unknown")));
    }

    #[test]
    fn a_fault_of_args_names_its_place() {
        let args = json!({"a": {"b": ["x", "{{other.output}}"]}, "c": "{{input.x"});
        let expected = [fault("args.a.b[1]", "MISSING_DEPENDENCY"), fault("args.c", "placeholder")];
        assert_eq!(faults(step("lookup", &args)), expected);
        assert_eq!(faults(step("Lookup", &json!({}))), [fault("function", "pattern")]);
        let long = json!({"a": "x".repeat(MAX_ARGS)});
        assert_eq!(faults(step("lookup", &long)), [fault("args", "length")]);
    }

    #[test]
    fn a_model_has_no_name_that_stands_for_a_function() {
        let prompt = || StepSource { id: "a".into(), prompt: "p".into(), ..StepSource::default() };
        let model = StepSource { model: Some("function:f".into()), ..prompt() };
        assert_eq!(faults(model.clone()), [fault("model", "reserved")]);
        let source = PlanSource { name: "p".into(), steps: vec![model], ..PlanSource::default() };
        assert!(Plan::restored(source).is_ok(), "one that was taken once is still read");
        let mut listed = prompt();
        listed.routing.models = vec!["m".into(), "function:f".into()];
        assert_eq!(faults(listed), [fault("models[1]", "reserved")]);
    }
}
