//! Steps with a list.

use super::*;
use crate::error::Rule;
use crate::plan::{Compiles, MapSource, OnItemError};
use crate::schema::Schema;

fn map(for_each: &str) -> MapSource {
    MapSource { for_each: Some(for_each.into()), max_items: Some(10), ..MapSource::default() }
}

fn over(map: MapSource) -> StepSource {
    StepSource { map, ..asks("each", &[], "{{item.title}}: {{ item }}") }
}

fn rule(field: &str, rule: Rule) -> Faults {
    one(&format!("steps[0].{field}"), Code::Validation(rule))
}

#[test]
fn a_step_with_a_list_knows_its_items_and_its_input() {
    let plan = compile(vec![over(map("{{input.docs}}"))]);
    let each = plan.steps()[0].for_each().expect("a list");
    assert_eq!((each.max_items(), each.concurrency(), each.number()), (10, None, 0));
    assert_eq!(plan.input_fields().into_iter().collect::<Vec<_>>(), ["docs"]);
    let named = MapSource { item: Some("doc".into()), ..map("{{list.output.rows}}") };
    let prompt = "{{doc}} {{doc.output}}";
    let named = StepSource { map: named, ..asks("each", &["list"], prompt) };
    compile(vec![asks("list", &[], "go"), named]);
    let quoted = StepSource {
        map: map("{{input[\"All docs\"]}}"),
        ..asks("each", &[], "{{item['Customer Name']}}")
    };
    assert_eq!(compile(vec![quoted]).input_fields().into_iter().collect::<Vec<_>>(), ["All docs"]);
}

#[test]
fn every_fault_of_a_list_is_told() {
    assert_eq!(faults(vec![asks("each", &[], "{{item}}")]), rule("prompt", Rule::Placeholder));
    let none = MapSource { max_items: Some(5), ..MapSource::default() };
    assert_eq!(
        faults(vec![StepSource { map: none, ..step("each", &[]) }]),
        rule("forEach", Rule::Required)
    );
    for text in ["", "docs", "{{env.REGION}}", "{{input.a}} {{input.b}}", "{{item}}"] {
        assert_eq!(faults(vec![over(map(text))]), rule("forEach", Rule::Placeholder), "{text}");
    }
    let open = MapSource { max_items: None, ..map("{{input.docs}}") };
    assert_eq!(faults(vec![over(open)]), rule("maxItems", Rule::Required));
    for (max_items, concurrency) in [(0, 1), (1_001, 1), (1, 0), (1, 1_001)] {
        let wrong = MapSource {
            max_items: Some(max_items),
            concurrency: Some(concurrency),
            ..map("{{input.docs}}")
        };
        let field = if (1..=1_000).contains(&max_items) { "concurrency" } else { "maxItems" };
        assert_eq!(faults(vec![over(wrong)]), rule(field, Rule::Range));
    }
    let share = |on_item_error, min_success| {
        let min_success = Some(min_success);
        faults(vec![over(MapSource { on_item_error, min_success, ..map("{{input.docs}}") })])
    };
    assert_eq!(share(Some(OnItemError::Skip), 1.5), rule("minSuccess", Rule::Range));
    assert_eq!(share(None, 0.5), rule("minSuccess", Rule::Range));
    for (name, broken) in [
        ("", Rule::Length),
        ("A", Rule::Pattern),
        ("a b", Rule::Pattern),
        ("env", Rule::Reserved),
        ("each", Rule::Reserved),
    ] {
        let source = MapSource { item: Some(name.into()), ..map("{{input.docs}}") };
        let source = StepSource { map: source, ..step("each", &[]) };
        assert_eq!(faults(vec![source]), rule("item", broken), "{name}");
    }
}

#[test]
fn a_list_from_an_output_needs_its_dependency() {
    let undeclared =
        vec![step("list", &[]), StepSource { map: map("{{list.output}}"), ..step("each", &[]) }];
    assert_eq!(faults(undeclared), one("steps[1].forEach", Code::UndeclaredDependency));
    assert_eq!(
        faults(vec![over(map("{{list.output}}"))]),
        one("steps[0].forEach", Code::MissingDependency)
    );
}

#[test]
fn an_input_that_is_declared_as_something_else_is_no_list() {
    let schema = |docs: Value| {
        let schema = json!({"type": "object", "properties": {"docs": docs}});
        Schema::compile("inputSchema", &schema).expect("a schema")
    };
    let found = |schema: &Schema, list: &str| {
        let declared = Declared::of(schema).expect("the fuel lasts");
        let mut checker = Checker::new(Inputs::Declared(declared), &[], Compiles::All);
        checker.steps(&[over(map(list))]);
        checker.problems.iter().map(|one| (one.field.clone(), one.code)).collect::<Faults>()
    };
    let text = schema(json!({"type": "string"}));
    assert_eq!(found(&text, "{{input.docs}}"), one("steps[0].forEach", Code::InvalidInputRef));
    assert_eq!(found(&text, "{{input.other}}"), one("steps[0].forEach", Code::InvalidInputRef));
    for list in [json!({"type": "array"}), json!({"type": ["array", "null"]}), json!({})] {
        assert_eq!(found(&schema(list), "{{input.docs}}"), vec![]);
    }
    assert_eq!(found(&schema(json!({"type": "object"})), "{{input.docs.rows}}"), vec![]);
}

#[test]
fn a_plan_has_a_hundred_lists_at_most() {
    let steps = |count: usize| {
        let one = |number: usize| StepSource {
            map: map("{{input.docs}}"),
            ..step(&format!("s{number}"), &[])
        };
        (0..count).map(one).collect::<Vec<_>>()
    };
    let plan = compile(steps(MAX_MAPS));
    assert_eq!(plan.steps()[99].for_each().map(ForEach::number), Some(99));
    assert_eq!(
        faults(steps(MAX_MAPS + 1)),
        one("steps[100].forEach", Code::Validation(Rule::Length))
    );
}

#[test]
fn a_source_without_a_list_is_stored_as_before() {
    let json = serde_json::to_string(&step("a", &[])).expect("JSON");
    assert_eq!(json, r#"{"id":"a","prompt":"go"}"#);
    let source =
        over(MapSource { on_item_error: Some(OnItemError::Skip), ..map("{{input.docs}}") });
    let json = serde_json::to_string(&source).expect("JSON");
    assert_eq!(serde_json::from_str::<StepSource>(&json).expect("a step"), source);
}
