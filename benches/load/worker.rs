//! A worker whose model answers at once.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::{FutureExt, SinkExt, StreamExt};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

const OUTPUT: &str = "The customer wants the order of last week to be sent to the new address, \
                      and the invoice by mail.";

/// A connected worker.
pub(crate) struct Worker {
    socket: WebSocketStream<TcpStream>,
    /// Whose task is under which lease, if anybody waits for it.
    holders: HashMap<String, Option<usize>>,
    applied: Arc<[Notify]>,
}

/// What is needed of a frame.
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

impl Worker {
    /// A worker for the default queue and any model. A prompt that somebody waits for begins with
    /// that submitter's number; it is told when the result was applied.
    pub(crate) async fn connect(
        address: SocketAddr,
        key: &str,
        applied: Arc<[Notify]>,
        concurrency: usize,
    ) -> Self {
        let request = format!("ws://{address}/api/workers/connect").into_client_request();
        let mut request = request.expect("an address");
        let bearer = format!("Bearer {key}").parse().expect("a key is a header's value");
        request.headers_mut().insert("authorization", bearer);
        let stream = TcpStream::connect(address).await.expect("it listens");
        stream.set_nodelay(true).expect("a socket takes options");
        let upgraded = tokio_tungstenite::client_async(request, stream).await;
        let (mut socket, _) = upgraded.expect("the key is a worker's");
        let register = format!(
            r#"{{"type":"register","name":"bench","version":"0","queues":["default"],"models":["*"],"concurrency":{concurrency}}}"#
        );
        socket.send(Message::text(register)).await.expect("the socket is open");
        let registered = socket.next().await.expect("the socket is open").expect("a frame");
        assert!(registered.to_text().is_ok_and(|text| text.contains("registered")));
        Self { socket, holders: HashMap::new(), applied }
    }

    /// Answers until the server ends.
    pub(crate) async fn work(mut self) {
        while let Some(Ok(message)) = self.socket.next().await {
            self.take(&message).await;
            while let Some(Some(Ok(message))) = self.socket.next().now_or_never() {
                self.take(&message).await;
            }
            if self.socket.flush().await.is_err() {
                return;
            }
        }
    }

    /// Answers `count` tasks.
    pub(crate) async fn answer(mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let message = self.socket.next().await.expect("the socket is open").expect("a frame");
            left -= usize::from(self.take(&message).await);
            while let Some(Some(Ok(message))) = self.socket.next().now_or_never() {
                left -= usize::from(self.take(&message).await);
            }
            self.socket.flush().await.expect("the socket is open");
        }
    }

    /// Waits for the first task.
    pub(crate) async fn first(mut self) {
        while let Some(Ok(message)) = self.socket.next().await {
            if message.to_text().is_ok_and(|text| text.contains("\"assign\"")) {
                return;
            }
        }
    }

    /// Whether it was an acknowledgement.
    async fn take(&mut self, message: &Message) -> bool {
        let Message::Text(text) = message else { return false };
        let frame: Frame<'_> = serde_json::from_str(text).expect("a frame");
        match (frame.r#type, frame.task) {
            ("assign", Some(task)) => {
                let number = task.prompt.split(' ').next().and_then(|number| number.parse().ok());
                let lease = frame.lease;
                self.holders.insert(lease.to_owned(), number);
                let complete = format!(
                    r#"{{"type":"complete","lease":"{lease}","output":"{OUTPUT}","usage":{{"input":80,"output":22}},"finishReason":"stop"}}"#
                );
                self.socket.feed(Message::text(complete)).await.expect("the socket is open");
            }
            ("ack", _) => {
                assert_eq!(frame.result, "applied");
                let holder = self.holders.remove(frame.lease).expect("it was assigned");
                if let Some(holder) = holder {
                    self.applied[holder].notify_one();
                }
                return true;
            }
            ("leases", _) => {}
            _ => panic!("the server says {text}"),
        }
        false
    }
}
