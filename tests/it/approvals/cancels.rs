//! What is cancelled while it waits for a reviewer.
//!
//! Deliberately absent: cancels of anything that does not wait for one.

use serde_json::json;

use super::desk::Desk;

/// No decision comes after a cancel.
async fn is_over(desk: &Desk, id: &str, actor: &str) {
    let entry = desk.history(id).await.pop().expect("it was cancelled");
    assert_eq!((&entry["action"], &entry["actor"]), (&json!("cancelled"), &json!(actor)));
    for late in [
        desk.approve(id, &json!({"modifiedOutput": "y"})).await,
        desk.reject(id, &json!({"reason": "no", "retry": true})).await,
        desk.operator.post(&format!("/api/hitl/{id}/claim"), &json!({})).await,
    ] {
        assert_eq!(late.refused(409), "INVALID_STATE");
    }
    let task = desk.operator.task(id).await;
    let told = (&task["status"], &task["awaitingApproval"]);
    assert_eq!(told, (&json!("cancelled"), &json!(false)));
    let item = desk.item(id).await;
    assert_eq!((&item["status"], item.get("decision")), (&json!("cancelled"), None));
    assert_eq!(desk.actions(id).await, ["pending", "assigned", "cancelled"]);
}

#[tokio::test]
async fn a_cancelled_task_cannot_be_decided_any_more() {
    let desk = Desk::open().await;
    let id = desk.required("x").await;
    desk.admin.delete(&format!("/api/tasks/{id}")).await.expect_ok();
    is_over(&desk, &id, &desk.admin_id).await;
    assert_eq!(desk.operator.listed("/api/hitl/pending?includeExpired=true").await, (vec![], 0));
    let decided = desk.required("x").await;
    desk.approve(&decided, &json!({})).await.expect_ok();
    let late = desk.admin.delete(&format!("/api/tasks/{decided}")).await;
    assert_eq!(late.refused(409), "INVALID_STATE");
    assert_eq!(desk.actions(&decided).await, ["pending", "assigned", "approved"]);
}

#[tokio::test]
async fn a_cancelled_execution_takes_all_its_items_with_it() {
    let mut desk = Desk::open().await;
    let steps = json!([
        {"id": "done", "prompt": "kept"},
        {"id": "left", "prompt": "x", "requiresApproval": true},
        {"id": "right", "prompt": "x", "requiresApproval": true},
        {"id": "after", "prompt": "x", "dependsOn": ["left", "right"]},
    ]);
    let execution = desk.start(&steps, &json!({})).await;
    let tasks = [desk.waiting(&execution, "left").await, desk.waiting(&execution, "right").await];
    let kept = |execution: &serde_json::Value| execution["steps"]["done"]["status"] == "completed";
    desk.operator.execution_when(&execution, kept).await;
    let path = format!("/api/plans/executions/{execution}");
    let cancelled = desk.admin.delete(&path).await.expect_ok();
    assert_eq!(cancelled["status"], "cancelled");
    for crashed in [false, true] {
        if crashed {
            desk.crash(std::time::Duration::ZERO).await;
        }
        let shown = desk.operator.execution(&execution).await;
        let statuses =
            ["done", "left", "right", "after"].map(|id| shown["steps"][id]["status"].clone());
        assert_eq!(statuses, ["completed", "cancelled", "cancelled", "cancelled"]);
        for id in &tasks {
            is_over(&desk, id, "system").await;
        }
        assert_eq!(desk.operator.listed("/api/hitl/pending").await, (vec![], 0));
    }
}

#[tokio::test]
async fn an_execution_whose_time_is_over_takes_its_items_with_it() {
    let desk = Desk::open().await;
    let steps = json!([{"id": "a", "prompt": "x", "requiresApproval": true}]);
    let execution = desk.start(&steps, &json!({"options": {"timeoutMs": 2_500}})).await;
    let id = desk.waiting(&execution, "a").await;
    let ended = desk.operator.execution_with_status(&execution, "failed").await;
    assert_eq!(ended["error"]["code"], "EXECUTION_TIMEOUT");
    // The tasks of an execution that nobody waits for end a moment after it.
    desk.operator.task_with_status(&id, "cancelled").await;
    is_over(&desk, &id, "system").await;
}
