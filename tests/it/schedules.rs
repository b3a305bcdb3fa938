//! Schedules.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::{Client, Server};

fn in_millis(millis: i64) -> String {
    let at = Timestamp::now().as_millisecond() + millis;
    Timestamp::from_millisecond(at).expect("a time").to_string()
}

fn nightly(target: &Value) -> Value {
    json!({"name": "nightly", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "target": target})
}

fn task(tag: &str) -> Value {
    json!({"task": {"prompt": "p", "tags": [tag]}})
}

async fn total(client: &Client, tag: &str) -> u64 {
    let list = client.get(&format!("/api/tasks?tags={tag}&limit=1")).await;
    list.body["pagination"]["total"].as_u64().expect("a number")
}

#[tokio::test]
async fn a_schedule_is_made_changed_triggered_listed_and_deleted() {
    let server = Server::start();
    let client = server.client("operator").await;
    let made = client.post("/api/schedules", &nightly(&task("n"))).await.expect(201);
    for (field, expected) in [
        ("overlap", json!("skip")),
        ("catchUp", json!("last")),
        ("jitterMs", json!(0)),
        ("enabled", json!(true)),
        ("timezone", json!("Europe/Berlin")),
        ("target", task("n")),
        ("queued", json!(0)),
    ] {
        assert_eq!(made[field], expected, "{made:#}");
    }
    let id = made["id"].as_str().expect("an id");
    assert!(id.starts_with("dt_sched_"), "{id}");
    let next: Timestamp = made["nextRunAt"].as_str().expect("a time").parse().expect("a time");
    assert!(next > Timestamp::now());
    let path = format!("/api/schedules/{id}");
    assert_eq!(client.get(&path).await.expect_ok(), made);

    let change = json!({"enabled": false, "name": "later"});
    let change = client.request(reqwest::Method::PATCH, &path).json(&change);
    let paused = client.send(change).await.expect_ok();
    assert_eq!((&paused["name"], &paused["enabled"]), (&json!("later"), &json!(false)));
    assert!(paused.get("nextRunAt").is_none());
    for (query, count) in [("", 1), ("?enabled=true", 0), ("?enabled=false", 1)] {
        let list = client.get(&format!("/api/schedules{query}")).await;
        assert_eq!(list.body["pagination"]["total"], count, "{query}");
    }
    let run = client.post(&format!("{path}/trigger"), &json!({})).await.expect_ok();
    assert_eq!(run["outcome"], "started");
    let started = client.task(run["taskId"].as_str().expect("an id")).await;
    assert_eq!((&started["prompt"], &started["tags"]), (&json!("p"), &json!(["n"])));
    let again = client.post(&format!("{path}/trigger"), &json!({})).await;
    assert_eq!(again.refused(409), "INVALID_STATE", "overlap is skip");
    let way = format!(
        "task {} is in progress, and overlap is skip",
        run["taskId"].as_str().expect("an id")
    );
    assert_eq!(again.body["error"]["message"], way);
    let runs = client.get(&format!("{path}/runs")).await;
    assert_eq!(runs.body["pagination"]["total"], 1);
    assert_eq!(runs.expect_ok()[0], run);

    client.delete(&path).await.expect_ok();
    assert_eq!(client.get(&path).await.refused(404), "NOT_FOUND");
    assert_eq!(client.post(&format!("{path}/trigger"), &json!({})).await.refused(404), "NOT_FOUND");
    let audit = server.client("admin").await.get("/api/audit?limit=100").await.expect_ok();
    let actions: Vec<_> =
        audit.as_array().expect("a list").iter().rev().map(|e| &e["action"]).collect();
    let own: Vec<_> =
        actions.into_iter().filter(|a| a.as_str().unwrap_or("").starts_with("schedule.")).collect();
    assert_eq!(
        own,
        ["schedule.created", "schedule.changed", "schedule.triggered", "schedule.deleted"]
    );
}

#[tokio::test]
async fn what_makes_no_sense_in_a_schedule_is_refused_with_its_field() {
    let server = Server::start();
    let client = server.client("operator").await;
    let with = |change: Value| {
        let mut body = nightly(&task("n"));
        for (name, value) in change.as_object().expect("an object") {
            body[name] = value.clone();
        }
        body
    };
    for (body, field, rule) in [
        (with(json!({"cron": "61 * * * *"})), "cron", "format"),
        (with(json!({"cron": "* * * * * *"})), "cron", "format"),
        (with(json!({"cron": "0 0 30 2 *"})), "cron", "format"),
        (with(json!({"cron": null})), "cron", "required"),
        (with(json!({"timezone": "Mars/Olympus"})), "timezone", "enum"),
        (with(json!({"at": in_millis(60_000)})), "at", "unknown"),
        (json!({"name": "n", "at": in_millis(-60_000), "target": task("n")}), "at", "range"),
        (with(json!({"overlap": "maybe"})), "overlap", "enum"),
        (with(json!({"catchUp": "some"})), "catchUp", "enum"),
        (with(json!({"jitterMs": 3_600_001})), "jitterMs", "range"),
        (with(json!({"name": ""})), "name", "length"),
        (with(json!({"target": {}})), "target.task", "required"),
        (with(json!({"target": {"task": {}}})), "target.task.prompt", "required"),
        (
            with(json!({"target": {"templateId": "x", "version": "one"}})),
            "target.version",
            "pattern",
        ),
        (with(json!({"more": 1})), "more", "unknown"),
    ] {
        let refused = client.post("/api/schedules", &body).await;
        assert_eq!(refused.refused(400), "VALIDATION_ERROR", "{body}");
        let details = &refused.body["error"]["details"];
        assert_eq!((&details["field"], &details["rule"]), (&json!(field), &json!(rule)), "{body}");
    }
    let missing = with(json!({"target": {"planId": "dt_plan_01kahj9d2z4x0v5y8m3n7r6q4e"}}));
    assert_eq!(client.post("/api/schedules", &missing).await.refused(404), "NOT_FOUND");
    let viewer = server.client("viewer").await;
    assert_eq!(viewer.post("/api/schedules", &nightly(&task("n"))).await.refused(403), "FORBIDDEN");
}

#[tokio::test]
async fn the_faults_of_a_target_are_named_within_it() {
    let server = Server::start();
    let client = server.client("operator").await;
    let plan = client.plan(&json!([{"id": "a", "prompt": "{{input.topic}}"}])).await;
    let hitl = json!({"requiredFor": ["nobody"]});
    for (target, field) in [
        (json!({"templateId": "contract-review-v1", "input": {"x": 1}}), "target.input"),
        (json!({"planId": plan, "input": {}}), "target.input"),
        (
            json!({"planId": plan, "input": {"topic": "t"}, "hitl": hitl}),
            "target.hitl.requiredFor[0]",
        ),
    ] {
        let made = client.post("/api/schedules", &nightly(&target)).await;
        assert_eq!(made.status.as_u16(), 400, "{target}: {:#}", made.body);
        let details = &made.body["error"]["details"];
        let found = details["field"].as_str().expect("a field");
        assert!(found.starts_with(field), "{target}: {details:#}");
        for error in details["errors"].as_array().into_iter().flatten() {
            let (at, says) = (error["field"].as_str().unwrap(), error["message"].as_str().unwrap());
            assert!(at.starts_with(field) && says.starts_with(at), "{target}: {details:#}");
        }
    }
    let task = json!({"task": {"prompt": "p", "callbackUrl": "http://10.1.2.3/"}});
    let made = client.post("/api/schedules", &nightly(&task)).await;
    assert_eq!(made.refused(400), "CALLBACK_URL_FORBIDDEN");
    let says = made.body["error"]["message"].as_str().expect("a text");
    assert!(says.starts_with("target.task.callbackUrl http://10.1.2.3/ must"), "{says}");
    let batch = json!({"tasks": [{"prompt": "p"}, task["task"]]});
    let made = client.post("/api/tasks/batch", &batch).await;
    let says = made.body["error"]["message"].as_str().expect("a text");
    assert!(says.starts_with("tasks[1].callbackUrl http://10.1.2.3/ must"), "{says}");
}

#[tokio::test]
async fn killed_around_its_instant_each_occurrence_starts_once() {
    let mut server = Server::start();
    let key = server.key("operator").await;
    let client = Client::new(&server.url, &key);
    let plan = client.plan(&json!([{"id": "a", "prompt": "a"}])).await;
    let mut schedules = Vec::new();
    for n in 0..40_i64 {
        let target = if n % 2 == 0 { task("once") } else { json!({"planId": plan}) };
        let body = json!({"name": "once", "at": in_millis(2_500 + 40 * n), "target": target});
        let made = client.post("/api/schedules", &body).await.expect(201);
        schedules.push(made["id"].as_str().expect("an id").to_owned());
    }
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(900)).await;
        server.kill();
        server.restart();
    }
    let client = Client::new(&server.url, &key);
    for id in &schedules {
        let path = format!("/api/schedules/{id}/runs");
        let mut runs = client.get(&path).await.expect_ok();
        for _ in 0..200 {
            if runs[0]["outcome"] == "started" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            runs = client.get(&path).await.expect_ok();
        }
        assert_eq!(runs.as_array().map(Vec::len), Some(1), "{runs:#}");
        assert_eq!(runs[0]["outcome"], "started", "{runs:#}");
    }
    assert_eq!(total(&client, "once").await, 20);
    let executions = client.get(&format!("/api/plans/executions?planId={plan}&limit=1")).await;
    assert_eq!(executions.body["pagination"]["total"], 20);
}
