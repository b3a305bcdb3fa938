//! Strict YAML: the values that JSON has, written in YAML 1.2, or a refusal that names the fault
//! and its place.
//!
//! The values are built from the parser's events, so that each is judged before it is made. Plain
//! scalars are read by YAML's core schema: null, true, 12, 0x0c, 1.5 and 1e3 have JSON's meaning,
//! all else is text. An alias is replaced by a copy, and all copies together have at most
//! [`MAX_COPIED`] bytes. Deliberately absent: merge keys (`<<` is a name like any other), several
//! documents, tags beyond the core schema, numbers that JSON has not.

use std::borrow::Cow;
use std::collections::HashMap;

use callboard_domain::Error;
use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Tag};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use super::json::{MAX_DEPTH, text_of};

/// The most bytes that aliases may take in copies.
pub const MAX_COPIED: usize = 4 << 20;

/// The approximate size of a value beside its text.
const NODE: usize = 16;

/// The parser's own limit of depth: above [`MAX_DEPTH`], so that the refusal has our own text.
const PARSER_DEPTH: usize = MAX_DEPTH + 8;

/// The value that `bytes` hold.
///
/// # Errors
///
/// [`Error::InvalidYaml`] for anything but one document that JSON could express: an empty body, a
/// byte-order mark, bytes that are not UTF-8, a member given twice, a name that is no text, another
/// tag than those of the core schema, `.inf` and `.nan`, more than [`MAX_DEPTH`] levels, aliases
/// that unfold to more than [`MAX_COPIED`].
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    text_of(bytes).and_then(document).map_err(Error::InvalidYaml)
}

fn document(text: &str) -> Result<Value, String> {
    let mut options = Options::default();
    options.flow_nesting_limit = PARSER_DEPTH;
    options.block_nesting_limit = PARSER_DEPTH;
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| placed(error.kind(), *error.marker()))?;
        builder.take(event).map_err(|what| placed(&what, span.start))?;
    }
    builder.whole.ok_or_else(|| "it is empty".to_owned())
}

fn placed(what: &impl std::fmt::Display, at: Marker) -> String {
    let what: String = what.to_string().chars().take(200).collect();
    format!("{what} at line {} column {}", at.line(), at.col() + 1)
}

/// A list or an object that is being filled, and the anchor that names it (0 for none).
enum Open {
    List(usize, Vec<Value>),
    Object(usize, Map<String, Value>, Option<String>),
}

/// The value that an anchor names.
struct Anchored {
    value: Value,
    size: usize,
    depth: usize,
}

#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    anchors: HashMap<usize, Anchored>,
    copied: usize,
    whole: Option<Value>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::DocumentStart(..) if self.whole.is_some() => {
                Err("there is a second document".to_owned())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar(text, style, tag.as_deref())?;
                self.put(value, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), "seq")?;
                self.enter(Open::List(anchor, Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), "map")?;
                self.enter(Open::Object(anchor, Map::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List(anchor, items)) => self.put(Value::Array(items), anchor),
                Some(Open::Object(anchor, members, _)) => self.put(Value::Object(members), anchor),
                None => Err("something ends that did not begin".to_owned()),
            },
            Event::Alias(anchor) => {
                let value = self.copy(anchor)?;
                self.put(value, 0)
            }
            Event::UnresolvedAlias(name) => Err(format!("*{name} has no anchor")),
            Event::DocumentStart(..)
            | Event::DocumentEnd
            | Event::StreamStart
            | Event::StreamEnd
            | Event::Anchor(..) => Ok(()),
            _ => Err("this is not taken here".to_owned()),
        }
    }

    fn enter(&mut self, open: Open) -> Result<(), String> {
        if let Some(Open::Object(_, _, None)) = self.open.last() {
            let says = "a name must be a string, not a list or an object; put a text that begins with { or \
                        [, such as \"{{input.x}}\", in quotes";
            return Err(says.to_owned());
        }
        self.open.push(open);
        if self.open.len() > MAX_DEPTH { Err(too_deep()) } else { Ok(()) }
    }

    /// Puts a finished value into the container around it.
    fn put(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        if anchor != 0 {
            let (size, depth) = (size(&value), depth(&value));
            self.charge(size)?;
            self.anchors.insert(anchor, Anchored { value: value.clone(), size, depth });
        }
        match self.open.last_mut() {
            None => self.whole = Some(value),
            Some(Open::List(_, items)) => items.push(value),
            Some(Open::Object(_, members, name)) => match (name.take(), value) {
                (Some(name), value) => match members.entry(name) {
                    Entry::Vacant(vacant) => {
                        vacant.insert(value);
                    }
                    Entry::Occupied(_) => return Err("a member has two values".to_owned()),
                },
                (None, Value::String(text)) => {
                    if members.contains_key(&text) {
                        let text: String = text.chars().take(64).collect();
                        return Err(format!("{text:?} is given twice"));
                    }
                    *name = Some(text);
                }
                (None, other) => {
                    let other: String = other.to_string().chars().take(64).collect();
                    return Err(format!("a name must be a string, not {other}; put it in quotes"));
                }
            },
        }
        Ok(())
    }

    /// The value of an alias. The anchor of an unfinished value is unknown, so that no value holds
    /// itself.
    fn copy(&mut self, anchor: usize) -> Result<Value, String> {
        let found = self.anchors.get(&anchor).ok_or("an alias stands within what it refers to")?;
        let (size, deep) = (found.size, self.open.len() + found.depth > MAX_DEPTH);
        if deep {
            return Err(too_deep());
        }
        self.charge(size)?;
        let found = self.anchors.get(&anchor).map(|found| found.value.clone());
        found.ok_or_else(|| "an alias stands within what it refers to".to_owned())
    }

    fn charge(&mut self, size: usize) -> Result<(), String> {
        self.copied += size;
        if self.copied > MAX_COPIED {
            return Err(format!("anchors and aliases unfold to more than {MAX_COPIED} bytes"));
        }
        Ok(())
    }
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

fn size(value: &Value) -> usize {
    NODE + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| NODE + name.len() + size(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn check_tag(tag: Option<&Tag>, wanted: &str) -> Result<(), String> {
    match tag {
        Some(tag) if tag.core_suffix() != Some(wanted) => Err(refused(tag)),
        Some(_) | None => Ok(()),
    }
}

fn refused(tag: &Tag) -> String {
    format!("the tag {} is not taken here", tag.original())
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain => plain(&text),
            ScalarStyle::SingleQuoted
            | ScalarStyle::DoubleQuoted
            | ScalarStyle::Literal
            | ScalarStyle::Folded => Ok(Value::String(text.into_owned())),
        };
    };
    let value = match tag.core_suffix() {
        Some("str") => return Ok(Value::String(text.into_owned())),
        Some(_) => plain(&text)?,
        None => return Err(refused(tag)),
    };
    match (tag.core_suffix(), &value) {
        (Some("null"), Value::Null)
        | (Some("bool"), Value::Bool(_))
        | (Some("float"), Value::Number(_)) => Ok(value),
        (Some("int"), Value::Number(number)) if !number.is_f64() => Ok(value),
        _ => Err(refused(tag)),
    }
}

/// A scalar without quotes, by the core schema.
fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match number(text)? {
            None => Value::String(text.to_owned()),
            Some(number) => Value::Number(number),
        },
    })
}

/// The number that the text is, if it is one.
fn number(text: &str) -> Result<Option<Number>, String> {
    let beyond = || "number out of range".to_owned();
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Err(beyond());
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        let digits = text.strip_prefix(prefix).filter(|digits| !digits.is_empty());
        if let Some(digits) = digits.filter(|it| it.chars().all(|digit| digit.is_digit(radix))) {
            let value = u64::from_str_radix(digits, radix);
            return value.map(|value| Some(value.into())).map_err(|_| beyond());
        }
    }
    let of_numbers = |byte: u8| byte.is_ascii_digit() || b".eE+-".contains(&byte);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        || !unsigned.bytes().all(of_numbers)
    {
        return Ok(None);
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let exact = text.parse::<i64>().map(Number::from);
        let exact = exact.or_else(|_| text.parse::<u64>().map(Number::from));
        if let Ok(number) = exact {
            return Ok(Some(number));
        }
    }
    match text.parse::<f64>() {
        Ok(double) => Number::from_f64(double).map(Some).ok_or_else(beyond),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests;
