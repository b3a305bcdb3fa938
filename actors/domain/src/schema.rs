//! JSON Schema, draft 2020-12, for inputs and outputs.
//!
//! No schema is ever fetched: a `$ref` must start with `#`. Patterns run on an engine that is linear
//! in the text. A schema that refers to itself, or that expands to more than [`MAX_NODES`], is
//! refused, so that a check costs at most the size of the value times that number. Formats are
//! checked. Deliberately absent: other drafts.

mod input;
mod refs;

use std::sync::Arc;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};

use crate::error::Rule;
use crate::problem::{Problem, shortened};

/// The most subschemas, with references expanded.
pub const MAX_NODES: usize = 10_000;

/// The deepest nesting of subschemas, with references expanded.
pub const MAX_DEPTH: usize = 64;

/// The longest schema as compact JSON, in bytes.
pub const MAX_LENGTH: usize = 256 * 1024;

/// The largest compiled pattern, in bytes.
const MAX_PATTERN: usize = 256 * 1024;

/// The most faults reported for one value.
const MAX_FAULTS: usize = 100;

/// A compiled schema.
#[derive(Debug, Clone)]
pub struct Schema {
    source: Value,
    validator: Arc<Validator>,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Schema {
    /// Compiles the schema in `field`, such as `inputSchema`.
    ///
    /// # Errors
    /// The schema refers to a place outside itself (rule `ref`), is too large (`length`), or is not a
    /// schema; each problem has the path of its place.
    pub fn compile(field: &str, source: &Value) -> Result<Self, Vec<Problem>> {
        if source.to_string().len() > MAX_LENGTH {
            let says = format!("must have at most {MAX_LENGTH} bytes");
            return Err(vec![Problem::rule(Rule::Length, field, says)]);
        }
        refs::check(field, source)?;
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN))
            .should_validate_formats(true)
            .offline();
        let validator = options.build(source).map_err(|error| {
            let place = input::path(field, error.instance_path());
            let says = shortened(&error.masked_with("").to_string(), 200);
            vec![Problem::rule(input::rule(error.kind()), place, says.trim())]
        })?;
        Ok(Self { source: source.clone(), validator: Arc::new(validator) })
    }

    /// The schema as given.
    #[must_use]
    pub const fn source(&self) -> &Value {
        &self.source
    }

    /// True if `properties` declares this field. A field that only `additionalProperties` accepts is
    /// not declared.
    #[must_use]
    pub fn declares(&self, field: &str) -> bool {
        refs::properties(&self.source, &self.source)
            .any(|properties| properties.contains_key(field))
    }

    /// The input with the `default` of each absent property, in nested objects too.
    #[must_use]
    pub fn with_defaults(&self, input: Map<String, Value>) -> Map<String, Value> {
        let mut filled = input;
        input::fill(&self.source, &self.source, &mut filled);
        filled
    }

    /// Checks an input.
    ///
    /// # Errors
    /// All faults, each with the path of its field: `input.rows[0].name`.
    pub fn check_input(&self, input: &Map<String, Value>) -> Result<(), Vec<Problem>> {
        let faults = self.faults("input", &Value::Object(input.clone()));
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// Checks a model's output, which is JSON, or a Markdown fence with JSON and nothing around it.
    ///
    /// # Errors
    /// All faults in one text, which goes to the model with the request for a correction
    /// (`OUTPUT_INVALID`).
    pub fn check_output(&self, output: &str) -> Result<(), String> {
        let value = serde_json::from_str(unfenced(output))
            .map_err(|error| format!("the output is not valid JSON: {error}"))?;
        let faults = self.faults("output", &value);
        if faults.is_empty() {
            return Ok(());
        }
        let messages: Vec<_> = faults.into_iter().map(|fault| fault.message).collect();
        Err(format!("the output does not match its schema: {}", messages.join("; ")))
    }

    fn faults(&self, root: &str, value: &Value) -> Vec<Problem> {
        self.validator
            .iter_errors(value)
            .take(MAX_FAULTS)
            .flat_map(|e| input::faults(root, &e))
            .collect()
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

#[cfg(test)]
mod tests;
