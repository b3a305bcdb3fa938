//! The header `Idempotency-Key`, and the header that says that an answer is not the first.
//!
//! Deliberately absent: what a key is compared with, which the runtime knows.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use callboard_domain::{Error, Rule};
use callboard_runtime::Submitted;

use super::Reply;

/// The key of the body or of the header; if both are there, they must be the same.
pub(super) fn key(headers: &HeaderMap, in_body: Option<String>) -> Result<Option<String>, Error> {
    let Some(header) = headers.get("idempotency-key") else { return Ok(in_body) };
    let refuse = |rule, says: &str| {
        let message = format!("the header Idempotency-Key must {says}");
        Error::invalid("Idempotency-Key", rule, message)
    };
    let text = header.to_str().map_err(|_| refuse(Rule::Format, "be visible ASCII text"))?;
    if !(1..=255).contains(&text.len()) {
        return Err(refuse(Rule::Length, "have 1 to 255 characters"));
    }
    match in_body {
        Some(other) if other != text => {
            Err(refuse(Rule::Format, "be the same as idempotencyKey in the body"))
        }
        Some(_) | None => Ok(Some(text.to_owned())),
    }
}

/// The answer, marked if what was submitted had been made before.
pub(super) fn replayed(reply: Reply, submitted: &Submitted) -> Reply {
    const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
    if submitted.replayed {
        reply.header(REPLAYED, HeaderValue::from_static("true"))
    } else {
        reply
    }
}
