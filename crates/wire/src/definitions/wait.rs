//! The members that make a step a wait.

use callboard_domain::Rule;
use callboard_domain::plan::{MAX_ID, WaitSource};
use serde::ser::SerializeMap;
use serde_json::json;

use super::text;
use crate::answer::{Answer, Writer};
use crate::read::rule::{self, Parse};
use crate::read::{Fields, Members, Read, Refused};

/// The types of steps.
const TYPES: [&str; 2] = ["prompt", WAIT];
/// The type of a step that waits for a signal.
pub(super) const WAIT: &str = "wait";

const TYPE_TEXT: &str = "prompt calls a model, wait waits for a signal; by default prompt.";
const SIGNAL_TEXT: &str = "The name of the signal that a wait waits for.";
const SCHEMA_TEXT: &str = "The JSON Schema of the payload of a wait's signal.";

fn kind() -> impl Parse<&'static str> {
    rule::one_of(&TYPES, |name| name)
}

fn signal() -> impl Parse<String> {
    text(1..=MAX_ID).with(|| json!({"pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}))
}

/// The wait, if the step is one.
impl Read for Option<WaitSource> {
    const NAME: &'static str = "WaitMembers";

    fn read(fields: &mut Fields<'_>) -> Result<Self, Refused> {
        let kind = fields.optional("type", kind())?;
        let signal = fields.optional("signal", signal())?;
        let schema = fields.optional("schema", rule::any())?;
        if kind == Some(WAIT) {
            let signal = signal.unwrap_or_else(|| {
                fields.refuse("signal", Rule::Required, "is required for a step of the type wait");
                String::new()
            });
            return Ok(Some(WaitSource { signal, schema }));
        }
        for (name, is_given) in [("signal", signal.is_some()), ("schema", schema.is_some())] {
            if is_given {
                let says = "applies to a step of the type wait only";
                fields.refuse(name, Rule::Unknown, says);
            }
        }
        Ok(None)
    }

    fn describe(members: &mut Members<'_>) {
        members.optional("type", kind(), TYPE_TEXT);
        members.optional("signal", signal(), SIGNAL_TEXT);
        members.optional("schema", rule::any(), SCHEMA_TEXT);
    }
}

impl Answer for Option<WaitSource> {
    fn members<M: SerializeMap>(&self, members: &mut Writer<'_, M>) -> Result<(), M::Error> {
        let Some(wait) = self else { return Ok(()) };
        members.required("type", kind(), &WAIT)?;
        members.required("signal", signal(), &wait.signal)?;
        members.optional("schema", rule::any(), &wait.schema)
    }
}
