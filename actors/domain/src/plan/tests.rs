mod map;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::problem::Code;
use crate::render::MAX_PROMPT;
use crate::task::{Content, MAX_MESSAGES, Message, Part, Sampling};

fn step(id: &str, depends_on: &[&str]) -> StepSource {
    StepSource {
        id: id.to_owned(),
        prompt: "go".to_owned(),
        depends_on: depends_on.iter().map(|&id| id.to_owned()).collect(),
        ..StepSource::default()
    }
}

fn asks(id: &str, depends_on: &[&str], prompt: &str) -> StepSource {
    StepSource { prompt: prompt.to_owned(), ..step(id, depends_on) }
}

fn plan(steps: Vec<StepSource>) -> PlanSource {
    PlanSource { name: "A plan".to_owned(), steps, ..PlanSource::default() }
}

fn compile(steps: Vec<StepSource>) -> Plan {
    Plan::compile(plan(steps), &[]).unwrap()
}

fn faults_of(source: PlanSource) -> Vec<(String, Code)> {
    let problems = Plan::compile(source, &["REGION".to_owned()]).unwrap_err();
    problems.all().iter().map(|problem| (problem.field.clone(), problem.code)).collect()
}

fn faults(steps: Vec<StepSource>) -> Vec<(String, Code)> {
    faults_of(plan(steps))
}

type Faults = Vec<(String, Code)>;

fn one(field: &str, code: Code) -> Vec<(String, Code)> {
    vec![(field.to_owned(), code)]
}

#[test]
fn a_plan_knows_its_graph() {
    let plan = compile(vec![
        step("report", &["left", "right", "left"]),
        step("start", &[]),
        step("left", &["start"]),
        step("right", &["start"]),
        step("alone", &[]),
    ]);
    let graph = plan.graph();
    assert_eq!([0, 1, 2, 3, 4].map(|step| graph.level(step)), [2, 0, 1, 1, 0]);
    assert_eq!(graph.dependencies(0), [2, 3].into_iter().collect());
    assert_eq!(graph.dependents(1), [2, 3].into_iter().collect());
    assert_eq!(graph.name(0), "report");
    assert_eq!(plan.position("left"), Some(2));
}

#[test]
fn a_cycle_is_told_once_and_names_its_steps() {
    let problems = Plan::compile(
        plan(vec![
            step("behind", &["a"]),
            step("a", &["b"]),
            step("b", &["c"]),
            step("c", &["a"]),
            step("self", &["self"]),
            step("further", &["behind", "self"]),
            step("fine", &[]),
        ]),
        &[],
    )
    .unwrap_err();
    let found: Vec<_> =
        problems.all().iter().map(|problem| (problem.code, problem.message.as_str())).collect();
    assert_eq!(
        found,
        [
            (
                Code::CircularDependency,
                "steps[1].dependsOn closes a cycle: steps a, b, c depend on each other"
            ),
            (Code::CircularDependency, "steps[4].dependsOn makes step self depend on itself"),
            (
                Code::UnreachableStep,
                "steps[0].dependsOn puts step behind downstream of a cycle, so it could never start"
            ),
            (
                Code::UnreachableStep,
                "steps[5].dependsOn puts step further downstream of a cycle, so it could never start"
            ),
        ]
    );
}

#[test]
fn a_reference_must_name_a_step_that_exists_and_is_declared() {
    let two =
        |prompt: &str, depends_on: &[&str]| vec![step("a", &[]), asks("b", depends_on, prompt)];
    let prompt = "steps[1].prompt";
    assert_eq!(faults(two("{{x.output}}", &[])), one(prompt, Code::MissingDependency));
    assert_eq!(faults(two("{{a.output}}", &[])), one(prompt, Code::UndeclaredDependency));
    assert_eq!(faults(two("{{b.output}}", &[])), one(prompt, Code::UndeclaredDependency));
    assert_eq!(
        faults(two("{{b.output}}", &["b"])),
        one("steps[1].dependsOn", Code::CircularDependency)
    );
    assert_eq!(
        faults(two("{{x.output}} {{x.output.a}}", &["a", "x"])),
        one("steps[1].dependsOn[1]", Code::MissingDependency)
    );
    assert!(Plan::compile(plan(two("{{a.output.k}}", &["a"])), &[]).is_ok());
}

#[test]
fn the_conditions_of_a_plan_share_a_length() {
    let conditioned = |count: usize, length: usize| {
        let step = |n: usize| StepSource {
            id: format!("s{n}"),
            prompt: "x".to_owned(),
            condition: Some(format!("{:<length$}", "true")),
            ..StepSource::default()
        };
        let steps = (0..count).map(step).collect();
        let plan = PlanSource { name: "A plan".to_owned(), steps, ..PlanSource::default() };
        Plan::compile(plan, &[])
    };
    assert!(conditioned(500, 60).is_ok());
    let problems = conditioned(66, 1_000).unwrap_err();
    assert_eq!(problems.first().code, Code::InvalidCondition);
    assert_eq!(problems.first().field, "steps[65].condition");
}

#[test]
fn a_condition_is_checked_like_a_prompt() {
    let conditional = |condition: &str| {
        let condition = Some(condition.to_owned());
        vec![step("a", &[]), StepSource { condition, ..step("b", &["a"]) }, step("c", &[])]
    };
    let field = "steps[1].condition";
    for (condition, code) in [
        ("steps['x'].output == ''", Code::MissingDependency),
        ("steps.c.output == ''", Code::UndeclaredDependency),
        ("{{b.output}} == ''", Code::UndeclaredDependency),
        ("1 +", Code::InvalidCondition),
        ("{{env.REGION}} == ''", Code::InvalidCondition),
    ] {
        assert_eq!(faults(conditional(condition)), one(field, code), "{condition}");
    }
    let plan = compile(conditional("{{a.output}} == input.mode"));
    assert_eq!(plan.input_fields(), BTreeSet::from(["mode"]));
}

#[test]
fn every_fault_of_the_parts_of_a_message_is_found_at_its_place() {
    let rule = Code::Validation;
    for (text, file, end, code) in [
        ("{{", "{{input.x}}", "[0].text", rule(Rule::Placeholder)),
        ("x", "a.png", "[1].file", rule(Rule::Format)),
        ("x", "{{b.output}}", "[1].file", Code::MissingDependency),
    ] {
        let parts = vec![Part::Text { text: text.into() }, Part::Image { file: file.into() }];
        let message = Message { content: Content::Parts(parts), ..Message::default() };
        let found = faults(vec![StepSource { messages: vec![message], ..step("a", &[]) }]);
        assert_eq!(found, [(format!("steps[0].messages[0].content{end}"), code)], "{text}, {file}");
    }
}

#[test]
fn every_rule_of_a_field_is_told() {
    let rule = Code::Validation;
    let with = |change: fn(&mut StepSource)| {
        let mut changed = step("a", &[]);
        change(&mut changed);
        faults(vec![changed])
    };
    let says = |content: &str| {
        let content = ["x", content].map(Content::from);
        let message = |content| Message { content, ..Message::default() };
        faults(vec![StepSource { messages: content.map(message).into(), ..step("a", &[]) }])
    };
    let retry = |max_attempts, backoff_ms| {
        Some(RetrySource { max_attempts, backoff_ms, ..RetrySource::default() })
    };
    let cases: Vec<(Faults, &str, Code)> = vec![
        (with(|step| step.id = String::new()), "steps[0].id", rule(Rule::Length)),
        (with(|step| step.id = "a".repeat(65)), "steps[0].id", rule(Rule::Length)),
        (with(|step| step.id = "A".to_owned()), "steps[0].id", rule(Rule::Pattern)),
        (with(|step| step.id = "a_b".to_owned()), "steps[0].id", rule(Rule::Pattern)),
        (with(|step| step.id = "meta".to_owned()), "steps[0].id", rule(Rule::Reserved)),
        (with(|step| step.prompt = String::new()), "steps[0].prompt", rule(Rule::Length)),
        (
            with(|step| step.prompt = "x".repeat(MAX_PROMPT + 1)),
            "steps[0].prompt",
            rule(Rule::Length),
        ),
        (
            with(|step| step.prompt = "{{foo}}".to_owned()),
            "steps[0].prompt",
            rule(Rule::Placeholder),
        ),
        (
            with(|step| step.prompt = "{{env.HOME}}".to_owned()),
            "steps[0].prompt",
            Code::EnvNotAllowed,
        ),
        (
            with(|step| step.system_prompt = Some("{{".to_owned())),
            "steps[0].systemPrompt",
            rule(Rule::Placeholder),
        ),
        (says("{{"), "steps[0].messages[1].content", rule(Rule::Placeholder)),
        (says("{{b.output}}"), "steps[0].messages[1].content", Code::MissingDependency),
        (says("{{a.output}}"), "steps[0].messages[1].content", Code::UndeclaredDependency),
        (says("{{env.HOME}}"), "steps[0].messages[1].content", Code::EnvNotAllowed),
        (says(&"x".repeat(MAX_MESSAGES)), "steps[0].messages", rule(Rule::Length)),
        (with(|step| step.model = Some(String::new())), "steps[0].model", rule(Rule::Length)),
        (with(|step| step.queue = Some("q".repeat(129))), "steps[0].queue", rule(Rule::Length)),
        (with(|step| step.timeout_ms = Some(0)), "steps[0].timeoutMs", rule(Rule::Range)),
        (with(|step| step.timeout_ms = Some(86_400_001)), "steps[0].timeoutMs", rule(Rule::Range)),
        (with(|step| step.max_tokens = Some(0)), "steps[0].maxTokens", rule(Rule::Range)),
        (with(|step| step.temperature = Some(1.1)), "steps[0].temperature", rule(Rule::Range)),
        (with(|step| step.temperature = Some(f64::NAN)), "steps[0].temperature", rule(Rule::Range)),
        (
            faults(vec![StepSource { retry: retry(Some(0), None), ..step("a", &[]) }]),
            "steps[0].retry.maxAttempts",
            rule(Rule::Range),
        ),
        (
            faults(vec![StepSource { retry: retry(None, Some(300_001)), ..step("a", &[]) }]),
            "steps[0].retry.backoffMs",
            rule(Rule::Range),
        ),
        (faults(vec![step("a", &[]), step("a", &[])]), "steps[1].id", Code::DuplicateStepId),
        (faults(Vec::new()), "steps", rule(Rule::Length)),
        (
            faults((0..501).map(|index| step(&format!("s{index}"), &[])).collect()),
            "steps",
            rule(Rule::Length),
        ),
        (
            faults_of(PlanSource { name: String::new(), ..plan(vec![step("a", &[])]) }),
            "name",
            rule(Rule::Length),
        ),
        (
            faults_of(PlanSource {
                description: Some("ü".repeat(501)),
                ..plan(vec![step("a", &[])])
            }),
            "description",
            rule(Rule::Length),
        ),
        (
            faults_of(PlanSource { tags: vec!["t".repeat(65)], ..plan(vec![step("a", &[])]) }),
            "tags[0]",
            rule(Rule::Length),
        ),
        (
            faults_of(PlanSource { tags: vec![String::new(); 33], ..plan(vec![step("a", &[])]) }),
            "tags",
            rule(Rule::Length),
        ),
    ];
    for (found, field, code) in cases {
        assert_eq!(found, one(field, code));
    }
}

#[test]
fn the_choice_of_tokens_has_its_rules_and_a_wait_has_none_of_it() {
    let of = |sampling: Sampling| faults(vec![StepSource { sampling, ..step("a", &[]) }]);
    let rule = Code::Validation;
    let wide = Sampling { top_p: Some(1.1), ..Sampling::default() };
    assert_eq!(of(wide.clone()), one("steps[0].topP", rule(Rule::Range)));
    let empty = Sampling { stop: vec![String::new()], ..Sampling::default() };
    assert_eq!(of(empty), one("steps[0].stop[0]", rule(Rule::Length)));
    let wait = Some(WaitSource { signal: "go".into(), schema: None });
    let sampling = Sampling { seed: Some(1), ..Sampling::default() };
    let waits = StepSource { prompt: String::new(), sampling, wait, ..step("a", &[]) };
    assert_eq!(faults(vec![waits]), one("steps[0].seed", rule(Rule::Unknown)));
}

#[test]
fn all_faults_are_told_in_the_order_of_the_document() {
    let source = PlanSource {
        name: String::new(),
        tags: vec![String::new()],
        ..plan(vec![
            StepSource {
                timeout_ms: Some(0),
                ..asks("Bad", &["nobody"], "{{x.output}}{{env.KEY}}{{")
            },
            asks("a", &[], "{{a.output}}"),
        ])
    };
    let fields: Vec<_> = faults_of(source).into_iter().map(|(field, _)| field).collect();
    assert_eq!(
        fields,
        [
            "name",
            "steps[0].id",
            "steps[0].prompt",
            "steps[0].prompt",
            "steps[0].prompt",
            "steps[0].dependsOn[0]",
            "steps[0].timeoutMs",
            "steps[1].prompt",
            "tags[0]",
        ]
    );
}

#[test]
fn the_input_must_give_every_field_that_a_step_names() {
    let plan = compile(vec![
        asks("a", &[], "{{input.x.y}} {{input.b}}"),
        StepSource { condition: Some("input.c > 1".to_owned()), ..step("b", &[]) },
    ]);
    assert_eq!(plan.input_fields(), BTreeSet::from(["b", "c", "x"]));
    let named = compile(vec![asks("a", &[], "{{input.cafe\u{301}}} {{input.menü}}")]);
    let input = json!({"café": 1, "menu\u{308}": 2});
    assert_eq!(named.check_input(input.as_object().unwrap()), Ok(()));
    let input = json!({"x": {}, "c": null, "more": 1});
    let problems = plan.check_input(input.as_object().unwrap()).unwrap_err();
    assert_eq!(problems.all(), [Problem::rule(Rule::Required, "input.b", "is required")]);
}

#[test]
fn a_source_is_stored_without_what_was_not_said() {
    let stored = serde_json::to_value(plan(vec![step("a", &[])])).unwrap();
    assert_eq!(stored, json!({"name": "A plan", "steps": [{"id": "a", "prompt": "go"}]}));
    assert_eq!(serde_json::from_value::<PlanSource>(stored).unwrap(), plan(vec![step("a", &[])]));
}

#[test]
fn the_largest_plan_compiles() {
    let chain = |index: usize| match index {
        0 => asks("s0", &[], "{{input.text}}"),
        index => {
            let before = format!("s{}", index - 1);
            asks(&format!("s{index}"), &[&before], &format!("Improve {{{{{before}.output}}}}."))
        }
    };
    let plan = compile((0..MAX_STEPS).map(chain).collect());
    assert_eq!(plan.graph().level(499), MAX_STEPS - 1);
}

/// Which steps can reach themselves, and which can reach one of these, by walking every way.
fn naive(edges: &[(usize, usize)], count: usize) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let mut reaches = vec![vec![false; count]; count];
    for &(from, to) in edges {
        reaches[from][to] = true;
    }
    for via in 0..count {
        for from in 0..count {
            for to in 0..count {
                reaches[from][to] |= reaches[from][via] && reaches[via][to];
            }
        }
    }
    let cycles: BTreeSet<_> = (0..count).filter(|&step| reaches[step][step]).collect();
    let downstream = (0..count).filter(|&step| {
        !cycles.contains(&step) && cycles.iter().any(|&cycle| reaches[step][cycle])
    });
    let downstream = downstream.collect();
    (cycles, downstream)
}

proptest! {
    #[test]
    fn cycles_agree_with_a_naive_search(
        count in 1_usize..8, edges in prop::collection::vec((0_usize..8, 0_usize..8), 0..14),
    ) {
        let edges: Vec<_> = edges.into_iter().map(|(from, to)| (from % count, to % count)).collect();
        let mut before = BTreeMap::<usize, Vec<String>>::new();
        for (from, to) in &edges {
            before.entry(*from).or_default().push(format!("s{to}"));
        }
        let steps = (0..count).map(|index| StepSource {
            depends_on: before.remove(&index).unwrap_or_default(),
            ..step(&format!("s{index}"), &[])
        });
        let (cycles, downstream) = naive(&edges, count);
        match Plan::compile(plan(steps.collect()), &[]) {
            Ok(plan) => {
                prop_assert!(cycles.is_empty());
                let number = |step| u16::try_from(step).unwrap();
                for (from, to) in edges.into_iter().map(|(from, to)| (number(from), number(to))) {
                    prop_assert!(plan.graph().level(from) > plan.graph().level(to));
                    prop_assert!(plan.graph().dependents(to).contains(from));
                }
            }
            Err(problems) => {
                let unreachable = problems.all().iter().filter(|problem| problem.code == Code::UnreachableStep);
                prop_assert_eq!(unreachable.count(), downstream.len());
                let mut named = BTreeSet::new();
                for problem in problems.all().iter().filter(|problem| problem.code == Code::CircularDependency) {
                    let words = problem.message.split([' ', ',']).filter_map(|word| word.strip_prefix('s'));
                    named.extend(words.filter_map(|word| word.parse::<usize>().ok()));
                }
                prop_assert_eq!(named, cycles);
            }
        }
    }

    #[test]
    fn the_checker_never_panics_and_always_ends(
        steps in prop::collection::vec(("[a-c]?|input|A", "(\\{\\{[a-c]\\.output\\}\\}|\\{\\{|x|\\{\\{input\\.q\\}\\}){0,3}", prop::collection::vec("[a-d]", 0..3), prop::option::of("steps\\.[a-d]\\.output == ''|1|\\(")), 0..6),
    ) {
        let steps = steps.into_iter().map(|(id, prompt, depends_on, condition)| StepSource {
            id, prompt, depends_on, condition, ..StepSource::default()
        });
        match Plan::compile(plan(steps.collect()), &[]) {
            Ok(plan) => prop_assert_eq!(plan.graph().len(), plan.steps().len()),
            Err(problems) => prop_assert!(!problems.all().is_empty()),
        }
    }
}
