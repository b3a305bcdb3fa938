//! Many reviewers at once: exactly one of them decides.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use super::fixture::{Fixture, Key};
use crate::support::{Answer, Client};

const RACERS: usize = 20;

/// How many items are raced for: many in the long form of `./test`.
fn items() -> usize {
    if std::env::var_os("CALLBOARD_LONG").is_some() { 1_000 } else { 100 }
}

/// What the racer of this number does: every other one approves, half of the rest wants a retry.
async fn decide(client: Client, id: Arc<str>, number: usize) -> (usize, Answer) {
    let retry = json!({"reason": "again", "retry": true});
    let answer = match number % 4 {
        0 => client.approve(&id, &json!({})).await,
        1 => client.reject(&id, &json!({"reason": "no"})).await,
        2 => client.approve(&id, &json!({"modifiedOutput": format!("edit {number}")})).await,
        _ => client.reject(&id, &retry).await,
    };
    (number, answer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_twenty_decisions_at_once_exactly_one_is_made() {
    let fixture = Fixture::open().await;
    let mut keys: Vec<Key> = Vec::new();
    for _ in 0..4 {
        keys.push(fixture.key("operator").await);
    }
    let mut ids: Vec<Arc<str>> = Vec::new();
    for _ in 0..items() / 100 {
        let task = json!({"prompt": "draft", "hitl": {"required": true}});
        let batch = json!({"tasks": vec![task; 100]});
        let made = fixture.operator.post("/api/tasks/batch", &batch).await.expect(201);
        let tasks = made["tasks"].as_array().expect("a list");
        ids.extend(tasks.iter().map(|task| Arc::from(task["id"].as_str().expect("an id"))));
    }
    let mut again = HashMap::new();
    for (round, id) in ids.iter().enumerate() {
        fixture.operator.task_when(id, |task| task["awaitingApproval"] == true).await;
        let racers: Vec<_> = (0..RACERS)
            .map(|racer| {
                // Another one begins each time.
                let number = (racer + round) % RACERS;
                let client = keys[number % keys.len()].client.clone();
                tokio::spawn(decide(client, Arc::clone(id), number))
            })
            .collect();
        let (mut won, mut late) = (Vec::new(), Vec::new());
        for racer in racers {
            let (number, answer) = racer.await.expect("no panic");
            if answer.status.as_u16() == 200 {
                won.push((number, answer.expect_ok()));
            } else {
                assert_eq!(answer.refused(409), "ALREADY_DECIDED");
                late.push(answer.body["error"]["details"].clone());
            }
        }
        assert_eq!((won.len(), late.len()), (1, RACERS - 1), "{id}");
        let (number, winner) = won.remove(0);
        let (by, at) = match number % 2 {
            0 => (&winner["approvedBy"], &winner["approvedAt"]),
            _ => (&winner["rejectedBy"], &winner["rejectedAt"]),
        };
        assert_eq!(*by, keys[number % keys.len()].id);
        let details = json!({"decidedBy": by, "decidedAt": at});
        assert!(late.iter().all(|told| *told == details), "{id}: {late:?}");

        let history = fixture.history(id).await;
        let decision = &history[2];
        assert_eq!((&decision["actor"], &decision["timestamp"]), (by, at), "{id}");
        let task = fixture.operator.task(id).await;
        let (length, verdict, status) = match number % 4 {
            0 | 2 => (3, "approved", "completed"),
            1 => (3, "rejected", "rejected"),
            _ => (4, "rejected", "rejected"),
        };
        assert_eq!((history.len(), &decision["action"]), (length, &json!(verdict)), "{id}");
        assert_eq!(task["status"], status, "{id}");
        if number % 4 == 2 {
            assert_eq!(task["output"], format!("edit {number}"), "{id}");
        }
        if let Some(retry) = winner["retryTaskId"].as_str() {
            again.insert(id.to_string(), vec![retry.to_owned()]);
        }
    }
    // A task more for each rejection that asked for one, and none for those that lost.
    assert_eq!(fixture.operator.retries().await, again);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_and_a_decision_at_once_agree_on_one_end() {
    let fixture = Fixture::open().await;
    let mut ends = [0, 0];
    for round in 0..20 {
        let id = fixture.required("draft").await;
        let path = format!("/api/tasks/{id}");
        let body = json!({"reason": "no", "retry": true});
        let (cancel, decision) = if round % 2 == 0 {
            tokio::join!(fixture.admin.delete(&path), fixture.reject(&id, &body))
        } else {
            let (decision, cancel) =
                tokio::join!(fixture.reject(&id, &body), fixture.admin.delete(&path));
            (cancel, decision)
        };
        let cancelled = cancel.status.as_u16() == 200;
        let (loser, code, end) = if cancelled {
            (&decision, "INVALID_STATE", "cancelled")
        } else {
            (&cancel, "INVALID_STATE", "rejected")
        };
        assert_eq!(loser.refused(409), code, "{id}");
        ends[usize::from(cancelled)] += 1;
        assert_eq!(fixture.operator.task(&id).await["status"], end);
        assert_eq!(fixture.actions(&id).await[2], end);
    }
    let made = fixture.operator.retries().await.len();
    assert_eq!(made, ends[0], "only a rejection that counted made another task");
}
