//! A decision from the hold to the end: what is shown, what is answered, what stays.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::chain::committed;
use super::fixture::Fixture;

/// A value with this member taken from another, because nobody can know it before.
fn with(mut value: Value, member: &str, from: &Value) -> Value {
    value[member] = from[member].clone();
    value
}

#[tokio::test]
async fn an_output_is_held_until_a_reviewer_lets_it_pass() {
    let mut fixture = Fixture::open().await;
    let id = fixture
        .held(&json!({
            "prompt": "a  draft\nof two lines @0.71", "model": "m", "tags": ["x", "y"],
            "hitl": {"required": true, "confidenceThreshold": 0.9, "notifyChannels": ["dashboard"]},
        }))
        .await;
    let task = fixture.operator.task(&id).await;
    assert_eq!((&task["status"], &task["waitingFor"]), (&json!("pending"), &json!("approval")));

    let list = fixture.operator.get("/api/hitl/pending").await;
    let page = json!({"total": 1, "limit": 20, "offset": 0, "hasMore": false});
    assert_eq!(list.body["pagination"], page);
    let item = list.expect_ok()[0].clone();
    let expected = json!({
        "taskId": id, "model": "m", "queue": "default", "confidence": 0.71,
        "summary": "a draft of two lines", "output": "a  draft\nof two lines",
        "prompt": "a  draft\nof two lines @0.71", "tags": ["x", "y"], "assignedTo": fixture.admin_id,
        // Ours.
        "confidenceSource": "reported", "untested": true, "threshold": 0.9, "reason": "required", "sampled": false,
        "status": "assigned", "notifyChannels": ["dashboard"],
    });
    let unknown = ["createdAt", "timeoutAt", "waitingMs", "history"];
    let expected = unknown.iter().fold(expected, |expected, name| with(expected, name, &item));
    assert_eq!(item, expected);
    let instant = |value: &Value| value.as_str().expect("a text").parse().expect("an instant");
    let [since, until]: [jiff::Timestamp; 2] =
        [&item["createdAt"], &item["timeoutAt"]].map(instant);
    assert_eq!(until.duration_since(since).as_millis(), 3_600_000);
    assert!(item["waitingMs"].as_u64().is_some_and(|waited| waited < 60_000));

    // The output is as durable as the task: the server may die before anybody decides.
    fixture.crash(Duration::ZERO).await;
    let again = fixture.item(&id).await;
    assert_eq!(with(with(item, "waitingMs", &again), "task", &again), again);

    let answer = fixture.approve(&id, &json!({"comment": "fine"})).await.expect_ok();
    let expected = json!({
        "taskId": id, "status": "completed", "approvedBy": fixture.operator_id, "comment": "fine",
        "wasModified": false,
    });
    assert_eq!(answer, with(expected, "approvedAt", &answer));
    let at = answer["approvedAt"].as_str().expect("an instant");
    let task = fixture.operator.task(&id).await;
    assert_eq!((&task["status"], &task["awaitingApproval"]), (&json!("completed"), &json!(false)));
    assert_eq!(task["output"], again["output"]);
    assert!(task["completedAt"].as_str().is_some_and(|end| end >= at), "{task:#}");
    assert!(task.get("waitingFor").is_none());

    for late in [
        fixture.approve(&id, &json!({})).await,
        fixture.admin.reject(&id, &json!({"reason": "no", "retry": true})).await,
    ] {
        assert_eq!(late.refused(409), "ALREADY_DECIDED");
        let details = json!({"decidedBy": fixture.operator_id, "decidedAt": at});
        assert_eq!(
            (&late.body["error"]["details"], late.body["error"]["retryable"].as_bool()),
            (&details, Some(false))
        );
    }
    assert_eq!(fixture.operator.listed("/api/hitl/pending?includeExpired=true").await, (vec![], 0));
    let item = fixture.item(&id).await;
    let decision = json!({
        "status": "approved", "at": at, "by": fixture.operator_id, "comment": "fine",
        "wasModified": false,
    });
    assert_eq!((&item["status"], &item["decision"]), (&json!("approved"), &decision));
    assert!(item.get("claimedBy").is_none());
    let retried = fixture.operator.get("/api/tasks?status=pending,running").await;
    assert_eq!(retried.body["pagination"]["total"], 0, "a late rejection makes no task");
}

#[tokio::test]
async fn the_history_tells_it_all_in_a_chain() {
    let fixture = Fixture::open().await;
    let id = fixture.required("draft @0.71").await;
    fixture.approve(&id, &json!({"comment": "fine"})).await.expect_ok();
    let history = fixture.history(&id).await;
    let item = fixture.item(&id).await;
    let output = committed(&history[0], "draft");
    let salt = &history[0]["salt"];
    let expected = [
        json!({
            "number": 1, "version": 2, "salt": salt, "action": "pending", "actor": "system", "confidence": 0.71,
            "outputHash": output, "timestamp": item["createdAt"],
            "details": {"threshold": 0.85, "why": "required", "timeoutAt": item["timeoutAt"]},
        }),
        json!({
            "number": 2, "version": 2, "action": "assigned", "actor": "system", "assignedTo": fixture.admin_id,
            "details": {"assignmentMethod": "least_loaded"}, "timestamp": item["createdAt"],
        }),
        json!({
            "number": 3, "version": 2, "salt": salt, "action": "approved", "actor": fixture.operator_id,
            "reviewerId": fixture.operator_id, "comment": "fine", "wasModified": false,
            "outputHash": output, "commentHash": committed(&history[2], "fine"),
            "timestamp": item["decision"]["at"],
        }),
    ];
    let told: Vec<_> = expected
        .into_iter()
        .zip(&history)
        .map(|(entry, told)| with(with(entry, "hash", told), "previousHash", told))
        .collect();
    assert_eq!(history, told);
}

#[tokio::test]
async fn an_approval_of_many_outputs_by_one_act_is_marked_in_the_chain() {
    let fixture = Fixture::open().await;
    let id = fixture.required("draft @0.71").await;
    for bulk in [json!(1), json!(1001), json!("3"), json!(2.5)] {
        let answer = fixture.approve(&id, &json!({"bulk": bulk})).await;
        assert_eq!(answer.refused(400), "VALIDATION_ERROR", "{bulk}");
    }
    fixture.approve(&id, &json!({"bulk": 12})).await.expect_ok();
    let history = fixture.history(&id).await;
    assert_eq!(history[2]["details"], json!({"bulk": 12}));
    let alone = fixture.required("draft @0.72").await;
    fixture.approve(&alone, &json!({})).await.expect_ok();
    assert!(fixture.history(&alone).await[2].get("details").is_none());
}

#[tokio::test]
async fn a_step_says_of_what_execution_it_is() {
    let fixture = Fixture::open().await;
    let steps = json!([{"id": "a", "prompt": "draft @0.71", "requiresApproval": true}]);
    let body = json!({"hitl": {"confidenceThreshold": 0.9, "timeoutMs": 5_000}});
    let execution = fixture.start(&steps, &body).await;
    let id = fixture.waiting(&execution, "a").await;
    let item = fixture.item(&id).await;
    assert_eq!((&item["planExecutionId"], &item["stepId"]), (&json!(execution), &json!("a")));
    let details = json!({
        "why": "required", "threshold": 0.9, "planExecutionId": execution, "stepId": "a",
        "timeoutAt": item["timeoutAt"],
    });
    assert_eq!(fixture.history(&id).await[0]["details"], details);
    let shown = fixture.operator.execution(&execution).await;
    assert_eq!(
        (&shown["status"], &shown["progress"]["awaitingApproval"]),
        (&json!("running"), &json!(1))
    );
    fixture.approve(&id, &json!({})).await.expect_ok();
    let ended = fixture.operator.execution_with_status(&execution, "completed").await;
    assert_eq!(ended["steps"]["a"]["output"], "draft");
    assert_eq!(ended["progress"]["awaitingApproval"], 0);
}

#[tokio::test]
async fn only_what_waits_can_be_decided() {
    let fixture = Fixture::open().await;
    let id = fixture.operator.submit(&json!({"prompt": "free"})).await;
    fixture.operator.task_with_status(&id, "completed").await;
    let unknown = "dt_task_00000000000000000000000000";
    let verbs = [
        ("approve", json!({})),
        ("reject", json!({"reason": "no"})),
        ("claim", json!({})),
        ("release", json!({})),
    ];
    for (verb, body) in &verbs {
        let path = |id: &str| format!("/api/hitl/{id}/{verb}");
        assert_eq!(fixture.operator.post(&path(&id), body).await.refused(409), "INVALID_STATE");
        for nothing in [unknown, "nonsense"] {
            assert_eq!(fixture.operator.post(&path(nothing), body).await.refused(404), "NOT_FOUND");
        }
    }
    for path in [
        format!("/api/hitl/{id}"),
        format!("/api/hitl/{id}/history"),
        format!("/api/hitl/{unknown}"),
    ] {
        assert_eq!(fixture.operator.get(&path).await.refused(404), "NOT_FOUND");
    }
}

#[tokio::test]
async fn looking_changes_nothing() {
    let fixture = Fixture::open().await;
    let id = fixture.required("draft").await;
    let before = (fixture.item(&id).await["history"].clone(), fixture.operator.task(&id).await);
    let mut answers = Vec::new();
    for path in ["", "/approve", "/reject", "/claim", "/release", "/history"] {
        // A visitor of a link in a mail, a scanner too, only looks.
        for method in [Method::GET, Method::HEAD] {
            let path = format!("/api/hitl/{id}{path}?reason=no&reviewerId={}", fixture.admin_id);
            let answer = fixture.operator.send(fixture.operator.request(method, &path)).await;
            answers.push(answer.status.as_u16());
        }
    }
    assert_eq!(answers, [200, 200, 405, 405, 405, 405, 405, 405, 405, 405, 200, 200]);
    assert_eq!(
        before,
        (fixture.item(&id).await["history"].clone(), fixture.operator.task(&id).await)
    );
    assert_eq!(fixture.actions(&id).await, ["pending", "assigned"]);
}

#[tokio::test]
async fn decisions_in_parallel_branches_never_mix() {
    let fixture = Fixture::open().await;
    let steps = json!([
        {"id": "left", "prompt": "L", "requiresApproval": true},
        {"id": "right", "prompt": "R", "requiresApproval": true},
        {"id": "free", "prompt": "F"},
        {"id": "after-left", "prompt": "<{{left.output}}>", "dependsOn": ["left"]},
        {"id": "join", "prompt": "{{left.output}}+{{right.output}}+{{free.output}}",
         "dependsOn": ["left", "right", "free"]},
    ]);
    let plan = fixture.operator.plan(&steps).await;
    for (first, second) in [("left", "right"), ("right", "left")] {
        let execution = fixture.operator.execute(&plan, &json!({})).await;
        let tasks =
            [fixture.waiting(&execution, first).await, fixture.waiting(&execution, second).await];
        fixture
            .approve(&tasks[0], &json!({"modifiedOutput": format!("{first}!")}))
            .await
            .expect_ok();
        let halfway = fixture
            .operator
            .execution_when(&execution, |execution| {
                let steps = &execution["steps"];
                let after = first == "right" || steps["after-left"]["status"] == "completed";
                after && steps["free"]["status"] == "completed"
            })
            .await;
        assert_eq!(halfway["steps"][second]["waitingFor"], "approval");
        assert_eq!(halfway["steps"]["join"]["status"], "pending");
        let other = if first == "right" { "pending" } else { "completed" };
        assert_eq!(halfway["steps"]["after-left"]["status"], other);
        fixture.approve(&tasks[1], &json!({})).await.expect_ok();
        let ended = fixture.operator.execution_with_status(&execution, "completed").await;
        let joined = if first == "left" { "left!+R+F" } else { "L+right!+F" };
        assert_eq!(ended["steps"]["join"]["output"], joined);
    }
    // Both at once, crossing.
    for _ in 0..5 {
        let execution = fixture.operator.execute(&plan, &json!({})).await;
        let left = fixture.waiting(&execution, "left").await;
        let right = fixture.waiting(&execution, "right").await;
        let (body_left, body_right) =
            (json!({"modifiedOutput": "l"}), json!({"modifiedOutput": "r"}));
        let (one, two) = tokio::join!(
            fixture.approve(&left, &body_left),
            fixture.admin.approve(&right, &body_right)
        );
        for answer in [one, two] {
            answer.expect_ok();
        }
        let ended = fixture.operator.execution_with_status(&execution, "completed").await;
        assert_eq!(ended["steps"]["join"]["output"], "l+r+F");
        assert_eq!(ended["steps"]["after-left"]["output"], "<l>");
    }
}
