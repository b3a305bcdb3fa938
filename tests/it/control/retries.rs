use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_is_retried_as_a_new_one_and_survives_a_kill() {
    let mut server = Server::start();
    let operator = server.client("operator").await;
    let asked = json!({
        "prompt": "p", "queue": "idle", "priority": 8, "tags": ["t"], "maxTokens": 9,
        "systemPrompt": "s", "context": {"a": 1}, "messages": [{"role": "user", "content": "c"}],
        "concurrencyKey": "k", "fairnessKey": "f", "weight": 3,
    });
    let id = operator.submit(&asked).await;
    let retry = format!("/api/tasks/{id}/retry");
    assert_eq!(operator.post_raw(&retry, "").await.refused(409), "INVALID_STATE");
    operator.delete(&format!("/api/tasks/{id}")).await.expect_ok();
    let made = operator.post_once(&retry, "once", &json!({})).await.expect(201);
    assert_eq!(made["retryOf"], id.as_str());
    let new = made["id"].as_str().expect("an id");

    server.kill();
    server.restart();
    let operator = operator.at(&server.url);
    let task = operator.task(new).await;
    for (name, value) in asked.as_object().expect("members") {
        assert_eq!(&task[name], value, "{name}");
    }
    assert_eq!((&task["concurrencyLimit"], &task["onConflict"]), (&json!(1), &json!("queue")));
    let again = operator.post_once(&retry, "once", &json!({})).await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(again.expect(201)["id"], new);
    let missing = operator.post_raw("/api/tasks/dt_task_none/retry", "").await;
    assert_eq!(missing.refused(404), "NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_read_with_counts_by_status() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let tasks: Vec<_> = (0..3).map(|n| json!({"prompt": n.to_string(), "queue": "idle"})).collect();
    let made = operator.post("/api/tasks/batch", &json!({"tasks": tasks})).await.expect(201);
    let second = made["tasks"][1]["id"].as_str().expect("an id");
    operator.delete(&format!("/api/tasks/{second}")).await.expect_ok();
    let batch = made["batchId"].as_str().expect("an id");
    let read = operator.get(&format!("/api/tasks/batch/{batch}")).await.expect_ok();
    let statuses = |batch: &Value| {
        let tasks = batch["tasks"].as_array().expect("a list");
        tasks
            .iter()
            .map(|task| task["status"].as_str().expect("one").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(statuses(&read), ["pending", "cancelled", "pending"]);
    assert_eq!((&read["counts"]["pending"], &read["counts"]["cancelled"]), (&json!(2), &json!(1)));
    assert_eq!((&read["counts"]["failed"], &read["total"]), (&json!(0), &json!(3)));
    let none = operator.get("/api/tasks/batch/dt_batch_none").await;
    assert_eq!(none.refused(404), "NOT_FOUND");
}
