//! `GET /api/workers/connect`: a worker's socket (PROTOCOL.md 11).
//!
//! Frames become messages to the worker's actor, and what the actor tells becomes frames. The first
//! frame registers. Deliberately absent: what the frames do; the worker's actor and the tasks decide.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::http::StatusCode;
use axum::response::Response;
use callboard_domain::access::{Action, Caller};
use callboard_domain::{Error, Rule};
use callboard_protocol::workers::{ErrorBody, FromWorker, Registered, ToWorker};
use callboard_runtime::accounts::Right;
use callboard_runtime::handle::WorkerLink;
use callboard_runtime::worker::WorkerCommand;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;

use crate::http::describe::{Input, Operation};
use crate::http::error::row;
use crate::http::{App, Failure};

mod frames;

use frames::Heard;

/// The longest frame that is taken: an output, and the JSON around it.
const MAX_FRAME: usize = 32 << 20;
/// How much is read at a time, in bytes: a socket keeps that much memory, and clears it for each read.
const READ_AT_ONCE: usize = 16 << 10;
/// How long a worker may take to register.
const REGISTER_WITHIN: Duration = Duration::from_secs(10);
/// How many frames are sent in one go at most, besides the first.
const MORE_AT_ONCE: usize = 63;
/// How long a socket whose right is gone may stay open for its close frame.
const LOST_WITHIN: Duration = Duration::from_secs(3);
/// How long a frame may take to be sent before the connection counts as dead.
const SEND_WITHIN: Duration = Duration::from_secs(30);

/// Connect as a worker.
#[utoipa::path(
    get, path = "/api/workers/connect", tag = "workers",
    responses((status = 101, description = "the worker protocol, over a WebSocket")),
)]
pub(crate) async fn connect(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    let upgrade = upgrade.map_err(|rejection| {
        let message = format!("this path takes WebSocket connections: {rejection}");
        Error::invalid("Upgrade", Rule::Required, message.to_lowercase())
    })?;
    let permit = app.worker_sockets.open(caller.account)?;
    let upgrade = upgrade.max_message_size(MAX_FRAME).max_frame_size(MAX_FRAME);
    let upgrade = upgrade.read_buffer_size(READ_AT_ONCE);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let (sink, stream) = socket.split();
        let mut socket = Socket { sink, stream };
        let right = app.handle.right(&caller, Action::TasksExecute);
        if let Some((link, told)) = register(&app, &caller, right.clone(), &mut socket).await {
            serve(socket, link, told, right).await;
        }
        drop(permit);
    }))
}

impl Input for Result<WebSocketUpgrade, WebSocketUpgradeRejection> {
    fn describe(operation: &mut Operation) {
        operation.refusals.insert(400);
    }
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
}

fn refusal(message: impl Into<String>) -> ToWorker {
    ToWorker::Error { error: ErrorBody { code: "INVALID_FRAME".into(), message: message.into() } }
}

async fn send(sink: &mut SplitSink<WebSocket, Message>, frame: &ToWorker) -> bool {
    let sent = tokio::time::timeout(SEND_WITHIN, sink.send(message(frame)));
    matches!(sent.await, Ok(Ok(())))
}

/// Sends `first` and whatever else is there by now, in one go.
async fn send_all(
    sink: &mut SplitSink<WebSocket, Message>,
    first: &ToWorker,
    told: &mut mpsc::UnboundedReceiver<WorkerCommand>,
) -> bool {
    let all = async {
        sink.feed(message(first)).await?;
        for _ in 0..MORE_AT_ONCE {
            let Ok(next) = told.try_recv() else { break };
            match frames::told(next) {
                Some(frame) => sink.feed(message(&frame)).await?,
                // The end of the connection: the next look finds it, because nobody tells any more.
                None => told.close(),
            }
        }
        sink.flush().await
    };
    matches!(tokio::time::timeout(SEND_WITHIN, all).await, Ok(Ok(())))
}

fn message(frame: &ToWorker) -> Message {
    Message::text(serde_json::to_string(frame).expect("a frame has a JSON form"))
}

async fn close(sink: &mut SplitSink<WebSocket, Message>, code: u16, reason: &'static str) {
    let frame = CloseFrame { code, reason: reason.into() };
    // The worker may be gone already.
    let _ = tokio::time::timeout(SEND_WITHIN, sink.send(Message::Close(Some(frame)))).await;
}

/// Tells a worker whose right is gone: 4401 if it is nobody's any more, 4403 if it may not run tasks.
async fn close_lost(sink: &mut SplitSink<WebSocket, Message>, error: &Error) {
    let (code, reason) = match row(error).status {
        StatusCode::UNAUTHORIZED => (4401, "credentials are no longer valid"),
        _ => (4403, "forbidden"),
    };
    close(sink, code, reason).await;
}

/// Waits for the first frame and registers the worker; `None` if it comes to nothing.
async fn register(
    app: &App,
    caller: &Caller,
    mut right: Right,
    socket: &mut Socket,
) -> Option<(WorkerLink, mpsc::UnboundedReceiver<WorkerCommand>)> {
    let first = tokio::select! {
        first = tokio::time::timeout(REGISTER_WITHIN, next_frame(&mut socket.stream)) => first,
        error = right.lost() => {
            close_lost(&mut socket.sink, &error).await;
            return None;
        }
    };
    let register = match first {
        Ok(Some(Ok(FromWorker::Register(register)))) => register,
        Ok(Some(Err(message))) => {
            socket.refuse(message).await;
            close(&mut socket.sink, 4400, "bad frame").await;
            return None;
        }
        Ok(None) => return None,
        Ok(Some(Ok(_))) | Err(_) => {
            socket.refuse("the first frame must be register, within 10 seconds").await;
            close(&mut socket.sink, 4400, "not registered").await;
            return None;
        }
    };
    let (profile, resume) = match frames::registration(register) {
        Ok(registration) => registration,
        Err(message) => {
            socket.refuse(message).await;
            close(&mut socket.sink, 4400, "bad frame").await;
            return None;
        }
    };
    let (outgoing, told) = mpsc::unbounded_channel();
    let owner = app.owner(caller);
    let connected = app.handle.connect_worker(&owner, profile, resume, outgoing).await;
    let Ok((link, leases)) = connected else {
        close(&mut socket.sink, close_code::RESTART, "not now").await;
        return None;
    };
    let (lease, heartbeat) = app.handle.worker_terms();
    let registered = ToWorker::Registered(Registered {
        worker_id: link.worker().to_string(),
        lease_ms: frames::millis(lease),
        heartbeat_ms: frames::millis(heartbeat),
        kept: frames::texts(&leases.renewed),
        lost: frames::texts(&leases.lost),
    });
    socket.send(&registered).await.then_some((link, told))
}

/// Passes frames both ways until one side ends. Dropping the link tells the worker's actor.
async fn serve(
    socket: Socket,
    link: WorkerLink,
    mut told: mpsc::UnboundedReceiver<WorkerCommand>,
    mut right: Right,
) {
    let mut still_right = right.clone();
    let Socket { mut sink, mut stream } = socket;
    // A worker that does not read its answers is not read any further.
    let (answers, mut answered) = mpsc::channel::<ToWorker>(16);
    let hear = async {
        while let Some(frame) = next_frame(&mut stream).await {
            let answer = match frame.and_then(frames::said) {
                Ok(Heard::WorkerMessage(said)) => {
                    link.say(said);
                    continue;
                }
                Ok(Heard::Answered(answer)) => answer,
                Err(message) => refusal(message),
            };
            if answers.send(answer).await.is_err() {
                break;
            }
        }
    };
    let tell = async {
        loop {
            let first = tokio::select! {
                told = told.recv() => told.and_then(frames::told),
                answer = answered.recv() => answer,
                error = right.lost() => {
                    close_lost(&mut sink, &error).await;
                    break;
                }
            };
            let Some(first) = first else {
                close(&mut sink, close_code::RESTART, "connect again").await;
                break;
            };
            // Whoever else has something to tell by now goes along: each sending wakes the worker.
            tokio::task::yield_now().await;
            if !send_all(&mut sink, &first, &mut told).await {
                break;
            }
        }
    };
    tokio::select! {
        () = hear => {}
        () = tell => {}
        // A worker that does not read cannot be told why.
        () = async { still_right.lost().await; tokio::time::sleep(LOST_WITHIN).await } => {}
    }
}

/// The next frame, or what is wrong with it; `None` once the socket is closed.
async fn next_frame(stream: &mut SplitStream<WebSocket>) -> Option<Result<FromWorker, String>> {
    loop {
        match stream.next().await?.ok()? {
            Message::Text(text) => return Some(frames::parse(text.as_str())),
            Message::Binary(_) => return Some(Err("a frame must be text".into())),
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Close(_) => return None,
        }
    }
}
