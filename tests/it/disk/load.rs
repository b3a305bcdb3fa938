//! A mixed load, and the comparison of a server with all that was acknowledged of it.
//!
//! Outputs follow from prompts, so every stored one can be compared, acknowledged or not.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use callboard_disk::Random;
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::ledger::{Fact, Ledger};
use super::program::Program;
use super::worker::{Worker, output};
use crate::support::{ADMIN, Answer, Client, PASSWORD};

/// How many comparisons are made at a time.
const AT_A_TIME: usize = 8;

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
    let mut worker = Worker::new(&keys.worker, 8);
    let Some(socket) = worker.connect(url).await else { return };
    let noted = Arc::clone(ledger);
    let worker = tokio::spawn(async move { worker.work(socket, &noted).await });
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

async fn user(client: Client, plan: String, ledger: Arc<Ledger>, number: usize, amount: Amount) {
    let mut random = Random::new(amount.seed ^ (number as u64) << 48);
    for round in 0..amount.rounds {
        let prompt = format!("{:x}.{number}.{round}", amount.seed);
        match (number + round) % 4 {
            0 => submit(&client, &ledger, prompt).await,
            1 => {
                let prompt = format!("{prompt} {}", filler(&mut random, amount.long));
                submit(&client, &ledger, prompt).await;
            }
            2 => submit_held(&client, &ledger, prompt).await,
            _ => execute(&client, &plan, &ledger, prompt).await,
        }
        decide(&client, &ledger, &mut random).await;
    }
}

fn id(made: &Value) -> String {
    made["id"].as_str().expect("an id").to_owned()
}

/// Submits a task.
pub(super) async fn submit(client: &Client, ledger: &Ledger, prompt: String) {
    let task = json!({"prompt": prompt});
    if let Some(made) = made(client, ledger, "/api/tasks", &task).await {
        ledger.note(Fact::Task { id: id(&made), prompt });
    }
}

/// Submits a task whose output somebody must approve.
pub(super) async fn submit_held(client: &Client, ledger: &Ledger, prompt: String) {
    let task = json!({"prompt": prompt, "hitl": {"required": true}});
    if let Some(made) = made(client, ledger, "/api/tasks", &task).await {
        ledger.note(Fact::Task { id: id(&made), prompt });
    }
}

/// Submits several tasks in one request.
pub(super) async fn submit_batch(client: &Client, ledger: &Ledger, prompts: Vec<String>) {
    let tasks: Vec<Value> = prompts.iter().map(|prompt| json!({"prompt": prompt})).collect();
    let batch = made(client, ledger, "/api/tasks/batch", &json!({"tasks": tasks})).await;
    let Some(batch) = batch else { return };
    let tasks = batch["tasks"].as_array().expect("a list");
    assert_eq!(tasks.len(), prompts.len(), "all of a batch are made");
    for (task, prompt) in tasks.iter().zip(prompts) {
        ledger.note(Fact::Task { id: id(task), prompt });
    }
}

/// Starts an execution of `plan`.
pub(super) async fn execute(client: &Client, plan: &str, ledger: &Ledger, input: String) {
    let path = format!("/api/plans/{plan}/execute");
    if let Some(begun) = made(client, ledger, &path, &json!({"input": {"n": input}})).await {
        ledger.note(Fact::Execution { id: id(&begun), input });
    }
}

/// Decides something that waits.
pub(super) async fn decide(client: &Client, ledger: &Ledger, random: &mut Random) {
    let request = client.request(reqwest::Method::GET, "/api/hitl/pending?limit=20");
    let Some(answer) = client.try_send(request).await else { return };
    let Some(waiting) = answer.body["data"].as_array().filter(|waiting| !waiting.is_empty()) else {
        return;
    };
    let item = &waiting[random.below(waiting.len())];
    let id = item["taskId"].as_str().expect("an id").to_owned();
    let edit = (random.below(2) == 0).then(|| edit_of(&id));
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

fn edit_of(id: &str) -> String {
    format!("edit of {id}")
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// A text of this length.
pub(super) fn filler(random: &mut Random, length: usize) -> String {
    (0..length).map(|_| char::from(b"0123456789abcdef"[random.below(16)])).collect()
}

/// Compares the server with what was acknowledged, has it finish everything, and compares again.
pub(super) async fn check(url: &str, facts: &[Fact]) -> Result<(), String> {
    let (url, facts) = (url.to_owned(), facts.to_vec());
    judged(async move {
        let ledger = Arc::new(Ledger::default());
        let keys = set_up(&url, &ledger).await.expect("somebody can log in and make keys");
        let client = Client::new(&url, &keys.operator);
        are_there(&client, &facts).await;
        let mut worker = Worker::new(&keys.worker, 8);
        let socket = worker.connect(&url).await.expect("a worker can connect");
        let noted = Arc::clone(&ledger);
        let working = tokio::spawn(async move { worker.work(socket, &noted).await });
        finish(&client).await;
        ended_right(&client, &facts).await;
        let id = client.submit(&json!({"prompt": "and on"})).await;
        let task = client.task_with_status(&id, "completed").await;
        assert_eq!(task["output"], output("and on"));
        working.abort();
        assert_eq!(ledger.all_broken(), Vec::<String>::new());
    })
    .await
}

/// Starts on `data`, compares and finishes as [`check`] does, and ends in order.
pub(super) async fn starts_again(data: &Path, stderr: &Path, facts: &[Fact]) -> Result<(), String> {
    starts_again_with(data, stderr, facts, |_| ()).await
}

/// The same with what `prepare` adds to the start.
pub(super) async fn starts_again_with(
    data: &Path,
    stderr: &Path,
    facts: &[Fact],
    prepare: impl FnOnce(&mut Command),
) -> Result<(), String> {
    let program = Program::start(data, stderr, prepare);
    let program = program.map_err(|ended| format!("it does not start again: {ended:?}"))?;
    check(&program.url, facts).await?;
    let ended = program.terminate();
    if ended.code != Some(0) || ended.panicked() {
        return Err(format!("it does not end in order: {ended:?}"));
    }
    Ok(())
}

/// Whether what a comparison said is that something acknowledged was not there: not that a start was
/// refused, or anything else.
pub(super) fn is_loss(reason: &str) -> bool {
    let said = ["does not exist", "is not known", "had its output", "the decision about"];
    said.iter().any(|said| reason.contains(said))
}

/// Compares the server with what was acknowledged, while anything may go on.
pub(super) async fn compare(client: &Client, facts: Vec<Fact>) -> Result<(), String> {
    let client = client.clone();
    judged(async move { are_there(&client, &facts).await }).await
}

/// What a failed assertion said.
async fn judged(comparison: impl Future<Output = ()> + Send + 'static) -> Result<(), String> {
    tokio::spawn(comparison).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_owned()
        }
        Err(error) => error.to_string(),
    })
}

async fn are_there(client: &Client, facts: &[Fact]) {
    let facts = futures_util::stream::iter(facts);
    facts.for_each_concurrent(AT_A_TIME, |fact| is_there(client, fact)).await;
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
        Fact::Given { id } => {
            let task = client.get(&format!("/api/tasks/{id}")).await;
            assert_eq!(task.status, 200, "{id}, which a worker was given: {}", task.body);
        }
        Fact::Output { id } => {
            let task = client.get(&format!("/api/tasks/{id}")).await;
            assert_eq!(task.status, 200, "the task {id}: {}", task.body);
            let task = &task.body["data"];
            let waits = task["status"] == "pending" || task["status"] == "running";
            let held = task["waitingFor"] == "approval";
            assert!(held || !waits, "{id} had its output: {task}");
            if task["status"] == "completed" {
                let right = [output(text(&task["prompt"])), edit_of(id)];
                assert!(right.iter().any(|right| task["output"] == **right), "of {id}: {task}");
            }
        }
        Fact::Execution { id, .. } => {
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

/// Approves what waits until nothing is under way; it must get on.
async fn finish(client: &Client) {
    let patience = Duration::from_mins(1);
    let (mut last, mut deadline) = (Vec::new(), Instant::now() + patience);
    loop {
        let (left, waiting) = client.listed("/api/hitl/pending?limit=100").await;
        let approvals = futures_util::stream::iter(left);
        // It may have ended meanwhile.
        let approve = |id: String| async move { drop(client.approve(&id, &json!({})).await) };
        approvals.for_each_concurrent(AT_A_TIME, approve).await;
        let open = client.get("/api/tasks?status=pending,running&limit=1").await;
        let running = client.get("/api/plans/executions?status=running&limit=1").await;
        let total = |answer: &Answer| answer.body["pagination"]["total"].as_u64();
        let now = vec![Some(waiting), total(&open), total(&running)];
        if now.iter().all(|total| *total == Some(0)) {
            return;
        }
        if now != last {
            (last, deadline) = (now, Instant::now() + patience);
        }
        assert!(Instant::now() < deadline, "it does not end: {} {}", open.body, running.body);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn ended_right(client: &Client, facts: &[Fact]) {
    let listed = &all_tasks(client).await;
    let facts = futures_util::stream::iter(facts);
    facts.for_each_concurrent(AT_A_TIME, |fact| has_ended_right(client, fact, listed)).await;
}

async fn has_ended_right(client: &Client, fact: &Fact, listed: &HashSet<String>) {
    match fact {
        Fact::Key(_) | Fact::Plan(_) => {}
        Fact::Task { id, .. } | Fact::Given { id } | Fact::Output { id } => {
            assert!(listed.contains(id), "{id} is in no list");
            task_is_right(client, id).await;
        }
        Fact::Decision { id, .. } => {
            is_there(client, fact).await;
            task_is_right(client, id).await;
            let history = client.history(id).await;
            let is_verdict =
                |entry: &&Value| entry["action"] == "approved" || entry["action"] == "rejected";
            let verdicts = history.iter().filter(is_verdict).count();
            assert_eq!(verdicts, 1, "{id} is decided once: {history:?}");
        }
        Fact::Execution { id, input } => {
            let ended = client.execution(id).await;
            let (draft, last) = (&ended["steps"]["draft"], &ended["steps"]["final"]);
            if draft["status"] == "rejected" {
                let ends = (&ended["status"], &last["status"]);
                assert_eq!(ends, (&json!("failed"), &json!("cancelled")));
            } else {
                assert_eq!(ended["status"], "completed", "{ended:#}");
                let passed = text(&draft["output"]);
                let made = output(&format!("draft {input}"));
                assert!(passed == made || passed == edit_of(text(&draft["taskId"])), "{ended:#}");
                assert_eq!(last["output"], output(&format!("final({passed})")));
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

/// Every task that lists show.
async fn all_tasks(client: &Client) -> HashSet<String> {
    let mut found = HashSet::new();
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
    found
}
