//! Kills in the middle of decisions: what was acknowledged stays, by the same reviewer and with the
//! same verdict; nothing is decided twice; and what follows from a decision happens once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::approvals::fixture::{Fixture, Key, actions};
use crate::support::{Answer, Client, until};

/// How many items wait: every other one is a step of an execution.
const ITEMS: usize = 240;
const CLIENTS: usize = 8;

/// How often the server is killed: many times in the long form of `./test`.
fn kills() -> usize {
    if std::env::var_os("CALLBOARD_LONG").is_some() { 20 } else { 3 }
}

/// What was acknowledged of an item.
#[derive(Debug)]
struct Known {
    by: String,
    answer: Value,
    edit: Option<String>,
}

type Ledger = Arc<Mutex<HashMap<String, Known>>>;

/// A reviewer who decides this and that until the connection breaks.
struct Reviewer {
    client: Client,
    id: String,
    items: Arc<Vec<String>>,
    ledger: Ledger,
    stop: Arc<AtomicBool>,
    seed: u64,
}

impl Reviewer {
    fn chance(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.seed >> 33).expect("31 bits") % below
    }

    async fn work(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let next = self.chance(self.items.len());
            let id = self.items[next].clone();
            let by = self.id.clone();
            let (verb, body) = match self.chance(4) {
                0 => ("approve", json!({"comment": by})),
                1 => ("approve", json!({"comment": by, "modifiedOutput": format!("edit of {id}")})),
                2 => ("reject", json!({"reason": by})),
                _ => ("reject", json!({"reason": by, "retry": true})),
            };
            let path = format!("/api/hitl/{id}/{verb}");
            let request = self.client.request(reqwest::Method::POST, &path).json(&body);
            let Some(answer) = self.client.try_send(request).await else { return };
            let mut ledger = self.ledger.lock().expect("nobody panics in it");
            if answer.status.as_u16() == 200 {
                let edit = body["modifiedOutput"].as_str().map(str::to_owned);
                let known = Known { by, answer: answer.expect_ok(), edit };
                let before = ledger.insert(id.clone(), known);
                assert!(before.is_none(), "{id} was decided twice: {before:?}");
            } else {
                assert_eq!(answer.refused(409), "ALREADY_DECIDED");
                if let Some(known) = ledger.get(&id) {
                    assert_eq!(answer.body["error"]["details"]["decidedBy"], known.by, "{id}");
                }
            }
        }
    }
}

/// The identifiers of what waits, and of the executions of which some is a step.
async fn fill(fixture: &Fixture) -> (Vec<String>, Vec<String>) {
    let steps = json!([
        {"id": "draft", "prompt": "draft {{input.n}}", "requiresApproval": true},
        {"id": "final", "prompt": "final({{draft.output}})", "dependsOn": ["draft"]},
    ]);
    let plan = fixture.operator.plan(&steps).await;
    let mut executions = Vec::new();
    for n in 0..ITEMS / 2 {
        executions.push(fixture.operator.execute(&plan, &json!({"input": {"n": n}})).await);
    }
    for n in 0..ITEMS / 2 {
        let hitl = json!({"required": true});
        fixture.operator.submit(&json!({"prompt": format!("draft {n}"), "hitl": hitl})).await;
    }
    let held = async || waiting(&fixture.operator).await.len() == ITEMS;
    until("all are held", held).await;
    (waiting(&fixture.operator).await, executions)
}

async fn waiting(client: &Client) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let path = format!("/api/hitl/pending?limit=100&offset={}", found.len());
        let (page, total) = client.listed(&path).await;
        found.extend(page);
        if found.len() as u64 >= total {
            return found;
        }
    }
}

/// Approves what still waits, also the other tries, until every execution has ended.
async fn finish(fixture: &Fixture) {
    let ended = async || {
        let (left, _) = fixture.operator.listed("/api/hitl/pending?limit=100").await;
        for id in &left {
            fixture.approve(id, &json!({})).await.expect_ok();
        }
        let open = fixture.operator.get("/api/tasks?status=pending,running&limit=1").await;
        let running = fixture.operator.get("/api/plans/executions?status=running&limit=1").await;
        let none = |answer: &Answer| answer.body["pagination"]["total"] == 0;
        none(&open) && none(&running)
    };
    until("everything has ended", ended).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_after_crash_every_acknowledged_decision_stands() {
    let mut fixture = Fixture::with(&[
        ("WORKER__LEASE", "2s"),
        ("WORKER__HEARTBEAT", "500ms"),
        ("WORKER__SILENT_AFTER", "1s"),
    ])
    .await;
    let mut keys: Vec<Key> = Vec::new();
    for _ in 0..CLIENTS {
        keys.push(fixture.key("operator").await);
    }
    let (items, executions) = fill(&fixture).await;
    let items = Arc::new(items);
    let ledger = Ledger::default();
    for kill in 0..kills() {
        let stop = Arc::new(AtomicBool::new(false));
        let reviewers: Vec<_> = (1_u64..)
            .zip(&keys)
            .map(|(number, key)| Reviewer {
                client: key.client.at(&fixture.server.url),
                id: key.id.clone(),
                items: Arc::clone(&items),
                ledger: Arc::clone(&ledger),
                stop: Arc::clone(&stop),
                seed: number << 40 | u64::try_from(kill).expect("few") << 20,
            })
            .map(|reviewer| tokio::spawn(reviewer.work()))
            .collect();
        // Killed when some more were decided, wherever the others are then.
        let goal = (kill + 1) * ITEMS * 2 / (3 * kills());
        for _ in 0..30_000 {
            if ledger.lock().expect("nobody panics in it").len() >= goal {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        fixture.server.kill();
        stop.store(true, Ordering::Relaxed);
        for reviewer in reviewers {
            reviewer.await.expect("a reviewer ends");
        }
        fixture.restart();
        fixture.employ().await;
    }
    finish(&fixture).await;

    let ledger = std::mem::take(&mut *ledger.lock().expect("nobody panics in it"));
    assert!(ledger.len() >= ITEMS / 2, "there was work: {}", ledger.len());
    let retries = fixture.operator.retries().await;
    for id in items.iter() {
        let item = fixture.item(id).await;
        let entries = fixture.history(id).await;
        let decided = |action: &&String| ["approved", "rejected"].contains(&action.as_str());
        let verdicts = actions(&entries).iter().filter(decided).count();
        assert_eq!(verdicts, 1, "{entries:#?}");
        let decision = &item["decision"];
        let again: Vec<&str> = decision["retryTaskId"].as_str().into_iter().collect();
        let made: Vec<&str> = retries.get(id).into_iter().flatten().map(String::as_str).collect();
        assert_eq!(made, again, "the tries after {id}");
        let task = fixture.operator.task(id).await;
        let approved = decision["status"] == "approved";
        assert_eq!(task["status"], if approved { "completed" } else { "rejected" }, "{id}");
        if approved {
            let edited = decision["wasModified"] == true;
            let passed = if edited { &decision["modifiedOutput"] } else { &item["output"] };
            assert_eq!(task["output"], *passed, "{id}");
        }
        if let Some(Known { by, answer, edit }) = ledger.get(id) {
            let (who, at) = if approved {
                (&answer["approvedBy"], &answer["approvedAt"])
            } else {
                (&answer["rejectedBy"], &answer["rejectedAt"])
            };
            assert_eq!((&decision["by"], &decision["by"]), (&json!(by), who), "{id}");
            assert_eq!((&decision["at"], &decision["comment"]), (at, &json!(by)), "{id}");
            assert_eq!(decision["modifiedOutput"].as_str(), edit.as_deref(), "{id}");
            assert_eq!(decision["retryTaskId"], answer["retryTaskId"], "{id}");
        }
    }
    for id in &executions {
        let ended = fixture.operator.execution(id).await;
        let (draft, last) = (&ended["steps"]["draft"], &ended["steps"]["final"]);
        if draft["status"] == "rejected" {
            assert_eq!(
                (&ended["status"], &last["status"]),
                (&json!("failed"), &json!("cancelled"))
            );
        } else {
            assert_eq!(ended["status"], "completed", "{ended:#}");
            let output = draft["output"].as_str().expect("an output");
            assert_eq!(last["output"], format!("final({output})"));
        }
    }
}
