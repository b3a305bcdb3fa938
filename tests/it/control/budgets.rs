use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server, until};

/// A model with a price: one dollar for each token that it writes, nothing for what it reads.
const PRICES: &str = r#"{"priced": {"input_cost_per_token": 0, "output_cost_per_token": 1.0}}"#;

fn server() -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("prices.json");
    std::fs::write(&file, PRICES).expect("it can be written");
    let file = file.to_str().expect("UTF-8").to_owned();
    (Server::with(&[("MODELS__PRICES", file.as_str())]), dir)
}

fn task(tokens: u64) -> Value {
    json!({"prompt": "p", "model": "priced", "maxTokens": tokens, "tags": ["team"]})
}

async fn create(admin: &Client, limit: f64, rule: &str) -> String {
    let budget = json!({
        "match": {"tags": ["team"]}, "limit": limit, "period": "day", "onExceed": rule,
        "timezone": "Europe/Berlin",
    });
    let made = admin.post("/api/budgets", &budget).await.expect_ok();
    made["id"].as_str().expect("an id").to_owned()
}

async fn budget(client: &Client, id: &str) -> Value {
    client.get(&format!("/api/budgets/{id}")).await.expect_ok()
}

async fn complete(worker: &mut FakeWorker, tokens: u64) {
    let assigned = worker.assignment().await;
    worker
        .send(json!({
            "type": "complete", "lease": assigned["lease"], "output": "x",
            "usage": {"input": 1, "output": tokens},
        }))
        .await;
    worker.receive("ack").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_waits_holds_tasks_back_and_its_spend_survives_a_kill() {
    let (mut server, _prices) = server();
    let key = server.key("worker").await;
    let (admin, operator) = (server.admin().await, server.client("operator").await);
    let id = create(&admin, 10.0, "wait").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    operator.submit(&task(6)).await;
    complete(&mut worker, 5).await;
    let waiting = operator.submit(&task(6)).await;
    operator.task_when(&waiting, |task| task["waitingFor"] == "budget").await;
    let metrics = operator.request(Method::GET, "/metrics").send().await;
    let metrics = metrics.expect("an answer").text().await.expect("a text");
    let series = "svc_tasks_waiting{queue=\"default\",waiting_for=\"budget\"} 1";
    assert!(metrics.contains(series), "{metrics}");
    assert_eq!(budget(&operator, &id).await["spent"], 5.0);

    server.kill();
    server.restart();
    let (admin, operator) = (server.admin().await, operator.at(&server.url));
    assert_eq!(budget(&operator, &id).await["spent"], 5.0);
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    operator.task_when(&waiting, |task| task["waitingFor"] == "budget").await;
    let small = operator.submit(&task(4)).await;
    complete(&mut worker, 4).await;
    operator.task_with_status(&small, "completed").await;

    let path = format!("/api/budgets/{id}");
    let change = admin.request(Method::PATCH, &path).json(&json!({"limit": 20}));
    admin.send(change).await.expect_ok();
    complete(&mut worker, 6).await;
    operator.task_with_status(&waiting, "completed").await;
    let after = budget(&operator, &id).await;
    assert_eq!((&after["spent"], &after["reserved"]), (&json!(15.0), &json!(0.0)));
    let usage = operator.get("/api/usage?groupBy=tag").await.expect_ok();
    assert_eq!(
        usage["groups"][0],
        json!({
            "key": "team", "tasks": 3, "input": 3, "output": 15, "totalCost": 15.0,
        })
    );
    assert_eq!(usage["total"]["totalCost"], 15.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_rejects_reserves_at_the_submission_over_a_kill() {
    let (mut server, _prices) = server();
    let (admin, operator) = (server.admin().await, server.client("operator").await);
    let id = create(&admin, 10.0, "reject").await;
    let first = operator.submit(&task(7)).await;
    let refused = operator.post("/api/tasks", &task(4)).await;
    assert_eq!(refused.refused(403), "BUDGET_EXCEEDED");
    let batch = json!({"tasks": [task(2), task(2)]});
    assert_eq!(operator.post("/api/tasks/batch", &batch).await.refused(403), "BUDGET_EXCEEDED");
    assert_eq!(budget(&operator, &id).await["reserved"], 7.0);

    server.kill();
    server.restart();
    let operator = operator.at(&server.url);
    assert_eq!(budget(&operator, &id).await["reserved"], 7.0);
    assert_eq!(operator.post("/api/tasks", &task(4)).await.refused(403), "BUDGET_EXCEEDED");
    operator.delete(&format!("/api/tasks/{first}")).await.expect_ok();
    assert_eq!(budget(&operator, &id).await["reserved"], 0.0);
    operator.submit(&task(10)).await;
    // A task of another tag is not the budget's.
    operator.submit(&json!({"prompt": "p", "model": "priced", "maxTokens": 99})).await;

    let unpriced = json!({"prompt": "p", "model": "free", "tags": ["team"]});
    let unpriced = operator.post("/api/tasks", &unpriced).await;
    assert_eq!(unpriced.fault(), ("model".to_owned(), "enum".to_owned()));
    let plan = json!({
        "name": "n", "tags": ["team"],
        "steps": [{"id": "a", "prompt": "p", "model": "priced", "maxTokens": 4}],
    });
    let plan = operator.post("/api/plans", &plan).await.expect(201);
    let path = format!("/api/plans/{}/execute", plan["id"].as_str().expect("an id"));
    assert_eq!(operator.post(&path, &json!({})).await.refused(403), "BUDGET_EXCEEDED");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_alerts_tells_each_threshold_once() {
    let (server, _prices) = server();
    let key = server.key("worker").await;
    let (admin, operator) = (server.admin().await, server.client("operator").await);
    let id = create(&admin, 10.0, "alert").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let mut events = crate::support::Events::open(&operator, "events=budget.*", None).await;
    for tokens in [4, 2, 1, 9] {
        operator.submit(&task(20)).await;
        complete(&mut worker, tokens).await;
    }
    for (name, share) in [
        ("budget.alert", json!(0.5)),
        ("budget.alert", json!(0.8)),
        ("budget.exceeded", Value::Null),
    ] {
        let (event, data) = events.next().await;
        assert_eq!((event.as_str(), &data["data"]["share"]), (name, &share), "{data}");
        assert_eq!(data["data"]["id"], id.as_str());
    }
    until("everything is spent", async || budget(&operator, &id).await["spent"] == 16.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_budget_is_refused_and_only_an_admin_sets_one() {
    let server = Server::start();
    let (admin, operator) = (server.admin().await, server.client("operator").await);
    let right = json!({"match": {}, "limit": 1, "period": "month"});
    let with = |name: &str, value: Value| {
        let mut budget = right.clone();
        budget[name] = value;
        budget
    };
    for (budget, fault) in [
        (with("limit", json!(-1)), ("limit", "range")),
        (with("period", json!("year")), ("period", "enum")),
        (with("timezone", json!("Mars/Olympus")), ("timezone", "format")),
        (with("alertAt", json!([0.5, 1.0])), ("alertAt[1]", "range")),
        (with("onExceed", json!("cancel")), ("onExceed", "enum")),
        (with("match", json!({"user": "x"})), ("match.user", "unknown")),
        (json!({"limit": 1, "period": "day"}), ("match", "required")),
    ] {
        let (field, rule) = admin.post("/api/budgets", &budget).await.fault();
        assert_eq!((field.as_str(), rule.as_str()), fault);
    }
    assert_eq!(operator.post("/api/budgets", &right).await.refused(403), "FORBIDDEN");
    let made = admin.post("/api/budgets", &right).await.expect_ok();
    let id = made["id"].as_str().expect("an id");
    assert_eq!(operator.get("/api/budgets").await.expect_ok()[0]["id"], id);
    admin.delete(&format!("/api/budgets/{id}")).await.expect_ok();
    assert_eq!(admin.get(&format!("/api/budgets/{id}")).await.refused(404), "NOT_FOUND");
    let audit = admin.get("/api/audit?action=budget.created,budget.deleted").await.expect_ok();
    assert_eq!(audit.as_array().map(Vec::len), Some(2));
    for query in
        ["groupBy=user", "", "groupBy=day&from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z"]
    {
        assert_eq!(
            operator.get(&format!("/api/usage?{query}")).await.refused(400),
            "VALIDATION_ERROR"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_counts_when_it_comes_and_while_a_reviewer_holds_it() {
    let (server, _prices) = server();
    let key = server.key("worker").await;
    let operator = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let tags = json!(["customer:K-1", "customer:K-2", "team"]);
    let held = json!({
        "prompt": "p", "model": "priced", "maxTokens": 6, "tags": tags, "hitl": {"required": true},
    });
    let id = operator.submit(&held).await;
    complete(&mut worker, 5).await;
    operator.task_when(&id, |task| task["waitingFor"] == "approval").await;
    let step = json!([{"id": "a", "prompt": "p", "model": "priced", "maxTokens": 6, "requiresApproval": true}]);
    let run = operator.execute(&operator.plan(&step).await, &json!({})).await;
    complete(&mut worker, 4).await;
    let paid = operator.execution_when(&run, |e| e["usage"]["totalCost"] == 4.0).await;
    assert_eq!(paid["waitingFor"], "approval", "{paid:#}");
    let task = paid["steps"]["a"]["taskId"].as_str().expect("an id").to_owned();
    let listed = operator.get("/api/plans/executions").await.expect_ok();
    let of_task = operator.task(&task).await;
    for shown in [&paid, &listed[0], &of_task] {
        assert!(shown["waitingSince"].is_string(), "{shown:#}");
    }
    assert_eq!(listed[0]["usage"]["totalCost"], 4.0);

    let usage = async |query: &str| {
        let usage = operator.get(&format!("/api/usage?{query}")).await.expect_ok();
        let groups = usage["groups"].as_array().expect("a list").clone();
        let mut groups: Vec<_> =
            groups.iter().map(|it| (it["key"].clone(), it["totalCost"].clone())).collect();
        groups.sort_by_key(|(key, _)| key.to_string());
        (groups, usage["total"]["totalCost"].clone())
    };
    let (groups, total) = usage("groupBy=tagKey&tagKey=customer").await;
    let expected = [(json!("K-1"), 5.0), (json!("K-2"), 5.0), (Value::Null, 4.0)];
    assert_eq!(groups, expected.map(|(key, cost)| (key, json!(cost))));
    assert_eq!(total, 9.0);
    let day =
        async |zone: &str| usage(&format!("groupBy=day&timezone={zone}")).await.0[0].0.clone();
    assert_ne!(day("Pacific/Kiritimati").await, day("Pacific/Pago_Pago").await);

    // A decision changes neither the sum nor its time.
    let before = operator.get("/api/hitl/pending").await.expect_ok();
    let since = before[0]["createdAt"].as_str().expect("a time").to_owned();
    operator.post(&format!("/api/hitl/{task}/reject"), &json!({"reason": "no"})).await.expect_ok();
    let ended = operator.execution_with_status(&run, "failed").await;
    assert_eq!(ended["usage"]["totalCost"], 4.0);
    let (_, total) = usage(&format!("groupBy=model&from={since}")).await;
    assert_eq!(total, 4.0, "from the later hold on");
    let (_, total) = usage(&format!("groupBy=model&to={since}")).await;
    assert_eq!(total, 5.0, "before it");
    for query in ["groupBy=tagKey", "groupBy=day&tagKey=x", "groupBy=day&timezone=Mars"] {
        let refused = operator.get(&format!("/api/usage?{query}")).await;
        assert_eq!(refused.refused(400), "VALIDATION_ERROR", "{query}");
    }
}

/// Before: usage left it out, and the budgets had it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_attempt_has_cost_is_in_the_usage_of_a_task_that_is_cancelled() {
    let (server, _prices) = server();
    let key = server.key("worker").await;
    let (admin, operator) = (server.admin().await, server.client("operator").await);
    let budget_id = create(&admin, 10.0, "alert").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let mut paid = task(6);
    paid["retry"] = json!({"backoffMs": 300_000});
    let id = operator.submit(&paid).await;
    let assigned = worker.assignment().await;
    worker
        .send(json!({
            "type": "fail", "lease": assigned["lease"], "retryable": true,
            "error": {"code": "PROVIDER_ERROR", "message": "it fails"}, "usage": {"input": 1, "output": 5},
        }))
        .await;
    worker.receive("ack").await;
    operator.delete(&format!("/api/tasks/{id}")).await.expect_ok();
    assert_eq!(operator.task(&id).await["usage"]["totalCost"], 5.0);
    assert_eq!(budget(&operator, &budget_id).await["spent"], 5.0);
    let usage = operator.get("/api/usage?groupBy=model").await.expect_ok();
    assert_eq!((&usage["total"]["tasks"], &usage["total"]["totalCost"]), (&json!(1), &json!(5.0)));
    let before = "groupBy=model&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z";
    let usage = operator.get(&format!("/api/usage?{before}")).await.expect_ok();
    assert_eq!(usage["total"]["tasks"], 0);
}
