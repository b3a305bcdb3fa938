use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, FakeWorker, Server};

async fn patch(client: &Client, name: &str, change: &Value) -> Answer {
    let request = client.request(Method::PATCH, &format!("/api/queues/{name}"));
    client.send(request.json(change)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_stays_paused_over_a_kill_and_says_so() {
    let mut server = Server::start();
    let key = server.key("worker").await;
    let operator = server.client("operator").await;
    let paused = patch(&operator, "default", &json!({"paused": true})).await.expect_ok();
    assert_eq!((&paused["paused"], &paused["name"]), (&json!(true), &json!("default")));
    let task = operator.submit(&json!({"prompt": "p"})).await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    assert_eq!(operator.task(&task).await["waitingFor"], "queue_paused");

    server.kill();
    server.restart();
    let operator = operator.at(&server.url);
    assert_eq!(operator.task(&task).await["waitingFor"], "queue_paused");
    drop(worker);
    worker = FakeWorker::connect(&server, &key, 1).await;
    let queues = operator.get("/api/queues").await;
    assert_eq!(queues.body["pagination"]["total"], 1);
    let queue = &queues.expect_ok()[0];
    assert_eq!(
        (&queue["depth"], &queue["running"], &queue["workers"], &queue["paused"]),
        (&json!(1), &json!(0), &json!(1), &json!(true))
    );
    assert!(queue["oldestAgeMs"].as_u64().is_some_and(|age| age < 600_000));
    assert_eq!(operator.task(&task).await["status"], "pending");

    patch(&operator, "default", &json!({"paused": false})).await.expect_ok();
    let assigned = worker.receive("assign").await;
    assert_eq!(assigned["task"]["id"], task.as_str());
    let audit = server.admin().await.get("/api/audit?action=queue.changed").await.expect_ok();
    let changes: Vec<_> = audit.as_array().expect("a list").iter().collect();
    assert_eq!(changes.len(), 2);
    assert_eq!(
        (&changes[0]["target"], &changes[0]["details"]["paused"]),
        (&json!("default"), &json!("false"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_change_is_refused_and_a_viewer_may_only_look() {
    let server = Server::start();
    let operator = server.client("operator").await;
    for (change, fault) in [
        (json!({"paused": "yes"}), ("paused", "type")),
        (json!({"concurrent": -1}), ("concurrent", "range")),
        (json!({"requestsPerMinute": 1_000_001}), ("requestsPerMinute", "range")),
        (json!({"purge": true}), ("purge", "unknown")),
    ] {
        let (field, rule) = patch(&operator, "default", &change).await.fault();
        assert_eq!((field.as_str(), rule.as_str()), fault);
    }
    let limits = json!({"concurrent": 3, "requestsPerMinute": 60});
    let queue = patch(&operator, "a%20b%2Fc", &limits).await.expect_ok();
    assert_eq!((&queue["name"], &queue["concurrent"]), (&json!("a b/c"), &json!(3)));
    let queue = patch(&operator, "a%20b%2Fc", &json!({"concurrent": 0})).await.expect_ok();
    assert_eq!((&queue["concurrent"], &queue["requestsPerMinute"]), (&Value::Null, &json!(60)));
    let long = "q".repeat(129);
    assert_eq!(patch(&operator, &long, &json!({})).await.refused(404), "NOT_FOUND");

    let viewer = server.client("viewer").await;
    assert_eq!(viewer.get("/api/queues").await.expect_ok().as_array().map(Vec::len), Some(1));
    assert_eq!(patch(&viewer, "default", &json!({"paused": true})).await.refused(403), "FORBIDDEN");
}
