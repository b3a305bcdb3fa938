//! Steps over a list: over HTTP, and with kills in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, Events, FakeWorker, Server};

fn each() -> Value {
    json!({"id": "each", "forEach": "{{input.docs}}", "item": "doc", "maxItems": 1000,
        "prompt": "read {{doc.n}}"})
}

fn report() -> Value {
    json!({"id": "report", "prompt": "all {{each.output}}", "dependsOn": ["each"],
        "condition": "size(steps['each'].json) > 1"})
}

fn docs(count: usize) -> Value {
    (0..count).map(|n| json!({"n": n})).collect()
}

fn answer(prompt: &str) -> String {
    prompt.strip_prefix("read ").map_or_else(|| prompt.to_owned(), |n| format!(r#"{{"got":{n}}}"#))
}

fn done(count: usize) -> String {
    (0..count).map(|n| json!({"got": n})).collect::<Value>().to_string()
}

/// Answers, and fails the prompts in `bad` for good.
async fn worker(server: &Server, bad: &'static [&'static str]) -> tokio::task::JoinHandle<()> {
    let worker = FakeWorker::connect(server, &server.key("worker").await, 8).await;
    worker.run(move |task| {
        let prompt = task["prompt"].as_str().unwrap_or_default();
        if bad.contains(&prompt) { Err("no".to_owned()) } else { Ok(answer(prompt)) }
    })
}

#[tokio::test]
async fn a_step_runs_once_for_each_item_and_its_output_is_their_array() {
    let server = Server::start();
    let client = server.client("operator").await;
    let plan = client.plan(&json!([each(), report()])).await;
    let shown = client.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(shown["steps"][0]["forEach"], "{{input.docs}}");
    assert_eq!(
        (&shown["steps"][0]["item"], &shown["steps"][0]["maxItems"]),
        (&json!("doc"), &json!(1000))
    );
    let mut events = Events::open(&client, "events=step.*", None).await;
    let id = client.execute(&plan, &json!({"input": {"docs": docs(3)}})).await;
    let waiting = client.execution_when(&id, |e| e["steps"]["each"]["items"].is_object()).await;
    assert_eq!(waiting["steps"]["each"]["items"]["total"], 3);
    worker(&server, &[]).await;
    let ended = client.execution_with_status(&id, "completed").await;
    assert_eq!(ended["steps"]["each"]["output"], done(3));
    assert_eq!(ended["steps"]["report"]["output"], format!("all {}", done(3)));
    let counts = json!({"total": 3, "completed": 3, "running": 0, "pending": 0, "failed": 0,
        "rejected": 0, "cancelled": 0, "awaitingApproval": 0});
    assert_eq!(ended["steps"]["each"]["items"], counts);
    assert_eq!(ended["progress"]["total"], 2);

    let path = format!("/api/plans/executions/{id}/steps/each/items");
    let page = client.get(&format!("{path}?limit=2&offset=1&status=completed")).await;
    let expected = json!({"total": 3, "limit": 2, "offset": 1, "hasMore": false});
    assert_eq!(page.body["pagination"], expected);
    let items = page.expect_ok();
    assert_eq!((&items[0]["item"], &items[0]["output"]), (&json!(1), &json!(r#"{"got":1}"#)));
    let task = client.task(items[1]["taskId"].as_str().expect("an id")).await;
    assert_eq!((&task["item"], &task["stepId"]), (&json!(2), &json!("each")));
    assert_eq!(client.get(&format!("{path}?status=failed")).await.body["pagination"]["total"], 0);
    assert_eq!(client.get(&format!("{path}?status=lost")).await.refused(400), "VALIDATION_ERROR");
    for missing in [
        format!("/api/plans/executions/{id}/steps/report/items"),
        format!("/api/plans/executions/{id}/steps/nothing/items"),
        "/api/plans/executions/dt_exec_1/steps/each/items".to_owned(),
    ] {
        assert_eq!(client.get(&missing).await.refused(404), "NOT_FOUND");
    }

    let mut told = BTreeSet::new();
    loop {
        let (name, event) = events.next().await;
        let (step, item) = (&event["data"]["id"], &event["data"]["item"]);
        if name == "step.completed" {
            told.insert((step.to_string(), item.as_u64()));
        }
        if step == "report" && name == "step.completed" {
            break;
        }
    }
    for item in [Some(0), Some(1), Some(2), None] {
        assert!(told.contains(&("\"each\"".to_owned(), item)), "{item:?} in {told:?}");
    }
}

#[tokio::test]
async fn a_failed_item_ends_the_step_or_leaves_null_and_a_retry_keeps_the_others() {
    let server = Server::start();
    let client = server.client("operator").await;
    let failing = worker(&server, &["read 1"]).await;
    let mut step = each();
    step["onItemError"] = "skip".into();
    step["minSuccess"] = 0.5.into();
    let plan = client.plan(&json!([step.clone()])).await;
    let id = client.execute(&plan, &json!({"input": {"docs": docs(2)}})).await;
    let ended = client.execution_with_status(&id, "completed").await;
    assert_eq!(ended["steps"]["each"]["output"], r#"[{"got":0},null]"#);

    step["minSuccess"] = 0.9.into();
    step["concurrency"] = 1.into();
    let plan = client.plan(&json!([step])).await;
    let id = client.execute(&plan, &json!({"input": {"docs": docs(3)}})).await;
    let ended = client.execution_with_status(&id, "failed").await;
    let message = ended["error"]["message"].as_str().expect("a text");
    assert!(message.starts_with("item 1: "), "{message}");
    let items = &ended["steps"]["each"]["items"];
    assert_eq!(
        (&items["completed"], &items["failed"], &items["cancelled"]),
        (&json!(1), &json!(1), &json!(1))
    );
    failing.abort();
    client.post(&format!("/api/plans/executions/{id}/retry"), &json!({})).await.expect_ok();
    worker(&server, &["read 0"]).await;
    let ended = client.execution_with_status(&id, "completed").await;
    assert_eq!(ended["steps"]["each"]["output"], done(3), "the first item did not run again");
}

#[tokio::test]
async fn lists_are_walked_together_and_their_lengths_must_agree() {
    let server = Server::start();
    let client = server.client("operator").await;
    let triage = json!({"id": "triage", "forEach": "{{input.mails}}", "item": "mail", "maxItems": 9,
        "onItemError": "skip", "prompt": "triage {{mail.subject}}"});
    let lists = json!({"mail": "{{input.mails}}", "label": "{{triage.output}}"});
    let reply = json!({"id": "reply", "forEach": lists, "maxItems": 9, "dependsOn": ["triage"],
        "prompt": "{{item.index}}: {{mail.subject}} is {{label}}"});
    let plan = client.plan(&json!([triage, reply])).await;
    let shown = client.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(shown["steps"][1]["forEach"], lists);
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 8).await;
    worker.run(|task| match task["prompt"].as_str().unwrap_or_default() {
        "triage late" => Err("no".to_owned()),
        prompt => Ok(prompt.strip_prefix("triage ").map_or(prompt, |_| "urgent").to_owned()),
    });
    let mails = json!([{"subject": "broken"}, {"subject": "late"}, {"subject": "lost"}]);
    let id = client.execute(&plan, &json!({"input": {"mails": mails}})).await;
    let ended = client.execution_with_status(&id, "completed").await;
    let expected = json!(["0: broken is urgent", "1: late is ", "2: lost is urgent"]);
    assert_eq!(ended["steps"]["reply"]["output"], expected.to_string());

    let mut uneven = each();
    uneven["item"] = Value::Null;
    uneven["forEach"] = json!({"a": "{{input.short}}", "b": "{{input.long}}"});
    uneven["prompt"] = "{{a}}{{b}}".into();
    let plan = client.plan(&json!([uneven])).await;
    let id = client.execute(&plan, &json!({"input": {"short": [1], "long": [1, 2]}})).await;
    let ended = client.execution_with_status(&id, "failed").await;
    assert_eq!(ended["error"]["code"], "RENDER_FAILED");
    let says = "forEach: {{input.short}} has 1 items and {{input.long}} has 2: lists that are walked \
                together have the same length";
    assert_eq!(ended["error"]["message"], says);
}

#[tokio::test]
async fn every_fault_of_a_list_is_told_and_a_dry_run_counts_the_items() {
    let server = Server::start();
    let client = server.client("operator").await;
    for (members, field, rule) in [
        (json!({"maxItems": null}), "steps[0].maxItems", "required"),
        (json!({"maxItems": 1001}), "steps[0].maxItems", "range"),
        (json!({"forEach": "docs"}), "steps[0].forEach", "placeholder"),
        (json!({"forEach": null}), "steps[0].forEach", "required"),
        (json!({"forEach": 5}), "steps[0].forEach", "type"),
        (json!({"forEach": {}}), "steps[0].forEach", "length"),
        (json!({"forEach": {"doc": "{{input.docs}}"}}), "steps[0].item", "unknown"),
        (json!({"forEach": {"a": 5}, "item": null}), "steps[0].forEach.a", "type"),
        (json!({"forEach": {"a": "{{env.X}}"}, "item": null}), "steps[0].forEach.a", "placeholder"),
        (json!({"forEach": {"A": "{{input.a}}"}, "item": null}), "steps[0].forEach.A", "pattern"),
        (
            json!({"forEach": {"item": "{{input.a}}"}, "item": null}),
            "steps[0].forEach.item",
            "reserved",
        ),
        (json!({"item": "Doc"}), "steps[0].item", "pattern"),
        (json!({"onItemError": "ignore"}), "steps[0].onItemError", "enum"),
        (json!({"minSuccess": 0.5}), "steps[0].minSuccess", "range"),
        (json!({"concurrency": 0}), "steps[0].concurrency", "range"),
        (json!({"prompt": "{{item.n}}"}), "steps[0].prompt", "placeholder"),
    ] {
        let mut step = each();
        step["prompt"] = "go".into();
        for (name, value) in members.as_object().expect("an object") {
            step[name] = value.clone();
        }
        let answer = client.post("/api/plans", &json!({"name": "p", "steps": [step]})).await;
        assert_eq!(answer.fault(), (field.to_owned(), rule.to_owned()), "{members}");
    }
    let plan = client.plan(&json!([each(), report()])).await;
    let path = format!("/api/plans/{plan}/execute");
    let dry = |docs: Value| json!({"input": {"docs": docs}, "options": {"dryRun": true}});
    let run = client.post(&path, &dry(docs(7))).await.expect_ok();
    assert_eq!(run["steps"][0]["items"]["expected"], 7);
    assert_eq!(run["steps"][0]["items"]["maxItems"], 1000);
    assert_eq!(run["steps"][0]["prompt"], "read {{doc.n}}");
    assert!(run["steps"][1].get("items").is_none());
    client.post(&path, &dry(json!("one"))).await.refused(400);
    client.post(&path, &dry(docs(1_001))).await.refused(400);
    let id = client.execute(&plan, &json!({"input": {"docs": docs(1_001)}})).await;
    let ended = client.execution_with_status(&id, "failed").await;
    assert_eq!(ended["error"]["code"], "RENDER_FAILED");
    let says = "forEach: {{input.docs}} has 1001 items, and maxItems is 1000";
    assert_eq!(ended["error"]["message"], says);
}

#[tokio::test]
async fn each_item_has_a_gate_and_its_approval_says_which_item() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut step = each();
    step["requiresApproval"] = true.into();
    let plan = client.plan(&json!([step, report()])).await;
    let id = client.execute(&plan, &json!({"input": {"docs": docs(2)}})).await;
    worker(&server, &[]).await;
    let held = |e: &Value| e["steps"]["each"]["items"]["awaitingApproval"] == 2;
    client.execution_when(&id, held).await;
    let mut found = BTreeMap::new();
    for item in client.get("/api/hitl/pending").await.expect_ok().as_array().expect("a list") {
        let task = item["taskId"].as_str().expect("an id").to_owned();
        assert_eq!(item["stepId"], "each");
        found.insert(item["item"].as_u64().expect("a number"), task);
    }
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 1]);
    let history = client.get(&format!("/api/hitl/{}/history", found[&1])).await.expect_ok();
    assert_eq!(history[0]["details"]["item"], 1, "{history:#}");
    let edit = json!({"modifiedOutput": "{\"got\":\"edited\"}"});
    client.post(&format!("/api/hitl/{}/approve", found[&1]), &edit).await.expect_ok();
    client.post(&format!("/api/hitl/{}/approve", found[&0]), &json!({})).await.expect_ok();
    let ended = client.execution_with_status(&id, "completed").await;
    let array = r#"[{"got":0},{"got":"edited"}]"#;
    assert_eq!(ended["steps"]["each"]["output"], array);
    assert_eq!(ended["steps"]["report"]["output"], format!("all {array}"));
}

/// What was acknowledged as applied, by the execution and the item, and the number of calls.
#[derive(Default)]
struct Seen {
    applied: BTreeMap<(String, u64), usize>,
    calls: usize,
}

async fn work(mut worker: FakeWorker, seen: Arc<Mutex<Seen>>) {
    let mut leases: BTreeMap<String, (String, Option<u64>)> = BTreeMap::new();
    let mut beat = tokio::time::interval(Duration::from_millis(300));
    loop {
        let frame = tokio::select! {
            frame = worker.next() => frame,
            _ = beat.tick() => {
                let held: Vec<&String> = leases.keys().collect();
                if worker.try_send(json!({"type": "heartbeat", "leases": held})).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(frame) = frame else { return };
        let lease = frame["lease"].as_str().unwrap_or_default().to_owned();
        if frame["type"] == "assign" {
            let task = &frame["task"];
            let execution = task["planExecutionId"].as_str().unwrap_or_default().to_owned();
            leases.insert(lease.clone(), (execution, task["item"].as_u64()));
            seen.lock().expect("no panic").calls += 1;
            let output = answer(task["prompt"].as_str().unwrap_or_default());
            let usage = json!({"input": 1, "output": 1});
            let complete =
                json!({"type": "complete", "lease": lease, "output": output, "usage": usage});
            if worker.try_send(complete).await.is_err() {
                return;
            }
        } else if frame["type"] == "ack" && frame["result"] == "applied" {
            let (execution, item) = leases.remove(&lease).expect("it was assigned");
            let Some(item) = item else { continue };
            *seen.lock().expect("no panic").applied.entry((execution, item)).or_default() += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_a_thousand_items_end_and_each_output_counts_once() {
    let mut server = Server::with(&[
        ("WORKER__LEASE", "2s"),
        ("WORKER__HEARTBEAT", "500ms"),
        ("WORKER__SILENT_AFTER", "1s"),
        ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000"),
    ]);
    let (operator, worker_key) = (server.key("operator").await, server.key("worker").await);
    let client = Client::new(&server.url, &operator);
    let plan = client.plan(&json!([each(), report()])).await;
    let id = client.execute(&plan, &json!({"input": {"docs": docs(1_000)}})).await;
    let seen = Arc::new(Mutex::new(Seen::default()));
    for kill in 1..=3_usize {
        let worker = FakeWorker::connect_to(&server.url, &worker_key, 20).await;
        let working = tokio::spawn(work(worker, Arc::clone(&seen)));
        while seen.lock().expect("no panic").calls < 200 * kill {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill();
        working.abort();
        server.restart();
    }
    let worker = FakeWorker::connect_to(&server.url, &worker_key, 20).await;
    let working = tokio::spawn(work(worker, Arc::clone(&seen)));
    let client = Client::new(&server.url, &operator);
    let mut ended = Value::Null;
    for _ in 0..6_000 {
        ended = client.execution(&id).await;
        if ended["status"] != "running" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ended["status"], "completed", "{ended:#}");
    assert_eq!(ended["steps"]["each"]["output"], done(1_000));
    assert_eq!(ended["steps"]["report"]["output"], format!("all {}", done(1_000)));
    let seen = seen.lock().expect("no panic");
    assert!(seen.applied.values().all(|times| *times == 1), "{:?}", seen.applied);
    let lost = seen.calls - 1_001;
    assert!(lost <= 20 * 3, "{lost} calls were repeated");
    working.abort();
}
