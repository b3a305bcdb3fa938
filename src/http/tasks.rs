//! The task endpoints (SPEC.md, Tasks): requests to actor calls, answers to the wire's shapes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use callboard_domain::access::Caller;
use callboard_domain::id::TaskId;
use callboard_domain::query::Tasks;
use callboard_domain::{Error, Rule};

use super::{Answer, App, Body, Id, Query, Reply, idempotency};
use crate::wire::common::Text;
use crate::wire::tasks::{
    BatchBody, BatchItem, Cancelled, CreateBatch, CreateTask, ListTasks, TaskBody,
};

/// Submit a task.
#[utoipa::path(
    post, path = "/api/tasks", tag = "tasks", request_body = CreateTask,
    params(("Idempotency-Key" = Option<String>, Header, description = "as the field idempotencyKey")),
    responses((status = 201, description = "the task is durable", body = TaskBody)),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(mut task): Body<CreateTask>,
) -> Answer {
    let key = idempotency::key(&headers, task.idempotency_key.take())?;
    let request = task.into_request(&app.defaults);
    let owner = app.owner(&caller);
    let submitted = app.handle.submit(&owner, vec![request], false, key.as_deref()).await?;
    let task = submitted.made.tasks().first().ok_or(Error::Internal)?;
    let reply = Reply::created(&TaskBody::summary(task, app.handle.waiting_for(task)));
    Ok(idempotency::replayed(reply, &submitted))
}

/// Submit up to 100 tasks, all or none.
#[utoipa::path(
    post, path = "/api/tasks/batch", tag = "tasks", request_body = CreateBatch,
    params(("Idempotency-Key" = Option<String>, Header, description = "prevents duplicates")),
    responses((status = 201, description = "the tasks are durable", body = BatchBody)),
)]
pub(super) async fn create_batch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(batch): Body<CreateBatch>,
) -> Answer {
    let key = idempotency::key(&headers, None)?;
    let mut requests = Vec::with_capacity(batch.tasks.len());
    for (index, task) in batch.tasks.into_iter().enumerate() {
        if task.idempotency_key.is_some() {
            let field = format!("tasks[{index}].idempotencyKey");
            let message =
                format!("{field} is not taken in a batch; use the header Idempotency-Key");
            return Err(Error::invalid(field, Rule::Unknown, message).into());
        }
        requests.push(task.into_request(&app.defaults));
    }
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
    get, path = "/api/tasks/{id}", tag = "tasks", params(("id" = String, Path)),
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
    get, path = "/api/tasks", tag = "tasks", params(ListTasks),
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
    delete, path = "/api/tasks/{id}", tag = "tasks", params(("id" = String, Path)),
    responses((status = 200, description = "no worker is given it any more", body = Cancelled)),
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
) -> Answer {
    let task = app.handle.cancel(caller.environment, id, &caller.account.to_string()).await?;
    Ok(Reply::ok(&Cancelled::of(&task)))
}
