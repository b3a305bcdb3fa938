//! Batches: one template over many rows (docs/reference/batches.md).

mod export;
mod notation;
mod upload;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use callboard_domain::access::Caller;
use callboard_domain::audit::{Action, Record};
use callboard_domain::error::Error;
use callboard_domain::id::TemplateBatchId;
use callboard_domain::query::{Batches, Rows};
use callboard_domain::template;
use callboard_runtime::Owner;
use callboard_runtime::read::batches::BatchView;
use callboard_wire::batches::{
    BatchBody, BatchEstimateBody, BatchRowsBody, CompareBatches, ComparisonBody, ExportRows,
    ListBatches, ListRows, RetryBatch, ReviewBatch, ReviewsAskedBody,
};

use super::extract::{Asker, OptionalBody, TwoIds};
use super::idempotency::{IdempotencyKey, replayed_if};
use super::{Answer, App, Body, Failure, Id, Query, Reply};

use upload::{Upload, Uploaded};

fn shown(app: &App, view: &BatchView) -> Reply {
    Reply::ok(&BatchBody::of(view, app.handle.now()))
}

/// Create a batch: each row of the body becomes an execution of the template. At most 100,000 rows and 1 GiB as
/// lines of JSON (`{"key": …, "input": {…}}`) or CSV, whose header names the members of the input; 2 MiB as JSON, with
/// the settings and `rows` as members.
#[utoipa::path(
    post, path = "/api/batches", tag = "batches",
    responses(
        (status = 200, description = "dryRun: nothing is kept", body = BatchEstimateBody),
        (status = 201, description = "every row is durable, and the first ones start", body = BatchBody),
        (status = 400, description = "the settings, the header or, with onInvalid=reject, a row has a fault; nothing is kept"),
    ),
)]
pub(super) async fn create(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    IdempotencyKey(key): IdempotencyKey,
    upload: Upload,
) -> Answer {
    let account = caller.account.to_string();
    let asking = template::Caller { account: &account, role: caller.role };
    let owner = Owner::of(&caller, None);
    let (batch, replayed) = match upload.run(&app.handle, &owner, asking, key.as_deref()).await? {
        Uploaded::Batch(batch, replayed) => (batch, replayed),
        Uploaded::Tried(tried) => return Ok(Reply::ok(&BatchEstimateBody::tried(&tried))),
    };
    let view = app.handle.view_of_batch(caller.environment, *batch).await?;
    let warnings = app.handle.warnings_of_batch(caller.environment, &view.batch).await?;
    let body = BatchBody::of(&view, app.handle.now()).warned(warnings);
    let reply = Reply::created(&body);
    if !replayed {
        let record = Record::new(Action::BatchCreated, by).of(view.batch.id);
        app.record(record.with("rows", view.batch.total)).await;
    }
    Ok(replayed_if(reply, replayed))
}

/// Batches, the newest first.
#[utoipa::path(
    get, path = "/api/batches", tag = "batches",
    responses((status = 200, body = [BatchBody])),
)]
pub(super) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListBatches>,
) -> Answer {
    let batches = Batches::from(list);
    let page = app.handle.batch_views(caller.environment, &batches).await?;
    let now = app.handle.now();
    let items: Vec<_> = page.items.iter().map(|view| BatchBody::of(view, now)).collect();
    Ok(Reply::page(&items, page.total, batches.window))
}

/// A batch with its progress and its cost.
#[utoipa::path(
    get, path = "/api/batches/{id}", tag = "batches",
    responses((status = 200, body = BatchBody)),
)]
pub(super) async fn get(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TemplateBatchId>,
) -> Answer {
    Ok(shown(&app, &app.handle.batch_view(caller.environment, id).await?))
}

/// A page of the rows of a batch.
#[utoipa::path(
    get, path = "/api/batches/{id}/rows", tag = "batches",
    responses((status = 200, body = BatchRowsBody)),
)]
pub(super) async fn rows(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TemplateBatchId>,
    Query(list): Query<ListRows>,
) -> Answer {
    let page = app.handle.batch_rows(caller.environment, id, &Rows::from(list)).await?;
    Ok(Reply::ok(&BatchRowsBody::of(&page)))
}

/// All rows of a batch as CSV or as lines of JSON, also while it runs.
#[utoipa::path(
    get, path = "/api/batches/{id}/export", tag = "batches",
    responses((status = 200, content((String = "text/csv"), (String = "application/x-ndjson")))),
)]
pub(super) async fn export(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TemplateBatchId>,
    Query(asked): Query<ExportRows>,
) -> Result<Response, Failure> {
    Ok(export::begin(&app, &caller, id, asked).await?)
}

/// Compare the outputs of the rows of two batches that have the same key.
#[utoipa::path(
    get, path = "/api/batches/{id}/compare/{other}", tag = "batches",
    responses((status = 200, body = ComparisonBody)),
)]
pub(super) async fn compare(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    TwoIds(one, other): TwoIds<TemplateBatchId>,
    Query(asked): Query<CompareBatches>,
) -> Answer {
    let order = asked.order();
    let found = app.handle.compare_batches(caller.environment, [one, other], &order).await?;
    Ok(Reply::ok(&ComparisonBody::of(&found, asked.step())))
}

/// Estimate the cost of the rows of a batch that wait to be started, from the length of their prompts and past outputs.
#[utoipa::path(
    post, path = "/api/batches/{id}/estimate", tag = "batches",
    responses(
        (status = 200, description = "nothing is changed", body = BatchEstimateBody),
        (status = 409, description = "it loads still"),
    ),
)]
pub(super) async fn estimate(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<TemplateBatchId>,
) -> Answer {
    let (view, estimate) = app.handle.estimate_batch(caller.environment, id).await?;
    Ok(Reply::ok(&BatchEstimateBody::waiting(&view, &estimate)))
}

/// Let no further row of a batch start; rows that run go on.
#[utoipa::path(
    post, path = "/api/batches/{id}/pause", tag = "batches",
    responses((status = 200, body = BatchBody), (status = 409, description = "it has ended")),
)]
pub(super) async fn pause(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<TemplateBatchId>,
) -> Answer {
    let view = app.handle.pause_batch(caller.environment, id).await?;
    app.record(Record::new(Action::BatchPaused, by).of(id)).await;
    Ok(shown(&app, &view))
}

/// Let rows of a paused batch start again.
#[utoipa::path(
    post, path = "/api/batches/{id}/resume", tag = "batches",
    responses((status = 200, body = BatchBody), (status = 409, description = "it has ended")),
)]
pub(super) async fn resume(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<TemplateBatchId>,
) -> Answer {
    let view = app.handle.resume_batch(caller.environment, id).await?;
    app.record(Record::new(Action::BatchResumed, by).of(id)).await;
    Ok(shown(&app, &view))
}

/// Cancel a batch: no further row starts, and rows that run are cancelled.
#[utoipa::path(
    post, path = "/api/batches/{id}/cancel", tag = "batches",
    responses((status = 200, body = BatchBody), (status = 409, description = "it has ended")),
)]
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<TemplateBatchId>,
) -> Answer {
    let view = app.handle.cancel_batch(caller.environment, id).await?;
    app.record(Record::new(Action::BatchCancelled, by).of(id)).await;
    Ok(shown(&app, &view))
}

/// Run failed rows of a batch anew within it: good results of their steps are kept.
#[utoipa::path(
    post, path = "/api/batches/{id}/retry", tag = "batches",
    responses(
        (status = 200, description = "`retried` rows run anew", body = BatchBody),
        (status = 409, description = "it is cancelled"),
    ),
)]
pub(super) async fn retry(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<TemplateBatchId>,
    OptionalBody(retry): OptionalBody<RetryBatch>,
) -> Answer {
    let (view, count) = app.handle.retry_batch(caller.environment, id, retry.into()).await?;
    app.record(Record::new(Action::BatchRetried, by).of(id).with("rows", count)).await;
    Ok(Reply::ok(&BatchBody::of(&view, app.handle.now()).retried(count)))
}

/// Ask for reviews of outputs of a batch that have passed. Nothing waits for the decisions: they are recorded, count in
/// the calibration, and stand beside the outputs. A repeated request asks for further reviews.
#[utoipa::path(
    post, path = "/api/batches/{id}/review", tag = "batches",
    responses(
        (status = 200, description = "`asked` reviews wait", body = ReviewsAskedBody),
        (status = 409, description = "it loads still"),
    ),
)]
pub(super) async fn review(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<TemplateBatchId>,
    Body(review): Body<ReviewBatch>,
) -> Answer {
    let found = app.handle.review_batch(caller.environment, id, review.into()).await?;
    app.record(Record::new(Action::BatchReviewed, by).of(id).with("reviews", found.asked)).await;
    Ok(Reply::ok(&ReviewsAskedBody::from(found)))
}

/// Delete a batch that has ended, with its executions, their tasks and their texts.
#[utoipa::path(
    delete, path = "/api/batches/{id}", tag = "batches",
    responses(
        (status = 200, description = "no read shows the batch any more; its rows go soon, also after a restart", body = BatchBody),
        (status = 409, description = "it has not ended: cancel it first"),
    ),
)]
pub(super) async fn delete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Asker(by): Asker,
    Id(id): Id<TemplateBatchId>,
) -> Answer {
    let view = app.handle.batch_view(caller.environment, id).await?;
    app.handle.delete_batch(caller.environment, id).await?;
    app.record(Record::new(Action::BatchDeleted, by).of(id).with("rows", view.batch.total)).await;
    Ok(shown(&app, &view))
}

/// The refusal of a media type.
const MEDIA: Error =
    Error::UnsupportedMediaType("application/x-ndjson, text/csv or application/json, not encoded");
