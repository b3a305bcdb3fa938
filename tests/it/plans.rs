//! The plan endpoints: what is made, every fault that is found, and what a dry run says.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, FakeWorker, Server};

/// The code and the field of every fault.
fn errors(answer: &Answer) -> Vec<(String, String)> {
    let errors = answer.body["error"]["details"]["errors"].as_array().expect("all faults");
    let text = |error: &Value, name: &str| error[name].as_str().expect("a text").to_owned();
    errors.iter().map(|error| (text(error, "code"), text(error, "field"))).collect()
}

fn step(id: &str, prompt: &str, on: &[&str]) -> Value {
    json!({"id": id, "prompt": prompt, "dependsOn": on})
}

fn plan(steps: &Value) -> Value {
    json!({"name": "a plan", "steps": steps})
}

#[tokio::test]
async fn a_plan_is_made_read_back_and_found() {
    let server = Server::start();
    let client = server.client("operator").await;
    let given = json!({
        "name": "Weekly digest", "description": "Reads and sums up.", "tags": ["weekly", "news"],
        "steps": [
            {"id": "read", "prompt": "Read {{input.topic}}.", "dependsOn": [], "requiresApproval": false},
            {
                "id": "sum-up", "prompt": "Sum up {{read.output}}", "model": "m", "queue": "q",
                "dependsOn": ["read"], "requiresApproval": true, "condition": "input.topic != ''",
                "timeoutMs": 1000, "retry": {"maxAttempts": 2, "backoffMs": 5}, "maxTokens": 9,
                "temperature": 0.5, "systemPrompt": "Be brief.",
                "seed": 7, "topP": 0.25, "stop": ["END"],
            },
        ],
    });
    let made = client.post("/api/plans", &given).await.expect(201);
    let id = made["id"].as_str().expect("an id");
    assert!(id.starts_with("dt_plan_") && id.len() == 34, "{id}");
    assert_eq!(made["createdAt"].as_str().map(str::len), Some(24));
    for field in ["name", "description", "steps", "tags"] {
        assert_eq!(made[field], given[field], "{field}");
    }
    assert_eq!(client.get(&format!("/api/plans/{id}")).await.expect_ok(), made);

    for n in 0..3 {
        let steps = json!([{"id": "a", "prompt": "p"}]);
        let other = json!({"name": format!("Other {n}"), "tags": ["news"], "steps": steps});
        client.post("/api/plans", &other).await.expect(201);
    }
    let list = async |query: &str| client.get(&format!("/api/plans?{query}")).await;
    let all = list("limit=2").await;
    let pagination = json!({"total": 4, "limit": 2, "offset": 0, "hasMore": true});
    assert_eq!(all.body["pagination"], pagination);
    assert_eq!(all.expect_ok()[0]["name"], "Other 2", "the newest is first");
    for (query, total) in [
        ("tags=news", 4),
        ("tags=news,weekly", 1),
        ("tags=nothing", 0),
        ("search=DIGEST", 1),
        ("search=sums", 1),
        ("search=other&tags=news", 3),
        ("offset=100", 4),
    ] {
        assert_eq!(list(query).await.body["pagination"]["total"], total, "{query}");
    }
    let found = list("tags=weekly").await.expect_ok();
    assert_eq!((&found[0]["id"], &found[0]["steps"][1]["id"]), (&json!(id), &json!("sum-up")));
    assert!(found[0]["steps"][0].get("prompt").is_none(), "lists are short");

    let viewer = server.client("viewer").await;
    viewer.get(&format!("/api/plans/{id}")).await.expect_ok();
    viewer.post("/api/plans", &given).await.refused(403);
    viewer.post(&format!("/api/plans/{id}/execute"), &json!({})).await.refused(403);
    server.client("worker").await.get("/api/plans").await.refused(403);
}

#[tokio::test]
async fn every_kind_of_fault_has_its_code() {
    let server = Server::start();
    let client = server.client("operator").await;
    for (steps, code, field) in [
        (
            json!([step("a", "p", &["b"]), step("b", "p", &["a"])]),
            "CIRCULAR_DEPENDENCY",
            "steps[0].dependsOn",
        ),
        (json!([step("a", "p", &["a"])]), "CIRCULAR_DEPENDENCY", "steps[0].dependsOn"),
        (json!([step("a", "p", &["x"])]), "MISSING_DEPENDENCY", "steps[0].dependsOn[0]"),
        (json!([step("a", "{{x.output}}", &[])]), "MISSING_DEPENDENCY", "steps[0].prompt"),
        (json!([step("a", "p", &[]), step("a", "p", &[])]), "DUPLICATE_STEP_ID", "steps[1].id"),
        (
            json!([step("a", "p", &[]), step("b", "{{a.output}}", &[])]),
            "UNDECLARED_DEPENDENCY",
            "steps[1].prompt",
        ),
        (
            json!([{"id": "a", "prompt": "p", "condition": "1 +"}]),
            "INVALID_CONDITION",
            "steps[0].condition",
        ),
        (json!([step("a", "{{env.HOME}}", &[])]), "ENV_NOT_ALLOWED", "steps[0].prompt"),
    ] {
        let answer = client.post("/api/plans", &plan(&steps)).await;
        assert_eq!(answer.refused(400), code, "{steps}");
        assert_eq!(answer.body["error"]["details"]["field"], field, "{steps}");
        assert_eq!(errors(&answer)[0], (code.to_owned(), field.to_owned()));
    }
}

#[tokio::test]
async fn every_broken_field_of_a_step_is_named_with_its_rule() {
    let server = Server::start();
    let client = server.client("operator").await;
    for (steps, field, rule) in [
        (json!([step("a", "{{", &[])]), "steps[0].prompt", "placeholder"),
        (json!([step("a", "{{nonsense}}", &[])]), "steps[0].prompt", "placeholder"),
        (json!([step("input", "p", &[])]), "steps[0].id", "reserved"),
        (json!([step("A", "p", &[])]), "steps[0].id", "pattern"),
        (json!([step("a", "", &[])]), "steps[0].prompt", "length"),
        (json!([]), "steps", "length"),
        (json!([{"prompt": "p"}]), "steps[0].id", "required"),
        (json!([{"id": "a"}]), "steps[0].prompt", "required"),
        (
            json!([{"id": "a", "prompt": "p", "requiresApproval": 1}]),
            "steps[0].requiresApproval",
            "type",
        ),
        (
            json!([{"id": "a", "prompt": "p", "timeoutMs": 86_400_001}]),
            "steps[0].timeoutMs",
            "range",
        ),
        (
            json!([{"id": "a", "prompt": "p", "retry": {"maxAttempts": 0}}]),
            "steps[0].retry.maxAttempts",
            "range",
        ),
        (
            json!([{"id": "a", "prompt": "p", "retry": {"more": 0}}]),
            "steps[0].retry.more",
            "unknown",
        ),
        (json!([{"id": "a", "prompt": "p", "maxTokens": 1.5}]), "steps[0].maxTokens", "type"),
        (json!([{"id": "a", "prompt": "p", "temperature": 1.1}]), "steps[0].temperature", "range"),
        (json!("a"), "steps", "type"),
        (json!([5]), "steps[0]", "type"),
    ] {
        let fault = client.post("/api/plans", &plan(&steps)).await.fault();
        assert_eq!(fault, (field.into(), rule.into()), "{steps}");
    }
}

#[tokio::test]
async fn all_faults_of_a_plan_are_told_at_once() {
    let server = Server::start();
    let client = server.client("operator").await;
    let circle =
        plan(&json!([step("a", "p", &["b"]), step("b", "p", &["a"]), step("c", "p", &["b"])]));
    let answer = client.post("/api/plans", &circle).await;
    let message = answer.body["error"]["message"].as_str().expect("a text");
    assert!(message.contains("a, b"), "it names its steps: {message}");
    let behind = ("UNREACHABLE_STEP".to_owned(), "steps[2].dependsOn".to_owned());
    assert_eq!(errors(&answer).last(), Some(&behind));

    let broken = json!({
        "description": "x".repeat(501),
        "steps": [
            {"id": "a", "prompt": "{{b.output}} {{nope}}", "priority": 1},
            {"id": "a", "dependsOn": ["a", 5, "x"], "temperature": "warm"},
        ],
        "tags": ["", "ok"],
        "extra": {},
    });
    let answer = client.post("/api/plans", &broken).await;
    let found: Vec<_> = errors(&answer).into_iter().map(|(_, field)| field).collect();
    let expected = [
        "name",
        "description",
        "tags[0]",
        "steps[0].prompt",
        "steps[0].prompt",
        "steps[0].priority",
        "steps[1].id",
        "steps[1].prompt",
        "steps[1].dependsOn[1]",
        "steps[1].dependsOn[2]",
        "steps[1].dependsOn",
        "steps[1].temperature",
        "extra",
    ];
    let mut found_sorted = found.clone();
    found_sorted.sort();
    let mut expected_sorted = expected.map(str::to_owned).to_vec();
    expected_sorted.sort();
    assert_eq!(found_sorted, expected_sorted, "every fault is told");
    assert_eq!((found[0].as_str(), found.last().map(String::as_str)), ("name", Some("extra")));
    assert_eq!(client.get("/api/plans").await.body["pagination"]["total"], 0);
}

#[tokio::test]
async fn bad_input_is_refused_by_name_and_nothing_breaks() {
    let server = Server::start();
    let client = server.client("operator").await;
    let steps = json!([{"id": "a", "prompt": "{{input.x}}"}]);
    let id = client.plan(&steps).await;
    let execute = format!("/api/plans/{id}/execute");
    for (body, field, rule) in [
        (json!([]), "body", "type"),
        (json!({}), "input.x", "required"),
        (json!({"input": 5}), "input", "type"),
        (json!({"input": {"x": 1}, "inputs": {}}), "inputs", "unknown"),
        (json!({"input": {"x": 1}, "hitl": {"requiredFor": ["b"]}}), "hitl.requiredFor[0]", "step"),
        (json!({"hitl": {"requiredFor": [1]}}), "hitl.requiredFor[0]", "type"),
        (json!({"hitl": {"confidenceThreshold": 1.5}}), "hitl.confidenceThreshold", "range"),
        (json!({"hitl": {"timeoutMs": 0}}), "hitl.timeoutMs", "range"),
        (json!({"hitl": {"notifyChannels": ["sms"]}}), "hitl.notifyChannels[0]", "enum"),
        (json!({"hitl": {"notify": []}}), "hitl.notify", "unknown"),
        (json!({"options": {"timeoutMs": 1.5}}), "options.timeoutMs", "type"),
        (json!({"options": {"dryRun": "yes"}}), "options.dryRun", "type"),
        (json!({"options": {"failFast": 1}}), "options.failFast", "type"),
        (json!({"options": {"maxCost": -1}}), "options.maxCost", "range"),
        (json!({"options": {"parallel": 1}}), "options.parallel", "unknown"),
    ] {
        let fault = client.post(&execute, &body).await.fault();
        assert_eq!(fault, (field.into(), rule.into()), "{body}");
    }
    for (path, field, rule) in [
        ("/api/plans?limit=0", "limit", "range"),
        ("/api/plans?search=", "search", "length"),
        ("/api/plans?tags=", "tags", "length"),
        ("/api/plans?status=running", "status", "unknown"),
        ("/api/plans/executions?status=waiting", "status", "enum"),
        ("/api/plans/executions?planId=x", "planId", "format"),
        ("/api/plans/executions?createdAfter=now", "createdAfter", "format"),
        ("/api/plans/executions?queue=x", "queue", "unknown"),
    ] {
        assert_eq!(client.get(path).await.fault(), (field.into(), rule.into()), "{path}");
    }
    let long = format!("/api/plans?search={}", "x".repeat(201));
    assert_eq!(client.get(&long).await.fault(), ("search".into(), "length".into()));
    let absent = "00000000000000000000000000";
    for path in [
        format!("/api/plans/dt_plan_{absent}"),
        "/api/plans/x".into(),
        format!("/api/plans/dt_task_{absent}"),
        format!("/api/plans/executions/dt_exec_{absent}"),
        "/api/plans/executions/%00".into(),
    ] {
        assert_eq!(client.get(&path).await.refused(404), "NOT_FOUND", "{path}");
    }
    for path in ["/api/plans/x/execute", "/api/plans/executions/x/retry"] {
        assert_eq!(client.post(path, &json!({})).await.refused(404), "NOT_FOUND", "{path}");
    }
    assert_eq!(
        client.post("/api/plans/executions", &json!({})).await.refused(405),
        "METHOD_NOT_ALLOWED"
    );
    let yaml = client.post_as("/api/plans", "application/yaml", "name: x").await;
    assert_eq!(yaml.refused(415), "UNSUPPORTED_MEDIA_TYPE");
    let large = format!("{{\"name\":\"{}\"}}", "x".repeat(3 << 20));
    assert_eq!(client.post_raw("/api/plans", large).await.refused(413), "PAYLOAD_TOO_LARGE");
    let twice = "{\"name\":\"a\",\"name\":\"b\"}";
    assert_eq!(client.post_raw("/api/plans", twice).await.refused(400), "INVALID_JSON");
    let many = plan(&json!(vec![json!({"id": "a", "prompt": "p"}); 501]));
    assert_eq!(client.post("/api/plans", &many).await.fault(), ("steps".into(), "length".into()));
    let steps: Vec<_> =
        (0..60).map(|n| json!({"id": format!("s{n}"), "prompt": "{{a}}".repeat(30)})).collect();
    let answer = client.post("/api/plans", &plan(&json!(steps))).await;
    assert_eq!(answer.refused(400), "VALIDATION_ERROR");
    assert_eq!(errors(&answer).len(), 1_000, "and no more");
}

#[tokio::test]
async fn nothing_that_is_thrown_at_plans_and_templates_gets_a_5xx() {
    let server = Server::start();
    let client = server.client("admin").await;
    let id = client.plan(&json!([{"id": "a", "prompt": "{{input.x}}"}])).await;
    let execute = format!("/api/plans/{id}/execute");
    let paths = [
        "/api/plans",
        &execute,
        "/api/plans/executions",
        "/api/plans/executions/x",
        "/api/templates",
        "/api/templates/contract-review-v1/deploy",
        "/api/templates/x",
        "/api/templates/x/versions",
        "/api/templates/%ff",
        "/api/plans/executions/x/retry",
    ];
    let bodies = [
        "",
        "null",
        "[]",
        "{}",
        "{\"steps\":{}}",
        "{\"steps\":[{\"id\":[]}]}",
        "\u{0}",
        "{\"input\":{\"x\":{\"a\":[null]}},\"options\":null,\"hitl\":{}}",
        "{\"inputSchema\":{\"$ref\":\"file:///etc/passwd\"}}",
    ];
    for path in paths {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] {
            for body in bodies {
                let method = Method::from_bytes(method.as_bytes()).expect("a token");
                let request = client.request(method.clone(), path);
                let request = request.header("content-type", "application/json").body(body);
                let answer = client.send(request).await;
                assert!(!answer.status.is_server_error(), "{method} {path} {body}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_dry_run_says_what_would_happen_and_stores_nothing() {
    let server = Server::start();
    let client = server.client("operator").await;
    let id = client
        .plan(&json!([
            {"id": "a", "prompt": "about {{input.x}}", "maxTokens": 10},
            {"id": "b", "prompt": "{{a.output}} and {{ input.x }}", "dependsOn": ["a"], "model": "m", "queue": "q"},
            {"id": "c", "prompt": "p", "requiresApproval": true},
        ]))
        .await;
    let execute = format!("/api/plans/{id}/execute");
    let body = json!({"input": {"x": "{{env.HOME}}"}, "options": {"dryRun": true}});
    let run = client.post_once(&execute, "dry", &body).await.expect(200);
    assert_eq!((&run["status"], &run["planId"]), (&json!("dry_run"), &json!(id)));
    let steps = run["steps"].as_array().expect("steps");
    let step = |at: usize, name: &str| steps[at][name].clone();
    assert_eq!(step(0, "prompt"), "about {{env.HOME}}");
    assert_eq!(step(1, "prompt"), "{{a.output}} and {{env.HOME}}");
    assert_eq!((step(1, "level"), step(1, "dependsOn")), (json!(1), json!(["a"])));
    assert_eq!((step(1, "model"), step(1, "queue")), (json!("m"), json!("q")));
    assert_eq!((step(0, "gate"), step(2, "gate")), (json!("none"), json!("always")));
    assert!(step(0, "estimatedCost").is_number());
    assert_eq!(run["criticalPath"][0], "a");
    for name in ["cost", "costHigh", "durationMs"] {
        assert!(run["estimate"][name].is_number(), "{name}: {run:#}");
    }
    assert_eq!(run["estimate"]["basis"], "prices");
    let threshold = json!({
        "input": {"x": 1}, "options": {"dryRun": true}, "hitl": {"confidenceThreshold": 0.5},
    });
    assert_eq!(
        client.post(&execute, &threshold).await.expect(200)["steps"][0]["gate"],
        "threshold"
    );
    let missing = json!({"options": {"dryRun": true}});
    assert_eq!(
        client.post(&execute, &missing).await.fault(),
        ("input.x".into(), "required".into())
    );

    let deploy = json!({
        "input": {"contract": "c"}, "options": {"dryRun": true}, "modelOverrides": {"extract": "other"},
    });
    let run = client.post("/api/templates/contract-review-v1/deploy", &deploy).await.expect(200);
    assert_eq!((&run["status"], &run["steps"][0]["model"]), (&json!("dry_run"), &json!("other")));
    assert_eq!(
        (&run["templateId"], &run["steps"][1]["gate"]),
        (&json!("contract-review-v1"), &json!("always"))
    );

    for (path, total) in [("/api/plans/executions", 0), ("/api/plans", 1), ("/api/tasks", 0)] {
        assert_eq!(client.get(path).await.body["pagination"]["total"], total, "{path}");
    }
    // The key of a dry run is not used up.
    let body = json!({"input": {"x": 1}});
    client.post_once(&execute, "dry", &body).await.expect(201);
}

#[tokio::test]
async fn messages_of_tasks_and_steps_reach_the_worker_rendered() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    let said = |role: &str, content: &str| json!({"role": role, "content": content});

    let earlier = json!([said("user", "hi"), said("assistant", "hello {{x}}")]);
    let batch = json!({"tasks": [{"prompt": "why?", "messages": earlier}]});
    let made = client.post("/api/tasks/batch", &batch).await.expect(201);
    let assigned = worker.assignment().await;
    assert_eq!(assigned["task"]["messages"], earlier, "a task's text has no placeholders");
    worker.complete(&assigned["lease"], "so").await;
    let shown = client.task(made["tasks"][0]["id"].as_str().expect("an id")).await;
    assert_eq!(shown["messages"], earlier);
    let listed = client.get("/api/tasks").await.expect_ok();
    assert_eq!(listed[0].get("messages"), None);

    let plan = client
        .plan(&json!([
            {"id": "a", "prompt": "first"},
            {"id": "b", "prompt": "then", "dependsOn": ["a"], "messages": [
                said("user", "{{input.q}}"), said("assistant", "{{a.output}}"),
            ]},
        ]))
        .await;
    let stored = client.get(&format!("/api/plans/{plan}")).await.expect_ok();
    assert_eq!(stored["steps"][1]["messages"][0], said("user", "{{input.q}}"));
    client.execute(&plan, &json!({"input": {"q": "why {{a.output}}?"}})).await;
    let first = worker.assignment().await;
    assert_eq!(first["task"].get("messages"), None);
    worker.complete(&first["lease"], "because").await;
    let second = worker.assignment().await;
    let rendered = json!([said("user", "why {{a.output}}?"), said("assistant", "because")]);
    assert_eq!(second["task"]["messages"], rendered);

    let long = "x".repeat(600 << 10);
    let task = json!({"prompt": "p", "messages": [said("user", &long), said("user", &long)]});
    let refused = client.post("/api/tasks", &task).await;
    assert_eq!(refused.fault(), ("messages".into(), "length".into()));
    let task = json!({"prompt": "p", "messages": [said("system", "x")]});
    let refused = client.post("/api/tasks", &task).await;
    assert_eq!(refused.fault(), ("messages[0].role".into(), "enum".into()));
    let step = |id: &str| json!({"id": id, "prompt": "p"});
    let mut third = step("c");
    third["messages"] = json!([said("user", "{{a.output}}")]);
    let steps = json!({"name": "p", "steps": [step("a"), step("b"), third]});
    let refused = client.post("/api/plans", &steps).await;
    assert_eq!(refused.refused(400), "UNDECLARED_DEPENDENCY");
    let details = &refused.body["error"]["details"];
    assert_eq!(details["field"], "steps[2].messages[0].content");
}
