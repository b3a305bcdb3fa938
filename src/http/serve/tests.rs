use axum::routing::{any, get, post};
use axum::{Extension, Router};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::*;
use crate::http::{Edge, Middleware, Share, body};
use crate::ws::{self, upgrade::Upgrade};

/// A service on a port of its own.
struct Service {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<io::Result<()>>,
    /// A request to `/slow` says here that it has begun, and waits for `go`.
    begun: Arc<Notify>,
    go: Arc<Notify>,
}

impl Service {
    async fn start(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, goes) = (Arc::clone(&begun), Arc::clone(&go));
        let slow = async move || {
            begins.notify_one();
            goes.notified().await;
            "done"
        };
        let echo = async |upgrade: Upgrade, Extension(share): Extension<Share>| {
            let within = Duration::from_secs(30);
            let limits = ws::Limits { max_message: 1 << 20, within, share };
            upgrade.answer(limits, async |mut socket| {
                while let Some(Ok(Message::Text(text))) = socket.next().await {
                    if socket.send(Message::Text(text)).await.is_err() {
                        break;
                    }
                }
            })
        };
        let peer = async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string();
        let length = async |request: Request| {
            let bytes = body::read(request).await.map_err(crate::http::Failure)?;
            Ok::<_, crate::http::Failure>(bytes.len().to_string())
        };
        // An answer of two pieces that may not outlive five seconds.
        let watched = async |Extension(connection): Extension<ConnectionHandle>| {
            let over = tokio::time::sleep(Duration::from_secs(5));
            let watch = connection.close_when(over, Duration::from_secs(1));
            let pieces = futures_util::stream::iter(["one ", "whole"]).map(move |piece| {
                let _held = &watch;
                Ok::<_, Infallible>(piece)
            });
            Body::from_stream(pieces)
        };
        let busy = async || crate::http::Failure(Error::Unavailable("it is busy"));
        let limited =
            async || crate::http::Failure(Error::RateLimited { limit: 1, retry_after: 9 });
        let router = Router::new()
            .route("/peer", get(peer))
            .route("/busy", get(busy))
            .route("/limited", get(limited))
            .route("/watched", get(watched))
            .route("/slow", get(slow))
            .route("/length", post(length))
            .route("/ws", any(echo));
        let (stop, stopped) = oneshot::channel();
        let service = Middleware::new(router, Edge::default());
        let ended = tokio::spawn(serve(listener, None, service, limits, async {
            let _ = stopped.await;
        }));
        Self { address, stop, ended, begun, go }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }
}

async fn send(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.expect("it is open");
}

/// All that comes until the connection is closed.
async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset is a close as well.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text up to and with `last`.
async fn until(stream: &mut TcpStream, last: &str) -> String {
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains(last) {
        bytes.push(stream.read_u8().await.expect("it is open"));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test(start_paused = true)]
async fn headers_that_trickle_in_are_cut_off() {
    let service = Service::start(Limits::default()).await;
    let mut stream = service.connect().await;
    send(&mut stream, "GET /peer HTTP/1.1\r\nHost: x\r\nX-Slow: ").await;
    let started = tokio::time::Instant::now();
    assert_eq!(rest(&mut stream).await, "");
    let waited = started.elapsed();
    assert!((9..=11).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_watch_of_an_answer_that_has_ended_closes_nothing() {
    let service = Service::start(Limits::default()).await;
    let mut stream = service.connect().await;
    for _ in 0..2 {
        send(&mut stream, "GET /watched HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let answer = until(&mut stream, "\r\n0\r\n\r\n").await;
        assert!(answer.contains("whole"), "{answer}");
        assert!(!answer.contains("connection: close"), "{answer}");
        tokio::time::sleep(Duration::from_secs(8)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_in_is_refused_in_the_envelope() {
    let service = Service::start(Limits::default()).await;
    let mut stream = service.connect().await;
    send(&mut stream, "POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc").await;
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains(r#""code":"REQUEST_TIMEOUT""#), "{answer}");
}

#[tokio::test]
async fn the_callers_address_is_known() {
    let service = Service::start(Limits::default()).await;
    let mut stream = service.connect().await;
    let own = stream.local_addr().expect("it is connected").to_string();
    send(&mut stream, "GET /peer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    let answer = rest(&mut stream).await;
    assert!(answer.ends_with(&own), "{answer}");
}

#[tokio::test]
async fn a_body_too_large_is_answered_while_the_caller_still_sends() {
    let service = Service::start(Limits::default()).await;
    let large = body::MAX_BODY + 1_000_000;
    let mut announced = service.connect().await;
    let head = format!("POST /length HTTP/1.1\r\nHost: x\r\nContent-Length: {large}\r\n\r\n");
    send(&mut announced, &head).await;
    send(&mut announced, &" ".repeat(large)).await;
    let answer = until(&mut announced, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");

    let mut chunked = service.connect().await;
    let head = "POST /length HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    send(&mut chunked, head).await;
    for _ in 0..48 {
        send(&mut chunked, &format!("10000\r\n{}\r\n", " ".repeat(0x10000))).await;
    }
    send(&mut chunked, "0\r\n\r\n").await;
    let answer = until(&mut chunked, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn headers_too_large_are_431_in_the_envelope_or_bare() {
    let service = Service::start(Limits::default()).await;
    for (size, enveloped) in [(20_000, true), (70_000, false)] {
        let mut stream = service.connect().await;
        let long = "x".repeat(size);
        let head =
            format!("GET /peer HTTP/1.1\r\nHost: x\r\nX: {long}\r\nConnection: close\r\n\r\n");
        send(&mut stream, &head).await;
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        assert_eq!(answer.contains("HEADERS_TOO_LARGE"), enveloped, "{answer}");
    }
}

#[tokio::test]
async fn an_open_request_finishes_and_idle_connections_close_on_shutdown() {
    let patient = Limits { header_timeout: Duration::from_hours(1), ..Limits::default() };
    let service = Service::start(patient).await;
    let mut idle = service.connect().await;
    send(&mut idle, "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n").await;
    until(&mut idle, "127.0.0.1").await;
    let mut slow = service.connect().await;
    send(&mut slow, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
    service.begun.notified().await;

    let address = service.address;
    service.stop.send(()).expect("it is serving");
    let closed = tokio::time::timeout(Duration::from_secs(10), rest(&mut idle)).await;
    assert!(closed.is_ok());
    assert!(TcpStream::connect(address).await.is_err());
    assert!(!service.ended.is_finished());

    service.go.notify_one();
    let answer = rest(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("done"), "{answer}");
    let ended = service.ended.await.expect("it does not panic");
    assert!(ended.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_longer_than_the_grace_is_cut_off() {
    let service = Service::start(Limits::default()).await;
    let mut slow = service.connect().await;
    send(&mut slow, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
    service.begun.notified().await;
    service.stop.send(()).expect("it is serving");
    let started = tokio::time::Instant::now();
    let ended = service.ended.await.expect("it does not panic");
    assert!(ended.is_ok());
    assert_eq!(started.elapsed().as_secs(), 25);
    assert_eq!(rest(&mut slow).await, "");
}

#[tokio::test(start_paused = true)]
async fn beyond_the_most_connections_a_caller_waits_for_a_slot() {
    let one = Limits { max_connections: 1, ..Limits::default() };
    let service = Service::start(one).await;
    let mut first = service.connect().await;
    send(&mut first, "GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    service.begun.notified().await;
    let mut second = service.connect().await;
    send(&mut second, "GET /peer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    let early = tokio::time::timeout(Duration::from_secs(1), second.read_u8()).await;
    assert!(early.is_err());
    service.go.notify_one();
    assert!(rest(&mut first).await.ends_with("done"));
    assert!(rest(&mut second).await.starts_with("HTTP/1.1 200 "));
}

/// Before: all slots were the first caller's, until its connections idled out.
#[tokio::test]
async fn an_address_has_a_share_of_the_connections_and_is_told_so_beyond_it() {
    let limits = Limits { max_connections: 8, per_address: 2, ..Limits::default() };
    let service = Service::start(limits).await;
    let ask = "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut stream = service.connect().await;
        send(&mut stream, ask).await;
        let answer = until(&mut stream, "127.0.0.1:").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        idle.push(stream);
    }
    for _ in 0..20 {
        let mut refused = service.connect().await;
        send(&mut refused, ask).await;
        let answer = rest(&mut refused).await;
        assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
        assert!(answer.contains("connection: close") && answer.contains("retry-after: 5"));
        assert!(answer.contains("connections_per_address"), "{answer}");
    }
    let other = tokio::net::TcpSocket::new_v4().expect("a socket");
    other.bind("127.0.0.2:0".parse().expect("an address")).expect("all of 127/8 is loopback");
    let mut other = other.connect(service.address).await.expect("it listens");
    send(&mut other, "GET /peer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(rest(&mut other).await.starts_with("HTTP/1.1 200 "));
    // One that closes makes room.
    idle.pop();
    let room = async {
        loop {
            let mut stream = service.connect().await;
            send(&mut stream, "GET /peer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
            if rest(&mut stream).await.starts_with("HTTP/1.1 200 ") {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), room).await.expect("there is room again");
}

#[tokio::test]
async fn a_proxy_has_no_share() {
    let proxies = ["127.0.0.0/8".parse().expect("a network")].into();
    let limits = Limits { per_address: 1, proxies, ..Limits::default() };
    let service = Service::start(limits).await;
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut stream = service.connect().await;
        send(&mut stream, "GET /peer HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(until(&mut stream, "\r\n").await.starts_with("HTTP/1.1 200 "));
        open.push(stream);
    }
}

#[tokio::test]
async fn an_answer_429_closes_its_connection_and_no_other_refusal_does() {
    let service = Service::start(Limits::default()).await;
    let mut stream = service.connect().await;
    send(&mut stream, "GET /busy HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let answer = until(&mut stream, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && !answer.contains("connection: close"));
    send(&mut stream, "GET /limited HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let answer = rest(&mut stream).await;
    assert!(answer.contains("HTTP/1.1 429 ") && answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn a_socket_is_upgraded_and_keeps_its_slot_until_it_closes() {
    let service = Service::start(Limits::default()).await;
    let address = format!("ws://{}/ws", service.address);
    let (mut socket, answer) = tokio_tungstenite::connect_async(address).await.expect("upgraded");
    assert_eq!(answer.headers()["x-frame-options"], "DENY");
    socket.send(Message::text("hi")).await.expect("it is open");
    let echoed = socket.next().await.expect("an answer").expect("a frame");
    assert_eq!(echoed, Message::text("hi"));

    service.stop.send(()).expect("it is serving");
    socket.send(Message::text("still")).await.expect("it is open");
    assert!(socket.next().await.is_some());
    assert!(!service.ended.is_finished());
    socket.close(None).await.expect("it is open");
    assert!(service.ended.await.expect("it does not panic").is_ok());
}

#[tokio::test]
async fn a_socket_path_asked_without_an_upgrade_refuses_in_the_envelope() {
    let service = Service::start(Limits::default()).await;
    let mut stream = service.connect().await;
    send(&mut stream, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    let answer = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains(r#""code":"VALIDATION_ERROR""#), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_of_an_answer_loses_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).await.expect("it listens");
    let (stream, _, slot) =
        accept(&listener, &Arc::new(Semaphore::new(1)), &Silent::default()).await;
    let mut server = CountedConnection { stream, _slot: slot, _share: None, stalled: None };
    let (piece, began) = (vec![0; 1 << 16], tokio::time::Instant::now());
    let error = loop {
        if let Err(error) = server.write_all(&piece).await {
            break error;
        }
    };
    assert_eq!((error.kind(), began.elapsed().as_secs()), (io::ErrorKind::TimedOut, 60));
    drop(client);
}

#[tokio::test]
async fn half_sent_requests_keep_nobody_out() {
    let limits = Limits {
        header_timeout: Duration::from_hours(1),
        max_connections: 8,
        per_address: 8,
        ..Limits::default()
    };
    let service = Service::start(limits).await;
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut stream = service.connect().await;
        stream.write_all(b"GET /peer HTTP/1.1\r\nhost: a").await.expect("it is open");
        held.push(stream);
    }
    // One that works is not closed, however long it takes.
    let mut stream = service.connect().await;
    stream
        .write_all(b"GET /peer HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .await
        .expect("open");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_probe_beyond_the_share_of_its_address_learns_that_the_process_lives() {
    let service = Service::start(Limits { per_address: 1, ..Limits::default() }).await;
    let _held = service.connect().await;
    for (path, status) in [("/health/live", "200"), ("/peer", "429")] {
        let mut stream = service.connect().await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("it is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
    }
}
