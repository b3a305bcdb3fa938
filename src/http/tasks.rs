//! The task endpoints: requests to actor calls, answers to the wire's shapes.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use callboard_domain::Error;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::id::{BatchId, TaskId};
use callboard_domain::query::Tasks;
use callboard_runtime::Owner;
use callboard_wire::common::Text;
use callboard_wire::read::rule;
use callboard_wire::request;
use callboard_wire::tasks::{
    BatchBody, BatchItem, BatchStatusBody, Cancelled, CreateBatch, CreateTask, EraseBody, Erased,
    ListTasks, TaskBody,
};

use super::extract::Asker;
use super::idempotency::{self, IdempotencyKey};
use super::streams::{self, Reader};
use super::trace::Trace;
use super::{Answer, App, Body, Failure, Id, Query, Reply};

request! {
    /// The form of the answer to a submission.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Submitting as "Submitting" {
        /// Answer with the stream of the task.
        stream: Option<bool> = optional("stream", rule::flag()),
    }
}

/// Submit a task; `?stream=true` answers with its stream.
#[utoipa::path(
    post, path = "/api/tasks", tag = "tasks",
    responses((status = 201, description = "the task is durable", content(
        (TaskBody = "application/json"), (Object = "text/event-stream"),
    ))),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    trace: Trace,
    reader: Reader,
    key: IdempotencyKey,
    Query(Submitting { stream }): Query<Submitting>,
    Body(CreateTask { task, idempotency_key }): Body<CreateTask>,
) -> Result<Response, Failure> {
    let key = key.or(idempotency_key)?;
    let permit = match stream {
        Some(true) => Some(app.streams.open(&caller)?),
        Some(false) | None => None,
    };
    let request = task.into_request(&app.defaults);
    app.check_callback(&caller, "callbackUrl", request.callback_url.as_deref())?;
    let owner = Owner::of(&caller, trace.0);
    let submitted = app.handle.submit(&owner, vec![request], false, key.as_deref()).await?;
    let task = submitted.made.tasks().first().ok_or(Error::Internal)?;
    if let Some(permit) = permit {
        let id = task.spec.id;
        let submitted_as = (id, submitted.warnings);
        let stream = streams::of_submitted(&app, &caller, reader, submitted_as, permit);
        // Boxed: a submission without a stream does without, and would pay for the larger future.
        let stream = Box::pin(stream).await?;
        let mut stream = idempotency::marked(stream, submitted.replayed);
        *stream.status_mut() = StatusCode::CREATED;
        return Ok(stream);
    }
    let body = TaskBody::summary(task, app.handle.waiting_in(caller.environment, task));
    let body =
        body.until(app.handle.waiting_until(caller.environment, task)).warned(&submitted.warnings);
    Ok(idempotency::replayed(Reply::created(&body), &submitted).into_response())
}

/// Submit up to 100 tasks, all or none.
#[utoipa::path(
    post, path = "/api/tasks/batch", tag = "tasks",
    responses((status = 201, description = "the tasks are durable", body = BatchBody)),
)]
pub(super) async fn create_batch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    trace: Trace,
    IdempotencyKey(key): IdempotencyKey,
    Body(batch): Body<CreateBatch>,
) -> Answer {
    let tasks = batch.tasks.into_iter();
    let requests: Vec<_> = tasks.map(|task| task.into_request(&app.defaults)).collect();
    for (index, request) in requests.iter().enumerate() {
        let field = format!("tasks[{index}].callbackUrl");
        app.check_callback(&caller, &field, request.callback_url.as_deref())?;
    }
    let owner = Owner::of(&caller, trace.0);
    let submitted = app.handle.submit(&owner, requests, true, key.as_deref()).await?;
    let batch = submitted.made.batch().ok_or(Error::Internal)?;
    let tasks: Vec<_> = submitted
        .made
        .tasks()
        .iter()
        .map(|task| BatchItem { id: Text(task.spec.id), status: task.status().as_str() })
        .collect();
    let total = tasks.len();
    let warnings = submitted.warnings.clone();
    let reply = Reply::created(&BatchBody { batch_id: Text(batch), tasks, total, warnings });
    Ok(idempotency::replayed(reply, &submitted))
}

/// A task with its prompt and its output; for a worker key that is bound to queues, one that it holds.
#[utoipa::path(
    get, path = "/api/tasks/{id}", tag = "tasks",
    responses((status = 200, body = TaskBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TaskId>,
) -> Answer {
    app.may_read(&caller, id)?;
    let detail = app.handle.task(caller.environment, id).await?;
    let body = TaskBody::whole(&detail, app.handle.waiting_in(caller.environment, &detail.task));
    Ok(Reply::ok(&body.until(app.handle.waiting_until(caller.environment, &detail.task))))
}

/// Tasks, newest first unless said otherwise; for a worker key that is bound to queues, those that it holds.
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
    let page = if caller.is_bound() {
        let account = caller.account.to_string();
        app.handle.tasks_held_by(caller.environment, &account, &tasks).await?
    } else {
        app.handle.tasks(caller.environment, &tasks).await?
    };
    let items: Vec<_> = page
        .items
        .iter()
        .map(|task| {
            let body = TaskBody::summary(task, app.handle.waiting_in(caller.environment, task));
            body.until(app.handle.waiting_until(caller.environment, task))
        })
        .collect();
    Ok(Reply::page(&items, page.total, tasks.window))
}

/// The tasks of a batch that are still stored, and how many are how far; not for a worker key that is bound to queues.
#[utoipa::path(
    get, path = "/api/tasks/batch/{id}", tag = "tasks",
    responses((status = 200, body = BatchStatusBody)),
)]
pub(super) async fn get_batch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<BatchId>,
) -> Answer {
    if caller.is_bound() {
        return Err(Error::not_found("batch", id).into());
    }
    let tasks = app.handle.batch(caller.environment, id).await?;
    Ok(Reply::ok(&BatchStatusBody::of(id, &tasks)))
}

/// Submit a task that failed, was cancelled or was rejected anew, as a task of the caller.
#[utoipa::path(
    post, path = "/api/tasks/{id}/retry", tag = "tasks",
    responses(
        (status = 201, description = "the new task is durable", body = TaskBody),
        (status = 409, description = "the task has not ended, is completed, or is a step"),
    ),
)]
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    trace: Trace,
    IdempotencyKey(key): IdempotencyKey,
    Id(id): Id<TaskId>,
) -> Answer {
    let owner = Owner::of(&caller, trace.0);
    let submitted = app.handle.retry_task(&owner, id, key.as_deref()).await?;
    let task = submitted.made.tasks().first().ok_or(Error::Internal)?;
    let body = TaskBody::summary(task, app.handle.waiting_in(caller.environment, task));
    let reply = Reply::created(&body.warned(&submitted.warnings));
    Ok(idempotency::replayed(reply, &submitted))
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

/// Erase the texts of an ended task: prompt, context, output, edit, comment and the words of its error.
/// The history of its approval still verifies.
#[utoipa::path(
    delete, path = "/api/tasks/{id}/texts", tag = "tasks",
    responses(
        (status = 200, description = "no read shows the texts any more", body = Erased),
        (status = 409, description = "the task or its execution has not ended, or a webhook or mail about it is pending"),
    ),
)]
pub(super) async fn erase(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<TaskId>,
    Body(EraseBody { reason }): Body<EraseBody>,
) -> Answer {
    let task = app.handle.erase_texts(caller.environment, id).await?;
    app.record(Record::new(Action::TextsErased, by).of(id).with("reason", reason)).await;
    Ok(Reply::ok(&Erased::of(&task)))
}
