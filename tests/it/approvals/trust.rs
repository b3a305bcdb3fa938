//! `[worker] trust_confidence`: whose confidence may pass a gate.

use serde_json::{Value, json};

use super::fixture::{Fixture, write};
use crate::support::FakeWorker;

/// What becomes of a confident output of a worker whose key has this name.
async fn outcome(trust: &str, name: &str) -> Value {
    let settings = [("WORKER__TRUST_CONFIDENCE", trust)];
    let fixture = Fixture::with(&settings).await;
    let body = json!({"name": name, "role": "worker", "queues": ["q"]});
    let made = fixture.admin.post("/api/auth/keys", &body).await.expect(201);
    let register = json!({
        "type": "register", "name": "trusted", "version": "0", "queues": ["q"], "models": ["*"],
        "concurrency": 1,
    });
    let secret = made["key"].as_str().expect("a key");
    let worker = FakeWorker::register(&fixture.server.url, secret, register).await;
    tokio::spawn(write(worker));
    let task = json!({"prompt": "x @0.99", "queue": "q", "hitl": {"confidenceThreshold": 0.5}});
    let id = fixture.operator.submit(&task).await;
    let over = |task: &Value| task["status"] == "completed" || task["awaitingApproval"] == true;
    let task = fixture.operator.task_when(&id, over).await;
    if task["status"] == "completed" {
        return json!(["passes", task["confidence"]]);
    }
    let item = fixture.operator.get(&format!("/api/hitl/{id}")).await.expect_ok();
    json!([item["reason"], task["confidence"], task["confidenceSource"]])
}

#[tokio::test]
async fn a_confidence_passes_a_gate_if_its_worker_is_trusted() {
    let held = json!(["no_confidence", null, "reported"]);
    let passes = json!(["passes", 0.99]);
    assert_eq!(outcome("all", "gpu").await, passes);
    assert_eq!(outcome("none", "gpu").await, held);
    assert_eq!(outcome("cpu,gpu", "gpu").await, passes);
    assert_eq!(outcome("cpu,gpus", "gpu").await, held);
}
