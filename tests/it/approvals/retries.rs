//! A rejection: the end of the task, or another try with the reviewer's words.

use serde_json::{Value, json};

use super::chain::committed;
use super::fixture::Fixture;

/// A held step and one behind it.
fn steps() -> Value {
    json!([
        {"id": "a", "prompt": "draft {{input.x}}", "requiresApproval": true},
        {"id": "b", "prompt": "b({{a.output}})", "dependsOn": ["a"]},
    ])
}

#[tokio::test]
async fn a_rejected_task_stays_rejected() {
    let fixture = Fixture::open().await;
    let id = fixture.required("draft").await;
    let answer = fixture.reject(&id, &json!({"reason": "too vague"})).await.expect_ok();
    let expected = json!({
        "taskId": id, "status": "rejected", "rejectedAt": answer["rejectedAt"],
        "rejectedBy": fixture.operator_id, "reason": "too vague",
    });
    assert_eq!(answer, expected);
    let task = fixture.operator.task(&id).await;
    let told = (&task["status"], &task["error"]["code"], &task["awaitingApproval"]);
    assert_eq!(told, (&json!("rejected"), &json!("REJECTED"), &json!(false)));
    assert!(task["error"]["message"].as_str().expect("a text").contains("too vague"), "{task:#}");
    let ends = [&answer["rejectedAt"], &task["completedAt"]].map(|at| at.as_str().expect("a text"));
    assert!(ends[0] <= ends[1], "{task:#}");
    assert_eq!(fixture.item(&id).await["output"], "draft", "what was rejected can still be read");
    let entry = fixture.history(&id).await.pop().expect("it was rejected");
    let told = (&entry["action"], &entry["reason"], &entry["commentHash"]);
    assert_eq!(
        told,
        (&json!("rejected"), &json!("too vague"), &json!(committed(&entry, "too vague")))
    );
    let late = fixture.approve(&id, &json!({})).await;
    assert_eq!(late.refused(409), "ALREADY_DECIDED");
    let all = fixture.operator.get("/api/tasks").await;
    assert_eq!(all.body["pagination"]["total"], 1, "nobody asked for another try");
}

#[tokio::test]
async fn a_rejected_step_ends_its_execution_and_says_why() {
    let fixture = Fixture::open().await;
    let execution = fixture.start(&steps(), &json!({"input": {"x": 1}})).await;
    let id = fixture.waiting(&execution, "a").await;
    fixture.reject(&id, &json!({"reason": "too vague"})).await.expect_ok();
    let ended = fixture.operator.execution_with_status(&execution, "failed").await;
    let steps = &ended["steps"];
    assert_eq!(
        (&steps["a"]["status"], &steps["b"]["status"]),
        (&json!("rejected"), &json!("cancelled"))
    );
    let codes =
        [&ended["error"], &steps["a"]["error"], &steps["b"]["error"]].map(|error| &error["code"]);
    assert_eq!(codes, ["REJECTED", "REJECTED", "DEPENDENCY_FAILED"]);
    assert_eq!(ended["error"]["stepId"], "a");
    assert!(ended["error"]["message"].as_str().expect("a text").contains("too vague"), "{ended:#}");
    let progress = &ended["progress"];
    let counts = ["failed", "cancelled", "pending", "awaitingApproval"].map(|name| &progress[name]);
    assert_eq!(counts, [1, 1, 0, 0]);
}

#[tokio::test]
async fn another_try_has_the_reason_behind_the_prompt_and_the_same_gate() {
    let fixture = Fixture::open().await;
    let first = fixture
        .held(&json!({
            "prompt": "draft {{x}}", "systemPrompt": "be brief", "tags": ["t"], "priority": 7,
            "hitl": {"required": true, "timeoutMs": 77_000},
        }))
        .await;
    let body = json!({"reason": "too {{vague}}", "retry": true});
    let answer = fixture.reject(&first, &body).await.expect_ok();
    let second = answer["retryTaskId"].as_str().expect("an id");
    assert_ne!(second, first);
    let task = fixture.operator.task_when(second, |task| task["awaitingApproval"] == true).await;
    let expected = json!({
        "prompt": "draft {{x}}\n\nFeedback:\ntoo {{vague}}", "systemPrompt": "be brief",
        "tags": ["t"], "priority": 7, "retryOf": first, "attempt": 1,
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&task[name], value, "{name}");
    }
    let [one, two] = [fixture.item(&first).await, fixture.item(second).await];
    assert_eq!(one["decision"]["retryTaskId"], second);
    assert_eq!((&two["reason"], &one["status"]), (&json!("required"), &json!("rejected")));
    let history = fixture.history(&first).await;
    assert_eq!(fixture.actions(&first).await, ["pending", "assigned", "rejected", "retried"]);
    assert_eq!(history[3]["retryTaskId"], second);
    assert_eq!(fixture.operator.task(&first).await["status"], "rejected");

    // And once more: the words of both reviewers are there.
    let answer =
        fixture.reject(second, &json!({"reason": "longer", "retry": true})).await.expect_ok();
    let third = answer["retryTaskId"].as_str().expect("an id");
    let task = fixture.operator.task_when(third, |task| task["awaitingApproval"] == true).await;
    assert_eq!(task["prompt"], "draft {{x}}\n\nFeedback:\ntoo {{vague}}\n\nFeedback:\nlonger");
    assert_eq!(task["retryOf"], second);
    fixture.approve(third, &json!({})).await.expect_ok();
    assert_eq!(fixture.operator.task(third).await["status"], "completed");
}

#[tokio::test]
async fn an_execution_goes_on_with_the_other_try() {
    let fixture = Fixture::open().await;
    let execution = fixture.start(&steps(), &json!({"input": {"x": 1}})).await;
    let first = fixture.waiting(&execution, "a").await;
    // A reviewer's prompt is text, even if it looks like a placeholder.
    let body = json!({"reason": "no", "retry": true, "retryPrompt": "{{input.x}} {{nobody"});
    let answer = fixture.reject(&first, &body).await.expect_ok();
    let second = answer["retryTaskId"].as_str().expect("an id");
    let waits = |execution: &Value| {
        let step = &execution["steps"]["a"];
        step["taskId"] == second && step["waitingFor"] == "approval"
    };
    let between = fixture.operator.execution_when(&execution, waits).await;
    assert_eq!(between["status"], "running");
    let task = fixture.operator.task(second).await;
    assert_eq!(task["prompt"], "{{input.x}} {{nobody\n\nFeedback:\nno");
    let origin = ["retryOf", "planExecutionId", "stepId"].map(|name| task[name].clone());
    assert_eq!(origin, [json!(first), json!(execution), json!("a")]);
    fixture.approve(second, &json!({})).await.expect_ok();
    let ended = fixture.operator.execution_with_status(&execution, "completed").await;
    assert_eq!(ended["steps"]["b"]["output"], "b({{input.x}} {{nobody\n\nFeedback:\nno)");
    assert_eq!(fixture.operator.task(&first).await["status"], "rejected");
    let progress = &ended["progress"];
    assert_eq!((&progress["completed"], &progress["failed"]), (&json!(2), &json!(0)));
}
