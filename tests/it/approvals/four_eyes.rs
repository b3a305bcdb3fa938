//! `[hitl] four_eyes`: who submitted does not approve.

use serde_json::{Value, json};

use super::fixture::{Fixture, Key, actions};
use crate::support::Client;

const ON: (&str, &str) = ("HITL__FOUR_EYES", "true");

/// A key made by `maker`.
async fn key_by(maker: &Client, role: &str) -> Key {
    let made = maker.post("/api/auth/keys", &json!({"name": role, "role": role})).await.expect(201);
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    let secret = text("key");
    Key { id: text("id"), client: Client::new(&maker.url, &secret), secret }
}

async fn held_by(fixture: &Fixture, submitter: &Client) -> String {
    let task = json!({"prompt": "x", "hitl": {"required": true}});
    let id = submitter.submit(&task).await;
    let waits = |task: &Value| task["awaitingApproval"] == true;
    fixture.operator.task_when(&id, waits).await;
    id
}

#[tokio::test]
async fn who_submitted_may_reject_and_not_approve() {
    let fixture = Fixture::with(&[ON]).await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let (otto, _) = fixture.user("otto", "operator").await;
    let id = held_by(&fixture, &olga).await;
    for body in [json!({}), json!({"modifiedOutput": "better"}), json!({"reviewerId": olga_id})] {
        let answer = olga.approve(&id, &body).await;
        assert_eq!(answer.refused(403), "FORBIDDEN", "{body}");
        let message = answer.body["error"]["message"].as_str().expect("a text");
        assert!(message.contains("hitl.four_eyes"), "{message}");
    }
    // In the submitter's name is as by the submitter.
    let answer = fixture.admin.approve(&id, &json!({"reviewerId": olga_id})).await;
    assert_eq!(answer.refused(403), "FORBIDDEN");
    olga.post(&format!("/api/hitl/{id}/claim"), &json!({})).await.expect_ok();
    otto.approve(&id, &json!({})).await.expect_ok();
    let answer = olga.approve(&id, &json!({})).await;
    assert_eq!(answer.refused(409), "ALREADY_DECIDED", "there is nothing left to forbid");

    let id = held_by(&fixture, &olga).await;
    olga.reject(&id, &json!({"reason": "no"})).await.expect_ok();
    let id = held_by(&fixture, &fixture.admin).await;
    assert_eq!(fixture.admin.approve(&id, &json!({})).await.refused(403), "FORBIDDEN");
    otto.approve(&id, &json!({})).await.expect_ok();
}

#[tokio::test]
async fn a_key_is_the_person_who_answers_for_it() {
    let fixture = Fixture::with(&[ON]).await;
    let (boss, _) = fixture.user("boss", "admin").await;
    let (mine, other) = (key_by(&boss, "operator").await, key_by(&boss, "operator").await);
    let id = held_by(&fixture, &mine.client).await;
    for client in [&mine.client, &other.client, &boss] {
        assert_eq!(client.approve(&id, &json!({})).await.refused(403), "FORBIDDEN");
    }
    // A key made by a key belongs to the same person.
    let lord = key_by(&boss, "admin").await;
    let grandchild = key_by(&lord.client, "operator").await;
    assert_eq!(grandchild.client.approve(&id, &json!({})).await.refused(403), "FORBIDDEN");
    fixture.operator.approve(&id, &json!({})).await.expect_ok();
    assert_eq!(actions(&fixture.history(&id).await).last().map(String::as_str), Some("approved"));
}

#[tokio::test]
async fn the_submitter_of_an_execution_is_not_asked_and_does_not_approve_its_steps() {
    let fixture = Fixture::with(&[ON]).await;
    let (olga, _) = fixture.user("olga", "operator").await;
    let steps = json!([{"id": "a", "prompt": "x", "requiresApproval": true}]);
    // Of two users without open items the older one is asked, which is the admin.
    let plan = fixture.admin.plan(&steps).await;
    let execution = fixture.admin.execute(&plan, &json!({})).await;
    let id = fixture.waiting(&execution, "a").await;
    assert_eq!(fixture.admin.approve(&id, &json!({})).await.refused(403), "FORBIDDEN");
    assert_ne!(fixture.item(&id).await["assignedTo"], json!(fixture.admin_id));
    olga.approve(&id, &json!({})).await.expect_ok();
    fixture.operator.execution_with_status(&execution, "completed").await;
}

#[tokio::test]
async fn without_the_setting_who_submitted_may_approve() {
    let fixture = Fixture::open().await;
    let (olga, _) = fixture.user("olga", "operator").await;
    let id = held_by(&fixture, &olga).await;
    olga.approve(&id, &json!({})).await.expect_ok();
}

#[tokio::test]
async fn nobody_submits_in_another_s_name_by_their_schedule() {
    let fixture = Fixture::with(&[ON]).await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let (otto, otto_id) = fixture.user("otto", "operator").await;
    let target = |prompt: &str| json!({"task": {"prompt": prompt, "hitl": {"required": true}}});
    let schedule =
        json!({"name": "s", "cron": "@yearly", "overlap": "allow", "target": target("hers")});
    let made = olga.post("/api/schedules", &schedule).await.expect(201);
    let path = format!("/api/schedules/{}", made["id"].as_str().expect("an id"));
    let change = async |body: Value| {
        let request = otto.request(reqwest::Method::PATCH, &path).json(&body);
        otto.send(request).await.expect_ok()["createdBy"].clone()
    };
    let held = async || {
        let run = otto.post(&format!("{path}/trigger"), &json!({})).await.expect_ok();
        let id = run["taskId"].as_str().expect("an id").to_owned();
        fixture.operator.task_when(&id, |task| task["awaitingApproval"] == true).await;
        id
    };
    assert_eq!(change(json!({"name": "renamed"})).await, json!(olga_id), "the work is still hers");
    let id = held().await;
    assert_eq!(olga.approve(&id, &json!({})).await.refused(403), "FORBIDDEN");
    otto.approve(&id, &json!({})).await.expect_ok();
    assert_eq!(change(json!({"target": target("his")})).await, json!(otto_id));
    let id = held().await;
    assert_eq!(otto.approve(&id, &json!({})).await.refused(403), "FORBIDDEN");
    olga.approve(&id, &json!({})).await.expect_ok();
}

#[tokio::test]
async fn whoever_writes_the_prompt_of_a_retry_does_not_approve_what_comes_of_it() {
    let fixture = Fixture::with(&[ON]).await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let (otto, otto_id) = fixture.user("otto", "operator").await;
    let retried = async |id: &str, body: Value| {
        let id = otto.reject(id, &body).await.expect_ok()["retryTaskId"].clone();
        let id = id.as_str().expect("an id").to_owned();
        fixture.operator.task_when(&id, |task| task["awaitingApproval"] == true).await;
        id
    };
    let id = held_by(&fixture, &olga).await;
    let id = retried(&id, json!({"reason": "no", "retry": true, "retryPrompt": "his"})).await;
    for by in [&otto, &olga] {
        assert_eq!(by.approve(&id, &json!({})).await.refused(403), "FORBIDDEN");
    }
    let asked = fixture.item(&id).await["assignedTo"].clone();
    assert!(asked != json!(olga_id) && asked != json!(otto_id), "{asked}");
    fixture.admin.approve(&id, &json!({})).await.expect_ok();
    // The reason alone makes nobody a submitter.
    let id = held_by(&fixture, &olga).await;
    let id = retried(&id, json!({"reason": "shorter", "retry": true})).await;
    otto.approve(&id, &json!({})).await.expect_ok();
}
