//! Mixed load on the nodes of a cluster, and the ledger of what was acknowledged.
//!
//! Every client goes from node to node: a call without an answer, or with a 503, is repeated at another node
//! under the same idempotency key.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::caller::Caller;
use crate::support::FakeWorker;

/// Calls of one load at a time, and their pause: two cores serve the nodes, the database and the tests.
const PAUSE: Duration = Duration::from_millis(40);

/// The acknowledged work.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The identifier that each key was answered with.
    pub(super) tasks: BTreeMap<String, String>,
    pub(super) executions: BTreeMap<String, String>,
    /// The outputs that were acknowledged to a worker, by task.
    pub(super) applied: HashMap<String, String>,
    /// The tasks of which a second result was applied.
    pub(super) twice: Vec<String>,
    /// The comment under which an approval was acknowledged.
    pub(super) approved: HashMap<String, String>,
    /// The webhooks that arrived: their identifiers, by task.
    pub(super) webhooks: HashMap<String, Vec<String>>,
    /// The longest time between two acknowledged submissions.
    pub(super) longest: Duration,
    last: Option<Instant>,
}

impl Ledger {
    fn acknowledged(&mut self, key: String, id: String) {
        self.tasks.insert(key, id);
        let now = Instant::now();
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(now - last);
        }
    }
}

/// The clients of a cluster, and the addresses of its nodes.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) urls: Arc<Mutex<Vec<String>>>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) stop: Arc<AtomicBool>,
    caller: Caller,
    turn: Arc<AtomicUsize>,
}

impl Load {
    pub(super) fn new(urls: Vec<String>, token: &str) -> Self {
        Self {
            urls: Arc::new(Mutex::new(urls)),
            ledger: Arc::default(),
            stop: Arc::default(),
            caller: Caller::new(token, Duration::from_secs(15)),
            turn: Arc::default(),
        }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("no panic")
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The address of the next node in turn.
    fn node(&self) -> String {
        let urls = self.urls.lock().expect("no panic");
        urls[self.turn.fetch_add(1, Ordering::Relaxed) % urls.len()].clone()
    }

    /// Waits until each kind of work was acknowledged, however busy the machine is.
    pub(super) async fn has_work(&self) {
        crate::support::until("each kind of work is acknowledged", async || {
            let ledger = self.ledger();
            let (tasks, executions) = (ledger.tasks.len(), ledger.executions.len());
            tasks > 50 && executions > 5 && ledger.approved.len() > 3
        })
        .await;
    }

    /// Asks node after node until one answers.
    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: &Value,
        key: &str,
    ) -> (u16, Value) {
        let answer = self.caller.ask(|| self.node(), ((method, path), body, key)).await;
        assert_ne!(answer.status, 500, "{method} {path}: {}", answer.body);
        (answer.status.as_u16(), answer.body)
    }

    async fn made(&self, path: &str, body: &Value, key: &str) -> String {
        let (status, answer) = self.ask("POST", path, body, key).await;
        assert!((200..300).contains(&status), "{path}: {status} {answer}");
        answer["data"]["id"].as_str().expect("an id").to_owned()
    }

    /// Submits tasks, every third with a webhook.
    pub(super) async fn submit(self, number: usize, receiver: String) {
        for count in 0.. {
            if self.is_over() {
                return;
            }
            let key = format!("task {number}.{count}");
            let mut body = json!({"prompt": key});
            if count % 3 == 0 {
                body["callbackUrl"] = json!(receiver);
            }
            let id = self.made("/api/tasks", &body, &key).await;
            self.ledger().acknowledged(key, id);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Starts executions of a plan.
    pub(super) async fn execute(self, plan: String) {
        for count in 0.. {
            if self.is_over() {
                return;
            }
            let key = format!("execution {count}");
            let path = format!("/api/plans/{plan}/execute");
            let id = self.made(&path, &json!({"input": {"n": count}}), &key).await;
            self.ledger().executions.insert(key, id);
            tokio::time::sleep(PAUSE * 4).await;
        }
    }

    /// Approves what waits: also what a lost lease brings late.
    pub(super) async fn review(self) {
        let mut count = 0;
        loop {
            let path = "/api/hitl/pending?limit=20";
            let (_, pending) = self.ask("GET", path, &Value::Null, "").await;
            let pending = pending["data"].as_array().cloned().unwrap_or_default();
            for held in &pending {
                let task = held["taskId"].as_str().or(held["id"].as_str()).expect("an id");
                count += 1;
                let comment = format!("decision {count}");
                let path = format!("/api/hitl/{task}/approve");
                let (status, answer) =
                    self.ask("POST", &path, &json!({"comment": comment}), "").await;
                // A decision whose answer was lost is found when it is repeated.
                assert!([200, 409].contains(&status), "{status} {answer}");
                if status == 200 {
                    let before = self.ledger().approved.insert(task.to_owned(), comment);
                    assert_eq!(before, None, "{task} was approved twice");
                }
            }
            tokio::time::sleep(PAUSE * 2).await;
        }
    }

    /// A worker that answers every task with an output of its own, and connects again to the next node.
    pub(super) async fn work(self, key: String) {
        loop {
            if let Some(worker) = FakeWorker::try_connect(&self.node(), &key, 4).await {
                self.serve(worker).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn serve(&self, mut worker: FakeWorker) {
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
            let name = frame["lease"].as_str().unwrap_or_default().to_owned();
            if frame["type"] == "assign" {
                let task = frame["task"]["id"].as_str().expect("an id").to_owned();
                let output = format!("by {name}");
                leases.insert(name.clone(), (task, output.clone()));
                let usage = json!({"input": 1, "output": 1});
                let done =
                    json!({"type": "complete", "lease": name, "output": output, "usage": usage});
                if worker.try_send(done).await.is_err() {
                    return;
                }
            } else if frame["type"] == "ack" && frame["result"] == "applied" {
                let (task, output) = leases.remove(&name).expect("it was assigned");
                let mut ledger = self.ledger();
                if ledger.applied.insert(task.clone(), output).is_some() {
                    ledger.twice.push(task);
                }
            }
        }
    }

    /// A receiver of webhooks; returns its URL.
    pub(super) async fn receive(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let router = axum::Router::new().route("/", post(take)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }
}

async fn take(State(load): State<Load>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let id = headers["webhook-id"].to_str().expect("ASCII").to_owned();
    let task = body["taskId"].as_str().expect("a task").to_owned();
    load.ledger().webhooks.entry(task).or_default().push(id);
    StatusCode::NO_CONTENT
}
