use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::problem::Code;

mod suite;

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

impl Schema {
    fn input(&self, input: &Map<String, Value>) -> Result<(), Vec<Problem>> {
        let input = Value::Object(input.clone());
        self.check_input(&input, &mut Fuel::new(FUEL)).expect("the fuel lasts")
    }

    fn output(&self, output: &str) -> Result<(), String> {
        self.check_output(output, &mut Fuel::new(FUEL)).expect("the fuel lasts").map(drop)
    }

    fn filled(&self, input: Map<String, Value>) -> Map<String, Value> {
        self.with_defaults(input, &mut Fuel::new(FUEL)).expect("the fuel lasts")
    }
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
    let faults = contract().input(&input).unwrap_err();
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
    let missing = contract().input(&Map::new()).unwrap_err();
    assert_eq!(missing[0].field, "input.contract");
    assert_eq!(missing[0].message, "input.contract is required");
    assert!(faults.iter().all(|fault| fault.message.starts_with("input.")), "{faults:?}");
}

#[test]
fn defaults_are_filled_in_where_a_property_is_absent() {
    let filled = contract().filled(object(&json!({
        "contract": "text", "options": {}, "rows": [{"name": "a"}, {"name": "b", "weight": 2}],
    })));
    let expected = json!({
        "contract": "text", "options": {"limit": 10}, "depth": "full",
        "rows": [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}],
    });
    assert_eq!(Value::Object(filled.clone()), expected);
    assert_eq!(contract().input(&filled), Ok(()));
}

#[test]
fn a_reference_that_leads_outside_is_refused_with_its_path() {
    for to in [
        "https://example.com/s.json",
        "file:///etc/passwd",
        "other.json",
        "#anchor",
        "#/$defs/none",
        "",
        "https://json-schema.org/draft/2020-12/other",
    ] {
        let source = json!({"properties": {"x": {"$ref": to}}});
        let found = refused(&source);
        assert_eq!(found, [("inputSchema.properties.x.$ref".to_owned(), Some(Rule::Ref))], "{to}");
    }
    let unknown = json!({"$schema": "https://json-schema.org/draft-08/schema#"});
    assert_eq!(refused(&unknown), [("inputSchema.$schema".to_owned(), Some(Rule::Enum))]);
}

#[test]
fn a_schema_may_refer_to_itself_by_pointer_identifier_and_anchor() {
    let tree = json!({"type": "object", "required": ["value"], "properties": {
        "value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}},
    }});
    let by_id = json!({"$id": "https://example.com/root", "$ref": "tree", "$defs": {"t": {
        "$id": "tree", "required": ["value"], "properties": {
            "value": {"type": "integer"}, "children": {"items": {"$ref": "https://example.com/tree"}},
        },
    }}});
    let by_anchor = json!({"$ref": "#node", "$defs": {"n": {
        "$anchor": "node", "required": ["value"], "properties": {
            "value": {"type": "integer"}, "children": {"items": {"$ref": "#node"}},
        },
    }}});
    let dynamic = json!({
        "$id": "https://example.com/strict", "$dynamicAnchor": "node", "$ref": "tree",
        "unevaluatedProperties": false,
        "$defs": {"tree": {
            "$id": "tree", "$dynamicAnchor": "node", "required": ["value"], "properties": {
                "value": {"type": "integer"}, "children": {"items": {"$dynamicRef": "#node"}},
            },
        }},
    });
    for source in [&tree, &by_id, &by_anchor, &dynamic] {
        let schema = schema(source);
        let leaf = json!({"value": 1});
        let good =
            object(&json!({"value": 1, "children": [leaf, {"value": 2, "children": [leaf]}]}));
        assert_eq!(schema.input(&good), Ok(()), "{source}");
        let bad =
            object(&json!({"value": 1, "children": [{"value": 2, "children": [{"value": "x"}]}]}));
        let faults = schema.input(&bad).unwrap_err();
        assert_eq!(faults[0].field, "input.children[0].children[0].value", "{source}");
        let declared = schema.declared().expect("the fuel lasts");
        assert!(declared.contains(&"children") && !declared.contains(&"x"), "{source}");
    }
    let misspelt = object(&json!({"value": 1, "children": [{"value": 1, "extra": 1}]}));
    assert!(schema(&dynamic).input(&misspelt).is_err(), "the strict tree extends to all nodes");
    assert_eq!(schema(&tree).input(&misspelt), Ok(()));
}

#[test]
fn defaults_of_a_schema_that_refers_to_itself_are_filled_as_deep_as_the_input() {
    let tree = schema(&json!({"properties": {
        "weight": {"default": 1}, "children": {"items": {"$ref": "#"}},
    }}));
    let filled = tree.filled(object(&json!({"children": [{}, {"children": [{}]}]})));
    let expected = json!({"weight": 1, "children": [
        {"weight": 1}, {"weight": 1, "children": [{"weight": 1}]},
    ]});
    assert_eq!(Value::Object(filled), expected);
    let endless = schema(&json!({"properties": {"child": {"$ref": "#", "default": {}}}}));
    assert_eq!(endless.with_defaults(Map::new(), &mut Fuel::new(FUEL)), Err(OutOfFuel));
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

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!({"end": 1}), |inner, _| json!({"child": inner}))
}

#[test]
fn a_schema_without_end_is_validated_on_fuel() {
    let itself = json!({"$ref": "#"});
    let circle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}});
    let branch = json!({"$ref": "#"});
    let twice = json!({"anyOf": [
        {"properties": {"child": branch, "end": {"const": 2}}, "maxProperties": 9},
        {"properties": {"child": branch, "end": {"const": 3}}, "maxProperties": 8},
    ]});
    let mut doubling = Map::from_iter([("s0".to_owned(), json!({"type": "object"}))]);
    for level in 1..30 {
        let below = json!({"$ref": format!("#/$defs/s{}", level - 1)});
        doubling.insert(format!("s{level}"), json!({"allOf": [below, below]}));
    }
    let doubling = json!({"$ref": "#/$defs/s29", "$defs": doubling});
    for source in [itself, circle, twice, doubling] {
        // It ends, whether the fuel lasts or not.
        let _ = schema(&source).check_input(&deep(60), &mut Fuel::new(FUEL));
    }
}

#[test]
fn a_value_that_takes_too_long_runs_out_of_fuel() {
    let numbers: Vec<_> = (0..100_000).collect();
    let many: Vec<_> = (0..1_000).map(|n| json!({"not": {"const": format!("no {n}")}})).collect();
    let options = schema(&json!({"items": {"allOf": many}}));
    let texts = json!(numbers.iter().map(|n| format!("x{n}")).collect::<Vec<_>>());
    assert!(options.check_input(&texts, &mut Fuel::new(FUEL)).is_err());
    let distinct = schema(&json!({"uniqueItems": true}));
    assert_eq!(distinct.check_input(&json!(numbers), &mut Fuel::new(FUEL)), Ok(Ok(())));
    let long = schema(&json!({"pattern": "[ab]*a[ab]{60}c"}));
    let mut chance = 1_u32;
    let mut letter = || {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if chance >> 31 == 0 { 'a' } else { 'b' }
    };
    let text: String = (0..1 << 20).map(|_| letter()).collect();
    assert!(long.check_input(&json!(text), &mut Fuel::new(FUEL)).is_err());
    let strings = schema(&json!({"items": {"type": "string"}}));
    let faults = strings.check_input(&json!(numbers), &mut Fuel::new(FUEL)).unwrap().unwrap_err();
    assert!((1..=100).contains(&faults.len()));
}

#[test]
fn a_value_that_is_nested_deep_cannot_exhaust_the_stack() {
    let chain = (0..100)
        .map(|n| (format!("s{n}"), json!({"allOf": [{"$ref": format!("#/$defs/s{}", n + 1)}]})));
    let mut chain: Map<String, Value> = chain.collect();
    chain.insert("s100".to_owned(), json!({"properties": {"child": {"$ref": "#"}}}));
    let source = json!({"$ref": "#/$defs/s0", "$defs": chain});
    let small = std::thread::Builder::new().stack_size(2 * 1024 * 1024);
    let check = move || {
        let schema = schema(&source);
        let _ = schema.check_input(&deep(120), &mut Fuel::new(FUEL));
    };
    assert!(small.spawn(check).unwrap().join().is_ok());
}

/// Tried on a server before: thirty such schemas took 1.2 gigabytes for good.
#[test]
fn the_patterns_of_a_schema_share_a_budget() {
    let properties = |count: usize, pattern: &dyn Fn(usize) -> String| {
        let properties = (0..count).map(|n| (format!("p{n}"), json!({"pattern": pattern(n)})));
        json!({"properties": properties.collect::<Map<_, _>>()})
    };
    let hostile = properties(3_000, &|n| format!("^[a-z]{{1,9}}{n}$"));
    assert_eq!(refused(&hostile), [("inputSchema".to_owned(), Some(Rule::Length))]);
    assert!(Schema::compile("inputSchema", &properties(200, &|n| format!("^[a-z]+{n}$"))).is_ok());
    let large = properties(1, &|_| "(a{1000}){1000}".to_owned());
    let place = "inputSchema.properties.p0.pattern".to_owned();
    assert_eq!(refused(&large)[0], (place, Some(Rule::Length)));
    let nodes = json!({"allOf": vec![json!({}); MAX_NODES]});
    assert_eq!(refused(&nodes), [("inputSchema".to_owned(), Some(Rule::Length))]);
    let long = json!({"description": "x".repeat(MAX_LENGTH)});
    assert_eq!(refused(&long), [("inputSchema".to_owned(), Some(Rule::Length))]);
}

#[test]
fn a_schema_is_compiled_when_it_is_first_used_and_dropped_when_others_were_used_since() {
    let of = |n: usize| {
        let padding = "x".repeat(200_000);
        Schema::checked_before(&json!({"type": "object", "description": format!("{n}{padding}")}))
    };
    let first = of(0);
    assert!(!first.is_brief());
    assert_eq!(first.input(&Map::new()), Ok(()));
    assert!(first.is_brief(), "it is compiled now");
    for n in 1..20 {
        assert_eq!(of(n).input(&Map::new()), Ok(()));
    }
    assert!(!first.is_brief(), "it was not used for a while");
    assert_eq!(first.input(&Map::new()), Ok(()));
}

/// As the generators of the last ten years write them.
#[test]
fn a_schema_means_what_it_means_in_its_draft() {
    let draft = |name: &str| format!("http://json-schema.org/{name}/schema#");
    for (source, good, bad) in [
        (
            json!({"$schema": draft("draft-07"), "$ref": "#/definitions/a", "definitions": {"a": {"type": "integer"}}}),
            json!(1),
            json!("1"),
        ),
        // Draft 07 ignores all beside $ref.
        (
            json!({"$schema": draft("draft-07"), "properties": {"x": {"$ref": "#/definitions/a", "maximum": 5}},
                   "definitions": {"a": {"type": "integer"}}}),
            json!({"x": 9}),
            json!({"x": "9"}),
        ),
        (
            json!({"$schema": draft("draft-07"), "items": [{"type": "string"}], "additionalItems": {"type": "integer"}}),
            json!(["a", 1]),
            json!(["a", "b"]),
        ),
        (
            json!({"items": [{"type": "string"}], "additionalItems": false}),
            json!(["a"]),
            json!(["a", 1]),
        ),
        (
            json!({"prefixItems": [{"type": "string"}], "items": false}),
            json!(["a"]),
            json!(["a", 1]),
        ),
        (
            json!({"$schema": draft("draft-07"), "dependencies": {"a": ["b"], "c": {"required": ["d"]}}}),
            json!({"a": 1, "b": 1}),
            json!({"c": 1}),
        ),
        (json!({"dependencies": {"a": ["b"]}}), json!({"b": 1}), json!({"a": 1})),
        (
            json!({"$schema": draft("draft-04"), "minimum": 0, "exclusiveMinimum": true}),
            json!(1),
            json!(0),
        ),
        (json!({"minimum": 0, "exclusiveMinimum": true}), json!(1), json!(0)),
        (json!({"maximum": 9, "exclusiveMaximum": false, "const": 9}), json!(9), json!(8)),
        (
            json!({"$schema": draft("draft/2019-09"), "$recursiveAnchor": true, "properties": {"x": {"$recursiveRef": "#"}},
                   "additionalProperties": false}),
            json!({"x": {"x": {}}}),
            json!({"x": {"y": {}}}),
        ),
        (
            json!({"$schema": draft("draft/2020-12"), "$vocabulary": {}, "type": "null"}),
            json!(null),
            json!(1),
        ),
        (
            json!({"$schema": draft("draft-07"), "$ref": draft("draft-07")}),
            json!({"minimum": 1}),
            json!({"minimum": "1"}),
        ),
        (
            json!({"properties": {"pattern": {"pattern": "^0$"}}, "enum": [{"pattern": "0"}, {"pattern": "^0$"}]}),
            json!({"pattern": "0"}),
            json!({"pattern": "^0$"}),
        ),
    ] {
        let check = |value| schema(&source).check_input(value, &mut Fuel::new(FUEL));
        assert_eq!(check(&good), Ok(Ok(())), "{source}");
        assert!(check(&bad).expect("enough").is_err(), "{source}");
    }
}

#[test]
fn a_refused_pattern_is_named_with_the_way_round() {
    for (source, says) in [
        (
            json!({"pattern": r"(a)\1"}),
            r"inputSchema.pattern has back-references, such as \1 or \k<name>: write",
        ),
        (json!({"pattern": "(?>a)"}), "inputSchema.pattern has atomic groups, (?>…): write (?:…)"),
        (json!({"pattern": "("}), "inputSchema.pattern must be a regular expression of ECMA 262"),
        (
            json!({"patternProperties": {"^(?!x)": {}}}),
            "inputSchema.patternProperties.^(?!x) has look-around, which a pattern of names cannot have: write \
             \"propertyNames\"",
        ),
    ] {
        let faults = Schema::compile("inputSchema", &source).unwrap_err();
        assert!(faults[0].message.starts_with(says), "{faults:?}");
    }
    let names = schema(&json!({"propertyNames": {"pattern": "^(?!x)"}}));
    assert_eq!(names.input(&object(&json!({"y": 1}))), Ok(()));
    assert!(names.input(&object(&json!({"x": 1}))).is_err());
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
        json!({"properties": {"x": {"pattern": "(a)\\1"}}}),
        json!({"patternProperties": {"(?=a)": {}}}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "items": [{}]}),
        json!({"minLength": -1}),
    ] {
        assert!(refused(&bad)[0].0.starts_with("inputSchema."), "{bad}");
    }
}

#[test]
fn a_hostile_pattern_runs_in_linear_time() {
    let schema = schema(&json!({"properties": {"x": {"pattern": "^(a+)+$"}}}));
    let input = object(&json!({"x": format!("{}b", "a".repeat(100_000))}));
    assert_eq!(schema.input(&input).unwrap_err().len(), 1);
}

/// A schema whose 62 references by anchor each lead through `numbers` numbers.
fn searched(numbers: usize) -> Value {
    json!({
        "allOf": vec![json!({"$ref": "#z"}); 62],
        "examples": [vec![1; numbers]],
        "unevaluatedProperties": {"$anchor": "z"},
    })
}

#[test]
fn a_search_for_properties_burns_fuel_and_is_made_once() {
    let items =
        json!({"properties": {"d": {"items": searched(0)}}, "x": {"examples": [vec![1; 1_000]]}});
    let schema = Schema::checked_before(&items);
    let spent = |count: usize| {
        let (input, mut fuel) = (object(&json!({"d": vec![json!({}); count]})), Fuel::new(FUEL));
        schema.with_defaults(input, &mut fuel).expect("the fuel lasts");
        FUEL - fuel.left()
    };
    let (one, many) = (spent(1), spent(1_000));
    assert!((10_000..FUEL / 2).contains(&one), "{one}");
    assert!((1..20_000).contains(&(many - one)), "{one} for one, {many} for a thousand");

    assert!(Schema::checked_before(&searched(1_000)).declared().is_ok());
    assert_eq!(Schema::checked_before(&searched(100_000)).declared(), Err(OutOfFuel));
}

#[test]
fn a_schema_with_patterns_is_not_compiled_while_others_wait() {
    let small = |schema: &Value| Schema::checked_before(schema).is_brief();
    assert!(small(&json!({"type": "string"})));
    assert!(!small(&json!({"pattern": "a"})));
    assert!(!small(&json!({"patternProperties": {"a": {}}})));
}

#[test]
fn declared_are_the_properties_also_those_of_references_and_of_all_of() {
    let schema = schema(&json!({
        "properties": {"a": true}, "additionalProperties": true,
        "allOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/more"}],
        "$defs": {"more": {"properties": {"c": {}}}},
    }));
    assert_eq!(schema.declared(), Ok(vec!["a", "b", "c"]));
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
        assert_eq!(schema.output(output), Ok(()), "{output}");
    }
    let wrong = schema.output(r#"{"level": "MID"}"#).unwrap_err();
    assert!(
        wrong.contains("output.score is required") && wrong.contains("output.level"),
        "{wrong}"
    );
    for output in ["", "LOW", "Here it is: {", "```json", "```\n```", "{} {}"] {
        let wrong = schema.output(output).unwrap_err();
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
            let filled = schema.filled(object(&input));
            let _ = schema.input(&filled);
            let _ = schema.output("{\"a\": 1}");
        }
    }
}

#[test]
fn an_example_is_a_value_of_its_schema() {
    for source in [
        json!({}),
        json!(true),
        json!({"type": "string", "minLength": 20}),
        json!({"type": "string", "minLength": 70_000}),
        json!({"type": "string", "maxLength": 3}),
        json!({"type": "string", "format": "date-time"}),
        json!({"type": "string", "pattern": "^[A-Z]{3}$", "examples": ["EUR"]}),
        json!({"type": ["integer", "null"], "minimum": 3}),
        json!({"type": "integer", "exclusiveMinimum": 3, "multipleOf": 5}),
        json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        json!({"type": "number", "maximum": -2.5}),
        json!({"type": "number", "exclusiveMaximum": 0}),
        json!({"enum": ["a", "b"]}),
        json!({"const": {"a": 1}}),
        json!({"type": "array", "items": {"type": "boolean"}, "minItems": 2}),
        json!({"type": "array", "contains": {"const": 5}}),
        json!({"prefixItems": [{"type": "integer"}, {"type": "null"}], "minItems": 2}),
        json!({"type": "object", "minProperties": 2, "propertyNames": {"enum": ["x", "y"]},
            "additionalProperties": {"type": "number"}}),
        json!({"required": ["a"], "allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}]}),
        json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "required": ["name"],
            "properties": {"name": {"type": "string"}, "children": {"items": {"$ref": "#/$defs/tree"}}}}}}),
        json!({"$ref": "#leaf", "$defs": {"leaf": {"$anchor": "leaf", "type": "null"}}}),
        json!({"anyOf": [{"type": "integer", "minimum": 7}, {"type": "string"}]}),
    ] {
        let schema = schema(&source);
        let example = schema.example(&mut Fuel::new(FUEL)).expect("the fuel lasts");
        assert_eq!(schema.output(&example.to_string()), Ok(()), "{source}: {example}");
    }
}

#[test]
fn an_example_without_end_is_none() {
    for source in [
        json!({"required": ["a"], "properties": {"a": {"$ref": "#"}}}),
        json!({"type": "string", "minLength": 1_000_000_000}),
        json!({"type": "string", "minLength": 2_000_000}),
        json!({"type": "array", "minItems": 9, "items": {"default": "x".repeat(200_000)}}),
        json!({"type": "array", "minItems": 1_000_000_000}),
    ] {
        assert_eq!(schema(&source).example(&mut Fuel::new(FUEL)), Err(OutOfFuel), "{source}");
    }
}
