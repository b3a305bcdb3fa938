//! Kills between the end of a task and its webhook: each end that was committed is announced, under one
//! identifier, and nothing else is.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::{ALLOWED, Client, FakeWorker, Receiver, Server};

/// How often the server is killed: many times in the long form of `./test`.
fn kills() -> usize {
    if std::env::var_os("CALLBOARD_LONG").is_some() { 200 } else { 4 }
}

/// Tasks of each life of the server.
const TASKS: usize = 12;

async fn every(client: &Client, path: &str) -> Vec<Value> {
    let mut found = Vec::new();
    loop {
        let page =
            client.get(&format!("{path}&limit=100&offset={}", found.len())).await.expect_ok();
        let page = page.as_array().expect("a list").clone();
        if page.is_empty() {
            return found;
        }
        found.extend(page);
    }
}

/// Submits the tasks of one life of the server, until it is killed.
async fn submit(client: Client, url: String) {
    for n in 0..TASKS {
        let task = json!({"prompt": format!("task {n}"), "callbackUrl": url});
        let request = client.request(reqwest::Method::POST, "/api/tasks").json(&task);
        if client.try_send(request).await.is_none() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_that_was_committed_is_announced_over_kills() {
    let unlimited = ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000");
    let settings = [
        ALLOWED,
        unlimited,
        ("WEBHOOKS__RETRY_SECONDS", "1,1,1,1,1,1,1,1"),
        // The leases of a worker that a kill took along run out soon.
        ("WORKER__LEASE", "8s"),
        ("WORKER__HEARTBEAT", "2s"),
        ("WORKER__SILENT_AFTER", "6s"),
    ];
    let mut server = Server::with(&settings);
    let receiver = Receiver::start().await;
    let url = receiver.url("hook");
    let (mut operator, key) = (server.client("operator").await, server.key("worker").await);
    let mut seed = 7_u64;
    for _ in 0..kills() {
        if let Some(worker) = FakeWorker::try_connect(&server.url, &key, 4).await {
            worker.run(|_| Ok("done".to_owned()));
        }
        let submitted = tokio::spawn(submit(operator.clone(), url.clone()));
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        tokio::time::sleep(Duration::from_millis((seed >> 33) % 120)).await;
        server.kill();
        let _ = submitted.await;
        server.restart();
        operator = operator.at(&server.url);
    }
    // However early the kills came, the last life has work.
    submit(operator.clone(), url).await;
    let worker = FakeWorker::connect(&server, &key, 8).await;
    worker.run(|_| Ok("done".to_owned()));
    super::until("all tasks end", async || {
        operator.get("/api/tasks?status=pending,running&limit=1").await.expect_ok() == json!([])
    })
    .await;
    super::until("all webhooks are delivered", async || {
        operator.get("/api/webhooks/deliveries?status=pending&limit=1").await.expect_ok()
            == json!([])
    })
    .await;

    let completed = every(&operator, "/api/tasks?status=completed").await;
    let completed: HashSet<_> =
        completed.iter().map(|task| task["id"].as_str().expect("an id").to_owned()).collect();
    assert!(completed.len() >= TASKS, "{}", completed.len());
    let mut identifiers: HashMap<String, HashSet<String>> = HashMap::new();
    for arrived in receiver.arrived() {
        let task = arrived.body["taskId"].as_str().expect("an id").to_owned();
        identifiers.entry(task).or_default().insert(arrived.header("webhook-id").to_owned());
    }
    let announced: HashSet<_> = identifiers.keys().cloned().collect();
    assert_eq!(announced, completed, "each that was committed, and nothing else");
    assert!(identifiers.values().all(|of_task| of_task.len() == 1), "{identifiers:?}");
    let listed = every(&operator, "/api/webhooks/deliveries?status=delivered").await;
    assert_eq!(listed.len(), completed.len());
    let again = receiver.arrived().len() - announced.len();
    println!("{} kills, {} ends, {again} webhooks that came again", kills(), completed.len());
}
