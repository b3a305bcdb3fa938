use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::document::json;

fn read(text: &str) -> Value {
    parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

fn refusal(text: impl AsRef<[u8]>) -> String {
    match parse(text.as_ref()) {
        Err(Error::InvalidYaml(what)) => what,
        other => panic!("{:?} gave {other:?}", String::from_utf8_lossy(text.as_ref())),
    }
}

#[test]
fn scalars_are_what_they_are_in_json_and_all_else_is_text() {
    for (text, expected) in [
        ("~", json!(null)),
        ("a:", json!({"a": null})),
        ("[true, False, yes, no, on, y]", json!([true, false, "yes", "no", "on", "y"])),
        ("[12, -3, +4, 007, 0x1F, 0o17]", json!([12, -3, 4, 7, 31, 15])),
        ("[1.5, .5, 1., 1e3, -2.5E-1]", json!([1.5, 0.5, 1.0, 1000.0, -0.25])),
        ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
        ("['5', \"true\", 'null']", json!(["5", "true", "null"])),
        ("|\n  a\n  {{x}}\n", json!("a\n{{x}}\n")),
        (">-\n  a\n  b\n", json!("a b")),
        ("[!!str 5, !!int 5, !!float 5, !!bool true, !!null ~]", json!(["5", 5, 5, true, null])),
        ("b: 1\na: 2 # c\n", json!({"b": 1, "a": 2})),
        ("<<: {a: 1}", json!({"<<": {"a": 1}})),
        ("{\"a\": [1, \"\\u00e4\"]}", json!({"a": [1, "ä"]})),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn what_looks_like_a_number_and_is_none_is_text() {
    for text in ["1.0.0", "30d", "1y", "0x", "0b1", "1_000", "12:30", "e3", ".", "--1", "1e", "+"] {
        assert_eq!(read(&format!("[{text}]")), json!([text]), "{text}");
    }
}

#[test]
fn an_anchor_can_be_used_again_and_nothing_can_be_unfolded_without_end() {
    assert_eq!(read("a: &x {b: [1]}\nc: *x\nd: *x\n"), {
        json!({"a": {"b": [1]}, "c": {"b": [1]}, "d": {"b": [1]}})
    });
    let laughs = lines(20, |n| match n.checked_sub(1) {
        None => format!("a0: &a0 [{}]\n", ["lol"; 9].join(", ")),
        Some(of) => format!("a{n}: &a{n} [{}]\n", [format!("*a{of}").as_str(); 9].join(", ")),
    });
    assert!(refusal(&laughs).contains("unfold to more than"), "{}", refusal(&laughs));
    let deep = lines(70, |n| match n.checked_sub(1) {
        None => "a0: &a0 [x]\n".to_owned(),
        Some(of) => format!("a{n}: &a{n} [*a{of}]\n"),
    });
    assert!(refusal(&deep).starts_with("nested deeper than 64 levels"));
    assert!(refusal("a: &a [*a]").starts_with("an alias stands within what it refers to"));
    assert!(!refusal("a: *nobody").is_empty());
}

const KEY: &str = "a name must be a string, not a list or an object; put a text that begins with { or [, such \
                   as \"{{input.x}}\", in quotes";

#[test]
fn what_the_service_does_not_take_is_refused_by_name_and_place() {
    for (text, says) in [
        ("", "it is empty"),
        ("\u{feff}a: 1", "it begins with a byte-order mark; save it as UTF-8 without one"),
        ("# nothing\n", "it is empty"),
        ("a: 1\na: 2\n", "\"a\" is given twice at line 2 column 1"),
        ("a: {b: 1, 'b': 2}", "\"b\" is given twice at line 1 column 11"),
        ("1: x", "a name must be a string, not 1; put it in quotes at line 1 column 1"),
        ("true: x", "a name must be a string, not true; put it in quotes at line 1 column 1"),
        ("~: x", "a name must be a string, not null; put it in quotes at line 1 column 1"),
        ("prompt: {{input.x}}", &format!("{KEY} at line 1 column 10")),
        ("prompt: {{input.x}}: {{input.y}}", &format!("{KEY} at line 1 column 10")),
        ("- {{ item }}", &format!("{KEY} at line 1 column 4")),
        ("[a]: x", &format!("{KEY} at line 1 column 1")),
        ("? {a: 1}\n: x", &format!("{KEY} at line 1 column 3")),
        ("a: 1\n---\nb: 2\n", "there is a second document at line 2 column 1"),
        ("a: .inf", "number out of range at line 1 column 4"),
        ("a: -.Inf", "number out of range at line 1 column 4"),
        ("a: .nan", "number out of range at line 1 column 4"),
        ("a: 1e400", "number out of range at line 1 column 4"),
        ("a: !!binary aGk=", "the tag !!binary is not taken here"),
        ("a: !!set {b: ~}", "the tag !!set is not taken here"),
        ("a: !x 5", "the tag !x is not taken here"),
        ("a: !!int x", "the tag !!int is not taken here"),
    ] {
        let found = refusal(text);
        let (what, place) = says.split_once(" at line").unwrap_or((says, ""));
        assert!(found.starts_with(what) && found.contains(place), "{text:?}: {found}");
    }
    assert_eq!(refusal(b"a: \xff"), "no UTF-8 at byte 4; save it as UTF-8");
    for utf_16 in [&b"\xff\xfea\0:\0"[..], b"\xfe\xff\0a\0:", b"a\0:\0 \x001\0", b"\0a\0:"] {
        assert_eq!(refusal(utf_16), "it is UTF-16; save it as UTF-8");
    }
    for utf_32 in [&b"\xff\xfe\0\0a\0\0\0"[..], b"\0\0\xfe\xff\0\0\0a", b"a\0\0\0:\0\0\0"] {
        assert_eq!(refusal(utf_32), "it is UTF-32; save it as UTF-8");
    }
    for broken in ["a: [1", "a: 'x", "a: {b", "a: b: c", "- a\nb: c", "%", "@x", "a: `x"] {
        assert!(refusal(broken).contains(" at line "), "{broken}: {}", refusal(broken));
    }
}

#[test]
fn sixty_four_levels_are_taken_and_sixty_five_are_not() {
    let flow = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let block = |levels| {
        lines(levels, |level| {
            format!(
                "{}a:
",
                " ".repeat(level)
            )
        })
    };
    assert_eq!(depth(&read(&flow(64))), 64);
    assert_eq!(depth(&read(&block(64))), 64);
    for deep in [flow(65), block(65), flow(100_000), "{a: ".repeat(50_000), "- ".repeat(100_000)] {
        let found = refusal(&deep);
        assert!(found.starts_with("nested deeper than 64") || found.contains("limit"), "{found}");
    }
}

#[test]
fn a_large_document_takes_no_longer_than_its_length() {
    let size = 1 << 20;
    for text in [
        "a: 1\n".repeat(size / 5),
        "[".repeat(size),
        "- \n".repeat(size / 3),
        format!("[{}]", "a,".repeat(size / 2)),
        format!("\"{}\"", "\\n".repeat(size / 2)),
        format!("a: {}", "x ".repeat(size / 2)),
        format!("a: {}", "x\n ".repeat(size / 3)),
        "? ".repeat(size / 2),
        "{a: ".repeat(size / 4),
        "&a ".repeat(size / 3),
        "!a ".repeat(size / 3),
        "*a ".repeat(size / 3),
        "#\n".repeat(size / 2),
        "---\n".repeat(size / 4),
        "%A b\n".repeat(size / 5),
        "'".repeat(size),
        " ".repeat(size) + "a",
        lines(size / 12, |n| format!("k{n}: v\n")),
        lines(size / 16, |n| format!("k{n}: &a{n} v\n")),
        format!("{{{}}}", lines(size / 12, |n| format!("k{n}: v, "))),
    ] {
        let begun = Instant::now();
        let _ = parse(text.as_bytes());
        let took = begun.elapsed();
        let shown: String = text.chars().take(12).collect();
        assert!(took < Duration::from_secs(20), "{shown:?} took {took:?}");
    }
}

proptest! {
    #[test]
    fn what_is_json_says_the_same_as_yaml(value in any_json()) {
        let text = value.to_string();
        let json = json::parse(text.as_bytes()).expect("it is JSON");
        prop_assert_eq!(parse(text.as_bytes()), Ok(json));
    }

    #[test]
    fn nothing_makes_it_panic(text in "[-a: \\n\\t{}\\[\\],&*!|>'\"%@`#?0-9.~<]{0,200}") {
        let _ = parse(text.as_bytes());
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6..1e6).prop_map(Value::from),
        "[ -~äß😀]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[a-z0-9 ]{0,6}", inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}
