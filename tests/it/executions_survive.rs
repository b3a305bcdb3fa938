//! Kills in the middle of executions: all end right, each output counts once, and a model is called
//! again only where its answer was not acknowledged.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

const EXECUTIONS: usize = 200;

/// How often the server is killed: many times in the long form of `./test`.
fn kills() -> u32 {
    if std::env::var_os("CALLBOARD_LONG").is_some() { 20 } else { 3 }
}

/// What the worker saw, over all its connections. A step is named by its execution and its id.
#[derive(Default)]
struct Seen {
    calls: usize,
    /// The answers that were acknowledged as applied.
    applied: HashMap<(String, String), String>,
    /// What the model was asked when that answer was given.
    prompts: HashMap<(String, String), String>,
    /// Steps that were given out although their answer had been acknowledged.
    again: HashSet<(String, String)>,
}

/// Three steps, of which the last joins the others.
fn plan() -> Value {
    json!({"name": "join", "steps": [
        {"id": "left", "prompt": "left {{input.n}}"},
        {"id": "right", "prompt": "right {{input.n}}", "dependsOn": ["left"]},
        {"id": "join", "prompt": "{{left.output}}+{{right.output}}", "dependsOn": ["left", "right"]},
    ]})
}

/// Answers every call differently, until the connection breaks.
async fn work(mut worker: FakeWorker, seen: Arc<Mutex<Seen>>) {
    let mut leases: HashMap<String, ((String, String), String, String)> = HashMap::new();
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
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let lease = text(&frame["lease"]);
        if frame["type"] == "assign" {
            let task = &frame["task"];
            let step = (text(&task["planExecutionId"]), text(&task["stepId"]));
            let output = {
                let mut seen = seen.lock().expect("no test panics in it");
                seen.calls += 1;
                if seen.applied.contains_key(&step) {
                    seen.again.insert(step.clone());
                }
                format!("answer {}", seen.calls)
            };
            leases.insert(lease.clone(), (step, text(&task["prompt"]), output.clone()));
            let usage = json!({"input": 1, "output": 1});
            let complete =
                json!({"type": "complete", "lease": lease, "output": output, "usage": usage});
            if worker.try_send(complete).await.is_err() {
                return;
            }
        } else if frame["type"] == "ack" && frame["result"] == "applied" {
            let (step, prompt, output) = leases.remove(&lease).expect("it was assigned");
            let mut seen = seen.lock().expect("no test panics in it");
            let before = seen.applied.insert(step.clone(), output);
            assert_eq!(before, None, "an answer of {step:?} was applied twice");
            seen.prompts.insert(step, prompt);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_every_execution_ends_and_applies_each_output_once() {
    let mut server = Server::with(&[
        ("WORKER__LEASE", "2s"),
        ("WORKER__HEARTBEAT", "500ms"),
        ("WORKER__SILENT_AFTER", "1s"),
        ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000"),
    ]);
    let (operator, worker_key) = (server.key("operator").await, server.key("worker").await);
    let client = Client::new(&server.url, &operator);
    let plan = client.post("/api/plans", &plan()).await.expect(201);
    let path = format!("/api/plans/{}/execute", plan["id"].as_str().expect("an id"));
    let mut executions = Vec::new();
    for n in 0..EXECUTIONS {
        let begun = client.post(&path, &json!({"input": {"n": n}})).await.expect(201);
        executions.push(begun["id"].as_str().expect("an id").to_owned());
    }

    let seen = Arc::new(Mutex::new(Seen::default()));
    for _ in 0..kills() {
        let worker = FakeWorker::connect_to(&server.url, &worker_key, 20).await;
        let working = tokio::spawn(work(worker, Arc::clone(&seen)));
        // Killed when some more were answered, wherever the rest is then.
        let goal = seen.lock().expect("no panic").calls + 3 * EXECUTIONS / (kills() as usize + 2);
        while seen.lock().expect("no panic").calls < goal {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.kill();
        working.abort();
        server.restart();
    }
    let worker = FakeWorker::connect_to(&server.url, &worker_key, 20).await;
    let working = tokio::spawn(work(worker, Arc::clone(&seen)));

    let client = Client::new(&server.url, &operator);
    for id in &executions {
        let ended = ended(&client, id).await;
        assert_eq!(ended["status"], "completed", "{ended:#}");
        let output = |step: &str| ended["steps"][step]["output"].as_str().expect("an output");
        let seen = seen.lock().expect("no panic");
        let of = |step: &str| (id.clone(), step.to_owned());
        for step in ["left", "right", "join"] {
            // An answer whose acknowledgement died with the server counts as well.
            if let Some(applied) = seen.applied.get(&of(step)) {
                assert_eq!(applied, output(step), "{step} of {id}");
            }
        }
        if let Some(prompt) = seen.prompts.get(&of("join")) {
            assert_eq!(*prompt, format!("{}+{}", output("left"), output("right")));
        }
    }
    let seen = seen.lock().expect("no panic");
    assert!(seen.again.is_empty(), "given out again after the acknowledgement: {:?}", seen.again);
    assert!(seen.calls >= 3 * EXECUTIONS, "every step was asked: {}", seen.calls);
    let lost = seen.calls - 3 * EXECUTIONS;
    assert!(lost <= 20 * kills() as usize, "{lost} calls were repeated");
    working.abort();
}

async fn ended(client: &Client, id: &str) -> Value {
    for _ in 0..6_000 {
        let execution = client.get(&format!("/api/plans/executions/{id}")).await.expect_ok();
        if execution["status"] != "running" {
            return execution;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("execution {id} does not end");
}
