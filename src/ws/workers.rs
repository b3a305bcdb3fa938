//! `GET /api/workers/connect`: a worker's socket (docs/reference/workers.md).
//!
//! Frames become messages to the worker's actor, and the actor's commands become frames. The first
//! frame registers. Deliberately absent: the effects of frames; the worker's actor and the tasks decide.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::Response;
use callboard_domain::Error;
use callboard_domain::access::{Action, Caller};
use callboard_domain::grammar::Kind;
use callboard_domain::id::Environment;
use callboard_domain::worker::Profile;
use callboard_protocol::workers::{ErrorBody, FromWorker, MAX_FRAME, Registered, TAKES, ToWorker};
use callboard_runtime::accounts::PermissionWatch;
use callboard_runtime::handle::WorkerLink;
use callboard_runtime::worker::{WorkerCommand, WorkerMessage};
use callboard_runtime::{Handle, Owner};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::AsyncReadExt;
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::upgrade::{Socket as WebSocket, Upgrade};
use super::{Limits, Overrun};
use crate::http::describe::{Input, Operation};
use crate::http::error::row;
use crate::http::{App, Edge, Failure, Share, names};
use crate::tls::Certificate;

mod frames;

use frames::{Heard, Registration};

/// The longest frame that is parsed on the thread that serves others, too, and the most of a worker that waits for its
/// actor.
const BRIEF: usize = 64 << 10;
/// The memory of a message besides its text.
const FRAME: usize = 256;
/// The time for which a refused socket's further bytes are read and dropped: a worker that is still
/// sending would otherwise meet a closed connection before it reads the reason.
const DROPPING: Duration = Duration::from_secs(2);
/// The time in which a worker must register.
const REGISTER_WITHIN: Duration = Duration::from_secs(10);
/// The close code after which a worker connects again.
const RESTART: u16 = 1012;
/// The close codes of frames that take too long, that are too long, and for which the budget has no
/// room.
const REFUSED: u16 = 1008;
const TOO_LONG: u16 = 1009;
const TRY_LATER: u16 = 1013;
/// The most heartbeats whose answers were not sent yet.
const HEARTBEATS: usize = 4;
/// The most frames that are sent in one go, besides the first.
const MORE_AT_ONCE: usize = 63;
/// The time for which a socket whose right is gone may stay open for its close frame.
const LOST_WITHIN: Duration = Duration::from_secs(3);
/// The time to send a frame before the connection counts as dead.
const SEND_WITHIN: Duration = Duration::from_secs(30);

/// Connect as a worker.
#[utoipa::path(
    get, path = "/api/workers/connect", tag = "workers",
    responses((status = 101, description = "the worker protocol, over a WebSocket")),
)]
pub(crate) async fn connect(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    _: Certified,
    Extension(share): Extension<Share>,
    Extension(edge): Extension<Edge>,
    upgrade: Upgrade,
) -> Result<Response, Failure> {
    let permit = app.worker_sockets.open(&caller)?;
    let limits = Limits { max_message: MAX_FRAME, within: edge.body_timeout, share };
    Ok(upgrade.answer(limits, async move |socket| {
        let (sink, stream) = socket.split();
        let mut socket = Socket { sink, stream };
        let right = app.handle.right(&caller, Action::TasksExecute);
        let (socket, end) = match register(&app, &caller, right.clone(), &mut socket).await {
            Ok((link, commands)) => {
                let trusted = app.trust.includes(&caller);
                let account = caller.account.to_string();
                let sender = (caller.environment, &*account);
                serve((&app.handle, sender), socket, (link, trusted), commands, right).await
            }
            Err(end) => (socket, end),
        };
        socket.end(end).await;
        drop(permit);
    }))
}

/// A worker that has a certificate, where one is asked for.
pub(crate) struct Certified;

impl<S: Send + Sync> FromRequestParts<S> for Certified {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        if parts.extensions.get() == Some(&Certificate::Missing) {
            let message = "a worker must present a client certificate that [tls] client_ca has \
                           signed: callboard worker --client-cert FILE --client-key-file FILE";
            return Err(Error::Forbidden(message.into()).into());
        }
        Ok(Self)
    }
}

impl Input for Certified {
    fn describe(_: &mut Operation) {}
}

/// A socket's two ends.
struct Socket {
    sink: SplitSink<WebSocket, Message>,
    stream: SplitStream<WebSocket>,
}

impl Socket {
    async fn send(&mut self, frame: &ToWorker) -> bool {
        send(&mut self.sink, frame).await
    }

    async fn refuse(&mut self, message: impl Into<String>) {
        self.send(&refusal(message)).await;
    }

    /// Sends the reason to a worker that is not read any more, unless the worker's side ended.
    async fn end(mut self, end: End) {
        let Some((code, message, close_code)) = end.error() else { return };
        tracing::info!(reason = message.as_str(), "a worker's socket is closed");
        let error = ErrorBody { code: code.into(), message };
        self.send(&ToWorker::Error { error }).await;
        close(&mut self.sink, close_code, "the frame was refused").await;
        let Ok(socket) = self.stream.reunite(self.sink) else { return };
        // The frame's room is free again before the rest of it arrives.
        let mut rest = socket.into_inner().into_inner();
        let drop_rest = async {
            let mut dropped = vec![0; 1 << 14];
            while let Ok(1..) = rest.read(&mut dropped).await {}
        };
        let _ = tokio::time::timeout(DROPPING, drop_rest).await;
    }
}

/// The reason why a worker is not heard any more.
enum End {
    /// The socket is closed, or the reason was sent already.
    Closed,
    /// A frame takes too much room or time.
    Overrun(Overrun),
    /// A frame is longer than [`MAX_FRAME`].
    TooLong,
}

impl End {
    fn of(error: &tungstenite::Error) -> Self {
        if let tungstenite::Error::Io(error) = error {
            return Overrun::of(error).cloned().map_or(Self::Closed, Self::Overrun);
        }
        if let tungstenite::Error::Capacity(_) = error { Self::TooLong } else { Self::Closed }
    }

    /// The code and the message of the error, and the code with which the socket is closed.
    fn error(self) -> Option<(&'static str, String, u16)> {
        Some(match self {
            Self::Closed => return None,
            Self::Overrun(Overrun::NoRoom(error)) => {
                let code = row(&error).code;
                let is_own = row(&error).status == StatusCode::TOO_MANY_REQUESTS;
                (code, error.to_string(), if is_own { 4429 } else { TRY_LATER })
            }
            Self::Overrun(slow @ Overrun::TooSlow(_)) => {
                ("REQUEST_TIMEOUT", slow.to_string(), REFUSED)
            }
            Self::TooLong => {
                ("INVALID_FRAME", format!("a frame may have at most {MAX_FRAME} bytes"), TOO_LONG)
            }
        })
    }
}

fn refusal(message: impl Into<String>) -> ToWorker {
    ToWorker::Error { error: ErrorBody { code: "INVALID_FRAME".into(), message: message.into() } }
}

async fn send(sink: &mut SplitSink<WebSocket, Message>, frame: &ToWorker) -> bool {
    let sent = tokio::time::timeout(SEND_WITHIN, sink.send(message(frame)));
    matches!(sent.await, Ok(Ok(())))
}

/// Sends `first` and every further command so far, in one go.
async fn send_all(
    sink: &mut SplitSink<WebSocket, Message>,
    first: &ToWorker,
    commands: &mut mpsc::UnboundedReceiver<WorkerCommand>,
    unanswered: &Unanswered,
) -> bool {
    let all = async {
        sink.feed(message(first)).await?;
        for _ in 0..MORE_AT_ONCE {
            let Ok(next) = commands.try_recv() else { break };
            match unanswered.to_frame(next) {
                Some(frame) => sink.feed(message(&frame)).await?,
                // The connection has ended: the next look finds it, because its channel is closed.
                None => commands.close(),
            }
        }
        sink.flush().await
    };
    matches!(tokio::time::timeout(SEND_WITHIN, all).await, Ok(Ok(())))
}

/// The approximate memory of a message that is not answered, and that waits for its worker's actor.
fn size(said: &WorkerMessage) -> usize {
    match said {
        WorkerMessage::Delta(_, text) => FRAME + text.len(),
        WorkerMessage::Reported(..)
        | WorkerMessage::Called(..)
        | WorkerMessage::Returned(..)
        | WorkerMessage::Draining => FRAME,
        // Their answers bound them.
        WorkerMessage::Heartbeat(..) | WorkerMessage::Completed(..) | WorkerMessage::Failed(..) => {
            0
        }
    }
}

/// The room for frames of a worker whose answers were not sent yet.
struct Unanswered {
    heartbeats: Semaphore,
    results: Semaphore,
}

impl Unanswered {
    fn new() -> Self {
        let results = Semaphore::new(frames::MAX_CONCURRENCY as usize);
        Self { heartbeats: Semaphore::new(HEARTBEATS), results }
    }

    /// Waits for the room of a message that is answered.
    async fn add(&self, said: &WorkerMessage) {
        let room = match said {
            WorkerMessage::Heartbeat(..) => &self.heartbeats,
            WorkerMessage::Completed(..) | WorkerMessage::Failed(..) => &self.results,
            WorkerMessage::Delta(..)
            | WorkerMessage::Reported(..)
            | WorkerMessage::Called(..)
            | WorkerMessage::Returned(..)
            | WorkerMessage::Draining => {
                return;
            }
        };
        // The room is never closed.
        if let Ok(taken) = room.acquire().await {
            taken.forget();
        }
    }

    /// A command as a frame; an answer gives its room back.
    fn to_frame(&self, command: WorkerCommand) -> Option<ToWorker> {
        match &command {
            WorkerCommand::Leases(..) => self.heartbeats.add_permits(1),
            WorkerCommand::Ack(..) => self.results.add_permits(1),
            WorkerCommand::Assign(_)
            | WorkerCommand::Cancel(..)
            | WorkerCommand::Drain(_)
            | WorkerCommand::Close => {}
        }
        frames::to_frame(command)
    }
}

fn message(frame: &ToWorker) -> Message {
    Message::text(serde_json::to_string(frame).expect("a frame has a JSON form"))
}

async fn close(sink: &mut SplitSink<WebSocket, Message>, code: u16, reason: &'static str) {
    let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
    // The worker may be gone already.
    let _ = tokio::time::timeout(SEND_WITHIN, sink.send(Message::Close(Some(frame)))).await;
}

/// Closes the socket of a worker whose right is gone: 4401 without valid credentials, 4403 if it may
/// not run tasks.
async fn close_lost(sink: &mut SplitSink<WebSocket, Message>, error: &Error) {
    let (code, reason) = match row(error).status {
        StatusCode::UNAUTHORIZED => (4401, "credentials are no longer valid"),
        _ => (4403, "forbidden"),
    };
    close(sink, code, reason).await;
}

/// Waits for the first frame and registers the worker.
async fn register(
    app: &App,
    caller: &Caller,
    mut right: PermissionWatch,
    socket: &mut Socket,
) -> Result<(WorkerLink, mpsc::UnboundedReceiver<WorkerCommand>), End> {
    let account = caller.account.to_string();
    let sender = (caller.environment, &*account);
    let frame = next_frame(&app.handle, sender, &mut socket.stream);
    let first = tokio::select! {
        first = tokio::time::timeout(REGISTER_WITHIN, frame) => first,
        error = right.lost() => {
            close_lost(&mut socket.sink, &error).await;
            return Err(End::Closed);
        }
    };
    let (message, reason) = match first {
        Ok(Ok(Ok(FromWorker::Register(register)))) => match frames::registration(register) {
            Ok(registration) => return begin(app, caller, registration, socket).await,
            Err(message) => (message, "bad frame"),
        },
        Ok(Ok(Err(message))) => (message, "bad frame"),
        Ok(Err(end)) => return Err(end),
        Ok(Ok(Ok(_))) | Err(_) => {
            ("the first frame must be register, within 10 seconds".into(), "not registered")
        }
    };
    socket.refuse(message).await;
    close(&mut socket.sink, 4400, reason).await;
    Err(End::Closed)
}

/// Passes if the names of a worker's queues and models are names, or known.
async fn check_names(app: &App, environment: Environment, profile: &Profile) -> Result<(), String> {
    let Profile { queues, models, .. } = profile;
    let queues: Vec<_> = queues.iter().map(String::as_str).collect();
    // The end of a prefix, such as `gpt-*`, is no part of a name.
    let models = models.iter().map(|model| model.strip_suffix('*').unwrap_or(model));
    let models: Vec<_> = models.collect();
    for checked in [
        names::check(app, environment, Kind::Queue, "queues", &queues).await,
        names::check(app, environment, Kind::Model, "models", &models).await,
    ] {
        // A name that cannot be looked up now is no reason for a worker to end.
        if let Err(Error::Invalid(fault)) = checked {
            return Err(fault.message);
        }
    }
    Ok(())
}

/// Registers the worker and answers it.
async fn begin(
    app: &App,
    caller: &Caller,
    registration: Registration,
    socket: &mut Socket,
) -> Result<(WorkerLink, mpsc::UnboundedReceiver<WorkerCommand>), End> {
    let Registration { profile, resume, unreadable } = registration;
    if let Err(error) = caller.may_serve(&profile.queues) {
        let (code, message) = (row(&error).code.to_owned(), error.to_string());
        socket.send(&ToWorker::Error { error: ErrorBody { code, message } }).await;
        close(&mut socket.sink, 4403, "forbidden").await;
        return Err(End::Closed);
    }
    if let Err(message) = check_names(app, caller.environment, &profile).await {
        socket.refuse(message).await;
        close(&mut socket.sink, 4400, "bad frame").await;
        return Err(End::Closed);
    }
    let (outgoing, commands) = mpsc::unbounded_channel();
    let owner = Owner::of(caller, None);
    let connected = app.handle.connect_worker(&owner, profile, resume, outgoing).await;
    let Ok((link, leases)) = connected else {
        close(&mut socket.sink, RESTART, "not now").await;
        return Err(End::Closed);
    };
    let (lease, heartbeat) = app.handle.worker_terms();
    let registered = ToWorker::Registered(Registered {
        worker_id: link.worker().to_string(),
        lease_ms: frames::millis(lease),
        heartbeat_ms: frames::millis(heartbeat),
        kept: frames::texts(&leases.renewed),
        lost: frames::lost(unreadable, &leases.lost),
        takes: TAKES.map(str::to_owned).into(),
    });
    if socket.send(&registered).await { Ok((link, commands)) } else { Err(End::Closed) }
}

/// Passes frames both ways until one side ends, and returns the reason. Dropping the link notifies
/// the worker's actor. `trusted` is true if the worker's confidence counts.
async fn serve(
    (handle, sender): (&Handle, Sender<'_>),
    socket: Socket,
    (link, trusted): (WorkerLink, bool),
    mut commands: mpsc::UnboundedReceiver<WorkerCommand>,
    mut right: PermissionWatch,
) -> (Socket, End) {
    let mut still_right = right.clone();
    let Socket { mut sink, mut stream } = socket;
    // The socket of a worker that does not read its answers is not read any further.
    let (answers, mut answered) = mpsc::channel::<ToWorker>(16);
    let unanswered = Unanswered::new();
    let mut unhandled = 0;
    let hear = async {
        loop {
            let frame = match next_frame(handle, sender, &mut stream).await {
                Ok(frame) => frame,
                Err(end) => break end,
            };
            for beside in frame.iter().flat_map(frames::beside) {
                link.say(beside);
            }
            let answer = match frame.and_then(frames::said) {
                Ok(Heard::WorkerMessage(said)) => {
                    unhandled += size(&said);
                    unanswered.add(&said).await;
                    link.say(if trusted { said } else { frames::untrusted(said) });
                    if unhandled > BRIEF {
                        // A worker that says more than its actor can take waits here.
                        link.handled().await;
                        unhandled = 0;
                    }
                    continue;
                }
                Ok(Heard::Answered(answer)) => answer,
                Err(message) => refusal(message),
            };
            if answers.send(answer).await.is_err() {
                break End::Closed;
            }
        }
    };
    let send = async {
        loop {
            let first = tokio::select! {
                command = commands.recv() => command.and_then(|it| unanswered.to_frame(it)),
                answer = answered.recv() => answer,
                error = right.lost() => {
                    close_lost(&mut sink, &error).await;
                    break;
                }
            };
            let Some(first) = first else {
                close(&mut sink, RESTART, "connect again").await;
                break;
            };
            // Commands that came meanwhile go along: each send wakes the worker.
            tokio::task::yield_now().await;
            if !send_all(&mut sink, &first, &mut commands, &unanswered).await {
                break;
            }
        }
    };
    let end = tokio::select! {
        end = hear => end,
        () = send => End::Closed,
        // A worker that does not read cannot receive the reason.
        () = async { still_right.lost().await; tokio::time::sleep(LOST_WITHIN).await } => End::Closed,
    };
    (Socket { sink, stream }, end)
}

/// A worker's environment and account.
type Sender<'a> = (Environment, &'a str);

/// The next frame, or its fault; `None` after the last.
async fn next_frame(
    handle: &Handle,
    sender: Sender<'_>,
    stream: &mut SplitStream<WebSocket>,
) -> Result<Result<FromWorker, String>, End> {
    loop {
        match stream.next().await {
            Some(Ok(Message::Text(text))) => return Ok(parse(handle, sender, text).await),
            Some(Ok(Message::Binary(_))) => return Ok(Err("a frame must be text".into())),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(_))) | None => return Err(End::Closed),
            Some(Err(error)) => return Err(End::of(&error)),
        }
    }
}

/// A frame from its text. The text keeps its room of the budget until the next frame is read.
async fn parse(
    handle: &Handle,
    (environment, account): Sender<'_>,
    text: Utf8Bytes,
) -> Result<FromWorker, String> {
    if text.len() <= BRIEF {
        return frames::parse(&text);
    }
    let parsed =
        handle.compute(environment, account, None, move || frames::parse_long(&text)).await;
    parsed.unwrap_or_else(|error| Err(error.to_string()))
}
