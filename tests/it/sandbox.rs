//! The sandbox (docs/reference/sandbox.md): test keys have the simulated model at work, and nothing crosses.

use serde_json::{Value, json};

use crate::support::{Client, Events, Server, until};

const SAMPLES: [(&str, &str, &str); 6] = [
    (
        "contract-review-v1",
        include_str!("../../config/templates/samples/contract-review-v1.json"),
        "generate-report",
    ),
    (
        "due-diligence-v1",
        include_str!("../../config/templates/samples/due-diligence-v1.json"),
        "dd-report",
    ),
    ("extraction-v1", include_str!("../../config/templates/samples/extraction-v1.json"), "extract"),
    (
        "financial-analysis-v1",
        include_str!("../../config/templates/samples/financial-analysis-v1.json"),
        "analyst-report",
    ),
    (
        "risk-assessment-v1",
        include_str!("../../config/templates/samples/risk-assessment-v1.json"),
        "risk-report",
    ),
    (
        "support-reply-v1",
        include_str!("../../config/templates/samples/support-reply-v1.json"),
        "answer",
    ),
];

/// A client with a fresh test key of this role.
async fn test_client(server: &Server, role: &str) -> Client {
    let body = json!({"name": role, "role": role, "environment": "test"});
    let made = server.admin().await.post("/api/auth/keys", &body).await.expect(201);
    Client::new(&server.url, made["key"].as_str().expect("a key"))
}

fn server() -> Server {
    Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")])
}

async fn total(client: &Client, path: &str) -> u64 {
    let answer = client.get(path).await;
    assert_eq!(answer.status, 200, "{path}: {:#}", answer.body);
    answer.body["pagination"]["total"].as_u64().expect("a total")
}

/// True if the output of a step, or of an item of one, waits for a reviewer.
fn is_held(execution: &Value) -> bool {
    let mut steps = execution["steps"].as_object().expect("steps").values();
    let is_some = |count: &Value| count.as_u64().is_some_and(|count| count > 0);
    is_some(&execution["progress"]["awaitingApproval"])
        || steps.any(|step| is_some(&step["items"]["awaitingApproval"]))
}

/// Approves every held output until the execution has ended.
async fn approve_all(client: &Client, execution: &str) -> Value {
    for _ in 0..10 {
        let reached = client
            .execution_when(execution, |execution| {
                execution["status"] != "running" || is_held(execution)
            })
            .await;
        if reached["status"] != "running" {
            return reached;
        }
        for item in client.get("/api/hitl/pending").await.expect_ok().as_array().expect("a list") {
            let task = item["taskId"].as_str().expect("an id");
            client.post(&format!("/api/hitl/{task}/approve"), &json!({})).await.expect_ok();
        }
    }
    panic!("it never ends: {:#}", client.execution(execution).await);
}

#[tokio::test]
async fn tasks_of_test_keys_end_as_in_production() {
    let server = server();
    let client = test_client(&server, "operator").await;
    assert_eq!(total(&client, "/api/workers").await, 0, "no worker before the first task");
    let mut events = Events::open(&client, "events=task.*", None).await;

    let task = client.submit(&json!({"prompt": "hello", "queue": "any", "model": "gpt-x"})).await;
    let done = client.task_with_status(&task, "completed").await;
    let output = done["output"].as_str().expect("an output");
    assert!(output.starts_with("simulated answer ") && output.contains("gpt-x"), "{output}");
    assert_eq!(done["confidenceSource"], "reported");
    let again = client.submit(&json!({"prompt": "hello", "model": "gpt-x"})).await;
    let again = client.task_with_status(&again, "completed").await;
    assert_eq!(again["output"], output, "the same request gives the same answer");
    let (mut names, mut text) = (Vec::new(), String::new());
    while names.last().is_none_or(|last| last != "task.completed") {
        let (name, event) = events.next().await;
        if name == "task.delta" {
            text.push_str(event["data"]["text"].as_str().expect("a text"));
        } else {
            names.push(name);
        }
    }
    assert_eq!(names, ["task.created", "task.started", "task.completed"]);
    assert_eq!(text, output);

    let workers = client.get("/api/workers").await.expect_ok();
    assert_eq!(workers.as_array().map(Vec::len), Some(1));
    assert_eq!((&workers[0]["name"], &workers[0]["status"]), (&json!("sandbox"), &json!("active")));
    assert_eq!(workers[0]["queues"], json!(["*"]));

    let failed = client.submit(&json!({"prompt": "p", "model": "simulated-error"})).await;
    let failed = client.task_with_status(&failed, "failed").await;
    assert_eq!(failed["error"]["code"], "PROVIDER_ERROR");
    let retried = client.submit(&json!({"prompt": "p", "model": "simulated-unavailable"})).await;
    let late = json!({"prompt": "p", "model": "simulated-slow", "timeoutMs": 200});
    let late = client.submit(&late).await;
    let slow = client.submit(&json!({"prompt": "p", "model": "simulated-slow"})).await;
    client.task_with_status(&slow, "running").await;
    client.delete(&format!("/api/tasks/{slow}")).await.expect_ok();
    let retried = client.task_with_status(&retried, "failed").await;
    assert_eq!(retried["attempt"], 3);
    let late = client.task_with_status(&late, "failed").await;
    assert_eq!(late["error"]["code"], "TASK_TIMEOUT");

    let many = vec![json!({"prompt": "p", "queue": "other"}); 100];
    client.post("/api/tasks/batch", &json!({"tasks": many})).await.expect(201);
    until("the batch is done", async || {
        total(&client, "/api/tasks?queue=other&status=completed").await == 100
    })
    .await;
    until("nothing runs", async || client.get("/api/workers").await.expect_ok()[0]["running"] == 0)
        .await;
}

#[tokio::test]
async fn executions_and_approvals_of_test_keys_end_as_in_production() {
    let server = server();
    let client = test_client(&server, "operator").await;
    let reviewer = test_client(&server, "operator").await;
    let steps = json!([
        {"id": "a", "prompt": "{\"n\": {{input.n}}}", "model": "simulated-echo"},
        {"id": "b", "prompt": "{{a.output.n}}", "dependsOn": ["a"], "model": "simulated-echo",
         "condition": "input.n > 1", "queue": "own"},
        {"id": "c", "prompt": "{{b.output}}", "dependsOn": ["b"], "requiresApproval": true},
    ]);
    let plan = client.plan(&steps).await;
    let execution = client.execute(&plan, &json!({"input": {"n": 7}})).await;
    let held = client
        .execution_when(&execution, |execution| execution["progress"]["awaitingApproval"] == 1)
        .await;
    assert_eq!(held["steps"]["b"]["output"], "7");
    let task = held["steps"]["c"]["taskId"].as_str().expect("an id");
    let path = format!("/api/hitl/{task}");
    reviewer.post(&format!("{path}/claim"), &json!({})).await.expect_ok();
    let again = json!({"reason": "again", "retry": true});
    reviewer.post(&format!("{path}/reject"), &again).await.expect_ok();
    let done = approve_all(&reviewer, &execution).await;
    assert_eq!(done["status"], "completed", "{done:#}");

    let gate = json!({"required": true, "notifyChannels": ["email"]});
    let mailed = client.submit(&json!({"prompt": "p", "hitl": gate})).await;
    client.task_when(&mailed, |task| task["awaitingApproval"] == true).await;
    let history = client.get(&format!("/api/hitl/{mailed}/history")).await.expect_ok();
    let actions: Vec<_> =
        history.as_array().expect("a list").iter().map(|entry| entry["action"].clone()).collect();
    assert_eq!(actions, ["pending", "notification_skipped"], "nobody is asked by mail");
    client.post(&format!("/api/hitl/{mailed}/approve"), &json!({})).await.expect_ok();

    for (template, sample, last) in SAMPLES {
        let input: Value = serde_json::from_str(sample).expect("JSON");
        let path = format!("/api/templates/{template}/deploy");
        let made = client.post(&path, &json!({"input": input})).await.expect(201);
        let done = approve_all(&reviewer, made["id"].as_str().expect("an id")).await;
        assert_eq!(done["status"], "completed", "{template}: {done:#}");
        assert!(done["steps"][last]["output"].is_string(), "{template}: {done:#}");
    }
    // The live statistics know nothing of all this.
    let own = client.get("/api/hitl/stats").await.expect_ok();
    assert!(own["created"].as_u64() > Some(6), "{own:#}");
    let live = server.admin().await.get("/api/hitl/stats").await.expect_ok();
    assert_eq!((&live["created"], &live["decided"]), (&json!(0), &json!(0)), "{live:#}");
}

#[tokio::test]
async fn nothing_crosses_between_sandbox_and_production() {
    let server = server();
    let (live, test) = (server.client("operator").await, test_client(&server, "operator").await);
    let mut heard = Events::open(&live, "events=*", None).await;
    let body = json!({"prompt": "p", "tags": ["t"], "hitl": {"required": true}});
    let key = "the same key";
    let mut all = Vec::new();
    for client in [&live, &test] {
        let task = client.post_once("/api/tasks", key, &body).await;
        assert!(task.headers.get("idempotent-replayed").is_none());
        let task = task.expect(201)["id"].as_str().expect("an id").to_owned();
        let plan = client.plan(&json!([{"id": "a", "prompt": "p"}])).await;
        let execution = client.execute(&plan, &json!({})).await;
        let template = json!({"name": "Own", "version": "1.0.0", "visibility": "public",
            "industry": "custom", "inputSchema": {"type": "object"}, "steps": [{"id": "a", "prompt": "p"}]});
        let template = client.post("/api/templates", &template).await.expect(201);
        assert_eq!(template["id"], "own-v1");
        all.push((task, plan, execution));
    }
    test.task_when(&all[1].0, |task| task["awaitingApproval"] == true).await;
    test.execution_with_status(&all[1].2, "completed").await;
    assert!(total(&live, "/api/hitl/reviewers").await > 0);
    assert_eq!(total(&test, "/api/hitl/reviewers").await, 0, "users are production's");

    for (client, (task, plan, execution)) in [(&live, &all[1]), (&test, &all[0])] {
        for path in [
            format!("/api/tasks/{task}"),
            format!("/api/plans/{plan}"),
            format!("/api/plans/executions/{execution}"),
            format!("/api/hitl/{task}"),
            format!("/api/hitl/{task}/history"),
        ] {
            assert_eq!(client.get(&path).await.refused(404), "NOT_FOUND", "{path}");
        }
        for path in [
            format!("/api/plans/{plan}/execute"),
            format!("/api/plans/executions/{execution}/retry"),
            format!("/api/hitl/{task}/approve"),
            format!("/api/hitl/{task}/claim"),
            format!("/api/hitl/{task}/release"),
        ] {
            assert_eq!(client.post(&path, &json!({})).await.refused(404), "NOT_FOUND", "{path}");
        }
        let path = format!("/api/hitl/{task}/reject");
        client.post(&path, &json!({"reason": "r"})).await.refused(404);
        for path in [format!("/api/tasks/{task}"), format!("/api/plans/executions/{execution}")] {
            assert_eq!(client.delete(&path).await.refused(404), "NOT_FOUND", "{path}");
        }
        for (path, own) in [
            ("/api/plans", 1),
            ("/api/plans/executions", 1),
            ("/api/tasks?tags=t", 1),
            ("/api/templates?search=own", 1),
        ] {
            assert_eq!(total(client, path).await, own, "{path}");
        }
    }
    assert_eq!(total(&live, "/api/hitl/pending").await, 0);
    assert_eq!(total(&test, "/api/hitl/pending").await, 1);
    assert_eq!(total(&live, "/api/workers").await, 0);
    assert_eq!(total(&test, "/api/workers").await, 1);
    let worker = test.get("/api/workers").await.expect_ok()[0]["id"].clone();
    let drain = format!("/api/workers/{}/drain", worker.as_str().expect("an id"));
    server.admin().await.post(&drain, &json!({})).await.refused(404);
    test.post(&drain, &json!({})).await.refused(403);
    for path in ["/api/auth/keys", "/api/auth/users", "/api/audit"] {
        assert_eq!(test.get(path).await.refused(403), "FORBIDDEN", "{path}");
    }
    let health = live.get("/api/health").await.expect_ok();
    assert_eq!(health["components"]["workers"]["status"], "degraded", "{health:#}");

    // A last live event: all before it was live as well.
    let last = live.submit(&json!({"prompt": "last"})).await;
    loop {
        let (name, event) = heard.next().await;
        let told = event.to_string();
        let (task, _, execution) = &all[1];
        assert!(!told.contains(task) && !told.contains(execution), "{name}: {told}");
        assert!(!name.starts_with("worker."), "{name}: {told}");
        if told.contains(&last) {
            break;
        }
    }
    let stats = live.get("/api/hitl/stats").await.expect_ok();
    assert_eq!(stats["pending"], 0, "{stats:#}");
}

#[tokio::test]
async fn the_sandbox_goes_on_after_a_crash() {
    let mut server = server();
    let client = test_client(&server, "operator").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(client.submit(&json!({"prompt": "p", "model": "simulated-slow"})).await);
    }
    for id in &ids {
        client.task_with_status(id, "running").await;
    }
    server.kill();
    server.restart();
    let client = client.at(&server.url);
    // Well before their old leases would have run out.
    until("the same worker has them again", async || {
        let workers = client.get("/api/workers").await.expect_ok();
        workers[0]["connectedAt"].is_string() && workers[0]["running"] == 3
    })
    .await;
    assert_eq!(total(&client, "/api/workers").await, 1);
    for id in &ids {
        let task = client.task_with_status(id, "running").await;
        assert_eq!(task["attempt"], 1, "{task:#}");
        client.delete(&format!("/api/tasks/{id}")).await.expect_ok();
    }
    let task = client.submit(&json!({"prompt": "p"})).await;
    client.task_with_status(&task, "completed").await;
    assert!(server.terminate(), "it ends in order with a worker within");
}
