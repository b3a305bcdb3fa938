//! Workers and health (docs/reference/workers.md): translate only.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use callboard_domain::Error;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::id::WorkerId;
use callboard_domain::schedule::Timetable;
use callboard_wire::common::Paging;
use callboard_wire::functions::FunctionBody;
use callboard_wire::storage::StorageBody;
use callboard_wire::system::{Component, Components, Health, WorkerBody};

use super::extract::Asker;
use super::{Answer, App, ClusterDoor, Id, Query, Reply};
use crate::tls::{SOON, Tls};

/// The workers; lost ones are listed for an hour.
#[utoipa::path(
    get, path = "/api/workers", tag = "system",
    responses((status = 200, body = [WorkerBody])),
)]
pub(super) async fn list_workers(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(paging): Query<Paging>,
) -> Answer {
    let moment = app.handle.moment();
    let mut workers = app.handle.workers(caller.environment);
    workers.reverse();
    let (window, total) = (paging.window(), workers.len() as u64);
    let page: Vec<_> = workers
        .into_iter()
        .skip(window.offset)
        .take(window.limit)
        .map(|view| WorkerBody::new(view, moment))
        .collect();
    Ok(Reply::page(&page, total, window))
}

/// The functions that connected workers run, by name.
#[utoipa::path(
    get, path = "/api/functions", tag = "system",
    responses((status = 200, body = [FunctionBody])),
)]
pub(super) async fn list_functions(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(paging): Query<Paging>,
) -> Answer {
    let functions = app.handle.functions(caller.environment);
    let (window, total) = (paging.window(), functions.len() as u64);
    let page = functions.into_iter().skip(window.offset).take(window.limit);
    let page: Vec<_> = page.map(FunctionBody::of).collect();
    Ok(Reply::page(&page, total, window))
}

/// Have a worker finish its tasks and take no new ones.
#[utoipa::path(
    post, path = "/api/workers/{id}/drain", tag = "system",
    responses((status = 200, body = WorkerBody)),
)]
pub(super) async fn drain_worker(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<WorkerId>,
) -> Answer {
    let view = app.handle.drain_worker(caller.environment, id)?;
    app.record(Record::new(Action::WorkerDrained, by).of(id)).await;
    Ok(Reply::ok(&WorkerBody::new(view, app.handle.moment())))
}

/// The rows and bytes of each kind of data, measured when somebody asks, and at most once a minute.
#[utoipa::path(
    get, path = "/api/system/storage", tag = "system",
    responses((status = 200, body = StorageBody)),
)]
pub(super) async fn storage(State(app): State<Arc<App>>) -> Answer {
    Ok(Reply::ok(&StorageBody::from(app.handle.stored().await)))
}

/// The state of the service.
#[utoipa::path(
    get, path = "/api/health", tag = "system",
    responses((status = 200, body = Health), (status = 503, description = "unavailable")),
)]
pub(super) async fn health(State(app): State<Arc<App>>) -> Answer {
    let health = examine(&app);
    Ok(Reply::with_status(status_of(health.status), &health))
}

/// The service's health, without the envelope.
pub(super) async fn bare_health(State(app): State<Arc<App>>) -> Reply {
    let health = examine(&app);
    Reply::bare(status_of(health.status), &health)
}

/// The health of one part of the service, without the envelope.
pub(super) async fn bare_component(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
) -> Answer {
    let components = examine(&app).components;
    let component = match name.as_str() {
        "engine" => components.engine,
        "database" => components.database,
        "workers" => components.workers,
        "vectorStore" => components.vector_store,
        "live" => Component::ok(),
        "ready" => readiness(&app),
        _ => return Err(Error::not_found("component", name).into()),
    };
    Ok(Reply::bare(status_of(component.status), &component))
}

fn readiness(app: &App) -> Component {
    if app.handle.is_draining() {
        Component { status: "unavailable", detail: Some("draining".into()) }
    } else {
        Component::ok()
    }
}

/// The store is degraded while its archive continues no backup, or while a shared database does not take this node's calls:
/// the node answers until its term is over.
fn database(app: &App) -> Component {
    if let Some(fault) = app.cluster.as_ref().and_then(ClusterDoor::fault) {
        return Component { status: "degraded", detail: Some(fault) };
    }
    if let Err(short) = app.pressure.check() {
        return Component { status: "degraded", detail: Some(short.to_string()) };
    }
    let fault = app.store.upgrade().and_then(|store| store.protection().fault());
    fault.map_or_else(Component::ok, |fault| Component { status: "degraded", detail: Some(fault) })
}

/// The answer to a question after the health of a cluster, by a node that knows of no active one; `None` for
/// another question. `fault` is the reason why the database does not take the node's calls.
pub(crate) fn without_active(path: &str, fault: Option<String>, uptime: Duration) -> Option<Reply> {
    let name = path.strip_prefix("/health");
    if name.is_none() && path != "/api/health" {
        return None;
    }
    let unavailable = |detail: Option<String>| Component { status: "unavailable", detail };
    let engine = unavailable(Some("no node of the cluster is active".into()));
    let database = match fault {
        Some(fault) => unavailable(Some(fault)),
        None => Component::ok(),
    };
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let component = match name {
        None | Some("") => {
            let components = Components {
                engine,
                database,
                workers: unavailable(None),
                vector_store: Component { status: "not_configured", detail: None },
            };
            let uptime_ms = u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX);
            let health = Health {
                status: "unavailable",
                version: env!("CARGO_PKG_VERSION"),
                time_zone_data: Timetable::zone_data(),
                uptime_ms,
                components,
                paused: None,
                warnings: Vec::new(),
            };
            return Some(match name {
                None => Reply::with_status(status, &health),
                Some(_) => Reply::bare(status, &health),
            });
        }
        Some("/engine" | "/ready") => engine,
        Some("/database") => database,
        Some("/workers") => unavailable(None),
        Some(_) => return None,
    };
    Some(Reply::bare(status_of(component.status), &component))
}

/// The pause of everything, in words.
fn paused(app: &App) -> Option<String> {
    let stands_still = || "paused by --paused at the start".to_owned();
    let by_start = app.handle.stands_still().then(stands_still);
    by_start.or_else(|| app.handle.pause().map(|pause| pause.detail()))
}

/// The engine is degraded while everything is paused.
fn engine(app: &App) -> Component {
    let ready = readiness(app);
    match paused(app) {
        Some(detail) if ready.status == "ok" => {
            Component { status: "degraded", detail: Some(detail) }
        }
        _ => ready,
    }
}

pub(super) fn examine(app: &App) -> Health {
    let engine = engine(app);
    let workers = match app.handle.reachable_workers() {
        0 => Component { status: "degraded", detail: Some("no worker is connected".into()) },
        count => Component { status: "ok", detail: Some(format!("{count} connected")) },
    };
    let database = database(app);
    let status = match (engine.status, workers.status, database.status) {
        ("ok", "ok", "ok") => "ok",
        ("ok" | "degraded", ..) => "degraded",
        _ => "unavailable",
    };
    let components = Components {
        engine,
        database,
        workers,
        vector_store: Component { status: "not_configured", detail: None },
    };
    let uptime_ms = u64::try_from(app.started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (version, time_zone_data) = (env!("CARGO_PKG_VERSION"), Timetable::zone_data());
    let ends = app.tls.iter().flat_map(Tls::left).filter(|(_, left)| *left <= SOON);
    let ends = ends.map(|(name, left)| {
        let days = left.div_euclid(24 * 3600);
        format!("the certificate {name} has {days} days left; renew it")
    });
    let warnings = app.warnings.iter().map(ToString::to_string).chain(ends).collect();
    let paused = paused(app);
    Health { status, version, time_zone_data, uptime_ms, components, paused, warnings }
}

fn status_of(status: &str) -> StatusCode {
    if status == "unavailable" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK }
}
