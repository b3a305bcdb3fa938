//! Callbacks of executions, the events that an item names, and titles.

use serde_json::{Value, json};

use super::{Fixture, Receiver};
use crate::support::until;

fn template(hitl: &Value) -> Value {
    json!({
        "name": "Mails", "version": "1.0.0", "industry": "custom", "tags": ["night"],
        "title": "{{input.mail.subject}} ({{meta.templateName}})",
        "inputSchema": {
            "type": "object", "required": ["mail"],
            "properties": {"mail": {"type": "object"}},
        },
        "steps": [
            {"id": "triage", "prompt": "{{input.mail.subject}}"},
            {
                "id": "answer", "dependsOn": ["triage"], "prompt": "re: {{triage.output}}",
                "title": "Answer to {{triage.output}}",
            },
        ],
        "hitl": hitl,
    })
}

impl Fixture {
    async fn deploys(&self, hitl: Value, body: Value) -> Value {
        let made = self.operator.post("/api/templates", &template(&hitl)).await;
        let id = made.expect(201)["id"].as_str().expect("an id").to_owned();
        let path = format!("/api/templates/{id}/deploy");
        self.operator.post(&path, &body).await.expect(201)
    }
}

#[tokio::test]
async fn an_execution_announces_its_end_with_its_title_tags_cost_and_last_output() {
    let receiver = Receiver::start().await;
    let fixture = Fixture::with(&[]).await;
    let deploy = json!({
        "input": {"mail": {"subject": "Late\nparcel"}}, "tags": ["mail-7", "night"],
        "callbackUrl": receiver.url("done"),
    });
    let run = fixture.deploys(Value::Null, deploy).await;
    assert_eq!(run["title"], "Late parcel (Mails)");
    let body = receiver.after(1).await.remove(0).body;
    assert_eq!(body["event"], "execution.completed");
    for (member, expected) in [
        ("executionId", run["id"].clone()),
        ("planId", run["planId"].clone()),
        ("templateId", json!("mails-v1")),
        ("status", json!("completed")),
        ("output", json!("re: Late\nparcel")),
        ("tags", json!(["night", "mail-7"])),
        ("title", json!("Late parcel (Mails)")),
    ] {
        assert_eq!(body[member], expected, "{member}: {body}");
    }
    assert!(body["usage"]["totalCost"].is_number() && body["completedAt"].is_string(), "{body}");
    assert!(body["signature"].as_str().is_some_and(|it| it.starts_with("sha256=")), "{body}");
    let id = run["id"].as_str().expect("an id");
    let found = async || fixture.deliveries(&format!("&executionId={id}&status=delivered")).await;
    until("it is delivered", async || found().await.len() == 1).await;
    let delivery = found().await.remove(0);
    assert_eq!((&delivery["executionId"], &delivery["event"]), (&run["id"], &body["event"]));
    assert!(delivery.get("taskId").is_none(), "{delivery}");
    // The tags find the execution and its tasks.
    for path in ["/api/plans/executions?tags=mail-7", "/api/tasks?tags=mail-7,night"] {
        let listed = fixture.operator.get(path).await.expect_ok();
        let titles: Vec<_> =
            listed.as_array().expect("a list").iter().map(|it| &it["title"]).collect();
        let of_run = json!("Late parcel (Mails)");
        match titles.as_slice() {
            [title] => assert_eq!(**title, of_run),
            [answer, triage] => {
                assert_eq!((&**answer, &**triage), (&json!("Answer to Late parcel"), &of_run));
            }
            other => panic!("{path}: {other:?}"),
        }
    }
    let none = fixture.operator.get("/api/plans/executions?tags=mail-8").await.expect_ok();
    assert_eq!(none, json!([]));
}

#[tokio::test]
async fn an_output_that_waits_for_a_reviewer_calls_somebody() {
    let receiver = Receiver::start().await;
    let fixture = Fixture::with(&[]).await;
    let events = json!(["awaiting_approval", "failed"]);
    let deploy = json!({
        "input": {"mail": {"subject": "Refund"}}, "title": "Refund of 1,200",
        "callbackUrl": receiver.url("review"), "callbackEvents": events,
    });
    let run = fixture.deploys(json!({"requiredFor": ["answer"]}), deploy).await;
    let body = receiver.after(1).await.remove(0).body;
    assert_eq!(
        (&body["event"], &body["status"]),
        (&json!("execution.awaiting_approval"), &json!("running"))
    );
    assert_eq!((&body["stepId"], &body["title"]), (&json!("answer"), &json!("Refund of 1,200")));
    assert!(body["output"].is_null() && body.get("completedAt").is_none(), "{body}");
    let task = body["taskId"].as_str().expect("a task").to_owned();
    let held = fixture.operator.get("/api/hitl/pending").await.expect_ok();
    assert_eq!(held[0]["title"], "Answer to Refund");
    let approved =
        fixture.operator.post(&format!("/api/hitl/{task}/reject"), &json!({"reason": "no"})).await;
    approved.expect_ok();
    let body = receiver.after(2).await.remove(1).body;
    assert_eq!(
        (&body["event"], &body["error"]["stepId"]),
        (&json!("execution.failed"), &json!("answer"))
    );
    assert_eq!(body["executionId"], run["id"]);
}

#[tokio::test]
async fn a_task_names_its_events_and_asks_for_details_and_its_title_goes_with_its_texts() {
    let receiver = Receiver::start().await;
    let fixture = Fixture::with(&[]).await;
    let task = json!({
        "prompt": "p", "title": " Mail of\tAda ", "tags": ["t"], "hitl": {"required": true},
        "callbackUrl": receiver.url("task"),
        "callbackEvents": ["awaiting_approval", "completed"], "callbackDetails": true,
    });
    let id = fixture.operator.submit(&task).await;
    let held = receiver.after(1).await.remove(0).body;
    assert_eq!(
        (&held["event"], &held["status"]),
        (&json!("task.awaiting_approval"), &json!("pending"))
    );
    assert_eq!(held["details"]["title"], "Mail of Ada");
    let edited = json!({"modifiedOutput": "better"});
    fixture.operator.post(&format!("/api/hitl/{id}/approve"), &edited).await.expect_ok();
    let done = receiver.after(2).await.remove(1).body;
    let details = &done["details"];
    assert_eq!((&done["output"], &details["attempt"]), (&json!("better"), &json!(1)));
    assert_eq!(
        (&details["tags"], &details["review"]["wasModified"]),
        (&json!(["t"]), &json!(true))
    );
    assert!(details["review"]["by"].is_string() && details["model"].is_string(), "{done}");
    assert_eq!(fixture.operator.task(&id).await["title"], "Mail of Ada");
    fixture.delivery(&id, "delivered").await;
    until("nothing about it is pending", async || {
        fixture.deliveries(&format!("&taskId={id}&status=pending")).await.is_empty()
    })
    .await;
    let admin = fixture.server.admin().await;
    let path = format!("/api/tasks/{id}/texts");
    let erasure = admin.request(reqwest::Method::DELETE, &path).json(&json!({"reason": "r"}));
    admin.send(erasure).await.expect_ok();
    let erased = admin.task(&id).await;
    assert!(erased.get("title").is_none() && erased["callbackDetails"] == true, "{erased}");
    assert!(!admin.get("/api/hitl").await.expect_ok().to_string().contains("Ada"));
}

#[tokio::test]
async fn what_a_callback_cannot_do_is_refused_with_its_field() {
    let fixture = Fixture::with(&[]).await;
    for (task, field, rule) in [
        (json!({"callbackEvents": ["completed"]}), "callbackEvents", "unknown"),
        (json!({"callbackDetails": true}), "callbackDetails", "unknown"),
        (
            json!({"callbackUrl": "http://127.0.0.1:9/x", "callbackEvents": ["started"]}),
            "callbackEvents[0]",
            "enum",
        ),
        (json!({"title": "x".repeat(201)}), "title", "length"),
        (json!({"title": " \n "}), "title", "pattern"),
    ] {
        let mut body = json!({"prompt": "p"});
        body.as_object_mut()
            .expect("an object")
            .extend(task.as_object().expect("an object").clone());
        let refused = fixture.operator.post("/api/tasks", &body).await;
        assert_eq!(refused.fault(), (field.to_owned(), rule.to_owned()), "{task}");
    }
    let step = json!({"id": "a", "prompt": "p"});
    let plan = json!({"name": "p", "title": "{{a.output}}", "steps": [step]});
    let refused = fixture.operator.post("/api/plans", &plan).await;
    assert_eq!(refused.fault().0, "title");
    let plan = fixture.operator.plan(&json!([step])).await;
    let path = format!("/api/plans/{plan}/execute");
    let rejected = json!({"callbackUrl": "http://127.0.0.1:9/x", "callbackEvents": ["rejected"]});
    let refused = fixture.operator.post(&path, &rejected).await;
    assert_eq!(refused.fault(), ("callbackEvents".into(), "enum".into()));
    let inside = json!({"callbackUrl": "http://169.254.169.254/x"});
    assert_eq!(fixture.operator.post(&path, &inside).await.refused(400), "CALLBACK_URL_FORBIDDEN");
}
