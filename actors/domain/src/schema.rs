//! JSON Schema for inputs and outputs: draft 2020-12, or the earlier one that `$schema` names. A schema without
//! `$schema` that has `items` as a list is of draft 2019-09.
//!
//! ```text
//!   compile: size, patterns, references checked ─▶ built once, and dropped ─▶ Schema
//!   check:   built when first used, kept while it is used ─▶ validated on fuel ─▶ faults
//! ```
//!
//! A schema and the values that it checks are callers'. No schema is ever fetched; patterns are
//! linear in the text and limited in size; a validation burns fuel and stack that are limited, so a
//! schema may refer to itself. Formats are checked. Deliberately absent: vocabularies of others.

mod cache;
mod dialect;
mod example;
mod input;
mod keywords;
mod metered;
mod refs;
mod repair;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use jsonschema::{PatternOptions, ValidationError, Validator};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::Rule;
use crate::fuel::{Fuel, OutOfFuel};
use crate::problem::{Problem, shortened};

use dialect::Rewritten;
use example::ExampleBuilder;
use input::DefaultFiller;
use metered::{Instance, Metered};

/// The most subschemas.
pub const MAX_NODES: usize = 10_000;

/// The deepest nesting of subschemas.
pub const MAX_DEPTH: usize = 64;

/// The longest schema as compact JSON, in bytes.
pub const MAX_LENGTH: usize = 256 * 1024;

/// The fuel of a validation.
pub const FUEL: u64 = 5_000_000;

/// The fuel of a validation that others wait for: less than about a millisecond.
pub const BRIEF_FUEL: u64 = 50_000;

/// The longest schema that is compiled while others wait, as compact JSON, in bytes.
const BRIEF_LENGTH: usize = 4 * 1024;

/// The fuel to report the faults of a value.
const REPORT_FUEL: u64 = 1_000_000;

/// The most faults reported for one value.
const MAX_FAULTS: usize = 100;

/// The memory of the library's matches of members' names with one pattern, in bytes.
const NAME_STATES: usize = 64 * 1024;

/// A schema that passed every check.
#[derive(Clone)]
pub struct Schema(Arc<Shared>);

struct Shared {
    source: Value,
    /// The length of the source as compact JSON, in bytes.
    length: usize,
    /// True if the source is compiled in about a millisecond.
    is_brief: bool,
    compiled: Mutex<Weak<Compiled>>,
}

/// A compiled schema.
struct Compiled {
    validator: Validator<Metered>,
    per_name: u64,
    size: usize,
}

impl Eq for Schema {}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    /// A schema that passed the checks when it was stored.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::checked_before(&Value::deserialize(deserializer)?))
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.source == other.0.source
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.0.source).finish()
    }
}

impl Schema {
    /// Checks and compiles the schema in `field`, such as `inputSchema`; the compiled form is dropped
    /// until it is used.
    ///
    /// # Errors
    /// The schema refers to a place outside itself (rule `ref`), is too large or has patterns that are
    /// (`length`), or is not a schema; each problem has the path of its place.
    pub fn compile(field: &str, source: &Value) -> Result<Self, Vec<Problem>> {
        let schema = Self::checked_before(source);
        if schema.0.length > MAX_LENGTH {
            let says = format!("must have at most {MAX_LENGTH} bytes");
            return Err(vec![Problem::rule(Rule::Length, field, says)]);
        }
        build(field, source, schema.0.length)?;
        Ok(schema)
    }

    /// A schema that passed the checks when it was stored.
    #[must_use]
    pub fn checked_before(source: &Value) -> Self {
        let text = source.to_string();
        let (length, is_brief) = (text.len(), is_brief_text(&text));
        let compiled = Mutex::default();
        Self(Arc::new(Shared { source: source.clone(), length, is_brief, compiled }))
    }

    /// The length as compact JSON, in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.length
    }

    /// The schema as given.
    #[must_use]
    pub fn source(&self) -> &Value {
        &self.0.source
    }

    /// True if the schema is compiled or small, so that [`BRIEF_FUEL`] suffices for a short value.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        let compiled = self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.is_brief || compiled.strong_count() > 0
    }

    /// The names of the fields that `properties` declares for the root. A field that only
    /// `additionalProperties` accepts is not declared.
    ///
    /// # Errors
    /// The references of the root take too many steps to follow.
    pub fn declared(&self) -> Result<Vec<&str>, OutOfFuel> {
        self.declared_within(&mut Fuel::new(FUEL))
    }

    /// The same, on this fuel.
    pub(crate) fn declared_within(&self, fuel: &mut Fuel) -> Result<Vec<&str>, OutOfFuel> {
        let mut known = HashSet::new();
        let found = refs::properties(self.source(), self.source(), fuel)?;
        let names = found.into_iter().flat_map(Map::keys).map(String::as_str);
        Ok(names.filter(|name| known.insert(*name)).collect())
    }

    /// The input with the `default` of each absent property, in nested objects too.
    ///
    /// # Errors
    /// The defaults nest without end, or take too many steps.
    pub fn with_defaults(
        &self,
        input: Map<String, Value>,
        fuel: &mut Fuel,
    ) -> Result<Map<String, Value>, OutOfFuel> {
        let mut filled = input;
        DefaultFiller::new(self.source(), fuel).fill(self.source(), &mut filled, 0)?;
        Ok(filled)
    }

    /// The smallest value of the schema that is easily made; one that the schema's patterns, `not` and
    /// `if` may refuse.
    ///
    /// # Errors
    /// The schema asks for a value that is too large, or that has no end.
    pub fn example(&self, fuel: &mut Fuel) -> Result<Value, OutOfFuel> {
        ExampleBuilder { root: self.source(), fuel }.of(self.source(), 0)
    }

    /// Checks an input.
    ///
    /// # Errors
    /// The fuel does not last.
    pub fn check_input(
        &self,
        input: &Value,
        fuel: &mut Fuel,
    ) -> Result<Result<(), Vec<Problem>>, OutOfFuel> {
        let faults = self.faults("input", input, fuel)?;
        Ok(if faults.is_empty() { Ok(()) } else { Err(faults) })
    }

    /// Checks a model's output: JSON, perhaps in a Markdown fence or with a trailing comma. Returns
    /// the repaired text if the output is not JSON as it came. The inner error has all faults in one
    /// text, which goes to the model with the request for a correction (`OUTPUT_INVALID`).
    ///
    /// # Errors
    /// The fuel does not last.
    pub fn check_output(
        &self,
        output: &str,
        fuel: &mut Fuel,
    ) -> Result<Result<Option<String>, String>, OutOfFuel> {
        fuel.burn_for(output.len(), 4)?;
        let (value, repaired) = match repair::parse(output) {
            Ok(parsed) => parsed,
            Err(error) => return Ok(Err(format!("the output is not valid JSON: {error}"))),
        };
        let faults = self.faults("output", &value, fuel)?;
        if faults.is_empty() {
            return Ok(Ok(repaired));
        }
        let messages: Vec<_> = faults.into_iter().map(|fault| fault.message).collect();
        Ok(Err(messages.join("; ")))
    }

    fn faults(
        &self,
        root: &str,
        value: &Value,
        fuel: &mut Fuel,
    ) -> Result<Vec<Problem>, OutOfFuel> {
        let compiled = match self.compiled() {
            Ok(compiled) => compiled,
            Err(problems) => return Ok(problems),
        };
        let Compiled { validator, per_name, .. } = &*compiled;
        if metered::with_fuel(fuel, *per_name, || validator.is_valid(Instance(value)))? {
            return Ok(Vec::new());
        }
        let report = || {
            let errors = validator.iter_errors(Instance(value)).take(MAX_FAULTS);
            errors.flat_map(|error| input::faults(root, &error)).collect()
        };
        let mut for_report = Fuel::new(fuel.left().min(REPORT_FUEL));
        let faults = metered::with_fuel(&mut for_report, *per_name, report);
        Ok(faults.unwrap_or_else(|OutOfFuel| {
            vec![Problem::rule(Rule::Type, root, "does not match the schema, in very many places")]
        }))
    }

    /// The compiled schema, which is kept while it is used.
    fn compiled(&self) -> Result<Arc<Compiled>, Vec<Problem>> {
        let mut known = self.0.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let compiled = match known.upgrade() {
            Some(compiled) => compiled,
            None => Arc::new(build("schema", &self.0.source, self.0.length)?),
        };
        *known = Arc::downgrade(&compiled);
        drop(known);
        cache::keep(&compiled);
        Ok(compiled)
    }
}

/// The JSON of a model's output, with the repairs that an output under a schema has: thinking before it, a
/// Markdown fence or prose around it, a trailing comma.
#[must_use]
pub fn parsed_output(output: &str) -> Option<Value> {
    repair::parse(output).ok().map(|(value, _)| value)
}

/// The text of the object or array that an output is, repaired but for prose around it, which is a part of
/// the output.
#[must_use]
pub fn structured_output(output: &str) -> Option<Cow<'_, str>> {
    if !output.contains(['{', '[']) {
        return None;
    }
    // Most outputs are JSON as they are, of which no value is made.
    if let Ok(IgnoredAny) = serde_json::from_str(output) {
        return output.trim_start().starts_with(['{', '[']).then(|| Cow::Borrowed(output.trim()));
    }
    let (value, repaired) = repair::whole(output).ok()?;
    let is_structure = value.is_object() || value.is_array();
    repaired.filter(|_| is_structure)
}

fn build(field: &str, source: &Value, size: usize) -> Result<Compiled, Vec<Problem>> {
    let checked = refs::check(field, source)?;
    let Rewritten { schema, patterns: texts } = dialect::rewritten(source, checked.draft);
    let patterns = Arc::new(Mutex::new(checked.patterns));
    let name_patterns = PatternOptions::regex()
        .size_limit(4 * keywords::MAX_NAME_PATTERN)
        .dfa_size_limit(NAME_STATES);
    let options = jsonschema::options_for::<Metered>()
        .with_draft(checked.draft)
        .with_pattern_options(name_patterns)
        .with_keyword("pattern", keywords::pattern(texts, patterns))
        .with_format("regex", keywords::is_regex)
        .should_validate_formats(true)
        .offline();
    let fault = |error: &ValidationError<'_>| {
        let says = shortened(&error.masked_with("").to_string(), 200);
        let rule = input::rule(error.kind());
        let place = if rule == Rule::Ref {
            refs::unresolved(field, source, &says)
        } else {
            input::path(field, error.instance_path())
        };
        vec![Problem::rule(rule, place, says.trim())]
    };
    let validator = options.build(&schema).map_err(|error| fault(&error))?;
    Ok(Compiled { validator, per_name: checked.per_name, size })
}

/// True if a schema is compiled in about a millisecond.
pub(crate) fn is_brief_source(source: &Value) -> bool {
    is_brief_text(&source.to_string())
}

/// Patterns take longer than their length tells.
fn is_brief_text(text: &str) -> bool {
    text.len() <= BRIEF_LENGTH && !text.contains("\"pattern")
}

#[cfg(test)]
mod tests;
