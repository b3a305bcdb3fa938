//! References within a schema: that they stay inside it and lead to an end.
//!
//! Deliberately absent: `$anchor` and `$dynamicRef` as a way to another place. Only pointers
//! (`#`, `#/$defs/name`) are followed, and only these are taken.

use serde_json::{Map, Value};

use super::{MAX_DEPTH, MAX_NODES};
use crate::error::Rule;
use crate::problem::{Problem, shortened};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords whose value is data, in which nothing is a schema.
const DATA: [&str; 5] = ["const", "enum", "default", "examples", "required"];

/// Keywords whose members are schemas by name, so that a name is no keyword.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Every reference that leads outside, and then whether the schema unfolds to a bounded size.
pub(super) fn check(field: &str, schema: &Value) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        problems.push(Problem::rule(Rule::Type, field, "must be an object"));
    }
    outside(field, schema, &mut problems);
    if problems.is_empty() {
        let mut unfolding = Unfolding { root: schema, field, nodes: 0 };
        unfolding.visit(schema, 0).map_err(|problem| vec![problem])?;
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn outside(place: &str, schema: &Value, problems: &mut Vec<Problem>) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members {
                keyword(&format!("{place}.{name}"), name, value, problems);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                outside(&format!("{place}[{index}]"), item, problems);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn keyword(place: &str, name: &str, value: &Value, problems: &mut Vec<Problem>) {
    match (name, value) {
        ("$ref", Value::String(to)) if to == "#" || to.starts_with("#/") => {}
        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
            let says =
                format!("must be a pointer into this schema (#/…), not {}", shortened(to, 64));
            problems.push(Problem::rule(Rule::Ref, place, says));
        }
        ("$schema", Value::String(dialect)) if dialect.trim_end_matches('#') != DIALECT => {
            problems.push(Problem::rule(Rule::Enum, place, format!("must be {DIALECT}")));
        }
        ("$id" | "$vocabulary", _) => {
            problems.push(Problem::rule(Rule::Ref, place, "is not taken: a schema stands alone"));
        }
        (name, _) if DATA.contains(&name) => {}
        (name, Value::Object(named)) if NAMED.contains(&name) => {
            for (name, schema) in named {
                outside(&format!("{place}.{name}"), schema, problems);
            }
        }
        (_, _) => outside(place, value, problems),
    }
}

/// Counts the schemas with every reference followed. A circle of references never ends, so it
/// meets the depth.
struct Unfolding<'a> {
    root: &'a Value,
    field: &'a str,
    nodes: usize,
}

impl Unfolding<'_> {
    fn visit(&mut self, value: &Value, depth: usize) -> Result<(), Problem> {
        self.nodes += 1;
        if depth > 2 * MAX_DEPTH || self.nodes > MAX_NODES {
            let says = format!(
                "must not refer to itself, nor hold more than {MAX_NODES} schemas or nest them \
                 deeper than {MAX_DEPTH}, references unfolded"
            );
            return Err(Problem::rule(Rule::Ref, self.field, says));
        }
        match value {
            Value::Object(members) => {
                members.iter().try_for_each(|(name, value)| match (name.as_str(), value) {
                    ("$ref", Value::String(to)) => {
                        let says =
                            || format!("refers to {}, which is not there", shortened(to, 64));
                        let schema = target(self.root, to);
                        let schema =
                            schema.ok_or_else(|| Problem::rule(Rule::Ref, self.field, says()))?;
                        self.visit(schema, depth + 1)
                    }
                    ("$defs" | "definitions", _) => Ok(()),
                    (name, _) if DATA.contains(&name) => Ok(()),
                    (_, value) => self.visit(value, depth + 1),
                })
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }
}

/// What a pointer leads to.
fn target<'s>(root: &'s Value, pointer: &str) -> Option<&'s Value> {
    let pointer = pointer.strip_prefix('#')?;
    if pointer.contains('%') {
        return None;
    }
    root.pointer(pointer)
}

/// The `properties` that hold for an object of this schema: its own, and those of what it refers
/// to and of all the schemas that it must match besides.
pub(super) fn properties<'s>(
    root: &'s Value,
    schema: &'s Value,
) -> impl Iterator<Item = &'s Map<String, Value>> {
    let mut found = Vec::new();
    collect(root, schema, &mut found);
    found.into_iter()
}

fn collect<'s>(root: &'s Value, schema: &'s Value, found: &mut Vec<&'s Map<String, Value>>) {
    found.extend(schema.get("properties").and_then(Value::as_object));
    if let Some(schema) = schema.get("$ref").and_then(Value::as_str).and_then(|to| target(root, to))
    {
        collect(root, schema, found);
    }
    for schema in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        collect(root, schema, found);
    }
}
