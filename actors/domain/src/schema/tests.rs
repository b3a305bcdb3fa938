use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::problem::Code;

fn schema(source: &Value) -> Schema {
    Schema::compile("inputSchema", source).unwrap()
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn refused(source: &Value) -> Vec<(String, Option<Rule>)> {
    let problems = Schema::compile("inputSchema", source).unwrap_err();
    problems.into_iter().map(|problem| (problem.field, problem.code.rule())).collect()
}

fn contract() -> Schema {
    schema(&json!({
        "type": "object",
        "required": ["contract", "rows"],
        "additionalProperties": false,
        "properties": {
            "contract": {"type": "string", "minLength": 2, "pattern": "^[a-z]+$"},
            "depth": {"enum": ["quick", "full"], "default": "full"},
            "mail": {"type": "string", "format": "email"},
            "rows": {"type": "array", "maxItems": 3, "items": {"$ref": "#/$defs/row"}},
            "options": {"type": "object", "properties": {
                "limit": {"type": "integer", "minimum": 1, "default": 10},
            }},
        },
        "$defs": {"row": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "weight": {"type": "number", "default": 1},
        }}},
    }))
}

#[test]
fn every_fault_of_an_input_is_told_with_its_path_and_its_rule() {
    let input = object(&json!({
        "contract": "X", "depth": "deep", "mail": "nobody", "extra": 1,
        "rows": [{"name": 5}, {}, {"name": "a"}, {"name": "b"}], "options": {"limit": 0},
    }));
    let faults = contract().check_input(&input).unwrap_err();
    let mut found: Vec<_> = faults.iter().map(|fault| (fault.field.as_str(), fault.code)).collect();
    found.sort_by_key(|(field, _)| *field);
    let expected = [
        ("input.contract", Rule::Length),
        ("input.contract", Rule::Pattern),
        ("input.depth", Rule::Enum),
        ("input.extra", Rule::Unknown),
        ("input.mail", Rule::Format),
        ("input.options.limit", Rule::Range),
        ("input.rows", Rule::Length),
        ("input.rows[0].name", Rule::Type),
        ("input.rows[1].name", Rule::Required),
    ];
    found.sort_by_key(|(field, code)| (*field, code.rule().map(Rule::as_str)));
    assert_eq!(found, expected.map(|(field, rule)| (field, Code::Validation(rule))));
    let missing = contract().check_input(&Map::new()).unwrap_err();
    assert_eq!(missing[0].field, "input.contract");
    assert_eq!(missing[0].message, "input.contract is required");
    assert!(faults.iter().all(|fault| fault.message.starts_with("input.")), "{faults:?}");
}

#[test]
fn defaults_are_filled_in_where_a_property_is_absent() {
    let filled = contract().with_defaults(object(&json!({
        "contract": "text", "options": {}, "rows": [{"name": "a"}, {"name": "b", "weight": 2}],
    })));
    let expected = json!({
        "contract": "text", "options": {"limit": 10}, "depth": "full",
        "rows": [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}],
    });
    assert_eq!(Value::Object(filled.clone()), expected);
    assert_eq!(contract().check_input(&filled), Ok(()));
}

#[test]
fn a_reference_that_leads_outside_is_refused_with_its_path() {
    for to in ["https://example.com/s.json", "file:///etc/passwd", "other.json", "#anchor", ""] {
        let source = json!({"properties": {"x": {"$ref": to}}});
        let found = refused(&source);
        assert_eq!(found, [("inputSchema.properties.x.$ref".to_owned(), Some(Rule::Ref))], "{to}");
    }
    let several = json!({"allOf": [{"$dynamicRef": "#x"}], "$id": "http://a/", "$schema": "http://json-schema.org/draft-07/schema#"});
    let fields: Vec<_> = refused(&several).into_iter().map(|(field, _)| field).collect();
    assert_eq!(
        fields,
        ["inputSchema.allOf[0].$dynamicRef", "inputSchema.$id", "inputSchema.$schema"]
    );
    assert_eq!(refused(&json!({"$ref": "#/$defs/none"}))[0].1, Some(Rule::Ref));
}

#[test]
fn what_only_looks_like_a_reference_is_none() {
    let source = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"$ref": {"type": "string"}, "x": {"const": {"$ref": "http://x/"}}},
        "examples": [{"$ref": "http://x/"}], "default": {},
    });
    assert!(Schema::compile("inputSchema", &source).is_ok());
}

#[test]
fn a_schema_that_never_ends_or_unfolds_without_measure_is_refused() {
    let itself = json!({"$ref": "#"});
    let tree = json!({"properties": {"child": {"$ref": "#"}}});
    let circle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}});
    let mut doubling = Map::from_iter([("s0".to_owned(), json!({"type": "string"}))]);
    for level in 1..30 {
        let below = json!({"$ref": format!("#/$defs/s{}", level - 1)});
        doubling.insert(format!("s{level}"), json!({"allOf": [below, below]}));
    }
    let doubling = json!({"$ref": "#/$defs/s29", "$defs": doubling});
    for source in [itself, tree, circle, doubling] {
        assert_eq!(refused(&source), [("inputSchema".to_owned(), Some(Rule::Ref))]);
    }
    let long = json!({"description": "x".repeat(MAX_LENGTH)});
    assert_eq!(refused(&long), [("inputSchema".to_owned(), Some(Rule::Length))]);
}

#[test]
fn what_is_no_schema_names_the_place() {
    let type_ = json!({"properties": {"x": {"type": "text"}}});
    let (field, _) = refused(&type_).remove(0);
    assert_eq!(field, "inputSchema.properties.x.type");
    assert_eq!(refused(&json!([])), [("inputSchema".to_owned(), Some(Rule::Type))]);
    for bad in [
        json!({"required": "x"}),
        json!({"properties": {"x": {"pattern": "("}}}),
        json!({"properties": {"x": {"pattern": "(?=a)"}}}),
        json!({"minLength": -1}),
    ] {
        assert!(refused(&bad)[0].0.starts_with("inputSchema."), "{bad}");
    }
}

#[test]
fn a_hostile_pattern_runs_in_linear_time() {
    let schema = schema(&json!({"properties": {"x": {"pattern": "^(a+)+$"}}}));
    let input = object(&json!({"x": format!("{}b", "a".repeat(100_000))}));
    assert_eq!(schema.check_input(&input).unwrap_err().len(), 1);
}

#[test]
fn declared_are_the_properties_also_those_of_references_and_of_all_of() {
    let schema = schema(&json!({
        "properties": {"a": true}, "additionalProperties": true,
        "allOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/more"}],
        "$defs": {"more": {"properties": {"c": {}}}},
    }));
    let declared = ["a", "b", "c", "d"].map(|field| schema.declares(field));
    assert_eq!(declared, [true, true, true, false]);
}

#[test]
fn an_output_is_json_that_matches_also_in_a_fence() {
    let schema = schema(&json!({"type": "object", "required": ["level", "score"], "properties": {
        "level": {"enum": ["LOW", "HIGH"]}, "score": {"type": "number"},
    }}));
    for output in [
        r#"{"level": "LOW", "score": 1}"#,
        "```json\n{\"level\": \"LOW\", \"score\": 1}\n```\n",
        " ```\n{\"level\": \"LOW\",\n \"score\": 1}```",
        "```{\"level\": \"LOW\", \"score\": 1}```",
    ] {
        assert_eq!(schema.check_output(output), Ok(()), "{output}");
    }
    let wrong = schema.check_output(r#"{"level": "MID"}"#).unwrap_err();
    assert!(
        wrong.contains("output.score is required") && wrong.contains("output.level"),
        "{wrong}"
    );
    for output in ["", "LOW", "Here it is: {}", "```json", "```\n```", "{} {}"] {
        let wrong = schema.check_output(output).unwrap_err();
        assert!(wrong.starts_with("the output is not valid JSON"), "{output}: {wrong}");
    }
}

proptest! {
    #[test]
    fn arbitrary_schemas_and_values_never_panic(
        keyword in prop::sample::select(vec!["type", "required", "items", "pattern", "$ref", "minimum", "enum", "properties", "format", "uniqueItems", "dependentSchemas", "contains", "if"]),
        value in prop::sample::select(vec![json!("string"), json!(["a"]), json!({}), json!(5), json!("#/a"), json!(null), json!(true), json!("(")]),
        input in prop::sample::select(vec![json!({}), json!({"a": 1}), json!({"a": [1, "x"]})]),
    ) {
        let source = json!({"properties": {"a": {keyword: value}}});
        if let Ok(schema) = Schema::compile("inputSchema", &source) {
            let filled = schema.with_defaults(object(&input));
            let _ = schema.check_input(&filled);
            let _ = schema.check_output("{\"a\": 1}");
        }
    }
}
