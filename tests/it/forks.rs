//! Forks of executions.

use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

/// The prompts that a worker was asked, which it answers with `out of <prompt>`.
type Asked = Arc<Mutex<Vec<String>>>;

async fn work(server: &Server, key: &str) -> Asked {
    let asked = Asked::default();
    let worker = FakeWorker::connect(server, key, 4).await;
    let heard = Arc::clone(&asked);
    worker.run(move |task| {
        let prompt = task["prompt"].as_str().unwrap_or_default().to_owned();
        heard.lock().expect("no panic").push(prompt.clone());
        Ok(format!("out of {prompt}"))
    });
    asked
}

fn taken(asked: &Asked) -> Vec<String> {
    std::mem::take(&mut asked.lock().expect("no panic"))
}

async fn fork(client: &Client, id: &str, body: &Value) -> Value {
    client.post(&format!("/api/plans/executions/{id}/fork"), body).await.expect(201)
}

async fn pause(client: &Client, paused: bool) {
    let request = client.request(Method::PATCH, "/api/queues/default");
    client.send(request.json(&json!({"paused": paused}))).await.expect_ok();
}

fn id(of: &Value) -> &str {
    of["id"].as_str().expect("an id")
}

#[tokio::test]
async fn a_fork_takes_over_what_asks_the_same_and_says_so_before() {
    let mut server = Server::start();
    let (client, key) = (server.client("operator").await, server.key("worker").await);
    let plan = client
        .plan(&json!([
            {"id": "a", "prompt": "a {{input.x}}"},
            {"id": "b", "prompt": "b {{a.output}} {{input.y}}", "dependsOn": ["a"]},
            {"id": "c", "prompt": "c {{b.output}}", "dependsOn": ["b"]},
        ]))
        .await;
    let asked = work(&server, &key).await;
    let first = client.execute(&plan, &json!({"input": {"x": "1", "y": "2"}})).await;
    let first_done = client.execution_with_status(&first, "completed").await;
    assert_eq!(taken(&asked).len(), 3);

    // Nothing differs: all of it is there at once.
    let same = fork(&client, &first, &json!({})).await;
    assert_eq!(same["forkedFrom"], json!({"executionId": first}));
    let same = client.execution_with_status(id(&same), "completed").await;
    for step in ["a", "b", "c"] {
        let (of, then) = (&same["steps"][step], &first_done["steps"][step]);
        assert_eq!((&of["output"], &of["reusedFrom"]), (&then["output"], &then["taskId"]));
        assert!(of.get("usage").is_none() && of["taskId"] != then["taskId"], "{of:#}");
        let copy = client.task(of["taskId"].as_str().expect("an id")).await;
        assert_eq!((&copy["status"], &copy["output"]), (&json!("completed"), &then["output"]));
        assert_eq!(copy["reusedFrom"], then["taskId"]);
    }
    assert_eq!(taken(&asked), Vec::<String>::new());

    // The step that is named runs anew, and what depends on it only if its output is another one.
    let from_b = fork(&client, &first, &json!({"fromStep": "b"})).await;
    let from_b = client.execution_with_status(id(&from_b), "completed").await;
    assert_eq!(taken(&asked), ["b out of a 1 2"]);
    assert!(from_b["steps"]["b"].get("reusedFrom").is_none(), "{from_b:#}");
    assert_eq!(from_b["steps"]["c"]["reusedFrom"], first_done["steps"]["c"]["taskId"]);

    // Another input changes the prompts of b and c; the preview says so and costs less.
    let change = json!({"input": {"x": "1", "y": "3"}});
    let path = format!("/api/plans/executions/{first}/fork");
    let dry = json!({"input": change["input"], "dryRun": true});
    let preview = client.post(&path, &dry).await.expect_ok();
    let reused: Vec<_> =
        preview["steps"].as_array().expect("steps").iter().map(|step| &step["reused"]).collect();
    assert_eq!(reused, [&json!(true), &Value::Null, &Value::Null], "{preview:#}");
    assert_eq!((&preview["status"], &preview["forkOf"]), (&json!("dry_run"), &json!(first)));
    assert_eq!(taken(&asked), Vec::<String>::new());
    // A step that the first worker held at the kill would wait for its lease to end.
    pause(&client, true).await;
    let other = client.post_once(&path, "k", &change).await.expect(201);
    let again = client.post_once(&path, "k", &change).await.expect(201);
    assert_eq!(other["id"], again["id"]);
    server.kill();
    server.restart();
    let client = client.at(&server.url);
    let asked_after = work(&server, &key).await;
    pause(&client, false).await;
    let other = client.execution_with_status(id(&other), "completed").await;
    let all: Vec<_> = taken(&asked).into_iter().chain(taken(&asked_after)).collect();
    assert!(!all.iter().any(|prompt| prompt == "a 1"), "{all:?}");
    assert_eq!(other["steps"]["c"]["output"], "out of c out of b out of a 1 3");
    assert_eq!(other["steps"]["a"]["reusedFrom"], first_done["steps"]["a"]["taskId"]);
}

#[tokio::test]
async fn the_preview_of_a_fork_counts_the_length_of_its_new_input() {
    let server = Server::start();
    let (client, key) = (server.client("operator").await, server.key("worker").await);
    let plan = client
        .plan(&json!([
            {"id": "a", "prompt": "a {{input.x}}", "model": "gpt-4o-mini", "maxTokens": 10},
            {"id": "b", "prompt": "b {{a.output}} {{input.y}}", "model": "gpt-4o-mini",
             "maxTokens": 10, "dependsOn": ["a"]},
        ]))
        .await;
    work(&server, &key).await;
    let first = client.execute(&plan, &json!({"input": {"x": "1", "y": "2"}})).await;
    client.execution_with_status(&first, "completed").await;
    let path = format!("/api/plans/executions/{first}/fork");
    let cost = async |y: &str| {
        let dry = json!({"input": {"x": "1", "y": y}, "dryRun": true});
        let run = client.post(&path, &dry).await.expect_ok();
        let (steps, estimate) = (&run["steps"], &run["estimate"]);
        assert_eq!((&steps[0]["reused"], &estimate["basis"]), (&json!(true), &json!("history")));
        let figure = |figure: &Value| figure.as_f64().expect("a figure");
        assert_eq!(steps[0]["estimatedCost"], 0.0);
        (figure(&steps[1]["estimatedCost"]), figure(&estimate["costHigh"]))
    };
    let (usual, usual_high) = cost("3").await;
    let (long, long_high) = cost(&"word ".repeat(80_000)).await;
    // 100,000 estimated tokens at 0.15 USD a million; the worker counted three for each four before.
    assert!(usual > 0.0 && (long - usual - 0.75 * 0.015).abs() < 0.000_1, "{usual} {long}");
    assert!((long_high - usual_high - 0.015).abs() < 0.000_1, "{usual_high} {long_high}");
    // What a fork took over is no past run.
    let same = fork(&client, &first, &json!({})).await;
    client.execution_with_status(id(&same), "completed").await;
    let later = cost("3").await.0;
    assert!((later - usual).abs() < 1e-9, "{usual} {later}");
}

#[tokio::test]
async fn an_approval_carries_over_with_the_same_prompt_and_gate_only() {
    let server = Server::start();
    let (client, key) = (server.client("operator").await, server.key("worker").await);
    let plan = client
        .plan(&json!([{"id": "a", "prompt": "a {{input.x}}", "requiresApproval": true}]))
        .await;
    let asked = work(&server, &key).await;
    let first = client.execute(&plan, &json!({"input": {"x": "1"}})).await;
    let is_held = |execution: &Value| execution["steps"]["a"]["awaitingApproval"] == true;
    let held = client.execution_when(&first, is_held).await;
    let task = held["steps"]["a"]["taskId"].as_str().expect("an id");
    let approve = json!({"modifiedOutput": "better"});
    client.post(&format!("/api/hitl/{task}/approve"), &approve).await.expect_ok();
    client.execution_with_status(&first, "completed").await;
    taken(&asked);

    let same = fork(&client, &first, &json!({})).await;
    let same = client.execution_with_status(id(&same), "completed").await;
    assert_eq!(same["steps"]["a"]["output"], "better");
    assert_eq!(taken(&asked), Vec::<String>::new());
    let other = fork(&client, &first, &json!({"input": {"x": "2"}})).await;
    client.execution_when(id(&other), is_held).await;
    assert_eq!(taken(&asked), ["a 2"]);
}

#[tokio::test]
async fn items_and_signals_are_taken_over_one_by_one() {
    let server = Server::start();
    let (client, key) = (server.client("operator").await, server.key("worker").await);
    let plan = client
        .plan(&json!([
            {"id": "go", "type": "wait", "signal": "go"},
            {"id": "each", "prompt": "{{item}} after {{go.output}}", "dependsOn": ["go"],
             "forEach": "{{input.docs}}", "maxItems": 10},
        ]))
        .await;
    let asked = work(&server, &key).await;
    let first = client.execute(&plan, &json!({"input": {"docs": ["p", "q", "r"]}})).await;
    let signal = format!("/api/plans/executions/{first}/signals/go");
    client.post(&signal, &json!({"payload": "yes"})).await.expect_ok();
    client.execution_with_status(&first, "completed").await;
    assert_eq!(taken(&asked).len(), 3);
    let other = fork(&client, &first, &json!({"input": {"docs": ["p", "s", "r"]}})).await;
    let other = client.execution_with_status(id(&other), "completed").await;
    assert_eq!(taken(&asked), ["s after yes"]);
    assert_eq!(
        other["steps"]["each"]["output"],
        r#"["out of p after yes","out of s after yes","out of r after yes"]"#
    );
}

#[tokio::test]
async fn a_fork_by_version_runs_what_the_version_changed() {
    let server = Server::start();
    let (client, key) = (server.client("operator").await, server.key("worker").await);
    let template = |version: &str, last: &str| {
        json!({
            "name": "Versions", "version": version, "industry": "custom",
            "inputSchema": {
                "type": "object", "required": ["x"], "properties": {"x": {"type": "string"}},
            },
            "steps": [
                {"id": "a", "prompt": "a {{input.x}}"},
                {"id": "b", "prompt": last, "dependsOn": ["a"]},
            ],
        })
    };
    let made =
        client.post("/api/templates", &template("1.0.0", "b {{a.output}}")).await.expect(201);
    let path = format!("/api/templates/{}/deploy", id(&made));
    let asked = work(&server, &key).await;
    let first = client.post(&path, &json!({"input": {"x": "1"}})).await.expect(201);
    client.execution_with_status(id(&first), "completed").await;
    assert_eq!(taken(&asked), ["a 1", "b out of a 1"]);

    client.post("/api/templates", &template("1.1.0", "better {{a.output}}")).await.expect(201);
    let body = json!({"version": "1.1.0"});
    let mut dry = body.clone();
    dry["dryRun"] = true.into();
    let fork_path = format!("/api/plans/executions/{}/fork", id(&first));
    let run = client.post(&fork_path, &dry).await.expect(200);
    let reused: Vec<_> =
        run["steps"].as_array().expect("steps").iter().map(|step| &step["reused"]).collect();
    assert_eq!(reused, [&json!(true), &Value::Null], "{run}");
    let forked = fork(&client, id(&first), &body).await;
    let done = client.execution_with_status(id(&forked), "completed").await;
    assert_eq!(taken(&asked), ["better out of a 1"]);
    assert_eq!(done["steps"]["b"]["output"], "out of better out of a 1");
    let path = format!("/api/plans/{}", done["planId"].as_str().expect("a plan"));
    let plan = client.get(&path).await.expect_ok();
    assert_eq!(plan["templateVersion"], "1.1.0", "{plan}");

    // The version's schema holds for the input, and a version must exist.
    let no_input = client.post(&fork_path, &json!({"version": "1.1.0", "input": {}})).await;
    assert_eq!(no_input.fault().0, "input.x");
    let unknown = client.post(&fork_path, &json!({"version": "9.0.0"})).await;
    assert_eq!(unknown.refused(404), "NOT_FOUND");
}

#[tokio::test]
async fn a_fork_that_makes_no_sense_is_refused_with_its_field() {
    let server = Server::start();
    let client = server.client("operator").await;
    let plan = client.plan(&json!([{"id": "a", "prompt": "a"}])).await;
    let execution = client.execute(&plan, &json!({})).await;
    let path = format!("/api/plans/executions/{execution}/fork");
    for (body, field, rule) in [
        (json!({"fromStep": "z"}), "fromStep", "step"),
        (json!({"version": "1.0.0"}), "version", "unknown"),
        (json!({"more": 1}), "more", "unknown"),
    ] {
        let refused = client.post(&path, &body).await;
        assert_eq!(refused.fault(), (field.into(), rule.into()), "{body}");
    }
    let viewer = server.client("viewer").await;
    assert_eq!(viewer.post(&path, &json!({})).await.refused(403), "FORBIDDEN");
    let missing = "/api/plans/executions/dt_exec_01kahj9d2z4x0v5y8m3n7r6q4e/fork";
    assert_eq!(client.post(missing, &json!({})).await.refused(404), "NOT_FOUND");
}
