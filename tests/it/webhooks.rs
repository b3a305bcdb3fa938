//! Webhooks: the real server, and receivers on this machine.

mod addresses;
mod executions;
mod kills;
mod receivers;
pub(crate) mod rotation;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::support::{Client, FakeWorker, Server, until};

/// Receivers on this machine may be called.
pub(crate) const ALLOWED: (&str, &str) = ("WEBHOOKS__ALLOW", "127.0.0.1/32");

/// A webhook as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    path: String,
    headers: HeaderMap,
    pub(crate) body: Value,
    at: Instant,
}

impl Arrived {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().expect("ASCII")
    }
}

/// A receiver that answers with the statuses it was given, and then with 204. It never answers at `/hang`, and
/// `/echo` repeats the body.
#[derive(Clone, Default)]
pub(crate) struct Receiver {
    port: u16,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    answers: Arc<Mutex<VecDeque<(u16, &'static str)>>>,
    /// The header `Location` of each answer, if there is one.
    location: Option<String>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::answering(&[]).await
    }

    /// Statuses, each with a value of `Retry-After` unless that is empty.
    pub(crate) async fn answering(answers: &[(u16, &'static str)]) -> Self {
        Self::starting(answers, None).await
    }

    async fn starting(answers: &[(u16, &'static str)], location: Option<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let answers = Arc::new(Mutex::new(answers.iter().copied().collect()));
        let receiver = Self { port, answers, location, ..Self::default() };
        let router = Router::new().route("/{*path}", post(take)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().expect("no panic").clone()
    }

    /// What arrived, once it is so much.
    pub(crate) async fn after(&self, count: usize) -> Vec<Arrived> {
        until("the webhooks arrive", async || self.arrived().len() >= count).await;
        self.arrived()
    }
}

async fn take(
    State(receiver): State<Receiver>,
    Path(path): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, HeaderMap, String) {
    let (is_hung, is_echo) = (path == "hang", path == "echo");
    let text = String::from_utf8(body.into()).expect("UTF-8");
    let body = serde_json::from_str(&text).expect("JSON");
    let arrived = Arrived { path, headers, body, at: Instant::now() };
    receiver.arrived.lock().expect("no panic").push(arrived);
    if is_hung {
        std::future::pending::<()>().await;
    }
    let answer = receiver.answers.lock().expect("no panic").pop_front().unwrap_or((204, ""));
    let mut headers = HeaderMap::new();
    if !answer.1.is_empty() {
        headers.insert("retry-after", answer.1.parse().expect("a value"));
    }
    if let Some(location) = &receiver.location {
        headers.insert("location", location.parse().expect("a value"));
    }
    let words = if is_echo { text } else { String::new() };
    (StatusCode::from_u16(answer.0).expect("a status"), headers, words)
}

/// A server with a worker that answers each prompt with itself.
struct Fixture {
    server: Server,
    operator: Client,
}

impl Fixture {
    async fn with(settings: &[(&str, &str)]) -> Self {
        let server = Server::with(&[&[ALLOWED], settings].concat());
        let operator = server.client("operator").await;
        let fixture = Self { server, operator };
        fixture.work().await;
        fixture
    }

    /// Connects a worker.
    async fn work(&self) {
        let worker = FakeWorker::connect(&self.server, &self.server.key("worker").await, 8).await;
        worker.run(|task| Ok(task["prompt"].as_str().unwrap_or_default().to_owned()));
    }

    async fn submit(&self, prompt: &str, url: &str) -> String {
        self.operator.submit(&json!({"prompt": prompt, "callbackUrl": url})).await
    }

    async fn deliveries(&self, query: &str) -> Vec<Value> {
        let path = format!("/api/webhooks/deliveries?limit=100{query}");
        let listed = self.operator.get(&path).await.expect_ok();
        listed.as_array().expect("a list").clone()
    }

    /// The delivery of a task, once it has this status.
    async fn delivery(&self, task: &str, status: &str) -> Value {
        let found = async || self.deliveries(&format!("&taskId={task}&status={status}")).await;
        until("the delivery has the status", async || !found().await.is_empty()).await;
        found().await.remove(0)
    }
}

#[tokio::test]
async fn a_webhook_is_what_the_task_shows_and_is_listed() {
    let fixture = Fixture::with(&[]).await;
    let receiver = Receiver::start().await;
    let url = receiver.url("hook?a=1#b");
    let task = fixture.submit("an output", &url).await;
    let arrived = receiver.after(1).await.remove(0);
    let shown = fixture.operator.task(&task).await;
    assert_eq!(shown["callbackUrl"], url, "as it was given");
    let members: Vec<_> = arrived.body.as_object().expect("an object").keys().collect();
    let expected = ["event", "taskId", "status", "output", "usage", "completedAt", "signature"];
    assert_eq!(members, expected);
    assert_eq!(arrived.body["event"], "task.completed");
    assert_eq!(arrived.body["usage"], json!({"input": 3, "output": 5}));
    for (member, of_task) in [
        ("taskId", "id"),
        ("status", "status"),
        ("output", "output"),
        ("completedAt", "completedAt"),
    ] {
        assert_eq!(arrived.body[member], shown[of_task], "{member}");
    }
    assert_eq!(arrived.header("content-type"), "application/json");
    assert!(arrived.header("user-agent").starts_with("callboard/"));

    let delivery = fixture.delivery(&task, "delivered").await;
    assert_eq!(delivery["id"], arrived.header("webhook-id"));
    let told = [("kind", "webhook"), ("event", "task.completed"), ("url", &url), ("taskId", &task)];
    for (member, value) in told {
        assert_eq!(delivery[member], value, "{delivery}");
    }
    assert_eq!((&delivery["attempts"], &delivery["lastStatus"]), (&json!(1), &json!(204)));
    assert!(delivery["deliveredAt"].is_string() && delivery["createdAt"].is_string());
    assert!(delivery.get("lastError").is_none() && delivery.get("nextAttemptAt").is_none());
}

#[tokio::test]
async fn a_webhook_carries_the_trace_of_its_task() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let fixture = Fixture::with(&[]).await;
    let receiver = Receiver::start().await;
    let task = json!({"prompt": "p", "callbackUrl": receiver.url("hook")});
    let request = fixture.operator.request(reqwest::Method::POST, "/api/tasks");
    let request = request.header("traceparent", TRACE).json(&task);
    fixture.operator.send(request).await.expect(201);
    assert_eq!(receiver.after(1).await[0].header("traceparent"), TRACE);
    fixture.submit("untraced", &receiver.url("hook")).await;
    assert!(!receiver.after(2).await[1].headers.contains_key("traceparent"));
}

#[tokio::test]
async fn a_webhook_is_tried_again_until_it_is_taken_or_dead_and_can_be_sent_again() {
    let fixture = Fixture::with(&[("WEBHOOKS__RETRY_SECONDS", "1,1")]).await;
    let receiver = Receiver::answering(&[(500, ""), (503, "3"), (500, "")]).await;
    let task = fixture.submit("an output", &receiver.url("hook")).await;
    let dead = fixture.delivery(&task, "dead").await;
    assert_eq!((&dead["attempts"], &dead["lastStatus"]), (&json!(3), &json!(500)), "{dead}");
    assert_eq!(dead["lastError"], "the receiver answered 500");
    let arrived = receiver.arrived();
    let wait = |at: usize| (arrived[at + 1].at - arrived[at].at).as_secs_f64();
    assert!((0.7..2.5).contains(&wait(0)), "{}", wait(0));
    assert!((2.9..5.0).contains(&wait(1)), "Retry-After: {}", wait(1));

    let id = dead["id"].as_str().expect("an id");
    let path = format!("/api/webhooks/deliveries/{id}/redeliver");
    let pending = fixture.operator.post(&path, &json!({})).await.expect_ok();
    assert_eq!((&pending["id"], &pending["status"]), (&dead["id"], &json!("pending")));
    let delivered = fixture.delivery(&task, "delivered").await;
    assert_eq!(delivered["attempts"], 4);
    fixture.operator.post(&path, &json!({})).await.expect_ok();
    for arrived in receiver.after(5).await {
        assert_eq!(arrived.header("webhook-id"), id);
        assert_eq!(arrived.body, receiver.arrived()[0].body);
    }
    assert_eq!(fixture.deliveries("").await.len(), 1);
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_not_asked_again() {
    let fixture = Fixture::with(&[("WEBHOOKS__RETRY_SECONDS", "1,1")]).await;
    let receiver = Receiver::answering(&[(410, "")]).await;
    let task = fixture.submit("an output", &receiver.url("hook")).await;
    let dead = fixture.delivery(&task, "dead").await;
    assert_eq!((&dead["attempts"], &dead["lastStatus"]), (&json!(1), &json!(410)));
    assert_eq!(receiver.arrived().len(), 1);
}

#[tokio::test]
async fn other_ends_are_announced_only_if_they_are_listed() {
    let every = "task.completed,task.failed,task.cancelled,task.rejected";
    for (settings, expected) in [(&[][..], 0), (&[("WEBHOOKS__EVENTS", every)], 2)] {
        let server = Server::with(&[&[ALLOWED], settings].concat());
        let operator = server.client("operator").await;
        let receiver = Receiver::start().await;
        let url = receiver.url("hook");
        let cancelled = operator.submit(&json!({"prompt": "p", "callbackUrl": url})).await;
        operator.delete(&format!("/api/tasks/{cancelled}")).await.expect_ok();
        let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
        worker.run(|_| Err("no".to_owned()));
        let failed = operator.submit(&json!({"prompt": "p", "callbackUrl": url})).await;
        operator.task_with_status(&failed, "failed").await;
        let listed = operator.get("/api/webhooks/deliveries").await.expect_ok();
        assert_eq!(listed.as_array().expect("a list").len(), expected);
        let mut told: Vec<_> = receiver.after(expected).await;
        told.sort_by_key(|arrived| arrived.body["event"].to_string());
        for (arrived, (task, status)) in
            told.iter().zip([(&cancelled, "cancelled"), (&failed, "failed")])
        {
            assert_eq!(arrived.body["event"], format!("task.{status}"));
            assert_eq!(
                (&arrived.body["taskId"], &arrived.body["status"]),
                (&json!(task), &json!(status))
            );
            assert_eq!(arrived.body["output"], Value::Null);
            assert!(arrived.body["completedAt"].is_string());
        }
    }
}

#[tokio::test]
async fn what_a_reviewer_decides_is_announced() {
    let every = "task.completed,task.rejected";
    let fixture = Fixture::with(&[("WEBHOOKS__EVENTS", every)]).await;
    let receiver = Receiver::start().await;
    let (hitl, url) = (json!({"required": true}), receiver.url("hook"));
    let task = json!({"prompt": "a draft", "hitl": hitl, "callbackUrl": url});
    let mut held = Vec::new();
    for _ in 0..2 {
        let id = fixture.operator.submit(&task).await;
        fixture.operator.task_when(&id, |task| task["awaitingApproval"] == true).await;
        held.push(id);
    }
    assert!(receiver.arrived().is_empty(), "a held task has not ended");
    let edit = json!({"modifiedOutput": "an edited text"});
    let path = |of: usize, what: &str| format!("/api/hitl/{}/{what}", held[of]);
    fixture.operator.post(&path(0, "approve"), &edit).await.expect_ok();
    let arrived = receiver.after(1).await.remove(0);
    assert_eq!(
        (&arrived.body["event"], &arrived.body["taskId"]),
        (&json!("task.completed"), &json!(held[0]))
    );
    assert_eq!(arrived.body["output"], "an edited text");
    let reject = json!({"reason": "no"});
    fixture.operator.post(&path(1, "reject"), &reject).await.expect_ok();
    let arrived = receiver.after(2).await.remove(1);
    assert_eq!(
        (&arrived.body["event"], &arrived.body["taskId"]),
        (&json!("task.rejected"), &json!(held[1]))
    );
    assert_eq!(
        (&arrived.body["status"], &arrived.body["output"]),
        (&json!("rejected"), &Value::Null)
    );
}

#[tokio::test]
async fn a_slow_receiver_delays_no_other() {
    let fixture = Fixture::with(&[]).await;
    let receiver = Receiver::start().await;
    let other = Receiver::start().await;
    for _ in 0..20 {
        fixture.submit("slow", &receiver.url("hang")).await;
    }
    // Eight are posted at once, and none is answered.
    receiver.after(8).await;
    let started = Instant::now();
    fixture.submit("quick", &other.url("hook")).await;
    other.after(1).await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert!(receiver.arrived().iter().all(|arrived| arrived.path == "hang"));
    assert_eq!(receiver.arrived().len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_waits_for_no_receiver_and_sends_again() {
    let mut fixture = Fixture::with(&[]).await;
    let receiver = Receiver::start().await;
    let task = fixture.submit("an output", &receiver.url("hang")).await;
    receiver.after(1).await;
    let begun = Instant::now();
    assert!(fixture.server.terminate());
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    fixture.server.restart();
    fixture.operator = fixture.operator.at(&fixture.server.url);
    let arrived = receiver.after(2).await;
    assert_eq!(arrived[0].header("webhook-id"), arrived[1].header("webhook-id"));
    assert_eq!(arrived[0].body, arrived[1].body);
    // The count of an attempt becomes durable while it is made.
    let listed = async || fixture.deliveries(&format!("&taskId={task}")).await;
    until("both attempts count", async || listed().await[0]["attempts"] == 2).await;
    assert_eq!(listed().await.len(), 1);
}

/// True if the member `signature` of a body is that of this secret.
fn is_signed(body: &Value, secret: &str) -> bool {
    let mut signed = body.clone();
    let signature = signed.as_object_mut().expect("an object").shift_remove("signature");
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let expected = ring::hmac::sign(&key, signed.to_string().as_bytes());
    let mut hex = "sha256=".to_owned();
    for byte in expected.as_ref() {
        write!(hex, "{byte:02x}").expect("a text takes every write");
    }
    signature == Some(json!(hex))
}

#[tokio::test]
async fn deliveries_are_for_readers_redelivery_for_operators_and_the_secret_for_admins() {
    let fixture = Fixture::with(&[("WEBHOOKS__EVENTS", "task.completed,task.cancelled")]).await;
    let receiver = Receiver::start().await;
    let task = fixture.submit("an output", &receiver.url("hook")).await;
    let delivery = fixture.delivery(&task, "delivered").await;
    let path =
        format!("/api/webhooks/deliveries/{}/redeliver", delivery["id"].as_str().expect("an id"));
    let viewer = fixture.server.client("viewer").await;
    assert_eq!(viewer.get("/api/webhooks/deliveries").await.status, 200);
    assert_eq!(viewer.post(&path, &json!({})).await.refused(403), "FORBIDDEN");
    assert_eq!(fixture.operator.get("/api/webhooks/secret").await.refused(403), "FORBIDDEN");
    let admin = fixture.server.admin().await;
    let answer = admin.get("/api/webhooks/secret").await;
    assert_eq!(answer.headers["cache-control"], "no-store");
    let secret = answer.expect_ok()["secret"].as_str().expect("a text").to_owned();
    let kept = std::fs::read_to_string(fixture.server.data().join("webhook.secret"));
    assert_eq!(kept.expect("it is kept"), secret);
    let audit = admin.get("/api/audit?action=webhook.secret_shown").await.expect_ok();
    assert_eq!(audit.as_array().expect("a list").len(), 1);

    let key = json!({"name": "t", "role": "operator", "environment": "test"});
    let key = admin.post("/api/auth/keys", &key).await.expect(201);
    let sandbox = Client::new(&fixture.server.url, key["key"].as_str().expect("a key"));
    assert_eq!(sandbox.get("/api/webhooks/deliveries").await.expect_ok(), json!([]));
    assert_eq!(sandbox.post(&path, &json!({})).await.refused(404), "NOT_FOUND");
    let public = json!({"prompt": "p", "callbackUrl": "http://8.8.8.8/"});
    assert_eq!(sandbox.post("/api/tasks", &public).await.refused(400), "CALLBACK_URL_FORBIDDEN");
    let task = json!({"prompt": "p", "callbackUrl": receiver.url("sandbox")});
    sandbox.submit(&task).await;
    until("the sandbox's arrives", async || {
        receiver.arrived().iter().any(|arrived| arrived.path == "sandbox")
    })
    .await;
    assert_eq!(fixture.deliveries("").await.len(), 1, "production sees nothing of it");
    // Before: production's secret signed it, and nothing said where it came from.
    let secrets = admin.get("/api/webhooks/secret").await.expect_ok();
    let own = secrets["sandboxSecret"].as_str().expect("a text").to_owned();
    let of = |path: &str| {
        let arrived = receiver.arrived();
        arrived.into_iter().find(|arrived| arrived.path == path).expect("it arrived")
    };
    for (path, environment, right, wrong) in
        [("sandbox", json!("test"), &own, &secret), ("hook", Value::Null, &secret, &own)]
    {
        let body = of(path).body;
        assert_eq!(body.get("environment").unwrap_or(&Value::Null), &environment);
        assert!(is_signed(&body, right) && !is_signed(&body, wrong), "{path}");
    }

    for (query, field) in
        [("status=done", "status"), ("taskId=7", "taskId"), ("limit=0", "limit"), ("x=1", "x")]
    {
        let answer = viewer.get(&format!("/api/webhooks/deliveries?{query}")).await;
        assert_eq!(answer.fault().0, field);
    }
    let unknown = "/api/webhooks/deliveries/dlv_00000000000000000000000000/redeliver";
    assert_eq!(fixture.operator.post(unknown, &json!({})).await.refused(404), "NOT_FOUND");
}

#[tokio::test]
async fn the_outcome_of_a_webhook_is_an_event() {
    let fixture = Fixture::with(&[]).await;
    let receiver = Receiver::answering(&[(410, "")]).await;
    let viewer = fixture.server.client("viewer").await;
    let mut events = crate::support::Events::open(&viewer, "events=webhook.*", None).await;
    let task = fixture.submit("an output", &receiver.url("hook")).await;
    let (name, failed) = events.next().await;
    assert_eq!((name.as_str(), &failed["data"]["taskId"]), ("webhook.failed", &json!(task)));
    assert_eq!(
        (&failed["resource"]["kind"], &failed["data"]["status"]),
        (&json!("webhook"), &json!("dead"))
    );
    let id = failed["resource"]["id"].as_str().expect("an id");
    let path = format!("/api/webhooks/deliveries/{id}/redeliver");
    fixture.operator.post(&path, &json!({})).await.expect_ok();
    let (name, delivered) = events.next().await;
    assert_eq!((name.as_str(), &delivered["resource"]["id"]), ("webhook.delivered", &json!(id)));
}

#[tokio::test]
async fn neither_an_output_nor_the_secret_nor_a_signature_is_logged() {
    const OUTPUT: &str = "an-output-that-nobody-may-log";
    let mut server = Server::traced(&[ALLOWED, ("WEBHOOKS__RETRY_SECONDS", "0")]);
    let operator = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    worker.run(|_| Ok(OUTPUT.to_owned()));
    // The refusal repeats what was sent.
    let receiver = Receiver::answering(&[(500, ""), (400, "")]).await;
    let url = receiver.url("echo");
    let task = operator.submit(&json!({"prompt": "p", "callbackUrl": url})).await;
    let admin = server.admin().await;
    let secret = admin.get("/api/webhooks/secret").await.expect_ok();
    operator.task_with_status(&task, "completed").await;
    let arrived = receiver.after(2).await;
    let path = format!("/api/webhooks/deliveries?taskId={task}&status=dead");
    until("it is dead", async || operator.get(&path).await.expect_ok() != json!([])).await;
    let dead = operator.get(&path).await.expect_ok()[0].take();
    assert!(dead["lastError"].as_str().is_some_and(|error| error.contains(OUTPUT)), "{dead}");
    assert!(server.terminate());
    let log = std::fs::read_to_string(server.dir.path().join("log")).expect("it was traced");
    assert!(log.contains("a delivery failed for good"), "it is logged");
    let signature = arrived[0].header("webhook-signature").to_owned();
    for hidden in [OUTPUT, secret["secret"].as_str().expect("a text"), &signature[3..]] {
        assert!(!log.contains(hidden), "{hidden} is logged");
    }
}
