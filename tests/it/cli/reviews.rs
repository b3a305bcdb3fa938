//! Human approval from the command line, against the real server.

use serde_json::{Value, json};

use super::program::Home;
use crate::support::{FakeWorker, Server};

/// A task whose output waits for a reviewer.
async fn held(server: &Server, worker: &mut FakeWorker, prompt: &str) -> String {
    let client = server.client("operator").await;
    let task = client.submit(&json!({"prompt": prompt, "hitl": {"required": true}})).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned["lease"], "it is so\u{1b}[2J").await;
    client.task_when(&task, |task| task["awaitingApproval"] == true).await;
    task
}

#[tokio::test]
async fn an_output_is_approved_with_another_text_and_its_history_can_be_recomputed() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let task = held(&server, &mut worker, "Say it.").await;

    let listed = home.json(&["hitl", "list"]).await;
    assert_eq!(listed["data"][0]["taskId"], task);
    assert_eq!(listed["data"][0]["reason"], "required");
    let claim = home.json(&["hitl", "claim", &task]).await;
    assert!(claim["claimedUntil"].is_string(), "{claim}");
    let shown = home.run(&["hitl", "show", &task]).await.ok();
    assert!(shown.contains("it is so\\u{1b}[2J") && shown.contains("claimed"), "{shown}");

    let approve = ["hitl", "approve", &task, "--comment", "nearly", "--output-file", "-"];
    home.run_with_input(&approve, "it was so").await.ok();
    assert_eq!(home.json(&["tasks", "show", &task]).await["output"], "it was so");
    let told = home.run(&["hitl", "reject", &task, "--reason", "no"]).await.failed(6);
    assert!(told.contains("ALREADY_DECIDED, by usr_"), "{told}");

    let history = home.json(&["hitl", "history", &task]).await;
    let actions: Vec<_> =
        history["data"].as_array().expect("a list").iter().map(|entry| &entry["action"]).collect();
    assert_eq!(actions, ["pending", "assigned", "claimed", "approved"]);
    let found = home.json(&["hitl", "verify", &task]).await;
    assert_eq!((&found["ok"], &found["entries"]), (&json!(true), &json!(4)), "{found}");
}

#[tokio::test]
async fn a_rejected_output_is_tried_again_and_every_history_is_whole() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let task = held(&server, &mut worker, "Say it.").await;
    let rejected = home.json(&["hitl", "reject", &task, "--reason", "too short", "--retry"]).await;
    let retry = rejected["retryTaskId"].as_str().expect("a task").to_owned();
    let again = worker.assignment().await;
    assert_eq!(again["task"]["prompt"], "Say it.\n\nFeedback:\ntoo short");
    worker.complete(&again["lease"], "at length").await;
    server.client("viewer").await.task_when(&retry, |task| task["awaitingApproval"] == true).await;

    let table = home.run(&["hitl", "verify"]).await.ok();
    assert_eq!(table.lines().count(), 3, "{table}");
    let rejected = home.json(&["hitl", "list", "--status", "rejected"]).await;
    assert_eq!(rejected["pagination"]["total"], 1);
}

#[tokio::test]
async fn who_may_not_decide_is_told_so() {
    let server = Server::start();
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let task = held(&server, &mut worker, "Say it.").await;
    let viewer = Home::new(&server.url).with_key(&server.key("viewer").await);
    viewer.run(&["hitl", "approve", &task]).await.failed(4);
    viewer.run(&["hitl", "approve", "dt_task_1"]).await.failed(4);
    let operator = Home::new(&server.url).with_key(&server.key("operator").await);
    operator.run(&["hitl", "show", "dt_task_1"]).await.failed(3);
    Home::new(&server.url).signed_in().await.run(&["hitl", "claim", &task]).await.ok();
    operator.run(&["hitl", "claim", &task]).await.failed(6);
    operator.run(&["hitl", "release", &task]).await.failed(6);
    // A claim warns, and bars nobody.
    operator.run(&["hitl", "approve", &task]).await.ok();
    let found: Value = operator.json(&["hitl", "verify", &task]).await;
    assert_eq!(found["ok"], true, "{found}");
    let decided = operator.run(&["hitl", "list", "--decided"]).await.ok();
    assert!(decided.contains(&task) && decided.contains("approved"), "{decided}");
}

#[tokio::test]
async fn what_the_clock_rejected_can_be_recomputed_too() {
    let server = Server::with(&[("HITL__ON_TIMEOUT", "reject")]);
    let home = Home::new(&server.url).signed_in().await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let client = server.client("operator").await;
    let hitl = json!({"required": true, "timeoutMs": 1_000});
    let task = client.submit(&json!({"prompt": "x", "hitl": hitl})).await;
    let assigned = worker.assignment().await;
    worker.complete(&assigned["lease"], "y").await;
    client.task_with_status(&task, "rejected").await;
    let found = home.json(&["hitl", "verify", &task]).await;
    assert_eq!((&found["ok"], &found["entries"]), (&json!(true), &json!(5)), "{found}");
    let history = home.run(&["hitl", "history", &task]).await.ok();
    assert!(history.contains("rejected") && history.contains("system"), "{history}");
}
