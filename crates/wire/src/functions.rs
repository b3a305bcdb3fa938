//! Functions on the wire (docs/reference/functions.md).

use callboard_domain::Rule;
use callboard_domain::function::{Announced, Call, MAX_ARGS, MAX_NAME};
use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::{Map, Value, json};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::answer::{Answer, Writer};
use super::read::rule::{self, Parse};
use super::read::{Fields, Members, Read, Refused};

const FUNCTION_TEXT: &str = "The function that a worker calls in place of a prompt for a model.";
const ARGS_TEXT: &str = "The args of the function, with placeholders in the strings of a step's: at most 256 KiB as \
                         compact JSON; by default none.";

/// The name of a function, whose grammar the domain checks.
fn function() -> impl Parse<String> {
    let limits = json!({"minLength": 1, "maxLength": MAX_NAME, "pattern": "^[a-z][a-z0-9_.-]*$"});
    rule::text(rule::bytes(0..=usize::MAX)).with(move || limits.clone())
}

fn args() -> impl Parse<Map<String, Value>> {
    rule::free(MAX_ARGS)
}

/// The call, if the work is one of a function.
impl Read for Option<Call> {
    const NAME: &'static str = "CallMembers";

    fn read(fields: &mut Fields<'_>) -> Result<Self, Refused> {
        let function = fields.optional("function", function())?;
        let args = fields.optional("args", args())?;
        if function.is_none() && args.is_some() {
            fields.refuse("args", Rule::Unknown, "applies beside function only");
        }
        Ok(function.map(|function| Call { function, args: args.unwrap_or_default() }))
    }

    fn describe(members: &mut Members<'_>) {
        members.optional("function", function(), FUNCTION_TEXT);
        members.optional("args", args(), ARGS_TEXT);
    }
}

impl Answer for Option<Call> {
    fn members<M: SerializeMap>(&self, members: &mut Writer<'_, M>) -> Result<(), M::Error> {
        let Some(call) = self else { return Ok(()) };
        members.required("function", function(), &call.function)?;
        members.required("args", args(), &call.args)
    }
}

/// A function that connected workers run.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Function)]
pub struct FunctionBody {
    /// The name.
    name: String,
    /// The description, for people.
    description: Option<String>,
    /// The JSON Schema of its args.
    #[schema(value_type = Option<Object>)]
    input_schema: Option<Value>,
    /// The JSON Schema of its output.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<Value>,
    /// The connected workers that announce it.
    workers: usize,
}

impl FunctionBody {
    /// A function that so many workers announce.
    #[must_use]
    pub fn of((announced, workers): (Announced, usize)) -> Self {
        let Announced { name, description, input_schema, output_schema } = announced;
        Self { name, description, input_schema, output_schema, workers }
    }
}
