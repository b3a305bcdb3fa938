use proptest::prelude::*;
use serde_json::json;

use super::*;

struct Known {
    input: Map<String, Value>,
    outputs: HashMap<&'static str, Option<&'static str>>,
}

impl Scope for Known {
    fn input(&self) -> &Map<String, Value> {
        &self.input
    }

    fn output(&self, step: &str) -> Output<'_> {
        match self.outputs.get(step) {
            None => Output::Unknown,
            Some(None) => Output::Skipped,
            Some(Some(output)) => Output::Completed(output),
        }
    }

    fn env(&self, name: &str) -> Option<&str> {
        (name == "REGION").then_some("eu")
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        (meta == Meta::TemplateName).then_some("Review")
    }
}

fn known() -> Known {
    let input = json!({
        "text": "{{input.secret}}", "none": null, "flag": true, "count": 2.50, "big": 12_345_678_901_234_567_u64,
        "nested": {"b": [1, {"z": "ü", "a": null}]},
    });
    let Value::Object(input) = input else { unreachable!("it is an object") };
    let outputs = HashMap::from([
        ("plain", Some("just text")),
        ("json-1", Some(r#"{"risk": {"level": "HIGH"}, "list": ["a", "b"]}"#)),
        ("thinks", Some("<think>[\"x\"]?</think>\n```json\n{\"rows\": [\"a\", \"b\",]}\n```")),
        ("talks", Some("The rows are {\"rows\": [\"a\", \"b\"]}, as you asked.")),
        ("skipped", None),
    ]);
    Known { input, outputs }
}

fn parsed(source: impl Into<String>) -> PromptTemplate {
    let (template, faults) = PromptTemplate::parse(source);
    assert_eq!(faults, [""; 0]);
    template
}

fn render(source: &str) -> Result<String, String> {
    parsed(source).render(&known()).map_err(|error| error.to_string())
}

#[test]
fn every_kind_of_value_is_inserted_as_the_rules_say() {
    for (source, rendered) in [
        ("no placeholder }} at all", "no placeholder }} at all"),
        ("<{{input.text}}>", "<{{input.secret}}>"),
        ("<{{ input.none }}>", "<>"),
        ("<{{input.absent}}>", "<>"),
        ("{{input.flag}} {{input.count}} {{input.big}}", "true 2.5 12345678901234567"),
        ("{{input.nested}}", r#"{"b":[1,{"z":"ü","a":null}]}"#),
        ("{{input.nested.b.1.z}}{{input.nested.b.1.a}}", "ü"),
        ("{{\tplain.output\n}}", "just text"),
        ("{{json-1.output.risk.level}} {{json-1.output.list.1}}", "HIGH b"),
        ("{{json-1.output.list}}", r#"["a","b"]"#),
        ("<{{skipped.output}}{{skipped.output.a.b}}>", "<>"),
        ("{{env.REGION}} {{meta.templateName}}", "eu Review"),
        (r#"{"a": {{input.flag}}}"#, r#"{"a": true}"#),
        ("{{{input.flag}}}", "{true}"),
        ("ü{{input.flag}}ü", "ütrueü"),
    ] {
        assert_eq!(render(source).as_deref(), Ok(rendered), "{source}");
    }
}

/// The names of a model's JSON, of forms and of spreadsheets.
#[test]
fn every_name_is_reachable() {
    let input = json!({
        "प्रश्न": "q", "cafe\u{301}": "decomposed", "menü": "composed", "ชื่อ": "n", "日本語": "j",
        "می\u{200c}خواهم": "z", "Customer Name": "Ann", "First.Name": "Bo", "a\"b\\c": "quoted",
        "}}": "braces", "$ref": "sign", "": "empty", "2024": "year", "it's": "own",
        "rows": [{"Pre\u{301}nom usuel": "Zoé"}, "second"],
    });
    let Value::Object(input) = input else { unreachable!("it is an object") };
    let known = Known { input, outputs: HashMap::new() };
    for (source, rendered) in [
        ("{{input.प्रश्न}} {{ input.ชื่อ }} {{input.日本語}} {{input.می\u{200c}خواهم}}", "q n j z"),
        ("{{input.café}} {{input.cafe\u{301}}}", "decomposed decomposed"),
        ("{{input[\"cafe\u{301}\"]}} {{input['café']}}", "decomposed decomposed"),
        (
            "{{input.menü}} {{input.menu\u{308}}} {{input['menu\u{308}']}}",
            "composed composed composed",
        ),
        ("{{input[\"Customer Name\"]}} {{input['First.Name']}}", "Ann Bo"),
        (r#"{{ input["a\"b\\c"] }} {{input['a"b\\c']}}"#, "quoted quoted"),
        (r#"{{input["}}"]}} {{input['it\'s']}}"#, "braces own"),
        ("{{input[\"$ref\"]}} {{input['']}}", "sign empty"),
        ("{{input.2024}} {{input['2024']}}", "year year"),
        ("{{input.rows[0][ \"Prénom usuel\" ]}} {{input[\"rows\"][1]}}", "Zoé second"),
        ("{{input['rows'].1}} {{{input['Customer Name']}}}", "second {Ann}"),
    ] {
        assert_eq!(parsed(source).render(&known).as_deref(), Ok(rendered), "{source}");
    }
}

#[test]
fn every_name_of_an_item_is_reachable() {
    let source = "{{item[\"Customer Name\"]}} {{item['First.Name']}} {{item}}";
    let (text, faults) = PromptTemplate::parse_with_items(source, &["item"]);
    let names: Vec<_> = text.references().map(ToString::to_string).collect();
    assert_eq!(names, [r#"item["Customer Name"]"#, r#"item["First.Name"]"#, "item"]);
    assert_eq!(faults, [""; 0]);
}

#[test]
fn a_reference_is_written_so_that_it_is_read_again() {
    for name in ["a", "a b", "a.b", "a\"b", "a\\", "}}", "", "प्रश्न", "-1", "0", "'"] {
        let path = vec![name.to_owned()];
        let reference = Reference::Input { field: name.to_owned(), path };
        let written = format!("{{{{{reference}}}}}");
        let text = parsed(written.as_str());
        assert_eq!(text.references().collect::<Vec<_>>(), [&reference], "{written}");
    }
}

#[test]
fn a_text_in_quotes_stands_for_itself() {
    for (source, rendered) in [
        (r#"{{"{{"}}name}}"#, "{{name}}"),
        ("{{'{{'}} {{ '{{input.flag}}' }}", "{{ {{input.flag}}"),
        (r#"{{"it's"}}{{'"'}}{{"\n"}}{{""}}"#, r#"it's"\n"#),
        (r#"{{{"{{"}}}"#, "{{{}"),
        (r"C:\{{input.flag}}", r"C:\true"),
    ] {
        assert_eq!(render(source).as_deref(), Ok(rendered), "{source}");
        assert_eq!(parsed(source).render_known(&known()).as_deref(), Ok(rendered), "{source}");
    }
}

#[test]
fn a_refused_placeholder_says_how_it_is_written() {
    for (source, says) in [
        ("{{item.Customer Name}}", "write {{item[\"Customer Name\"]}}; "),
        ("{{input.a b.c}}", "write {{input[\"a b\"].c}}; "),
        ("{{input.$ref}}", "write {{input[\"$ref\"]}}; "),
        ("{{input. a}}", "write {{input.a}}; "),
        ("{{input.\"a\"}}", "write {{input.a}}; "),
        ("{{step.output.Total (EUR)}}", "write {{step.output[\"Total (EUR)\"]}}; "),
        ("{{question}}", "for a field of the input, write {{input.question}}; "),
        ("{{step.status}}", "which is not a variable; variables are input.<field>, "),
        ("{{step.status}}", "meta.timezone, item; to write {{ as text, write {{\"{{\"}}"),
        ("{{ x", "without a closing }}; to write {{ as text, write {{\"{{\"}}"),
    ] {
        let (_, faults) = PromptTemplate::parse_with_items(source, &["item"]);
        assert!(faults.len() == 1 && faults[0].contains(says), "{source}: {faults:?}");
    }
}

/// All names of an object are read once, however many placeholders ask for a name in another form.
#[test]
fn many_names_of_an_object_of_many_names_are_read_once() {
    let input = (0..50_000).map(|n| (format!("e\u{301}{n}"), json!(n))).collect();
    let known = Known { input, outputs: HashMap::new() };
    let names: Vec<_> = (0..40_000).map(|n| format!("{{{{input.é{}}}}}", 2 * n)).collect();
    let source = names.concat();
    let rendered = parsed(source).render(&known).expect("absent fields are optional");
    assert!(rendered.starts_with("02468") && rendered.ends_with("4999649998"));
}

#[test]
fn json_in_an_output_is_repaired_for_placeholders_and_lists_alike() {
    for step in ["thinks", "talks"] {
        let path = vec!["rows".to_owned()];
        let list = Reference::Output { step: step.to_owned(), path };
        assert_eq!(render(&format!("{{{{{list}.1}}}}")).as_deref(), Ok("b"));
        assert_eq!(value_of(&list, &known()), Ok(Some(json!(["a", "b"]))), "{step}");
        let whole = render(&format!("{{{{{step}.output}}}}")).expect("it has a value");
        assert_eq!(Output::Completed(&whole), known().output(step), "a text stays as it came");
    }
}

#[test]
fn a_failure_names_the_reference() {
    for (source, says) in [
        ("{{input.nested.c}}", "{{input.nested.c}} refers to a missing field"),
        ("{{input.nested.b.2}}", "{{input.nested.b.2}} refers to a missing field"),
        ("{{input.absent.a}}", "{{input.absent.a}} refers to a missing field"),
        ("{{input.text.a}}", "{{input.text.a}} refers to a missing field"),
        (
            "{{plain.output.a}}",
            "{{plain.output.a}} needs an output in JSON, and the output is not valid JSON",
        ),
        ("{{json-1.output.x}}", "{{json-1.output.x}} refers to a missing field"),
        ("{{later.output}}", "{{later.output}} has no value"),
        ("{{env.HOME}}", "{{env.HOME}} has no value"),
        ("{{meta.executionId}}", "{{meta.executionId}} has no value"),
    ] {
        assert_eq!(render(source), Err(says.to_owned()), "{source}");
    }
}

#[test]
fn a_placeholder_that_is_not_closed_or_names_nothing_is_told_with_its_place() {
    for source in [
        "{{",
        "{{}}",
        "{{ }}",
        "{{input}}",
        "{{input.}}",
        "{{input..a}}",
        "{{.input.a}}",
        "{{foo}}",
        "{{step.status}}",
        "{{step.output.}}",
        "{{input.a b}}",
        "{{input. a}}",
        "{{env}}",
        "{{env.A.b}}",
        "{{meta.now}}",
        "{{meta.templateName.x}}",
        "{{input.a[]}}",
        "{{input.a[b]}}",
        "{{input.a[0}}",
        "{{input.a[\"b]}}",
        "{{input.a[\"\\b\"]}}",
        "{{[\"input\"].a}}",
        "{{\"a\" \"b\"}}",
        "{{'a\"}}",
        "{{input.a}",
        "{{input.a} }",
        "{{{{input.a}}",
        "{{input.\"a\"}}",
    ] {
        assert!(!PromptTemplate::parse(source).1.is_empty(), "{source}");
    }
    let (text, faults) = PromptTemplate::parse("äö {{foo}} {{input.a {{input.b}} {{ ");
    assert!(faults[0].starts_with("has {{foo}} at character 4, which is not a variable; "));
    assert!(faults[1].starts_with("has {{ at character 12 without a closing }}; "));
    assert!(faults[2].starts_with("has {{ at character 34 without a closing }}; "));
    let good: Vec<_> = text.references().map(ToString::to_string).collect();
    assert_eq!(good, ["input.b"]);
}

#[test]
fn a_dry_run_keeps_unknown_references_as_written() {
    let text = parsed("{{input.flag}} {{ later.output.a }} {{meta.executionId}}");
    assert_eq!(
        text.render_known(&known()).as_deref(),
        Ok("true {{ later.output.a }} {{meta.executionId}}")
    );
    let text = parsed("{{input.nested.c}}");
    assert!(matches!(text.render_known(&known()), Err(Error::Missing(_))));
}

#[test]
fn a_result_over_the_limit_is_refused_before_it_is_built() {
    let mut known = known();
    known.input.insert("half".to_owned(), Value::String("x".repeat(MAX_PROMPT / 2)));
    let twice = parsed("{{input.half}}{{input.half}}");
    assert_eq!(twice.render(&known).map(|rendered| rendered.len()), Ok(MAX_PROMPT));
    let more = parsed("{{input.half}}{{input.half}}.");
    assert_eq!(more.render(&known), Err(Error::TooLong));
    let often = parsed("{{input.half}}".repeat(10_000));
    assert_eq!(often.render(&known), Err(Error::TooLong));
}

#[test]
fn a_text_of_nothing_but_braces_is_read_in_no_time() {
    let (_, faults) = PromptTemplate::parse("{{ ".repeat(MAX_PROMPT / 3));
    assert_eq!(faults.len(), MAX_FAULTS);
    let (text, faults) = PromptTemplate::parse("{{input.a}}".repeat(MAX_PROMPT / 11));
    assert_eq!((text.references().count(), faults.len()), (MAX_PROMPT / 11, 0));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics_and_keeps_its_source(source in "([{}. a-cü]|\\{\\{|\\}\\}|input\\.x|meta\\.|out|\\.output){0,30}") {
        let (text, _) = PromptTemplate::parse(source.clone());
        prop_assert_eq!(text.source(), &source);
        let _ = text.render(&known());
        let _ = text.render_known(&known());
    }

    #[test]
    fn inserted_text_is_never_scanned_again(value in "([{}a.]|\\{\\{input\\.b\\}\\}|\\{\\{){0,20}", around in "[a-z }]{0,5}") {
        let input = Map::from_iter([("a".to_owned(), json!(value)), ("b".to_owned(), json!("INSERTED"))]);
        let known = Known { input, outputs: HashMap::new() };
        let text = parsed(format!("{around}{{{{input.a}}}}{around}"));
        prop_assert_eq!(text.render(&known), Ok(format!("{around}{value}{around}")));
    }

    #[test]
    fn a_text_of_values_renders_to_their_concatenation(pieces in prop::collection::vec(("[a-z ]{0,4}", prop::option::of("[a-z]{0,4}")), 0..10)) {
        let mut source = String::new();
        let mut expected = String::new();
        let mut input = Map::new();
        for (index, (literal, value)) in pieces.into_iter().enumerate() {
            source += &literal;
            expected += &literal;
            if let Some(value) = value {
                source.push_str(&["{{ input.f", &index.to_string(), " }}"].concat());
                expected += &value;
                input.insert(format!("f{index}"), json!(value));
            }
        }
        let text = parsed(source);
        prop_assert_eq!(text.render(&Known { input, outputs: HashMap::new() }), Ok(expected));
    }
}

struct Called {
    known: Known,
    value: &'static str,
}

impl Scope for Called {
    fn input(&self) -> &Map<String, Value> {
        self.known.input()
    }

    fn output(&self, step: &str) -> Output<'_> {
        if step == "called" { Output::Json(self.value) } else { self.known.output(step) }
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.known.env(name)
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        self.known.meta(meta)
    }

    fn is_json(&self, step: &str) -> bool {
        step == "number"
    }
}

fn args(value: &'static str, args: &Value) -> Result<Value, String> {
    let args = args.as_object().cloned().expect("args are an object");
    let mut scope = Called { known: known(), value };
    scope.known.outputs.extend([("number", Some("7")), ("digits", Some("7"))]);
    let template = ArgsTemplate::parse(&args, &mut |_, text| parsed(text));
    template.render(&scope).map(Value::Object).map_err(|error| error.to_string())
}

#[test]
fn a_string_that_is_one_placeholder_takes_the_value_with_its_type() {
    let given = json!({
        "count": "{{input.count}}", "flag": "{{ input.flag }}", "nested": {"list": ["{{input.nested}}", 1]},
        "big": "{{input.big}}", "none": "{{input.none}}", "absent": "{{input.absent}}", "skipped": "{{skipped.output}}",
        "text": "{{plain.output}}", "json": "{{json-1.output}}", "level": "{{json-1.output.risk.level}}",
        "number": "{{number.output}}", "digits": "{{digits.output}}", "region": "{{env.REGION}}",
        "{{input.name}}": "a name is no template", "plain": "as it is",
    });
    let expected = json!({
        "count": 2.5, "flag": true, "nested": {"list": [{"b": [1, {"z": "ü", "a": null}]}, 1]},
        "big": 12_345_678_901_234_567_u64, "none": null, "absent": null, "skipped": null, "text": "just text",
        "json": {"risk": {"level": "HIGH"}, "list": ["a", "b"]}, "level": "HIGH",
        "number": 7, "digits": "7", "region": "eu",
        "{{input.name}}": "a name is no template", "plain": "as it is",
    });
    assert_eq!(args("null", &given), Ok(expected));
}

#[test]
fn any_other_string_inserts_text_and_its_values_are_no_templates() {
    let given = json!({"a": "no. {{input.count}}", "b": " {{input.flag}}", "c": "{{input.text}}"});
    let expected = json!({"a": "no. 2.5", "b": " true", "c": "{{input.secret}}"});
    assert_eq!(args("null", &given), Ok(expected));
}

#[test]
fn the_value_of_a_function_has_its_type_in_args_and_no_quotes_in_texts() {
    for (value, typed, text) in [
        (r#""a \"b\"""#, json!("a \"b\""), json!("<a \"b\">")),
        ("7", json!(7), json!("<7>")),
        ("null", Value::Null, json!("<>")),
        (r#"{"b": [1]}"#, json!({"b": [1]}), json!("<{\"b\": [1]}>")),
    ] {
        let given = json!({"typed": "{{called.output}}", "text": "<{{called.output}}>"});
        assert_eq!(args(value, &given), Ok(json!({"typed": typed, "text": text})));
    }
    let within = json!({"a": "{{called.output.b.0}}"});
    assert_eq!(args(r#"{"b": [1]}"#, &within), Ok(json!({"a": 1})));
    let missing = args("7", &within).expect_err("7 has no members");
    assert_eq!(missing, "{{called.output.b.0}} refers to a missing field");
}

#[test]
fn rendered_args_have_at_most_256_kib_of_json() {
    let mut scope = known();
    scope.input.insert("long".into(), "x".repeat(MAX_ARGS / 2).into());
    let given = |count: usize| {
        let args = json!({"a": vec!["{{input.long}}"; count]});
        let template =
            ArgsTemplate::parse(args.as_object().expect("an object"), &mut |_, text| parsed(text));
        template.render(&scope).map(|_| ())
    };
    assert_eq!(given(1), Ok(()));
    assert_eq!(given(2), Err(Error::ArgsTooLong));
}
