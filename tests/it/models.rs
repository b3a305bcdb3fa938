//! Limits of models, closures after a 429, fallback and service tiers, over HTTP and worker frames.

mod fallback;
mod provider;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Client, FakeWorker, Server, until};

impl Client {
    async fn limit(&self, model: &str, limits: &Value) -> Answer {
        let path = format!("/api/models/{model}/limits");
        self.send(self.request(Method::PUT, &path).json(limits)).await
    }

    async fn model(&self, name: &str) -> Value {
        let models = self.get("/api/models?limit=100").await.expect_ok();
        let models = models.as_array().cloned().expect("a list");
        models.into_iter().find(|model| model["name"] == name).unwrap_or_default()
    }
}

impl FakeWorker {
    async fn is_refused(&mut self, lease: &Value, retry_after_ms: u64) {
        let error = json!({"code": "PROVIDER_RATE_LIMITED", "message": "429"});
        self.send(json!({
            "type": "fail", "lease": lease, "error": error, "retryable": true,
            "retryAfterMs": retry_after_ms,
        }))
        .await;
        assert_eq!(self.receive("ack").await["result"], "applied");
    }
}

#[tokio::test]
async fn an_admin_sets_limits_and_others_read_them() {
    let server = Server::start();
    let (admin, viewer) = (server.client("admin").await, server.client("viewer").await);
    let limits = json!({"requestsPerMinute": 60, "tokensPerMinute": 10_000});
    let set = admin.limit("openai%2Fgpt-4.1", &limits).await.expect_ok();
    assert_eq!((&set["name"], &set["limits"]), (&json!("openai/gpt-4.1"), &limits));
    assert!(set["price"]["input"].as_f64().is_some_and(|price| price > 0.0), "{set}");
    assert_eq!(viewer.model("openai/gpt-4.1").await["limits"], limits);
    assert!(viewer.model("smollm2-135m").await.is_object(), "the default model is listed");
    viewer.limit("m", &limits).await.refused(403);
    // All limits are replaced at once.
    let set = admin.limit("openai%2Fgpt-4.1", &json!({"concurrent": 2})).await.expect_ok();
    assert_eq!(set["limits"], json!({"concurrent": 2}));
    let audit = admin.get("/api/audit?action=model.limits_set").await.expect_ok();
    let details = &audit[0]["details"];
    assert_eq!(
        (&details["concurrent"], &details["requestsPerMinute"]),
        (&json!("2"), &json!("unlimited"))
    );
    for (limits, field, rule) in [
        (json!({"requestsPerMinute": 0}), "requestsPerMinute", "range"),
        (json!({"concurrent": "2"}), "concurrent", "type"),
        (json!({"perMinute": 2}), "perMinute", "unknown"),
    ] {
        let refused = admin.limit("m", &limits).await;
        assert_eq!(refused.fault(), (field.to_owned(), rule.to_owned()));
    }
    let long = "x".repeat(129);
    assert_eq!(admin.limit(&long, &json!({})).await.fault(), ("name".into(), "length".into()));
}

#[tokio::test]
async fn settings_limit_a_model_until_an_admin_does() {
    let mut server = Server::with(&[("MODELS_LIMITS_M__CONCURRENT", "1")]);
    let client = server.client("admin").await;
    assert_eq!(client.model("m").await["limits"], json!({"concurrent": 1}));
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 5).await;
    let task = json!({"prompt": "p", "model": "m"});
    client.submit(&task).await;
    let lease = worker.assignment().await["lease"].clone();
    let second = client.submit(&task).await;
    until("the second waits", async || client.task(&second).await["waitingFor"] == "limit").await;
    // Another model of the same queue goes on.
    let other = client.submit(&json!({"prompt": "p", "model": "n"})).await;
    assert_eq!(worker.assignment().await["task"]["id"], other.as_str());
    // The call is over before its result is durable: the next task may come before the acknowledgement.
    let usage = json!({"input": 1, "output": 1});
    worker.send(json!({"type": "complete", "lease": lease, "output": "x", "usage": usage})).await;
    assert_eq!(worker.assignment().await["task"]["id"], second.as_str());
    client.limit("m", &json!({})).await.expect_ok();
    server.kill();
    server.restart();
    let client = client.at(&server.url);
    assert_eq!(client.model("m").await["limits"], json!({}), "what an admin set is kept");
}

#[tokio::test]
async fn a_429_of_a_judge_closes_its_model_and_the_answer_counts() {
    let server = Server::start();
    let client = server.client("admin").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 5).await;
    let confidence = json!({"method": "judge", "judgeModel": "j"});
    let task = json!({"prompt": "p", "model": "m", "confidence": confidence});
    let id = client.submit(&task).await;
    let lease = worker.assignment().await["lease"].clone();
    let usage = json!({"input": 3, "output": 5, "calls": 1});
    let complete = json!({
        "type": "complete", "lease": lease, "output": "x", "usage": usage,
        "judge": {"model": "j", "usage": {"input": 0, "output": 0, "calls": 1}},
        "limited": {"model": "j", "retryAfterMs": 30_000},
    });
    worker.send(complete.clone()).await;
    assert_eq!(worker.receive("ack").await["result"], "applied");
    assert_eq!(client.task(&id).await["status"], "completed");
    assert!(client.model("j").await["closedUntil"].is_string());
    assert!(client.model("m").await["closedUntil"].is_null(), "its own model is open");
    let other = client.submit(&json!({"prompt": "p", "model": "j"})).await;
    until("it waits", async || client.task(&other).await["waitingFor"] == "limit").await;
    // A lease that is over closes nothing.
    let mut late = complete;
    late["limited"]["model"] = json!("n");
    worker.send(late).await;
    assert_eq!(worker.receive("ack").await["result"], "duplicate");
    assert!(client.model("n").await["closedUntil"].is_null());
}

#[tokio::test]
async fn a_failed_call_may_tell_what_it_used() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let id = client.submit(&json!({"prompt": "p", "model": "m"})).await;
    let error = json!({"code": "PROVIDER_ERROR", "message": "cut"});
    let fail = json!({
        "type": "fail", "lease": worker.assignment().await["lease"], "error": error,
        "retryable": false, "usage": {"input": 3, "output": 5, "calls": 1},
    });
    worker.send(fail).await;
    assert_eq!(worker.receive("ack").await["result"], "applied");
    assert_eq!(client.task(&id).await["error"]["code"], "PROVIDER_ERROR");
}

#[tokio::test]
async fn a_429_closes_the_model_for_everybody_and_over_a_crash() {
    let mut server = Server::start();
    let client = server.client("admin").await;
    let key = server.key("worker").await;
    let mut worker = FakeWorker::connect(&server, &key, 5).await;
    let task = json!({"prompt": "p", "model": "m"});
    client.submit(&task).await;
    let lease = worker.assignment().await["lease"].clone();
    worker.is_refused(&lease, 30_000).await;
    let second = client.submit(&task).await;
    let other = client.submit(&json!({"prompt": "p", "model": "n"})).await;
    assert_eq!(worker.assignment().await["task"]["id"], other.as_str());
    let waiting = client.task(&second).await;
    assert_eq!(waiting["waitingFor"], "limit", "{waiting}");
    let until_when = waiting["waitingUntil"].as_str().expect("it says until when").to_owned();
    let closed = client.model("m").await["closedUntil"].clone();
    let near = |closed: &Value, what: &str| {
        let ms = |text: &str| text.parse::<jiff::Timestamp>().expect("an instant").as_millisecond();
        let apart = ms(closed.as_str().expect(what)).abs_diff(ms(&until_when));
        assert!(apart < 1_000, "{what}: {closed}, not {until_when}");
    };
    near(&closed, "the model says the same");
    server.kill();
    server.restart();
    let client = client.at(&server.url);
    near(&client.model("m").await["closedUntil"], "it is closed after the crash");
    assert_eq!(client.task(&second).await["waitingFor"], "limit");
    // An admin's limits leave the closure as it is.
    client.limit("m", &json!({"requestsPerMinute": 5})).await.expect_ok();
    near(&client.model("m").await["closedUntil"], "it is still closed");
}

#[tokio::test]
async fn what_headers_say_is_shown_and_counts() {
    let server = Server::start();
    let client = server.client("admin").await;
    client.limit("m", &json!({"requestsPerMinute": 100})).await.expect_ok();
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 5).await;
    let task = json!({"prompt": "p", "model": "m", "serviceTier": "flex"});
    let id = client.submit(&task).await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned["task"]["serviceTier"], "flex");
    worker
        .send(json!({
            "type": "complete", "lease": assigned["lease"], "output": "x", "serviceTier": "flex",
            "usage": {"input": 100, "output": 5, "cacheRead": 60},
            "limits": {"requests": {"limit": 50, "remaining": 0, "resetMs": 20_000}},
        }))
        .await;
    assert_eq!(worker.receive("ack").await["result"], "applied");
    let task = client.task(&id).await;
    assert_eq!((&task["usage"]["cacheRead"], &task["serviceTier"]), (&json!(60), &json!("flex")));
    assert_eq!(task["modelUsed"], "m");
    let model = client.model("m").await;
    assert_eq!(model["reported"]["requests"], json!({"limit": 50, "remaining": 0}));
    assert_eq!(model["used"]["inputTokens"], 100);
    let next = client.submit(&json!({"prompt": "p", "model": "m"})).await;
    assert_eq!(client.task(&next).await["waitingFor"], "limit");
    worker
        .send(json!({"type": "complete", "lease": assigned["lease"], "output": "x",
        "usage": {"input": 1, "output": 1}, "limits": {"requests": {"limit": -1}}}))
        .await;
    assert_eq!(worker.receive("error").await["error"]["code"], "INVALID_FRAME");
}

#[tokio::test]
async fn a_task_with_a_list_of_models_goes_on_to_the_next_one() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 5).await;
    let id = client.submit(&json!({"prompt": "p", "models": ["a", "b"]})).await;
    let first = worker.assignment().await;
    assert_eq!(first["task"]["model"], "a");
    worker.is_refused(&first["lease"], 60_000).await;
    let second = worker.assignment().await;
    assert_eq!((&second["task"]["model"], &second["attempt"]), (&json!("b"), &json!(1)));
    worker.complete(&second["lease"], "x").await;
    let task = client.task(&id).await;
    assert_eq!((&task["model"], &task["modelUsed"]), (&json!("a"), &json!("b")));
    assert_eq!((&task["fallbackReason"], &task["retryCount"]), (&json!("rate_limited"), &json!(0)));
    assert_eq!(task["models"], json!(["a", "b"]));

    // A refusal of the request itself ends the task at once.
    let id = client.submit(&json!({"prompt": "p", "models": ["c", "b"]})).await;
    let lease = worker.assignment().await["lease"].clone();
    let error = json!({"code": "PROVIDER_ERROR", "message": "400"});
    worker.send(json!({"type": "fail", "lease": lease, "error": error, "retryable": false})).await;
    worker.receive("ack").await;
    let task = client.task(&id).await;
    assert_eq!((&task["status"], &task["modelUsed"]), (&json!("failed"), &json!("c")));
}

#[tokio::test]
async fn steps_and_templates_have_lists_of_models_too() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 5).await;
    let template = json!({
        "name": "Routed", "version": "1.0.0", "industry": "custom",
        "inputSchema": {"type": "object"},
        "defaults": {"models": ["a", "b"], "fallbackOn": ["unavailable"], "serviceTier": "priority"},
        "steps": [{"id": "one", "prompt": "p"}, {"id": "two", "prompt": "p", "model": "c"}],
    });
    let made = client.post("/api/templates", &template).await.expect(201);
    assert_eq!(made["defaults"]["models"], json!(["a", "b"]));
    let path = format!("/api/templates/{}/deploy", made["id"].as_str().expect("an id"));
    let execution = client.post(&path, &json!({"input": {}})).await.expect(201);
    let id = execution["id"].as_str().expect("an id").to_owned();
    for _ in 0..3 {
        // What is acknowledged is passed over: the next task may come before.
        let assigned = worker.assignment().await;
        let (task, lease) = (&assigned["task"], &assigned["lease"]);
        assert_eq!(task["serviceTier"], "priority");
        let answer = if task["model"] == "a" {
            let error = json!({"code": "PROVIDER_ERROR", "message": "503"});
            json!({"type": "fail", "lease": lease, "error": error, "retryable": true})
        } else {
            let expected = if task["stepId"] == "one" { "b" } else { "c" };
            assert_eq!(task["model"], expected);
            let usage = json!({"input": 1, "output": 1});
            json!({"type": "complete", "lease": lease, "output": "x", "usage": usage})
        };
        worker.send(answer).await;
    }
    let execution = client.execution_with_status(&id, "completed").await;
    let step = &execution["steps"]["one"];
    assert_eq!((&step["modelUsed"], &step["fallbackReason"]), (&json!("b"), &json!("unavailable")));
    assert_eq!(execution["steps"]["two"].get("modelUsed"), None);
}

#[tokio::test]
async fn what_does_not_fit_together_is_refused() {
    let server = Server::start();
    let client = server.client("operator").await;
    for (task, field, rule) in [
        (json!({"prompt": "p", "models": ["a"]}), "models", "length"),
        (json!({"prompt": "p", "models": ["a", "b", "c", "d", "e", "f"]}), "models", "length"),
        (json!({"prompt": "p", "models": ["a", "a"]}), "models[1]", "format"),
        (json!({"prompt": "p", "models": ["a", ""]}), "models[1]", "length"),
        (json!({"prompt": "p", "model": "a", "models": ["a", "b"]}), "models", "format"),
        (json!({"prompt": "p", "fallbackOn": ["refused"]}), "fallbackOn[0]", "enum"),
        (json!({"prompt": "p", "serviceTier": "fast"}), "serviceTier", "enum"),
    ] {
        let refused = client.post("/api/tasks", &task).await;
        assert_eq!(refused.fault(), (field.to_owned(), rule.to_owned()), "{task}");
        let step = {
            let mut step = task.clone();
            step["id"] = json!("one");
            step
        };
        let refused = client.post("/api/plans", &json!({"name": "p", "steps": [step]})).await;
        assert_eq!(refused.fault(), (format!("steps[0].{field}"), rule.to_owned()), "{task}");
    }
}
