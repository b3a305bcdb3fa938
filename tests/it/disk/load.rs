//! A mixed load, a list of all that was acknowledged of it, and the comparison of a server with the
//! list.
//!
//! Outputs follow from prompts, so whatever is there can be compared, acknowledged or not. What a
//! read shows is no acknowledgement: it may be ahead of the disk.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use callboard_disk::Random;
use serde_json::{Value, json};

use crate::support::{ADMIN, Answer, Client, FakeWorker, PASSWORD};

/// Something that was acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fact {
    Key(String),
    Plan(String),
    Task { id: String, prompt: String },
    Output { id: String },
    Execution { id: String },
    Decision { id: String, verdict: &'static str, edit: Option<String> },
}

/// All that was acknowledged, with the length of the shim's log at that time.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    log: Option<PathBuf>,
    facts: Mutex<Vec<(u64, Fact)>>,
    refusals: Mutex<BTreeMap<u16, usize>>,
}

impl Ledger {
    /// A list beside this log of the shim.
    pub(super) fn beside(log: PathBuf) -> Arc<Self> {
        Arc::new(Self { log: Some(log), ..Self::default() })
    }

    fn note(&self, fact: Fact) {
        let length = |log| std::fs::metadata(log).expect("the shim's log").len();
        let at = self.log.as_ref().map_or(0, length);
        self.facts.lock().expect("no holder panics").push((at, fact));
    }

    fn refused(&self, answer: &Answer) {
        let mut refusals = self.refusals.lock().expect("no holder panics");
        *refusals.entry(answer.status.as_u16()).or_default() += 1;
    }

    pub(super) fn all(&self) -> Vec<(u64, Fact)> {
        self.facts.lock().expect("no holder panics").clone()
    }

    pub(super) fn facts(&self) -> Vec<Fact> {
        self.all().into_iter().map(|(_, fact)| fact).collect()
    }

    /// Statuses that were neither 2xx nor 409, and how often.
    pub(super) fn refusals(&self) -> BTreeMap<u16, usize> {
        self.refusals.lock().expect("no holder panics").clone()
    }
}

/// What a load needs to be let in.
#[derive(Debug, Clone)]
pub(super) struct Keys {
    pub(super) operator: String,
    pub(super) worker: String,
    pub(super) plan: String,
}

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    pub(super) users: usize,
    pub(super) rounds: usize,
    /// How long a long prompt is.
    pub(super) long: usize,
    pub(super) seed: u64,
}

/// Makes keys and a plan; `None` if the server refused or ended.
pub(super) async fn set_up(url: &str, ledger: &Ledger) -> Option<Keys> {
    let anybody = Client::new(url, "");
    let login = json!({"email": ADMIN, "password": PASSWORD});
    let session = made(&anybody, ledger, "/api/auth/login", &login).await?;
    let admin = Client::new(url, session["token"].as_str()?);
    let mut keys = Vec::new();
    for role in ["operator", "worker"] {
        let key = json!({"name": role, "role": role});
        let key = made(&admin, ledger, "/api/auth/keys", &key).await?;
        keys.push(key["key"].as_str()?.to_owned());
    }
    ledger.note(Fact::Key(keys[0].clone()));
    let plan = json!({"name": "two steps", "steps": [
        {"id": "draft", "prompt": "draft {{input.n}}", "requiresApproval": true},
        {"id": "final", "prompt": "final({{draft.output}})", "dependsOn": ["draft"]},
    ]});
    let operator = Client::new(url, &keys[0]);
    let plan = made(&operator, ledger, "/api/plans", &plan).await?["id"].as_str()?.to_owned();
    ledger.note(Fact::Plan(plan.clone()));
    Some(Keys { worker: keys.pop()?, operator: keys.pop()?, plan })
}

/// What a POST made; `None` if it was refused, which is noted, or if the connection broke.
async fn made(client: &Client, ledger: &Ledger, path: &str, body: &Value) -> Option<Value> {
    let request = client.request(reqwest::Method::POST, path).json(body);
    let mut answer = client.try_send(request).await?;
    if answer.status.is_success() {
        return Some(answer.body["data"].take());
    }
    if answer.status.as_u16() != 409 {
        ledger.refused(&answer);
    }
    None
}

/// Tasks, executions and decisions, until all is done or the server is gone.
pub(super) async fn work(url: &str, keys: &Keys, ledger: &Arc<Ledger>, amount: Amount) {
    let Some(worker) = employ(url, &keys.worker, 8).await else { return };
    let worker = tokio::spawn(write(worker, Arc::clone(ledger)));
    let mut users = Vec::new();
    for number in 0..amount.users {
        let (client, plan) = (Client::new(url, &keys.operator), keys.plan.clone());
        users.push(tokio::spawn(user(client, plan, Arc::clone(ledger), number, amount)));
    }
    for user in users {
        user.await.expect("a user ends");
    }
    worker.abort();
}

/// A worker; `None` if the server is gone.
async fn employ(url: &str, key: &str, concurrency: usize) -> Option<FakeWorker> {
    // It panics if the connection is refused or breaks.
    let (url, key) = (url.to_owned(), key.to_owned());
    let connecting =
        tokio::spawn(async move { FakeWorker::connect_to(&url, &key, concurrency).await });
    connecting.await.ok()
}

async fn user(client: Client, plan: String, ledger: Arc<Ledger>, number: usize, amount: Amount) {
    let mut random = Random::new(amount.seed ^ (number as u64) << 48);
    for round in 0..amount.rounds {
        let prompt = format!("{:x}.{number}.{round}", amount.seed);
        let task = match (number + round) % 4 {
            0 => json!({"prompt": prompt}),
            1 => json!({"prompt": format!("{prompt} {}", filler(&mut random, amount.long))}),
            2 => json!({"prompt": prompt, "hitl": {"required": true}}),
            _ => Value::Null,
        };
        let id = |made: &Value| made["id"].as_str().expect("an id").to_owned();
        if task.is_null() {
            let path = format!("/api/plans/{plan}/execute");
            let begun = made(&client, &ledger, &path, &json!({"input": {"n": prompt}})).await;
            if let Some(begun) = begun {
                ledger.note(Fact::Execution { id: id(&begun) });
            }
        } else if let Some(submitted) = made(&client, &ledger, "/api/tasks", &task).await {
            let prompt = task["prompt"].as_str().expect("a text").to_owned();
            ledger.note(Fact::Task { id: id(&submitted), prompt });
        }
        decide(&client, &ledger, &mut random).await;
    }
}

/// Decides something that waits.
async fn decide(client: &Client, ledger: &Ledger, random: &mut Random) {
    let request = client.request(reqwest::Method::GET, "/api/hitl/pending?limit=20");
    let Some(answer) = client.try_send(request).await else { return };
    let Some(waiting) = answer.body["data"].as_array().filter(|waiting| !waiting.is_empty()) else {
        return;
    };
    let item = &waiting[random.below(waiting.len())];
    let id = item["taskId"].as_str().expect("an id").to_owned();
    let edit = (random.below(2) == 0).then(|| format!("edit of {id}"));
    let (verb, verdict, body) = match random.below(3) {
        0 => ("reject", "rejected", json!({"reason": "no"})),
        _ => ("approve", "approved", json!({"modifiedOutput": edit})),
    };
    let edit = edit.filter(|_| verdict == "approved");
    let body = if verdict == "approved" && edit.is_none() { json!({}) } else { body };
    if made(client, ledger, &format!("/api/hitl/{id}/{verb}"), &body).await.is_some() {
        ledger.note(Fact::Decision { id, verdict, edit });
    }
}

fn filler(random: &mut Random, length: usize) -> String {
    (0..length).map(|_| char::from(b"0123456789abcdef"[random.below(16)])).collect()
}

/// What the worker makes of a prompt.
fn output(prompt: &str) -> String {
    format!("done: {prompt}")
}

/// Writes what it is told to, until the connection breaks.
async fn write(mut worker: FakeWorker, ledger: Arc<Ledger>) {
    let mut leases: HashMap<String, String> = HashMap::new();
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
            leases.insert(lease.clone(), text(&task["id"]));
            let complete = json!({
                "type": "complete", "lease": lease, "output": output(&text(&task["prompt"])),
                "usage": {"input": 1, "output": 1},
            });
            if worker.try_send(complete).await.is_err() {
                return;
            }
        } else if frame["type"] == "ack" && frame["result"] == "applied" {
            let id = leases.remove(&lease).expect("it was assigned");
            ledger.note(Fact::Output { id });
        }
    }
}

/// Compares the server with what was acknowledged, has it finish everything, and compares again.
pub(super) async fn check(url: &str, facts: &[Fact]) -> Result<(), String> {
    let (url, facts) = (url.to_owned(), facts.to_vec());
    let checking = tokio::spawn(async move {
        let ledger = Arc::new(Ledger::default());
        let keys = set_up(&url, &ledger).await.expect("somebody can log in and make keys");
        let client = Client::new(&url, &keys.operator);
        for fact in &facts {
            is_there(&client, fact).await;
        }
        let worker = FakeWorker::connect_to(&url, &keys.worker, 8).await;
        let worker = tokio::spawn(write(worker, ledger));
        finish(&client).await;
        ended_right(&client, &facts).await;
        let id = client.submit(&json!({"prompt": "and on"})).await;
        let task = client.task_with_status(&id, "completed").await;
        assert_eq!(task["output"], output("and on"));
        worker.abort();
    });
    checking.await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_owned()
        }
        Err(error) => error.to_string(),
    })
}

/// Before anything else happens.
async fn is_there(client: &Client, fact: &Fact) {
    match fact {
        Fact::Key(key) => {
            let answer = Client::new(&client.url, key).get("/api/tasks?limit=1").await;
            assert_eq!(answer.status, 200, "a key that was made is not known");
        }
        Fact::Plan(id) => {
            let plan = client.get(&format!("/api/plans/{id}")).await;
            assert_eq!(plan.status, 200, "the plan {id}: {}", plan.body);
        }
        Fact::Task { id, prompt } => {
            let task = client.get(&format!("/api/tasks/{id}")).await;
            assert_eq!(task.status, 200, "the task {id}: {}", task.body);
            assert_eq!(task.body["data"]["prompt"], prompt.as_str(), "the prompt of {id}");
        }
        Fact::Output { id } => {
            let task = client.get(&format!("/api/tasks/{id}")).await;
            assert_eq!(task.status, 200, "the task {id}: {}", task.body);
            let task = &task.body["data"];
            let waits = task["status"] == "pending" || task["status"] == "running";
            let held = task["waitingFor"] == "approval";
            assert!(held || !waits, "{id} had its output: {task}");
        }
        Fact::Execution { id } => {
            let execution = client.get(&format!("/api/plans/executions/{id}")).await;
            assert_eq!(execution.status, 200, "the execution {id}: {}", execution.body);
        }
        Fact::Decision { id, verdict, edit } => {
            let item = client.get(&format!("/api/hitl/{id}")).await;
            assert_eq!(item.status, 200, "the item {id}: {}", item.body);
            let decision = &item.body["data"]["decision"];
            assert_eq!(decision["status"], *verdict, "the decision about {id}: {decision}");
            assert_eq!(decision["modifiedOutput"].as_str(), edit.as_deref(), "the edit of {id}");
        }
    }
}

/// Approves what waits until nothing is under way.
async fn finish(client: &Client) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let (left, _) = client.listed("/api/hitl/pending?limit=100").await;
        for id in &left {
            // It may have ended meanwhile.
            client.approve(id, &json!({})).await;
        }
        let open = client.get("/api/tasks?status=pending,running&limit=1").await;
        let running = client.get("/api/plans/executions?status=running&limit=1").await;
        let none = |answer: &Answer| answer.body["pagination"]["total"] == 0;
        if left.is_empty() && none(&open) && none(&running) {
            return;
        }
        assert!(Instant::now() < deadline, "it does not end: {} {}", open.body, running.body);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn ended_right(client: &Client, facts: &[Fact]) {
    let listed = all_tasks(client).await;
    let is_listed = |id| listed.as_ref().is_none_or(|listed| listed.contains(id));
    for fact in facts {
        match fact {
            Fact::Key(_) | Fact::Plan(_) => {}
            Fact::Task { id, .. } | Fact::Output { id } => {
                assert!(is_listed(id), "{id} is in no list");
                task_is_right(client, id).await;
            }
            Fact::Decision { id, .. } => {
                is_there(client, fact).await;
                task_is_right(client, id).await;
                client.history(id).await;
            }
            Fact::Execution { id } => {
                let ended = client.execution(id).await;
                let (draft, last) = (&ended["steps"]["draft"], &ended["steps"]["final"]);
                if draft["status"] == "rejected" {
                    assert_eq!(
                        (&ended["status"], &last["status"]),
                        (&json!("failed"), &json!("cancelled"))
                    );
                } else {
                    assert_eq!(ended["status"], "completed", "{ended:#}");
                    let draft = draft["output"].as_str().expect("an output");
                    assert_eq!(last["output"], output(&format!("final({draft})")));
                }
            }
        }
    }
}

/// A task that has ended has the output that follows from its prompt and its decision.
async fn task_is_right(client: &Client, id: &str) {
    let task = client.task(id).await;
    let of_prompt = output(task["prompt"].as_str().expect("a prompt"));
    let item = client.get(&format!("/api/hitl/{id}")).await;
    if item.status.as_u16() != 200 {
        assert_eq!((&task["status"], &task["output"]), (&json!("completed"), &json!(of_prompt)));
        return;
    }
    let item = &item.body["data"];
    assert_eq!(item["output"], of_prompt.as_str(), "what was held of {id}");
    let edit = item["decision"]["modifiedOutput"].as_str();
    if item["decision"]["status"] == "approved" {
        assert_eq!(task["status"], "completed", "{id}");
        assert_eq!(task["output"], edit.unwrap_or(&of_prompt), "{id}");
    } else {
        assert_eq!(task["status"], "rejected", "{id}");
    }
}

/// Every task that lists show; `None` if that would be pages without end.
async fn all_tasks(client: &Client) -> Option<HashSet<String>> {
    let mut found = HashSet::new();
    let first = client.get("/api/tasks?limit=1").await;
    if first.body["pagination"]["total"].as_u64() > Some(5_000) {
        return None;
    }
    for offset in (0..).step_by(100) {
        let page = client.get(&format!("/api/tasks?limit=100&offset={offset}")).await;
        let more = page.body["pagination"]["hasMore"] == true;
        let page = page.expect_ok();
        let tasks = page.as_array().expect("a list").iter();
        found.extend(tasks.filter_map(|task| Some(task["id"].as_str()?.to_owned())));
        if !more {
            break;
        }
    }
    Some(found)
}
