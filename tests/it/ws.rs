//! `/ws` and the streams of one item (docs/reference/events.md).

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::{Client, FakeWorker, Server};

mod names;
mod parity;
mod resume;
mod stream;

const PATIENCE: Duration = Duration::from_mins(1);

/// A client of `/ws`.
struct Ws(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Ws {
    /// A connection with these headers; or the status of the refusal.
    async fn open(url: &str, query: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let url = format!("{}/ws{query}", url.replace("http", "ws"));
        let mut request = url.into_client_request().expect("an address");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(_) => Err(0),
        }
    }

    /// A connection of this key; the server has said that it is ready.
    async fn connect(url: &str, key: &str) -> Self {
        Self::try_connect(url, key).await.expect("a connection")
    }

    async fn try_connect(url: &str, key: &str) -> Result<Self, u16> {
        let bearer = format!("Bearer {key}");
        let mut ws = Self::open(url, "", &[("authorization", &bearer)]).await?;
        let ready = ws.next().await.map_err(|()| 0_u16)?;
        assert_eq!((&ready["type"], &ready["heartbeatMs"]), (&json!("ready"), &json!(30_000)));
        Ok(ws)
    }

    async fn send(&mut self, frame: Value) {
        let _ = self.0.send(Message::text(frame.to_string())).await;
    }

    /// Subscribes, and returns what the server says of it.
    async fn subscribe(&mut self, sub: &str, mut rest: Value) -> Value {
        (rest["type"], rest["id"], rest["sub"]) = ("subscribe".into(), 1.into(), sub.into());
        self.send(rest).await;
        let subscribed = self.expect("subscribed").await;
        assert_eq!((&subscribed["id"], &subscribed["sub"]), (&json!(1), &json!(sub)));
        subscribed
    }

    /// The next frame; `Err` once the connection is closed.
    async fn next(&mut self) -> Result<Value, ()> {
        loop {
            match timeout(PATIENCE, self.0.next()).await.expect("a frame in time") {
                Some(Ok(Message::Text(text))) => {
                    return Ok(serde_json::from_str(&text).expect("JSON"));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(_) | Err(_)) | None => return Err(()),
            }
        }
    }

    /// The next frame, which is of this type.
    async fn expect(&mut self, kind: &str) -> Value {
        let frame = self.next().await.expect("the socket is open");
        assert_eq!(frame["type"], kind, "{frame}");
        frame
    }

    /// The code with which the server closes, after a `bye` with the same; other frames are passed over.
    async fn closed(&mut self) -> u16 {
        self.closed_or_reset().await.expect("a close frame")
    }

    /// The same; `None` if the server ended the connection without a handshake.
    async fn closed_or_reset(&mut self) -> Option<u16> {
        let mut bye = None;
        loop {
            match timeout(PATIENCE, self.0.next()).await.expect("a close in time") {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).expect("JSON");
                    if frame["type"] == "bye" {
                        bye = frame["code"].as_u64();
                    }
                }
                Some(Ok(Message::Close(Some(close)))) => {
                    let code = u16::from(close.code);
                    assert_eq!(bye, Some(u64::from(code)));
                    return Some(code);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

#[tokio::test]
async fn a_client_says_who_it_is_by_header_query_or_first_frame() {
    let server = Server::start();
    let (viewer, worker) = (server.key("viewer").await, server.key("worker").await);
    let open = async |query: &str, key: &str| {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str())];
        let headers = if key.is_empty() { &[][..] } else { &headers };
        Ws::open(&server.url, query, headers).await.map(drop)
    };
    assert_eq!(open("", &viewer).await, Ok(()));
    assert_eq!(open(&format!("?api_key={viewer}"), "").await, Ok(()));
    assert_eq!(open("", "svc_live_x").await, Err(401));
    assert_eq!(open("?api_key=svc_live_x", "").await, Err(401));
    assert_eq!(open("", &worker).await, Err(403));
    let anybody = Client::new(&server.url, "");
    assert_eq!(anybody.get("/ws").await.refused(401), "UNAUTHORIZED");

    let by_frame = async |frame: Value| {
        let mut ws = Ws::open(&server.url, "", &[]).await.expect("a connection");
        ws.send(frame).await;
        ws
    };
    let mut ws = by_frame(json!({"type": "auth", "token": viewer})).await;
    let ready = ws.expect("ready").await;
    assert_eq!(ready["user"]["role"], "viewer");
    let mut ws = by_frame(json!({"type": "auth", "token": "svc_live_x"})).await;
    assert_eq!(ws.closed().await, 4401);
    let mut ws = by_frame(json!({"type": "auth", "token": worker})).await;
    assert_eq!(ws.closed().await, 4403);
    let mut ws = by_frame(json!({"type": "ping"})).await;
    assert_eq!(ws.closed().await, 4401);
    let mut silent = Ws::open(&server.url, "", &[]).await.expect("a connection");
    let begun = Instant::now();
    assert_eq!(silent.closed().await, 4401);
    assert!(begun.elapsed() > Duration::from_secs(9));
}

#[tokio::test]
async fn a_foreign_page_is_refused() {
    let server = Server::with(&[("SERVER__ALLOWED_ORIGINS", "https://board.example.com")]);
    let key = format!("Bearer {}", server.key("viewer").await);
    let open = async |origin: &str| {
        let headers = [("authorization", key.as_str()), ("origin", origin)];
        Ws::open(&server.url, "", &headers).await.map(drop)
    };
    assert_eq!(open(&server.url).await, Ok(()));
    assert_eq!(open("https://board.example.com").await, Ok(()));
    for foreign in ["https://evil.example.com", "null", "https://board.example.com.evil.com"] {
        assert_eq!(open(foreign).await, Err(403), "{foreign}");
    }
}

#[tokio::test]
async fn a_subscription_tells_what_it_names_and_nothing_else() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut ws = Ws::connect(&server.url, &server.key("viewer").await).await;
    let subscribed =
        ws.subscribe("all", json!({"events": ["task.*"], "filter": {"tags": ["t"]}})).await;
    assert_eq!((&subscribed["resumed"], &subscribed["id"]), (&json!(false), &json!(1)));
    ws.subscribe("created", json!({"events": ["task.created"]})).await;
    client.submit(&json!({"prompt": "p", "queue": "q"})).await;
    let id = client.submit(&json!({"prompt": "p", "tags": ["t"], "queue": "q"})).await;
    let first = ws.expect("event").await;
    assert_eq!((&first["sub"], &first["prev"]), (&json!("created"), &Value::Null));
    let mut both = [ws.expect("event").await, ws.expect("event").await];
    both.sort_by_key(|frame| frame["sub"].to_string());
    let [of_all, of_created] = &both;
    assert_eq!((&of_all["sub"], &of_all["resource"]["id"]), (&json!("all"), &json!(id)));
    assert_eq!(of_created["prev"], first["cursor"]);
    assert_eq!(of_all["data"]["status"], "pending");
    assert!(of_all["resource"]["version"].is_u64());

    ws.send(json!({"type": "unsubscribe", "sub": "created"})).await;
    ws.send(json!({"type": "ping", "id": "p"})).await;
    assert_eq!(ws.expect("pong").await["id"], "p");
    client.delete(&format!("/api/tasks/{id}")).await.expect_ok();
    let cancelled = ws.expect("event").await;
    assert_eq!((&cancelled["event"], &cancelled["sub"]), (&json!("task.cancelled"), &json!("all")));
    assert_eq!(cancelled["prev"], of_all["cursor"]);

    // The sandbox's events are not the live ones.
    let admin = server.admin().await;
    let test = json!({"name": "t", "role": "viewer", "environment": "test"});
    let test = admin.post("/api/auth/keys", &test).await.expect(201);
    let mut sandbox = Ws::connect(&server.url, test["key"].as_str().expect("a key")).await;
    sandbox.subscribe("s", json!({"events": ["*"]})).await;
    client.submit(&json!({"prompt": "p"})).await;
    sandbox.send(json!({"type": "ping"})).await;
    sandbox.expect("pong").await;
}

#[tokio::test]
async fn bad_frames_are_told_or_close_the_socket() {
    let server = Server::start();
    let key = server.key("viewer").await;
    let mut ws = Ws::connect(&server.url, &key).await;
    for (frame, says) in [
        (json!({"id": 3}), "type"),
        (json!({"type": "x", "id": 3}), "type"),
        (json!({"type": "subscribe", "id": 3}), "sub"),
        (json!({"type": "subscribe", "id": 3, "sub": "s", "events": "*"}), "events"),
        (json!({"type": "subscribe", "id": 3, "sub": "s", "events": ["task.done"]}), "events[0]"),
        (
            json!({"type": "subscribe", "id": 3, "sub": "s", "events": ["*"], "resume": "x"}),
            "resume",
        ),
        (json!({"type": "unsubscribe", "id": 3, "sub": "s"}), "subscription s"),
        (json!({"type": "auth", "id": 3, "token": key}), "authenticated"),
    ] {
        ws.send(frame.clone()).await;
        let error = ws.expect("error").await;
        assert_eq!(error["id"], 3);
        let text = error["error"].to_string();
        assert!(text.contains(says), "{frame}: {text}");
    }
    ws.subscribe("s", json!({"events": ["*"]})).await;
    ws.send(json!({"type": "subscribe", "id": 3, "sub": "s", "events": ["*"]})).await;
    assert_eq!(ws.expect("error").await["error"]["code"], "INVALID_STATE");

    for (message, code) in [
        (Message::text("nonsense"), 4400),
        (Message::text("[1]"), 4400),
        (Message::binary(vec![0x7b, 0x7d]), 1003),
        (Message::text(format!("{{\"type\":\"ping\",\"x\":\"{}\"}}", "x".repeat(70_000))), 1009),
    ] {
        let mut ws = Ws::connect(&server.url, &key).await;
        let _ = ws.0.send(message).await;
        assert_eq!(ws.closed().await, code);
    }
    let mut ws = Ws::connect(&server.url, &key).await;
    for _ in 0..200 {
        let _ = ws.0.feed(Message::text(r#"{"type":"ping"}"#)).await;
    }
    let _ = ws.0.flush().await;
    assert_eq!(ws.closed().await, 4429);
}

#[tokio::test]
async fn a_lost_right_closes_the_socket() {
    let server = Server::start();
    let admin = server.admin().await;
    let made =
        admin.post("/api/auth/keys", &json!({"name": "k", "role": "viewer"})).await.expect(201);
    let mut ws = Ws::connect(&server.url, made["key"].as_str().expect("a key")).await;
    let revoke = format!("/api/auth/keys/{}", made["id"].as_str().expect("an id"));
    let begun = Instant::now();
    admin.delete(&revoke).await.expect_ok();
    assert_eq!(ws.closed().await, 4401);
    assert!(begun.elapsed() < Duration::from_secs(5));

    let user =
        json!({"email": "u@example.com", "password": "correct horse battery 1", "role": "viewer"});
    let user = admin.post("/api/auth/users", &user).await.expect(201);
    let login = json!({"email": "u@example.com", "password": "correct horse battery 1"});
    let login = Client::new(&server.url, "").post("/api/auth/login", &login).await.expect_ok();
    let mut ws = Ws::connect(&server.url, login["token"].as_str().expect("a token")).await;
    let path = format!("/api/auth/users/{}", user["id"].as_str().expect("an id"));
    let request = admin.request(Method::PATCH, &path).json(&json!({"role": "worker"}));
    admin.send(request).await.expect_ok();
    assert_eq!(ws.closed().await, 4403);
}

#[tokio::test]
async fn no_event_is_told_after_the_end_of_a_session_its_user_or_the_one_who_made_a_key() {
    let server = Server::start();
    let admin = server.admin().await;
    let anybody = Client::new(&server.url, "");
    let password = "correct horse battery 1";
    let user = async |email: &str, role: &str| {
        let user = json!({"email": email, "password": password, "role": role});
        let user = admin.post("/api/auth/users", &user).await.expect(201);
        let login = json!({"email": email, "password": password});
        let login = anybody.post("/api/auth/login", &login).await.expect_ok();
        let token = login["token"].as_str().expect("a token").to_owned();
        (user["id"].as_str().expect("an id").to_owned(), token)
    };
    let (_, leaves) = user("leaves@example.com", "viewer").await;
    let (deleted, token) = user("deleted@example.com", "viewer").await;
    let (maker, of_maker) = user("maker@example.com", "admin").await;
    let key = json!({"name": "k", "role": "viewer"});
    let key = Client::new(&server.url, &of_maker).post("/api/auth/keys", &key).await.expect(201);
    let key = key["key"].as_str().expect("a key").to_owned();
    let mut sockets = Vec::new();
    for credential in [&leaves, &token, &key] {
        let mut ws = Ws::connect(&server.url, credential).await;
        ws.subscribe("s", json!({"events": ["task.created"]})).await;
        sockets.push(ws);
    }
    let logout = Client::new(&server.url, &leaves).post("/api/auth/logout", &json!({})).await;
    logout.expect_ok();
    for id in [&deleted, &maker] {
        admin.delete(&format!("/api/auth/users/{id}")).await.expect_ok();
    }
    admin.submit(&json!({"prompt": "p"})).await;
    for mut ws in sockets {
        let bye = ws.expect("bye").await;
        assert_eq!(bye["code"], 4401, "no event comes before it");
    }
}

#[tokio::test]
async fn sockets_and_streams_share_a_cap() {
    let server = Server::with(&[("LIMITS__STREAMS", "2")]);
    let client = server.client("operator").await;
    let key = server.key("operator").await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let own = Client::new(&server.url, &key);
    let first = Ws::connect(&server.url, &key).await;
    let request = own.request(Method::GET, &format!("/api/tasks/{id}/stream"));
    let stream = request.send().await.expect("an answer");
    assert_eq!(stream.status().as_u16(), 200);
    assert_eq!(Ws::try_connect(&server.url, &key).await.map(drop), Err(429));
    assert_eq!(own.get("/api/events").await.refused(429), "RATE_LIMIT_EXCEEDED");
    let streamed = own.post("/api/tasks?stream=true", &json!({"prompt": "p"})).await;
    assert_eq!(streamed.refused(429), "RATE_LIMIT_EXCEEDED");
    let mut late = Ws::open(&server.url, "", &[]).await.expect("a connection");
    late.send(json!({"type": "auth", "token": key})).await;
    assert_eq!(late.closed().await, 4429);
    drop(first);
    crate::support::until("the socket is gone", async || {
        Ws::try_connect(&server.url, &key).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn deltas_progress_and_depths_pass_every_filter_that_fits() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut ws = Ws::connect(&server.url, &server.key("viewer").await).await;
    let plan = client
        .plan(&json!([{"id": "a", "prompt": "p"}, {"id": "b", "prompt": "q", "dependsOn": ["a"]}]))
        .await;
    ws.subscribe("depth", json!({"events": ["queue.depth"], "filter": {"queue": "default"}})).await;
    let execution = client.execute(&plan, &json!({})).await;
    let depth = ws.expect("event").await;
    assert_eq!(depth["resource"]["kind"], "queue");
    assert_eq!(depth["data"], json!({"queue": "default", "depth": 1}));
    assert!(depth.get("cursor").is_none() && depth["resource"]["version"].is_u64());
    let of_execution = json!({"events": ["task.delta", "execution.*", "step.*"], "filter": {"executionId": execution}});
    ws.subscribe("run", of_execution).await;
    let by_queue = json!({"events": ["task.delta"], "filter": {"queue": "default"}});
    ws.subscribe("queue", by_queue).await;
    ws.subscribe("other", json!({"events": ["task.delta"], "filter": {"queue": "other"}})).await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let mut seen = Vec::new();
    for output in ["one", "two"] {
        let assigned = worker.assignment().await;
        worker.send(json!({"type": "delta", "lease": assigned["lease"], "text": output})).await;
        worker.complete(&assigned["lease"], output).await;
    }
    while seen.last().is_none_or(|(_, event, _)| event != "execution.completed") {
        let frame = ws.expect("event").await;
        assert!(frame["resource"]["version"].is_u64(), "{frame}");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        seen.push((text(&frame["sub"]), text(&frame["event"]), frame["data"].clone()));
    }
    let deltas = |sub: &str| seen.iter().filter(|it| it.0 == sub && it.1 == "task.delta").count();
    assert_eq!((deltas("run"), deltas("queue"), deltas("other")), (2, 2, 0));
    let of = |event: &str| seen.iter().find(|it| it.1 == event).map(|it| &it.2).expect("it came");
    assert_eq!(of("execution.progress")["progress"]["completed"], 1);
    assert_eq!(of("execution.progress")["progress"]["total"], 2);
    assert_eq!(of("execution.completed")["progress"]["completed"], 2);
}

#[tokio::test]
async fn a_stopping_server_says_so() {
    let mut server = Server::start();
    let key = server.key("viewer").await;
    let mut ws = Ws::connect(&server.url, &key).await;
    let client = server.client("viewer").await;
    let events = client.request(Method::GET, "/api/events").send().await.expect("an answer");
    let begun = Instant::now();
    let stopped = tokio::task::spawn_blocking(move || server.terminate());
    assert_eq!(ws.closed().await, 1012);
    assert!(events.bytes().await.is_ok(), "the stream ends in order");
    assert!(stopped.await.expect("it ends"));
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// Before: as many as the rate let in, each for the ten seconds until its credentials were due.
#[tokio::test]
async fn an_address_has_fifty_sockets_that_have_not_said_who_they_are() {
    let server = Server::start();
    let key = server.key("viewer").await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(Ws::open(&server.url, "", &[]).await.expect("there is room"));
    }
    assert_eq!(Ws::open(&server.url, "", &[]).await.err(), Some(429));
    // Those with credentials are counted for their account.
    Ws::connect(&server.url, &key).await;
    let known = silent.last_mut().expect("there are fifty");
    known.send(json!({"type": "auth", "token": key})).await;
    known.expect("ready").await;
    silent.push(Ws::open(&server.url, "", &[]).await.expect("one of them has an account now"));
    assert_eq!(Ws::open(&server.url, "", &[]).await.err(), Some(429));
    silent.clear();
    let again = async || Ws::open(&server.url, "", &[]).await.is_ok();
    crate::support::until("those that left have given back their room", again).await;
}
