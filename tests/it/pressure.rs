//! A disk or a memory that is nearly full: new work is refused, and everything else goes on.

use reqwest::Method;
use serde_json::json;

use crate::support::{FakeWorker, Server, until};

const DISK: &str = "STORE__MIN_FREE_BYTES";
/// More than any disk has free.
const ALL: &str = "1125899906842624";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_low_disk_refuses_new_work_and_lets_the_rest_end() {
    let mut server = Server::start();
    let (operator, worker) = (server.client("operator").await, server.key("worker").await);
    let waiting = operator.submit(&json!({"prompt": "waits"})).await;
    let other = operator.submit(&json!({"prompt": "goes", "queue": "idle"})).await;
    let plan = json!({"name": "p", "steps": [{"id": "a", "prompt": "x"}]});
    let plan = operator.post("/api/plans", &plan).await.expect(201)["id"].clone();
    assert!(server.terminate());
    server.set(DISK, ALL);
    server.restart();
    let operator = operator.at(&server.url);

    let task = json!({"prompt": "new"});
    let execute = format!("/api/plans/{}/execute", plan.as_str().expect("an id"));
    for (path, body) in [
        ("/api/tasks", task.clone()),
        ("/api/tasks/batch", json!({"tasks": [task]})),
        (execute.as_str(), json!({})),
        ("/v1/chat/completions", json!({"model": "m", "messages": []})),
    ] {
        let refused = operator.post(path, &body).await;
        assert_eq!(refused.status.as_u16(), 507, "{path}: {:#}", refused.body);
        assert!(refused.headers.contains_key("retry-after"), "{path}");
        let says = refused.body["error"]["message"].as_str().unwrap_or_default();
        assert!(says.contains(ALL) && says.contains("bytes free"), "{path}: {says}");
    }
    let refused = operator.post("/api/tasks", &json!({"prompt": "new"})).await;
    assert_eq!(refused.refused(507), "INSUFFICIENT_STORAGE");

    // Running and waiting work ends; reads, cancels and erasure go on.
    let running = FakeWorker::connect_to(&server.url, &worker, 2).await.run(|_| Ok("done".into()));
    operator.task_with_status(&waiting, "completed").await;
    operator.delete(&format!("/api/tasks/{other}")).await.expect_ok();
    let admin = server.admin().await;
    let texts = format!("/api/tasks/{waiting}/texts");
    until("the texts are erased", async || {
        let erase = admin.request(Method::DELETE, &texts).json(&json!({"reason": "asked"}));
        admin.send(erase).await.status.as_u16() == 200
    })
    .await;
    let health = operator.get("/health/database").await.body;
    assert_eq!(health["status"], "degraded", "{health}");
    assert!(health["detail"].as_str().is_some_and(|it| it.contains("min_free_bytes")), "{health}");
    running.abort();

    assert!(server.terminate());
    server.set(DISK, "0");
    server.restart();
    operator.at(&server.url).submit(&json!({"prompt": "new"})).await;
}

#[tokio::test]
async fn memory_that_is_short_refuses_new_work() {
    // A megabyte is less than any server uses.
    let server = Server::with(&[("SERVER__MEMORY_BYTES", "1048576")]);
    let operator = server.client("operator").await;
    let refused = operator.post("/api/tasks", &json!({"prompt": "new"})).await;
    assert_eq!(refused.refused(503), "UNAVAILABLE");
    let says = refused.body["error"]["message"].as_str().unwrap_or_default();
    assert!(says.contains("short of memory"), "{says}");
    assert!(refused.headers.contains_key("retry-after"));
    operator.get("/api/tasks").await.expect_ok();
}
