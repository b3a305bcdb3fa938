//! Repair of a model's JSON where nothing is invented: thinking before it, a Markdown fence or prose
//! around it, a trailing comma, half of a surrogate pair in a string.
//!
//! Prose may surround one value alone: of several, none is chosen. Deliberately absent: every repair that
//! would add, close or guess a value. A text that was cut is never completed.

use std::borrow::Cow;

use serde_json::Value;

use crate::surrogates;

/// The tags between which models think before they answer.
const THOUGHTS: [(&str, &str); 5] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
];
/// The most values in prose that are tried without their trailing commas.
const MAX_TRIES: usize = 8;

/// The value of an output, and the repaired text if the output was not JSON as it came.
pub(super) fn parse(output: &str) -> Result<(Value, Option<String>), serde_json::Error> {
    match whole(output) {
        Ok((value, text)) => Ok((value, text.map(Cow::into_owned))),
        Err(fault) => match in_prose(answer(output)) {
            Some((value, text)) => Ok((value, Some(text))),
            None => Err(fault),
        },
    }
}

/// The same for an output that is nothing but the value: prose around it is a fault.
pub(super) fn whole(output: &str) -> Result<(Value, Option<Cow<'_, str>>), serde_json::Error> {
    let as_it_is = match serde_json::from_str(output) {
        Ok(value) => return Ok((value, None)),
        Err(error) => error,
    };
    let inside = unfenced(answer(output));
    match sloppy(inside) {
        Some((value, text)) => Ok((value, Some(text))),
        None => Err(serde_json::from_str::<Value>(inside).err().unwrap_or(as_it_is)),
    }
}

/// The output after the thinking before it; nothing, if the thinking has no end.
fn answer(output: &str) -> &str {
    let mut text = output.trim();
    loop {
        let thought = THOUGHTS.iter().find(|(open, _)| text.starts_with(open));
        // Chat templates may open the thinking themselves, so that the output closes it alone.
        let closes = match thought {
            Some((_, close)) => close,
            None if text.starts_with(['{', '[', '"', '`']) => return text,
            None => "</think>",
        };
        text = match text.split_once(closes) {
            Some((_, after)) => after.trim_start(),
            None if thought.is_some() => return "",
            None => return text,
        };
    }
}

/// The content of the fence, if the output is a single fence.
fn unfenced(output: &str) -> &str {
    let whole = output.trim();
    let Some(inside) = whole.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) else {
        return whole;
    };
    match inside.split_once('\n') {
        Some((language, text)) if !language.contains(['{', '[', '"']) => text.trim(),
        Some(_) | None => inside.trim(),
    }
}

/// The value of a text that is JSON, but perhaps for trailing commas and halves of surrogate pairs.
fn sloppy(text: &str) -> Option<(Value, Cow<'_, str>)> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some((value, Cow::Borrowed(text)));
    }
    let paired = surrogates::replaced(text, |_| char::REPLACEMENT_CHARACTER);
    let repaired = without_trailing_commas(&paired);
    serde_json::from_str(&repaired).ok().map(|value| (value, Cow::Owned(repaired)))
}

/// The one object or array in a text.
fn in_prose(text: &str) -> Option<(Value, String)> {
    match fenced(text) {
        Fenced::One(value, text) => return Some((value, text)),
        Fenced::Several => return None,
        Fenced::None => {}
    }
    let (mut found, mut rest, mut tries) = (None, text, MAX_TRIES);
    while let Some(at) = rest.find(['{', '[']) {
        rest = &rest[at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let (value, length) = match values.next()? {
            Ok(value) => {
                let end = values.byte_offset();
                (Some((value, Cow::Borrowed(&rest[..end]))), end)
            }
            // The rest was cut.
            Err(fault) if fault.is_eof() => return None,
            Err(fault) => {
                tries = tries.saturating_sub(1);
                let whole = if tries > 0 { closed(rest) } else { None };
                match whole.and_then(|end| Some((sloppy(&rest[..end])?, end))) {
                    Some((value, end)) => (Some(value), end),
                    // A value within a broken one is no answer.
                    None => (None, place(rest, &fault).max(1)),
                }
            }
        };
        rest = &rest[length..];
        if let Some((value, text)) = value.filter(|(value, _)| !is_mark(value))
            && found.replace((value, text.into_owned())).is_some()
        {
            return None;
        }
    }
    found
}

enum Fenced {
    None,
    One(Value, String),
    Several,
}

/// The object or array in a fence, whatever stands around the fence.
fn fenced(text: &str) -> Fenced {
    let blocks = text.split("```").skip(1).step_by(2);
    let mut values = blocks.filter_map(|block| {
        let (_, inside) = block.split_once('\n')?;
        sloppy(inside.trim()).filter(|(value, _)| value.is_object() || value.is_array())
    });
    match (values.next(), values.next()) {
        (None, _) => Fenced::None,
        (Some((value, text)), None) => Fenced::One(value, text.into_owned()),
        (Some(_), Some(_)) => Fenced::Several,
    }
}

/// True for the mark of a quotation in prose: `[1]`.
fn is_mark(value: &Value) -> bool {
    value.as_array().is_some_and(|items| matches!(&items[..], [] | [Value::Number(_)]))
}

/// The length of the text up to the bracket that closes its first one.
fn closed(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// The place of a fault in the text, in bytes, at a character's beginning.
fn place(text: &str, fault: &serde_json::Error) -> usize {
    let before = text.split_inclusive('\n').take(fault.line().saturating_sub(1));
    let line: usize = before.map(str::len).sum();
    text.floor_char_boundary(line + fault.column().saturating_sub(1))
}

/// The text without a comma between the last item or member and the bracket that closes it.
fn without_trailing_commas(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    // The last character outside of white space, which shows if a value stands before a comma.
    let mut before = None;
    for (at, character) in text.char_indices() {
        let closes = || {
            let rest = text[at + 1..].trim_start();
            rest.starts_with(['}', ']'])
        };
        let follows_a_value = !matches!(before, None | Some('[' | '{' | ',' | ':'));
        let is_trailing = !in_string && character == ',' && follows_a_value && closes();
        if !is_trailing {
            kept.push(character);
        }
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else {
            in_string = character == '"';
        }
        if !character.is_whitespace() {
            before = Some(character);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn repaired(output: &str) -> Option<(Value, Option<String>)> {
        parse(output).ok()
    }

    #[test]
    fn json_stays_as_it_came() {
        assert_eq!(repaired(" {\"a\": 1}\n"), Some((json!({"a": 1}), None)));
        assert_eq!(repaired("7"), Some((json!(7), None)));
    }

    #[test]
    fn a_fence_and_a_trailing_comma_are_taken_away() {
        let fenced = repaired("```json\n{\"a\": 1}\n```");
        assert_eq!(fenced, Some((json!({"a": 1}), Some("{\"a\": 1}".into()))));
        let trailing = repaired("{\"a\": [1, 2,\n], }");
        assert_eq!(trailing, Some((json!({"a": [1, 2]}), Some("{\"a\": [1, 2\n] }".into()))));
        let both = repaired("```\n[\"x\",]\n```");
        assert_eq!(both, Some((json!(["x"]), Some("[\"x\"]".into()))));
    }

    #[test]
    fn nothing_is_invented() {
        for cut in [
            "",
            "{\"a\": 1",
            "[1, 2",
            "[,]",
            "{,}",
            "[1,,]",
            "{\"a\":,}",
            "Here it is: {\"a\": 1",
            "Either {\"a\": 1} or {\"a\": 2}",
            "The total is 7",
            "<think>Perhaps {\"a\": 1}",
            "[1, {\"a\": 1}, and so on]",
            "```json\n{\"a\": 1}\n```\nor\n```json\n{\"a\": 2}\n```",
            "{'a': 1}",
            "{\"a\": 1} {\"a\": 2}",
            "```json\n{\"a\": 1",
            "\"text,]",
        ] {
            assert_eq!(repaired(cut), None, "{cut}");
        }
    }

    #[test]
    fn the_one_value_in_prose_is_the_answer() {
        for (output, text) in [
            ("Here it is: {\"a\": 1}. Anything else?", "{\"a\": 1}"),
            ("As in [1] and [the note](x): [\"b\", \"c\"]", "[\"b\", \"c\"]"),
            ("The list [\"b\", \"c\",] it is", "[\"b\", \"c\"]"),
            ("Sure!\n\n```json\n{\"a\": [1,\n],}\n```\nSee [2].", "{\"a\": [1\n]}"),
            ("The code:\n```py\nx = 1\n```\nThe result: {\"a\": 1}", "{\"a\": 1}"),
            ("```json\n{\"md\": \"```x```\"}\n```", "{\"md\": \"```x```\"}"),
            ("Note: ```json\n{\"md\": \"```x```\"}\n```", "{\"md\": \"```x```\"}"),
        ] {
            let expected = serde_json::from_str(text).expect("it is JSON");
            assert_eq!(repaired(output), Some((expected, Some(text.into()))), "{output}");
            assert_eq!(whole(output).is_ok(), output.starts_with('`'), "{output}");
        }
    }

    #[test]
    fn thinking_before_the_answer_is_none_of_it() {
        let answer = Some((json!({"total": 3}), Some("{\"total\":3}".into())));
        for output in [
            "<think>1 + 2, {\"total\":2}?</think>{\"total\":3}",
            "\n<think>\n\n</think>\n\n```json\n{\"total\":3}\n```",
            "<think>a</think><think>b</think>\n{\"total\":3}",
            "[THINK]{\"total\":2}[/THINK]{\"total\":3}",
            "<thinking>x</thinking>The answer is {\"total\":3}",
            "The template opened it, {\"total\":2}.\n</think>\n\n{\"total\":3}",
        ] {
            assert_eq!(repaired(output), answer, "{output}");
        }
        let quoted = "{\"a\": \"</think>\",}";
        assert_eq!(repaired(quoted).map(|(value, _)| value), Some(json!({"a": "</think>"})));
        let many = "</think>".repeat(100_000);
        assert_eq!(repaired(&many), None);
    }

    #[test]
    fn half_of_a_surrogate_pair_is_a_replacement_character() {
        let (value, text) = repaired("{\"a\": \"x\\ud83d\"}").expect("the rest is JSON");
        assert_eq!(value, json!({"a": "x\u{fffd}"}));
        assert_eq!(text.as_deref(), Some("{\"a\": \"x\u{fffd}\"}"));
    }

    #[test]
    fn a_long_text_of_brackets_is_read_in_one_pass() {
        for text in ["[", "{\"a\":", "[1,{", "[x]", "{\"a\":1,}x", "[[1,],x", "```\n[1]\n"] {
            let long = format!("so {}", text.repeat(4_000_000 / text.len()));
            assert_eq!(repaired(&long), None, "{text}");
        }
    }

    #[test]
    fn a_comma_inside_a_string_stays() {
        let output = r#"{"a": "x,] \",}", }"#;
        let (value, _) = repaired(output).expect("one comma too many");
        assert_eq!(value, json!({"a": "x,] \",}"}));
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[a-z,\\]\\}\"\\\\ ]{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z,\"]{0,4}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// The value with a comma before each bracket that closes something.
    fn sloppy(value: &Value) -> String {
        match value {
            Value::Array(items) if !items.is_empty() => {
                format!("[{},]", items.iter().map(sloppy).collect::<Vec<_>>().join(","))
            }
            Value::Object(members) if !members.is_empty() => {
                let member = |(name, value): (&String, &Value)| {
                    format!("{}: {}", json!(name), sloppy(value))
                };
                format!("{{{} ,\n}}", members.iter().map(member).collect::<Vec<_>>().join(","))
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => value.to_string(),
        }
    }

    proptest! {
        #[test]
        fn a_repair_never_changes_a_value(value in values()) {
            prop_assert_eq!(repaired(&sloppy(&value)).map(|(found, _)| found), Some(value.clone()));
            prop_assert_eq!(repaired(&value.to_string()), Some((value, None)));
        }

        #[test]
        fn a_text_that_was_cut_is_never_repaired(
            value in values().prop_filter("closes with a bracket", |value| {
                value.is_array() || value.is_object()
            }),
            share in 0.0_f64..1.0,
        ) {
            let whole = value.to_string();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a short text")]
            let mut end = (whole.len() as f64 * share) as usize;
            while !whole.is_char_boundary(end) {
                end -= 1;
            }
            prop_assert_eq!(repaired(&whole[..end]), None);
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,40}") {
            let _ = parse(&text);
            let _ = parse(&format!("```\n{text}\n```"));
        }
    }
}
