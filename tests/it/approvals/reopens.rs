//! Decisions that are taken back, the refusals of that, and corrections (docs/reference/approvals.md, "Reopen").

use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::support::{Answer, Client, Events};

/// b and c wait for a, and d for b and c; b and c are held.
fn steps() -> Value {
    json!([
        {"id": "a", "prompt": "A"},
        {"id": "b", "prompt": "B@0.71", "dependsOn": ["a"], "requiresApproval": true},
        {"id": "c", "prompt": "C@0.71", "dependsOn": ["a"], "requiresApproval": true},
        {"id": "d", "prompt": "D({{b.output}},{{c.output}})", "dependsOn": ["b", "c"]},
    ])
}

async fn reopen(client: &Client, id: &str, body: Value) -> Answer {
    client.post(&format!("/api/hitl/{id}/reopen"), &body).await
}

/// Waits for an event of this name.
async fn told(events: &mut Events, name: &str) {
    while events.next().await.0 != name {}
}

/// The kinds of use that a refusal lists.
fn kinds(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.refused(409), "INVALID_STATE", "{}", answer.body);
    let uses = answer.body["error"]["details"]["usedBy"].as_array().expect("the uses").clone();
    let text = |name: &str, of: &Value| of[name].as_str().expect(name).to_owned();
    let whole = |of: &Value| {
        let _ = (text("id", of), text("at", of));
        text("kind", of)
    };
    uses.iter().map(whole).collect()
}

#[tokio::test]
async fn a_wrong_click_is_put_right_while_the_next_step_waits() {
    let mut fixture = Fixture::open().await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let execution = fixture.start(&steps(), &json!({})).await;
    let (b, c) = (fixture.waiting(&execution, "b").await, fixture.waiting(&execution, "c").await);
    let mut events =
        Events::open(&fixture.operator, "events=hitl.*,task.awaiting_approval", None).await;
    fixture.approve(&b, &json!({"modifiedOutput": "wrong", "comment": "slip"})).await.expect_ok();
    let before = fixture.operator.execution(&execution).await;
    let answer = reopen(&olga, &b, json!({})).await.expect_ok();
    assert_eq!(
        (&answer["status"], &answer["corrects"], &answer["assignedTo"]),
        (&json!("assigned"), &json!(false), &json!(olga_id))
    );
    told(&mut events, "hitl.reopened").await;
    told(&mut events, "task.awaiting_approval").await;
    let again = reopen(&fixture.operator, &b, json!({"asCorrection": true})).await.expect_ok();
    assert_eq!(again, answer, "the same request is one");

    fixture.crash(std::time::Duration::ZERO).await;
    fixture.employ().await;
    let olga = olga.at(&fixture.server.url);
    let now = fixture.operator.execution(&execution).await;
    let step = &now["steps"]["b"];
    assert_eq!((&step["status"], &step["awaitingApproval"]), (&json!("pending"), &json!(true)));
    assert_eq!((&step["usage"], &now["usage"]), (&before["steps"]["b"]["usage"], &before["usage"]));
    assert_eq!(fixture.item(&b).await["reopened"], 1);
    let task = fixture.operator.get(&format!("/api/tasks/{b}")).await.expect_ok();
    assert_eq!((&task["status"], &task["output"]), (&json!("pending"), &json!("B")));

    olga.approve(&b, &json!({"modifiedOutput": "right"})).await.expect_ok();
    fixture.approve(&c, &json!({})).await.expect_ok();
    let ended = fixture.operator.execution_when(&execution, |it| it["status"] == "completed").await;
    assert_eq!(ended["steps"]["d"]["output"], "D(right,C)");
    let entries = fixture.history(&b).await;
    let edits: Vec<_> = entries.iter().filter(|it| it["action"] == "approved").collect();
    assert_eq!(edits[0]["modifiedOutput"], "wrong");
    assert_eq!(
        (&edits[0]["comment"], &edits[1]["modifiedOutput"]),
        (&json!("slip"), &json!("right"))
    );
    let audit = fixture.admin.get("/api/audit?action=hitl.reopened").await;
    assert_eq!(audit.body["pagination"]["total"], 2);
    let uses = reopen(&olga, &b, json!({})).await;
    assert_eq!(kinds(&uses), ["execution", "step"]);
}

#[tokio::test]
async fn a_stream_that_resumes_is_told_of_no_end_that_was_taken_back() {
    let mut fixture = Fixture::open().await;
    let mut live = Events::open(&fixture.operator, "events=task.*", None).await;
    let execution = fixture.start(&steps(), &json!({})).await;
    let (_, first) = live.next().await;
    let (b, _) = (fixture.waiting(&execution, "b").await, fixture.waiting(&execution, "c").await);
    fixture.approve(&b, &json!({})).await.expect_ok();
    reopen(&fixture.operator, &b, json!({})).await.expect_ok();
    fixture.reject(&b, &json!({"reason": "no"})).await.expect_ok();
    drop(live);
    // What the server has in memory it tells as it was.
    fixture.crash(std::time::Duration::ZERO).await;
    let query = format!("events=task.awaiting_approval,task.completed,task.rejected&taskId={b}");
    let cursor = first["cursor"].as_str().expect("a cursor");
    let mut later = Events::open(&fixture.operator, &query, Some(cursor)).await;
    for expected in ["task.awaiting_approval", "task.awaiting_approval", "task.rejected"] {
        assert_eq!(later.next().await.0, expected);
    }
}

#[tokio::test]
async fn a_correction_stands_beside_the_decision_that_was_used() {
    let fixture = Fixture::open().await;
    let plan = json!([{"id": "a", "prompt": "A@0.71", "requiresApproval": true}]);
    let execution = fixture.start(&plan, &json!({"title": "Order 4711"})).await;
    let id = fixture.waiting(&execution, "a").await;
    fixture.approve(&id, &json!({"modifiedOutput": "wrong"})).await.expect_ok();
    let refused = reopen(&fixture.operator, &id, json!({})).await;
    assert_eq!(kinds(&refused), ["execution"]);
    let used = &refused.body["error"]["details"]["usedBy"][0];
    assert_eq!((&used["id"], &used["name"]), (&json!(execution), &json!("Order 4711")));

    let asked = reopen(&fixture.operator, &id, json!({"asCorrection": true})).await.expect_ok();
    assert_eq!(asked["corrects"], true);
    let item = fixture.item(&id).await;
    assert_eq!(item["corrects"]["modifiedOutput"], "wrong");
    assert_eq!((&item["decision"], &item["output"]), (&Value::Null, &json!("A")));
    let retry = json!({"reason": "no", "retry": true});
    assert_eq!(fixture.reject(&id, &retry).await.fault(), ("retry".into(), "reserved".into()));
    let mut events = Events::open(&fixture.operator, "events=hitl.*", None).await;
    fixture.approve(&id, &json!({"modifiedOutput": "right", "comment": "sorry"})).await.expect_ok();
    told(&mut events, "hitl.corrected").await;

    let task = fixture.operator.get(&format!("/api/tasks/{id}")).await.expect_ok();
    assert_eq!((&task["status"], &task["output"]), (&json!("completed"), &json!("wrong")));
    let correction = &task["correction"];
    assert_eq!(
        (&correction["modifiedOutput"], &correction["comment"], &correction["status"]),
        (&json!("right"), &json!("sorry"), &json!("approved"))
    );
    let run = fixture.operator.execution(&execution).await;
    assert_eq!(
        (&run["status"], &run["steps"]["a"]["output"]),
        (&json!("completed"), &json!("wrong"))
    );
    assert_eq!(run["steps"]["a"]["correction"]["modifiedOutput"], "right");
    let actions = ["pending", "assigned", "approved", "reopened", "assigned", "approved"];
    assert_eq!(fixture.actions(&id).await, actions);
    let listed =
        fixture.operator.get("/api/hitl?status=approved&orderBy=decidedAt&search=4711").await;
    assert_eq!(listed.body["data"][0]["corrects"]["status"], "approved");
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_refused_with_the_reason() {
    let fixture = Fixture::open().await;
    let open = fixture.required("x").await;
    let early = reopen(&fixture.operator, &open, json!({})).await;
    assert_eq!(early.refused(409), "INVALID_STATE");
    let unknown = reopen(&fixture.operator, "dt_task_00000000000000000000000000", json!({})).await;
    assert_eq!(unknown.refused(404), "NOT_FOUND");
    let wrong = reopen(&fixture.operator, &open, json!({"asCorrection": "yes"})).await;
    assert_eq!(wrong.fault(), ("asCorrection".into(), "type".into()));
    let viewer = fixture.key("viewer").await.client;
    assert_eq!(reopen(&viewer, &open, json!({})).await.refused(403), "FORBIDDEN");

    fixture.approve(&open, &json!({})).await.expect_ok();
    assert_eq!(kinds(&reopen(&fixture.operator, &open, json!({})).await), ["task"]);
    let (rita, rita_id) = fixture.user("rita", "reviewer").await;
    let others = reopen(&rita, &open, json!({"asCorrection": true})).await;
    assert_eq!(others.refused(403), "FORBIDDEN");
    let own = fixture.required("y").await;
    rita.approve(&own, &json!({})).await.expect_ok();
    let asked = reopen(&rita, &own, json!({"asCorrection": true})).await.expect_ok();
    assert_eq!(asked["assignedTo"], rita_id);

    let retried = fixture.required("z").await;
    fixture.reject(&retried, &json!({"reason": "no", "retry": true})).await.expect_ok();
    assert_eq!(kinds(&reopen(&fixture.operator, &retried, json!({})).await), ["task"]);

    let cancelled = fixture.required("w").await;
    fixture.operator.delete(&format!("/api/tasks/{cancelled}")).await.expect_ok();
    let ended = reopen(&fixture.operator, &cancelled, json!({"asCorrection": true})).await;
    assert_eq!(ended.refused(409), "INVALID_STATE");

    fixture.approve(&own, &json!({})).await.expect_ok();
    let path = format!("/api/tasks/{own}/texts");
    let erase = fixture.admin.request(reqwest::Method::DELETE, &path);
    fixture.admin.send(erase.json(&json!({"reason": "a request"}))).await.expect_ok();
    let erased = reopen(&fixture.operator, &own, json!({"asCorrection": true})).await;
    assert_eq!(erased.refused(409), "INVALID_STATE");
    let message = erased.body["error"]["message"].as_str().expect("a text");
    assert!(message.contains("erased"), "{message}");
}

#[tokio::test]
async fn under_four_eyes_a_submitter_does_not_correct_either() {
    let fixture = Fixture::with(&[("HITL__FOUR_EYES", "true")]).await;
    let (olga, olga_id) = fixture.user("olga", "operator").await;
    let task = json!({"prompt": "x", "hitl": {"required": true}});
    let id = olga.submit(&task).await;
    fixture.operator.task_when(&id, |it| it["awaitingApproval"] == true).await;
    fixture.admin.approve(&id, &json!({})).await.expect_ok();
    let asked = reopen(&olga, &id, json!({"asCorrection": true})).await.expect_ok();
    assert_ne!(asked["assignedTo"], olga_id, "it is given to somebody who may approve it");
    assert_eq!(olga.approve(&id, &json!({})).await.refused(403), "FORBIDDEN");
    fixture.admin.approve(&id, &json!({"modifiedOutput": "y"})).await.expect_ok();
}
