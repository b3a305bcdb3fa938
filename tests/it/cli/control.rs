//! Queues, retries, bulk jobs and budgets from the command line.

use serde_json::json;

use super::program::Home;
use crate::support::Server;

#[tokio::test]
async fn queues_are_paused_limited_and_purged() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("operator").await);
    let paused = home.json(&["queues", "pause", "nightly"]).await;
    assert_eq!(paused["paused"], true);
    let keys = ["--concurrency-key", "k", "--fairness-key", "f", "--weight", "3"];
    let task =
        home.json(&[&["tasks", "submit", "x", "--queue", "nightly"], &keys[..]].concat()).await;
    assert_eq!((&task["waitingFor"], &task["weight"]), (&json!("queue_paused"), &json!(3)));
    let limits = ["queues", "limit", "nightly", "--concurrent", "2", "--requests-per-minute", "60"];
    assert_eq!(home.json(&limits).await["concurrent"], 2);
    home.run(&["queues", "limit", "nightly"]).await.failed(2);
    let resumed = home.json(&["queues", "resume", "nightly"]).await;
    assert_eq!(resumed["paused"], false);
    let table = home.run(&["queues", "list"]).await.ok();
    assert!(table.contains("nightly"), "{table}");

    let dry = home.json(&["queues", "purge", "nightly", "--dry-run"]).await;
    assert_eq!((&dry["total"], &dry["status"]), (&json!(1), &json!("dry_run")));
    home.run(&["queues", "purge", "nightly", "--expect", "2"]).await.failed(6);
    let bulk = ["bulk", "cancel", "--queue", "nightly", "--expect", "1", "--wait"];
    assert_eq!(home.json(&bulk).await["succeeded"], 1);
    let id = task["id"].as_str().expect("an id");
    let retried = home.json(&["tasks", "retry", id]).await;
    assert_eq!(retried["retryOf"], id);
    let new = retried["id"].as_str().expect("an id");
    let urgent =
        ["bulk", "reprioritize", "9", "--queue", "nightly", "--status", "pending", "--wait"];
    let job = home.json(&urgent).await;
    assert_eq!(job["succeeded"], 1);
    assert_eq!(home.json(&["tasks", "show", new]).await["priority"], 9);
    let reject = ["bulk", "reject", "--reason", "superseded", "--queue", "nightly", "--dry-run"];
    assert_eq!(home.json(&reject).await["total"], 0, "no output waits for a reviewer");
    let job = job["id"].as_str().expect("an id");
    assert_eq!(home.json(&["bulk", "show", job]).await["status"], "completed");
    assert_eq!(home.json(&["bulk", "list"]).await["pagination"]["total"], 2);
}

#[tokio::test]
async fn budgets_are_set_and_usage_is_told() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("admin").await);
    let create =
        ["budgets", "create", "50", "--period", "month", "--tag", "a", "--alert-at", "0.9"];
    let budget = home.json(&create).await;
    assert_eq!((&budget["match"]["tags"], &budget["alertAt"]), (&json!(["a"]), &json!([0.9])));
    let id = budget["id"].as_str().expect("an id");
    let set = home.json(&["budgets", "set", id, "--limit", "80", "--on-exceed", "alert"]).await;
    assert_eq!((&set["limit"], &set["onExceed"]), (&json!(80.0), &json!("alert")));
    assert_eq!(home.json(&["budgets", "show", id]).await["limit"], json!(80.0));
    assert!(home.run(&["budgets", "list"]).await.ok().contains(id));
    home.run(&["budgets", "create", "1", "--period", "year"]).await.failed(5);
    home.run(&["budgets", "delete", id]).await.ok();
    home.run(&["budgets", "show", id]).await.failed(3);
    let usage = home.run(&["usage", "--group-by", "tag"]).await.ok();
    assert!(usage.contains("(total)"), "{usage}");
    assert_eq!(home.json(&["usage"]).await["groupBy"], "model");
}

#[tokio::test]
async fn a_models_limits_are_set_and_shown_all_of_them() {
    let server = Server::start();
    let home = Home::new(&server.url).with_key(&server.key("admin").await);
    let limits = [
        ("--requests", "501"),
        ("--input-tokens", "40002"),
        ("--output-tokens", "9003"),
        ("--tokens", "45004"),
        ("--concurrent", "17"),
    ];
    let options = limits.iter().flat_map(|(option, most)| [*option, *most]);
    let limit: Vec<_> = ["models", "limit", "a/b"].into_iter().chain(options).collect();
    let (set, list) = (home.run(&limit).await.ok(), home.run(&["models", "list"]).await.ok());
    for (option, most) in limits {
        assert!(set.contains(most), "{option}: {set}");
        assert!(list.contains(most), "{option}: {list}");
    }
}
