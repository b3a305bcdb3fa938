//! Bulk jobs: translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue};
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::bulk;
use callboard_domain::id::BulkId;
use callboard_runtime::Owner;
use callboard_runtime::handle::BulkOrder;
use callboard_wire::bulk::{BulkBody, ListBulk, StartBulk};

use super::extract::Asker;
use super::idempotency::IdempotencyKey;
use super::{Answer, App, Body, Id, Query, Reply};

/// Cancel, retry, reprioritize or reject every task or execution that a filter matches now, or erase its texts; a dry
/// run returns their number. An erasure needs an admin.
#[utoipa::path(
    post, path = "/api/bulk", tag = "bulk",
    responses(
        (status = 200, description = "the job is durable", body = BulkBody),
        (status = 409, description = "another number of items matches; nothing was done"),
    ),
)]
pub(super) async fn start(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    IdempotencyKey(key): IdempotencyKey,
    Body(bulk): Body<StartBulk>,
) -> Answer {
    let (owner, dry_run, order) = (Owner::of(&caller, None), bulk.dry_run, BulkOrder::from(bulk));
    caller.may(order.action.permission())?;
    if dry_run {
        let (total, why) = app.handle.dry_bulk(&owner, &order).await?;
        return Ok(Reply::ok(&BulkBody::dry_run(&order, total, why.as_deref())));
    }
    let (job, replayed) = app.handle.start_bulk(&owner, &order, key.as_deref()).await?;
    let reply = Reply::ok(&BulkBody::of(&job));
    if replayed {
        const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
        return Ok(reply.header(REPLAYED, HeaderValue::from_static("true")));
    }
    let record = Record::new(Action::BulkStarted, by).of(job.id);
    let record = record.with("action", job.action).with("of", job.kind).with("total", job.total);
    // The reason of a rejection is a text of the approvals, and is erased with them.
    let reason = order.reason.as_ref().filter(|_| order.action == bulk::Action::Erase);
    app.record(match reason {
        Some(reason) => record.with("reason", reason),
        None => record,
    })
    .await;
    Ok(reply)
}

/// A bulk job and how far it is.
#[utoipa::path(
    get, path = "/api/bulk/{id}", tag = "bulk",
    responses((status = 200, body = BulkBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<BulkId>,
) -> Answer {
    let job = app.handle.bulk(caller.environment, id)?;
    Ok(Reply::ok(&BulkBody::of(&job)))
}

/// Stop a bulk job: it acts on no further item, and what it has done stays.
#[utoipa::path(
    delete, path = "/api/bulk/{id}", tag = "bulk",
    responses((status = 200, description = "the job has ended, also after a restart", body = BulkBody)),
)]
pub(super) async fn stop(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<BulkId>,
) -> Answer {
    let job = app.handle.stop_bulk(&Owner::of(&caller, None), id).await?;
    app.record(Record::new(Action::BulkStopped, by).of(id).with("done", job.done())).await;
    Ok(Reply::ok(&BulkBody::of(&job)))
}

/// Bulk jobs, the newest first: those that run, and the last 1,000 that have ended.
#[utoipa::path(
    get, path = "/api/bulk", tag = "bulk",
    responses((status = 200, body = [BulkBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListBulk>,
) -> Answer {
    let window = list.page.window();
    let page = app.handle.bulks(caller.environment, window);
    let items: Vec<_> = page.items.iter().map(BulkBody::of).collect();
    Ok(Reply::page(&items, page.total, window))
}
