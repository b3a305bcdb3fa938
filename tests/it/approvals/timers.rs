//! Escalation and the end of the reviewers' time: each once, in time, across restarts too.
//!
//! These tests run against the clock of the machine.

use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::{Fixture, actions};
use crate::support::until;

/// How late a timer may be.
const LATE: i128 = 2_000;

/// When an entry of this action was written, in milliseconds after the first.
fn after(history: &[Value], action: &str) -> Vec<i128> {
    let at = |entry: &Value| -> jiff::Timestamp {
        entry["timestamp"].as_str().expect("a text").parse().expect("an instant")
    };
    let first = at(&history[0]);
    let of = history.iter().filter(|entry| entry["action"] == action);
    of.map(|entry| at(entry).duration_since(first).as_millis()).collect()
}

fn in_time(written: i128, due: i128) {
    assert!((due..due + LATE).contains(&written), "due after {due} ms, done after {written} ms");
}

/// The history once the item has this status.
async fn history_at(fixture: &Fixture, id: &str, status: &str) -> Vec<Value> {
    until(status, async || fixture.item(id).await["status"] == status).await;
    fixture.history(id).await
}

fn hurried() -> Value {
    json!({"prompt": "x", "hitl": {"required": true, "timeoutMs": 2_000}})
}

const WHOLE: [&str; 5] = ["pending", "assigned", "escalated", "expired", "escalated"];

#[tokio::test]
async fn an_item_goes_to_an_admin_then_expires_and_can_still_be_decided() {
    let fixture = Fixture::open().await;
    let (_, second) = fixture.user("anna", "admin").await;
    let id = fixture.held(&hurried()).await;
    let history = history_at(&fixture, &id, "escalated").await;
    in_time(after(&history, "escalated")[0], 1_000);
    let entry = &history[2];
    let told =
        (&entry["from"], &entry["to"], &entry["actor"], &entry["details"]["escalationAfterMs"]);
    let expected = (&json!(fixture.admin_id), &json!(second), &json!("system"), &json!(1_000));
    assert_eq!(told, expected);
    let item = fixture.item(&id).await;
    assert_eq!((&item["assignedTo"], &item["escalatedAt"]), (&json!(second), &entry["timestamp"]));
    assert_eq!(fixture.operator.listed("/api/hitl/pending").await, (vec![id.clone()], 1));

    let history = history_at(&fixture, &id, "expired").await;
    in_time(after(&history, "expired")[0], 2_000);
    assert_eq!(actions(&history), WHOLE);
    assert_eq!(
        (&history[4]["from"], &history[4]["to"]),
        (&json!(second), &json!(fixture.admin_id))
    );
    assert_eq!(history[4]["details"]["escalationAfterMs"], 2_000);
    // A list follows a moment after the item.
    let hidden = async || fixture.operator.listed("/api/hitl/pending").await == (vec![], 0);
    until("what expired is hidden", hidden).await;
    let expired = fixture.operator.listed("/api/hitl/pending?includeExpired=true").await;
    assert_eq!(expired, (vec![id.clone()], 1));
    let task = fixture.operator.task(&id).await;
    assert_eq!((&task["status"], &task["awaitingApproval"]), (&json!("pending"), &json!(true)));

    fixture.approve(&id, &json!({})).await.expect_ok();
    assert_eq!(fixture.operator.task(&id).await["status"], "completed");
    assert_eq!(fixture.actions(&id).await[5..], ["approved"]);
}

#[tokio::test]
async fn what_was_due_while_the_server_was_down_is_done_once_when_it_is_back() {
    let mut fixture = Fixture::open().await;
    let id = fixture.held(&hurried()).await;
    fixture.crash(Duration::from_millis(2_100)).await;
    let back = std::time::Instant::now();
    let history = history_at(&fixture, &id, "expired").await;
    assert!(back.elapsed().as_millis() < LATE.unsigned_abs(), "{:?}", back.elapsed());
    assert_eq!(actions(&history), WHOLE);
    fixture.crash(Duration::ZERO).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(fixture.actions(&id).await, WHOLE, "another start does nothing again");
    fixture.reject(&id, &json!({"reason": "no"})).await.expect_ok();
}

#[tokio::test]
async fn what_is_due_after_a_restart_comes_in_time() {
    let mut fixture = Fixture::open().await;
    let id = fixture.held(&hurried()).await;
    history_at(&fixture, &id, "escalated").await;
    fixture.crash(Duration::ZERO).await;
    let history = history_at(&fixture, &id, "expired").await;
    in_time(after(&history, "expired")[0], 2_000);
    assert_eq!(actions(&history), WHOLE);
}

#[tokio::test]
async fn a_decision_ends_the_timers() {
    let fixture = Fixture::with(&[("HITL__ESCALATE_AFTER", "0.75")]).await;
    let hitl = json!({"required": true, "timeoutMs": 1_200});
    let (waits, decided) = (
        fixture.held(&json!({"prompt": "x", "hitl": hitl})).await,
        fixture.held(&json!({"prompt": "x", "hitl": hitl})).await,
    );
    fixture.approve(&decided, &json!({})).await.expect_ok();
    let history = history_at(&fixture, &waits, "expired").await;
    in_time(after(&history, "escalated")[0], 900);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(fixture.actions(&decided).await, ["pending", "assigned", "approved"]);
}

#[tokio::test]
async fn a_time_out_rejects_where_the_settings_say_so() {
    let mut fixture = Fixture::with(&[("HITL__ON_TIMEOUT", "reject")]).await;
    let hitl = json!({"required": true, "timeoutMs": 1_000});
    let id = fixture.operator.submit(&json!({"prompt": "x", "hitl": hitl})).await;
    let steps = json!([
        {"id": "a", "prompt": "x", "requiresApproval": true},
        {"id": "b", "prompt": "b", "dependsOn": ["a"]},
    ]);
    let execution = fixture.start(&steps, &json!({"hitl": {"timeoutMs": 1_000}})).await;
    let task = fixture.operator.task_with_status(&id, "rejected").await;
    assert_eq!(task["error"]["code"], "REJECTED");
    let history = fixture.history(&id).await;
    in_time(after(&history, "rejected")[0], 1_000);
    let whole = ["pending", "assigned", "escalated", "expired", "rejected"];
    assert_eq!(actions(&history), whole);
    let entry = &history[4];
    assert_eq!((&entry["actor"], &entry["reviewerId"]), (&json!("system"), &json!("system")));
    let late = fixture.approve(&id, &json!({})).await;
    assert_eq!(late.refused(409), "ALREADY_DECIDED");
    assert_eq!(late.body["error"]["details"]["decidedBy"], "system");
    let ended = fixture.operator.execution_with_status(&execution, "failed").await;
    let codes = ["a", "b"].map(|step| ended["steps"][step]["error"]["code"].clone());
    assert_eq!(codes, ["REJECTED", "DEPENDENCY_FAILED"]);

    fixture.employ().await;
    let later = fixture.held(&json!({"prompt": "x", "hitl": hitl})).await;
    fixture.crash(Duration::from_millis(1_100)).await;
    fixture.operator.task_with_status(&later, "rejected").await;
    assert_eq!(fixture.actions(&later).await, whole, "down while it ended");
}

#[tokio::test]
async fn an_operator_gives_more_time_with_a_reason_that_goes_with_the_texts() {
    let fixture = Fixture::open().await;
    let gate = json!({"required": true, "timeoutMs": 1});
    let id = fixture.held(&json!({"prompt": "x", "hitl": gate})).await;
    until("the time is over", async || fixture.item(&id).await["status"] == "expired").await;
    let path = format!("/api/hitl/{id}/extend");
    let asked = json!({"timeoutMs": 2_592_000_000_u64, "reason": "Zoe is away until Monday"});
    let extended = fixture.operator.post(&path, &asked).await.expect_ok();
    assert_eq!((&extended["taskId"], &extended["status"]), (&json!(id), &json!("escalated")));
    let item = fixture.item(&id).await;
    assert_eq!(
        (&item["status"], &item["timeoutAt"]),
        (&extended["status"], &extended["timeoutAt"])
    );
    let entry = fixture.history(&id).await.pop().expect("it was extended");
    assert_eq!((&entry["action"], &entry["reason"]), (&json!("extended"), &asked["reason"]));
    assert_eq!(entry["details"]["timeoutAt"], extended["timeoutAt"]);
    fixture.operator.post(&path, &json!({"timeoutMs": 60_000})).await.expect_ok();
    for (body, field, rule) in [
        (json!({}), "timeoutMs", "required"),
        (json!({"timeoutMs": 2_592_000_001_u64}), "timeoutMs", "range"),
        (json!({"timeoutMs": 1, "reason": ""}), "reason", "length"),
    ] {
        let refused = fixture.operator.post(&path, &body).await;
        assert_eq!(refused.fault(), (field.to_owned(), rule.to_owned()), "{body}");
    }
    fixture.server.client("viewer").await.post(&path, &asked).await.refused(403);
    fixture.approve(&id, &json!({})).await.expect_ok();
    assert_eq!(fixture.operator.post(&path, &asked).await.refused(409), "ALREADY_DECIDED");
    let path = format!("/api/tasks/{id}/texts");
    let erasure = fixture.admin.request(reqwest::Method::DELETE, &path);
    fixture.admin.send(erasure.json(&json!({"reason": "r"}))).await.expect_ok();
    let history = fixture.history(&id).await;
    let told = history.iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("extended") && !told.contains("Zoe"), "{told}");
}
