//! Worker keys that are bound to queues: what they serve and what they read.

use callboard::http::document;
use serde_json::{Value, json};

use super::{key, listed, text};
use crate::support::{Client, FakeWorker, Server, until};

fn register(queues: &[&str]) -> Value {
    json!({
        "type": "register", "name": "w", "version": "0", "queues": queues, "models": ["*"],
        "concurrency": 4,
    })
}

#[tokio::test]
async fn a_worker_key_is_made_for_queues_that_its_successor_keeps() {
    let mut server = Server::start();
    let admin = server.admin().await;
    let worker = |queues: Value| json!({"name": "w", "role": "worker", "queues": queues});
    let fault = |field: &str, rule: &str| (field.to_owned(), rule.to_owned());
    let names = |count: usize| (0..count).map(|n| format!("q{n}")).collect::<Vec<_>>();
    for (body, expected) in [
        (json!({"name": "o", "role": "operator", "queues": ["a"]}), fault("queues", "enum")),
        (json!({"name": "a", "role": "admin", "queues": ["a"]}), fault("queues", "enum")),
        (worker(json!([])), fault("queues", "length")),
        (worker(json!(names(257))), fault("queues", "length")),
        (worker(json!(["a", ""])), fault("queues[1]", "length")),
        (worker(json!(["a".repeat(129)])), fault("queues[0]", "length")),
        (worker(json!([5])), fault("queues[0]", "type")),
        (worker(json!("a")), fault("queues", "type")),
    ] {
        assert_eq!(admin.post("/api/auth/keys", &body).await.fault(), expected, "{body}");
    }
    let made = key(&admin, &worker(json!(["b", "a", "b"]))).await;
    assert_eq!(made["queues"], json!(["b", "a"]));
    let id = text(&made, "id");
    assert_eq!(listed(&admin, id).await["queues"], json!(["b", "a"]));
    server.kill();
    server.restart();
    let admin = admin.at(&server.url);
    let rotated = admin.post(&format!("/api/auth/keys/{id}/rotate"), &json!({})).await.expect(201);
    assert_eq!(rotated["queues"], json!(["b", "a"]));
    let free = key(&admin, &json!({"name": "w", "role": "worker"})).await;
    assert!(
        free.get("queues").is_none()
            && listed(&admin, text(&free, "id")).await.get("queues").is_none()
    );
    let null = key(&admin, &worker(Value::Null)).await;
    assert!(null.get("queues").is_none(), "null is as if it were left out");
}

#[tokio::test]
async fn a_bound_worker_serves_its_queues_and_no_other() {
    let server = Server::start();
    let admin = server.admin().await;
    let bound = json!({"name": "w", "role": "worker", "queues": ["invoices", "letters"]});
    let secret = text(&key(&admin, &bound).await, "key").to_owned();
    for queues in [&["default"][..], &["invoices", "default"], &["*"]] {
        let mut socket = FakeWorker::dial(&server.url, &secret).await;
        socket.send(register(queues)).await;
        let frame = socket.next().await.expect("a frame");
        assert_eq!(frame["type"], "error");
        let message = frame["error"]["message"].as_str().expect("a text");
        let wrong = queues.last().expect("one");
        assert!(message.contains(&format!("queue {wrong} ")), "{message}");
        assert!(message.contains("invoices, letters"), "{message}");
        assert_eq!(socket.closed().await, 4403);
    }
    let mut worker = FakeWorker::register(&server.url, &secret, register(&["letters"])).await;
    admin.submit(&json!({"prompt": "x", "queue": "invoices"})).await;
    let letter = admin.submit(&json!({"prompt": "x", "queue": "letters"})).await;
    assert_eq!(worker.assignment().await["task"]["id"], letter);
}

#[tokio::test]
async fn a_bound_worker_reads_the_tasks_that_it_holds_and_only_while_it_does() {
    let server = Server::start();
    let admin = server.admin().await;
    let bound = json!({"name": "w", "role": "worker", "queues": ["letters"]});
    let secret = text(&key(&admin, &bound).await, "key").to_owned();
    let reader = Client::new(&server.url, &secret);
    let total = async |query: &str| {
        let page = reader.get(&format!("/api/tasks{query}")).await;
        page.body["pagination"]["total"].as_u64().expect("a number")
    };
    let submit = async |queue: &str| {
        admin.submit(&json!({"prompt": "x", "queue": queue, "tags": [queue]})).await
    };
    let other = submit("default").await;
    assert_eq!(total("").await, 0);
    let mut worker = FakeWorker::register(&server.url, &secret, register(&["letters"])).await;
    let (first, second) = (submit("letters").await, submit("letters").await);
    // The two may be assigned in either order.
    let assigned = [worker.assignment().await, worker.assignment().await];
    let of_first = assigned.iter().find(|it| it["task"]["id"] == first.as_str());
    let lease = of_first.expect("it is assigned")["lease"].clone();
    // A dispatch does not wait for its commit.
    until("both run", async || total("?status=running").await == 2).await;
    let held = reader.get(&format!("/api/tasks/{first}")).await.expect_ok();
    assert_eq!((text(&held, "prompt"), text(&held, "status")), ("x", "running"));
    assert_eq!(reader.get(&format!("/api/tasks/{other}")).await.refused(404), "NOT_FOUND");
    let page = reader.get("/api/tasks?limit=1").await;
    assert_eq!(page.body["pagination"]["hasMore"], true);
    assert_eq!(page.expect_ok()[0]["id"], second, "the newest first");
    for (query, expected) in [
        ("?order=asc", 2),
        ("?status=running", 2),
        ("?status=pending,completed", 0),
        ("?queue=letters", 2),
        ("?queue=default", 0),
        ("?tags=letters", 2),
        ("?tags=letters,more", 0),
        ("?model=other", 0),
        ("?offset=2", 2),
    ] {
        assert_eq!(total(query).await, expected, "{query}");
    }
    assert_eq!(worker.complete(&lease, "done").await["result"], "applied");
    let gone = reader.get(&format!("/api/tasks/{first}")).await;
    assert_eq!(gone.refused(404), "NOT_FOUND", "it holds the task no longer");
    assert_eq!(total("").await, 1);
    // Another bound key holds nothing, and a key without queues reads as before.
    let stranger = text(&key(&admin, &bound).await, "key").to_owned();
    let stranger = Client::new(&server.url, &stranger);
    assert_eq!(stranger.get(&format!("/api/tasks/{second}")).await.refused(404), "NOT_FOUND");
    let free = server.client("worker").await;
    free.get(&format!("/api/tasks/{other}")).await.expect_ok();
}

#[tokio::test]
async fn the_stream_of_a_bound_worker_ends_when_another_has_the_task() {
    let short = [
        ("WORKER__LEASE", "2s"),
        ("WORKER__HEARTBEAT", "300ms"),
        ("WORKER__SILENT_AFTER", "800ms"),
    ];
    let server = Server::with(&short);
    let admin = server.admin().await;
    let bound = json!({"name": "w", "role": "worker", "queues": ["letters"]});
    let secret = text(&key(&admin, &bound).await, "key").to_owned();
    let mut first = FakeWorker::register(&server.url, &secret, register(&["letters"])).await;
    let task = admin.submit(&json!({"prompt": "x", "queue": "letters"})).await;
    first.assignment().await;
    let reader = Client::new(&server.url, &secret);
    let stream = reader.request(reqwest::Method::GET, &format!("/api/tasks/{task}/stream"));
    let stream = stream.send().await.expect("an answer");
    assert_eq!(stream.status(), 200);
    drop(first);
    let free = server.key("worker").await;
    let mut second = FakeWorker::register(&server.url, &free, register(&["letters"])).await;
    let lease = second.assignment().await["lease"].clone();
    second.send(json!({"type": "delta", "lease": lease, "text": "another's text"})).await;
    assert_eq!(second.complete(&lease, "another's output").await["result"], "applied");
    let read = tokio::time::timeout(std::time::Duration::from_secs(30), stream.text()).await;
    let read = read.expect("it ends").expect("text");
    assert!(read.contains("event: snapshot") && !read.contains("another's"), "{read}");
}

#[tokio::test]
async fn no_route_of_tasks_shows_a_bound_worker_what_it_does_not_hold() {
    let server = Server::start();
    let admin = server.admin().await;
    let bound = json!({"name": "w", "role": "worker", "queues": ["letters"]});
    let reader = Client::new(&server.url, text(&key(&admin, &bound).await, "key"));
    let task = admin.submit(&json!({"prompt": "a secret", "queue": "letters"})).await;
    let document = document();
    let mut routes = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        // Models are none of a task's.
        if methods["get"]["x-callboard-action"] != "tasks: read" || path == "/v1/models" {
            continue;
        }
        routes += 1;
        let query = if path == "/api/search" { "?q=secret" } else { "" };
        let answer = reader.get(&format!("{}{query}", path.replace("{id}", &task))).await;
        let data = &answer.body["data"];
        let is_empty = answer.status == 200 && (*data == json!([]) || data["hits"] == json!([]));
        assert!(answer.status == 404 || is_empty, "{path}: {}", answer.body);
    }
    assert!(routes >= 2, "{routes}");
}
