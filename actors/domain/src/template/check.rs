//! The checks of the fields that only templates have, around those of plans.

use serde_json::Value;

use super::Template;
use super::source::{Defaults, Industry, TemplateSource, Visibility};
use super::version::{Version, slug};
use crate::cost;
use crate::error::Rule;
use crate::fuel::{Fuel, OutOfFuel};
use crate::function::reserved;
use crate::plan::{
    self, Checker, Compiles, Declared, Inputs, check_flow, check_fraction, check_length,
    check_max_tokens, check_tags, check_timeout, compile_schema,
};
use crate::problem::{Problem, Problems};
use crate::schema::{BRIEF_FUEL, Schema};
use crate::task::MAX_TARGET;

/// The template, or all faults in the order of the document.
pub(super) fn check(source: TemplateSource, env_allow: &[String]) -> Result<Template, Problems> {
    Problems::none_of(cost::fault(schemas(&source)).into_iter().collect())?;
    let input_schema = compile_schema("inputSchema", &source.input_schema);
    let output_schema =
        source.output_schema.as_ref().map(|given| compile_schema("outputSchema", given));
    let output_schema = output_schema.transpose();
    let declared = input_schema.as_ref().map(Declared::of);
    let is_endless = matches!(declared, Ok(Err(OutOfFuel)));
    let inputs = declared.ok().and_then(Result::ok).map_or(Inputs::Unknown, Inputs::Declared);
    let mut checker = Checker::new(inputs, env_allow, Compiles::All);
    if is_endless {
        let says = "has references that take too many steps to follow to its properties";
        checker.fault(Rule::Ref, "inputSchema", says);
    }
    let faults = [input_schema.as_ref().err(), output_schema.as_ref().err()];
    let faults = faults.into_iter().flatten().flatten().cloned().collect();
    let words = check_fields(&mut checker, &source, faults, Compiles::All);
    let problems = checker.problems;
    Problems::none_of(problems)?;
    let sound = "a fault would have been reported";
    let (version, industry, visibility) = words.expect(sound);
    Ok(Template {
        id: format!("{}-v{}", slug(&source.name), version.major),
        version,
        industry,
        visibility,
        input_schema: input_schema.expect(sound),
        output_schema: output_schema.expect(sound),
        source,
    })
}

/// The faults that are seen without compiling anything.
pub(super) fn outer_faults(source: &TemplateSource, env_allow: &[String]) -> Vec<Problem> {
    let schema = Schema::checked_before(&source.input_schema);
    let declared = Declared::within(&schema, &mut Fuel::new(BRIEF_FUEL));
    let inputs = declared.ok().filter(|_| source.input_schema.is_object());
    let inputs = inputs.map_or(Inputs::Unknown, Inputs::Declared);
    let mut checker = Checker::new(inputs, env_allow, Compiles::Nothing);
    check_fields(&mut checker, source, Vec::new(), Compiles::Nothing);
    checker.problems
}

/// The schemas of a template, with their fields.
pub(super) fn schemas(source: &TemplateSource) -> impl Iterator<Item = (String, &Value)> {
    let of_defaults = source.defaults.as_ref().and_then(|it| it.output_schema.as_ref());
    let own = [
        ("inputSchema", Some(&source.input_schema)),
        ("outputSchema", source.output_schema.as_ref()),
        ("defaults.outputSchema", of_defaults),
    ];
    let own = own.into_iter().filter_map(|(name, schema)| Some((name.to_owned(), schema?)));
    own.chain(plan::schemas(&source.steps))
}

/// Checks all fields, those of steps included; `schemas` are the faults of the template's own schemas.
/// Returns the version, the industry and the visibility, if there are no faults of these.
fn check_fields(
    checker: &mut Checker<'_>,
    source: &TemplateSource,
    schemas: Vec<Problem>,
    depth: Compiles,
) -> Option<(Version, Industry, Visibility)> {
    checker.name_and_description(&source.name, source.description.as_deref());
    if slug(&source.name).is_empty() && !source.name.is_empty() {
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
    checker.problems.extend(schemas);
    checker.title(source.title.as_deref());
    checker.steps(&source.steps);
    check_last_schema(&mut checker.problems, source);
    if let Some(defaults) = &source.defaults {
        check_defaults(&mut checker.problems, defaults, depth);
    }
    checker.problems.extend(source.hitl.iter().flat_map(|hitl| hitl.faults(&source.steps)));
    check_estimates(&mut checker.problems, source);
    Some((version.ok()?, industry?, visibility?))
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

fn check_defaults(problems: &mut Vec<Problem>, defaults: &Defaults, depth: Compiles) {
    let Defaults {
        model,
        queue,
        timeout_ms,
        max_tokens,
        temperature,
        sampling,
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
    let listed = (0..).zip(&routing.models);
    let listed = listed.map(|(index, model)| (format!("defaults.models[{index}]"), model));
    let named = model.iter().map(|model| ("defaults.model".to_owned(), model));
    let faults = named.chain(listed).filter_map(|(field, model)| Some((field, reserved(model)?)));
    problems.extend(faults.map(|(field, says)| Problem::rule(Rule::Reserved, field, says)));
    for (name, rule, says) in routing.faults(model.is_some()).into_iter().chain(sampling.faults()) {
        problems.push(Problem::rule(rule, format!("defaults.{name}"), says));
    }
    check_timeout(problems, "defaults.timeoutMs", *timeout_ms);
    check_max_tokens(problems, "defaults.maxTokens", *max_tokens);
    check_fraction(problems, "defaults.temperature", *temperature);
    check_flow(problems, "defaults.", flow);
    if let Some(source) = output_schema {
        let compiled = depth.schema("defaults.outputSchema", source);
        problems.extend(compiled.err().unwrap_or_default());
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
