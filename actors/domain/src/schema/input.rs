//! The conversion of the library's faults to problems with path, rule and text; and the defaults.
//!
//! Deliberately absent: values. A message names the field and never repeats its value.

use std::collections::HashMap;
use std::rc::Rc;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use serde_json::{Map, Value};

use super::MAX_DEPTH;
use super::keywords::PATTERN_FAULT;
use super::refs::properties;
use crate::error::Rule;
use crate::fuel::{Fuel, OutOfFuel};
use crate::problem::{Code, Problem, shortened};

/// The deepest objects that are filled: those of a request, with defaults in the deepest.
const DEEPEST: usize = 2 * MAX_DEPTH;

/// The filling of an input with defaults.
pub(super) struct DefaultFiller<'s, 'f> {
    root: &'s Value,
    fuel: &'f mut Fuel,
    /// The properties that apply to objects of the schemas so far, by the schemas' addresses.
    known: HashMap<*const Value, Applicable<'s>>,
}

/// All `properties` that apply to an object.
type Applicable<'s> = Rc<[&'s Map<String, Value>]>;

impl<'s, 'f> DefaultFiller<'s, 'f> {
    pub(super) fn new(root: &'s Value, fuel: &'f mut Fuel) -> Self {
        Self { root, fuel, known: HashMap::new() }
    }

    /// Adds the default of each absent property.
    pub(super) fn fill(
        &mut self,
        schema: &'s Value,
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), OutOfFuel> {
        if depth > DEEPEST {
            return Err(OutOfFuel);
        }
        self.fuel.burn(10)?;
        for properties in self.properties(schema)?.iter() {
            self.fuel.burn(200)?;
            for (name, schema) in *properties {
                self.fuel.burn_for(name.len(), 16)?;
                if let (false, Some(default)) = (object.contains_key(name), schema.get("default")) {
                    self.fuel.burn_for(default.to_string().len(), 2)?;
                    object.insert(name.clone(), default.clone());
                }
                match (object.get_mut(name), schema.get("items")) {
                    (Some(Value::Object(inner)), _) => self.fill(schema, inner, depth + 1)?,
                    (Some(Value::Array(items)), Some(schema)) => {
                        for item in items.iter_mut().filter_map(Value::as_object_mut) {
                            self.fill(schema, item, depth + 1)?;
                        }
                    }
                    (_, _) => {}
                }
            }
        }
        Ok(())
    }

    fn properties(&mut self, schema: &'s Value) -> Result<Applicable<'s>, OutOfFuel> {
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return Ok(Rc::clone(known));
        }
        let found: Applicable<'s> = properties(self.root, schema, self.fuel)?.into();
        self.known.insert(std::ptr::from_ref(schema), Rc::clone(&found));
        Ok(found)
    }
}

/// A path such as `input.rows[0].name`.
pub(super) fn path(root: &str, location: &Location) -> String {
    location.segments().fold(root.to_owned(), |path, segment| match segment {
        LocationSegment::Property(name) => format!("{path}.{name}"),
        LocationSegment::Index(index) => format!("{path}[{index}]"),
    })
}

/// The problems of one fault of the library: one for each undeclared field.
pub(super) fn faults(root: &str, error: &ValidationError<'_>) -> Vec<Problem> {
    let place = path(root, error.instance_path());
    if let Kind::Required { property } = error.kind() {
        let name = property.as_str().unwrap_or_default();
        return vec![Problem::rule(Rule::Required, format!("{place}.{name}"), "is required")];
    }
    if let Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } =
        error.kind()
    {
        let unknown = |name: &String| {
            let field = format!("{place}.{}", shortened(name, 64));
            Problem::rule(Rule::Unknown, field, "is not declared by the schema")
        };
        return unexpected.iter().map(unknown).collect();
    }
    if let Kind::Custom { .. } = error.kind() {
        return vec![Problem::rule(Rule::Pattern, place, PATTERN_FAULT)];
    }
    let message = shortened(&error.masked_with(place.as_str()).to_string(), 300);
    vec![Problem { code: Code::Validation(rule(error.kind())), field: place, message }]
}

/// The rule of a keyword.
pub(super) fn rule(kind: &Kind) -> Rule {
    match kind {
        Kind::Required { .. } => Rule::Required,
        Kind::Type { .. }
        | Kind::AnyOf { .. }
        | Kind::OneOfNotValid { .. }
        | Kind::OneOfMultipleValid { .. }
        | Kind::Not { .. }
        | Kind::FalseSchema => Rule::Type,
        Kind::Minimum { .. }
        | Kind::Maximum { .. }
        | Kind::ExclusiveMinimum { .. }
        | Kind::ExclusiveMaximum { .. }
        | Kind::MultipleOf { .. } => Rule::Range,
        Kind::Pattern { .. }
        | Kind::PropertyNames { .. }
        | Kind::Custom { .. }
        | Kind::BacktrackLimitExceeded { .. }
        | Kind::RegexEngineFailure { .. } => Rule::Pattern,
        Kind::Enum { .. } | Kind::Constant { .. } => Rule::Enum,
        Kind::MinLength { .. }
        | Kind::MaxLength { .. }
        | Kind::MinItems { .. }
        | Kind::MaxItems { .. }
        | Kind::MinProperties { .. }
        | Kind::MaxProperties { .. }
        | Kind::AdditionalItems { .. }
        | Kind::UnevaluatedItems { .. }
        | Kind::Contains
        | Kind::UniqueItems => Rule::Length,
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => Rule::Unknown,
        Kind::Format { .. }
        | Kind::ContentEncoding { .. }
        | Kind::ContentMediaType { .. }
        | Kind::FromUtf8 { .. } => Rule::Format,
        Kind::Referencing(_) => Rule::Ref,
    }
}
