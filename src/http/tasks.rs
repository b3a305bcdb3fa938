//! The task endpoints (SPEC.md, Tasks): requests to actor calls, answers to the wire's shapes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use callboard_domain::Error;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::id::TaskId;
use callboard_domain::query::Tasks;

use super::extract::Asker;
use super::idempotency::{self, IdempotencyKey};
use super::{Answer, App, Body, Id, Query, Reply};
use crate::wire::common::Text;
use crate::wire::tasks::{
    BatchBody, BatchItem, Cancelled, CreateBatch, CreateTask, ListTasks, TaskBody,
};

/// Submit a task.
#[utoipa::path(
    post, path = "/api/tasks", tag = "tasks",
    responses((status = 201, description = "the task is durable", body = TaskBody)),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    key: IdempotencyKey,
    Body(CreateTask { task, idempotency_key }): Body<CreateTask>,
) -> Answer {
    let key = key.or(idempotency_key)?;
    let request = task.into_request(&app.defaults);
    let owner = app.owner(&caller);
    let submitted = app.handle.submit(&owner, vec![request], false, key.as_deref()).await?;
    let task = submitted.made.tasks().first().ok_or(Error::Internal)?;
    let reply = Reply::created(&TaskBody::summary(task, app.handle.waiting_for(task)));
    Ok(idempotency::replayed(reply, &submitted))
}

/// Submit up to 100 tasks, all or none.
#[utoipa::path(
    post, path = "/api/tasks/batch", tag = "tasks",
    responses((status = 201, description = "the tasks are durable", body = BatchBody)),
)]
pub(super) async fn create_batch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    IdempotencyKey(key): IdempotencyKey,
    Body(batch): Body<CreateBatch>,
) -> Answer {
    let tasks = batch.tasks.into_iter();
    let requests = tasks.map(|task| task.into_request(&app.defaults)).collect();
    let owner = app.owner(&caller);
    let submitted = app.handle.submit(&owner, requests, true, key.as_deref()).await?;
    let batch = submitted.made.batch().ok_or(Error::Internal)?;
    let tasks: Vec<_> = submitted
        .made
        .tasks()
        .iter()
        .map(|task| BatchItem { id: Text(task.spec.id), status: task.status().as_str() })
        .collect();
    let total = tasks.len();
    let reply = Reply::created(&BatchBody { batch_id: Text(batch), tasks, total });
    Ok(idempotency::replayed(reply, &submitted))
}

/// A task with its prompt and its output.
#[utoipa::path(
    get, path = "/api/tasks/{id}", tag = "tasks",
    responses((status = 200, body = TaskBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
) -> Answer {
    let detail = app.handle.task(caller.environment, id).await?;
    Ok(Reply::ok(&TaskBody::whole(&detail, app.handle.waiting_for(&detail.task))))
}

/// Tasks, newest first unless said otherwise.
#[utoipa::path(
    get, path = "/api/tasks", tag = "tasks",
    responses((status = 200, body = [TaskBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListTasks>,
) -> Answer {
    let tasks = Tasks::from(list);
    let page = app.handle.tasks(caller.environment, &tasks).await?;
    let items: Vec<_> = page
        .items
        .iter()
        .map(|task| TaskBody::summary(task, app.handle.waiting_for(task)))
        .collect();
    Ok(Reply::page(&items, page.total, tasks.window))
}

/// Cancel a task.
#[utoipa::path(
    delete, path = "/api/tasks/{id}", tag = "tasks",
    responses(
        (status = 200, description = "it is not leased any more", body = Cancelled),
        (status = 409, description = "it has ended"),
    ),
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<TaskId>,
) -> Answer {
    let task = app.handle.cancel(caller.environment, id, &caller.account.to_string()).await?;
    app.record(Record::new(Action::TaskCancelled, by).of(id)).await;
    Ok(Reply::ok(&Cancelled::of(&task)))
}
