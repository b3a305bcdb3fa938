//! Queues: their state, and the settings of operators: translate only.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::grammar::Kind;
use callboard_domain::queue::QueueChange;
use callboard_wire::queues::{ChangeQueue, ListQueues, QueueBody, QueueName};

use super::extract::Asker;
use super::{Answer, App, Body, Id, Query, Reply, names};

/// The queues that have ready tasks, workers or settings, by name.
#[utoipa::path(
    get, path = "/api/queues", tag = "queues",
    responses((status = 200, body = [QueueBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListQueues>,
) -> Answer {
    let window = list.page.window();
    let page = app.handle.queues(caller.environment, window).await?;
    let now = app.handle.now();
    let items: Vec<_> = page.items.iter().map(|view| QueueBody::at(view, now)).collect();
    Ok(Reply::page(&items, page.total, window))
}

/// Pause, resume or limit a queue.
#[utoipa::path(
    patch, path = "/api/queues/{name}", tag = "queues",
    responses(
        (status = 200, description = "the change is durable and holds", body = QueueBody),
        (status = 409, description = "too many queues have settings"),
    ),
)]
pub(super) async fn change(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(QueueName(name)): Id<QueueName>,
    Body(change): Body<ChangeQueue>,
) -> Answer {
    names::check(&app, caller.environment, Kind::Queue, "name", &[&name]).await?;
    let change = QueueChange::from(change);
    let view = app.handle.change_queue(caller.environment, &name, change).await?;
    let mut record = Record::new(Action::QueueChanged, by).of(&name);
    if let Some(paused) = change.paused {
        record = record.with("paused", paused);
    }
    if let Some(concurrent) = change.concurrent {
        record = record.with("concurrent", concurrent);
    }
    if let Some(requests) = change.requests_per_minute {
        record = record.with("requestsPerMinute", requests);
    }
    app.record(record).await;
    Ok(Reply::ok(&QueueBody::at(&view, app.handle.now())))
}
