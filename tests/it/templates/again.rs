//! A plan that a deploy made is executed again: its schema and its gates hold as at the deploy.

use serde_json::{Value, json};

use super::{template, user};
use crate::support::{Client, FakeWorker, Server};

/// A template whose step `say` is always held.
fn gated() -> Value {
    let mut gated = template("Say it", "1.0.0");
    gated["hitl"] =
        json!({"requiredFor": ["say"], "confidenceThreshold": 0.6, "timeoutMs": 60_000});
    gated
}

/// The plan of a fresh deploy.
async fn deployed(client: &Client, hitl: Value) -> String {
    let body = json!({"input": {"what": "x"}, "hitl": hitl});
    let begun = client.post("/api/templates/say-it-v1/deploy", &body).await.expect(201);
    begun["planId"].as_str().expect("an id").to_owned()
}

/// The gates of the two steps in a dry run with this `hitl`.
async fn gates(client: &Client, path: &str, hitl: Value) -> [String; 2] {
    let body = json!({"input": {"what": "x"}, "hitl": hitl, "options": {"dryRun": true}});
    let run = client.post(path, &body).await.expect_ok();
    [0, 1].map(|step| run["steps"][step]["gate"].as_str().expect("a gate").to_owned())
}

#[tokio::test]
async fn a_deployed_plan_keeps_its_input_schema_and_its_gates() {
    let mut server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    ada.post("/api/templates", &gated()).await.expect(201);
    let plan = deployed(&ada, Value::Null).await;
    let shown = ada.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(shown["inputSchema"], gated()["inputSchema"]);
    assert_eq!(shown["hitl"], gated()["hitl"]);
    let listed = ada.get("/api/plans").await.expect_ok();
    assert!(listed[0].get("inputSchema").is_none() && listed[0].get("hitl").is_none());

    server.kill();
    server.restart();
    let ada = ada.at(&server.url);
    let path = format!("/api/plans/{plan}/execute");
    let fault = |field: &str, rule: &str| (field.to_owned(), rule.to_owned());
    let answer = ada.post(&path, &json!({"input": {}})).await;
    assert_eq!(answer.fault(), fault("input.what", "required"));
    let answer = ada.post(&path, &json!({"input": {"what": "y", "more": 1}})).await;
    assert_eq!(answer.fault(), fault("input.more", "unknown"));
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    worker.run(|task| Ok(task["prompt"].as_str().unwrap_or_default().to_owned()));
    let id = ada.execute(&plan, &json!({"input": {"what": "y"}})).await;
    let waits = |execution: &Value| execution["steps"]["say"]["waitingFor"] == "approval";
    let held = ada.execution_when(&id, waits).await;
    let task = held["steps"]["say"]["taskId"].as_str().expect("an id");
    let item = ada.get(&format!("/api/hitl/{task}")).await.expect_ok();
    assert_eq!((&item["reason"], &item["threshold"]), (&json!("required"), &json!(0.6)));
    ada.post(&format!("/api/hitl/{task}/approve"), &json!({})).await.expect_ok();
    let done = ada.execution_with_status(&id, "completed").await;
    assert_eq!(done["steps"]["say"]["output"], "say y loud", "the default is filled in");
}

#[tokio::test]
async fn a_request_names_only_what_it_replaces_and_may_ask_more_but_never_less() {
    let server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    ada.post("/api/templates", &gated()).await.expect(201);
    // The second one was deployed with a gate more, which is its own from then on.
    let (plan, stricter) = (
        deployed(&ada, Value::Null).await,
        deployed(&ada, json!({"requiredFor": ["say", "again"]})).await,
    );
    let paths = [
        "/api/templates/say-it-v1/deploy".to_owned(),
        format!("/api/plans/{plan}/execute"),
        format!("/api/plans/{stricter}/execute"),
    ];
    let admin = server.admin().await;
    let both = ["always".to_owned(), "always".to_owned()];
    for (path, usual) in paths.iter().zip(["none", "none", "always"]) {
        let usual = ["always".to_owned(), usual.to_owned()];
        for hitl in [
            Value::Null,
            json!({}),
            json!({"timeoutMs": 5}),
            json!({"timeoutMs": 86_400_000, "notifyChannels": ["dashboard"]}),
            json!({"confidenceThreshold": 0.6}),
            json!({"confidenceThreshold": 0.9}),
        ] {
            assert_eq!(gates(&ada, path, hitl.clone()).await, usual, "{path} {hitl}");
        }
        let more = json!({"requiredFor": ["again", "say"]});
        assert_eq!(gates(&ada, path, more).await, both, "{path}");
        for (hitl, named) in [
            (json!({"requiredFor": []}), "hitl.requiredFor"),
            (json!({"requiredFor": ["again"]}), "hitl.requiredFor"),
            (json!({"confidenceThreshold": 0.59}), "hitl.confidenceThreshold"),
        ] {
            for dry in [true, false] {
                let options = json!({"dryRun": dry});
                let body = json!({"input": {"what": "x"}, "hitl": hitl, "options": options});
                let answer = ada.post(path, &body).await;
                assert_eq!(answer.refused(403), "FORBIDDEN", "{path} {hitl}");
                let message = answer.body["error"]["message"].as_str().expect("a text");
                assert!(message.starts_with(named), "{message}");
            }
        }
        let less = json!({"requiredFor": [], "confidenceThreshold": 0.1});
        assert_eq!(gates(&admin, path, less).await, ["threshold", "threshold"], "{path}");
    }
    let answer = ada.post(&paths[2], &json!({"hitl": {"requiredFor": ["say"]}})).await;
    assert_eq!(answer.refused(403), "FORBIDDEN", "the plan was deployed with more");
}

#[tokio::test]
async fn a_list_may_not_let_pass_what_a_threshold_holds() {
    let server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    let mut threshold = template("Say it", "1.0.0");
    threshold["hitl"] = json!({"confidenceThreshold": 0.6});
    ada.post("/api/templates", &threshold).await.expect(201);
    let path = "/api/templates/say-it-v1/deploy";
    let usual = ["threshold", "threshold"].map(str::to_owned);
    assert_eq!(gates(&ada, path, json!({"requiredFor": []})).await, usual);
    // With a list only the listed steps are held: `again` would pass at any confidence.
    let body = json!({"input": {"what": "x"}, "hitl": {"requiredFor": ["say"]}});
    let answer = ada.post(path, &body).await;
    assert_eq!(answer.refused(403), "FORBIDDEN");
    let message = answer.body["error"]["message"].as_str().expect("a text");
    assert!(message.contains("step again"), "{message}");
    let both = ["always", "always"].map(str::to_owned);
    assert_eq!(gates(&ada, path, json!({"requiredFor": ["say", "again"]})).await, both);
}

#[tokio::test]
async fn an_absent_body_is_an_empty_one() {
    let server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    let mut open = template("Say it", "1.0.0");
    open["inputSchema"] = json!({"type": "object"});
    open["steps"] = json!([{"id": "say", "prompt": "x", "requiresApproval": true}]);
    ada.post("/api/templates", &open).await.expect(201);
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 8).await;
    worker.run(|_| Ok("fine".to_owned()));
    let plan = ada.plan(&json!([{"id": "a", "prompt": "x"}])).await;
    for content_type in [None, Some("application/json"), Some("text/plain")] {
        let post = async |path: &str| {
            let request = ada.request(reqwest::Method::POST, path);
            let request = match content_type {
                Some(content_type) => request.header("content-type", content_type),
                None => request,
            };
            ada.send(request).await
        };
        post(&format!("/api/plans/{plan}/execute")).await.expect(201);
        let begun = post("/api/templates/say-it-v1/deploy").await.expect(201);
        let waits = |execution: &Value| execution["steps"]["say"]["waitingFor"] == "approval";
        let held = ada.execution_when(begun["id"].as_str().expect("an id"), waits).await;
        let task = held["steps"]["say"]["taskId"].as_str().expect("an id");
        post(&format!("/api/hitl/{task}/approve")).await.expect_ok();
    }
}
