//! Tasks and steps that call a function of a worker.

use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server, until};

/// A worker that announces functions, and the frame with which it does.
fn announcing(names: &[&str]) -> Value {
    let functions: Vec<_> = names
        .iter()
        .map(|name| json!({"name": name, "description": "a test", "inputSchema": {"type": "object"}}))
        .collect();
    json!({
        "type": "register", "name": "functions", "version": "0", "queues": ["default"],
        "functions": functions, "concurrency": 8,
    })
}

async fn called(server: &Server, names: &[&str]) -> FakeWorker {
    FakeWorker::register(&server.url, &server.key("worker").await, announcing(names)).await
}

/// Answers a call, with whatever else the frame is to have.
async fn answer(worker: &mut FakeWorker, lease: &Value, output: Value, cost: Option<f64>) -> Value {
    let mut frame = json!({"type": "complete", "lease": lease, "output": output});
    if let Some(cost) = cost {
        frame["cost"] = cost.into();
    }
    worker.send(frame).await;
    worker.receive("ack").await["result"].clone()
}

/// A worker that answers every call by `value`, which gets the task.
async fn run(server: &Server, names: &[&str], value: impl Fn(&Value) -> Value + Send + 'static) {
    let mut worker = called(server, names).await;
    tokio::spawn(async move {
        loop {
            let assigned = worker.assignment().await;
            let output = value(&assigned["task"]);
            let frame = json!({"type": "complete", "lease": assigned["lease"], "output": output});
            if worker.try_send(frame).await.is_err() {
                return;
            }
        }
    });
}

#[tokio::test]
async fn a_call_goes_to_a_worker_that_announces_it_and_its_value_survives_a_kill() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    // A worker that knows no functions takes any model, and never a call.
    let mut old = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    let id = client
        .submit(&json!({"function": "lookup", "args": {"id": 7, "deep": {"list": [null, 1.5]}}, "priority": 10}))
        .await;
    let prompt = client.submit(&json!({"prompt": "p", "priority": 1})).await;
    assert_eq!(old.assignment().await["task"]["id"], prompt.as_str());
    let task = client.task(&id).await;
    assert_eq!(
        (&task["status"], &task["waitingFor"], &task["model"], &task["function"]),
        (&json!("pending"), &json!("worker"), &json!("function:lookup"), &json!("lookup"))
    );
    assert_eq!(task["args"], json!({"id": 7, "deep": {"list": [null, 1.5]}}));
    assert_eq!(task.get("prompt"), None);
    assert_eq!(client.get("/api/functions").await.expect_ok(), json!([]));

    let mut worker = called(&server, &["lookup"]).await;
    let listed = client.get("/api/functions").await.expect_ok();
    let described = json!([{
        "name": "lookup", "description": "a test", "inputSchema": {"type": "object"}, "workers": 1,
    }]);
    assert_eq!(listed, described);
    let assigned = worker.assignment().await;
    assert_eq!(
        (&assigned["task"]["function"], &assigned["task"]["args"], assigned["task"].get("prompt")),
        (&json!("lookup"), &task["args"], None)
    );

    // The server dies between the lease and the result; the worker comes back with both. What is acknowledged later
    // is on disk later.
    client.task_with_status(&id, "running").await;
    client.submit(&json!({"prompt": "p"})).await;
    let (lease, worker_id) = (assigned["lease"].clone(), worker.id.clone());
    server.kill();
    drop((worker, old));
    server.restart();
    let mut register = announcing(&["lookup"]);
    register["resume"] = json!({"workerId": worker_id, "leases": [lease]});
    let key = server.key("worker").await;
    let client = client.at(&server.url);
    let mut worker = FakeWorker::register(&server.url, &key, register).await;
    assert_eq!(worker.registered["kept"], json!([lease]));
    let value =
        json!({"name": "Ada", "tags": ["a", "b"], "none": null, "big": 12_345_678_901_234_567_u64});
    assert_eq!(answer(&mut worker, &lease, value.clone(), Some(0.25)).await, "applied");
    assert_eq!(answer(&mut worker, &lease, json!(1), None).await, "duplicate");
    server.kill();
    server.restart();
    let client = client.at(&server.url);
    let task = client.task(&id).await;
    assert_eq!((&task["status"], &task["attempt"]), (&json!("completed"), &json!(1)));
    assert_eq!(parsed(&task["output"]), value);
    assert_eq!(
        (&task["usage"]["totalCost"], &task["usage"]["total"], task["usage"].get("priceUnknown")),
        (&json!(0.25), &json!(0), None)
    );
    let found = client.get("/api/tasks?model=function:lookup").await.expect_ok();
    assert_eq!(found.as_array().map(Vec::len), Some(1));
}

fn parsed(output: &Value) -> Value {
    serde_json::from_str(output.as_str().expect("a text")).expect("JSON")
}

#[tokio::test]
async fn every_kind_of_value_is_kept_and_what_cannot_be_ends_the_task() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = called(&server, &["f"]).await;
    let mut ended = async |frame: String| {
        let id = client.submit(&json!({"function": "f"})).await;
        let lease = worker.assignment().await["lease"].clone();
        let frame = format!(r#"{{"type": "complete", "lease": {lease}, {frame}}}"#);
        worker.send_text(frame).await;
        worker.receive("ack").await;
        client.task_when(&id, |task| task["status"] != "running").await
    };
    for output in ["null", "true", "7", "\"a \\\"b\\\"\"", "[]", "{\"a\": {\"output\": [1]}}"] {
        let task = ended(format!(r#""output": {output}"#)).await;
        assert_eq!(task["status"], "completed", "{output}");
        let expected: Value = serde_json::from_str(output).expect("JSON");
        assert_eq!(parsed(&task["output"]), expected, "{output}");
    }
    // More values than any other frame may have.
    let long = format!("[{}0]", "0,".repeat(100_000));
    let task = ended(format!(r#""output": {long}, "usage": {{"input": 0, "output": 0}}"#)).await;
    assert_eq!(task["output"], long.as_str());
    let too_long = format!(r#""output": ["{}"]"#, "x".repeat(8 << 20));
    let too_deep = format!(r#""output": {}1{}"#, "[".repeat(101), "]".repeat(101));
    let text = format!(r#""output": "{}""#, "x".repeat((8 << 20) + 1));
    for (wrong, says) in [(too_long, "bytes"), (too_deep, "deep"), (text, "bytes")] {
        let task = ended(wrong).await;
        assert_eq!(
            (&task["status"], &task["error"]["code"]),
            (&json!("failed"), &json!("OUTPUT_INVALID"))
        );
        assert!(task["error"]["message"].as_str().is_some_and(|it| it.contains(says)), "{task:#}");
    }
}

#[tokio::test]
async fn wrong_calls_are_refused_with_the_place() {
    let server = Server::start();
    let client = server.client("operator").await;
    let fault = async |body: Value| client.post("/api/tasks", &body).await.fault();
    for (body, field, rule) in [
        (json!({}), "prompt", "required"),
        (json!({"function": "Lookup"}), "function", "pattern"),
        (json!({"function": "a/b"}), "function", "pattern"),
        (json!({"function": "f", "args": []}), "args", "type"),
        (json!({"function": "f", "args": {"a": "x".repeat(256 << 10)}}), "args", "length"),
        (json!({"prompt": "p", "args": {}}), "args", "unknown"),
        (json!({"function": "f", "prompt": "p"}), "prompt", "unknown"),
        (json!({"function": "f", "model": "m"}), "model", "unknown"),
        (json!({"function": "f", "systemPrompt": "s"}), "systemPrompt", "unknown"),
        (
            json!({"function": "f", "messages": [{"role": "user", "content": "c"}]}),
            "messages",
            "unknown",
        ),
        (json!({"function": "f", "context": {}}), "context", "unknown"),
        (json!({"function": "f", "maxTokens": 1}), "maxTokens", "unknown"),
        (json!({"function": "f", "temperature": 0}), "temperature", "unknown"),
        (json!({"function": "f", "models": ["a", "b"]}), "models", "unknown"),
        (json!({"function": "f", "confidence": {"method": "none"}}), "confidence", "unknown"),
        (json!({"function": "f", "seed": 1}), "seed", "unknown"),
        (json!({"prompt": "p", "model": "function:f"}), "model", "reserved"),
    ] {
        assert_eq!(fault(body.clone()).await, (field.to_owned(), rule.to_owned()), "{body}");
    }
    let chat = json!({"model": "function:f", "messages": [{"role": "user", "content": "c"}]});
    let refused = client.post("/v1/chat/completions", &chat).await;
    assert_eq!(refused.status, 400, "{:#}", refused.body);
    let plan = json!({"name": "p", "steps": [{
        "id": "a", "function": "f", "temperature": 0.5,
        "args": {"ok": "{{input.x}}", "deep": [{"id": "{{nobody.output}}"}]},
    }]});
    let refused = client.post("/api/plans", &plan).await;
    refused.refused(400);
    let faults = refused.body["error"]["details"]["errors"].as_array().expect("faults").clone();
    let fields: Vec<_> = faults.iter().map(|fault| fault["field"].as_str().unwrap_or("")).collect();
    assert_eq!(fields, ["steps[0].temperature", "steps[0].args.deep[0].id"]);
    // A worker's faults name the place too.
    for (functions, says) in [
        (json!([{"name": "A"}]), "functions[0].name must match"),
        (json!([{"name": "a"}, {"name": "a"}]), "functions[1].name must not be given twice"),
        (json!([{"name": "a", "inputSchema": 7}]), "functions[0].inputSchema must be an object"),
    ] {
        let mut register = announcing(&[]);
        register["functions"] = functions;
        let mut worker = FakeWorker::dial(&server.url, &server.key("worker").await).await;
        worker.send(register).await;
        let error = worker.next().await.expect("an answer");
        assert!(error["error"]["message"].as_str().is_some_and(|it| it.contains(says)), "{error}");
    }
}

async fn ended(client: &Client, execution: &str) -> Value {
    client
        .execution_when(execution, |it| it["status"] != "running" && it["status"] != "pending")
        .await
}

#[tokio::test]
async fn a_plan_passes_values_with_their_types_through_lists_and_conditions() {
    let server = Server::start();
    let client = server.client("operator").await;
    run(&server, &["find", "double", "report"], |task| match task["function"].as_str() {
        Some("find") => json!({"numbers": [1, 2, 3], "of": task["args"]["customer"]}),
        Some("double") => json!(task["args"]["n"].as_i64().expect("a number") * 2),
        _ => json!(task["args"]),
    })
    .await;
    let plan = client
        .plan(&json!([
            {"id": "find", "function": "find", "args": {"customer": "{{input.customer}}"}},
            {"id": "double", "dependsOn": ["find"], "function": "double", "args": {"n": "{{item}}"},
             "forEach": "{{find.output.numbers}}", "maxItems": 10,
             "outputSchema": {"type": "integer"}},
            {"id": "report", "dependsOn": ["find", "double"], "function": "report",
             "condition": "size(steps[\"double\"].json) == 3 && steps[\"find\"].json.of.id == 7",
             "args": {"all": "{{double.output}}", "text": "of {{find.output.of.name}}: {{double.output.0}}",
                      "of": "{{find.output.of}}"}},
            {"id": "never", "dependsOn": ["find"], "function": "report",
             "condition": "steps[\"find\"].json.of.id == 8"},
        ]))
        .await;
    let body = json!({"input": {"customer": {"id": 7, "name": "Ada"}}});
    let execution = client.execute(&plan, &body).await;
    let found = ended(&client, &execution).await;
    assert_eq!(found["status"], "completed", "{found:#}");
    assert_eq!(found["steps"]["double"]["output"], "[2,4,6]");
    assert_eq!(found["steps"]["never"]["status"], "skipped");
    let expected = json!({"all": [2, 4, 6], "text": "of Ada: 2", "of": {"id": 7, "name": "Ada"}});
    assert_eq!(parsed(&found["steps"]["report"]["output"]), expected);

    // A fork takes over what was asked the same; a dry run shows the args that are known.
    let fork = json!({"fromStep": "report"});
    let fork = client.post(&format!("/api/plans/executions/{execution}/fork"), &fork).await;
    let fork = fork.expect(201)["id"].as_str().expect("an id").to_owned();
    let forked = ended(&client, &fork).await;
    assert!(forked["steps"]["find"]["reusedFrom"].is_string(), "{forked:#}");
    assert_eq!(forked["steps"]["report"]["output"], found["steps"]["report"]["output"]);
    let dry = json!({"input": body["input"], "options": {"dryRun": true}});
    let dry = client.post(&format!("/api/plans/{plan}/execute"), &dry).await.expect_ok();
    assert_eq!(dry["steps"][0]["function"], "find");
    assert_eq!(parsed(&dry["steps"][0]["prompt"]), json!({"customer": {"id": 7, "name": "Ada"}}));
    assert_eq!(
        (&dry["steps"][0]["model"], dry["estimate"].get("priceUnknown")),
        (&json!("function:find"), None)
    );
}

#[tokio::test]
async fn a_gate_holds_a_value_and_an_edit_of_it_is_json() {
    let server = Server::start();
    let client = server.client("operator").await;
    let admin = server.admin().await;
    run(&server, &["f"], |task| json!({"got": task["args"]})).await;
    let held = async || {
        let task =
            json!({"function": "f", "args": {"secret": "swordfish"}, "hitl": {"required": true}});
        let id = client.submit(&task).await;
        client.task_when(&id, |task| task["awaitingApproval"] == true).await;
        id
    };
    let id = held().await;
    let path = format!("/api/hitl/{id}");
    let approval = admin.get(&path).await.expect_ok();
    assert_eq!(
        (&approval["function"], &approval["args"], approval.get("prompt")),
        (&json!("f"), &json!({"secret": "swordfish"}), None)
    );
    let edit = |text: &str| json!({"modifiedOutput": text});
    let wrong = admin.post(&format!("{path}/approve"), &edit("no JSON")).await;
    assert_eq!(wrong.fault(), ("modifiedOutput".to_owned(), "format".to_owned()));
    admin.post(&format!("{path}/approve"), &edit("[7]")).await.expect_ok();
    assert_eq!(client.task_with_status(&id, "completed").await["output"], "[7]");

    // A rejected call is made again with the same args; there is no prompt to change.
    let id = held().await;
    let reject = |more: Value| {
        let mut body = json!({"reason": "again", "retry": true});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        body
    };
    let path = format!("/api/hitl/{id}/reject");
    let wrong = admin.post(&path, &reject(json!({"retryPrompt": "x"}))).await;
    assert_eq!(wrong.fault(), ("retryPrompt".to_owned(), "unknown".to_owned()));
    let rejected = admin.post(&path, &reject(json!({}))).await.expect_ok();
    let again = rejected["retryTaskId"].as_str().expect("a task").to_owned();
    client.task_when(&again, |task| task["awaitingApproval"] == true).await;
    assert_eq!(client.task(&again).await["args"], json!({"secret": "swordfish"}));

    // Erased texts are gone, those of args too.
    admin.post(&format!("/api/hitl/{again}/approve"), &json!({})).await.expect_ok();
    client.task_with_status(&again, "completed").await;
    let erase = admin.request(reqwest::Method::DELETE, &format!("/api/tasks/{again}/texts"));
    admin.send(erase.json(&json!({"reason": "a test"}))).await.expect_ok();
    let task = client.task(&again).await;
    assert_eq!((task.get("args"), task.get("output")), (None, None));
    assert_eq!((&task["function"], task["erasedAt"].is_string()), (&json!("f"), true));
}

#[tokio::test]
async fn a_failed_call_is_tried_again_and_a_mismatch_once() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = called(&server, &["f"]).await;
    let task = json!({
        "function": "f", "args": {"a": 1}, "retry": {"maxAttempts": 2, "backoffMs": 0},
        "outputSchema": {"type": "object", "required": ["name"]},
    });
    let id = client.submit(&task).await;
    let first = worker.assignment().await;
    let error = json!({"code": "PROVIDER_ERROR", "message": "busy"});
    worker
        .send(json!({"type": "fail", "lease": first["lease"], "error": error, "retryable": true}))
        .await;
    worker.receive("ack").await;
    let second = worker.assignment().await;
    assert_eq!(answer(&mut worker, &second["lease"], json!({"no": 1}), Some(0.5)).await, "applied");
    let third = worker.assignment().await;
    assert_eq!(third["task"]["args"], json!({"a": 1}), "no words are added to args");
    assert_eq!(third["task"].get("prompt"), None);
    assert_eq!(
        answer(&mut worker, &third["lease"], json!({"name": "Ada"}), Some(0.25)).await,
        "applied"
    );
    let task = client.task(&id).await;
    assert_eq!(task["usage"]["totalCost"], 0.75, "both calls were paid for");
    assert_eq!(parsed(&task["output"]), json!({"name": "Ada"}));
    until("the usage has the function", async || {
        let usage = server.admin().await.get("/api/usage?groupBy=model").await.expect_ok();
        usage.to_string().contains("function:f")
    })
    .await;
}

#[tokio::test]
async fn the_sandbox_simulates_every_function() {
    let server = Server::start();
    let admin = server.admin().await;
    let key = json!({"name": "t", "role": "operator", "environment": "test"});
    let key = admin.post("/api/auth/keys", &key).await.expect(201)["key"].clone();
    let client = Client::new(&server.url, key.as_str().expect("a key"));
    let id = client.submit(&json!({"function": "f", "args": {"a": 1}})).await;
    let task = client.task_with_status(&id, "completed").await;
    let expected = json!({"simulated": true, "function": "f", "args": {"a": 1}});
    assert_eq!(parsed(&task["output"]), expected);
    let schema =
        json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    let id = client.submit(&json!({"function": "f", "outputSchema": schema})).await;
    let task = client.task_with_status(&id, "completed").await;
    assert!(parsed(&task["output"])["n"].is_i64(), "{task:#}");
    assert_eq!(client.get("/api/functions").await.expect_ok(), json!([]));
}

#[tokio::test]
async fn the_command_line_submits_and_lists_functions() {
    let server = Server::start();
    let admin = server.admin().await;
    run(&server, &["f"], |task| json!({"got": task["args"]})).await;
    let callboard = async |args: &[&str]| {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_callboard"))
            .args(args)
            .env("CALLBOARD_SERVER", &server.url)
            .env("CALLBOARD_API_KEY", admin.token())
            .output()
            .await
            .expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let args =
        ["tasks", "submit", "--function", "f", "--args", r#"{"id": 7}"#, "--wait", "--output-only"];
    let (code, out, err) = callboard(&args).await;
    assert_eq!((code, out.trim()), (Some(0), r#"{"got":{"id":7}}"#), "{err}");
    let (code, out, _) = callboard(&["functions", "list"]).await;
    assert_eq!(code, Some(0));
    assert!(out.contains("WORKERS") && out.lines().any(|line| line.starts_with("f ")), "{out}");
    let (code, _, err) = callboard(&["tasks", "submit", "--function", "f", "--args", "[]"]).await;
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("--args must be a JSON object"), "{err}");
}
