//! Events of approvals, over server-sent events.

use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::support::Events;

/// The events up to and with this one.
async fn until(events: &mut Events, last: &str) -> Vec<Value> {
    let mut told = Vec::new();
    loop {
        let (name, event) = events.next().await;
        assert_eq!(event["event"], name);
        told.push(event);
        if name == last {
            return told;
        }
    }
}

fn names(told: &[Value]) -> Vec<&str> {
    told.iter().map(|event| event["event"].as_str().expect("a text")).collect()
}

#[tokio::test]
async fn the_life_of_a_held_step_is_told_in_order() {
    let fixture = Fixture::open().await;
    let mut events =
        Events::open(&fixture.operator, "events=hitl.*,task.*,step.*,execution.*", None).await;
    let steps = json!([{"id": "a", "prompt": "secret draft", "requiresApproval": true}]);
    let body = json!({"hitl": {"notifyChannels": ["dashboard"]}});
    let execution = fixture.start(&steps, &body).await;
    let id = fixture.waiting(&execution, "a").await;
    let path = format!("/api/hitl/{id}/claim");
    fixture.operator.post(&path, &json!({})).await.expect_ok();
    let body = json!({"comment": "secret remark", "modifiedOutput": "secret edit"});
    fixture.approve(&id, &body).await.expect_ok();

    let told = until(&mut events, "execution.completed").await;
    let expected = [
        "task.created",
        "execution.started",
        "task.started",
        "step.started",
        "task.awaiting_approval",
        "step.awaiting_approval",
        "hitl.pending",
        "hitl.assigned",
        "hitl.claimed",
        "hitl.approved",
        "task.completed",
        "step.completed",
        "execution.completed",
    ];
    assert_eq!(names(&told), expected);
    let items: Vec<_> = told.iter().filter(|event| event["resource"]["kind"] == "hitl").collect();
    assert_eq!(items.len(), 4);
    let versions: Vec<_> =
        items.iter().map(|event| event["resource"]["version"].as_u64()).collect();
    assert_eq!(versions, [Some(1), Some(1), Some(2), Some(3)]);
    for event in &items {
        assert_eq!((&event["resource"]["id"], &event["data"]["taskId"]), (&json!(id), &json!(id)));
        let data = event["data"].to_string();
        assert!(!data.contains("secret"), "an event tells no texts: {data}");
    }
    let pending = &items[0]["data"];
    let told_of = ["planExecutionId", "stepId", "reason", "assignedTo", "notifyChannels"];
    let expected = [
        json!(execution),
        json!("a"),
        json!("required"),
        json!(fixture.admin_id),
        json!(["dashboard"]),
    ];
    assert_eq!(told_of.map(|name| pending[name].clone()), expected);
    let decision = &items[3]["data"]["decision"];
    assert_eq!(
        (&decision["by"], &decision["wasModified"]),
        (&json!(fixture.operator_id), &json!(true))
    );
    for pair in told.windows(2) {
        assert_eq!(pair[1]["prev"], pair[0]["cursor"], "without a hole");
    }
}

#[tokio::test]
async fn a_rejection_tells_of_the_other_try() {
    let fixture = Fixture::open().await;
    let mut events = Events::open(&fixture.operator, "events=hitl.*,task.*,step.*", None).await;
    let steps = json!([{"id": "a", "prompt": "draft", "requiresApproval": true}]);
    let execution = fixture.start(&steps, &json!({})).await;
    let id = fixture.waiting(&execution, "a").await;
    until(&mut events, "hitl.assigned").await;
    let answer = fixture.reject(&id, &json!({"reason": "no", "retry": true})).await.expect_ok();
    let told = until(&mut events, "hitl.assigned").await;
    let expected = [
        "hitl.rejected",
        "task.created",
        "task.rejected",
        "step.retrying",
        "task.started",
        "step.started",
        "task.awaiting_approval",
        "step.awaiting_approval",
        "hitl.pending",
        "hitl.assigned",
    ];
    assert_eq!(names(&told), expected);
    let of = |name: &str| told.iter().find(|event| event["event"] == name).expect("it was told");
    assert_eq!(of("hitl.rejected")["data"]["decision"]["retryTaskId"], answer["retryTaskId"]);
    assert_eq!(of("task.created")["resource"]["id"], answer["retryTaskId"]);
    assert_eq!(of("task.created")["data"]["retryOf"], id);
    assert_eq!(of("hitl.pending")["resource"]["id"], answer["retryTaskId"]);
}

#[tokio::test]
async fn what_the_clock_does_is_told_too_and_only_to_those_who_asked_for_it() {
    let fixture = Fixture::open().await;
    let viewer = fixture.key("viewer").await.client;
    let mut all = Events::open(&viewer, "events=hitl.expired,hitl.approved", None).await;
    let mut tagged = Events::open(&viewer, "events=hitl.*&tags=t", None).await;
    let other = fixture.required("x").await;
    let mut one = Events::open(&viewer, &format!("events=hitl.*&taskId={other}"), None).await;
    let hitl = json!({"required": true, "timeoutMs": 800});
    let id = fixture.operator.submit(&json!({"prompt": "x", "tags": ["t"], "hitl": hitl})).await;
    let whole =
        ["hitl.pending", "hitl.assigned", "hitl.escalated", "hitl.expired", "hitl.escalated"];
    let mut told = until(&mut tagged, "hitl.expired").await;
    told.push(tagged.next().await.1);
    assert_eq!(names(&told), whole);
    assert!(told.iter().all(|event| event["resource"]["id"] == id));
    fixture.approve(&other, &json!({})).await.expect_ok();
    assert_eq!(names(&until(&mut one, "hitl.approved").await), ["hitl.approved"]);
    let told = until(&mut all, "hitl.approved").await;
    assert_eq!(names(&told), ["hitl.expired", "hitl.approved"]);
    let of = [&told[0], &told[1]].map(|event| event["resource"]["id"].clone());
    assert_eq!(of, [json!(id), json!(other)]);
}
