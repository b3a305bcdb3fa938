//! Everything of one customer is erased at once: executions with all that they were given and made, and tasks.

use serde_json::{Value, json};

use super::{compact, held, told};
use crate::approvals::fixture::Fixture;
use crate::support::{Client, until};

/// The customer's name, and another's.
const WORD: &str = "Mq7#Ermentrud!Vx2&";
const OTHER: &str = "Zt4(Balduin)Kw9^";

/// The steps: a copy of the input, an output that a reviewer sees, a list, and a wait.
fn steps() -> Value {
    json!([
        {"id": "copy", "prompt": "{{input.name}}", "title": "About {{input.name}}"},
        {"id": "seen", "prompt": "{{copy.output}}", "dependsOn": ["copy"], "requiresApproval": true},
        {"id": "each", "forEach": "{{input.list}}", "item": "part", "maxItems": 5,
            "prompt": "{{part}}"},
        {"id": "paid", "type": "wait", "signal": "payment", "dependsOn": ["seen"]},
        {"id": "last", "prompt": "{{paid.output}}", "dependsOn": ["paid"]},
    ])
}

async fn start(fixture: &Fixture, customer: &str, word: &str) -> String {
    let plan = fixture.operator.plan(&steps()).await;
    let body = json!({
        "input": {"name": word, "list": [word, "more"]}, "tags": [customer],
        "title": format!("Claim of {word}"),
    });
    let (path, key) = (format!("/api/plans/{plan}/execute"), format!("claim of {word}"));
    let made = fixture.operator.post_once(&path, &key, &body).await.expect(201);
    made["id"].as_str().expect("an id").to_owned()
}

/// Lets the execution end: its first output is rejected and tried again, its second run is approved with an edit.
async fn finish(fixture: &Fixture, id: &str, word: &str) {
    let first = fixture.waiting(id, "seen").await;
    let again = json!({"reason": format!("not {word}"), "retry": true, "retryPrompt": word});
    fixture.reject(&first, &again).await.expect_ok();
    until("the retry waits", async || fixture.waiting(id, "seen").await != first).await;
    let second = fixture.waiting(id, "seen").await;
    fixture.reject(&second, &json!({"reason": format!("again {word}")})).await.expect_ok();
    fixture.operator.execution_with_status(id, "failed").await;
    fixture
        .operator
        .post(&format!("/api/plans/executions/{id}/retry"), &json!({}))
        .await
        .expect_ok();
    let third = fixture.waiting(id, "seen").await;
    let edit = json!({"modifiedOutput": format!("{word} edited"), "comment": word});
    fixture.approve(&third, &edit).await.expect_ok();
    let path = format!("/api/plans/executions/{id}/signals/payment");
    fixture.operator.post(&path, &json!({"payload": format!("paid by {word}")})).await.expect_ok();
    fixture.operator.execution_with_status(id, "completed").await;
}

async fn tasks_of(client: &Client, tag: &str) -> Vec<Value> {
    let path = format!("/api/tasks?tags={tag}&limit=100");
    client.get(&path).await.expect_ok().as_array().expect("a list").clone()
}

async fn ended(client: &Client, id: &str) -> Value {
    let path = format!("/api/bulk/{id}");
    until("the job ends", async || client.get(&path).await.body["data"]["status"] == "completed")
        .await;
    client.get(&path).await.expect_ok()
}

/// All that the server says about the customer's work, to an admin.
async fn said(fixture: &Fixture, execution: &str, tasks: &[Value]) -> String {
    let mut paths: Vec<String> = [
        "/api/plans/executions?limit=100",
        "/api/tasks?limit=100",
        "/api/hitl?limit=100",
        "/api/bulk",
        "/api/audit?limit=100",
        "/api/webhooks/deliveries",
        "/api/usage?groupBy=tag",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push(format!("/api/plans/executions/{execution}"));
    paths.push(format!("/api/plans/executions/{execution}/steps/each/items"));
    for task in tasks {
        let id = task["id"].as_str().expect("an id");
        paths.extend([format!("/api/tasks/{id}"), format!("/api/hitl/{id}/history")]);
    }
    let mut all = told(&fixture.operator).await;
    for path in paths {
        all.push_str(&fixture.admin.get(&path).await.body.to_string());
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_customer_is_erased_by_tag_and_the_word_is_nowhere() {
    let mut fixture = Fixture::open().await;
    let execution = start(&fixture, "customer-7", WORD).await;
    let kept = start(&fixture, "customer-8", OTHER).await;
    finish(&fixture, &execution, WORD).await;
    finish(&fixture, &kept, OTHER).await;
    for (word, tag) in [(WORD, "customer-7"), (OTHER, "customer-8")] {
        let task = json!({"prompt": word, "title": word, "tags": [tag], "idempotencyKey": word});
        let task = fixture.operator.submit(&task).await;
        fixture.operator.task_with_status(&task, "completed").await;
    }
    let running = fixture
        .operator
        .submit(&json!({
        "prompt": "no name", "queue": "nobody", "tags": ["customer-7"]}))
        .await;
    let tasks = tasks_of(&fixture.operator, "customer-7").await;
    // copy, seen three times, two items, last; the task alone, and the one that waits.
    assert_eq!(tasks.len(), 9, "{tasks:#?}");
    assert!(said(&fixture, &execution, &tasks).await.contains(WORD));

    let filter = json!({"tags": ["customer-7"]});
    let order = |more: Value| {
        let mut order = json!({"action": "erase", "filter": filter, "reason": "request 4711"});
        order.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        order
    };
    let refused = fixture.operator.post("/api/bulk", &order(json!({}))).await;
    assert_eq!(refused.refused(403), "FORBIDDEN");
    let no_reason = json!({"action": "erase", "filter": filter});
    let refused = fixture.admin.post("/api/bulk", &no_reason).await;
    assert_eq!(refused.fault(), ("reason".into(), "required".into()));
    let dry = fixture.admin.post("/api/bulk", &order(json!({"dryRun": true}))).await.expect_ok();
    // The execution, and its tasks and the one alone, which have ended.
    assert_eq!((&dry["total"], &dry["of"]), (&json!(9), &json!("all")), "{dry}");
    let wrong = fixture.admin.post("/api/bulk", &order(json!({"expect": 10}))).await;
    assert_eq!(wrong.refused(409), "INVALID_STATE");
    let job = fixture.admin.post("/api/bulk", &order(json!({"expect": 9}))).await.expect_ok();
    let job = ended(&fixture.admin, job["id"].as_str().expect("an id")).await;
    assert_eq!((&job["succeeded"], &job["failed"]), (&json!(9), &json!(0)), "{job}");
    assert_eq!(job["erased"], json!({"executions": 1, "tasks": 8, "signals": 1}), "{job}");

    let audit = fixture.admin.get("/api/audit?action=bulk.erased").await.expect_ok();
    let details = &audit[0]["details"];
    assert_eq!(audit.as_array().map(Vec::len), Some(1), "{audit}");
    assert_eq!(details["reason"], "request 4711");
    assert_eq!(
        [&details["executions"], &details["tasks"], &details["signals"], &details["skipped"]],
        ["1", "8", "1", "0"]
    );
    assert!(details["stays"].as_str().is_some_and(|stays| stays.contains("backups")), "{audit}");

    for round in 0..2 {
        let all = said(&fixture, &execution, &tasks).await;
        assert!(!all.contains(WORD), "{all}");
        assert!(all.contains(OTHER));
        if round == 0 {
            fixture.crash(std::time::Duration::ZERO).await;
            fixture.admin = fixture.server.admin().await;
        }
    }
    let shown = fixture.operator.execution(&execution).await;
    assert!(shown["erasedAt"].is_string() && shown["tags"] == json!(["customer-7"]), "{shown:#}");
    assert_eq!((&shown["status"], &shown["input"]), (&json!("completed"), &json!({})));
    assert!(shown["usage"]["output"].as_u64() > Some(0), "the cost stays");
    assert_eq!(fixture.operator.task(&running).await["status"], "pending");
    // Nor do the words of the search lead there.
    for list in ["plans/executions", "tasks", "hitl"] {
        for (word, number) in [("Ermentrud", 0), ("Balduin", 1)] {
            let found = fixture.operator.get(&format!("/api/{list}?search={word}")).await;
            let total = found.body["pagination"]["total"].as_u64().expect("a number");
            assert_eq!(total.min(1), number, "{list} {word}");
        }
    }
    let fork = format!("/api/plans/executions/{execution}/fork");
    assert_eq!(fixture.operator.post(&fork, &json!({})).await.refused(409), "INVALID_STATE");

    let data = fixture.server.data();
    assert!(fixture.server.terminate());
    compact(&data);
    let words = [WORD, OTHER, "ermentrud", "balduin"];
    assert_eq!(held(&data, &words), [OTHER, "balduin"], "after the compaction");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_execution_is_erased_once_it_has_ended() {
    let fixture = Fixture::open().await;
    let execution = start(&fixture, "customer-7", WORD).await;
    let path = format!("/api/plans/executions/{execution}/texts");
    let erase = async |client: &Client, body: Value| {
        client.send(client.request(reqwest::Method::DELETE, &path).json(&body)).await
    };
    let reason = || json!({"reason": "request 4711"});
    assert_eq!(erase(&fixture.admin, reason()).await.refused(409), "INVALID_STATE");
    assert_eq!(erase(&fixture.operator, reason()).await.refused(403), "FORBIDDEN");
    assert_eq!(
        erase(&fixture.admin, json!({})).await.fault(),
        ("reason".into(), "required".into())
    );
    finish(&fixture, &execution, WORD).await;
    let erased = erase(&fixture.admin, reason()).await.expect_ok();
    assert_eq!((&erased["tasks"], &erased["signals"]), (&json!(7), &json!(1)), "{erased}");
    let again = erase(&fixture.admin, reason()).await.expect_ok();
    assert_eq!((&again["erasedAt"], &again["tasks"]), (&erased["erasedAt"], &json!(0)));
    let audit = fixture.admin.get("/api/audit?action=execution.texts_erased").await.expect_ok();
    assert_eq!(audit.as_array().map(Vec::len), Some(2));
    assert_eq!(audit[1]["details"]["tasks"], "7", "{audit}");
    let none = "/api/plans/executions/dt_exec_01m7ydk3p9x6v2m4s8b0c1f77j/texts";
    let request = fixture.admin.request(reqwest::Method::DELETE, none).json(&reason());
    assert_eq!(fixture.admin.send(request).await.refused(404), "NOT_FOUND");
}
