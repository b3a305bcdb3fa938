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
        match meta {
            Meta::TemplateName => Some("Review"),
            Meta::ExecutionId => None,
        }
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
        ("skipped", None),
    ]);
    Known { input, outputs }
}

fn render(source: &str) -> Result<String, String> {
    let text = Text::parse(source).map_err(|misreads| misreads[0].message.clone())?;
    text.render(&known()).map_err(|error| error.to_string())
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

#[test]
fn what_cannot_be_reached_names_the_reference() {
    for (source, says) in [
        ("{{input.nested.c}}", "{{input.nested.c}} names a field that is missing"),
        ("{{input.nested.b.2}}", "{{input.nested.b.2}} names a field that is missing"),
        ("{{input.absent.a}}", "{{input.absent.a}} names a field that is missing"),
        ("{{input.text.a}}", "{{input.text.a}} names a field that is missing"),
        ("{{plain.output.a}}", "{{plain.output.a}} reaches into an output that is not JSON"),
        ("{{json-1.output.x}}", "{{json-1.output.x}} names a field that is missing"),
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
        "{{input.a[0]}}",
        "{{input.a}",
        "{{input.a} }",
        "{{{{input.a}}",
        "{{input.\"a\"}}",
    ] {
        assert!(Text::parse(source).is_err(), "{source}");
    }
    let (text, misreads) = Text::read("äö {{foo}} {{input.a {{input.b}} {{ ");
    let places: Vec<_> = misreads.iter().map(|misread| misread.character).collect();
    assert_eq!(places, [4, 12, 34]);
    assert!(misreads[0].message.starts_with("has {{foo}} at character 4, which names no variable"));
    assert_eq!(misreads[1].message, "has {{ at character 12 without its }}");
    let good: Vec<_> = text.references().map(ToString::to_string).collect();
    assert_eq!(good, ["input.b"]);
}

#[test]
fn a_dry_run_keeps_as_written_what_is_not_known_before_the_run() {
    let text = Text::parse("{{input.flag}} {{ later.output.a }} {{meta.executionId}}").unwrap();
    assert_eq!(
        text.render_known(&known()).as_deref(),
        Ok("true {{ later.output.a }} {{meta.executionId}}")
    );
    let text = Text::parse("{{input.nested.c}}").unwrap();
    assert!(matches!(text.render_known(&known()), Err(Error::Missing(_))));
}

#[test]
fn a_result_over_the_limit_is_refused_before_it_is_built() {
    let mut known = known();
    known.input.insert("half".to_owned(), Value::String("x".repeat(MAX_PROMPT / 2)));
    let twice = Text::parse("{{input.half}}{{input.half}}").unwrap();
    assert_eq!(twice.render(&known).map(|rendered| rendered.len()), Ok(MAX_PROMPT));
    let more = Text::parse("{{input.half}}{{input.half}}.").unwrap();
    assert_eq!(more.render(&known), Err(Error::TooLong));
    let often = Text::parse("{{input.half}}".repeat(10_000)).unwrap();
    assert_eq!(often.render(&known), Err(Error::TooLong));
}

#[test]
fn a_text_serialises_to_its_source() {
    let text = Text::parse("a {{ input.b }} }}").unwrap();
    let stored = serde_json::to_string(&text).unwrap();
    assert_eq!(stored, r#""a {{ input.b }} }}""#);
    assert_eq!(serde_json::from_str::<Text>(&stored).unwrap(), text);
    assert!(serde_json::from_str::<Text>(r#""{{""#).is_err());
}

#[test]
fn a_text_of_nothing_but_braces_is_read_in_no_time() {
    let (_, misreads) = Text::read("{{ ".repeat(MAX_PROMPT / 3));
    assert_eq!(misreads.len(), MAX_MISREADS);
    let (text, misreads) = Text::read("{{input.a}}".repeat(MAX_PROMPT / 11));
    assert_eq!((text.references().count(), misreads.len()), (MAX_PROMPT / 11, 0));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics_and_keeps_its_source(source in "([{}. a-cü]|\\{\\{|\\}\\}|input\\.x|meta\\.|out|\\.output){0,30}") {
        let (text, _) = Text::read(source.clone());
        prop_assert_eq!(text.source(), &source);
        let _ = text.render(&known());
        let _ = text.render_known(&known());
    }

    #[test]
    fn inserted_text_is_never_scanned_again(value in "([{}a.]|\\{\\{input\\.b\\}\\}|\\{\\{){0,20}", around in "[a-z }]{0,5}") {
        let input = Map::from_iter([("a".to_owned(), json!(value)), ("b".to_owned(), json!("INSERTED"))]);
        let known = Known { input, outputs: HashMap::new() };
        let text = Text::parse(format!("{around}{{{{input.a}}}}{around}")).unwrap();
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
        let text = Text::parse(source).unwrap();
        prop_assert_eq!(text.render(&Known { input, outputs: HashMap::new() }), Ok(expected));
    }
}
