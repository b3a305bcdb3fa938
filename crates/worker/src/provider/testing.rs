//! A provider's server for tests: plays one script per connection and records the requests.
//!
//! Deliberately absent: HTTP beyond one request per connection.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{Completion, Deltas, Failure, Provider, Request};

/// The server's script for one connection, after it read the request.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Writes these bytes by themselves.
    Send(Vec<u8>),
    /// Waits until the client closes the connection and then notes it.
    UntilClosed,
}

/// One request as it came.
#[derive(Debug)]
pub(super) struct Seen {
    /// The request line and the headers, in lower case.
    pub(super) head: String,
    /// The body.
    pub(super) body: Value,
}

pub(super) struct Server {
    /// Such as `http://127.0.0.1:40000`.
    pub(super) url: String,
    /// The requests, in their order.
    pub(super) seen: mpsc::UnboundedReceiver<Seen>,
    /// One entry per connection that the client closed.
    pub(super) closed: mpsc::UnboundedReceiver<()>,
}

/// A complete answer with these headers and this body.
pub(super) fn answer(status: &str, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
    vec![Step::Send(text.into_bytes())]
}

/// The head of an event stream whose end is the end of the connection.
pub(super) fn stream_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-request-id: req_1\r\nconnection: close\r\n\r\n".to_vec()
}

/// An event stream with these bytes, in these pieces.
pub(super) fn stream(pieces: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<Step> {
    let pieces = pieces.into_iter().map(|piece| Step::Send(piece.as_ref().to_vec()));
    std::iter::once(Step::Send(stream_head())).chain(pieces).collect()
}

/// The data lines of a stream of events.
pub(super) fn data(events: &[&str]) -> String {
    let lines: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    lines.concat()
}

/// Starts a server on loopback that plays one script per connection, then stops.
pub(super) async fn serve(scripts: Vec<Vec<Step>>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (seen_sender, seen) = mpsc::unbounded_channel();
    let (closed_sender, closed) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for script in scripts {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.set_nodelay(true).unwrap();
            let _ = seen_sender.send(read_request(&mut socket).await);
            for step in script {
                match step {
                    Step::Send(bytes) => {
                        socket.write_all(&bytes).await.unwrap();
                        socket.flush().await.unwrap();
                        tokio::task::yield_now().await;
                    }
                    Step::UntilClosed => {
                        let mut rest = Vec::new();
                        let _ = socket.read_to_end(&mut rest).await;
                        let _ = closed_sender.send(());
                    }
                }
            }
        }
    });
    Server { url, seen, closed }
}

/// Makes one call and joins the deltas.
pub(super) async fn call(
    provider: &dyn Provider,
    request: &Request,
) -> (Result<Completion, Failure>, String) {
    let (pieces, mut received) = mpsc::channel(1024);
    let deltas = Deltas::from(pieces);
    let result = provider.complete(request, &deltas).await;
    drop(deltas);
    let mut joined = String::new();
    while let Some(piece) = received.recv().await {
        joined.push_str(&piece);
    }
    (result, joined)
}

async fn read_request(socket: &mut TcpStream) -> Seen {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the request was cut off");
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let length: usize = length.parse().unwrap();
    while bytes.len() < end + 4 + length {
        assert!(socket.read_buf(&mut bytes).await.unwrap() > 0, "the body was cut off");
    }
    let body = serde_json::from_slice(&bytes[end + 4..]).unwrap();
    Seen { head, body }
}
