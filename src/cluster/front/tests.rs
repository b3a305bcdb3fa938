use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::response::IntoResponse;
use axum::routing::{any, get, post};
use callboard_common::secret::Secret;
use hyper::upgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::forward::KEPT;
use super::*;
use crate::cluster::tests::plain_http;
use crate::http::Edge;
use crate::http::serve::{Limits, serve};

fn front() -> Front {
    let key = ClusterKey::new(&Secret::new("the key of the tests".into()));
    let body_timeout = Duration::from_secs(1);
    let fault = Box::new(|| Some("the disk is full".to_owned()));
    Front::new(key, body_timeout, || Timestamp::from_millis(1_800_000_000_000), fault)
}

/// Serves a front until the test ends.
async fn served(front: &Front) -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let front = front.clone();
    tokio::spawn(async move {
        let _ = serve(listener, None, front, Limits::default(), std::future::pending()).await;
    });
    Url::parse(&format!("http://{address}")).expect("a URL")
}

/// An active node with these routes.
fn active(router: Router) -> Role {
    current_while(router, Arc::new(AtomicBool::new(true)))
}

/// The same, as long as this is true.
fn current_while(router: Router, current: Arc<AtomicBool>) -> Role {
    let service = Middleware::new(router, Edge::default());
    let is_current = Arc::new(move || current.load(Ordering::Relaxed));
    let failed = FailedReads::default();
    Role::Active { service, is_current, failed, cells: None, _handling: mpsc::channel(1).0 }
}

/// A node that echoes the request and the caller's address.
fn echo() -> Router {
    let echo = |ConnectInfo(caller): ConnectInfo<SocketAddr>, request: Request| async move {
        let noted = request.headers().contains_key(FORWARDED);
        let target = request.uri().to_string();
        let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.expect("a body");
        let body = String::from_utf8_lossy(&body).into_owned();
        (StatusCode::CREATED, format!("{caller} {noted} {target} {body}"))
    };
    Router::new().route("/echo", post(echo)).route("/socket", any(socket))
}

/// A socket that returns every byte.
async fn socket(mut request: Request) -> Response {
    let upgrade = upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut socket = TokioIo::new(upgrade.await.expect("a socket"));
        let mut byte = [0];
        while socket.read_exact(&mut byte).await.is_ok() {
            socket.write_all(&byte).await.expect("the caller reads");
        }
    });
    let headers = [(CONNECTION, "upgrade"), (UPGRADE, "bytes")];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

async fn ask(node: &Url, path: &str, body: &'static str) -> (u16, String) {
    let client = plain_http();
    let asked = client.post(node.join(path).expect("a path")).body(body);
    // A forged header is worth nothing.
    let asked = asked.header(FORWARDED, "0;n;192.0.2.1:1;1800000000000;00");
    let answer = asked.send().await.expect("an answer");
    (answer.status().as_u16(), answer.text().await.expect("a text"))
}

#[tokio::test]
async fn a_request_to_a_standby_is_answered_by_the_active_node_and_keeps_its_caller() {
    let (first, second) = (front(), front());
    first.set_role(active(echo()));
    let node = served(&first).await;
    second.set_role(Role::Standby(Some(node)));
    let standby = served(&second).await;
    for round in 0..3 {
        let path = format!("/echo?round={round}");
        let (status, text) = ask(&standby, &path, "words").await;
        assert_eq!(status, 201, "{text}");
        let (caller, rest) = text.split_once(' ').expect("two parts");
        assert!(caller.starts_with("127.0.0.1:"), "{caller}");
        assert_eq!(rest, format!("false {path} words"));
    }
    assert_eq!(ask(&standby, "/nowhere", "").await.0, 404);
}

#[tokio::test]
async fn a_request_waits_for_the_node_that_takes_over() {
    let front = front();
    // Nobody listens there any more.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let dead = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    front.set_role(Role::Standby(Some(Url::parse(&dead).expect("a URL"))));
    let node = served(&front).await;
    let asked = tokio::spawn(async move { ask(&node, "/echo", "words").await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!asked.is_finished(), "it waits");
    front.set_role(Role::Standby(None));
    front.set_role(active(echo()));
    let (status, text) = asked.await.expect("an answer");
    assert_eq!(status, 201);
    assert!(text.ends_with("/echo words"), "{text}");
}

#[tokio::test]
async fn health_without_an_active_node_is_told_at_once_and_with_its_reason() {
    let client = plain_http();
    let node = served(&front()).await;
    for (path, said) in [
        ("/health", r#""database":{"status":"unavailable","detail":"the disk is full"}"#),
        ("/api/health", r#""detail":"no node of the cluster is active""#),
        (
            "/health/ready",
            r#"{"status":"unavailable","detail":"no node of the cluster is active"}"#,
        ),
        ("/health/database", r#"{"status":"unavailable","detail":"the disk is full"}"#),
    ] {
        let asked = client.get(node.join(path).expect("a path")).timeout(PATIENCE / 2);
        let answer = asked.send().await.expect("an answer in time");
        assert_eq!(answer.status().as_u16(), 503, "{path}");
        let text = answer.text().await.expect("a text");
        assert!(text.contains(said), "{path}: {text}");
    }
}

#[tokio::test]
async fn the_bodies_of_requests_that_wait_are_counted() {
    let standby = front();
    let url = served(&standby).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = gone.local_addr().expect("an address");
    drop(gone);
    let dead = Url::parse(&format!("http://{address}")).expect("a URL");
    standby.set_role(Role::Standby(Some(dead)));
    let body: &'static str = "b".repeat(1_000).leak();
    let asked: Vec<_> = (0..3)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { ask(&url, "/echo", body).await })
        })
        .collect();
    let left = || KEPT_IN_ALL - standby.0.room.available_permits();
    for _ in 0..100 {
        if left() < 3_000 {
            tokio::time::sleep(PAUSE / 10).await;
        }
    }
    for _ in 0..20 {
        tokio::time::sleep(PAUSE / 10).await;
        assert_eq!(left(), 3_000, "they wait for their node");
    }
    standby.set_role(active(echo()));
    for answer in asked {
        assert_eq!(answer.await.expect("an answer").0, 201);
    }
    assert_eq!(left(), 0);
}

#[tokio::test]
async fn a_request_whose_node_is_replaced_before_it_answers_is_refused() {
    let (first, second) = (front(), front());
    let reached = Arc::new(Notify::new());
    let arrival = Arc::clone(&reached);
    let silent = move || async move {
        arrival.notify_one();
        std::future::pending::<()>().await;
    };
    first.set_role(active(Router::new().route("/echo", post(silent))));
    second.set_role(Role::Standby(Some(served(&first).await)));
    let standby = served(&second).await;
    let asked = tokio::spawn(async move { ask(&standby, "/echo", "").await });
    reached.notified().await;
    second.set_role(active(echo()));
    let (status, text) = asked.await.expect("an answer");
    assert_eq!(status, 503);
    assert!(text.contains("may have been handled"), "{text}");
}

#[tokio::test]
async fn a_request_that_reaches_a_node_which_is_not_active_any_more_waits_for_the_next_one() {
    let (first, second, third) = (front(), front(), front());
    first.set_role(Role::Standby(None));
    second.set_role(Role::Standby(Some(served(&first).await)));
    let standby = served(&second).await;
    let waiting = |body: &'static str| {
        let standby = standby.clone();
        tokio::spawn(async move { ask(&standby, "/echo", body).await })
    };
    let asked = [waiting("words"), waiting("")];
    tokio::time::sleep(PAUSE * 3).await;
    assert!(asked.iter().all(|asked| !asked.is_finished()), "they wait");
    third.set_role(active(echo()));
    second.set_role(Role::Standby(Some(served(&third).await)));
    for (asked, body) in asked.into_iter().zip(["words", ""]) {
        let (status, text) = asked.await.expect("an answer");
        assert_eq!(status, 201, "{text}");
        assert!(text.ends_with(&format!("/echo {body}")), "{text}");
    }
    // Of a large one nobody has a copy: its caller repeats it.
    second.set_role(Role::Standby(Some(served(&first).await)));
    let large = plain_http().post(standby.join("/echo").expect("a path"));
    let refused = large.body(vec![b'x'; KEPT as usize + 1]).send().await.expect("an answer");
    assert_eq!(refused.status().as_u16(), 503);
    assert!(!refused.headers().contains_key(NOT_HANDLED), "callers learn nothing of it");
}

#[tokio::test]
async fn a_small_body_that_does_not_arrive_is_refused_in_time() {
    let (first, standby) = (front(), front());
    first.set_role(active(echo()));
    standby.set_role(Role::Standby(Some(served(&first).await)));
    let standby = served(&standby).await;
    let address = standby.socket_addrs(|| None).expect("an address")[0];
    let mut caller = TcpStream::connect(address).await.expect("it listens");
    let begun = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc";
    caller.write_all(begun).await.expect("it is sent");
    let mut answer = [0; 12];
    let read = tokio::time::timeout(PATIENCE, caller.read_exact(&mut answer)).await;
    read.expect("it comes in time").expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[tokio::test]
async fn nodes_that_take_each_other_for_the_active_one_do_not_go_round_in_circles() {
    let (first, second) = (front(), front());
    let (one, two) = (served(&first).await, served(&second).await);
    first.set_role(Role::Standby(Some(two)));
    second.set_role(Role::Standby(Some(one.clone())));
    let asked = tokio::spawn(async move { ask(&one, "/echo", "words").await });
    tokio::time::sleep(PAUSE * 3).await;
    assert!(!asked.is_finished(), "it waits");
    second.set_role(active(echo()));
    assert_eq!(asked.await.expect("an answer").0, 201);
}

#[tokio::test]
async fn an_active_node_whose_time_is_over_does_not_answer() {
    let (front, current) = (front(), Arc::new(AtomicBool::new(true)));
    front.set_role(current_while(echo(), Arc::clone(&current)));
    let node = served(&front).await;
    assert_eq!(ask(&node, "/echo", "").await.0, 201);
    current.store(false, Ordering::Relaxed);
    let asked = tokio::spawn(async move { ask(&node, "/echo", "words").await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!asked.is_finished(), "it waits");
    front.set_role(active(echo()));
    assert_eq!(asked.await.expect("an answer").0, 201);
}

/// A socket at this node.
async fn upgraded(node: &Url) -> TcpStream {
    let address = node.socket_addrs(|| None).expect("an address")[0];
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let asked = "GET /socket HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: bytes\r\n\r\n";
    stream.write_all(asked.as_bytes()).await.expect("it is sent");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    let head = String::from_utf8(head).expect("a head");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream
}

#[tokio::test]
async fn a_socket_reaches_through_a_standby_and_ends_with_the_part_of_its_node() {
    let (first, second) = (front(), front());
    first.set_role(active(Router::new().route("/socket", get(socket))));
    second.set_role(Role::Standby(Some(served(&first).await)));
    let standby = served(&second).await;
    let mut stream = upgraded(&standby).await;
    stream.write_all(b"to and fro").await.expect("it is sent");
    let mut back = [0; 10];
    stream.read_exact(&mut back).await.expect("it comes back");
    assert_eq!(&back, b"to and fro");
    second.set_role(Role::Standby(None));
    assert_eq!(stream.read(&mut back).await.expect("an end"), 0);
}

/// A way to a node that can be cut: connections are taken and bytes are swallowed, as when a network drops them.
struct Way {
    url: Url,
    is_cut: watch::Sender<bool>,
}

impl Way {
    async fn to(node: &Url) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (is_cut, cut) = watch::channel(false);
        let port = node.port().expect("a port");
        tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                let mut cut = cut.clone();
                tokio::spawn(async move {
                    let mut node = TcpStream::connect(("127.0.0.1", port)).await.expect("a node");
                    let passing = tokio::io::copy_bidirectional(&mut caller, &mut node);
                    let cut = async move { drop(cut.wait_for(|cut| *cut).await) };
                    tokio::select! {
                        biased;
                        () = cut => std::future::pending().await,
                        _ = passing => {}
                    }
                });
            }
        });
        let url = Url::parse(&format!("http://{address}")).expect("a URL");
        Self { url, is_cut }
    }
}

/// Before: a request on an open connection waited for its answer as long as its caller did.
#[tokio::test]
async fn a_node_that_is_not_heard_any_more_is_given_up_within_the_patience() {
    let answering = front();
    answering.set_role(active(echo()));
    let way = Way::to(&served(&answering).await).await;
    let standby = front();
    standby.set_role(Role::Standby(Some(way.url.clone())));
    let url = served(&standby).await;
    assert_eq!(ask(&url, "/echo", "words").await.0, 201);
    let mut socket = upgraded(&url).await;
    way.is_cut.send_replace(true);
    let begun = Instant::now();
    let (status, text) = ask(&url, "/echo", "words").await;
    assert_eq!(status, 503, "{text}");
    assert!(begun.elapsed() <= PATIENCE, "{:?}", begun.elapsed());
    assert_eq!(socket.read(&mut [0]).await.expect("an end"), 0, "the socket is closed");
    way.is_cut.send_replace(false);
    assert_eq!(ask(&url, "/echo", "words").await.0, 201, "it is heard again");
}
