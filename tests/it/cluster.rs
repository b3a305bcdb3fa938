//! Several nodes on one PostgreSQL: real programs, killed and stopped.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use callboard_postgres::Server as Postgres;
use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

/// The term of a node, and the pause that a takeover may add.
const TAKEOVER: Duration = Duration::from_millis(6_500);
/// Nodes share two busy cores with other tests.
const SLACK: Duration = Duration::from_secs(5);

struct Cluster {
    nodes: Vec<Server>,
    _postgres: Postgres,
    token: String,
}

impl Cluster {
    async fn start(count: usize) -> Self {
        callboard_common::tls::install_provider();
        let postgres = Postgres::start();
        let url = postgres.url(&postgres.database());
        let settings = [
            ("STORE__URL", url.as_str()),
            ("AUTH__SIGNING_KEY", "the signing key of every node of this cluster"),
            ("WEBHOOKS__SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
            ("CLUSTER__KEY", "the key with which nodes sign what they forward"),
        ];
        let nodes: Vec<_> = (0..count).map(|_| Server::with(&settings)).collect();
        let mut cluster = Self { nodes, _postgres: postgres, token: String::new() };
        let login = json!({"email": crate::support::ADMIN, "password": crate::support::PASSWORD});
        let session = cluster.ask(0, "POST", "/api/auth/login", &login, "").await;
        session["token"].as_str().expect("a token").clone_into(&mut cluster.token);
        cluster
    }

    /// Asks until the answer is neither a 503 nor a broken connection.
    async fn ask(&self, node: usize, method: &str, path: &str, body: &Value, key: &str) -> Value {
        let begun = Instant::now();
        loop {
            let answer = self.try_ask(node, method, path, body, key).await;
            if let Some((status, body)) = answer
                && status != 503
            {
                assert!((200..300).contains(&status), "{method} {path}: {status} {body}");
                return body["data"].clone();
            }
            assert!(begun.elapsed() < Duration::from_secs(40), "{method} {path} is not answered");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn try_ask(
        &self,
        node: usize,
        method: &str,
        path: &str,
        body: &Value,
        key: &str,
    ) -> Option<(u16, Value)> {
        let url = format!("{}{path}", self.nodes[node].url);
        let call = reqwest::Client::new().request(method.parse().expect("a method"), url);
        let call = if body.is_null() { call } else { call.json(body) };
        let call = if key.is_empty() { call } else { call.header("Idempotency-Key", key) };
        let answer = call.bearer_auth(&self.token).send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.ok()?))
    }

    async fn submit(&self, node: usize, prompt: &str) -> String {
        let made = self.ask(node, "POST", "/api/tasks", &json!({"prompt": prompt}), prompt).await;
        made["id"].as_str().expect("an id").to_owned()
    }

    async fn get(&self, node: usize, path: &str) -> Value {
        self.ask(node, "GET", path, &Value::Null, "").await
    }

    /// The number of tasks, as a list at a node tells it.
    async fn total(&self, node: usize) -> usize {
        let client = Client::new(&self.nodes[node].url, &self.token);
        let page = client.get("/api/tasks?limit=1").await;
        let total = page.body["pagination"]["total"].as_u64().expect("a number");
        usize::try_from(total).expect("small")
    }

    /// The number of the active node, as `node` tells it.
    async fn active(&self, node: usize) -> usize {
        let nodes = self.get(node, "/api/cluster").await;
        let nodes = nodes.as_array().expect("nodes");
        let active = nodes.iter().find(|node| node["status"] == "active").expect("an active one");
        let address = active["address"].as_str().expect("an address").trim_end_matches('/');
        self.nodes.iter().position(|node| node.url == address).expect("one of ours")
    }

    async fn worker(&self, node: usize) -> FakeWorker {
        let client = Client::new(&self.nodes[node].url, &self.token);
        let made = client.post("/api/auth/keys", &json!({"name": "w", "role": "worker"})).await;
        let key = made.expect(201)["key"].as_str().expect("a key").to_owned();
        FakeWorker::connect_to(&self.nodes[node].url, &key, 2).await
    }
}

#[tokio::test]
async fn every_node_answers_and_takes_over_and_a_worker_may_sit_at_any() {
    let mut cluster = Cluster::start(3).await;
    let active = cluster.active(0).await;
    let others: Vec<_> = (0..3).filter(|node| *node != active).collect();
    let (first, second) = (others[0], others[1]);

    // Work that is submitted at one node reaches the worker of another.
    let mut worker = cluster.worker(first).await;
    let task = cluster.submit(second, "before").await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned["task"]["id"], task);
    let lease = assigned["lease"].clone();
    worker.send(json!({"type": "complete", "lease": lease, "output": "done", "usage": {"input": 1, "output": 1}})).await;
    worker.receive("ack").await;
    assert_eq!(cluster.get(active, &format!("/api/tasks/{task}")).await["status"], "completed");

    let killed_at = Instant::now();
    cluster.nodes[active].kill();
    let after = cluster.submit(first, "after").await;
    let pause = killed_at.elapsed();
    assert!(pause <= TAKEOVER + SLACK, "{pause:?}");
    assert_eq!(cluster.submit(second, "before").await, task, "the key holds on every node");
    assert_eq!(cluster.get(second, &format!("/api/tasks/{task}")).await["status"], "completed");

    cluster.nodes[active].restart();
    assert_eq!(cluster.submit(active, "after").await, after);
    let mut worker = cluster.worker(active).await;
    assert_eq!(worker.assignment().await["task"]["id"], after);
}

#[tokio::test]
async fn a_stopped_node_changes_nothing_after_it_goes_on() {
    let cluster = Cluster::start(2).await;
    let active = cluster.active(0).await;
    let other = 1 - active;
    let mut made = BTreeSet::from([cluster.submit(active, "before").await]);
    signal(cluster.nodes[active].pid(), "-STOP");
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < Duration::from_secs(15) {
        made.insert(cluster.submit(other, &format!("meanwhile {number}")).await);
        number += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(cluster.active(other).await, other);
    signal(cluster.nodes[active].pid(), "-CONT");
    made.insert(cluster.submit(active, "afterwards").await);
    assert_eq!(cluster.active(active).await, other);
    assert_eq!(cluster.total(active).await, made.len());
}

#[tokio::test]
async fn a_node_is_drained_and_stopped_in_order() {
    let mut cluster = Cluster::start(2).await;
    let active = cluster.active(0).await;
    let other = 1 - active;
    let task = cluster.submit(other, "before").await;
    let nodes = cluster.get(other, "/api/cluster").await;
    let nodes = nodes.as_array().expect("nodes");
    let leaving = nodes.iter().find(|node| node["status"] == "active").expect("an active one");
    let path = format!("/api/cluster/nodes/{}", leaving["id"].as_str().expect("an id"));
    cluster.ask(other, "PATCH", &path, &json!({"draining": true}), "").await;
    while cluster.active(other).await != other {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(cluster.nodes[active].terminate(), "it ends in order");
    assert_eq!(cluster.submit(other, "before").await, task);
    assert!(cluster.nodes[other].terminate(), "the last node ends in order, too");
}

fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.expect("kill runs").success());
}
