//! The check of a schema's references: they stay inside the schema and are not recursive.
//!
//! Deliberately absent: `$anchor` and `$dynamicRef`. Only pointers (`#`, `#/$defs/name`) are allowed
//! and followed.

use serde_json::{Map, Value};

use super::{MAX_DEPTH, MAX_NODES};
use crate::error::Rule;
use crate::problem::{Problem, shortened};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Keywords whose value is data and contains no schemas.
const DATA: [&str; 5] = ["const", "enum", "default", "examples", "required"];

/// Keywords whose members are named schemas; a name is not a keyword.
const NAMED: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Checks that no reference leads outside, and then that the schema expands to a bounded size.
pub(super) fn check(field: &str, schema: &Value) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        problems.push(Problem::rule(Rule::Type, field, "must be an object"));
    }
    outside(field, schema, &mut problems);
    if problems.is_empty() {
        let mut expansion = Expansion { root: schema, field, nodes: 0 };
        expansion.visit(schema, 0).map_err(|problem| vec![problem])?;
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
                format!("must be a pointer within this schema (#/…), not {}", shortened(to, 64));
            problems.push(Problem::rule(Rule::Ref, place, says));
        }
        ("$schema", Value::String(dialect)) if dialect.trim_end_matches('#') != DIALECT => {
            problems.push(Problem::rule(Rule::Enum, place, format!("must be {DIALECT}")));
        }
        ("$id" | "$vocabulary", _) => {
            problems.push(Problem::rule(
                Rule::Ref,
                place,
                "is not supported: a schema must be self-contained",
            ));
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

/// Counts the subschemas with every reference expanded. A cycle of references exceeds the depth.
struct Expansion<'a> {
    root: &'a Value,
    field: &'a str,
    nodes: usize,
}

impl Expansion<'_> {
    fn visit(&mut self, value: &Value, depth: usize) -> Result<(), Problem> {
        self.nodes += 1;
        if depth > 2 * MAX_DEPTH || self.nodes > MAX_NODES {
            let says = format!(
                "must not refer to itself, and must have at most {MAX_NODES} subschemas, nested at \
                 most {MAX_DEPTH} deep, with references expanded"
            );
            return Err(Problem::rule(Rule::Ref, self.field, says));
        }
        match value {
            Value::Object(members) => {
                members.iter().try_for_each(|(name, value)| match (name.as_str(), value) {
                    ("$ref", Value::String(to)) => {
                        let says =
                            || format!("refers to {}, which does not exist", shortened(to, 64));
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

/// The target of a pointer.
fn target<'s>(root: &'s Value, pointer: &str) -> Option<&'s Value> {
    let pointer = pointer.strip_prefix('#')?;
    if pointer.contains('%') {
        return None;
    }
    root.pointer(pointer)
}

/// All `properties` that apply to an object of this schema: its own, those of its `$ref`, and those of
/// its `allOf`.
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
