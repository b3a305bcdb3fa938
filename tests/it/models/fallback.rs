//! Fallback after an answer, whose fault lies in its shape or its length.

use serde_json::{Value, json};

use crate::support::{FakeWorker, Server};

const PRICES: &str = r#"{
    "short": {"input_cost_per_token": 1.0, "output_cost_per_token": 1.0, "max_output_tokens": 100},
    "long": {"input_cost_per_token": 10.0, "output_cost_per_token": 10.0, "max_output_tokens": 1000}
}"#;

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("prices.json");
    std::fs::write(&file, PRICES).expect("it can be written");
    let file = file.to_str().expect("a path of characters");
    (Server::with(&[("MODELS__PRICES", file)]), dir)
}

/// A task whose answer is an object with a number.
fn asked() -> Value {
    json!({
        "prompt": "p", "models": ["short", "long"], "fallbackOn": ["output_invalid", "unavailable"],
        "outputSchema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}},
    })
}

impl FakeWorker {
    async fn answers(&mut self, model: &str, output: &str, finish_reason: &str) -> Value {
        let assigned = self.assignment().await;
        assert_eq!(assigned["task"]["model"], model, "{assigned}");
        let usage = json!({"input": 2, "output": 1});
        self.send(json!({
            "type": "complete", "lease": assigned["lease"], "output": output, "usage": usage,
            "finishReason": finish_reason,
        }))
        .await;
        assigned
    }
}

#[tokio::test]
async fn max_cost_reserves_every_model_that_may_answer() {
    let (server, _prices) = server();
    let client = server.client("operator").await;
    // The longest answers cost 1,000 and 10,000, and the prompts a little more.
    let plan = async |fallback_on: Value| {
        let mut step = asked();
        (step["id"], step["maxTokens"], step["fallbackOn"]) =
            ("only".into(), 1_000.into(), fallback_on);
        client.plan(&json!([step])).await
    };
    let run = async |plan: &str, max_cost: u64| {
        let body = json!({"options": {"maxCost": max_cost}});
        client.post(&format!("/api/plans/{plan}/execute"), &body).await
    };
    let all_answer = plan(json!(["output_invalid"])).await;
    assert_eq!(run(&all_answer, 11_000).await.refused(403), "BUDGET_EXCEEDED");
    let dry = json!({"options": {"maxCost": 11_000, "dryRun": true}});
    let dry = client.post(&format!("/api/plans/{all_answer}/execute"), &dry).await.expect_ok();
    assert_eq!(dry["budget"]["fits"], false, "{dry}");
    let one_answers = plan(json!(["unavailable"])).await;
    assert_eq!(run(&one_answers, 10_000).await.refused(403), "BUDGET_EXCEEDED");
    run(&one_answers, 11_000).await.expect(201);
    run(&all_answer, 12_000).await.expect(201);
}

#[tokio::test]
async fn an_answer_that_misses_its_schema_goes_on_to_the_next_model_and_both_are_paid_for() {
    let (server, _prices) = server();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 5).await;
    let id = client.submit(&asked()).await;
    worker.answers("short", r#"{"n": "one"}"#, "stop").await;
    let second = worker.answers("long", r#"{"n": 1}"#, "stop").await;
    assert_eq!(second["task"]["prompt"], "p", "the next model is asked the same");
    let task = client.task_with_status(&id, "completed").await;
    assert_eq!(task["output"], r#"{"n": 1}"#);
    let (used, reason) = (&task["modelUsed"], &task["fallbackReason"]);
    assert_eq!((used, reason), (&json!("long"), &json!("output_invalid")), "{task}");
    assert_eq!((&task["usage"]["total"], &task["usage"]["totalCost"]), (&json!(6), &json!(33.0)));

    // As a step of a plan it has the same models, and the step's cost is that of both calls.
    let mut step = asked();
    step["id"] = "only".into();
    let plan = client.plan(&json!([step])).await;
    let execution = client.execute(&plan, &json!({})).await;
    worker.answers("short", "no JSON", "stop").await;
    worker.answers("long", r#"{"n": 2}"#, "stop").await;
    let execution = client.execution_with_status(&execution, "completed").await;
    let step = &execution["steps"]["only"];
    let (used, reason) = (&step["modelUsed"], &step["fallbackReason"]);
    assert_eq!((used, reason), (&json!("long"), &json!("output_invalid")), "{step}");
    assert_eq!(execution["usage"]["totalCost"], 33.0, "{execution}");
}
