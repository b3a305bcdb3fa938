//! The checks of the fields that only templates have, around those of plans.
//!
//! Deliberately absent: the graph and the fields of steps, which the plan's checker checks.

use serde_json::Value;

use super::Template;
use super::source::{Defaults, Industry, TemplateSource, Visibility};
use super::version::{Version, slug};
use crate::error::Rule;
use crate::fuel::OutOfFuel;
use crate::plan::{
    Checker, Declared, Inputs, check_flow, check_fraction, check_length, check_max_tokens,
    check_tags, check_timeout, compile_schema,
};
use crate::problem::{Problem, Problems};
use crate::schema::Schema;
use crate::task::MAX_TARGET;

/// The template, or all faults in the order of the document.
pub(super) fn check(source: TemplateSource, env_allow: &[String]) -> Result<Template, Problems> {
    let input_schema = compile_schema("inputSchema", &source.input_schema);
    let output_schema =
        source.output_schema.as_ref().map(|given| compile_schema("outputSchema", given));
    let output_schema = output_schema.transpose();
    let declared = input_schema.as_ref().map(Declared::of);
    let is_endless = matches!(declared, Ok(Err(OutOfFuel)));
    let inputs = declared.ok().and_then(Result::ok).map_or(Inputs::Unknown, Inputs::Declared);
    let mut checker = Checker::new(inputs, env_allow);
    if is_endless {
        let says = "has references that take too many steps to follow to its properties";
        checker.fault(Rule::Ref, "inputSchema", says);
    }

    checker.name_and_description(&source.name, source.description.as_deref());
    let slug = slug(&source.name);
    if slug.is_empty() && !source.name.is_empty() {
        checker.fault(
            Rule::Pattern,
            "name",
            "must have a letter a-z or a digit, because the id is derived from it",
        );
    }
    let version = source.version.parse::<Version>();
    if let Err(invalid) = version {
        checker.fault(Rule::Pattern, "version", &invalid.to_string());
    }
    let industry = Industry::parse(&source.industry);
    if industry.is_none() {
        let says = "must be one of legal, finance, devops, marketing, healthcare, custom";
        checker.fault(Rule::Enum, "industry", says);
    }
    check_tags(&mut checker.problems, &source.tags);
    let visibility =
        source.visibility.as_deref().map_or(Some(Visibility::Private), Visibility::parse);
    if visibility.is_none() {
        let says = "must be one of private, organization, public";
        checker.fault(Rule::Enum, "visibility", says);
    }
    checker.problems.extend(input_schema.as_ref().err().into_iter().flatten().cloned());
    checker.problems.extend(output_schema.as_ref().err().into_iter().flatten().cloned());
    checker.steps(&source.steps);
    check_last_schema(&mut checker.problems, &source);
    if let Some(defaults) = &source.defaults {
        check_defaults(&mut checker.problems, defaults);
    }
    checker.problems.extend(source.hitl.iter().flat_map(|hitl| hitl.faults(&source.steps)));
    check_estimates(&mut checker.problems, &source);

    let problems = checker.problems;
    Problems::none_of(problems)?;
    let sound = "a fault would have been reported";
    let version = version.expect(sound);
    Ok(Template {
        id: format!("{slug}-v{}", version.major),
        version,
        industry: industry.expect(sound),
        visibility: visibility.expect(sound),
        input_schema: input_schema.expect(sound),
        output_schema: output_schema.expect(sound),
        source,
    })
}

/// The template of a source that was checked before.
pub(super) fn restored(source: TemplateSource) -> Result<Template, Problems> {
    let not_valid = |field: &str| Problem::rule(Rule::Enum, field, "is not valid any more");
    let version = source.version.parse::<Version>().map_err(|_| not_valid("version"));
    let industry = Industry::parse(&source.industry).ok_or_else(|| not_valid("industry"));
    let visibility = source.visibility.as_deref();
    let visibility = visibility.map_or(Some(Visibility::Private), Visibility::parse);
    let visibility = visibility.ok_or_else(|| not_valid("visibility"));
    let version = version?;
    Ok(Template {
        id: format!("{}-v{}", slug(&source.name), version.major),
        version,
        industry: industry?,
        visibility: visibility?,
        input_schema: Schema::checked_before(&source.input_schema),
        output_schema: source.output_schema.as_ref().map(Schema::checked_before),
        source,
    })
}

/// The last step has one schema: the template's, or its own.
fn check_last_schema(problems: &mut Vec<Problem>, source: &TemplateSource) {
    let last = source.steps.last().filter(|step| step.output_schema.is_some());
    if let (Some(_), Some(_)) = (last, &source.output_schema) {
        let field = format!("steps[{}].outputSchema", source.steps.len() - 1);
        let says = "must be left out, because the template's outputSchema is the last step's";
        problems.push(Problem::rule(Rule::Reserved, field, says));
    }
}

fn check_defaults(problems: &mut Vec<Problem>, defaults: &Defaults) {
    let Defaults {
        model,
        queue,
        timeout_ms,
        max_tokens,
        temperature,
        routing,
        flow,
        output_schema,
        confidence,
    } = defaults;
    for (field, target) in [("defaults.model", model), ("defaults.queue", queue)] {
        if let Some(target) = target {
            check_length(problems, field, target, 1, MAX_TARGET);
        }
    }
    for (name, rule, says) in routing.faults(model.is_some()) {
        problems.push(Problem::rule(rule, format!("defaults.{name}"), says));
    }
    check_timeout(problems, "defaults.timeoutMs", *timeout_ms);
    check_max_tokens(problems, "defaults.maxTokens", *max_tokens);
    check_fraction(problems, "defaults.temperature", *temperature);
    check_flow(problems, "defaults.", flow);
    if let Some(source) = output_schema {
        problems.extend(compile_schema("defaults.outputSchema", source).err().unwrap_or_default());
    }
    problems.extend(confidence.iter().flat_map(|ask| ask.faults("defaults.confidence")));
}

fn check_estimates(problems: &mut Vec<Problem>, source: &TemplateSource) {
    for name in ["cost", "durationMs"] {
        let field = format!("metadata.estimates.{name}");
        match source.estimate(name).map(Value::as_f64) {
            Some(None) => problems.push(Problem::rule(Rule::Type, field, "must be a number")),
            Some(Some(figure)) if figure < 0.0 => {
                problems.push(Problem::rule(Rule::Range, field, "must not be negative"));
            }
            Some(Some(_)) | None => {}
        }
    }
}
