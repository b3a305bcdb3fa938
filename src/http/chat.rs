//! OpenAI's interface: chat completions and models; files and batches stand below.
//!
//! ```text
//! POST ─▶ subscribe ─▶ submit ─▶ the task's events ─┬▶ its end: the answer, or 422
//!                                                   └▶ held, or chat_wait is over: 422
//! ```
//!
//! Client libraries retry 408, 409, 429 and 5xx by themselves. Once the task is durable, every refusal is therefore
//! 422, and names the task. The task outlives its client.

pub(super) mod batches;
pub(super) mod files;
mod follow;
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{self, FromRequest, FromRequestParts, State};
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use callboard_domain::access::{Action, Caller};
use callboard_domain::function::Work;
use callboard_domain::id::{FileId, TaskId};
use callboard_domain::task::{MAX_TARGET, Request, Task};
use callboard_domain::worker::Profile;
use callboard_domain::{Error, Rule};
use callboard_runtime::Owner;
use callboard_runtime::events::Transient;
use callboard_runtime::handle::NewFile;
use callboard_wire::chat::{
    ChatCompletionBody, CreateChatCompletion, GivenFile, ModelBody, ModelsBody, give_files,
    in_response_format,
};
use serde_json::{Value, json};

use super::describe::{Input, Operation};
use super::extract::ModelName;
use super::idempotency::{self, IdempotencyKey};
use super::serve::ConnectionHandle;
use super::trace::Trace;
use super::{Answer, App, Body, Edge, Failure, Id, Reply, Share};
use follow::{End, Follow, Seen};

/// The longest body, in bytes: images and documents are in it, in base64.
const MAX_BODY: usize = 24 << 20;

/// Submit a task in the form of OpenAI's chat completions, and wait for its output.
#[utoipa::path(
    post, path = "/v1/chat/completions", tag = "openai",
    responses(
        (
            status = 200, description = "the output; with `stream` as server-sent events",
            content(
                (ChatCompletionBody = "application/json"),
                (String = "text/event-stream"),
            ),
        ),
        (status = 422, description = "the task failed, waits for a reviewer, or still runs"),
    ),
)]
pub(super) async fn complete(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Extension(connection): Extension<ConnectionHandle>,
    trace: Trace,
    headers: Headers,
    ChatBody(chat): ChatBody,
) -> Result<Response, Failure> {
    let (streams, includes_usage) = (chat.stream, chat.includes_usage());
    let Headers { key: IdempotencyKey(key), queue, priority, share } = headers;
    let owner = Owner::of(&caller, trace.0);
    let request = request(&app, &owner, chat, None, (queue, priority)).await?;
    let permit = app.chats.open(&caller)?;
    let passing = Transient { deltas: streams, depths: false };
    // No event after the submission is missed.
    let subscription = app.handle.subscribe(caller.environment, None, passing).await?;
    // A header has no line break, so these keys are none of another endpoint.
    let key = key.map(|key| format!("chat/completions\n{key}"));
    let submitted = app.handle.submit(&owner, vec![request], false, key.as_deref()).await;
    let submitted = submitted.map_err(in_response_format)?;
    // The body is on disk, so its bytes leave the budget.
    share.iter().for_each(Share::reset);
    let task = submitted.made.tasks().first().ok_or(Error::Internal)?.clone();
    let right = app.handle.right(&caller, Action::TasksCreate);
    let mut follow = Follow::new(app, caller.environment, task.spec.id, subscription, right);
    if submitted.replayed {
        follow.look().await;
    }
    let replied = if streams {
        stream::answer(follow, &task, includes_usage, permit, &connection)
    } else {
        let end = loop {
            if let Seen::End(end) = follow.next().await {
                break end;
            }
        };
        if let End::Completed(detail) = &end {
            let output = detail.output.as_deref().unwrap_or_default();
            Reply::ok_bare(&ChatCompletionBody::of(&detail.task, output)).into_response()
        } else {
            refused(task.spec.id, &end)
        }
    };
    Ok(idempotency::marked(replied, submitted.replayed))
}

/// The request for the task that answers a conversation, with a title, in a queue and with a priority if they are
/// given. Its files are kept.
async fn request(
    app: &App,
    owner: &Owner,
    chat: CreateChatCompletion,
    title: Option<&str>,
    (queue, priority): (Option<String>, Option<u8>),
) -> Result<Request, Error> {
    let (mut task, files) = chat.into_task()?;
    task.labels.title = title.map(str::to_owned);
    give_files(&mut task, keep(app, owner, files).await?);
    let request = task.into_request(&app.defaults);
    Ok(Request {
        queue: queue.unwrap_or(request.queue),
        priority: priority.unwrap_or(request.priority),
        ..request
    })
}

/// The files of a conversation, which are kept as uploaded ones are. A repeated request names the same files.
async fn keep(app: &App, owner: &Owner, given: Vec<GivenFile>) -> Result<Vec<FileId>, Error> {
    let mut files = Vec::with_capacity(given.len());
    for file in given {
        files.push(match file {
            GivenFile::Kept(id) => id,
            GivenFile::Bytes { name, media_type, bytes } => {
                if bytes.len() as u64 > app.file_bytes {
                    let limit = usize::try_from(app.file_bytes).unwrap_or(usize::MAX);
                    return Err(Error::PayloadTooLarge { limit });
                }
                let new = NewFile { name, media_type, ..NewFile::default() };
                app.handle.keep_file(owner, new, &bytes).await?
            }
        });
    }
    Ok(files)
}

/// The body of a chat completion, which may have images and documents.
pub(super) struct ChatBody(CreateChatCompletion);

impl FromRequest<Arc<App>> for ChatBody {
    type Rejection = Failure;

    async fn from_request(mut request: extract::Request, app: &Arc<App>) -> Result<Self, Failure> {
        let edge = request.extensions().get::<Edge>().copied().unwrap_or_default();
        request.extensions_mut().insert(Edge { max_body: edge.max_body.max(MAX_BODY), ..edge });
        Body::from_request(request, app).await.map(|Body(chat)| Self(chat))
    }
}

impl Input for ChatBody {
    fn describe(operation: &mut Operation) {
        Body::<CreateChatCompletion>::describe(operation);
    }
}

/// The models that connected workers announce by name, and the default.
#[utoipa::path(
    get, path = "/v1/models", tag = "openai",
    responses((status = 200, body = ModelsBody)),
)]
pub(super) async fn list_models(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
) -> Answer {
    let profiles = reachable(&app, &caller);
    let names = profiles.flat_map(|profile| profile.models).filter(|model| !model.ends_with('*'));
    let names: BTreeSet<_> = names.chain([app.defaults.model.clone()]).collect();
    Ok(Reply::ok_bare(&ModelsBody::of(names)))
}

/// A model that a connected worker runs, by name or by pattern, or the default. The name may have
/// slashes.
#[utoipa::path(
    get, path = "/v1/models/{id}", tag = "openai",
    responses((status = 200, body = ModelBody), (status = 404, description = "nobody runs the model")),
)]
pub(super) async fn get_model(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Id(ModelName(name)): Id<ModelName>,
) -> Answer {
    let is_model = Work::of(&name).function().is_none();
    let is_run = is_model && reachable(&app, &caller).any(|profile| profile.runs(&name));
    if is_run || name == app.defaults.model {
        return Ok(Reply::ok_bare(&ModelBody::of(name)));
    }
    Err(Error::not_found("model", &name).into())
}

/// The profiles of the workers that can be given a task of the caller.
fn reachable(app: &App, caller: &Caller) -> impl Iterator<Item = Profile> {
    let now = app.handle.moment();
    let workers = app.handle.workers(caller.environment).into_iter();
    workers.filter(move |view| view.worker.is_reachable(now)).filter_map(|view| view.worker.profile)
}

/// The answer to a task that did not complete.
fn refused(task: TaskId, end: &End) -> Response {
    if let End::Refused(error) = end {
        return Failure(error.clone()).into_response();
    }
    let location = HeaderValue::try_from(format!("/api/tasks/{task}"));
    let location = location.expect("an id is visible ASCII");
    Reply::bare(StatusCode::UNPROCESSABLE_ENTITY, &end_body(task, end))
        .header(LOCATION, location)
        .into_response()
}

/// The error of a task that has no output, or no whole one.
fn end_body(task: TaskId, end: &End) -> Value {
    let (code, message) = match end {
        End::Refused(error) => return json!(super::error::OpenAiError(error)),
        End::Completed(_) | End::Restarted => (
            "restarted",
            format!("the answer of task {task} began anew: what was streamed is void"),
        ),
        End::Held => {
            ("awaiting_approval", format!("the answer of task {task} waits for a reviewer"))
        }
        End::StillRunning => ("still_running", format!("task {task} has not ended yet")),
        End::Failed(ended) => reason(ended),
    };
    json!({"error": {
        "message": message,
        "type": "task_error",
        "param": null,
        "code": code,
        "taskId": task.to_string(),
    }})
}

fn reason(task: &Task) -> (&'static str, String) {
    match &task.error {
        Some(ending) => (ending.code.as_str(), ending.message.clone()),
        None => ("INTERNAL_ERROR", format!("task {} is {}", task.spec.id, task.status().as_str())),
    }
}

/// The headers `Idempotency-Key`, `X-Callboard-Queue` and `X-Callboard-Priority`, and the share of
/// the budget that the request's body takes.
#[derive(Debug)]
pub(super) struct Headers {
    key: IdempotencyKey,
    queue: Option<String>,
    priority: Option<u8>,
    share: Option<Share>,
}

const QUEUE: &str = "X-Callboard-Queue";
const PRIORITY: &str = "X-Callboard-Priority";

impl<S: Send + Sync> FromRequestParts<S> for Headers {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let key = IdempotencyKey::from_request_parts(parts, state).await?;
        let queue = match parts.headers.get(QUEUE) {
            None => None,
            Some(value) => {
                let says = format!("must have 1 to {MAX_TARGET} visible ASCII characters");
                let text = value.to_str().ok().filter(|text| !text.contains('\t'));
                let text = text.ok_or_else(|| refuse(QUEUE, Rule::Format, &says))?;
                if !(1..=MAX_TARGET).contains(&text.len()) {
                    return Err(refuse(QUEUE, Rule::Length, &says));
                }
                Some(text.to_owned())
            }
        };
        let priority = match parts.headers.get(PRIORITY) {
            None => None,
            Some(value) => {
                let number = value.to_str().ok().and_then(|text| text.parse().ok());
                let says = "must be a whole number from 1 to 10";
                let in_range = number.filter(|number| (1..=10_u8).contains(number));
                Some(in_range.ok_or_else(|| refuse(PRIORITY, Rule::Range, says))?)
            }
        };
        let share = parts.extensions.get::<Share>().cloned();
        Ok(Self { key, queue, priority, share })
    }
}

fn refuse(header: &str, rule: Rule, says: &str) -> Failure {
    Failure(Error::invalid(header, rule, format!("the header {header} {says}")))
}

impl Input for Headers {
    fn describe(operation: &mut Operation) {
        IdempotencyKey::describe(operation);
        let queue = json!({"type": "string", "minLength": 1, "maxLength": MAX_TARGET});
        operation.header(QUEUE, "The queue; by default `default`.", &queue);
        let priority = json!({"type": "integer", "minimum": 1, "maximum": 10});
        operation.header(PRIORITY, "10 is leased first; by default 5.", &priority);
    }
}
