//! Confidence by samples and judges: asked for, made in the lease, priced, and kept by method and model.

use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

async fn start() -> (Server, Client, FakeWorker) {
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")]);
    let client = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    (server, client, worker)
}

impl FakeWorker {
    /// Answers the next task with a confidence.
    async fn answer(&mut self, confidence: f64, source: &str) {
        let lease = self.assignment().await["lease"].clone();
        self.send(json!({
            "type": "complete", "lease": lease, "output": "out", "confidence": confidence,
            "confidenceSource": source, "usage": {"input": 3, "output": 5},
        }))
        .await;
        assert_eq!(self.receive("ack").await["result"], "applied");
    }
}

#[tokio::test]
async fn what_was_asked_for_reaches_the_worker_and_is_shown() {
    let (_server, client, mut worker) = start().await;
    let ask = json!({"method": "samples", "n": 5, "fields": ["total"]});
    let id = client.submit(&json!({"prompt": "p", "confidence": ask})).await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned["task"]["confidence"], ask);
    worker
        .send(json!({
            "type": "complete", "lease": assigned["lease"], "output": "out", "confidence": 0.8,
            "confidenceSource": "samples", "usage": {"input": 18, "output": 6},
        }))
        .await;
    worker.receive("ack").await;
    let task = client.task(&id).await;
    assert_eq!((&task["confidence"], &task["confidenceSource"]), (&json!(0.8), &json!("samples")));
    assert_eq!(task["confidenceRequest"], ask);
    let steps = json!([{"id": "a", "prompt": "p", "confidence": {"method": "none"}}]);
    let plan = client.plan(&steps).await;
    let shown = client.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(shown["steps"][0]["confidence"], json!({"method": "none"}));
}

#[tokio::test]
async fn what_cannot_be_made_is_refused_by_its_place() {
    let server = Server::start();
    let client = server.client("operator").await;
    for (ask, field, rule) in [
        (json!({"method": "samples", "n": 10}), "confidence.n", "range"),
        (json!({"method": "samples", "n": 1}), "confidence.n", "range"),
        (json!({"method": "judge"}), "confidence.judgeModel", "required"),
        (json!({"method": "verbalised"}), "confidence.method", "enum"),
        (
            json!({"method": "judge", "judgeModel": "m", "rubric": ""}),
            "confidence.rubric",
            "length",
        ),
        (json!({"samples": 3}), "confidence.samples", "unknown"),
    ] {
        let answer = client.post("/api/tasks", &json!({"prompt": "p", "confidence": ask})).await;
        assert_eq!(answer.fault(), (field.into(), rule.into()), "{ask}");
        let step = json!({"id": "a", "prompt": "p", "confidence": ask});
        let answer = client.post("/api/plans", &json!({"name": "n", "steps": [step]})).await;
        assert_eq!(answer.fault(), (format!("steps[0].{field}"), rule.into()), "{ask}");
    }
}

#[tokio::test]
async fn a_judge_costs_its_own_price_and_counts_in_the_usage() {
    let (_server, client, mut worker) = start().await;
    let judged = json!({"method": "judge", "judgeModel": "gpt-4o-mini"});
    let task = json!({"prompt": "p", "serviceTier": "priority", "confidence": judged});
    let id = client.submit(&task).await;
    let lease = worker.assignment().await["lease"].clone();
    worker
        .send(json!({
            "type": "complete", "lease": lease, "output": "out", "confidence": 0.9,
            "confidenceSource": "judge", "usage": {"input": 3, "output": 5},
            "judge": {"model": "gpt-4o-mini",
                "usage": {"input": 100_000, "cacheRead": 60_000, "output": 1000}},
        }))
        .await;
    assert_eq!(worker.receive("ack").await["result"], "applied");
    let usage = client.task(&id).await["usage"].clone();
    assert_eq!((&usage["input"], &usage["output"]), (&json!(100_003), &json!(1005)));
    // A judge is called in no tier, and its cached tokens have a price of their own. The rest is next to nothing.
    let of_judge = 40_000.0 * 0.15e-6 + 60_000.0 * 0.075e-6 + 1000.0 * 0.6e-6;
    let cost = usage["totalCost"].as_f64().expect("a number");
    assert!((of_judge..of_judge + 0.000_5).contains(&cost), "{usage}: {of_judge} for the judge");
}

#[tokio::test]
async fn max_cost_reserves_the_samples_too() {
    let server = Server::start();
    let client = server.client("operator").await;
    let step = |confidence: Value| {
        json!([{"id": "a", "prompt": "p", "model": "gpt-4o-mini", "maxTokens": 10_000,
                "confidence": confidence}])
    };
    let alone = client.plan(&step(json!({"method": "auto"}))).await;
    let sampled = client.plan(&step(json!({"method": "samples", "n": 3}))).await;
    let options = |cost: f64| json!({"options": {"maxCost": cost}});
    let dry = json!({"options": {"dryRun": true}});
    let dry = client.post(&format!("/api/plans/{alone}/execute"), &dry).await.expect_ok();
    let high = dry["estimate"]["costHigh"].as_f64().expect("a figure");
    assert!(high > 0.0, "{dry}");
    client.post(&format!("/api/plans/{alone}/execute"), &options(high * 1.5)).await.expect(201);
    let refused = client.post(&format!("/api/plans/{sampled}/execute"), &options(high * 1.5)).await;
    assert_eq!(refused.refused(403), "BUDGET_EXCEEDED");
    client.post(&format!("/api/plans/{sampled}/execute"), &options(high * 4.1)).await.expect(201);
    let dry = json!({"options": {"dryRun": true}});
    let dry = client.post(&format!("/api/plans/{sampled}/execute"), &dry).await.expect_ok();
    let four = dry["estimate"]["costHigh"].as_f64().expect("a figure");
    assert!((four - 4.0 * high).abs() < high * 0.01, "{four} {high}");
}

#[tokio::test]
async fn a_gate_is_untested_until_twenty_decisions_of_its_method_and_model() {
    let (_server, client, mut worker) = start().await;
    let task = json!({"prompt": "p", "model": "m", "hitl": {"confidenceThreshold": 0.9}});
    for number in 0..20 {
        let id = client.submit(&task).await;
        worker.answer(0.5, "samples").await;
        let item = client.get(&format!("/api/hitl/{id}")).await.expect_ok();
        assert_eq!(item["untested"], true, "{number}");
        client.post(&format!("/api/hitl/{id}/approve"), &json!({})).await.expect_ok();
    }
    let id = client.submit(&task).await;
    worker.answer(0.5, "samples").await;
    let item = client.get(&format!("/api/hitl/{id}")).await.expect_ok();
    assert_eq!((item.get("untested"), &item["confidenceSource"]), (None, &json!("samples")));
    // Another method is another measure, and another model another modeller.
    let id = client.submit(&task).await;
    worker.answer(0.5, "logprobs").await;
    assert_eq!(client.get(&format!("/api/hitl/{id}")).await.expect_ok()["untested"], true);
    let other = json!({"prompt": "p", "model": "n", "hitl": {"confidenceThreshold": 0.9}});
    let id = client.submit(&other).await;
    worker.answer(0.5, "samples").await;
    assert_eq!(client.get(&format!("/api/hitl/{id}")).await.expect_ok()["untested"], true);
    let counted = async |query: &str| {
        let found = client.get(&format!("/api/hitl/calibration?{query}")).await.expect_ok();
        let decile = &found["deciles"][5];
        (decile["approved"].as_u64().unwrap(), decile["unreviewed"].as_u64().unwrap())
    };
    assert_eq!(counted("method=samples&model=m").await, (20, 1));
    assert_eq!(counted("method=logprobs").await, (0, 1));
    assert_eq!(counted("model=n").await, (0, 1));
    assert_eq!(counted("threshold=0.8").await, (20, 3));
}

#[tokio::test]
async fn the_simulated_model_is_sampled_in_the_sandbox() {
    let server = Server::start();
    let body = json!({"name": "t", "role": "operator", "environment": "test"});
    let made = server.admin().await.post("/api/auth/keys", &body).await.expect(201);
    let client = Client::new(&server.url, made["key"].as_str().expect("a key"));
    let once = client.submit(&json!({"prompt": "p"})).await;
    let once = client.task_with_status(&once, "completed").await;
    let ask = json!({"method": "samples", "n": 2});
    let id = client.submit(&json!({"prompt": "p", "confidence": ask})).await;
    let done = client.task_with_status(&id, "completed").await;
    assert_eq!((&done["confidence"], &done["confidenceSource"]), (&json!(1.0), &json!("samples")));
    let output = |task: &Value| task["usage"]["output"].as_u64().expect("a count");
    assert_eq!(output(&done), 3 * output(&once), "an answer and two samples");
}

#[tokio::test]
async fn log_probabilities_are_wanted_where_a_gate_or_a_request_reads_them() {
    let (_server, client, mut worker) = start().await;
    for (task, wanted) in [
        (json!({"prompt": "p"}), json!(false)),
        (json!({"prompt": "p", "hitl": {"confidenceThreshold": 0.5}}), Value::Null),
        (json!({"prompt": "p", "hitl": {"required": true}}), Value::Null),
        (json!({"prompt": "p", "confidence": {"method": "auto"}}), Value::Null),
    ] {
        client.submit(&task).await;
        let assigned = worker.assignment().await;
        assert_eq!(assigned["task"]["logprobs"], wanted, "{task}");
        worker.complete(&assigned["lease"], "out").await;
    }
}
