//! Repair of a model's JSON where nothing is invented: a Markdown fence around it, a trailing comma.
//!
//! Deliberately absent: every repair that would add, close or guess a value. A text that was cut is
//! never completed.

use serde_json::Value;

/// The value of an output, and the repaired text if the output was not JSON as it came.
pub(super) fn parse(output: &str) -> Result<(Value, Option<String>), serde_json::Error> {
    let as_it_is = match serde_json::from_str(output) {
        Ok(value) => return Ok((value, None)),
        Err(error) => error,
    };
    let inside = unfenced(output);
    if let Ok(value) = serde_json::from_str(inside) {
        return Ok((value, Some(inside.to_owned())));
    }
    let repaired = without_trailing_commas(inside);
    match serde_json::from_str(&repaired) {
        Ok(value) => Ok((value, Some(repaired))),
        Err(_) => Err(serde_json::from_str::<Value>(inside).err().unwrap_or(as_it_is)),
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
            "Here it is: {\"a\": 1}",
            "{'a': 1}",
            "{\"a\": 1} {\"a\": 2}",
            "```json\n{\"a\": 1",
            "\"text,]",
        ] {
            assert_eq!(repaired(cut), None, "{cut}");
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
