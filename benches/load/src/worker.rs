//! A worker whose model answers at once.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::error::{Error, broken};
use super::http::Site;

/// The queue of tasks that are submitted one by one: no other worker serves it, so that no task of
/// a benchmark reaches a model that costs money.
pub(super) const QUEUE: &str = "callboard-bench";

const OUTPUT: &str = "The customer wants the order of last week to be sent to the new address, \
                      and the invoice by mail.";

/// The bytes of one read: as many are cleared for each read.
const READ_AT_ONCE: usize = 16 << 10;

/// The beginning of a prompt that is to fail.
pub(super) const TO_FAIL: &str = "fail";

/// A connected worker.
pub(super) struct Worker {
    socket: WebSocketStream<TcpStream>,
    /// The submitter that waits for each lease, if any does.
    holders: HashMap<String, Option<usize>>,
    applied: Arc<[Notify]>,
}

/// The needed members of a frame.
#[derive(Deserialize)]
struct Frame<'f> {
    r#type: &'f str,
    #[serde(default)]
    lease: &'f str,
    #[serde(default)]
    result: &'f str,
    #[serde(borrow)]
    task: Option<Task<'f>>,
}

#[derive(Deserialize)]
struct Task<'f> {
    prompt: &'f str,
}

/// A WebSocket of the server.
pub(super) async fn socket(site: &Site, path: &str) -> Result<WebSocketStream<TcpStream>, Error> {
    let url = format!("ws://{}{}{path}", site.host(), site.prefix());
    let request = url.into_client_request();
    let mut request = request.map_err(Error::of("the server has no address"))?;
    let bearer = format!("Bearer {}", site.token().unwrap_or_default()).parse();
    let bearer = bearer.map_err(|_| broken("the key holds characters that no key has"))?;
    request.headers_mut().insert("authorization", bearer);
    let stream = TcpStream::connect(site.address()).await;
    let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    let stream = stream.map_err(Error::of("the server cannot be reached"))?;
    let config = WebSocketConfig::default().read_buffer_size(READ_AT_ONCE);
    let upgraded = tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await;
    let what = "the server takes no socket with this key (an admin's is needed)";
    let (socket, _) = upgraded.map_err(Error::of(what))?;
    Ok(socket)
}

impl Worker {
    /// A worker for the queue [`QUEUE`] and any model. A prompt that a submitter waits for begins
    /// with that submitter's number, which is notified when the result was applied.
    pub(super) async fn connect(
        site: &Site,
        applied: Arc<[Notify]>,
        concurrency: usize,
    ) -> Result<Self, Error> {
        Self::register(site, applied, concurrency, &[QUEUE.to_owned()], "*").await
    }

    /// A worker for these queues and these models, without waiting submitters.
    pub(super) async fn serving(
        site: &Site,
        concurrency: usize,
        queues: &[String],
        models: &str,
    ) -> Result<Self, Error> {
        Self::register(site, Arc::new([]), concurrency, queues, models).await
    }

    async fn register(
        site: &Site,
        applied: Arc<[Notify]>,
        concurrency: usize,
        queues: &[String],
        models: &str,
    ) -> Result<Self, Error> {
        let mut socket = socket(site, "/api/workers/connect").await?;
        let register = json!({
            "type": "register", "name": "bench", "version": env!("CARGO_PKG_VERSION"),
            "queues": queues, "models": [models], "concurrency": concurrency,
        });
        socket.send(Message::text(register.to_string())).await.map_err(lost)?;
        let registered = socket.next().await.ok_or_else(closed)?.map_err(lost)?;
        if !registered.to_text().is_ok_and(|text| text.contains("\"registered\"")) {
            return Err(broken(format!("the server does not register the worker: {registered}")));
        }
        Ok(Self { socket, holders: HashMap::new(), applied })
    }

    /// Answers until the server ends.
    pub(super) async fn work(mut self) -> Result<(), Error> {
        loop {
            self.round().await?;
        }
    }

    /// Answers `count` tasks; each makes room for another task if room is limited.
    pub(super) async fn answer(mut self, count: usize, room: &Semaphore) -> Result<(), Error> {
        let mut left = count;
        while left > 0 {
            let applied = self.round().await?;
            room.add_permits(applied);
            left = left.saturating_sub(applied);
        }
        Ok(())
    }

    /// Waits for the first task.
    pub(super) async fn first(mut self) -> Result<(), Error> {
        loop {
            let message = self.socket.next().await.ok_or_else(closed)?.map_err(lost)?;
            if message.to_text().is_ok_and(|text| text.contains("\"assign\"")) {
                return Ok(());
            }
        }
    }

    /// Takes the waiting frames, answers them in one go, and returns the number of acknowledged
    /// results.
    async fn round(&mut self) -> Result<usize, Error> {
        let message = self.socket.next().await.ok_or_else(closed)?.map_err(lost)?;
        let mut applied = usize::from(self.take(&message).await?);
        while let Some(message) = self.socket.next().now_or_never() {
            let message = message.ok_or_else(closed)?.map_err(lost)?;
            applied += usize::from(self.take(&message).await?);
        }
        self.socket.flush().await.map_err(lost)?;
        Ok(applied)
    }

    /// Handles a frame. True if it was an acknowledgement.
    async fn take(&mut self, message: &Message) -> Result<bool, Error> {
        let Message::Text(text) = message else { return Ok(false) };
        let frame: Frame<'_> =
            serde_json::from_str(text).map_err(Error::of("a frame of the server"))?;
        match (frame.r#type, frame.task) {
            ("assign", Some(task)) => {
                let word = task.prompt.split(' ').next().unwrap_or_default();
                let lease = frame.lease;
                self.holders.insert(lease.to_owned(), word.parse().ok());
                let answer = if word == TO_FAIL {
                    format!(
                        r#"{{"type":"fail","lease":"{lease}","retryable":false,"error":{{"code":"PROVIDER_ERROR","message":"400"}}}}"#
                    )
                } else {
                    format!(
                        r#"{{"type":"complete","lease":"{lease}","output":"{OUTPUT}","usage":{{"input":80,"output":22}},"finishReason":"stop"}}"#
                    )
                };
                self.socket.feed(Message::text(answer)).await.map_err(lost)?;
            }
            ("ack", _) => {
                let holder = self.holders.remove(frame.lease);
                let (Some(holder), "applied") = (holder, frame.result) else {
                    return Err(broken(format!("a result was not applied: {text}")));
                };
                if let Some(notify) = holder.and_then(|holder| self.applied.get(holder)) {
                    notify.notify_one();
                }
                return Ok(true);
            }
            ("leases", _) => {}
            _ => return Err(broken(format!("the server says {text}"))),
        }
        Ok(false)
    }
}

fn lost(error: tokio_tungstenite::tungstenite::Error) -> Error {
    Error::of("the worker's connection was lost")(error)
}

fn closed() -> Error {
    broken("the server closed the worker's connection")
}
