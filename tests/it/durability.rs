//! Crashes: what was acknowledged is there afterwards, and ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::Mutex;

use crate::support::{Client, FakeWorker, Server};

/// How often the server is killed: many times in the long form of `./test`.
fn cycles() -> u64 {
    if std::env::var_os("CALLBOARD_LONG").is_some() { 50 } else { 5 }
}

/// What was acknowledged to clients, seen from outside.
#[derive(Default)]
struct Ledger {
    /// Every acknowledged task.
    submitted: Vec<String>,
    /// Every output that was read as completed.
    outputs: HashMap<String, String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_after_crash_every_acknowledged_task_is_there_and_ends() {
    let mut server = Server::with(&[
        ("WORKER__LEASE", "2s"),
        ("WORKER__HEARTBEAT", "500ms"),
        ("WORKER__SILENT_AFTER", "1s"),
        ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000"),
    ]);
    let (operator, worker_key) = (server.key("operator").await, server.key("worker").await);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut seed = 0x5eed_u64;

    // A slow machine needs more cycles for the same work.
    let mut cycle = 0;
    while cycle < cycles() || ledger.lock().await.submitted.len() <= 50 {
        cycle += 1;
        let stop = Arc::new(AtomicBool::new(false));
        let mut clients = Vec::new();
        for number in 0..8 {
            let client = Client::new(&server.url, &operator);
            let (ledger, stop) = (Arc::clone(&ledger), Arc::clone(&stop));
            clients.push(tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    let task = json!({"prompt": format!("{cycle}.{number}.{count}")});
                    let request = client.request(reqwest::Method::POST, "/api/tasks").json(&task);
                    let Some(answer) = client.try_send(request).await else { break };
                    if answer.status.as_u16() == 201 {
                        let id = answer.body["data"]["id"].as_str().expect("an id").to_owned();
                        ledger.lock().await.submitted.push(id);
                    }
                    count += 1;
                }
            }));
        }
        let worker = FakeWorker::connect_to(&server.url, &worker_key, 4).await;
        let worker = tokio::spawn(work(worker, Arc::clone(&ledger)));
        // A different moment each time, from at once to well under way.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        tokio::time::sleep(Duration::from_millis(seed >> 33 & 0x1ff)).await;
        server.kill();
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("a client ends");
        }
        worker.abort();
        server.restart();
    }

    let worker = FakeWorker::connect_to(&server.url, &worker_key, 4).await;
    let worker = tokio::spawn(work(worker, Arc::clone(&ledger)));
    let client = Client::new(&server.url, &operator);
    let (submitted, outputs) = {
        let ledger = ledger.lock().await;
        (ledger.submitted.clone(), ledger.outputs.clone())
    };
    assert!(submitted.len() > 50, "there was work: {}", submitted.len());
    for id in &submitted {
        let task = client.task_with_status(id, "completed").await;
        assert_eq!(task["output"], format!("done {}", task["prompt"].as_str().expect("text")));
    }
    for (id, output) in &outputs {
        assert_eq!(client.task(id).await["output"], output.as_str(), "an output changed");
    }
    assert!(!outputs.is_empty());
    worker.abort();
}

/// A worker that answers at once and remembers what was acknowledged as applied.
async fn work(mut worker: FakeWorker, ledger: Arc<Mutex<Ledger>>) {
    let mut leases = HashMap::new();
    let mut beat = tokio::time::interval(Duration::from_millis(300));
    loop {
        let frame = tokio::select! {
            frame = worker.next() => frame,
            _ = beat.tick() => {
                let held: Vec<&String> = leases.keys().collect();
                let heartbeat = json!({"type": "heartbeat", "leases": held});
                if worker.try_send(heartbeat).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(frame) = frame else { return };
        let lease = frame["lease"].clone();
        let name = lease.as_str().unwrap_or_default().to_owned();
        if frame["type"] == "assign" {
            let task = &frame["task"];
            let output = format!("done {}", task["prompt"].as_str().expect("text"));
            leases.insert(name, (task["id"].as_str().expect("an id").to_owned(), output.clone()));
            let usage = json!({"input": 1, "output": 1});
            let complete =
                json!({"type": "complete", "lease": lease, "output": output, "usage": usage});
            if worker.try_send(complete).await.is_err() {
                return;
            }
        } else if frame["type"] == "ack" && frame["result"] == "applied" {
            let (id, output) = leases.remove(&name).expect("it was assigned");
            ledger.lock().await.outputs.insert(id, output);
        }
    }
}

#[tokio::test]
async fn a_restart_takes_no_attempt_from_what_was_running() {
    let mut server = Server::start();
    let key = server.key("worker").await;
    let operator = server.key("operator").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let client = Client::new(&server.url, &operator);
    let id = client.submit(&json!({"prompt": "p"})).await;
    let lease = worker.assignment().await["lease"].clone();
    client.task_with_status(&id, "running").await;
    server.kill();
    server.restart();

    let resume = json!({"workerId": worker.id, "leases": [lease]});
    let register = json!({
        "type": "register", "name": "fake", "version": "0", "queues": ["default"],
        "models": ["*"], "concurrency": 1, "resume": resume,
    });
    let mut worker = FakeWorker::register(&server.url, &key, register).await;
    assert_eq!(worker.registered["kept"], json!([lease]));
    assert_eq!(worker.complete(&lease, "late").await["result"], "applied");
    let client = Client::new(&server.url, &operator);
    let task = client.task(&id).await;
    assert_eq!((&task["output"], &task["attempt"]), (&json!("late"), &json!(1)));
}

#[tokio::test]
async fn a_stop_in_order_is_quick_and_loses_nothing() {
    let mut server = Server::start();
    let operator = server.key("operator").await;
    let client = Client::new(&server.url, &operator);
    let id = client.submit(&json!({"prompt": "p"})).await;
    let started = std::time::Instant::now();
    assert!(server.terminate());
    assert!(started.elapsed() < Duration::from_secs(30));
    server.restart();
    let client = Client::new(&server.url, &operator);
    assert_eq!(client.task(&id).await["status"], "pending");
}

#[tokio::test]
async fn a_data_directory_in_use_is_refused_with_a_hint() {
    let server = Server::start();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(server.dir.path().join("data"))
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("in use by another process") && text.contains("--data-dir"), "{text}");
}

/// A name of `length` characters, as long as a request may have.
fn wide(number: usize, length: usize) -> String {
    format!("{}{number:03}", "漢".repeat(length - 3))
}

#[tokio::test]
async fn the_longest_lists_that_a_request_may_have_are_stored_and_come_back() {
    let mut server = Server::start();
    let (admin, operator) = (server.admin().await, server.client("operator").await);
    let queues: Vec<_> = (0..256).map(|number| wide(number, 128)).collect();
    let key = json!({"name": "k", "role": "worker", "queues": queues});
    let key = admin.post("/api/auth/keys", &key).await.expect(201);
    let tags: Vec<_> = (0..32).map(|number| wide(number, 64)).collect();
    let step = json!({"id": "a", "prompt": "p"});
    let plan =
        json!({"name": wide(0, 100), "description": wide(0, 500), "tags": tags, "steps": [step]});
    let plan = operator.post("/api/plans", &plan).await.expect(201);
    let mut template = json!({"name": "Wide", "version": "1.0.0", "industry": "custom", "tags": tags,
        "inputSchema": {"type": "object"}});
    let steps = (0..200).map(|n| json!({"id": format!("{}{n:03}", "s".repeat(61)), "prompt": "p"}));
    template["steps"] = steps.collect();
    admin.post("/api/templates", &template).await.expect(201);
    let names = template["steps"].as_array().expect("steps").iter().map(|step| &step["id"]);
    let overrides: serde_json::Map<_, _> =
        names.map(|id| (id.as_str().expect("an id").to_owned(), json!(queues[0]))).collect();
    let deploy = json!({"input": {}, "queueOverrides": overrides});
    let deployed = admin.post("/api/templates/wide-v1/deploy", &deploy).await.expect(201);
    let budget =
        json!({"match": {"tags": tags}, "limit": 1_000, "period": "month", "onExceed": "alert"});
    let budget = admin.post("/api/budgets", &budget).await.expect_ok();

    server.kill();
    server.restart();
    let admin = admin.at(&server.url);
    let keys = admin.get("/api/auth/keys").await.expect_ok();
    let stored = keys.as_array().expect("a list").iter().find(|it| it["id"] == key["id"]);
    assert_eq!(stored.expect("it is there")["queues"], json!(queues));
    let path = format!("/api/plans/{}", plan["id"].as_str().expect("an id"));
    assert_eq!(admin.get(&path).await.expect_ok()["tags"], json!(tags));
    let listed = admin.get("/api/plans").await.expect_ok();
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    let path = format!("/api/plans/executions/{}", deployed["id"].as_str().expect("an id"));
    admin.get(&path).await.expect_ok();
    let path = format!("/api/budgets/{}", budget["id"].as_str().expect("an id"));
    assert_eq!(admin.get(&path).await.expect_ok()["match"]["tags"], json!(tags));
    let change = admin.request(reqwest::Method::PATCH, &path).json(&json!({"limit": 2_000}));
    assert_eq!(admin.send(change).await.expect_ok()["match"]["tags"], json!(tags));
    let path = format!("/api/plans/{}", deployed["planId"].as_str().expect("an id"));
    admin.get(&path).await.expect_ok();
}
