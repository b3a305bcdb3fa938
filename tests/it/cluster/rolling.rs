//! A rolling restart under load, from another version of the program to this one.
//!
//! `CALLBOARD_OLDER` names the program of the other version; without it every node runs this one before, too.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::SLACK;
use super::caller::{Call, Caller};
use super::load::Load;
use super::nodes::Cluster;
use crate::support::{Answer, PROGRAM};

const SETTINGS: [(&str, &str); 4] = [
    ("WORKER__LEASE", "2s"),
    ("WORKER__HEARTBEAT", "500ms"),
    ("WORKER__SILENT_AFTER", "1s"),
    ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000"),
];
const NODES: usize = 3;
const CLIENTS: usize = 4;
/// The pause of a client between two calls.
const PAUSE: Duration = Duration::from_millis(100);
/// The time between two nodes, and before the first.
const BETWEEN: Duration = Duration::from_secs(3);
/// The longest of 99 calls in a hundred, with their retries.
const P99: Duration = Duration::from_secs(2);

/// Clients behind a load balancer that repeat a call once, and the times of their calls.
#[derive(Clone)]
struct Clients {
    urls: Arc<Mutex<Vec<String>>>,
    caller: Caller,
    stop: Arc<AtomicBool>,
    repeated: Arc<AtomicUsize>,
    took: Arc<Mutex<Vec<Duration>>>,
    /// The identifier that each key was answered with.
    made: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Clients {
    fn new(load: &Load, token: &str) -> Self {
        Self {
            urls: Arc::clone(&load.urls),
            caller: Caller::new(token, Duration::from_secs(30)),
            stop: Arc::default(),
            repeated: Arc::default(),
            took: Arc::default(),
            made: Arc::default(),
        }
    }

    /// Waits until so many further calls were answered.
    async fn go_on(&self, calls: usize) {
        let answered = || self.took.lock().expect("no panic").len();
        let wanted = answered() + calls;
        crate::support::until("calls are answered", async || answered() >= wanted).await;
    }

    /// The answer to a call, or to its repetition.
    async fn ask(&self, node: usize, call: Call<'_>) -> Value {
        let begun = Instant::now();
        let mut refusals = Vec::new();
        for attempt in 0..2 {
            match self.balanced(node + attempt, call).await {
                Ok(answer) => {
                    self.took.lock().expect("no panic").push(begun.elapsed());
                    self.repeated.fetch_add(attempt, Ordering::Relaxed);
                    return answer;
                }
                Err((refusal, wait)) => {
                    refusals.push(refusal);
                    tokio::time::sleep(wait).await;
                }
            }
        }
        let (method, path) = call.0;
        panic!("{method} {path} failed after one retry: {refusals:?}, {:?}", begun.elapsed());
    }

    /// The data of an answer, or the refusal and the time after which the call may be repeated. As behind a
    /// load balancer, the next node answers for one that takes no connection.
    async fn balanced(&self, node: usize, call: Call<'_>) -> Result<Value, (String, Duration)> {
        let mut last = Err((String::new(), Duration::ZERO));
        let urls = self.urls.lock().expect("no panic").clone();
        for next in 0..urls.len() {
            let url = &urls[(node + next) % urls.len()];
            let broken = |error: reqwest::Error| Err((format!("{error:?}"), Duration::ZERO));
            match self.caller.once(url, call).await {
                Ok(Answer { status, mut body, .. }) if status.is_success() => {
                    return Ok(body["data"].take());
                }
                Ok(Answer { status, headers, body }) => {
                    let after = headers.get("retry-after").and_then(|it| it.to_str().ok());
                    let after = after.and_then(|it| it.parse().ok()).unwrap_or(0);
                    return Err((format!("{status} {body}"), Duration::from_secs(after)));
                }
                Err(error) if error.is_connect() => last = broken(error),
                Err(error) => return broken(error),
            }
        }
        last
    }

    /// Submits tasks and reads them and their list, until it is stopped.
    async fn work(self, number: usize) {
        for count in 0.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let key = format!("{number}.{count}");
            let task = json!({"prompt": key, "tags": ["rolling"]});
            let made = self.ask(count, (("POST", "/api/tasks"), &task, &key)).await;
            let id = made["id"].as_str().expect("an id").to_owned();
            let path = format!("/api/tasks/{id}");
            let read = self.ask(count + 1, (("GET", &path), &Value::Null, "")).await;
            assert_eq!(read["prompt"], key, "an acknowledged task reads as it was submitted");
            let list = ("GET", "/api/tasks?tags=rolling&limit=20");
            self.ask(count + 2, (list, &Value::Null, "")).await;
            self.made.lock().expect("no panic").insert(key, id);
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Drains a node, stops it, starts it with the program of this version, and lets it take part again.
async fn renew(cluster: &mut Cluster, clients: &Clients, node: usize) {
    let other = (node + 1) % NODES;
    let nodes = cluster.get(other, "/api/cluster").await;
    let address = cluster.nodes[node].url.clone();
    let of =
        |it: &&Value| it["address"].as_str().is_some_and(|it| it.trim_end_matches('/') == address);
    let row = nodes.as_array().and_then(|nodes| nodes.iter().find(of));
    let id = row.unwrap_or_else(|| panic!("{address} is not among {nodes}"))["id"].clone();
    let path = format!("/api/cluster/nodes/{}", id.as_str().expect("an id"));
    cluster.ask(other, ("PATCH", &path), &json!({"draining": true}), "").await;
    let begun = Instant::now();
    while cluster.active(other).await == node {
        assert!(begun.elapsed() < Duration::from_secs(20), "node {node} does not hand over");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::task::block_in_place(|| {
        assert!(cluster.nodes[node].terminate(), "node {node} ends in order");
        cluster.nodes[node].upgrade();
    });
    clients.urls.lock().expect("no panic")[node].clone_from(&cluster.nodes[node].url);
    cluster.ask(other, ("PATCH", &path), &json!({"draining": false}), "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_no_call_that_is_repeated_once() {
    let older = std::env::var_os("CALLBOARD_OLDER").map_or_else(|| PROGRAM.into(), PathBuf::from);
    let mut cluster = Cluster::of(&older, NODES, &SETTINGS).await;
    let urls = cluster.nodes.iter().map(|it| it.url.clone()).collect();
    let load = Load::new(urls, &cluster.token);
    let clients = Clients::new(&load, &cluster.token);
    let key = cluster.key(0, "worker").await;
    let workers = [0, 1].map(|_| tokio::spawn(load.clone().work(key.clone())));
    let working: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(clients.clone().work(number))).collect();

    for node in 0..NODES {
        tokio::time::sleep(BETWEEN).await;
        renew(&mut cluster, &clients, node).await;
    }
    tokio::time::sleep(BETWEEN).await;
    clients.stop.store(true, Ordering::Relaxed);
    for client in working {
        client.await.expect("no call fails after its retry");
    }
    let mut took = std::mem::take(&mut *clients.took.lock().expect("no panic"));
    took.sort_unstable();
    let p99 = took[took.len() * 99 / 100];
    let made = std::mem::take(&mut *clients.made.lock().expect("no panic"));
    eprintln!(
        "{} to {PROGRAM}: {} calls, {} repeated; p50 {:?}, p99 {p99:?}, longest {:?}; {} tasks",
        older.display(),
        took.len(),
        clients.repeated.load(Ordering::Relaxed),
        took[took.len() / 2],
        took.last(),
        made.len()
    );
    assert!(took.len() > 500, "{} calls", took.len());
    assert!(p99 <= P99, "{p99:?}");
    for id in made.values() {
        let begun = Instant::now();
        while cluster.get(0, &format!("/api/tasks/{id}")).await["status"] != "completed" {
            assert!(begun.elapsed() < Duration::from_secs(30), "{id} does not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    assert_eq!(load.ledger().twice, Vec::<String>::new(), "results were applied twice");
    assert_eq!(cluster.total(0).await, made.len(), "no task was made twice");
    workers.iter().for_each(tokio::task::JoinHandle::abort);
}

/// The longest call while the active node stops, with its repetition.
const HANDED_OVER: Duration = Duration::from_secs(2);

/// Before: the requests that waited at the leaving node never learnt of the next one, and kept it for 10 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_active_node_stopped_under_load_hands_over_at_once_and_fails_no_call() {
    let mut cluster = Cluster::with(2, &SETTINGS).await;
    let urls = cluster.nodes.iter().map(|it| it.url.clone()).collect();
    let load = Load::new(urls, &cluster.token);
    let clients = Clients::new(&load, &cluster.token);
    let key = cluster.key(0, "worker").await;
    let workers = [0, 1].map(|_| tokio::spawn(load.clone().work(key.clone())));
    let working: Vec<_> =
        (0..2 * CLIENTS).map(|number| tokio::spawn(clients.clone().work(number))).collect();
    clients.go_on(100).await;
    let active = cluster.active(0).await;
    let begun = Instant::now();
    let is_in_order = tokio::task::block_in_place(|| cluster.nodes[active].terminate());
    let ended = begun.elapsed();
    clients.go_on(100).await;
    clients.stop.store(true, Ordering::Relaxed);
    for client in working {
        client.await.expect("no call fails after its retry");
    }
    let took = std::mem::take(&mut *clients.took.lock().expect("no panic"));
    let longest = took.iter().max().copied().unwrap_or_default();
    eprintln!(
        "the node ended after {ended:?}; the longest of {} calls took {longest:?}",
        took.len()
    );
    assert!(is_in_order);
    assert!(longest <= HANDED_OVER + SLACK, "{longest:?}");
    assert!(ended <= HANDED_OVER + SLACK, "{ended:?}");
    assert_eq!(load.ledger().twice, Vec::<String>::new(), "results were applied twice");
    let made = clients.made.lock().expect("no panic").len();
    assert_eq!(cluster.total(1 - active).await, made, "every task is there once");
    workers.iter().for_each(tokio::task::JoinHandle::abort);
}
