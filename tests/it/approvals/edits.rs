//! A reviewer's own text in place of an output.

use serde_json::{Value, json};

use super::chain::committed;
use super::fixture::{Fixture, actions};

#[tokio::test]
async fn an_edit_goes_on_and_the_original_stays() {
    let fixture = Fixture::open().await;
    let steps = json!([
        {"id": "a", "prompt": "original", "requiresApproval": true},
        {"id": "b", "prompt": "b({{a.output}})", "dependsOn": ["a"]},
    ]);
    let execution = fixture.start(&steps, &json!({})).await;
    let id = fixture.waiting(&execution, "a").await;
    let edit = "better {{b.output}} \"quoted\"\n@";
    let body = json!({"modifiedOutput": edit, "comment": "typo"});
    let answer = fixture.approve(&id, &body).await.expect_ok();
    assert_eq!(answer["wasModified"], true);
    let ended = fixture.operator.execution_with_status(&execution, "completed").await;
    assert_eq!(ended["steps"]["a"]["output"], edit);
    let after = fixture.operator.task(ended["steps"]["b"]["taskId"].as_str().expect("an id")).await;
    assert_eq!(after["prompt"], format!("b({edit})"), "what passed is text, not a template");
    assert_eq!(fixture.operator.task(&id).await["output"], edit);

    let item = fixture.item(&id).await;
    assert_eq!((&item["output"], &item["summary"]), (&json!("original"), &json!("original")));
    let decision = &item["decision"];
    let kept = (&decision["wasModified"], &decision["modifiedOutput"], &decision["comment"]);
    assert_eq!(kept, (&json!(true), &json!(edit), &json!("typo")));
    let history = fixture.history(&id).await;
    assert_eq!(actions(&history), ["pending", "assigned", "approved"]);
    let entry = &history[2];
    let told =
        (&entry["wasModified"], &entry["modifiedOutput"], &entry["editHash"], &entry["outputHash"]);
    let expected = (
        &json!(true),
        &json!(edit),
        &json!(committed(entry, edit)),
        &json!(committed(entry, "original")),
    );
    assert_eq!(told, expected);
}

#[tokio::test]
async fn the_same_text_is_no_edit_and_an_empty_one_is() {
    let fixture = Fixture::open().await;
    for (given, modified, output) in [
        (json!({"modifiedOutput": "draft"}), false, "draft"),
        (json!({"modifiedOutput": null}), false, "draft"),
        (json!({"modifiedOutput": ""}), true, ""),
        (json!({"modifiedOutput": "draft "}), true, "draft "),
    ] {
        let id = fixture.required("draft").await;
        let answer = fixture.approve(&id, &given).await.expect_ok();
        assert_eq!(answer["wasModified"], modified, "{given}");
        assert_eq!(fixture.operator.task(&id).await["output"], output, "{given}");
        let entry = fixture.history(&id).await.pop().expect("it was approved");
        let told = (entry["wasModified"].as_bool(), entry.get("editHash").is_some());
        assert_eq!(told, (Some(modified), modified), "{given}");
    }
}

/// A template whose last step is held and must give an object with a number.
fn template() -> Value {
    json!({
        "name": "Counted", "version": "1.0.0", "industry": "custom",
        "inputSchema": {"type": "object"},
        "outputSchema": {
            "type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}},
        },
        "steps": [
            {"id": "draft", "prompt": "anything", "requiresApproval": true},
            {"id": "count", "prompt": "{\"n\": 1}", "dependsOn": ["draft"], "requiresApproval": true},
        ],
    })
}

#[tokio::test]
async fn an_edit_of_the_last_step_must_be_what_the_template_asks_for() {
    let fixture = Fixture::open().await;
    fixture.operator.post("/api/templates", &template()).await.expect(201);
    let deployed =
        fixture.operator.post("/api/templates/counted-v1/deploy", &json!({"input": {}})).await;
    let deployed = deployed.expect(201);
    let execution = deployed["id"].as_str().expect("an id");
    let draft = fixture.waiting(execution, "draft").await;
    fixture.approve(&draft, &json!({"modifiedOutput": "no JSON at all"})).await.expect_ok();
    let count = fixture.waiting(execution, "count").await;
    for edit in ["no JSON at all", "{}", "{\"n\": \"1\"}", "{\"n\": 1.5}", ""] {
        let answer = fixture.approve(&count, &json!({"modifiedOutput": edit})).await;
        assert_eq!(answer.fault(), ("modifiedOutput".into(), "format".into()), "{edit}");
    }
    assert_eq!(fixture.actions(&count).await, ["pending", "assigned"], "a refusal changes nothing");
    fixture.approve(&count, &json!({"modifiedOutput": "{\"n\": 2}"})).await.expect_ok();
    let ended = fixture.operator.execution_with_status(execution, "completed").await;
    assert_eq!(ended["steps"]["count"]["output"], "{\"n\": 2}");
    // A late reviewer hears that first, with any edit.
    let late = fixture.approve(&count, &json!({"modifiedOutput": "no JSON at all"})).await;
    assert_eq!(late.refused(409), "ALREADY_DECIDED");
}
