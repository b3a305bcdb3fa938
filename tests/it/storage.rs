//! The size of what is stored: of each kind, for who may read the figures of the server.

use serde_json::{Value, json};

use crate::support::{FakeWorker, Server, until};

fn kind(storage: &Value, name: &str) -> Value {
    let kinds = storage["kinds"].as_array().expect("a list");
    kinds.iter().find(|kind| kind["name"] == name).cloned().unwrap_or_default()
}

#[tokio::test]
async fn each_kind_of_data_has_its_rows_and_bytes() {
    let server = Server::start();
    let client = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    let running = worker.run(|_| Ok("long ".repeat(1_000)));
    let tasks = vec![json!({"prompt": "Write a long letter."}); 20];
    client.post("/api/tasks/batch", &json!({"tasks": tasks})).await.expect(201);
    let ended = async || {
        let list = client.get("/api/tasks?status=completed&limit=1").await;
        list.body["pagination"]["total"] == 20
    };
    until("they are done", ended).await;
    running.abort();
    let storage = client.get("/api/system/storage").await.expect_ok();
    assert_eq!((&storage["complete"], &storage["estimated"]), (&json!(true), &json!(false)));
    assert_eq!(kind(&storage, "tasks")["rows"], 20, "{storage}");
    assert!(kind(&storage, "texts")["rows"].as_u64() >= Some(20), "{storage}");
    assert!(kind(&storage, "events")["rows"].as_u64() >= Some(60), "{storage}");
    let bytes = |kind: &Value| kind["bytes"].as_u64().expect("a number");
    let kinds = storage["kinds"].as_array().expect("a list");
    assert_eq!(kinds.iter().map(bytes).sum::<u64>(), bytes(&storage));
    assert!(kinds.is_sorted_by_key(|kind| std::cmp::Reverse(bytes(kind))), "{storage}");
    // What was measured lately is answered again.
    let again = client.get("/api/system/storage").await.expect_ok();
    assert_eq!(again["measuredAt"], storage["measuredAt"]);
    let reviewer = server.client("reviewer").await;
    assert_eq!(reviewer.get("/api/system/storage").await.refused(403), "FORBIDDEN");
}
