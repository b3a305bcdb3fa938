//! Output schemas of tasks and steps: checked by the server with any worker.

use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

/// An object with a whole number.
fn counted() -> Value {
    json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
}

async fn start() -> (Server, Client, FakeWorker) {
    let server = Server::start();
    let client = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    (server, client, worker)
}

impl FakeWorker {
    /// Answers under a lease with a reason to stop.
    async fn stop(&mut self, lease: &Value, output: &str, finish_reason: &str) {
        self.send(json!({
            "type": "complete", "lease": lease, "output": output, "finishReason": finish_reason,
            "usage": {"input": 3, "output": 5},
        }))
        .await;
        assert_eq!(self.receive("ack").await["result"], "applied");
    }
}

#[tokio::test]
async fn a_fenced_answer_counts_without_its_fence_and_the_task_shows_its_schema() {
    let (_server, client, mut worker) = start().await;
    let id = client.submit(&json!({"prompt": "p", "outputSchema": counted()})).await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned["task"]["outputSchema"], counted());
    worker.complete(&assigned["lease"], "```json\n{\"n\": 1,}\n```").await;
    let task = client.task(&id).await;
    assert_eq!((&task["status"], &task["output"]), (&json!("completed"), &json!("{\"n\": 1}")));
    assert_eq!(task["outputSchema"], counted());
    let list = client.get("/api/tasks").await;
    assert_eq!(list.body["data"][0].get("outputSchema"), None);
}

#[tokio::test]
async fn a_miss_is_one_retry_with_the_fault_in_the_prompt_and_then_the_output_is_kept() {
    let (_server, client, mut worker) = start().await;
    let id = client.submit(&json!({"prompt": "How many?", "outputSchema": counted()})).await;
    let first = worker.assignment().await;
    assert_eq!(first["task"]["prompt"], "How many?");
    worker.complete(&first["lease"], "{\"n\": \"one\"}").await;
    let second = worker.assignment().await;
    let prompt = second["task"]["prompt"].as_str().expect("a prompt");
    assert!(prompt.starts_with("How many?\n\n") && prompt.contains("output.n"), "{prompt}");
    assert_eq!((&second["attempt"], &second["task"]["id"]), (&json!(2), &json!(id)));
    let running = client.task_with_status(&id, "running").await;
    assert_eq!(running.get("output"), None, "it did not count");
    assert_eq!(running["prompt"], "How many?", "what was asked stays as it was");
    worker.complete(&second["lease"], "two").await;
    let failed = client.task(&id).await;
    assert_eq!(failed["error"]["code"], "OUTPUT_INVALID");
    assert_eq!(failed["output"], "two", "it was paid for");
    assert_eq!((&failed["usage"]["input"], &failed["usage"]["output"]), (&json!(6), &json!(10)));

    let id = client.submit(&json!({"prompt": "p", "outputSchema": counted()})).await;
    let first = worker.assignment().await;
    worker.complete(&first["lease"], "none").await;
    let second = worker.assignment().await;
    worker.complete(&second["lease"], "{\"n\": 2}").await;
    let done = client.task(&id).await;
    assert_eq!((&done["status"], &done["output"]), (&json!("completed"), &json!("{\"n\": 2}")));
    assert_eq!((&done["usage"]["input"], done.get("error")), (&json!(6), None));
}

#[tokio::test]
async fn a_cut_answer_is_asked_for_once_with_twice_the_tokens_and_never_repaired() {
    let (_server, client, mut worker) = start().await;
    let task = json!({"prompt": "p", "outputSchema": counted(), "maxTokens": 8});
    let id = client.submit(&task).await;
    let first = worker.assignment().await;
    // It would match, were it not cut: 12 may have been to become 123.
    worker.stop(&first["lease"], "{\"n\": 12}", "length").await;
    let second = worker.assignment().await;
    assert_eq!(second["task"]["maxTokens"], 16);
    assert_eq!(second["task"]["prompt"], "p");
    worker.stop(&second["lease"], "{\"n\": 12}", "length").await;
    let failed = client.task(&id).await;
    assert_eq!(failed["error"]["code"], "OUTPUT_TRUNCATED");
    assert_eq!((&failed["output"], &failed["maxTokens"]), (&json!("{\"n\": 12}"), &json!(8)));
    // Without a limit there is nothing to double.
    let id = client.submit(&json!({"prompt": "p", "outputSchema": counted()})).await;
    let only = worker.assignment().await;
    worker.stop(&only["lease"], "{\"n\": 1", "length").await;
    assert_eq!(client.task(&id).await["error"]["code"], "OUTPUT_TRUNCATED");
}

#[tokio::test]
async fn a_steps_schema_makes_its_output_json_for_those_downstream() {
    let (_server, client, mut worker) = start().await;
    let steps = json!([
        {"id": "a", "prompt": "count", "outputSchema": counted(), "maxTokens": 10},
        {"id": "b", "prompt": "{{a.output.n}} apples", "dependsOn": ["a"]},
    ]);
    let plan = client.plan(&steps).await;
    let shown = client.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(shown["steps"][0]["outputSchema"], counted());
    let execution = client.execute(&plan, &json!({})).await;
    let first = worker.assignment().await;
    assert_eq!(first["task"]["outputSchema"], counted());
    worker.complete(&first["lease"], "no number").await;
    let second = worker.assignment().await;
    assert_eq!(second["task"]["stepId"], "a");
    let failed = client.task(first["task"]["id"].as_str().expect("an id")).await;
    assert_eq!(
        (&failed["error"]["code"], &failed["output"]),
        (&json!("OUTPUT_INVALID"), &json!("no number"))
    );
    worker.stop(&second["lease"], "{\"n\":", "length").await;
    let third = worker.assignment().await;
    assert_eq!(third["task"]["maxTokens"], 20);
    worker.complete(&third["lease"], "```\n{\"n\": 3}\n```").await;
    let b = worker.assignment().await;
    assert_eq!(b["task"]["prompt"], "3 apples");
    worker.complete(&b["lease"], "ok").await;
    let done = client.execution_with_status(&execution, "completed").await;
    assert_eq!(done["steps"]["a"]["output"], "{\"n\": 3}");
    assert_eq!(done["steps"]["a"]["usage"]["input"], 9, "every call counts");
}

#[tokio::test]
async fn a_schema_that_is_none_is_refused_by_its_place() {
    let server = Server::start();
    let client = server.client("operator").await;
    let bad = json!({"type": "nonsense"});
    let refused = client.post("/api/tasks", &json!({"prompt": "p", "outputSchema": bad})).await;
    assert_eq!(refused.fault(), ("outputSchema.type".into(), "type".into()));
    let refused = client.post("/api/tasks", &json!({"prompt": "p", "outputSchema": true})).await;
    assert_eq!(refused.fault(), ("outputSchema".into(), "type".into()));
    let remote = json!({"$ref": "https://example.com/x.json"});
    let tasks = json!({"tasks": [{"prompt": "p"}, {"prompt": "p", "outputSchema": remote}]});
    let refused = client.post("/api/tasks/batch", &tasks).await;
    assert_eq!(refused.fault(), ("tasks[1].outputSchema.$ref".into(), "ref".into()));
    let plan = json!({"name": "n", "steps": [{"id": "a", "prompt": "p", "outputSchema": bad}]});
    let refused = client.post("/api/plans", &plan).await;
    assert_eq!(refused.fault(), ("steps[0].outputSchema.type".into(), "type".into()));
    let template = json!({
        "name": "Twice", "version": "1.0.0", "industry": "custom", "inputSchema": {"type": "object"},
        "outputSchema": counted(), "defaults": {"outputSchema": bad},
        "steps": [{"id": "a", "prompt": "p", "outputSchema": counted()}],
    });
    let refused = client.post("/api/templates", &template).await;
    assert_eq!(refused.refused(400), "VALIDATION_ERROR");
    let errors = refused.body["error"]["details"]["errors"].as_array().expect("all faults");
    let fields: Vec<_> =
        errors.iter().map(|error| error["field"].as_str().expect("a field")).collect();
    assert_eq!(fields, ["steps[0].outputSchema", "defaults.outputSchema.type"]);
}

#[tokio::test]
async fn the_check_and_the_retry_survive_a_crash() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    // Only the account that registered a worker may resume it.
    let key = server.key("worker").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let held = client.submit(&json!({"prompt": "p", "outputSchema": counted()})).await;
    let first = worker.assignment().await;
    let worker_id = worker.id.clone();
    // A lease takes effect ahead of its commit: once it can be read, it survives.
    client.task_with_status(&held, "running").await;
    server.kill();
    server.restart();
    let client = client.at(&server.url);
    drop(worker);
    // The worker comes back with what it had, and its answer is checked though the server forgot all. It
    // serves another queue now, so that the retry waits for the worker after it.
    let register = json!({
        "type": "register", "name": "fake", "version": "0", "queues": ["elsewhere"], "models": ["*"],
        "concurrency": 1, "resume": {"workerId": worker_id, "leases": [first["lease"]]},
    });
    let mut worker = FakeWorker::register(&server.url, &key, register).await;
    assert_eq!(worker.registered["kept"], json!([first["lease"]]));
    worker.complete(&first["lease"], "no number").await;
    let waiting = client.task(&held).await;
    assert_eq!(waiting["error"]["code"], "OUTPUT_INVALID");
    server.kill();
    server.restart();
    let client = client.at(&server.url);
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let second = worker.assignment().await;
    let prompt = second["task"]["prompt"].as_str().expect("a prompt");
    assert!(prompt.contains("not valid JSON"), "the fault is told after a crash too: {prompt}");
    worker.complete(&second["lease"], "{\"n\": 5}").await;
    let done = client.task(&held).await;
    assert_eq!((&done["status"], &done["usage"]["input"]), (&json!("completed"), &json!(6)));
}

#[tokio::test]
async fn the_simulated_model_answers_schemas() {
    let server = Server::start();
    let body = json!({"name": "t", "role": "operator", "environment": "test"});
    let made = server.admin().await.post("/api/auth/keys", &body).await.expect(201);
    let client = Client::new(&server.url, made["key"].as_str().expect("a key"));
    let id = client.submit(&json!({"prompt": "p", "outputSchema": counted()})).await;
    let done = client.task_with_status(&id, "completed").await;
    let output: Value =
        serde_json::from_str(done["output"].as_str().expect("a text")).expect("JSON");
    assert!(output["n"].is_i64(), "{output}");
    let cut = json!({"prompt": "p", "outputSchema": counted(), "maxTokens": 1});
    let id = client.submit(&cut).await;
    let done = client.task_with_status(&id, "completed").await;
    assert_eq!((&done["attempt"], &done["finishReason"]), (&json!(2), &json!("stop")));
    let echo = json!({"prompt": "x", "outputSchema": counted(), "model": "simulated-echo"});
    let id = client.submit(&echo).await;
    let failed = client.task_with_status(&id, "failed").await;
    assert!(failed["output"].as_str().is_some_and(|output| output.starts_with('x')), "{failed:#}");
}

#[tokio::test]
async fn an_answer_amid_thinking_and_prose_counts_at_once_and_feeds_the_next_steps() {
    let (_server, client, mut worker) = start().await;
    for (answer, output) in [
        ("<think>{\"n\": 1}, or two?</think>{\"n\":2}", "{\"n\":2}"),
        ("There are two [1]: {\"n\": 2}. Anything else?", "{\"n\": 2}"),
    ] {
        let id = client.submit(&json!({"prompt": "p", "outputSchema": counted()})).await;
        let lease = worker.assignment().await["lease"].clone();
        worker.complete(&lease, answer).await;
        let task = client.task(&id).await;
        assert_eq!((&task["output"], &task["attempt"]), (&json!(output), &json!(1)), "{answer}");
    }
    // Without a schema the output stays, and what reads JSON from it reads the same.
    let said = "<think>[]?</think>The rows:\n```json\n{\"rows\": [{\"n\": 1}, {\"n\": 2},]}\n```";
    let steps = json!([
        {"id": "list", "prompt": "list"},
        {"id": "each", "forEach": "{{list.output.rows}}", "maxItems": 5, "prompt": "{{item.n}}",
            "dependsOn": ["list"], "condition": "size({{list.output.rows}}) == 2"},
        {"id": "last", "prompt": "{{list.output.rows.0.n}} {{each.output}}", "dependsOn": ["list", "each"]},
    ]);
    let plan = client.plan(&steps).await;
    let id = client.execute(&plan, &json!({})).await;
    worker.run(move |task| {
        let prompt = task["prompt"].as_str().unwrap_or_default();
        Ok(if prompt == "list" { said.to_owned() } else { prompt.to_owned() })
    });
    let ended = client.execution_with_status(&id, "completed").await;
    assert_eq!(ended["steps"]["list"]["output"], said);
    assert_eq!(ended["steps"]["last"]["output"], "1 [\"1\",\"2\"]");
}
