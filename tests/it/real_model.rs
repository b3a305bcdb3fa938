//! The whole way on a real small model: submitted over HTTP, run by `callboard worker`, told as it
//! happens, and stopped in the middle.
//!
//! `CALLBOARD_SKIP_REAL_MODEL=1` leaves this out and says so; nothing else does.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use crate::real_model_provider::{PATIENCE, metric, start};
use crate::support::{Events, Server};

/// `callboard worker` in a process of its own. Killed when dropped.
struct Worker(Child);

impl Worker {
    fn start(server: &Server, key: &str, model: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_callboard"))
            .args(["worker", "--server", &server.url, "--provider", "openai"])
            .args(["--base-url", &format!("{model}/v1"), "--models", "smollm2-135m"])
            .env("CALLBOARD_API_KEY", key)
            .env("CALLBOARD_LOG", "warn")
            .stdin(Stdio::null())
            .spawn()
            .expect("the program starts");
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_task_runs_on_a_real_model_by_way_of_a_worker() {
    let Some(model) = start().await else { return };
    let server = Server::start();
    let client = server.client("operator").await;
    let _worker = Worker::start(&server, &server.key("worker").await, &model.url);

    let mut events = Events::open(&client, "events=task.*", None).await;
    let task = json!({
        "prompt": "What is the capital of France?", "systemPrompt": "You answer in one short line.",
        "model": "smollm2-135m", "temperature": 0, "confidence": {"method": "logprobs"},
    });
    let id = client.submit(&task).await;
    let mut pieces = String::new();
    loop {
        let (name, data) = timeout(PATIENCE, events.next()).await.expect("the model answers");
        match name.as_str() {
            "task.delta" => {
                assert_eq!(data["data"]["offset"], pieces.chars().count());
                pieces.push_str(data["data"]["text"].as_str().expect("text"));
            }
            "task.completed" => break,
            other => assert!(["task.created", "task.started"].contains(&other), "{other}"),
        }
    }
    let done = client.task(&id).await;
    assert_eq!(done["output"], pieces, "the pieces are the output");
    assert!(!pieces.is_empty());
    let confidence = done["confidence"].as_f64().expect("a confidence");
    assert!(confidence > 0.0 && confidence < 1.0, "{confidence}");
    assert_eq!(done["confidenceSource"], "logprobs");
    assert!(done["usage"]["input"].as_u64().expect("tokens") > 10);
    assert!(done["usage"]["output"].as_u64().expect("tokens") > 0);
    assert_eq!(done["usage"]["totalCost"], 0.0);

    let story = json!({
        "prompt": "Write a very long story about a ship, with many chapters.",
        "model": "smollm2-135m", "maxTokens": 1500,
    });
    let id = client.submit(&story).await;
    while timeout(PATIENCE, events.next()).await.expect("the model answers").0 != "task.delta" {}
    client.delete(&format!("/api/tasks/{id}")).await.expect_ok();
    let stopped = async {
        while metric(&model.url, "llamacpp:requests_processing").await > 0.0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, stopped).await.expect("the model went on after the cancellation");
    let made = metric(&model.url, "llamacpp:tokens_predicted_total").await;
    assert!(made < 1500.0, "the model wrote the story to its end: {made} tokens");
    assert_eq!(client.task(&id).await["status"], "cancelled");
}
