use serde_json::json;

use crate::support::{FakeWorker, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_bounds_the_tasks_of_all_queues_over_a_kill() {
    let mut server = Server::start();
    let key = server.key("worker").await;
    let operator = server.client("operator").await;
    let task = json!({"prompt": "p", "concurrencyKey": "customer-7"});
    let first = operator.submit(&task).await;
    let second = operator.submit(&task).await;
    let mut worker = FakeWorker::connect(&server, &key, 5).await;
    let assigned = worker.receive("assign").await;
    assert_eq!(assigned["task"]["id"], first.as_str());
    operator.task_with_status(&first, "running").await;
    assert_eq!(operator.task(&second).await["waitingFor"], "limit");

    server.kill();
    server.restart();
    let operator = operator.at(&server.url);
    assert_eq!(operator.task(&second).await["waitingFor"], "limit");
    operator.delete(&format!("/api/tasks/{first}")).await.expect_ok();
    let mut worker = FakeWorker::connect(&server, &key, 5).await;
    assert_eq!(worker.receive("assign").await["task"]["id"], second.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_refused_or_cancels_as_the_task_says() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let task = |rule: &str| {
        json!({
            "prompt": "p", "queue": "idle", "concurrencyKey": "k", "onConflict": rule,
        })
    };
    let first = operator.submit(&task("queue")).await;
    let refused = operator.post("/api/tasks", &task("reject")).await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
    let newest = operator.submit(&task("cancel_running")).await;
    operator.task_with_status(&first, "cancelled").await;
    assert_eq!(operator.task(&newest).await["status"], "pending");

    for (body, fault) in [
        (json!({"concurrencyLimit": 2}), ("concurrencyKey", "required")),
        (json!({"weight": 2}), ("fairnessKey", "required")),
        (json!({"fairnessKey": "f", "weight": 101}), ("weight", "range")),
        (json!({"concurrencyKey": ""}), ("concurrencyKey", "length")),
        (json!({"concurrencyKey": "k", "onConflict": "drop"}), ("onConflict", "enum")),
    ] {
        let mut body = body;
        body["prompt"] = "p".into();
        let (field, rule) = operator.post("/api/tasks", &body).await.fault();
        assert_eq!((field.as_str(), rule.as_str()), fault);
    }
    let step = json!([{"id": "a", "prompt": "p", "weight": 2}]);
    let plan = operator.post("/api/plans", &json!({"name": "n", "steps": step})).await;
    assert_eq!(plan.fault(), ("steps[0].fairnessKey".to_owned(), "required".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_rejects_is_cancelled_if_its_key_is_used_up() {
    let server = Server::start();
    let operator = server.client("operator").await;
    operator.submit(&json!({"prompt": "p", "queue": "idle", "concurrencyKey": "k"})).await;
    let step = json!([{
        "id": "a", "prompt": "p", "queue": "idle", "concurrencyKey": "k", "onConflict": "reject",
    }]);
    let plan = operator.plan(&step).await;
    let shown = operator.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(shown["steps"][0]["onConflict"], "reject");
    let execution = operator.execute(&plan, &json!({})).await;
    let ended = operator.execution_when(&execution, |it| it["status"] != "running").await;
    assert_eq!(ended["steps"]["a"]["status"], "cancelled", "{ended:#}");
}
