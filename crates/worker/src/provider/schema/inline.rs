//! References beside other keywords, inlined: several providers take a reference by itself alone, while
//! generators put a description or a default beside it, or wrap it into an `allOf` of one.
//!
//! A definition that refers to itself stays a reference, and loses what stands beside it. Deliberately
//! absent: references to anchors, identifiers and other documents, which stay as they are.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Keywords whose value is data and contains no schemas.
const DATA: [&str; 5] = ["const", "enum", "default", "examples", "required"];
/// Keywords whose members are named schemas.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords that constrain nothing.
const ANNOTATIONS: [&str; 10] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
    "$schema",
    "$id",
];
/// The most subschemas that inlining adds.
const MAX_ADDED: usize = 5_000;
/// The deepest nesting within which references are inlined.
const MAX_DEPTH: usize = 64;

/// The schema without keywords beside a reference.
pub(in crate::provider) fn inlined(schema: &Value) -> Value {
    Inlining { root: schema, open: Vec::new(), left: MAX_ADDED, depth: 0 }.schema(schema)
}

struct Inlining<'s> {
    root: &'s Value,
    /// The references whose definitions are being inlined.
    open: Vec<String>,
    left: usize,
    depth: usize,
}

impl<'s> Inlining<'s> {
    fn schema(&mut self, schema: &Value) -> Value {
        if !self.open.is_empty() {
            self.left = self.left.saturating_sub(1);
        }
        self.depth += 1;
        let inlined = match schema {
            Value::Object(given) => {
                let mut members = Map::with_capacity(given.len());
                for (name, value) in given {
                    members.insert(name.clone(), self.keyword(name, value));
                }
                Value::Object(without_all_of(self.without_siblings(members)))
            }
            Value::Array(items) => items.iter().map(|item| self.schema(item)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
        };
        self.depth -= 1;
        inlined
    }

    fn keyword(&mut self, name: &str, value: &Value) -> Value {
        match value {
            _ if DATA.contains(&name) => value.clone(),
            Value::Object(named) if NAMED.contains(&name) => {
                let schemas =
                    named.iter().map(|(name, schema)| (name.clone(), self.schema(schema)));
                Value::Object(schemas.collect())
            }
            Value::Array(parts) if name == "allOf" => {
                let part = |part: &Value| {
                    let to = part.get("$ref").and_then(Value::as_str);
                    to.and_then(|to| self.definition(to)).unwrap_or_else(|| self.schema(part))
                };
                parts.iter().map(part).collect()
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => self.schema(value),
        }
    }

    /// The members, with the definition that they refer to in place of the reference beside others.
    fn without_siblings(&mut self, mut members: Map<String, Value>) -> Map<String, Value> {
        let to = members.get("$ref").and_then(Value::as_str).map(str::to_owned);
        let Some(to) = to.filter(|to| members.len() > 1 && self.target(to).is_some()) else {
            return members;
        };
        let reference = members.shift_remove_entry("$ref");
        match self.definition(&to).and_then(|definition| merged(definition, &members)) {
            Some(whole) => whole,
            None => {
                reference.into_iter().chain(members.into_iter().filter(is_definitions)).collect()
            }
        }
    }

    /// The definition that a reference leads to, inlined itself; `None` if that would not end, or leads
    /// nowhere.
    fn definition(&mut self, to: &str) -> Option<Value> {
        let target = self.target(to)?;
        let is_open = self.open.iter().any(|open| open == to);
        if is_open || self.left == 0 || self.depth >= MAX_DEPTH {
            return None;
        }
        self.open.push(to.to_owned());
        let definition = self.schema(target);
        self.open.pop();
        Some(definition)
    }

    fn target(&self, to: &str) -> Option<&'s Value> {
        let pointer = to.strip_prefix('#').filter(|pointer| pointer.starts_with('/'))?;
        self.root.pointer(&unescaped(pointer)).filter(|target| target.is_object())
    }
}

fn is_definitions((name, _): &(String, Value)) -> bool {
    matches!(name.as_str(), "$defs" | "definitions")
}

/// The members, with the parts of an `allOf` among them where these do not contradict each other.
fn without_all_of(mut members: Map<String, Value>) -> Map<String, Value> {
    let Some(Value::Array(parts)) = members.get("allOf").cloned() else { return members };
    let mut around = members.clone();
    around.shift_remove("allOf");
    let mut rest = parts.iter();
    let Some(first) = rest.next() else { return members };
    let whole = rest
        .try_fold(first.clone(), |whole, part| merged(whole, part.as_object()?).map(Value::Object));
    match whole.and_then(|whole| merged(whole, &around)) {
        Some(whole) if !whole.contains_key("$ref") || whole.len() == 1 => whole,
        // One reference that stays, in a definition that refers to itself.
        Some(whole) if parts.len() == 1 => {
            let kept = |member: &(String, Value)| member.0 == "$ref" || is_definitions(member);
            whole.into_iter().filter(kept).collect()
        }
        Some(_) | None => {
            members.insert("allOf".into(), Value::Array(parts));
            members
        }
    }
}

/// The schema that says what both say; `None` if they say different things with one keyword.
fn merged(base: Value, over: &Map<String, Value>) -> Option<Map<String, Value>> {
    let Value::Object(mut whole) = base else { return None };
    for (name, value) in over {
        match (whole.get_mut(name), value) {
            (None, _) => drop(whole.insert(name.clone(), value.clone())),
            (Some(known), _) if known == value => {}
            (Some(Value::Object(known)), Value::Object(more)) if NAMED.contains(&name.as_str()) => {
                known.extend(more.clone());
            }
            (Some(Value::Array(known)), Value::Array(more)) if name == "required" => {
                let new: Vec<_> =
                    more.iter().filter(|name| !known.contains(name)).cloned().collect();
                known.extend(new);
            }
            (Some(known), _) if ANNOTATIONS.contains(&name.as_str()) => *known = value.clone(),
            (Some(_), _) => return None,
        }
    }
    Some(whole)
}

/// The pointer without the escapes of URIs (RFC 6901, section 6).
fn unescaped(pointer: &str) -> Cow<'_, str> {
    if !pointer.contains('%') {
        return Cow::Borrowed(pointer);
    }
    let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    let (mut bytes, mut rest) = (Vec::with_capacity(pointer.len()), pointer.as_bytes());
    while let [first, after @ ..] = rest {
        match (first, after.get(..2).and_then(hex)) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (byte, _) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_beside_a_description_becomes_its_definition() {
        let address = json!({
            "type": "object", "title": "Address", "required": ["city"],
            "properties": {"city": {"type": "string"}},
        });
        let schema = |member: &Value| {
            json!({
                "type": "object", "properties": {"home": member, "$ref": {"type": "null"}},
                "$defs": {"Address": address, "a b/c": address},
            })
        };
        let described = json!({
            "type": "object", "title": "Address", "required": ["city"],
            "properties": {"city": {"type": "string"}}, "description": "where",
        });
        for (member, expected) in [
            (json!({"$ref": "#/$defs/Address", "description": "where"}), &described),
            (json!({"description": "where", "$ref": "#/$defs/Address"}), &described),
            (json!({"allOf": [{"$ref": "#/$defs/Address"}], "description": "where"}), &described),
            (json!({"$ref": "#/$defs/a%20b~1c", "description": "where"}), &described),
            (json!({"$ref": "#/$defs/Address"}), &json!({"$ref": "#/$defs/Address"})),
            (
                json!({"$ref": "#/$defs/none", "title": "x"}),
                &json!({"$ref": "#/$defs/none", "title": "x"}),
            ),
            (
                json!({"const": {"$ref": "#/$defs/Address", "title": "x"}}),
                &json!({"const": {"$ref": "#/$defs/Address", "title": "x"}}),
            ),
        ] {
            let found = inlined(&schema(&member));
            assert_eq!(found, schema(expected), "{member}");
        }
    }

    #[test]
    fn the_root_may_be_a_reference_too() {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/A",
            "definitions": {"A": {"type": "object", "properties": {"a": {"type": "null"}}}},
        });
        let found = inlined(&schema);
        assert_eq!((&found["type"], found.get("$ref")), (&json!("object"), None));
        assert_eq!(found["definitions"], schema["definitions"]);
    }

    #[test]
    fn parts_of_an_all_of_are_put_together_unless_they_contradict() {
        let of = |parts: Value| inlined(&json!({"allOf": parts, "title": "t"}));
        let object =
            |name: &str| json!({"type": "object", "required": [name], "properties": {name: {}}});
        let both = json!({
            "type": "object", "required": ["a", "b"], "properties": {"a": {}, "b": {}}, "title": "t",
        });
        assert_eq!(of(json!([object("a"), object("b")])), both);
        let apart = json!([{"type": "string"}, {"type": "number"}]);
        assert_eq!(of(apart.clone()), json!({"allOf": apart, "title": "t"}));
        assert_eq!(of(json!([])), json!({"allOf": [], "title": "t"}));
    }

    #[test]
    fn a_definition_that_refers_to_itself_stays_a_reference() {
        for next in [
            json!({"$ref": "#/$defs/Node", "description": "the next"}),
            json!({"allOf": [{"$ref": "#/$defs/Node"}], "description": "the next"}),
        ] {
            let node = json!({"type": "object", "properties": {"next": next}});
            let schema = json!({"$ref": "#/$defs/Node", "title": "List", "$defs": {"Node": node}});
            let found = inlined(&schema);
            assert_eq!(found["type"], "object", "{next}");
            assert_eq!(found["properties"]["next"], json!({"$ref": "#/$defs/Node"}), "{next}");
        }
    }

    #[test]
    fn definitions_that_multiply_are_inlined_within_a_bound() {
        let mut definitions = Map::new();
        for level in 0..60 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1), "title": "t"});
            let members = json!({"a": next, "b": next, "c": next});
            definitions
                .insert(format!("d{level}"), json!({"type": "object", "properties": members}));
        }
        definitions.insert("d60".into(), json!({"type": "string"}));
        let found = inlined(&json!({"$ref": "#/$defs/d0", "title": "t", "$defs": definitions}));
        assert!(found.to_string().len() < 2_000_000, "{}", found.to_string().len());
    }
}
