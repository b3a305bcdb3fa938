//! The OpenAPI document, generated from the handlers and the shapes.

use std::sync::OnceLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};

use super::{accounts, approvals, events, executions, plans, system, tasks, templates};
use crate::ws;

/// The description of every route under /api.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Callboard",
        description = "A durable, self-hosted orchestrator for prompt-driven work on language models.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(
        tasks::create, tasks::list, tasks::create_batch, tasks::get, tasks::cancel,
        plans::create, plans::list, plans::get, plans::execute,
        executions::list, executions::get, executions::cancel, executions::retry,
        templates::create, templates::list, templates::get, templates::versions, templates::deploy,
        approvals::list, approvals::list_pending, approvals::get, approvals::approve,
        approvals::reject, approvals::claim, approvals::release, approvals::history,
        approvals::statistics, approvals::calibration,
        accounts::login, accounts::refresh, accounts::create_user, accounts::list_users,
        accounts::change_user, accounts::create_key,
        system::list_workers, system::drain_worker, system::health,
        events::follow, ws::workers::connect, describe,
    ),
    security(("bearer" = [])),
    modifiers(&Bearer),
)]
struct Document;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", scheme);
    }
}

/// The OpenAPI document.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// This document.
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "system", security(()),
    responses((status = 200, body = Object)),
)]
#[expect(dead_code, reason = "it carries the description of `serve`")]
fn describe() {}

/// Serves the document; it never changes while the program runs.
pub(super) async fn serve() -> impl IntoResponse {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_json().expect("a document has a JSON form"));
    ([(CONTENT_TYPE, "application/json")], text.as_str())
}
