use callboard_domain::Fault;
use serde_json::json;

use super::*;
use crate::read::{reading, rule, value};
use crate::request;

request! {
    #[derive(Debug, PartialEq)]
    struct Hitl as "Hitl" {
        /// Always.
        required: Option<bool> = optional("required", rule::flag()),
    }
}

request! {
    #[derive(Debug, PartialEq, Default)]
    struct Task as "Task" {
        /// What is asked.
        prompt: String = required("prompt", rule::text(rule::bytes(1..=10))),
        /// When it is held.
        hitl: Option<Hitl> = optional("hitl", rule::object::<Hitl>()),
        /// By name.
        models: Option<Vec<(String, u8)>> = optional("models", rule::map(0..=2, rule::whole(0..=9))),
    }
}

request! {
    #[derive(Debug, PartialEq)]
    struct Batch as "Batch" {
        /// Of it.
        tasks: Vec<Task> = required("tasks", rule::list(1..=3, rule::object::<Task>())),
    }
}

#[test]
fn a_shape_is_read_with_null_as_absent() {
    let body = json!({"tasks": [
        {"prompt": "a", "hitl": null},
        {"prompt": "b", "hitl": {"required": null}, "models": {"x": 1, "a": 2}},
    ]});
    let models = Some(vec![("x".to_owned(), 1), ("a".to_owned(), 2)]);
    let (a, b) = ("a".to_owned(), "b".to_owned());
    assert_eq!(
        value::<Batch>(body),
        Ok(Batch {
            tasks: vec![
                Task { prompt: a, hitl: None, models: None },
                Task { prompt: b, hitl: Some(Hitl { required: None }), models },
            ]
        })
    );
}

#[test]
fn a_refusal_names_the_path_the_rule_and_what_would_be_right() {
    for (body, field, rule, says) in [
        (json!([]), "body", Rule::Type, "body must be an object, not an array"),
        (json!(null), "body", Rule::Type, "body must be an object, not null"),
        (json!({}), "tasks", Rule::Required, "tasks is required"),
        (json!({"tasks": null}), "tasks", Rule::Required, "tasks is required"),
        (json!({"tasks": {}}), "tasks", Rule::Type, "tasks must be an array, not an object"),
        (json!({"tasks": []}), "tasks", Rule::Length, "tasks must have 1 to 3 items, not 0"),
        (json!({"tasks": [null]}), "tasks[0]", Rule::Type, "tasks[0] must be an object, not null"),
        (
            json!({"tasks": [{"prompt": "a"}, {}]}),
            "tasks[1].prompt",
            Rule::Required,
            "tasks[1].prompt is required",
        ),
        (
            json!({"tasks": [{"prompt": "a", "hitl": {"required": "yes"}}]}),
            "tasks[0].hitl.required",
            Rule::Type,
            "tasks[0].hitl.required must be true or false, not a string",
        ),
        (
            json!({"tasks": [{"prompt": "a", "hitl": {"Required": true}}]}),
            "tasks[0].hitl.Required",
            Rule::Unknown,
            "tasks[0].hitl.Required is an unknown field; allowed: required",
        ),
        (
            json!({"tasks": [{"prompt": "a", "models": {"x": 10}}]}),
            "tasks[0].models.x",
            Rule::Range,
            "tasks[0].models.x must be a whole number from 0 to 9, not 10",
        ),
        (
            json!({"tasks": [{"prompt": "a"}], "b": null}),
            "b",
            Rule::Unknown,
            "b is an unknown field; allowed: tasks",
        ),
    ] {
        let fault = Fault { field: field.to_owned(), rule, message: says.to_owned() };
        assert_eq!(value::<Batch>(body.clone()), Err(Error::Invalid(fault)), "{body}");
    }
}

#[test]
fn the_name_of_an_unknown_field_is_shortened() {
    let Err(Error::Invalid(fault)) = value::<Hitl>(json!({"x".repeat(100_000): 1})) else {
        panic!("an unknown field was taken");
    };
    assert_eq!(fault.field.len(), 64);
}

request! {
    #[derive(Debug, PartialEq, Default)]
    struct Step as "Step" {
        /// Of it.
        id: String = required_or_default("id", rule::text(rule::bytes(1..=3))),
        /// Of it.
        tags: Vec<String> = or_default("tags", rule::list(0..=9, rule::text(rule::bytes(1..=3)))),
        /// Of it.
        weight: Option<u8> = optional("weight", rule::whole(1..=9)),
    }
}

request! {
    #[derive(Debug, PartialEq)]
    struct Steps as "Steps" {
        /// All.
        steps: Vec<Step> = required_or_default("steps", rule::list(0..=9, rule::object::<Step>())),
    }
}

#[test]
fn every_fault_is_found_and_the_rest_is_read_in_its_place() {
    let body = json!({"steps": [
        {"tags": ["a", 5, "b"], "x": 1},
        7,
        {"id": "c", "weight": 10, "y": 1, "z": 2},
    ], "w": 0});
    let (steps, faults) = reading::<Steps>(body.clone()).resolved(|_| false);
    let found: Vec<_> =
        faults.iter().map(|fault| (fault.field.as_str(), fault.rule.as_str())).collect();
    let expected = [
        ("steps[0].id", "required"),
        ("steps[0].tags[1]", "type"),
        ("steps[0].x", "unknown"),
        ("steps[1]", "type"),
        ("steps[2].weight", "range"),
        ("steps[2].y", "unknown"),
        ("steps[2].z", "unknown"),
        ("w", "unknown"),
    ];
    assert_eq!(found, expected);
    let tags = vec!["a".to_owned(), String::new(), "b".to_owned()];
    let read = vec![
        Step { tags, ..Step::default() },
        Step::default(),
        Step { id: "c".to_owned(), ..Step::default() },
    ];
    assert_eq!(steps, Some(Steps { steps: read }));
    let Err(Error::InvalidDefinition(problems)) = value::<Steps>(body) else {
        panic!("it is broken");
    };
    assert_eq!(problems.all().len(), faults.len());
    assert_eq!(problems.first().field, faults[0].field);
    let (nothing, faults) = reading::<Steps>(json!([])).resolved(|_| false);
    assert_eq!((nothing, faults[0].field.as_str()), (None, "body"));
}

request! {
    #[derive(Debug, PartialEq)]
    struct Named as "Named" {
        /// A queue.
        queue: Option<String> = optional("queue", rule::name(Kind::Queue, rule::text(rule::bytes(1..=64)))),
        /// Tags.
        tags: Vec<String> = or_default("tags", rule::list(0..=2_000, rule::name(Kind::Tag, rule::text(rule::bytes(1..=64))))),
    }
}

#[test]
fn a_name_outside_the_grammar_is_a_fault_unless_it_is_known() {
    let body = json!({"queue": "a;b", "tags": ["a b", "c|d"]});
    let read = || reading::<Named>(body.clone());
    let unfit: Vec<_> = read().unfit().iter().map(|it| (it.kind, it.name.clone())).collect();
    assert_eq!(unfit, [(Kind::Queue, "a;b".to_owned()), (Kind::Tag, "c|d".to_owned())]);
    let refused = |known: &[&str]| {
        let (_, faults) = read().resolved(|unfit| known.contains(&unfit.name.as_str()));
        faults.into_iter().map(|fault| (fault.field, fault.rule)).collect::<Vec<_>>()
    };
    let (queue, tag) = (("queue".into(), Rule::Pattern), ("tags[1]".into(), Rule::Pattern));
    assert_eq!(refused(&[]), [queue.clone(), tag]);
    assert_eq!(refused(&["c|d"]), [queue]);
    let known = read().finish(|_| true).expect("both are known");
    assert_eq!((known.queue.as_deref(), known.tags.len()), (Some("a;b"), 2));

    // More than are noted are faults, known or not: what is looked up has an end.
    let many = json!({"tags": vec!["|"; 1_500]});
    let (_, faults) = reading::<Named>(many).resolved(|_| true);
    assert_eq!(faults.len(), 500);
}

#[test]
fn the_schema_says_what_is_read() {
    let mut components = crate::read::Components::default();
    let reference = components.reference::<Task>();
    assert_eq!(reference, json!({"$ref": "#/components/schemas/Task"}));
    assert_eq!(
        components.schemas["Task"],
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["prompt"],
            "properties": {
                "prompt": {
                    "type": "string", "minLength": 1, "maxLength": 10, "description": "What is asked.",
                },
                "hitl": {
                    "anyOf": [{"$ref": "#/components/schemas/Hitl"}, {"type": "null"}],
                    "description": "When it is held.",
                },
                "models": {
                    "type": ["object", "null"],
                    "additionalProperties": {"type": "integer", "minimum": 0, "maximum": 9},
                    "maxProperties": 2,
                    "description": "By name.",
                },
            },
        })
    );
    assert!(components.schemas.contains_key("Hitl"));
}
