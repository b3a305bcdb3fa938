//! The header `Idempotency-Key`, and the header that marks a repeated answer.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use callboard_domain::{Error, Rule};
use callboard_runtime::Submitted;
use serde_json::json;

use super::describe::{Input, Operation};
use super::{Failure, Reply};

const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// The header `Idempotency-Key`.
#[derive(Debug)]
pub(super) struct IdempotencyKey(pub(super) Option<String>);

impl IdempotencyKey {
    /// The key of the header or of the body; if both are given, they must be the same.
    pub(super) fn or(self, in_body: Option<String>) -> Result<Option<String>, Error> {
        match (self.0, in_body) {
            (Some(header), Some(other)) if header != other => {
                Err(refuse(Rule::Format, "be the same as idempotencyKey in the body"))
            }
            (header, in_body) => Ok(header.or(in_body)),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let Some(header) = parts.headers.get("idempotency-key") else { return Ok(Self(None)) };
        let text = header.to_str().ok().filter(|text| !text.contains('\t'));
        let text = text.ok_or_else(|| refuse(Rule::Format, "be visible ASCII characters"))?;
        if !(1..=255).contains(&text.len()) {
            return Err(refuse(Rule::Length, "have 1 to 255 characters").into());
        }
        Ok(Self(Some(text.to_owned())))
    }
}

impl Input for IdempotencyKey {
    fn describe(operation: &mut Operation) {
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"});
        operation.header("Idempotency-Key", "Prevents duplicates; kept for 24 hours.", &schema);
        operation.refusals.extend([409, 422]);
    }
}

fn refuse(rule: Rule, says: &str) -> Error {
    let message = format!("the header Idempotency-Key must {says}");
    Error::invalid("Idempotency-Key", rule, message)
}

/// The answer, marked if the items had been created before.
pub(super) fn replayed(reply: Reply, submitted: &Submitted) -> Reply {
    replayed_if(reply, submitted.replayed)
}

/// The answer, marked if `replayed`.
pub(super) fn replayed_if(reply: Reply, replayed: bool) -> Reply {
    if replayed { reply.header(REPLAYED, TRUE) } else { reply }
}

/// An answer that is no [`Reply`], marked if `replayed`.
pub(super) fn marked(mut response: Response, replayed: bool) -> Response {
    if replayed {
        response.headers_mut().insert(REPLAYED, TRUE);
    }
    response
}
