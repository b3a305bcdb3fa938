//! April to June: keys end, a model fails, workers die, a receiver is gone, approvals pile up, money runs out.

use serde_json::json;

use super::life::Year;
use crate::support::{ADMIN, FakeWorker, UNSET};
use crate::webhooks::Receiver;
use crate::webhooks::rotation::signed;

/// Two weeks before the ninety days are over everything says so; the keys are replaced.
pub(super) async fn keys_end(year: &mut Year) {
    year.on("2026-03-25T09:00:00Z").await;
    year.employ().await;
    year.until_logged("an API key ends soon").await;
    let mails = year.mails.first_mails().await;
    assert_eq!(mails[0]["to"], json!([ADMIN]));
    let text = mails[0]["text"].as_str().expect("a text");
    assert!(text.contains("Subject: API key") && text.contains("ends in"), "{text}");
    let doctor = year.run_with(&year.operator, &["doctor", "-o", "json"]).await;
    let found: serde_json::Value = serde_json::from_str(&doctor.stdout).expect("JSON");
    let of_key = found.as_array().expect("findings").iter().find(|it| it["check"] == "key");
    assert_eq!(of_key.expect("a finding")["state"], "warn", "{found:#}");
    let answer = year.operator().get("/api/tasks?limit=1").await;
    assert!(answer.headers.contains_key("callboard-key-expires-at"), "{:?}", answer.headers);
    year.seen("keys end in eleven days", 15, &["CallboardKeyEnds"]).await;

    // The successor of a rotated key lives as long as the key; both count for a day.
    let old = year.worker.clone();
    let rotate = ["keys", "rotate", &year.key_id("worker").await, "--overlap", "1d"];
    let next = year.run(&rotate).await.trim().to_owned();
    for key in [&old, &next] {
        year.client(key).get("/api/tasks?limit=1").await.expect_ok();
    }
    let replaced = [year.key_id("operator").await, year.key_id("viewer").await];
    year.operator = year.key("operator").await;
    year.viewer = year.key("viewer").await;
    for id in replaced {
        year.run(&["keys", "revoke", &id]).await;
    }
    year.on("2026-03-26T10:00:00Z").await;
    year.client(&old).get("/api/tasks?limit=1").await.refused(401);
    year.client(&next).get("/api/tasks?limit=1").await.expect_ok();
    let rotated = year.key_id("worker").await;
    year.worker = year.key("worker").await;
    year.run(&["keys", "revoke", &rotated]).await;
    year.employ().await;
    year.calm("the keys were replaced").await;
}

/// Half of a model's tasks fail; then a machine with many workers' places is lost.
pub(super) async fn failing_model_and_lost_workers(year: &mut Year) {
    year.on("2026-04-14T14:00:00Z").await;
    let operator = year.operator();
    let failing = FakeWorker::connect_to(&year.server.url, &year.worker, 4).await;
    let failing = failing.run(|task| match task["prompt"].as_str() {
        Some("bad") => Err("the model is broken".into()),
        _ => Ok("fine".into()),
    });
    for number in 0..6 {
        let prompt = if number % 2 == 0 { "bad" } else { "good" };
        let task = operator.submit(&json!({"prompt": prompt, "model": "new-model"})).await;
        let ended =
            |task: &serde_json::Value| task["status"] != "pending" && task["status"] != "running";
        operator.task_when(&task, ended).await;
    }
    year.seen("a model that fails", 30, &["CallboardFailureRate"]).await;
    year.calm("the model was mended").await;
    failing.abort();
    year.run(&[
        "bulk",
        "retry",
        "--status",
        "failed",
        "--model",
        "new-model",
        "--expect",
        "3",
        "--wait",
    ])
    .await;

    for (name, value) in [("WORKER__HEARTBEAT", "500ms"), ("WORKER__LEASE", "2s")] {
        year.server.set(name, value);
    }
    year.on("2026-04-20T14:00:00Z").await;
    let operator = year.operator();
    let mut lost = FakeWorker::connect_to(&year.server.url, &year.worker, 30).await;
    for number in 0..24 {
        operator.submit(&json!({"prompt": format!("task {number}"), "tags": ["lost"]})).await;
        lost.assignment().await;
    }
    drop(lost);
    year.until_total("/api/tasks?tags=lost&status=running", 0).await;
    year.employ().await;
    year.until_total("/api/tasks?tags=lost&status=completed", 24).await;
    year.seen("workers are lost", 20, &["CallboardLostLeases"]).await;
    for name in ["WORKER__HEARTBEAT", "WORKER__LEASE"] {
        year.server.set(name, UNSET);
    }
    year.calm("the machine was replaced").await;
}

/// The secret is rotated while both sign; a receiver that is gone for good gets no more webhooks.
pub(super) async fn rotated_secret_and_dead_webhook(year: &mut Year) {
    year.on("2026-05-04T10:00:00Z").await;
    year.employ().await;
    let secret = async |year: &Year| {
        year.admin.json(&["webhooks", "secret"]).await["secret"]
            .as_str()
            .expect("a secret")
            .to_owned()
    };
    let first = secret(year).await;
    year.run(&["webhooks", "rotate-secret", "--overlap", "7d"]).await;
    let second = secret(year).await;
    let receiver = Receiver::start().await;
    let hook = json!({"prompt": "to both", "callbackUrl": receiver.url("hook")});
    year.operator().submit(&hook).await;
    let arrived = receiver.after(1).await.remove(0);
    let both = [signed(&arrived, &second), signed(&arrived, &first)].join(" ");
    assert_eq!(arrived.header("webhook-signature"), both);
    year.on("2026-05-12T10:00:00Z").await;
    year.employ().await;
    let operator = year.operator();
    operator.submit(&hook).await;
    let arrived = receiver.after(2).await.remove(1);
    assert_eq!(
        arrived.header("webhook-signature"),
        signed(&arrived, &second),
        "the overlap is over"
    );

    let gone = Receiver::answering(&[(410, "")]).await;
    operator.submit(&json!({"prompt": "to nobody", "callbackUrl": gone.url("hook")})).await;
    year.until_total("/api/webhooks/deliveries?status=dead", 1).await;
    year.seen("a receiver is gone", 10, &["CallboardDeadLetters"]).await;
    year.calm("the receiver's address was mended").await;
}

/// Nobody reviews; then somebody rejects them all.
pub(super) async fn many_approvals(year: &mut Year) {
    year.on("2026-05-20T10:00:00Z").await;
    year.employ().await;
    let operator = year.operator();
    let held = json!({"prompt": "p", "tags": ["held"], "hitl": {"required": true}});
    let tasks = json!({"tasks": vec![held; 51]});
    let made = operator.post("/api/tasks/batch", &tasks).await;
    assert!(made.status.is_success(), "{made:?}");
    year.until_total("/api/hitl/pending", 51).await;
    year.seen("nobody reviews", 45, &["CallboardApprovalsWaiting"]).await;
    let reject =
        ["bulk", "reject", "--tag", "held", "--reason", "too late", "--expect", "51", "--wait"];
    year.run(&reject).await;
    year.until_total("/api/hitl/pending", 0).await;
    year.calm("the clerks are back").await;
}

/// A budget is spent, and a queue stays paused.
pub(super) async fn budget_and_paused_queue(year: &mut Year) {
    year.on("2026-06-10T10:00:00Z").await;
    year.employ().await;
    let budget =
        ["budgets", "create", "0.000001", "--period", "month", "--tag", "dear", "-o", "json"];
    let budget: serde_json::Value = serde_json::from_str(&year.run(&budget).await).expect("JSON");
    let operator = year.operator();
    let task = json!({"prompt": "p", "model": "gpt-4.1-mini", "tags": ["dear"]});
    let waits = operator.submit(&task).await;
    operator.task_when(&waits, |task| task["waitingFor"] == "budget").await;
    year.seen("a budget is spent", 20, &["CallboardBudgetWaits"]).await;
    year.run(&["budgets", "delete", budget["id"].as_str().expect("an id")]).await;
    operator.task_with_status(&waits, "completed").await;
    year.calm("the budget was raised").await;

    year.run(&["queues", "pause", "default"]).await;
    let waits = operator.submit(&json!({"prompt": "p"})).await;
    year.on("2026-06-10T10:05:00Z").await;
    year.employ().await;
    year.seen("a queue is paused", 40, &["CallboardQueuePaused"]).await;
    let operator = year.operator();
    assert_eq!(operator.task(&waits).await["status"], "pending", "a restart keeps the pause");
    year.run(&["queues", "resume", "default"]).await;
    operator.task_with_status(&waits, "completed").await;
    year.calm("the queue was resumed").await;
}
