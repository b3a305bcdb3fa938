use serde_json::json;

use super::*;
use crate::error::Rule;
use crate::function::Call;
use crate::plan::Step;
use crate::problem::{Code, Problem};

fn step(id: &str, depends_on: &[&str], prompt: &str) -> StepSource {
    StepSource {
        id: id.to_owned(),
        prompt: prompt.to_owned(),
        depends_on: depends_on.iter().map(|&id| id.to_owned()).collect(),
        ..StepSource::default()
    }
}

fn review() -> TemplateSource {
    TemplateSource {
        name: "Contract Review".to_owned(),
        version: "1.2.0".to_owned(),
        industry: "legal".to_owned(),
        input_schema: json!({"type": "object", "properties": {"contract": {"type": "string"}}}),
        steps: vec![
            step("extract", &[], "{{input.contract}}"),
            step("report", &["extract"], "{{extract.output}} for {{meta.templateName}}"),
        ],
        ..TemplateSource::default()
    }
}

fn compile(source: TemplateSource) -> Template {
    Template::compile(source, &[]).unwrap()
}

fn faults(source: TemplateSource) -> Vec<(String, Code)> {
    let problems = Template::compile(source, &[]).unwrap_err();
    problems.all().iter().map(|Problem { field, code, .. }| (field.clone(), *code)).collect()
}

#[test]
fn a_template_has_an_id_of_its_slug_and_its_major_version() {
    let template = compile(review());
    assert_eq!(template.id(), "contract-review-v1");
    assert_eq!(template.version().to_string(), "1.2.0");
    assert_eq!(template.industry(), Industry::Legal);
    assert_eq!(template.visibility(), Visibility::Private);
}

#[test]
fn every_rule_of_a_template_is_told_in_the_order_of_the_document() {
    let rule = Code::Validation;
    let source = TemplateSource {
        name: "合同".to_owned(),
        version: "1.0".to_owned(),
        industry: "mining".to_owned(),
        visibility: Some("secret".to_owned()),
        output_schema: Some(json!({"$ref": "http://x/"})),
        steps: vec![step("extract", &[], "{{input.nothing}}")],
        defaults: Some(Defaults {
            timeout_ms: Some(0),
            temperature: Some(2.0),
            ..Defaults::default()
        }),
        hitl: Some(HitlSource {
            required_for: Some(vec!["nobody".to_owned()]),
            ..HitlSource::default()
        }),
        metadata: json!({"estimates": {"cost": "cheap", "durationMs": -1}}).as_object().cloned(),
        ..review()
    };
    let expected = [
        ("name", rule(Rule::Pattern)),
        ("version", rule(Rule::Pattern)),
        ("industry", rule(Rule::Enum)),
        ("visibility", rule(Rule::Enum)),
        ("outputSchema.$ref", rule(Rule::Ref)),
        ("steps[0].prompt", Code::InvalidInputRef),
        ("defaults.timeoutMs", rule(Rule::Range)),
        ("defaults.temperature", rule(Rule::Range)),
        ("hitl.requiredFor[0]", rule(Rule::Step)),
        ("metadata.estimates.cost", rule(Rule::Type)),
        ("metadata.estimates.durationMs", rule(Rule::Range)),
    ];
    assert_eq!(faults(source), expected.map(|(field, code)| (field.to_owned(), code)));
}

#[test]
fn a_broken_schema_is_told_alone_and_not_once_more_for_each_reference() {
    let source = TemplateSource { input_schema: json!([]), ..review() };
    assert_eq!(faults(source), [("inputSchema".to_owned(), Code::Validation(Rule::Type))]);
}

#[test]
fn a_condition_too_may_only_name_declared_fields() {
    let mut source = review();
    source.steps[1].condition = Some("{{input.other}} == 1 || input.contract == ''".to_owned());
    assert_eq!(faults(source), [("steps[1].condition".to_owned(), Code::InvalidInputRef)]);
}

#[test]
fn held_steps_are_those_with_an_approval_of_their_own_in_their_order() {
    let mut source = review();
    source.steps[1].requires_approval = true;
    source.hitl = Some(HitlSource {
        required_for: Some(vec!["report".to_owned(), "extract".to_owned()]),
        ..HitlSource::default()
    });
    assert_eq!(compile(source).hitl_steps(), ["extract", "report"]);
    assert!(compile(review()).hitl_steps().is_empty());
}

#[test]
fn a_deploy_fills_in_the_defaults_and_then_the_overrides() {
    let mut source = review();
    source.defaults = Some(Defaults {
        model: Some("base".to_owned()),
        max_tokens: Some(100),
        ..Defaults::default()
    });
    source.steps[1].model = Some("own".to_owned());
    let overrides = Overrides {
        models: BTreeMap::from([("extract".to_owned(), "other".to_owned())]),
        queues: BTreeMap::from([("report".to_owned(), "slow".to_owned())]),
        hitl: Some(HitlSource { confidence_threshold: Some(0.5), ..HitlSource::default() }),
    };
    let Deployment { plan, hitl } = compile(source).deploy(&overrides, &[]).unwrap();
    let steps: Vec<_> = plan.steps().iter().map(Step::source).collect();
    assert_eq!(steps[0].model.as_deref(), Some("other"));
    assert_eq!(steps[1].model.as_deref(), Some("own"));
    assert_eq!(steps[1].queue.as_deref(), Some("slow"));
    assert_eq!(steps[0].max_tokens, Some(100));
    assert_eq!(hitl, overrides.hitl);
    assert_eq!(plan.source().name, "Contract Review");
}

#[test]
fn an_override_of_a_step_that_does_not_exist_is_refused() {
    let of = |id: &str| BTreeMap::from([(id.to_owned(), "m".to_owned())]);
    let overrides = Overrides {
        models: of("x"),
        queues: of("y"),
        hitl: Some(HitlSource {
            required_for: Some(vec!["z".to_owned()]),
            ..HitlSource::default()
        }),
    };
    let problems = compile(review()).deploy(&overrides, &[]).unwrap_err();
    let found: Vec<_> =
        problems.all().iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
    let expected = ["modelOverrides.x", "queueOverrides.y", "hitl.requiredFor[0]"];
    assert_eq!(found, expected.map(|field| (field, Code::Validation(Rule::Step))));
}

#[test]
fn a_fault_of_an_override_names_the_override() {
    let of = |id: &str, target: &str| BTreeMap::from([(id.to_owned(), target.to_owned())]);
    let overrides = Overrides {
        models: of("extract", ""),
        queues: of("report", &"q".repeat(129)),
        ..Overrides::default()
    };
    let problems = compile(review()).deploy(&overrides, &[]).unwrap_err();
    let found: Vec<_> =
        problems.all().iter().map(|problem| (problem.field.as_str(), problem.code)).collect();
    let expected = ["modelOverrides.extract", "queueOverrides.report"];
    assert_eq!(found, expected.map(|field| (field, Code::Validation(Rule::Length))));
}

#[test]
fn the_same_content_is_the_same_whatever_is_left_to_its_default() {
    let explicit = TemplateSource { visibility: Some("private".to_owned()), ..review() };
    assert!(compile(explicit).same_content(&compile(review())));
    let mut other = review();
    other.steps[0].prompt.push('!');
    assert!(!compile(other).same_content(&compile(review())));
}

#[test]
fn declared_estimates_are_read() {
    let metadata = json!({"estimates": {"cost": 0.045, "durationMs": 60_000}});
    let template = compile(TemplateSource { metadata: metadata.as_object().cloned(), ..review() });
    assert_eq!(template.declared_cost(), Some(0.045));
    assert_eq!(template.declared_duration_ms(), Some(60_000));
    assert_eq!(compile(review()).declared_cost(), None);
}

#[test]
fn private_templates_are_for_their_author_and_admins() {
    let caller = |account, role| Caller { account, role };
    let author = caller("usr_a", Role::Operator);
    let other = caller("usr_b", Role::Operator);
    let admin = caller("usr_c", Role::Admin);
    let owner = Some("usr_a");
    let sees = |visibility| [author, other, admin].map(|caller| may_see(visibility, owner, caller));
    assert_eq!(sees(Visibility::Private), [true, false, true]);
    assert_eq!(sees(Visibility::Organization), [true, true, true]);
    assert_eq!(sees(Visibility::Public), [true, true, true]);
    let adds = |name, owner| {
        [author, other, admin]
            .map(|caller| may_change("t-v1", name, owner, caller, "add to it").is_ok())
    };
    assert_eq!(adds("a@x", owner), [true, false, true]);
    assert_eq!(adds("a@x", None), [false, false, true]);
    assert_eq!(adds(BUILT_IN_AUTHOR, None), [false, false, false]);
}

#[test]
fn a_source_is_stored_and_read_back() {
    let stored = serde_json::to_string(&review()).unwrap();
    assert_eq!(serde_json::from_str::<TemplateSource>(&stored).unwrap(), review());
}

#[test]
fn the_defaults_of_models_are_none_of_a_step_that_calls_a_function() {
    let call = Some(Call { function: "lookup".into(), args: serde_json::Map::default() });
    let source = TemplateSource {
        steps: vec![
            StepSource { call, prompt: String::new(), ..step("extract", &[], "") },
            step("report", &["extract"], "{{extract.output}}"),
        ],
        defaults: Some(Defaults {
            model: Some("m".to_owned()),
            queue: Some("q".to_owned()),
            max_tokens: Some(5),
            temperature: Some(0.5),
            ..Defaults::default()
        }),
        ..review()
    };
    let template = compile(source);
    let deployed = template.deploy(&Overrides::default(), &[]).unwrap().plan;
    let [called, asked] = [0, 1].map(|step| deployed.steps()[step].source());
    assert_eq!(
        (called.model.as_deref(), called.max_tokens, called.temperature),
        (None, None, None)
    );
    assert_eq!((called.queue.as_deref(), asked.model.as_deref()), (Some("q"), Some("m")));
    let models = |id: &str, model: &str| Overrides {
        models: [(id.to_owned(), model.to_owned())].into(),
        ..Overrides::default()
    };
    for (overrides, field, rule) in [
        (models("extract", "m"), "modelOverrides.extract", Rule::Unknown),
        (models("report", "function:f"), "modelOverrides.report", Rule::Reserved),
    ] {
        let problems = template.deploy(&overrides, &[]).unwrap_err();
        let Problem { field: found, code, .. } = problems.first();
        assert_eq!((found.as_str(), *code), (field, Code::Validation(rule)));
    }
}
