//! The work of users who are deleted, or may not have it done any more.

use serde_json::{Value, json};

use crate::approvals::fixture::Fixture;
use crate::support::{Client, FakeWorker, until};

fn in_millis(millis: i64) -> String {
    let at = jiff::Timestamp::now().as_millisecond() + millis;
    jiff::Timestamp::from_millisecond(at).expect("a time").to_string()
}

async fn delete(fixture: &Fixture, user: &str, work: &str) -> crate::support::Answer {
    fixture.admin.delete(&format!("/api/auth/users/{user}{work}")).await
}

async fn waiting(client: &Client) -> String {
    client.submit(&json!({"prompt": "p", "queue": "nobody"})).await
}

/// A worker of the queue that has none otherwise.
async fn work(url: &str, key: &str) {
    let register = json!({
        "type": "register", "name": "w", "version": "0", "queues": ["nobody"], "models": ["*"],
        "concurrency": 1,
    });
    FakeWorker::register(url, key, register).await.run(|_| Ok("done".into()));
}

#[tokio::test]
async fn a_user_with_unfinished_work_is_deleted_once_somebody_says_what_becomes_of_it() {
    let fixture = Fixture::open().await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let (task, later) = (
        waiting(&olga).await,
        olga.submit(&json!({"prompt": "p", "startAt": in_millis(3_600_000)})).await,
    );
    // The work of somebody who may only read by now is nobody's to cancel.
    let (vera, vera_id) = fixture.user("vera", "operator").await;
    let hers = waiting(&vera).await;
    let path = format!("/api/auth/users/{vera_id}");
    let demote = fixture.admin.request(reqwest::Method::PATCH, &path);
    fixture.admin.send(demote.json(&json!({"role": "viewer"}))).await.expect_ok();
    let plan = olga.plan(&json!([{"id": "a", "type": "wait", "signal": "go"}])).await;
    let execution = olga.execute(&plan, &json!({})).await;
    let refused = delete(&fixture, &olga_id, "").await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
    let says = refused.body["error"]["message"].as_str().expect("a text");
    assert!(says.contains("2 unfinished tasks") && says.contains("work=cancel"), "{says}");
    for wrong in ["?work=keep", &format!("?work={olga_id}"), "?work=usr_00000000000000000000000000"]
    {
        assert_eq!(delete(&fixture, &olga_id, wrong).await.fault().0, "work", "{wrong}");
    }
    delete(&fixture, &olga_id, "?work=cancel").await.expect_ok();
    for id in [&task, &later] {
        fixture.operator.task_with_status(id, "cancelled").await;
    }
    fixture.operator.execution_with_status(&execution, "cancelled").await;

    work(&fixture.server.url, &fixture.worker_key).await;
    fixture.operator.task_with_status(&hers, "completed").await;

    let (_, idle) = fixture.user("idle", "operator").await;
    delete(&fixture, &idle, "").await.expect_ok();
}

#[tokio::test]
async fn work_that_is_handed_over_goes_on_and_what_nobody_answers_for_does_not_also_after_a_kill() {
    let mut fixture = Fixture::open().await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let (otto, otto_id) = fixture.user("otto", "operator").await;
    let (_, oona_id) = fixture.user("oona", "operator").await;
    let task = waiting(&olga).await;
    delete(&fixture, &olga_id, &format!("?work={oona_id}")).await.expect_ok();
    let refused = delete(&fixture, &oona_id, "").await;
    assert_eq!(refused.refused(409), "INVALID_STATE", "she answers for it now");
    let own = otto.submit(&json!({"prompt": "p", "startAt": in_millis(4_000)})).await;
    // A late start asks for the right of that moment.
    let viewer = json!({"role": "viewer"});
    let path = format!("/api/auth/users/{otto_id}");
    let request = fixture.admin.request(reqwest::Method::PATCH, &path).json(&viewer);
    fixture.admin.send(request).await.expect_ok();
    fixture.crash(std::time::Duration::ZERO).await;
    fixture.admin = fixture.server.admin().await;
    fixture.employ().await;
    work(&fixture.server.url, &fixture.worker_key).await;
    fixture.operator.task_with_status(&task, "completed").await;
    let ended = |task: &Value| task["status"] != "pending" && task["status"] != "running";
    let shown = fixture.operator.task_when(&own, ended).await;
    assert_eq!(shown["status"], "cancelled", "{shown:#}");
    let says = shown["error"]["message"].as_str().expect("a text");
    assert!(says.contains("the task was not begun"), "{says}");
}

#[tokio::test]
async fn a_bulk_job_of_a_revoked_key_ends() {
    let fixture = Fixture::open().await;
    let key = fixture.key("operator").await;
    for _ in 0..200 {
        waiting(&key.client).await;
    }
    let order = json!({"action": "cancel", "filter": {"queue": "nobody"}, "expect": 200});
    let revoke = format!("/api/auth/keys/{}", key.id);
    let job = key.client.post("/api/bulk", &order).await.expect_ok();
    fixture.admin.delete(&revoke).await.expect_ok();
    let path = format!("/api/bulk/{}", job["id"].as_str().expect("an id"));
    until("the job has ended", async || {
        fixture.operator.get(&path).await.expect_ok()["status"] != "running"
    })
    .await;
    let job = fixture.operator.get(&path).await.expect_ok();
    let done = job["done"].as_u64().expect("a number");
    match job["status"].as_str() {
        Some("cancelled") => assert!(done < 200 && job["reason"].is_string(), "{job:#}"),
        // It was faster than the revocation.
        _ => assert_eq!(done, 200, "{job:#}"),
    }
    let again = fixture.operator.delete(&path).await.expect_ok();
    assert_eq!(again["status"], job["status"], "what has ended stays as it is");
}

#[tokio::test]
async fn what_a_deleted_user_had_to_review_is_given_to_somebody_who_is_there() {
    let mut fixture = Fixture::open().await;
    let (_, rita) = fixture.user("rita", "reviewer").await;
    let (_, rolf) = fixture.user("rolf", "reviewer").await;
    let id = fixture.required("x").await;
    let assign = format!("/api/hitl/{id}/assign");
    fixture.admin.post(&assign, &json!({"assignee": rita})).await.expect_ok();
    delete(&fixture, &rita, "").await.expect_ok();
    let given = async |fixture: &Fixture, but: &[&String]| {
        let item = fixture.item(&id).await;
        let to = item["assignedTo"].as_str().unwrap_or_default().to_owned();
        !to.is_empty() && !but.contains(&&to)
    };
    until("another reviewer has it", async || given(&fixture, &[&rita]).await).await;
    let entry = fixture.history(&id).await.pop().expect("it was assigned anew");
    assert_eq!((&entry["action"], &entry["actor"]), (&json!("assigned"), &json!("system")));

    fixture.admin.post(&assign, &json!({"assignee": rolf})).await.expect_ok();
    delete(&fixture, &rolf, "").await.expect_ok();
    fixture.crash(std::time::Duration::ZERO).await;
    until("another one after a crash, too", async || given(&fixture, &[&rita, &rolf]).await).await;
}
