//! What is cancelled while it waits for a reviewer.

use serde_json::json;

use super::fixture::Fixture;

/// No decision comes after a cancel.
async fn is_over(fixture: &Fixture, id: &str, actor: &str) {
    let entry = fixture.history(id).await.pop().expect("it was cancelled");
    assert_eq!((&entry["action"], &entry["actor"]), (&json!("cancelled"), &json!(actor)));
    for late in [
        fixture.approve(id, &json!({"modifiedOutput": "y"})).await,
        fixture.reject(id, &json!({"reason": "no", "retry": true})).await,
        fixture.operator.post(&format!("/api/hitl/{id}/claim"), &json!({})).await,
    ] {
        assert_eq!(late.refused(409), "INVALID_STATE");
    }
    let task = fixture.operator.task(id).await;
    let told = (&task["status"], &task["awaitingApproval"]);
    assert_eq!(told, (&json!("cancelled"), &json!(false)));
    let item = fixture.item(id).await;
    assert_eq!((&item["status"], item.get("decision")), (&json!("cancelled"), None));
    assert_eq!(fixture.actions(id).await, ["pending", "assigned", "cancelled"]);
}

#[tokio::test]
async fn a_cancelled_task_cannot_be_decided_any_more() {
    let fixture = Fixture::open().await;
    let id = fixture.required("x").await;
    fixture.admin.delete(&format!("/api/tasks/{id}")).await.expect_ok();
    is_over(&fixture, &id, &fixture.admin_id).await;
    assert_eq!(fixture.operator.listed("/api/hitl/pending?includeExpired=true").await, (vec![], 0));
    let decided = fixture.required("x").await;
    fixture.approve(&decided, &json!({})).await.expect_ok();
    let late = fixture.admin.delete(&format!("/api/tasks/{decided}")).await;
    assert_eq!(late.refused(409), "INVALID_STATE");
    assert_eq!(fixture.actions(&decided).await, ["pending", "assigned", "approved"]);
}

#[tokio::test]
async fn a_cancelled_execution_takes_all_its_items_with_it() {
    let mut fixture = Fixture::open().await;
    let steps = json!([
        {"id": "done", "prompt": "kept"},
        {"id": "left", "prompt": "x", "requiresApproval": true},
        {"id": "right", "prompt": "x", "requiresApproval": true},
        {"id": "after", "prompt": "x", "dependsOn": ["left", "right"]},
    ]);
    let execution = fixture.start(&steps, &json!({})).await;
    let tasks =
        [fixture.waiting(&execution, "left").await, fixture.waiting(&execution, "right").await];
    let kept = |execution: &serde_json::Value| execution["steps"]["done"]["status"] == "completed";
    fixture.operator.execution_when(&execution, kept).await;
    let path = format!("/api/plans/executions/{execution}");
    let cancelled = fixture.admin.delete(&path).await.expect_ok();
    assert_eq!(cancelled["status"], "cancelled");
    for crashed in [false, true] {
        if crashed {
            fixture.crash(std::time::Duration::ZERO).await;
        }
        let shown = fixture.operator.execution(&execution).await;
        let statuses =
            ["done", "left", "right", "after"].map(|id| shown["steps"][id]["status"].clone());
        assert_eq!(statuses, ["completed", "cancelled", "cancelled", "cancelled"]);
        for id in &tasks {
            is_over(&fixture, id, "system").await;
        }
        assert_eq!(fixture.operator.listed("/api/hitl/pending").await, (vec![], 0));
    }
}

#[tokio::test]
async fn an_execution_whose_time_is_over_takes_its_items_with_it() {
    let fixture = Fixture::open().await;
    let steps = json!([{"id": "a", "prompt": "x", "requiresApproval": true}]);
    let execution = fixture.start(&steps, &json!({"options": {"timeoutMs": 2_500}})).await;
    let id = fixture.waiting(&execution, "a").await;
    let ended = fixture.operator.execution_with_status(&execution, "failed").await;
    assert_eq!(ended["error"]["code"], "EXECUTION_TIMEOUT");
    // The tasks of an execution that nobody waits for end a moment after it.
    fixture.operator.task_with_status(&id, "cancelled").await;
    is_over(&fixture, &id, "system").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_near_the_end_of_an_execution_counts_in_it_or_is_refused() {
    let fixture = Fixture::open().await;
    let steps = json!([{"id": "a", "prompt": "x", "requiresApproval": true}]);
    let mut races = tokio::task::JoinSet::new();
    for number in 0..40_u64 {
        let execution = fixture.start(&steps, &json!({"options": {"timeoutMs": 3_000}})).await;
        let client = fixture.operator.clone();
        races.spawn(async move {
            let begun = client.execution(&execution).await["startedAt"].clone();
            let begun: jiff::Timestamp = begun.as_str().expect("it runs").parse().expect("a time");
            let is_held = |it: &serde_json::Value| it["steps"]["a"]["waitingFor"] == "approval";
            let held = client.execution_when(&execution, is_held).await;
            let task = held["steps"]["a"]["taskId"].as_str().expect("an id").to_owned();
            // From 20 ms before the deadline to 19 ms after it.
            let at = begun + std::time::Duration::from_millis(2_980 + number);
            let left = at.duration_since(jiff::Timestamp::now());
            tokio::time::sleep(left.try_into().unwrap_or_default()).await;
            let answer = client.approve(&task, &json!({})).await;
            let ended = |it: &serde_json::Value| it["status"] != "running";
            let ended = client.execution_when(&execution, ended).await;
            (answer.status.as_u16(), ended["status"].clone())
        });
    }
    while let Some(race) = races.join_next().await {
        let (status, ended) = race.expect("no panic");
        let counted = [(200, json!("completed")), (409, json!("failed"))];
        assert!(counted.contains(&(status, ended.clone())), "{status} and {ended}");
    }
}
