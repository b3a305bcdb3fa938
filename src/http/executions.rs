//! The execution endpoints (docs/reference/executions.md).

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record, STAYS};
use callboard_domain::id::ExecutionId;
use callboard_domain::query::{Executions, Items};
use callboard_domain::template;
use callboard_runtime::submission::Created;
use callboard_runtime::{Owner, Submitted};
use callboard_wire::executions::{
    DryRunBody, ErasedExecutionBody, ExecutionBody, ForkExecution, ItemBody, ListExecutions,
    ListItems,
};
use callboard_wire::tasks::EraseBody;

use super::extract::{Asker, ItemsOf, OptionalBody};
use super::idempotency::IdempotencyKey;
use super::trace::Trace;
use super::{Answer, App, Body, Id, Query, Reply, idempotency};

/// Executions without their steps, the newest first.
#[utoipa::path(
    get, path = "/api/plans/executions", tag = "executions",
    responses((status = 200, body = [ExecutionBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListExecutions>,
) -> Answer {
    let executions = Executions::from(list);
    let page = app.handle.executions(caller.environment, &executions).await?;
    let waiting = |task: &_| {
        (
            app.handle.waiting_in(caller.environment, task),
            app.handle.waiting_until(caller.environment, task),
        )
    };
    let listed = page.items.iter().map(|item| ExecutionBody::listed(item, waiting));
    let items: Vec<_> = listed.collect();
    Ok(Reply::page(&items, page.total, executions.window))
}

/// An execution with its steps and their outputs.
#[utoipa::path(
    get, path = "/api/plans/executions/{id}", tag = "executions",
    responses((status = 200, body = ExecutionBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<ExecutionId>,
) -> Answer {
    let detail = app.handle.execution(caller.environment, id).await?;
    let waiting = |task: &_| {
        (
            app.handle.waiting_in(caller.environment, task),
            app.handle.waiting_until(caller.environment, task),
        )
    };
    Ok(Reply::ok(&ExecutionBody::whole(&detail, waiting)))
}

/// The items of a step with forEach, in the order of its list, with their outputs.
#[utoipa::path(
    get, path = "/api/plans/executions/{id}/steps/{step}/items", tag = "executions",
    responses(
        (status = 200, body = [ItemBody]),
        (status = 404, description = "no such execution, or no such step with forEach"),
    ),
)]
pub(super) async fn items(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    ItemsOf(id, step): ItemsOf,
    Query(list): Query<ListItems>,
) -> Answer {
    let items = Items::from(list);
    let page = app.handle.execution_items(caller.environment, id, &step, &items).await?;
    let waiting = |task: &_| {
        (
            app.handle.waiting_in(caller.environment, task),
            app.handle.waiting_until(caller.environment, task),
        )
    };
    let shown: Vec<_> = page.items.iter().map(|item| ItemBody::of(&page, item, waiting)).collect();
    Ok(Reply::page(&shown, page.total, items.window))
}

/// Cancel an execution: completed steps are kept, the others are cancelled.
#[utoipa::path(
    delete, path = "/api/plans/executions/{id}", tag = "executions",
    responses(
        (status = 200, description = "no further step is leased", body = ExecutionBody),
        (status = 409, description = "it has ended"),
    ),
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<ExecutionId>,
) -> Answer {
    let execution = app.handle.cancel_execution(caller.environment, id).await?;
    app.record(Record::new(Action::ExecutionCancelled, by).of(id)).await;
    Ok(Reply::ok(&ExecutionBody::summary(&execution)))
}

/// Erase the texts of an ended execution: its input, title and idempotency key, the payloads of its signals, and the
/// texts of all its tasks. Status, usage, cost, tags and the hashes of histories stay.
#[utoipa::path(
    delete, path = "/api/plans/executions/{id}/texts", tag = "executions",
    responses(
        (status = 200, description = "no read shows the texts any more", body = ErasedExecutionBody),
        (status = 404, description = "no such execution"),
        (status = 409, description = "it or one of its tasks has not ended, or a webhook or mail about them is pending"),
        (status = 503, description = "it is in use: try again in a moment"),
    ),
)]
pub(super) async fn erase(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<ExecutionId>,
    Body(EraseBody { reason }): Body<EraseBody>,
) -> Answer {
    let erased = app.handle.erase_execution(caller.environment, id).await?;
    let record = Record::new(Action::ExecutionTextsErased, by).of(id).with("reason", reason);
    let record = record.with("tasks", erased.erased.tasks).with("signals", erased.erased.signals);
    app.record(record.with("stays", STAYS)).await;
    Ok(Reply::ok(&ErasedExecutionBody::of(&erased)))
}

/// Run the steps of a failed or cancelled execution again that did not end well.
#[utoipa::path(
    post, path = "/api/plans/executions/{id}/retry", tag = "executions",
    responses(
        (status = 200, description = "it runs again", body = ExecutionBody),
        (status = 409, description = "there is nothing to retry"),
    ),
)]
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<ExecutionId>,
) -> Answer {
    let execution = app.handle.retry_execution(caller.environment, id).await?;
    Ok(Reply::ok(&ExecutionBody::summary(&execution)))
}

/// Fork an execution: a new one takes over each completed step whose rendered prompt, model, settings
/// and gate are the same, and runs the others. With `dryRun`, list them with the cost instead.
#[utoipa::path(
    post, path = "/api/plans/executions/{id}/fork", tag = "executions",
    responses(
        (status = 201, description = "the fork is durable", body = ExecutionBody),
        (status = 200, description = "what it would do", body = DryRunBody),
    ),
)]
pub(super) async fn fork(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<ExecutionId>,
    trace: Trace,
    IdempotencyKey(key): IdempotencyKey,
    OptionalBody(body): OptionalBody<ForkExecution>,
) -> Answer {
    let account = caller.account.to_string();
    let asking = template::Caller { account: &account, role: caller.role };
    let owner = Owner::of(&caller, trace.0);
    let (is_dry, fork) = (body.is_dry(), body.into_fork());
    if is_dry {
        let run = app.handle.dry_fork(&owner, asking, id, fork).await?;
        return Ok(Reply::ok(&DryRunBody::of_fork(id, &run)));
    }
    started(&app.handle.fork(&owner, asking, id, fork, key.as_deref()).await?)
}

/// The answer to an execute or a deploy.
pub(super) fn started(submitted: &Submitted) -> Answer {
    let Created::Execution(execution) = &submitted.made else { return Err(Error::Internal.into()) };
    let reply = Reply::created(&ExecutionBody::begun(execution, &submitted.warnings));
    Ok(idempotency::replayed(reply, submitted))
}
