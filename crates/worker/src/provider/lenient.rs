//! Readers of what providers send where their descriptions say something else: texts in parts, counts that
//! are null or fractions, halves of a surrogate pair in two pieces.

use callboard_domain::surrogates;
use serde_json::Value;

/// The first of the characters that stand for halves of surrogate pairs until they are joined.
const FIRST_MARK: u32 = 0x10_F800;
const FIRST_HALF: u16 = 0xD800;
const FIRST_LOW: u16 = 0xDC00;

/// The JSON of an event.
#[derive(Debug)]
pub(super) struct Json {
    pub(super) value: Value,
    /// True if marks of halves stand in its texts.
    pub(super) has_halves: bool,
}

/// The JSON values of an event: one, one in each line, or those of a list. Words that are no JSON give
/// none; `None` means that JSON is broken.
pub(super) fn values(data: &str) -> Option<Vec<Json>> {
    let marked = surrogates::replaced(data, mark);
    let has_halves = marked.as_ref() != data;
    let mut found = Vec::new();
    read(&marked, &mut found)?;
    Some(found.into_iter().map(|value| Json { value, has_halves }).collect())
}

fn read(data: &str, found: &mut Vec<Value>) -> Option<()> {
    let data = data.trim();
    match serde_json::from_str(data) {
        Ok(Value::Array(items)) => found.extend(items),
        Ok(value) => found.push(value),
        Err(_) if data.contains('\n') => {
            for line in data.lines() {
                read(line, found)?;
            }
        }
        Err(_) if data.starts_with(['{', '[']) && !is_done(data) => return None,
        Err(_) => {}
    }
    Some(())
}

/// True for the event at the end of a stream.
pub(super) fn is_done(data: &str) -> bool {
    data.trim().eq_ignore_ascii_case("[DONE]")
}

/// A number of tokens, in any notation; `None` if there is none.
pub(super) fn count(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => {
            text.trim().parse().ok().or_else(|| whole(text.trim().parse().ok()?))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is checked, and the cast saturates"
)]
fn whole(number: f64) -> Option<u64> {
    (number >= 0.0).then(|| number.round() as u64)
}

/// A text that is not empty.
pub(super) fn string(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The answer and the thinking of a message's content: a text, a part, or a list of both. Parts of other
/// kinds are passed over.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Content {
    pub(super) text: String,
    pub(super) thought: String,
}

impl Content {
    /// Adds the content.
    pub(super) fn take(&mut self, content: &Value) {
        match content {
            Value::String(text) => self.text.push_str(text),
            Value::Array(parts) => parts.iter().for_each(|part| self.take(part)),
            Value::Object(part) => {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
                match kind {
                    "text" | "output_text" | "text_delta" => {
                        if let Some(text) = part.get("text") {
                            self.text.push_str(&inner(text));
                        }
                    }
                    "refusal" => {
                        self.text.push_str(string(part.get("refusal")).unwrap_or_default());
                    }
                    "thinking" | "reasoning" | "reasoning_text" | "thinking_delta" => {
                        let of = ["thinking", "text", "reasoning", "content", "summary"];
                        let said = of.iter().find_map(|name| part.get(*name));
                        self.thought.push_str(&said.map(inner).unwrap_or_default());
                    }
                    _ => {}
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Adds what a message has beside its content: a refusal, which is the model's answer too, and the
    /// members that hold thinking.
    pub(super) fn take_message(&mut self, message: &Value) {
        let thinks = message.pointer("/extra_content/google/thought") == Some(&Value::Bool(true));
        let mut content = Self::default();
        message.get("content").into_iter().for_each(|of| content.take(of));
        if thinks {
            self.thought.push_str(&content.text);
        } else {
            self.text.push_str(&content.text);
        }
        self.thought.push_str(&content.thought);
        if self.text.is_empty() {
            self.text.push_str(string(message.get("refusal")).unwrap_or_default());
        }
        // Some servers send the same thought under several names.
        let names = ["reasoning_content", "reasoning", "thinking", "reasoning_details"];
        let thoughts = names.iter().filter_map(|name| message.get(*name)).map(inner);
        self.thought
            .push_str(&thoughts.into_iter().find(|said| !said.is_empty()).unwrap_or_default());
    }
}

/// The text of a value whose kind is known: a text, a part or parts of text.
fn inner(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(inner).collect(),
        Value::Object(part) => ["text", "thinking", "content", "summary"]
            .iter()
            .find_map(|name| part.get(*name))
            .map(inner)
            .unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// The character that stands for a half until it is joined.
fn mark(half: u16) -> char {
    char::from_u32(FIRST_MARK + u32::from(half - FIRST_HALF)).expect("it is a private character")
}

fn marked(character: char) -> Option<u16> {
    let offset = u32::from(character).checked_sub(FIRST_MARK)?;
    u16::try_from(offset).ok().map(|offset| FIRST_HALF + offset)
}

/// Joins the halves of surrogate pairs, also those of two pieces. A half that stays alone is U+FFFD.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    high: Option<u16>,
}

impl Joiner {
    /// The piece of the text, without a half at its end that waits for the next piece.
    pub(super) fn join(&mut self, piece: String, has_halves: bool) -> String {
        if piece.is_empty() || !has_halves && self.high.is_none() {
            return piece;
        }
        let mut joined = String::with_capacity(piece.len());
        for character in piece.chars() {
            let half = marked(character).filter(|_| has_halves);
            match (self.high.take(), half) {
                (Some(high), Some(low)) if low >= FIRST_LOW => {
                    joined.extend(char::decode_utf16([high, low]).filter_map(Result::ok));
                    continue;
                }
                (Some(_), _) => joined.push(char::REPLACEMENT_CHARACTER),
                (None, _) => {}
            }
            match half {
                Some(half) if half < FIRST_LOW => self.high = Some(half),
                Some(_) => joined.push(char::REPLACEMENT_CHARACTER),
                None => joined.push(character),
            }
        }
        joined
    }

    /// The rest of the text.
    pub(super) fn rest(&mut self) -> String {
        self.high.take().map(|_| String::from(char::REPLACEMENT_CHARACTER)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(message: &Value) -> (String, String) {
        let mut content = Content::default();
        content.take_message(message);
        (content.text, content.thought)
    }

    #[test]
    fn a_text_in_parts_is_the_text_and_other_parts_are_passed_over() {
        let text = |value: &Value| content(&json!({"content": value}));
        let of = |text: &str, thought: &str| (text.to_owned(), thought.to_owned());
        assert_eq!(text(&json!("a")), of("a", ""));
        assert_eq!(text(&json!(null)), of("", ""));
        assert_eq!(
            text(&json!(["a", {"type": "text", "text": "b"}, {"text": "c"}])),
            of("abc", "")
        );
        assert_eq!(text(&json!({"type": "output_text", "text": "a"})), of("a", ""));
        let parts = json!([
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": true},
            {"type": "reference", "reference_ids": [1]},
            {"type": "image_url", "image_url": {"url": "x"}}, 7, null,
            {"type": "text", "text": "a"},
        ]);
        assert_eq!(text(&parts), of("a", "hm"));
    }

    #[test]
    fn thinking_is_read_under_each_of_its_names_and_once() {
        for message in [
            json!({"content": "a", "reasoning_content": "hm"}),
            json!({"content": "a", "reasoning": "hm", "reasoning_details": [{"text": "hm"}]}),
            json!({"content": "a", "reasoning": null, "reasoning_content": "", "thinking": "hm"}),
            json!({"content": "a", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
        ] {
            assert_eq!(content(&message), ("a".to_owned(), "hm".to_owned()), "{message}");
        }
        let gemini = json!({"content": "hm", "extra_content": {"google": {"thought": true}}});
        assert_eq!(content(&gemini), (String::new(), "hm".to_owned()));
        assert_eq!(content(&json!({"content": null, "refusal": "no"})).0, "no");
    }

    #[test]
    fn counts_are_read_in_any_notation() {
        for (value, expected) in [
            (json!(3), Some(3)),
            (json!(3.0), Some(3)),
            (json!("3"), Some(3)),
            (json!("3.0"), Some(3)),
            (json!(1e300), Some(u64::MAX)),
            (json!(null), None),
            (json!(-1), None),
            (json!("many"), None),
            (json!([3]), None),
        ] {
            assert_eq!(count(Some(&value)), expected, "{value}");
        }
        assert_eq!(count(None), None);
    }

    #[test]
    fn an_event_may_hold_several_values_or_words() {
        let read = |data| {
            values(data).map(|found| found.into_iter().map(|json| json.value).collect::<Vec<_>>())
        };
        assert_eq!(read("{\"a\":\n1}"), Some(vec![json!({"a": 1})]));
        assert_eq!(
            read("{\"a\":1}\n{\"a\":2}\n[DONE]"),
            Some(vec![json!({"a": 1}), json!({"a": 2})])
        );
        assert_eq!(read("[{\"a\":1},{\"a\":2}]"), Some(vec![json!({"a": 1}), json!({"a": 2})]));
        for words in ["", "ping", ": keep-alive", "[DONE]", "[done]"] {
            assert_eq!(read(words), Some(vec![]), "{words}");
        }
        assert_eq!(read("{\"a\":"), None);
        assert_eq!(read("{\"a\":1}\n{\"a\":"), None);
    }

    #[test]
    fn halves_are_joined_over_pieces_and_a_lone_one_is_a_replacement_character() {
        let joined = |pieces: &[&str]| {
            let mut joiner = Joiner::default();
            let mut text: String = pieces
                .iter()
                .flat_map(|piece| values(&format!("\"{piece}\"")).expect("JSON"))
                .map(|json| {
                    joiner.join(json.value.as_str().expect("a text").into(), json.has_halves)
                })
                .collect();
            text.push_str(&joiner.rest());
            text
        };
        assert_eq!(joined(&["a\\ud83d", "\\ude00b"]), "a😀b");
        assert_eq!(joined(&["\\ud83d", "", "\\ude00"]), "😀");
        assert_eq!(joined(&["\\ud83d\\ude00"]), "😀");
        assert_eq!(joined(&["a\\ud83d", "b"]), "a\u{fffd}b");
        assert_eq!(joined(&["a\\ud83d"]), "a\u{fffd}");
        assert_eq!(joined(&["\\ude00\\ud83d", "\\ud83d", "\\ude00"]), "\u{fffd}\u{fffd}😀");
        assert_eq!(joined(&["\u{10f83d}", "\\u00e4"]), "\u{10f83d}ä", "a character of its own");
    }
}
