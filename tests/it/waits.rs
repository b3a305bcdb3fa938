//! Wait steps and their signals.

use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

async fn begun(client: &Client, steps: &Value) -> String {
    let plan = client.plan(steps).await;
    let begun = client.post(&format!("/api/plans/{plan}/execute"), &json!({})).await.expect(201);
    begun["id"].as_str().expect("an id").to_owned()
}

fn steps() -> Value {
    json!([
        {"id": "paid", "type": "wait", "signal": "payment", "timeoutMs": 3_600_000,
         "schema": {"type": "object", "required": ["by"]}},
        {"id": "thank", "prompt": "Thank {{paid.output.by}}", "dependsOn": ["paid"]},
    ])
}

#[tokio::test]
async fn a_wait_is_shown_and_its_signal_is_its_output() {
    let server = Server::start();
    let client = server.client("operator").await;
    let plan = client.plan(&steps()).await;
    let shown = client.get(&format!("/api/plans/{plan}")).await.expect_ok();
    let wait = &shown["steps"][0];
    assert_eq!((&wait["type"], &wait["signal"]), (&json!("wait"), &json!("payment")), "{wait:#}");
    assert!(wait.get("prompt").is_none() && wait["schema"]["required"][0] == "by", "{wait:#}");
    assert!(shown["steps"][1].get("type").is_none());
    let dry = json!({"options": {"dryRun": true}});
    let dry = client.post(&format!("/api/plans/{plan}/execute"), &dry).await.expect_ok();
    assert_eq!(
        (&dry["steps"][0]["type"], &dry["steps"][0]["signal"]),
        (&json!("wait"), &json!("payment"))
    );
    assert_eq!(
        (&dry["steps"][0]["model"], &dry["steps"][0]["estimatedCost"]),
        (&json!(""), &json!(0.0))
    );

    let begun = client.post(&format!("/api/plans/{plan}/execute"), &json!({})).await.expect(201);
    let id = begun["id"].as_str().expect("an id");
    let waiting = client.get(&format!("/api/plans/executions/{id}")).await.expect_ok();
    let step = &waiting["steps"]["paid"];
    assert_eq!((&step["status"], &step["waitingFor"]), (&json!("pending"), &json!("signal")));
    assert!(step["waitingUntil"].is_string() && step["startedAt"].is_string(), "{step:#}");

    let path = format!("/api/plans/executions/{id}/signals/payment");
    let wrong = client.post(&path, &json!({"payload": {}})).await;
    assert_eq!(wrong.refused(400), "VALIDATION_ERROR");
    assert_eq!(wrong.body["error"]["details"]["field"], "payload.by", "{}", wrong.body);
    let sent = client.post(&path, &json!({"payload": {"by": "ann"}})).await.expect_ok();
    assert_eq!(sent["status"], "running");
    let again = client.post(&path, &json!({"payload": {"by": "bob"}, "replace": true})).await;
    assert_eq!(again.refused(409), "INVALID_STATE");

    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    worker.run(|task| Ok(task["prompt"].as_str().unwrap_or_default().to_owned()));
    let done = client.execution_with_status(id, "completed").await;
    assert_eq!(done["steps"]["paid"]["output"], r#"{"by":"ann"}"#);
    assert_eq!(done["steps"]["thank"]["output"], "Thank ann");
    assert!(done["steps"]["paid"]["signalledAt"].is_string());
}

#[tokio::test]
async fn what_makes_no_sense_at_a_wait_is_refused_with_its_field() {
    let server = Server::start();
    let client = server.client("operator").await;
    for (step, field, rule) in [
        (json!({"id": "a", "type": "wait"}), "steps[0].signal", "required"),
        (json!({"id": "a", "type": "wait", "signal": "a/b"}), "steps[0].signal", "pattern"),
        (
            json!({"id": "a", "type": "wait", "signal": "s", "prompt": "p"}),
            "steps[0].prompt",
            "unknown",
        ),
        (
            json!({"id": "a", "type": "wait", "signal": "s", "model": "m"}),
            "steps[0].model",
            "unknown",
        ),
        (
            json!({"id": "a", "type": "wait", "signal": "s", "timeoutMs": 0}),
            "steps[0].timeoutMs",
            "range",
        ),
        (json!({"id": "a", "type": "wait", "signal": "s", "schema": 5}), "steps[0].schema", "type"),
        (json!({"id": "a", "type": "sleep", "prompt": "p"}), "steps[0].type", "enum"),
        (json!({"id": "a", "prompt": "p", "signal": "s"}), "steps[0].signal", "unknown"),
        (json!({"id": "a"}), "steps[0].prompt", "required"),
    ] {
        let refused = client.post("/api/plans", &json!({"name": "n", "steps": [step]})).await;
        assert_eq!(refused.refused(400), "VALIDATION_ERROR", "{step}");
        let details = &refused.body["error"]["details"];
        assert_eq!((&details["field"], &details["rule"]), (&json!(field), &json!(rule)), "{step}");
    }
    let id = begun(&client, &steps()).await;
    let path = format!("/api/plans/executions/{id}/signals");
    assert_eq!(client.post(&format!("{path}/other"), &json!({})).await.refused(404), "NOT_FOUND");
    let unknown = client.post("/api/plans/executions/dt_exec_x/signals/a", &json!({})).await;
    assert_eq!(unknown.refused(404), "NOT_FOUND");
    let long = json!({"payload": "x".repeat(300_000)});
    let long = client.post(&format!("{path}/payment"), &long).await;
    assert_eq!(
        (long.refused(400), &long.body["error"]["details"]["rule"]),
        ("VALIDATION_ERROR", &json!("length"))
    );
    let viewer = server.client("viewer").await;
    assert_eq!(viewer.post(&format!("{path}/payment"), &json!({})).await.refused(403), "FORBIDDEN");
}

#[tokio::test]
async fn killed_at_any_time_a_signal_that_was_acknowledged_is_there() {
    let mut server = Server::start();
    let key = server.key("operator").await;
    let client = Client::new(&server.url, &key);
    let steps = json!([
        {"id": "a", "type": "wait", "signal": "one"},
        {"id": "b", "type": "wait", "signal": "two", "dependsOn": ["a"]},
    ]);
    let plan = client.plan(&steps).await;
    let mut executions = Vec::new();
    for _ in 0..60 {
        let begun =
            client.post(&format!("/api/plans/{plan}/execute"), &json!({})).await.expect(201);
        executions.push(begun["id"].as_str().expect("an id").to_owned());
    }
    // Every second one hears of `two` before it waits for it.
    for (round, signals) in [["two", "one"], ["one", "two"]].into_iter().enumerate() {
        for (index, id) in executions.iter().enumerate() {
            let client = Client::new(&server.url, &key);
            let name = signals[index % 2];
            let path = format!("/api/plans/executions/{id}/signals/{name}");
            client.post(&path, &json!({"payload": format!("{name} {index}")})).await.expect_ok();
            if index % 20 == 10 {
                server.kill();
                server.restart();
            }
        }
        assert!(round < 2);
    }
    let client = Client::new(&server.url, &key);
    for (index, id) in executions.iter().enumerate() {
        let done = client.execution_with_status(id, "completed").await;
        assert_eq!(done["steps"]["a"]["output"], format!("one {index}"), "{done:#}");
        assert_eq!(done["steps"]["b"]["output"], format!("two {index}"), "{done:#}");
    }
}
