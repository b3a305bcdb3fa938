//! Every limit of requests that docs/reference/limits.md names: the largest value is taken, and the next is
//! refused with the field and the rule.

use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server};

/// A value that grows by one.
struct Edge<'a> {
    path: &'a str,
    /// The body with a value of this size.
    body: &'a (dyn Fn(usize) -> Value + Sync),
    most: usize,
    field: &'a str,
    rule: &'a str,
}

/// The path, the body with a value, the field of the value, a value that is taken and one that is refused.
type Case<'a> = (&'a str, &'a (dyn Fn(Value) -> Value + Sync), &'a str, Value, Value);

async fn check(client: &Client, edges: &[Edge<'_>]) {
    for Edge { path, body, most, field, rule } in edges {
        let taken = client.post(path, &body(*most)).await;
        assert_eq!(taken.status.as_u16(), 201, "{field} of {most}: {}", taken.body["error"]);
        let refused = client.post(path, &body(most + 1)).await.fault();
        assert_eq!(refused, ((*field).into(), (*rule).into()), "{field} of {most} and one");
    }
}

fn x(count: usize) -> String {
    "x".repeat(count)
}

/// An object of so many bytes as compact JSON.
fn object(bytes: usize) -> Value {
    json!({"a": x(bytes - 8)})
}

fn task(member: &str, value: impl Into<Value>) -> Value {
    let mut task = json!({"prompt": "p"});
    task[member] = value.into();
    task
}

fn plan(member: &str, value: impl Into<Value>) -> Value {
    let mut plan = json!({"name": "n", "steps": [{"id": "a", "prompt": "p"}]});
    plan[member] = value.into();
    plan
}

fn step(member: &str, value: impl Into<Value>) -> Value {
    let mut step = json!({"id": "a", "prompt": "p"});
    step[member] = value.into();
    plan("steps", json!([step]))
}

#[tokio::test]
async fn the_sizes_of_tasks_are_those_of_the_table() {
    let server = Server::start();
    let client = server.client("operator").await;
    let of = |member: &'static str| move |size: usize| task(member, x(size));
    let url = "https://example.com/";
    let edge = |body, most, field| Edge { path: "/api/tasks", body, most, field, rule: "length" };
    let tags = |size: usize| task("tags", (0..size).map(|n| n.to_string()).collect::<Vec<_>>());
    let messages = |size: usize| task("messages", json!([{"role": "user", "content": x(size)}]));
    let key = |member: &'static str| {
        move |size: usize| {
            let mut task = task(member, x(size));
            if member == "concurrencyKey" {
                task["concurrencyLimit"] = json!(1);
            }
            task
        }
    };
    check(
        &client,
        &[
            edge(&of("prompt"), 1 << 20, "prompt"),
            edge(&of("systemPrompt"), 1 << 20, "systemPrompt"),
            edge(&messages, 1 << 20, "messages"),
            edge(&|size| task("context", object(size)), 256 << 10, "context"),
            edge(&tags, 32, "tags"),
            edge(&|size| task("tags", json!([x(size)])), 64, "tags[0]"),
            edge(&of("model"), 128, "model"),
            edge(&of("queue"), 128, "queue"),
            edge(&of("idempotencyKey"), 255, "idempotencyKey"),
            edge(
                &|size| task("callbackUrl", url.to_owned() + &x(size - url.len())),
                2_048,
                "callbackUrl",
            ),
            edge(&key("concurrencyKey"), 128, "concurrencyKey"),
            edge(&key("fairnessKey"), 128, "fairnessKey"),
        ],
    )
    .await;
    let batch = |size: usize| json!({"tasks": vec![json!({"prompt": "p"}); size]});
    let batch =
        Edge { path: "/api/tasks/batch", body: &batch, most: 100, field: "tasks", rule: "length" };
    check(&client, &[batch]).await;
    for (query, most) in [("search", 200), ("limit", 100)] {
        let (taken, beyond) = match query {
            "search" => (x(most), x(most + 1)),
            _ => (most.to_string(), (most + 1).to_string()),
        };
        client.get(&format!("/api/plans?{query}={taken}")).await.expect_ok();
        let fault = client.get(&format!("/api/plans?{query}={beyond}")).await.fault();
        assert_eq!(fault.0, query);
    }
    let nested = |depth: usize| {
        let inner = (0..depth - 2).fold(json!(1), |inner, _| json!([inner]));
        task("context", json!({"a": inner}))
    };
    client.post("/api/tasks", &nested(64)).await.expect(201);
    assert_eq!(client.post("/api/tasks", &nested(65)).await.refused(400), "INVALID_JSON");
}

#[tokio::test]
async fn the_sizes_of_definitions_are_those_of_the_table() {
    let server = Server::start();
    let client = server.client("operator").await;
    let edge = |body, most, field| Edge { path: "/api/plans", body, most, field, rule: "length" };
    let steps = |size: usize| {
        let step = |n| json!({"id": format!("s{n}"), "prompt": "p"});
        plan("steps", (0..size).map(step).collect::<Vec<_>>())
    };
    let schema = |size: usize| step("outputSchema", json!({"title": x(size - 12)}));
    let nodes =
        |size: usize| step("outputSchema", json!({"enum": [], "anyOf": vec![json!({}); size - 2]}));
    let refs = |size: usize| {
        let all = vec![json!({"$ref": "#/$defs/d"}); size];
        step("outputSchema", json!({"$defs": {"d": {}}, "anyOf": all}))
    };
    let first_ref = "steps[0].outputSchema.anyOf[1000].$ref";
    check(
        &client,
        &[
            edge(&|size| plan("name", x(size)), 100, "name"),
            edge(&|size| plan("description", x(size)), 500, "description"),
            edge(&steps, 500, "steps"),
            edge(&|size| step("prompt", x(size)), 1 << 20, "steps[0].prompt"),
            edge(&|size| step("systemPrompt", x(size)), 1 << 20, "steps[0].systemPrompt"),
            edge(&schema, 256 << 10, "steps[0].outputSchema"),
            edge(&nodes, 10_000, "steps[0].outputSchema"),
            edge(&refs, 1_000, first_ref),
        ],
    )
    .await;
    let metadata = |size: usize| {
        let mut template = plan("metadata", object(size));
        template["name"] = json!(format!("n {size}"));
        template["version"] = json!("1.0.0");
        template["industry"] = json!("custom");
        template["inputSchema"] = json!({"type": "object"});
        template
    };
    let metadata = Edge {
        path: "/api/templates",
        body: &metadata,
        most: 256 << 10,
        field: "metadata",
        rule: "length",
    };
    check(&client, &[metadata]).await;
    // A condition has a code of its own.
    let condition = |size: usize| step("condition", format!("'{}' != ''", x(size - 8)));
    let conditions = |size: usize| {
        let condition = format!("'{}' != ''", x(1_016));
        let step = |n| json!({"id": format!("s{n}"), "prompt": "p", "condition": condition});
        plan("steps", (0..size).map(step).collect::<Vec<_>>())
    };
    for (body, most) in [
        (&condition as &dyn Fn(usize) -> Value, 1_024),
        (&conditions as &dyn Fn(usize) -> Value, 64),
    ] {
        client.post("/api/plans", &body(most)).await.expect(201);
        let refused = client.post("/api/plans", &body(most + 1)).await;
        assert_eq!(refused.refused(400), "INVALID_CONDITION");
    }
}

#[tokio::test]
async fn the_ranges_of_numbers_are_those_of_the_table() {
    let server = Server::start();
    let client = server.client("operator").await;
    let flow =
        |value: Value| json!({"prompt": "p", "concurrencyKey": "k", "concurrencyLimit": value});
    let fair = |value: Value| json!({"prompt": "p", "fairnessKey": "k", "weight": value});
    let of = |member: &'static str| move |value: Value| task(member, value);
    let hitl = |member: &'static str| move |value: Value| task("hitl", json!({member: value}));
    let of_step = |member: &'static str| move |value: Value| step(member, value);
    let retry = |member: &'static str| move |value: Value| step("retry", json!({member: value}));
    let map = |member: &'static str| {
        move |value: Value| {
            let mut first =
                json!({"id": "a", "prompt": "p", "forEach": "{{input.x}}", "maxItems": 2});
            first["onItemError"] = json!("skip");
            first[member] = value;
            plan("steps", json!([first]))
        }
    };
    let cases: [Case<'_>; 16] = [
        ("/api/tasks", &of("priority"), "priority", json!(10), json!(11)),
        ("/api/tasks", &of("priority"), "priority", json!(1), json!(0)),
        ("/api/tasks", &of("timeoutMs"), "timeoutMs", json!(86_400_000), json!(86_400_001)),
        ("/api/tasks", &of("temperature"), "temperature", json!(1), json!(1.01)),
        ("/api/tasks", &of("maxTokens"), "maxTokens", json!(1), json!(0)),
        ("/api/tasks", &flow, "concurrencyLimit", json!(10_000), json!(10_001)),
        ("/api/tasks", &fair, "weight", json!(100), json!(101)),
        ("/api/tasks", &hitl("sampleRate"), "hitl.sampleRate", json!(1), json!(1.01)),
        (
            "/api/tasks",
            &hitl("confidenceThreshold"),
            "hitl.confidenceThreshold",
            json!(0),
            json!(-0.01),
        ),
        ("/api/plans", &of_step("timeoutMs"), "steps[0].timeoutMs", json!(1), json!(0)),
        ("/api/plans", &retry("maxAttempts"), "steps[0].retry.maxAttempts", json!(20), json!(21)),
        (
            "/api/plans",
            &retry("backoffMs"),
            "steps[0].retry.backoffMs",
            json!(300_000),
            json!(300_001),
        ),
        ("/api/plans", &map("maxItems"), "steps[0].maxItems", json!(1_000), json!(1_001)),
        ("/api/plans", &map("concurrency"), "steps[0].concurrency", json!(1_000), json!(1_001)),
        ("/api/plans", &map("minSuccess"), "steps[0].minSuccess", json!(1), json!(1.01)),
        ("/api/plans", &map("maxItems"), "steps[0].maxItems", json!(1), json!(0)),
    ];
    for (path, body, field, taken, refused) in cases {
        let answer = client.post(path, &body(taken)).await;
        assert_eq!(answer.status.as_u16(), 201, "{field}: {}", answer.body["error"]);
        assert_eq!(client.post(path, &body(refused)).await.fault(), (field.into(), "range".into()));
    }
    let id = client.plan(&json!([{"id": "a", "prompt": "p"}])).await;
    let execute = |cost: u64| json!({"options": {"dryRun": true, "maxCost": cost}});
    let path = format!("/api/plans/{id}/execute");
    client.post(&path, &execute(1_000_000_000)).await.expect_ok();
    let fault = client.post(&path, &execute(1_000_000_001)).await.fault();
    assert_eq!(fault, ("options.maxCost".into(), "range".into()));
}

#[tokio::test]
async fn the_sizes_of_signals_schedules_and_keys_are_those_of_the_table() {
    let server = Server::start();
    let (client, admin) = (server.client("operator").await, server.admin().await);
    let wait = json!([{"id": "w", "type": "wait", "signal": "s"}]);
    let plan = client.plan(&wait).await;
    for (size, is_taken) in [(256 << 10, true), ((256 << 10) + 1, false)] {
        let execution = client.execute(&plan, &json!({})).await;
        let path = format!("/api/plans/executions/{execution}/signals/s");
        let answer = client.post(&path, &json!({"payload": x(size - 2)})).await;
        if is_taken {
            answer.expect_ok();
        } else {
            assert_eq!(answer.fault(), ("payload".into(), "length".into()));
        }
    }
    let schedule = |cron: &str, jitter: u64| json!({"name": "n", "cron": cron, "jitterMs": jitter, "target": {"task": {"prompt": "p"}}});
    let (longest, longer) = ("0,".repeat(123) + "00 * * * *", "0,".repeat(124) + "0 * * * *");
    let hour = 3_600_000;
    for (cron, jitter, field) in [
        (longest, hour, None),
        (longer, hour, Some("cron")),
        ("0 * * * *".into(), hour + 1, Some("jitterMs")),
    ] {
        let answer = client.post("/api/schedules", &schedule(&cron, jitter)).await;
        match field {
            None => drop(answer.expect(201)),
            Some(field) => assert_eq!(answer.fault().0, field),
        }
    }
    for (expires, is_taken) in [("1d", true), ("36500d", true), ("23h", false), ("36501d", false)] {
        let body = json!({"name": "k", "role": "viewer", "expiresIn": expires});
        let answer = admin.post("/api/auth/keys", &body).await;
        assert_eq!(answer.status.as_u16(), if is_taken { 201 } else { 400 }, "{expires}");
    }
}

#[tokio::test]
async fn the_limits_of_frames_are_those_of_the_table() {
    let server = Server::start();
    let key = server.key("worker").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let leases = |count: usize| json!({"type": "heartbeat", "leases": vec!["x"; count]});
    worker.send(leases(10_000)).await;
    worker.receive("leases").await;
    for (frame, says) in [
        (leases(10_001), "at most 10000"),
        // Of more than 64 KiB, each of its values counts.
        (leases(32_769), "at most 32768 values"),
    ] {
        worker.send(frame).await;
        let error = worker.receive("error").await;
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(message.contains(says), "{message}");
    }
    let long = |bytes: usize| json!({"type": "delta", "lease": "x", "text": x(bytes)});
    worker.send(long((32 << 20) - 100)).await;
    worker.send(leases(1)).await;
    worker.receive("leases").await;
    // The socket may break while the frame is sent.
    let _ = worker.try_send(long(32 << 20)).await;
    while worker.next().await.is_some() {}
}

#[tokio::test]
async fn a_budget_has_eight_alerts() {
    let server = Server::start();
    let admin = server.admin().await;
    let budget = |alerts: u32| {
        let shares: Vec<_> = (1..=alerts).map(|n| f64::from(n) / 100.0).collect();
        json!({"match": {}, "limit": 1, "period": "month", "alertAt": shares})
    };
    assert_eq!(admin.post("/api/budgets", &budget(9)).await.fault().0, "alertAt");
    admin.post("/api/budgets", &budget(8)).await.expect_ok();
}
