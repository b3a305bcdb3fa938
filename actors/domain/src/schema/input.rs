//! The conversion of the library's faults to problems with path, rule and text; and the defaults.
//!
//! Deliberately absent: values. A message names the field and never repeats its value.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use jsonschema::paths::{Location, LocationSegment};
use serde_json::{Map, Value};

use super::refs::properties;
use crate::error::Rule;
use crate::problem::{Code, Problem, shortened};

/// Adds the default of each absent property.
pub(super) fn fill(root: &Value, schema: &Value, object: &mut Map<String, Value>) {
    for (name, schema) in properties(root, schema).flatten() {
        if !object.contains_key(name) {
            object.extend(schema.get("default").map(|default| (name.clone(), default.clone())));
        }
        match object.get_mut(name) {
            Some(Value::Object(inner)) => fill(root, schema, inner),
            Some(Value::Array(items)) => {
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    schema.get("items").into_iter().for_each(|schema| fill(root, schema, item));
                }
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {}
        }
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
        | Kind::FalseSchema
        | Kind::Custom { .. } => Rule::Type,
        Kind::Minimum { .. }
        | Kind::Maximum { .. }
        | Kind::ExclusiveMinimum { .. }
        | Kind::ExclusiveMaximum { .. }
        | Kind::MultipleOf { .. } => Rule::Range,
        Kind::Pattern { .. }
        | Kind::PropertyNames { .. }
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
