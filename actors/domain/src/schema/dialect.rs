//! A schema as the library takes it: the same in all but the writing.
//!
//! Each `pattern` becomes a number, by which our own keyword finds it: the library takes fewer patterns than
//! [`crate::pattern`] does. A bound with a boolean beside it, as draft 04 has them and some generators write
//! them under any `$schema`, becomes the bound of the later drafts. Deliberately absent: a change of what a
//! reference can lead to.

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::refs::{DATA, NAMED};

/// A schema for the library.
pub(super) struct Rewritten {
    pub(super) schema: Value,
    /// The patterns, by their numbers.
    pub(super) patterns: Vec<String>,
}

/// Rewrites a schema of a draft, which has passed the check of its depth.
pub(super) fn rewritten(source: &Value, draft: Draft) -> Rewritten {
    let mut writer = Writer { draft, patterns: Vec::new() };
    let schema = writer.schema(source);
    Rewritten { schema, patterns: writer.patterns }
}

struct Writer {
    draft: Draft,
    patterns: Vec<String>,
}

impl Writer {
    fn schema(&mut self, source: &Value) -> Value {
        match source {
            Value::Object(members) => {
                let written = members.iter();
                let written =
                    written.map(|(name, value)| (name.clone(), self.keyword(name, value)));
                let written = written.collect();
                Value::Object(self.with_bounds(written))
            }
            Value::Array(items) => items.iter().map(|item| self.schema(item)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => source.clone(),
        }
    }

    fn keyword(&mut self, name: &str, value: &Value) -> Value {
        match (name, value) {
            ("pattern", Value::String(pattern)) => {
                self.patterns.push(pattern.clone());
                Value::from((self.patterns.len() - 1).to_string())
            }
            (name, _) if DATA.contains(&name) => value.clone(),
            (name, Value::Object(named)) if NAMED.contains(&name) => {
                let written = named.iter().map(|(name, value)| (name.clone(), self.schema(value)));
                Value::Object(written.collect())
            }
            (_, value) => self.schema(value),
        }
    }

    fn with_bounds(&self, mut members: Map<String, Value>) -> Map<String, Value> {
        if self.draft == Draft::Draft4 {
            return members;
        }
        for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")]
        {
            let Some(Value::Bool(is_exclusive)) = members.get(exclusive) else { continue };
            if *is_exclusive && let Some(limit) = members.shift_remove(bound) {
                members.insert(exclusive.to_owned(), limit);
            } else {
                members.shift_remove(exclusive);
            }
        }
        members
    }
}
