//! Functions: work that is code of a worker's, in place of a prompt for a model (docs/reference/functions.md).
//!
//! ```text
//!   {"function": "lookup_customer", "args": {"id": "{{input.id}}"}} ─▶ Inputs::args, model "function:lookup_customer"
//! ```
//!
//! A task's model names its work, so that queues, lists, metrics and usage need no second name. Deliberately
//! absent: the rendering of args, which is [`crate::render::ArgsTemplate`]'s, and the call, which is a worker's.

use std::borrow::Cow;

use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The beginning of a model's name that stands for a function; no model may have it.
pub const PREFIX: &str = "function:";
/// The longest name of a function, in characters.
pub const MAX_NAME: usize = 64;
/// The longest args, as written and as rendered, in bytes of compact JSON.
pub const MAX_ARGS: usize = 256 << 10;
/// The longest output of a function, in bytes of JSON.
pub const MAX_OUTPUT: usize = 8 << 20;
/// The deepest nesting of an output: readers of JSON go no deeper.
pub const MAX_DEPTH: usize = 100;
/// The most functions that a worker may announce.
pub const MAX_FUNCTIONS: usize = 256;
/// The longest description of a function, in characters.
pub const MAX_DESCRIPTION: usize = 1_024;

/// The pattern of a function's name, as a fault states it.
pub const NAME_PATTERN: &str = "^[a-z][a-z0-9_.-]{0,63}$";

/// The fault of a model whose name stands for a function, which follows the name of its field.
pub const RESERVED: &str =
    "must not begin with function:, which stands for a call: give function and args instead";

/// The work of a task, by the name of its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work<'a> {
    /// A prompt for this model.
    Prompt(&'a str),
    /// A call of this function.
    Function(&'a str),
}

impl<'a> Work<'a> {
    /// The work of a task with this model.
    #[must_use]
    pub fn of(model: &'a str) -> Self {
        model.strip_prefix(PREFIX).map_or(Self::Prompt(model), Self::Function)
    }

    /// The name of the function, if the work is a call of one.
    #[must_use]
    pub const fn function(self) -> Option<&'a str> {
        match self {
            Self::Prompt(_) => None,
            Self::Function(name) => Some(name),
        }
    }
}

/// The call of a function in a task or a step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Call {
    /// The name of the function.
    pub function: String,
    /// The args; the strings of a step's may have placeholders.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub args: Map<String, Value>,
}

impl Call {
    /// The name of the work among models.
    #[must_use]
    pub fn model(&self) -> String {
        format!("{PREFIX}{}", self.function)
    }
}

/// True for the name of a function.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(inner)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// [`RESERVED`], if the name of a model stands for a function.
#[must_use]
pub fn reserved(model: &str) -> Option<&'static str> {
    Work::of(model).function().map(|_| RESERVED)
}

/// A function as a worker announces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// The name; `*` for every function, which the worker of the sandbox runs.
    pub name: String,
    /// The description, for people.
    pub description: Option<String>,
    /// The JSON Schema of the args.
    pub input_schema: Option<Value>,
    /// The JSON Schema of the output.
    pub output_schema: Option<Value>,
}

impl Announced {
    /// Every function.
    pub const EVERY: &str = "*";

    /// True if the announcement is of this function.
    #[must_use]
    pub fn is_of(&self, function: &str) -> bool {
        self.name == function || self.name == Self::EVERY
    }
}

/// The output in a worker's frame: a text, or the JSON of any other value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A string: the answer of a model, or the value of a function.
    Text(String),
    /// The JSON of a value that is no string.
    Json(String),
}

impl Output {
    /// The bytes of the text or of the JSON.
    #[must_use]
    pub const fn length(&self) -> usize {
        match self {
            Self::Text(text) | Self::Json(text) => text.len(),
        }
    }

    /// The output of a prompt: the text, or the JSON of any other value.
    #[must_use]
    pub fn of_prompt(self) -> String {
        match self {
            Self::Text(text) | Self::Json(text) => text,
        }
    }

    /// The output of a function: the JSON of its value.
    #[must_use]
    pub fn of_function(self) -> String {
        match self {
            Self::Text(text) => Value::String(text).to_string(),
            Self::Json(json) => json,
        }
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Serialize for Output {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Json(json) => {
                let value: Value = serde_json::from_str(json).map_err(serde::ser::Error::custom)?;
                value.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Output {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Value::deserialize(deserializer)? {
            Value::String(text) => Self::Text(text),
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => Self::Json(other.to_string()),
        })
    }
}

/// The reason why a function's output cannot be kept; `None` if it can. The JSON is taken for valid.
#[must_use]
pub fn output_fault(json: &str) -> Option<String> {
    if json.len() > MAX_OUTPUT {
        let length = json.len();
        return Some(format!(
            "the output has {length} bytes of JSON, more than the limit of {MAX_OUTPUT}"
        ));
    }
    let says = || format!("the output is nested more than {MAX_DEPTH} levels deep");
    (depth(json) > MAX_DEPTH).then(says)
}

/// The deepest nesting of a JSON text.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The text that a prompt gets for a function's output: a string as it is, null as nothing, any other value as its
/// JSON.
#[must_use]
pub fn text_of(json: &str) -> Cow<'_, str> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).map_or(Cow::Borrowed(json), Cow::Owned),
        _ if json == "null" => Cow::Borrowed(""),
        _ => Cow::Borrowed(json),
    }
}

/// The bytes of a value as compact JSON.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "values of JSON have a JSON form")]
pub fn json_length(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, value).expect("a JSON value has a JSON form");
    counter.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_begins_with_a_letter_and_has_at_most_64_characters() {
        for name in ["a", "lookup_customer", "crm.get-2", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "A", "1a", "_a", "a b", "ä", "a/b", "*", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn a_model_names_a_prompt_or_a_function() {
        assert_eq!(Work::of("gpt-4o"), Work::Prompt("gpt-4o"));
        assert_eq!(Work::of("function:f").function(), Some("f"));
        let call = Call { function: "f".into(), args: Map::new() };
        assert_eq!(Work::of(&call.model()), Work::Function("f"));
        assert!(reserved("function:f").is_some() && reserved("functions").is_none());
    }

    #[test]
    fn a_string_is_the_text_of_a_prompt_and_the_json_of_a_function() {
        let of = |value: Value| serde_json::from_value::<Output>(value).expect("any value");
        assert_eq!(of(json!("a \"b\"")).of_prompt(), "a \"b\"");
        assert_eq!(of(json!("a \"b\"")).of_function(), r#""a \"b\"""#);
        assert_eq!(of(json!({"b": 1, "a": [null]})).of_function(), r#"{"b":1,"a":[null]}"#);
        assert_eq!(of(Value::Null).of_function(), "null");
        assert_eq!(serde_json::to_value(of(json!([1.5]))).expect("it is JSON"), json!([1.5]));
    }

    #[test]
    fn an_output_that_is_too_long_or_too_deep_cannot_be_kept() {
        assert_eq!(output_fault("{\"a\":[1]}"), None);
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert_eq!(output_fault(&deep(MAX_DEPTH)), None);
        assert!(output_fault(&deep(MAX_DEPTH + 1)).is_some_and(|says| says.contains("deep")));
        assert_eq!(output_fault(&format!("\"{}\"", deep(MAX_DEPTH + 1))), None, "a string is flat");
        let long = "1".repeat(MAX_OUTPUT + 1);
        assert!(output_fault(&long).is_some_and(|says| says.contains("8388609 bytes")));
    }

    #[test]
    fn the_text_of_an_output_is_as_placeholders_insert_it() {
        assert_eq!(text_of(r#""a \"b\"""#), "a \"b\"");
        assert_eq!(
            (text_of("null"), text_of("7"), text_of("[]")),
            ("".into(), "7".into(), "[]".into())
        );
    }
}
