//! After the load every limit is whole again: as many tasks as it admits run at once, and not one more.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::{About, Does};
use super::limits::{self, Access, CALLS, NARROW, TIERS, UNFINISHED};
use super::site::{Asker, Site};
use crate::support::FakeWorker;

/// The longest time until tasks that may run do.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time in which one too many would come.
const SURPLUS: Duration = Duration::from_millis(400);

/// Submits to each limit one task more than it admits.
pub(super) async fn every_limit_is_whole(site: &Arc<Site>, access: &Access) {
    let queues = json!(["fresh", "narrow"]);
    let register = json!({
        "type": "register", "name": "fresh", "version": "0", "queues": queues, "models": ["*"], "concurrency": 100,
    });
    let mut worker = FakeWorker::register(&site.url(), &access.worker, register).await;
    let of = |account: usize| Asker::new(site, &access.accounts[account].key);
    for (account, (_, most)) in TIERS.iter().enumerate() {
        admits(&mut worker, &of(account), "an account", *most, &task(account)).await;
    }
    let task_with = |members: Value| {
        let mut task = task(2);
        let members = members.as_object().expect("an object").clone();
        task.as_object_mut().expect("an object").extend(members);
        task
    };
    let asker = of(2);
    for key in ["k0", "k1", "k2"] {
        let keyed = task_with(json!({"concurrencyKey": key, "concurrencyLimit": 2}));
        admits(&mut worker, &asker, "a key", 2, &keyed).await;
    }
    let narrow = task_with(json!({"queue": "narrow"}));
    admits(&mut worker, &asker, "a queue", NARROW, &narrow).await;
    let dear = task_with(json!({"model": "dear"}));
    admits(&mut worker, &asker, "a model", CALLS, &dear).await;
    drop(worker);
    a_budget_has_room(access, &asker, &Asker::new(site, &access.admin)).await;
    for account in 0..TIERS.len() {
        an_account_holds_nothing(&of(account), account).await;
    }
}

fn about(account: usize) -> About {
    About { account, tags: vec!["fresh".into()], deployed: false, does: Does::Well }
}

fn task(account: usize) -> Value {
    json!({"prompt": about(account).line(), "model": "free", "queue": "fresh", "maxTokens": 20})
}

/// So many tasks run at once, and the next one after them.
async fn admits(worker: &mut FakeWorker, asker: &Asker, of: &str, most: usize, task: &Value) {
    for number in 0..=most {
        let answer = asker.post("/api/tasks", task, "").await;
        assert_eq!(answer.status, 201, "{of}, task {number}: {}", answer.body);
    }
    let mut given = Vec::new();
    for number in 0..most {
        let assigned = tokio::time::timeout(PATIENCE, worker.assignment()).await;
        let assigned =
            assigned.unwrap_or_else(|_| panic!("{of} admits {number} of {most}: {task}"));
        given.push(assigned["lease"].clone());
    }
    let surplus = tokio::time::timeout(SURPLUS, worker.assignment()).await;
    assert!(surplus.is_err(), "{of} admits more than {most}: {surplus:?}");
    for lease in given {
        worker.complete(&lease, "done").await;
    }
    let last =
        tokio::time::timeout(PATIENCE, worker.assignment()).await.expect("the last one runs");
    worker.complete(&last["lease"], "done").await;
}

/// A budget that rejects has room for what it has not spent, to the last task.
async fn a_budget_has_room(access: &Access, asker: &Asker, admin: &Asker) {
    let mut task = task(2);
    (task["model"], task["tags"], task["queue"]) =
        (json!("cheap"), json!(["all"]), json!("nobody"));
    let length = task["prompt"].as_str().expect("a text").chars().count();
    let worst = crate::soak::gauges::count((length.div_ceil(4) + 40) as u64) / 10_000.0;
    limits::leave_room(admin, access, 2.0 * worst).await;
    for status in [201, 201, 403] {
        let answer = asker.post("/api/tasks", &task, "").await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    cancel(asker, 2).await;
    let reserved = limits::reserved(admin).await;
    assert!(reserved.abs() < 1e-9, "{reserved} is reserved");
    limits::lift(admin, access).await;
}

/// An account may have as many unfinished tasks as one that has submitted nothing.
async fn an_account_holds_nothing(asker: &Asker, account: usize) {
    let mut task = task(account);
    task["queue"] = json!("nobody");
    let batch = json!({"tasks": vec![task.clone(); 100]});
    for _ in 0..UNFINISHED / 100 {
        let answer = asker.post("/api/tasks/batch", &batch, "").await;
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    assert_eq!(asker.post("/api/tasks", &task, "").await.status, 429);
    cancel(asker, UNFINISHED).await;
}

/// Cancels what is left, so many tasks.
async fn cancel(asker: &Asker, count: usize) {
    let cancel = json!({"action": "cancel", "filter": {"queue": "nobody"}, "expect": count});
    let job = asker.post("/api/bulk", &cancel, "").await;
    let path = format!("/api/bulk/{}", job.body["data"]["id"].as_str().expect("a job"));
    let mut job = Value::Null;
    for _ in 0..300 {
        job = asker.get(&path).await;
        if job["status"] == "completed" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(job["succeeded"], count, "{job}");
}
