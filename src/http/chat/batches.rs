//! Batches in the form of OpenAI's interface: a task for each line of a file.
//!
//! ```text
//!   POST ─▶ the batch's row ─▶ runner: check ─▶ lines ─▶ tasks ─▶ ended ─▶ files of answers
//! ```
//!
//! Deliberately absent: the reader and the submission of a chat completion, which are those of
//! `POST /v1/chat/completions`.

mod answers;
mod input;
mod runner;

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use callboard_domain::access::Caller;
use callboard_domain::chat_batch::Event;
use callboard_domain::id::ChatBatchId;
use callboard_runtime::Owner;
use callboard_wire::chat::batches::{
    CreateOpenAiBatch, ListOpenAiBatches, OpenAiBatchBody, OpenAiBatchesBody,
};

use super::Headers;
use crate::http::idempotency::{self, IdempotencyKey};
use crate::http::{Answer, App, Body, Failure, Id, Query, Reply};

pub(crate) use runner::run;

/// Create a batch: each line of a file becomes a task, as by `POST /v1/chat/completions`.
#[utoipa::path(
    post, path = "/v1/batches", tag = "openai",
    responses((status = 200, description = "the batch is durable", body = OpenAiBatchBody)),
)]
pub(in crate::http) async fn create_batch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    headers: Headers,
    Body(create): Body<CreateOpenAiBatch>,
) -> Result<Response, Failure> {
    let Headers { key: IdempotencyKey(key), queue, priority, .. } = headers;
    let (owner, order) = (Owner::of(&caller, None), create.into_order(queue, priority));
    let (batch, replayed) = app.handle.create_chat_batch(&owner, order, key.as_deref()).await?;
    let (batch, counts) = app.handle.chat_batch(caller.environment, batch.id).await?;
    let reply = Reply::ok_bare(&OpenAiBatchBody::of(&batch, counts)).into_response();
    Ok(idempotency::marked(reply, replayed))
}

/// Batches in the form of OpenAI's interface, the newest first.
#[utoipa::path(
    get, path = "/v1/batches", tag = "openai",
    responses((status = 200, body = OpenAiBatchesBody)),
)]
pub(in crate::http) async fn list_batches(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<ListOpenAiBatches>,
) -> Answer {
    let page = app.handle.chat_batches(caller.environment, list.keyset()).await?;
    Ok(Reply::ok_bare(&OpenAiBatchesBody::of(&page)))
}

/// A batch in the form of OpenAI's interface.
#[utoipa::path(
    get, path = "/v1/batches/{id}", tag = "openai",
    responses((status = 200, body = OpenAiBatchBody)),
)]
pub(in crate::http) async fn get_batch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<ChatBatchId>,
) -> Answer {
    let (batch, counts) = app.handle.chat_batch(caller.environment, id).await?;
    Ok(Reply::ok_bare(&OpenAiBatchBody::of(&batch, counts)))
}

/// Cancel a batch: its tasks that have not ended are cancelled, and the answers that there are are written.
#[utoipa::path(
    post, path = "/v1/batches/{id}/cancel", tag = "openai",
    responses(
        (status = 200, description = "no further task is made", body = OpenAiBatchBody),
        (status = 409, description = "the batch has ended, or its answers are written"),
    ),
)]
pub(in crate::http) async fn cancel_batch(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(id): Id<ChatBatchId>,
) -> Answer {
    let environment = caller.environment;
    app.handle.change_chat_batch(environment, id, Event::Cancel(None)).await?;
    let (batch, counts) = app.handle.chat_batch(environment, id).await?;
    Ok(Reply::ok_bare(&OpenAiBatchBody::of(&batch, counts)))
}
