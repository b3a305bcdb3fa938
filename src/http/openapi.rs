//! The OpenAPI document: requests from the parameters of the handlers, answers from the shapes that
//! their `utoipa::path` names, the envelope and the refusals from the rules of every route.

use std::sync::OnceLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use callboard_wire::answer::SCHEMA;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;

use super::describe::Operation;
use super::envelope::Shape;
use super::pressure::is_new_work;
use super::routes::{Access, Route};
use super::{
    accounts, approvals, audit, backup, batches, browser, budgets, bulk, cells, chat, cluster,
    events, executions, files, invitations, loads, metrics, models, oidc, pause, plans, projects,
    queues, revocation, schedules, search, setup, signals, signing_key, streams, system, table,
    tasks, templates, views, webhooks,
};
use crate::ws;

/// The summary and the answers of every route under /api and /v1.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Callboard",
        description = "A durable, self-hosted orchestrator for prompt-driven work on language models.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    paths(
        tasks::create,
        tasks::list,
        tasks::create_batch,
        loads::create_bulk,
        tasks::get,
        tasks::get_batch,
        tasks::cancel,
        tasks::retry,
        tasks::erase,
        plans::create,
        plans::list,
        plans::get,
        plans::execute,
        executions::list,
        executions::get,
        executions::cancel,
        executions::erase,
        executions::retry,
        executions::fork,
        executions::items,
        signals::send,
        schedules::create,
        schedules::list,
        schedules::get,
        schedules::change,
        schedules::delete,
        schedules::runs,
        schedules::trigger,
        templates::create,
        templates::list,
        templates::get,
        templates::delete,
        templates::change,
        templates::set_latest,
        templates::follow_highest,
        templates::versions,
        templates::deploy,
        approvals::list,
        approvals::list_pending,
        approvals::get,
        approvals::approve,
        approvals::reject,
        approvals::claim,
        approvals::extend,
        approvals::assign,
        approvals::reopen,
        approvals::release,
        approvals::history,
        approvals::statistics,
        approvals::calibration,
        approvals::reviewers,
        accounts::login,
        accounts::refresh,
        setup::setup,
        browser::set_cookie,
        browser::who,
        browser::methods,
        browser::create_link,
        browser::preview_link,
        browser::exchange_link,
        oidc::start,
        oidc::callback,
        oidc::preview_program,
        oidc::answer_program,
        oidc::token,
        signing_key::rotate,
        accounts::create_user,
        accounts::list_users,
        accounts::change_user,
        invitations::create,
        invitations::list,
        invitations::revoke,
        invitations::preview,
        invitations::accept,
        invitations::forgotten,
        invitations::preview_reset,
        invitations::reset,
        accounts::create_key,
        accounts::delete_user,
        accounts::list_keys,
        accounts::revoke_key,
        revocation::revoke_keys,
        accounts::rotate_key,
        accounts::logout,
        accounts::change_password,
        accounts::list_sessions,
        accounts::end_session,
        audit::list,
        backup::create,
        backup::backup_status,
        backup::report_backup,
        backup::report_verification,
        system::storage,
        cluster::nodes,
        cluster::change,
        webhooks::list,
        webhooks::redeliver,
        webhooks::secret,
        webhooks::rotate,
        queues::list,
        queues::change,
        pause::show,
        pause::pause,
        pause::resume,
        bulk::start,
        bulk::stop,
        bulk::list,
        bulk::get,
        files::upload,
        files::list,
        files::get,
        files::content,
        files::delete,
        batches::create,
        batches::list,
        batches::get,
        batches::delete,
        batches::rows,
        batches::export,
        batches::compare,
        batches::estimate,
        batches::pause,
        batches::resume,
        batches::cancel,
        batches::retry,
        batches::review,
        cells::add_cell,
        cells::list_cells,
        cells::remove_cell,
        projects::create,
        projects::list,
        projects::figures,
        projects::get,
        projects::change,
        projects::delete,
        projects::begin_move,
        projects::give_up_move,
        projects::list_members,
        projects::set_member,
        projects::remove_member,
        budgets::create,
        budgets::list,
        budgets::get,
        budgets::change,
        budgets::delete,
        budgets::usage,
        search::search,
        views::create,
        views::list,
        views::change,
        views::delete,
        system::list_workers,
        system::list_functions,
        system::drain_worker,
        models::list,
        models::set_limits,
        models::end_pause,
        system::health,
        metrics::metrics,
        events::follow,
        streams::of_task,
        streams::of_execution,
        ws::clients::connect,
        chat::complete,
        chat::list_models,
        chat::get_model,
        chat::batches::create_batch,
        chat::batches::list_batches,
        chat::batches::get_batch,
        chat::batches::cancel_batch,
        chat::files::upload_file,
        chat::files::list_files,
        chat::files::get_file,
        chat::files::get_file_content,
        chat::files::delete_file,
        ws::workers::connect,
        describe,
    )
)]
struct Document;

/// The OpenAPI document.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "it is made of constants")]
pub fn document() -> Value {
    let text = Document::openapi().to_json().expect("the document has a JSON form");
    // The shapes of answers are named after their items.
    let text = text.replace("Body\"", "\"");
    let mut document: Value = serde_json::from_str(&text).expect("the document is JSON");
    let mut schemas = document["components"]["schemas"].take();
    for schema in schemas.as_object_mut().into_iter().flat_map(Map::values_mut) {
        if let Some(written) = schema.get_mut(SCHEMA).map(Value::take) {
            *schema = written;
        }
    }
    if let Some(instant) = schemas.as_object_mut().and_then(|schemas| schemas.shift_remove("Iso")) {
        inline(&mut schemas, &reference("Iso"), &instant);
    }
    without_null(&mut schemas);
    let mut operation = Operation::default();
    for route in table().described() {
        operation.parameters.clear();
        operation.body = None;
        operation.refusals.clear();
        (route.describe)(&mut operation);
        let described = document["paths"].get_mut(path(&route));
        let described = described.and_then(|it| it.get_mut(route.method.as_str().to_lowercase()));
        if let Some(described) = described {
            complete(described, &route, &operation);
        }
    }
    for (name, schema) in operation.components.schemas.into_iter().chain(envelope()) {
        schemas[name] = schema;
    }
    document["components"] = json!({
        "schemas": schemas,
        "responses": {"Failure": refusal("Failure"), "OpenAiFailure": refusal("OpenAiFailure")},
        "securitySchemes": {"bearer": {
            "type": "http",
            "scheme": "bearer",
            "description": "a session's token or an API key",
        }},
    });
    document
}

/// The path of a route in the document, which knows no wildcards.
fn path(route: &Route) -> String {
    route.path.replace("{*", "{")
}

/// Adds its handler's parameters, and the common part of all routes, to the description of a route.
fn complete(described: &mut Value, route: &Route, operation: &Operation) {
    let name = described["operationId"].as_str().unwrap_or_default();
    let tag = described["tags"][0].as_str().unwrap_or_default();
    described["operationId"] = format!("{tag}_{name}").into();
    let mut parameters = operation.parameters.clone();
    let path = path(route);
    let names = path.split(['{', '}']).skip(1).step_by(2);
    let in_path = parameters.iter_mut().filter(|parameter| parameter["in"] == "path");
    in_path.zip(names).for_each(|(parameter, name)| parameter["name"] = name.into());
    let is_paged = parameters.iter().any(|parameter| parameter["name"] == "offset");
    if !parameters.is_empty() {
        described["parameters"] = Value::Array(parameters);
    }
    if let Some(body) = &operation.body {
        described["requestBody"] = body.clone();
    }
    let mut refusals = operation.refusals.clone();
    match route.access.with_metrics(false) {
        Access::Allowed(action) | Access::AllowedLater(action) => {
            described["security"] = json!([{"bearer": []}]);
            described["x-callboard-action"] = action.as_str().into();
            refusals.extend([401, 403, 429, 503]);
            if is_new_work(action, &route.method, route.path) {
                refusals.insert(507);
            }
        }
        Access::Own(_) => {
            described["security"] = json!([{"bearer": []}]);
            described["x-callboard-action"] = "own account".into();
            refusals.extend([401, 403, 429, 503]);
        }
        Access::Public | Access::Metrics => {
            described["security"] = json!([]);
            refusals.extend([429, 503]);
        }
        Access::Health => described["security"] = json!([]),
    }
    let is_openai = Shape::of(route.path) == Shape::OpenAi;
    let name = if is_openai { "OpenAiFailure" } else { "Failure" };
    let failure = json!({"$ref": format!("#/components/responses/{name}")});
    let responses = described["responses"].as_object_mut().expect("utoipa writes an object");
    for (status, response) in responses.iter_mut() {
        if response.get("description").is_none() {
            response["description"] = "done".into();
        }
        let Some(schema) = response.pointer_mut("/content/application~1json/schema") else {
            if !status.starts_with(['1', '3']) && response.get("content").is_none() {
                *response = failure.clone();
            }
            continue;
        };
        // The description of the interface is outside the envelope, and so is OpenAI's.
        if route.path != "/api/openapi.json" && !is_openai {
            *schema = enveloped(&schema.take(), is_paged);
        }
        response["headers"] = headers();
    }
    for status in refusals.into_iter().chain([431, 500]) {
        responses.entry(status.to_string()).or_insert_with(|| failure.clone());
    }
}

fn refusal(schema: &str) -> Value {
    json!({
        "description": "refused",
        "headers": headers(),
        "content": {"application/json": {"schema": reference(schema)}},
    })
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The headers of every answer.
fn headers() -> Value {
    json!({"X-Request-Id": {"required": true, "schema": {"type": "string"}}})
}

/// The envelope around `data`.
fn enveloped(data: &Value, is_paged: bool) -> Value {
    let mut envelope = json!({
        "type": "object",
        "required": ["success", "data", "meta"],
        "properties": {
            "success": {"const": true},
            "data": data,
            "meta": reference("Meta"),
        },
    });
    if is_paged {
        envelope["required"] = json!(["success", "data", "pagination", "meta"]);
        envelope["properties"]["pagination"] = reference("Pagination");
    }
    envelope
}

/// The schemas of the envelope.
fn envelope() -> [(String, Value); 5] {
    let count = json!({"type": "integer", "minimum": 0});
    let meta = json!({
        "type": "object",
        "required": ["requestId", "timestamp"],
        "properties": {
            "requestId": {"type": "string", "description": "as in the header X-Request-Id"},
            "timestamp": {"type": "string", "format": "date-time"},
            "duration": {"type": "integer", "minimum": 0, "description": "milliseconds; not in a refusal"},
        },
    });
    let pagination = json!({
        "type": "object",
        "required": ["total", "limit", "offset", "hasMore"],
        "properties": {
            "total": count, "limit": count, "offset": count, "hasMore": {"type": "boolean"},
        },
    });
    let error = json!({
        "type": "object",
        "required": ["code", "message", "retryable"],
        "properties": {
            "code": {"type": "string", "description": "for programs, such as VALIDATION_ERROR"},
            "message": {"type": "string", "description": "what is wrong and what would be right"},
            "retryable": {"type": "boolean", "description": "whether the same request may succeed later"},
            "details": {"type": "object", "properties": {
                "field": {"type": "string", "description": "the path of the field"},
                "rule": {"type": "string", "description": "the rule that it breaks"},
                "errors": {
                    "type": "array",
                    "description": "every fault, if there are several",
                    "items": {
                        "type": "object",
                        "required": ["code", "field", "message"],
                        "properties": {
                            "code": {"type": "string"},
                            "field": {"type": "string"},
                            "message": {"type": "string"},
                        },
                    },
                },
            }},
        },
    });
    let failure = json!({
        "type": "object",
        "required": ["success", "error", "meta"],
        "properties": {
            "success": {"const": false}, "error": reference("Error"), "meta": reference("Meta"),
        },
    });
    let openai = json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string", "description": "the kind, such as invalid_request_error"},
                "param": {"type": ["string", "null"], "description": "the path of the field"},
                "code": {"type": "string", "description": "for programs, such as unsupported"},
                "taskId": {"type": "string", "description": "the task, once there is one"},
            },
        }},
    });
    [
        ("Meta", meta),
        ("Pagination", pagination),
        ("Error", error),
        ("Failure", failure),
        ("OpenAiFailure", openai),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
}

/// Puts a schema in the place of the references to it.
fn inline(schema: &mut Value, reference: &Value, with: &Value) {
    match schema {
        Value::Object(members) => {
            if members.get("$ref") == reference.get("$ref") {
                members.remove("$ref");
                let beside = std::mem::take(members);
                members.extend(with.as_object().cloned().unwrap_or_default());
                members.extend(beside);
            }
            members.values_mut().for_each(|it| inline(it, reference, with));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| inline(it, reference, with)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A member without a value is left out of an answer, never null.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove("default");
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|it| it != "null");
                if let [one] = types.as_slice() {
                    members["type"] = one.clone();
                }
            }
            if let Some(Value::Array(choices)) = members.get_mut("oneOf") {
                choices.retain(|it| *it != json!({"type": "null"}));
                if let [Value::Object(one)] = choices.as_mut_slice() {
                    let one: Map<_, _> = std::mem::take(one);
                    members.remove("oneOf");
                    members.extend(one);
                }
            }
            members.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// This document.
#[utoipa::path(
    get, path = "/api/openapi.json", tag = "system",
    responses((status = 200, body = Object)),
)]
#[expect(dead_code, reason = "it carries the description of `serve`")]
fn describe() {}

/// Serves the document; it never changes while the program runs.
pub(super) async fn serve() -> impl IntoResponse {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| document().to_string());
    ([(CONTENT_TYPE, "application/json")], text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_of_the_api_is_in_the_document_and_nothing_else_is() {
        let document = document();
        let paths = document["paths"].as_object().expect("paths");
        let described = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods");
            methods.keys().map(move |method| format!("{} {path}", method.to_uppercase()))
        });
        let is_described =
            |path: &str| ["/api", "/v1", "/ws"].iter().any(|root| path.starts_with(root));
        let routes = table().described().into_iter().filter(|route| is_described(route.path));
        let mut routes: Vec<_> =
            routes.map(|route| format!("{} {}", route.method, path(&route))).collect();
        routes.sort();
        let mut described: Vec<_> = described.collect();
        described.sort();
        assert_eq!(described, routes);
    }
}
