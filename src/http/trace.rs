//! The trace context of a request: the header `traceparent`, and the trace of its tasks.
//!
//! A header that is malformed, or given twice, counts as none, as W3C Trace Context asks for.
//! Deliberately absent: `tracestate`, which is not passed on.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use callboard_domain::trace::TraceContext;
use serde_json::json;

use super::describe::{Input, Operation};
use super::{App, Failure};
use crate::outbound::traces::{Place, Traces};

const HEADER: &str = "traceparent";

/// The place of a request in a trace; `None` if it is in none.
pub(super) fn place(traces: Option<&Traces>, request: &Request) -> Option<Place> {
    let mut given = request.headers().get_all(HEADER).iter();
    let caller = match (given.next(), given.next()) {
        (Some(one), None) => one.to_str().ok().and_then(|text| text.parse().ok()),
        (None, _) | (Some(_), Some(_)) => None,
    };
    match traces {
        Some(traces) if is_traced(request.uri().path()) => traces.place(caller),
        Some(_) | None => caller.map(Place::of),
    }
}

fn is_traced(path: &str) -> bool {
    let path = path.strip_prefix("/api").unwrap_or(path);
    !["/health", "/metrics"].into_iter().any(|probe| path.starts_with(probe))
}

/// The trace of the items that a request creates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trace(pub(super) Option<TraceContext>);

impl FromRequestParts<Arc<App>> for Trace {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Failure> {
        Ok(Self(parts.extensions.get::<Place>().map(|place| place.context)))
    }
}

impl Input for Trace {
    fn describe(operation: &mut Operation) {
        let schema = json!({"type": "string"});
        operation.header(
            HEADER,
            "The trace context of the caller (W3C Trace Context); ignored if it is none.",
            &schema,
        );
    }
}
