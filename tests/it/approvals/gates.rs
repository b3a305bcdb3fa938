//! Which outputs are held: every row of the table in docs/reference/approvals.md, seen from outside.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::fixture::Fixture;

/// Why the output of each task is held, or `passes`.
async fn reason(fixture: &Fixture, task: &Value) -> String {
    let id = fixture.operator.submit(task).await;
    let over = |task: &Value| task["status"] == "completed" || task["awaitingApproval"] == true;
    if fixture.operator.task_when(&id, over).await["status"] == "completed" {
        let nothing = fixture.operator.get(&format!("/api/hitl/{id}")).await;
        assert_eq!(nothing.refused(404), "NOT_FOUND", "there is nothing to decide");
        return "passes".to_owned();
    }
    told(&fixture.item(&id).await)
}

/// Why an item is held, with its threshold if there is one.
fn told(item: &Value) -> String {
    let reason = item["reason"].as_str().expect("a text");
    assert_eq!(item["sampled"], reason == "sampled");
    match item["threshold"].as_f64() {
        Some(threshold) => format!("{reason} {threshold}"),
        None => reason.to_owned(),
    }
}

#[tokio::test]
async fn a_task_is_held_as_its_hitl_says() {
    let fixture = Fixture::open().await;
    for (hitl, prompt, expected) in [
        (Value::Null, "x @0.1", "passes"),
        (json!({"required": true}), "x @1", "required"),
        (json!({"required": true, "confidenceThreshold": 0.5}), "x @0.9", "required 0.5"),
        (json!({"required": true, "sampleRate": 1}), "x @0.9", "required"),
        (json!({}), "x @0.84", "below_threshold 0.85"),
        (json!({}), "x @0.85", "passes"),
        (json!({}), "x @0", "below_threshold 0.85"),
        (json!({}), "x", "no_confidence 0.85"),
        (json!({"required": null}), "x", "no_confidence 0.85"),
        (json!({"timeoutMs": 1_000}), "x @0.84", "below_threshold 0.85"),
        (json!({"confidenceThreshold": 0.5}), "x @0.49", "below_threshold 0.5"),
        (json!({"confidenceThreshold": 0.5}), "x @0.5", "passes"),
        (json!({"confidenceThreshold": 0}), "x @0", "passes"),
        (json!({"confidenceThreshold": 1}), "x @0.999", "below_threshold 1"),
        (json!({"confidenceThreshold": 1}), "x @1", "passes"),
        (json!({"required": false}), "x @0", "passes"),
        (json!({"required": false}), "x", "passes"),
        (json!({"required": false, "confidenceThreshold": 0.5}), "x @0.4", "below_threshold 0.5"),
        (json!({"required": false, "confidenceThreshold": 0.5}), "x @0.6", "passes"),
        (json!({"required": false, "confidenceThreshold": 0.5}), "x", "no_confidence 0.5"),
        (json!({"required": false, "sampleRate": 1}), "x @1", "sampled"),
        (json!({"required": false, "sampleRate": 0}), "x @0", "passes"),
        (json!({"sampleRate": 1}), "x @0.99", "sampled 0.85"),
        (json!({"sampleRate": 0}), "x @0.99", "passes"),
        (json!({"sampleRate": 1}), "x @0.1", "below_threshold 0.85"),
        (json!({"sampleRate": 1}), "x", "no_confidence 0.85"),
    ] {
        let task = json!({"prompt": prompt, "hitl": hitl});
        assert_eq!(reason(&fixture, &task).await, expected, "{task}");
    }
}

#[tokio::test]
async fn what_has_no_confidence_may_pass_if_the_settings_say_so() {
    let fixture = Fixture::with(&[("HITL__MISSING_CONFIDENCE", "pass")]).await;
    for (hitl, prompt, expected) in [
        (json!({}), "x", "passes"),
        (json!({"confidenceThreshold": 1}), "x", "passes"),
        (json!({}), "x @0.84", "below_threshold 0.85"),
        (json!({"required": true}), "x", "required"),
        (json!({"sampleRate": 1}), "x", "sampled 0.85"),
    ] {
        let task = json!({"prompt": prompt, "hitl": hitl});
        assert_eq!(reason(&fixture, &task).await, expected, "{task}");
    }
    let steps = json!([{"id": "a", "prompt": "x"}]);
    let execution = fixture.start(&steps, &json!({"hitl": {"confidenceThreshold": 0.9}})).await;
    fixture.operator.execution_with_status(&execution, "completed").await;
}

/// Why each step of an execution is held, once all have their outputs.
async fn held(fixture: &Fixture, execution: &str) -> BTreeMap<String, String> {
    let over = |execution: &Value| {
        let steps = execution["steps"].as_object().expect("steps");
        steps.values().all(|step| step["status"] == "completed" || step["waitingFor"] == "approval")
    };
    let execution = fixture.operator.execution_when(execution, over).await;
    let mut held = BTreeMap::new();
    for (id, step) in execution["steps"].as_object().expect("steps") {
        if step["status"] != "completed" {
            let item = fixture.item(step["taskId"].as_str().expect("an id")).await;
            held.insert(id.clone(), told(&item));
        }
    }
    held
}

fn expected(held: &[(&str, &str)]) -> BTreeMap<String, String> {
    held.iter().map(|(id, reason)| ((*id).to_owned(), (*reason).to_owned())).collect()
}

/// A sure step, an unsure one, one that says nothing, and one that is always held.
fn steps() -> Value {
    json!([
        {"id": "sure", "prompt": "x @0.95"},
        {"id": "unsure", "prompt": "x @0.6"},
        {"id": "silent", "prompt": "x"},
        {"id": "always", "prompt": "x @1", "requiresApproval": true},
    ])
}

#[tokio::test]
async fn a_step_is_held_as_the_plan_and_the_execute_say() {
    let fixture = Fixture::open().await;
    let plan = fixture.operator.plan(&steps()).await;
    let (below, silent) = (("unsure", "below_threshold 0.9"), ("silent", "no_confidence 0.9"));
    for (hitl, wanted) in [
        (Value::Null, &[("always", "required")][..]),
        (json!({}), &[("always", "required 0.85")]),
        (json!({"timeoutMs": 5_000}), &[("always", "required 0.85")]),
        (json!({"confidenceThreshold": 0.9}), &[below, silent, ("always", "required 0.9")]),
        (
            json!({"confidenceThreshold": 0.5}),
            &[("silent", "no_confidence 0.5"), ("always", "required 0.5")],
        ),
        (
            json!({"requiredFor": [], "confidenceThreshold": 0.9}),
            &[below, silent, ("always", "required 0.9")],
        ),
        (
            json!({"requiredFor": ["sure"]}),
            &[("sure", "required 0.85"), ("always", "required 0.85")],
        ),
        (
            json!({"requiredFor": ["sure", "always"], "confidenceThreshold": 0.9}),
            &[("sure", "required 0.9"), ("always", "required 0.9")],
        ),
        (
            json!({"sampleRate": 1}),
            &[
                ("sure", "sampled"),
                ("unsure", "sampled"),
                ("silent", "sampled"),
                ("always", "required 0.85"),
            ],
        ),
        (json!({"sampleRate": 0}), &[("always", "required 0.85")]),
        (
            json!({"sampleRate": 1, "confidenceThreshold": 0.9}),
            &[("sure", "sampled 0.9"), below, silent, ("always", "required 0.9")],
        ),
    ] {
        let execution = fixture.operator.execute(&plan, &json!({"hitl": hitl})).await;
        assert_eq!(held(&fixture, &execution).await, expected(wanted), "{hitl}");
    }
}

#[tokio::test]
async fn what_is_given_at_a_deploy_replaces_the_templates_field_by_field() {
    let fixture = Fixture::open().await;
    let template = json!({
        "name": "Gated", "version": "1.0.0", "industry": "custom",
        "inputSchema": {"type": "object"}, "steps": steps(),
        "hitl": {"requiredFor": ["unsure"], "confidenceThreshold": 0.9, "timeoutMs": 60_000},
    });
    let made = fixture.operator.post("/api/templates", &template).await.expect(201);
    assert_eq!(made["hitlSteps"], json!(["unsure", "always"]));
    let always = ("always", "required 0.9");
    for (hitl, timeout_ms, wanted) in [
        (Value::Null, 60_000, &[("unsure", "required 0.9"), always][..]),
        (json!({"requiredFor": ["sure"]}), 60_000, &[("sure", "required 0.9"), always]),
        (
            json!({"requiredFor": ["sure"], "confidenceThreshold": 0.7, "timeoutMs": 5_000}),
            5_000,
            &[("sure", "required 0.7"), ("always", "required 0.7")],
        ),
        (
            json!({"requiredFor": []}),
            60_000,
            &[("unsure", "below_threshold 0.9"), ("silent", "no_confidence 0.9"), always],
        ),
    ] {
        let body = json!({"input": {}, "hitl": hitl});
        // Some of them ask for less than the template, which an admin may.
        let deployed =
            fixture.admin.post("/api/templates/gated-v1/deploy", &body).await.expect(201);
        let execution = deployed["id"].as_str().expect("an id");
        assert_eq!(held(&fixture, execution).await, expected(wanted), "{hitl}");
        let item = fixture.item(&fixture.waiting(execution, "always").await).await;
        assert_eq!(item["templateId"], "gated-v1");
        let instant = |name: &str| -> jiff::Timestamp {
            item[name].as_str().expect("a text").parse().expect("an instant")
        };
        let time = instant("timeoutAt").duration_since(instant("createdAt"));
        assert_eq!(time.as_millis(), timeout_ms, "{hitl}");
    }
    // A plan's steps are named anew at an execute, too.
    let steps =
        json!([{"id": "a", "prompt": "x", "requiresApproval": true}, {"id": "b", "prompt": "x"}]);
    let execution = fixture.start(&steps, &json!({"hitl": {"requiredFor": ["b"]}})).await;
    let both = [("a", "required 0.85"), ("b", "required 0.85")];
    assert_eq!(held(&fixture, &execution).await, expected(&both), "a step's own word stands");
}

#[tokio::test]
async fn a_step_shows_its_reviewer_what_the_output_is_to_be_compared_with() {
    let mut fixture = Fixture::open().await;
    let show = ["{{input.letter}}", "Draft: {{draft.output}}", "{{input.none}}"];
    let steps = json!([
        {"id": "draft", "prompt": "first"},
        {
            "id": "final", "prompt": "x", "dependsOn": ["draft"], "requiresApproval": true,
            "review": {"show": show},
        },
    ]);
    let letter = "Dear all,\n".repeat(30_000);
    let input = json!({"letter": letter, "none": ""});
    let execution = fixture.start(&steps, &json!({"input": input})).await;
    let id = fixture.waiting(&execution, "final").await;
    let shown = async |fixture: &Fixture, id: &str| fixture.item(id).await["task"]["shown"].clone();
    // The letter has more than fits, so nothing else does.
    assert_eq!(shown(&fixture, &id).await, json!([letter[..256 * 1024]]));

    let input = json!({"letter": "Dear all", "none": ""});
    let execution = fixture.start(&steps, &json!({"input": input})).await;
    let id = fixture.waiting(&execution, "final").await;
    let draft = fixture.operator.execution(&execution).await["steps"]["draft"]["output"].clone();
    let draft = format!("Draft: {}", draft.as_str().expect("a text"));
    let expected = json!(["Dear all", draft]);
    assert_eq!(shown(&fixture, &id).await, expected);
    fixture.crash(Duration::ZERO).await;
    assert_eq!(shown(&fixture, &id).await, expected);
    let body = json!({"reason": "Too short.", "retry": true});
    let again = fixture.reject(&id, &body).await.expect_ok()["retryTaskId"].clone();
    let again = again.as_str().expect("an id").to_owned();
    let task = fixture.operator.task(&again).await;
    assert!(task["prompt"].as_str().is_some_and(|prompt| !prompt.contains("Dear all")), "{task}");
    let _worker = fixture.employ().await;
    let waits = |task: &Value| task["awaitingApproval"] == true;
    fixture.operator.task_when(&again, waits).await;
    assert_eq!(shown(&fixture, &again).await, expected, "the retry is compared with the same");
}
