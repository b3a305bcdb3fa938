//! `startAt` of tasks, executes and deploys.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{FakeWorker, Server};

fn in_millis(millis: i64) -> String {
    let at = Timestamp::now().as_millisecond() + millis;
    Timestamp::from_millisecond(at).expect("a time").to_string()
}

fn instant(of: &Value) -> Timestamp {
    of.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{of} is no instant"))
}

#[tokio::test]
async fn a_task_and_an_execution_wait_for_their_instant_also_over_a_kill() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    let key = server.key("worker").await;
    let plan = client.plan(&json!([{"id": "a", "prompt": "p"}])).await;
    let at = in_millis(3_000);
    let task = client.submit(&json!({"prompt": "p", "startAt": at})).await;
    let execution = client.execute(&plan, &json!({"startAt": at})).await;
    let worker = FakeWorker::connect(&server, &key, 4).await;
    worker.run(|_| Ok("done".to_owned()));

    let waiting = client.task(&task).await;
    let shown = [&waiting["status"], &waiting["waitingFor"]];
    assert_eq!(shown, ["pending", "schedule"], "{waiting:#}");
    assert_eq!(instant(&waiting["startAt"]), instant(&waiting["waitingUntil"]));
    let waiting = client.execution(&execution).await;
    let shown = [&waiting["status"], &waiting["waitingFor"], &waiting["steps"]["a"]["status"]];
    assert_eq!(shown, ["pending", "schedule", "pending"], "{waiting:#}");
    assert!(waiting.get("startedAt").is_none() && waiting["waitingUntil"].is_string());
    for (query, count) in [("?status=pending", 1), ("?status=running", 0)] {
        let list = client.get(&format!("/api/plans/executions{query}")).await;
        assert_eq!(list.body["pagination"]["total"], count, "{query}");
    }

    server.kill();
    server.restart();
    let client = client.at(&server.url);
    let worker = FakeWorker::connect(&server, &key, 4).await;
    worker.run(|_| Ok("done".to_owned()));
    let done = client.task_with_status(&task, "completed").await;
    assert!(instant(&done["startedAt"]) >= instant(&done["startAt"]), "{done:#}");
    let done = client.execution_with_status(&execution, "completed").await;
    assert!(instant(&done["startedAt"]) >= instant(&done["startAt"]), "{done:#}");
    assert!(done.get("waitingFor").is_none(), "{done:#}");
}

#[tokio::test]
async fn work_that_has_not_begun_is_cancelled_deployed_and_replayed_like_any_other() {
    let server = Server::start();
    let client = server.client("operator").await;
    let at = in_millis(3_600_000);
    let body = json!({"prompt": "p", "startAt": at});
    let first = client.post_once("/api/tasks", "k", &body).await.expect(201);
    let again = client.post_once("/api/tasks", "k", &body).await.expect(201);
    assert_eq!((&first["id"], &first["status"]), (&again["id"], &json!("pending")));
    let other = json!({"prompt": "p", "startAt": in_millis(7_200_000)});
    let other = client.post_once("/api/tasks", "k", &other).await;
    assert_eq!(other.refused(422), "IDEMPOTENCY_KEY_REUSED");
    let id = first["id"].as_str().expect("an id");
    assert_eq!(client.delete(&format!("/api/tasks/{id}")).await.expect_ok()["status"], "cancelled");
    let retried = client.post(&format!("/api/tasks/{id}/retry"), &json!({})).await.expect(201);
    assert!(retried.get("startAt").is_none(), "a retry runs at once: {retried:#}");

    let input = json!({"message": "It is broken."});
    let deploy = json!({"input": input, "startAt": at});
    let deployed = client.post("/api/templates/support-reply-v1/deploy", &deploy).await;
    let deployed = deployed.expect(201);
    assert_eq!(deployed["status"], "pending", "{deployed:#}");
    let path = format!("/api/plans/executions/{}", deployed["id"].as_str().expect("an id"));
    let retry = client.post(&format!("{path}/retry"), &json!({})).await;
    assert_eq!(retry.refused(409), "INVALID_STATE");
    let cancelled = client.delete(&path).await.expect_ok();
    assert_eq!(cancelled["status"], "cancelled");
    assert!(cancelled.get("startedAt").is_none(), "{cancelled:#}");
    let retried = client.post(&format!("{path}/retry"), &json!({})).await.expect_ok();
    assert_eq!(retried["status"], "running");
    assert!(retried["startedAt"].is_string(), "{retried:#}");
}

#[tokio::test]
async fn an_instant_that_is_none_or_out_of_place_is_refused_with_its_field() {
    let server = Server::start();
    let client = server.client("operator").await;
    let task = json!({"prompt": "p", "startAt": "tomorrow"});
    let refused = client.post("/api/tasks", &task).await;
    assert_eq!(refused.fault(), ("startAt".into(), "format".into()));
    let at = in_millis(60_000);
    let of = |target: Value| json!({"name": "n", "cron": "0 0 * * *", "target": target});
    for (target, field) in [
        (json!({"task": {"prompt": "p", "startAt": at}}), "target.task.startAt"),
        (json!({"templateId": "x", "startAt": at}), "target.startAt"),
    ] {
        let refused = client.post("/api/schedules", &of(target)).await;
        assert_eq!(refused.fault(), (field.into(), "unknown".into()));
    }
}
