//! `response_format`: the form of the answer, which becomes the task's `outputSchema`.
//!
//! Deliberately absent: `strict`, as the server checks each answer against the whole schema.

use callboard_domain::problem::{Problem, Problems};
use callboard_domain::{Error, Rule};
use serde_json::{Value, json};

use super::fixed::nulls_are_absent;
use crate::read::rule::{self, Parse};
use crate::read::{Fields, Refused};
use crate::request;

/// The place of the schema in a request.
const PLACE: &str = "response_format.json_schema.schema";

request! {
    /// The form of an answer.
    #[derive(Debug)]
    pub struct ResponseFormat as "ChatResponseFormat" {
        /// text, `json_object` or `json_schema`.
        kind: Kind = required("type", kind()),
        /// The schema of the type `json_schema`.
        json_schema: Option<NamedSchema> = optional("json_schema", rule::object::<NamedSchema>()),
        /// A schema of the type `json_object`, which some libraries send.
        schema: Option<Value> = optional("schema", schema()),
    }
    check has_schema
}

request! {
    /// A schema with its name.
    #[derive(Debug)]
    pub struct NamedSchema as "ChatNamedSchema" {
        /// The name, without effect.
        name: Option<String> = optional("name", rule::text(rule::bytes(0..=usize::MAX))),
        /// The description, without effect: describe the members in the schema.
        description: Option<String> = optional("description", rule::text(rule::bytes(0..=usize::MAX))),
        /// The JSON Schema; without one, any object.
        schema: Option<Value> = optional("schema", schema()),
        /// Without effect: every answer is checked.
        strict: bool = or_default("strict", rule::flag()),
    }
    check nulls_are_absent
}

/// The type of a response format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// JSON.
    Object,
    /// JSON that matches a schema.
    Schema,
}

fn kind() -> impl Parse<Kind> {
    const KINDS: &[Kind] = &[Kind::Text, Kind::Object, Kind::Schema];
    rule::one_of(KINDS, |kind| match kind {
        Kind::Text => "text",
        Kind::Object => "json_object",
        Kind::Schema => "json_schema",
    })
}

/// A schema; its other faults are found when the task is submitted.
fn schema() -> impl Parse<Value> {
    rule::any()
        .only(Value::is_object, Rule::Type, "must be an object")
        .with(|| json!({"type": "object"}))
}

fn has_schema(format: ResponseFormat, fields: &mut Fields<'_>) -> Result<ResponseFormat, Refused> {
    if format.kind == Kind::Schema && format.json_schema.is_none() {
        let says = "is required, because the type is json_schema";
        return Err(fields.refuse("json_schema", Rule::Required, says));
    }
    nulls_are_absent(format, fields)
}

impl ResponseFormat {
    /// The output schema of the task; none for text.
    pub(super) fn schema(self) -> Option<Value> {
        let given = match self.kind {
            Kind::Text => return None,
            Kind::Object => self.schema,
            Kind::Schema => self.json_schema.and_then(|named| named.schema),
        };
        Some(given.unwrap_or_else(|| json!({"type": "object"})))
    }
}

/// The error with the faults of the task's `outputSchema` at the place where a client wrote it.
#[must_use]
pub fn in_response_format(error: Error) -> Error {
    let Error::InvalidDefinition(problems) = &error else { return error };
    let moved = |text: &str| match text.strip_prefix("outputSchema") {
        Some(rest) => format!("{PLACE}{rest}"),
        None => text.to_owned(),
    };
    let problems = problems.all().iter().map(|problem| Problem {
        code: problem.code,
        field: moved(&problem.field),
        message: moved(&problem.message),
    });
    Problems::none_of(problems.collect()).map_or_else(Error::from, |()| error)
}
