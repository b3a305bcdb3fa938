//! Loads: many tasks in one request, a line each (docs/reference/loads.md).
//!
//! ```text
//!   pieces ─▶ lines ─▶ window of submissions ─▶ answers, in order
//!     ▲                                            │
//!     └── read only while the client takes them ◀──┘
//! ```
//!
//! The response is the loop: it runs when the connection asks for bytes, so a client that takes no answers sends
//! no more lines. Each submission runs in a task of its own, because a client that stands still must not hold its
//! permit. Deliberately absent: the reader and the submission of a task, which are those of `POST /api/tasks`.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::mem;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use bytes::Bytes;
use callboard_domain::access::Caller;
use callboard_domain::batch::MAX_UPLOAD;
use callboard_domain::{Error, Rule};
use callboard_runtime::Owner;
use callboard_wire::read::Format;
use callboard_wire::tasks::{CreateTask, LoadLine};
use futures_util::stream::{self, FuturesOrdered};
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::body::lines::{Line, Lines};
use super::body::pieces::Pieces;
use super::body::{self, MAX_BODY};
use super::describe::{Input, Operation};
use super::error::ErrorBody;
use super::extract::Unread;
use super::limit::OpenPermit;
use super::trace::Trace;
use super::{App, Failure, names};

/// The most lines of a load.
const MAX_LINES: u64 = 100_000;
/// The most lines that are on their way to the disk.
const WINDOW: usize = 256;
/// The bytes of lines, read and not yet durable, from which no more are read.
const MAX_HELD: usize = 4 << 20;

const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");

/// The body of a load, before it is read.
pub(super) struct Load(Pieces);

impl FromRequest<Arc<App>> for Load {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &Arc<App>) -> Result<Self, Failure> {
        body::expect_lines(request.headers())?;
        Ok(Self(Pieces::of(request, MAX_UPLOAD)?))
    }
}

impl Input for Load {
    fn describe(operation: &mut Operation) {
        operation.body = Some(json!({
            "required": true,
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        }));
        operation.refusals.extend([400, 408, 413, 415]);
    }
}

/// Submit up to 100,000 tasks, each a line with the body of a task. The answer has a line for each, in order, once
/// its task is durable: `{line, id}` or `{line, error}`. A line with a fault stops no other.
#[utoipa::path(
    post, path = "/api/tasks/bulk", tag = "tasks",
    responses((
        status = 200, description = "a line for each task, as it becomes durable",
        content((String = "application/x-ndjson")),
    )),
)]
pub(super) async fn create_bulk(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    trace: Trace,
    Load(mut pieces): Load,
) -> Result<Response, Failure> {
    let permit = app.streams.open(&caller)?;
    let (owner, stopping) = (Owner::of(&caller, trace.0), app.stopping.subscribe());
    // The first piece is read before the answer begins, so that a refusal is one.
    let Some(first) = pieces.next(0).await? else {
        let says = "the body is empty: a load has a line for each task";
        return Err(Error::invalid("body", Rule::Length, says).into());
    };
    let mut loading = Loading {
        sender: Arc::new(Sender { app, caller, owner }),
        pieces,
        lines: Lines::new(MAX_BODY),
        read: VecDeque::new(),
        window: FuturesOrdered::new(),
        held: 0,
        count: 0,
        phase: Phase::Reading,
        stopping,
        _permit: permit,
    };
    loading.take(&first);
    drop(first);
    let answers = stream::unfold(loading, async |mut loading| {
        let answers = loading.next().await?;
        Some((Ok::<_, io::Error>(answers), loading))
    });
    let mut response = Response::new(Body::from_stream(answers));
    response.headers_mut().insert(CONTENT_TYPE, NDJSON);
    Ok(response)
}

/// The sender of a load.
struct Sender {
    app: Arc<App>,
    caller: Caller,
    owner: Owner,
}

/// A line of JSON: its number, and its text unless it is too long.
type Numbered = (u64, Option<Vec<u8>>);

/// The line of an answer, and the bytes of the line that it answers.
type Answered = (usize, Vec<u8>);

/// The phase of a load.
enum Phase {
    Reading,
    /// The body has ended, or the load ends with this error once the lines before have their answers.
    Read(Option<Error>),
}

struct Loading {
    sender: Arc<Sender>,
    pieces: Pieces,
    lines: Lines,
    /// Lines that were read and are not submitted.
    read: VecDeque<Numbered>,
    window: FuturesOrdered<JoinHandle<Answered>>,
    /// The bytes of the lines that were read and have no answer.
    held: usize,
    count: u64,
    phase: Phase,
    stopping: watch::Receiver<bool>,
    _permit: OpenPermit,
}

impl Loading {
    /// The next answers, or `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            while self.window.len() < WINDOW
                && let Some((number, text)) = self.read.pop_front()
            {
                let sender = Arc::clone(&self.sender);
                self.window.push_back(tokio::spawn(sender.answer(number, text)));
            }
            let reads = matches!(self.phase, Phase::Reading)
                && self.read.is_empty()
                && self.held < MAX_HELD
                && self.window.len() < WINDOW;
            if !reads && self.window.is_empty() {
                return self.end();
            }
            let held = self.held + self.lines.held();
            tokio::select! {
                biased;
                Some(answer) = self.window.next() => return Some(self.ready(answer)),
                () = stopped(&mut self.stopping), if reads => {
                    self.phase = Phase::Read(Some(Error::Unavailable("the server is stopping")));
                }
                piece = self.pieces.next(held), if reads => match piece {
                    Ok(Some(piece)) => self.take(&piece),
                    Ok(None) => {
                        self.phase = Phase::Read(None);
                        self.take(&[]);
                    }
                    Err(error) => self.phase = Phase::Read(Some(error)),
                },
            }
        }
    }

    /// Takes the lines that end in a piece, or with the body if the piece is empty.
    fn take(&mut self, piece: &[u8]) {
        let Self { lines, read, held, count, phase, .. } = self;
        let each = |Line { number, text, .. }: Line<'_>| {
            *count += 1;
            if *count <= MAX_LINES {
                *held += text.map_or(0, <[u8]>::len);
                read.push_back((number, text.map(<[u8]>::to_vec)));
            } else if *count == MAX_LINES + 1 {
                let says =
                    format!("a load has at most {MAX_LINES} lines: send the rest in another one");
                *phase = Phase::Read(Some(Error::invalid("body", Rule::Length, says)));
            }
        };
        if piece.is_empty() { lines.finish(each) } else { lines.feed(piece, each) }
    }

    /// An answer, with those that are ready behind it.
    fn ready(&mut self, first: Result<Answered, tokio::task::JoinError>) -> Bytes {
        let (mut next, mut answers) = (Some(first), Vec::new());
        while let Some(answer) = next {
            // A submission that panicked is reported by the line that breaks off the answer's order.
            let (bytes, line) = answer.unwrap_or_else(|_| (0, of_error(None, &Error::Internal)));
            self.held = self.held.saturating_sub(bytes);
            answers.extend_from_slice(&line);
            next = self.window.next().now_or_never().flatten();
        }
        answers.into()
    }

    /// The line that says why the load ended early, if it did; then the end.
    fn end(&mut self) -> Option<Bytes> {
        match mem::replace(&mut self.phase, Phase::Read(None)) {
            Phase::Read(Some(error)) => Some(of_error(None, &error).into()),
            Phase::Read(None) | Phase::Reading => None,
        }
    }
}

/// Returns once the service stops.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // A sender that is gone has stopped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

fn of_error(number: Option<u64>, error: &Error) -> Vec<u8> {
    let error = ErrorBody(error);
    let answer = match number {
        Some(number) => json!({"line": number, "error": error}),
        None => json!({"error": error}),
    };
    let mut line = answer.to_string().into_bytes();
    line.push(b'\n');
    line
}

impl Sender {
    async fn answer(self: Arc<Self>, number: u64, text: Option<Vec<u8>>) -> Answered {
        let bytes = text.as_ref().map_or(0, Vec::len);
        let answer = self.submit(number, text).await;
        (bytes, answer.unwrap_or_else(|error| of_error(Some(number), &error)))
    }

    async fn submit(&self, number: u64, text: Option<Vec<u8>>) -> Result<Vec<u8>, Error> {
        let Self { app, caller, owner } = self;
        let text = text.ok_or(Error::PayloadTooLarge { limit: MAX_BODY })?;
        let unread = Unread { bytes: text.into(), format: Format::Json };
        let line = app
            .read(Some((caller.account, caller.environment)), unread, |_, line| LoadLine::of(line))
            .await?;
        let environment = Some(caller.environment);
        let CreateTask { task, idempotency_key } = match line {
            LoadLine::Task(task) => names::finish(app, environment, task).await?,
            LoadLine::Chat(line) => names::finish(app, environment, line).await?.into_create()?,
        };
        let request = task.into_request(&app.defaults);
        app.check_callback(caller, "callbackUrl", request.callback_url.as_deref())?;
        let key = idempotency_key.as_deref();
        let submitted = app.handle.submit(owner, vec![request], false, key).await?;
        let task = submitted.made.tasks().first().ok_or(Error::Internal)?;
        let mut line = Vec::with_capacity(64);
        let replayed = if submitted.replayed { ",\"replayed\":true" } else { "" };
        writeln!(line, "{{\"line\":{number},\"id\":\"{}\"{replayed}}}", task.spec.id)
            .map_err(|_| Error::Internal)?;
        Ok(line)
    }
}
