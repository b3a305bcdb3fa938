//! The execution endpoints: plans that run to their end on a worker, and those that do not.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{Events, FakeWorker, Server};

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn statuses(execution: &Value) -> BTreeMap<&str, &str> {
    let steps = execution["steps"].as_object().expect("steps");
    steps.iter().map(|(id, step)| (id.as_str(), step["status"].as_str().expect("a text"))).collect()
}

/// Answers with the prompt itself.
async fn echo(server: &Server) {
    let worker = FakeWorker::connect(server, &server.key("worker").await, 8).await;
    worker.run(|task| Ok(task["prompt"].as_str().unwrap_or_default().to_owned()));
}

/// Fails every task with this word in its prompt, and echoes the rest.
async fn failing(server: &Server, word: &'static str) -> tokio::task::JoinHandle<()> {
    let worker = FakeWorker::connect(server, &server.key("worker").await, 8).await;
    worker.run(move |task| {
        let prompt = task["prompt"].as_str().unwrap_or_default();
        if prompt.contains(word) { Err("no".to_owned()) } else { Ok(prompt.to_owned()) }
    })
}

#[tokio::test]
async fn a_diamond_runs_to_its_end_and_outputs_flow_down() {
    let server = Server::start();
    let client = server.client("operator").await;
    let plan = client
        .plan(&json!([
            {"id": "top", "prompt": "T({{input.x}})"},
            {"id": "left", "prompt": "L({{top.output}})", "dependsOn": ["top"]},
            {"id": "right", "prompt": "R({{ top.output }})", "dependsOn": ["top"], "systemPrompt": "be {{input.y.z}}"},
            {"id": "end", "prompt": "{{left.output}}+{{right.output}}+{{input.y}}", "dependsOn": ["left", "right"]},
        ]))
        .await;
    let body = json!({"input": {"x": "1", "y": {"z": [1, null]}}});
    let begun = client.post(&format!("/api/plans/{plan}/execute"), &body).await.expect(201);
    for field in ["id", "planId", "status", "progress", "startedAt"] {
        assert!(keys(&begun).contains(&field), "{field} in {begun:#}");
    }
    let id = begun["id"].as_str().expect("an id");
    assert!(id.starts_with("dt_exec_") && id.len() == 34, "{id}");
    assert_eq!((&begun["planId"], &begun["status"]), (&json!(plan), &json!("running")));
    let progress = json!({
        "total": 4, "completed": 0, "running": 0, "pending": 4, "failed": 0, "cancelled": 0,
        "skipped": 0, "awaitingApproval": 0,
    });
    assert_eq!(begun["progress"], progress);
    assert!(begun.get("completedAt").is_none() && begun.get("templateId").is_none());
    let waiting = client.execution_when(id, |e| e["steps"]["top"]["taskId"].is_string()).await;
    assert_eq!(waiting["steps"]["top"]["status"], "pending");
    assert_eq!(waiting["steps"]["top"]["waitingFor"], "worker");
    assert_eq!(keys(&waiting["steps"]["end"]), ["status"]);
    assert_eq!(keys(&waiting["steps"]), ["top", "left", "right", "end"], "in their order");

    echo(&server).await;
    let done = client.execution_with_status(id, "completed").await;
    let output = |step: &str| done["steps"][step]["output"].as_str().expect("an output").to_owned();
    assert_eq!(output("top"), "T(1)");
    assert_eq!(output("end"), "L(T(1))+R(T(1))+{\"z\":[1,null]}");
    assert_eq!(done["progress"]["completed"], 4);
    assert_eq!((&done["usage"]["input"], &done["usage"]["total"]), (&json!(12), &json!(32)));
    assert!(done["usage"]["totalCost"].is_number() && done.get("error").is_none());
    assert_eq!(done["completedAt"].as_str().map(str::len), Some(24));
    let step = &done["steps"]["left"];
    for field in
        ["status", "output", "startedAt", "completedAt", "durationMs", "usage", "taskId", "attempt"]
    {
        assert!(keys(step).contains(&field), "{field} in {step:#}");
    }
    assert_eq!((&step["usage"]["input"], &step["attempt"]), (&json!(3), &json!(1)));
    let task = client.task(done["steps"]["right"]["taskId"].as_str().expect("an id")).await;
    assert_eq!((&task["planExecutionId"], &task["stepId"]), (&json!(id), &json!("right")));
    assert_eq!(task["systemPrompt"], "be [1,null]");

    let list = client.get(&format!("/api/plans/executions?planId={plan}&status=completed")).await;
    assert_eq!(list.body["pagination"]["total"], 1);
    let item = &list.expect_ok()[0];
    assert_eq!((&item["id"], &item["progress"]), (&json!(id), &done["progress"]));
    assert!(item.get("steps").is_none());
    for (query, total) in [
        ("status=running,failed", 0),
        ("templateId=x", 0),
        ("createdBefore=2020-01-01T00:00:00Z", 0),
        ("", 1),
    ] {
        let list = client.get(&format!("/api/plans/executions?{query}")).await;
        assert_eq!(list.body["pagination"]["total"], total, "{query}");
    }
    for refused in [
        client.delete(&format!("/api/plans/executions/{id}")).await,
        client.post(&format!("/api/plans/executions/{id}/retry"), &json!({})).await,
    ] {
        assert_eq!(refused.refused(409), "INVALID_STATE");
    }
}

#[tokio::test]
async fn what_a_model_writes_is_text_wherever_it_goes() {
    let server = Server::with(&[("TEMPLATES__ENV_ALLOW", "HOME")]);
    let client = server.client("operator").await;
    let evil = "{{input.secret}} {{env.HOME}} {{other.output}} {{meta.executionId}} {{";
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    worker.run(move |task| {
        let prompt = task["prompt"].as_str().unwrap_or_default();
        Ok(if prompt == "evil" { evil.to_owned() } else { prompt.to_owned() })
    });
    let plan = client
        .plan(&json!([
            {"id": "evil", "prompt": "evil"},
            {"id": "other", "prompt": "other {{input.secret}}"},
            {"id": "end", "prompt": "<{{evil.output}}|{{other.output}}|{{input.x}}>", "dependsOn": ["evil", "other"]},
        ]))
        .await;
    let body = json!({"input": {"secret": "s3cret", "x": "{{evil.output}}"}});
    let id = client.execute(&plan, &body).await;
    let done = client.execution_with_status(&id, "completed").await;
    let expected = format!("<{evil}|other s3cret|{{{{evil.output}}}}>");
    assert_eq!(done["steps"]["end"]["output"], expected);
}

#[tokio::test]
async fn a_condition_skips_a_step_and_not_those_behind_it() {
    let server = Server::start();
    let client = server.client("operator").await;
    echo(&server).await;
    let plan = client
        .plan(&json!([
            {"id": "a", "prompt": "yes"},
            {"id": "b", "prompt": "b", "dependsOn": ["a"], "condition": "steps[\"a\"].output == 'no'"},
            {"id": "c", "prompt": "c[{{b.output}}]", "dependsOn": ["b"], "condition": "input.n > 1"},
            {"id": "d", "prompt": "d", "condition": "input.n + 1"},
        ]))
        .await;
    let id = client.execute(&plan, &json!({"input": {"n": 2}})).await;
    let ended = client.execution_with_status(&id, "failed").await;
    let expected = [("a", "completed"), ("b", "skipped"), ("c", "completed"), ("d", "failed")];
    assert_eq!(statuses(&ended), BTreeMap::from(expected));
    assert_eq!(ended["steps"]["c"]["output"], "c[]");
    assert_eq!(ended["steps"]["d"]["error"]["code"], "CONDITION_FAILED");
    assert_eq!(
        (&ended["error"]["code"], &ended["error"]["stepId"]),
        (&json!("CONDITION_FAILED"), &json!("d"))
    );
    assert_eq!(
        (&ended["progress"]["skipped"], &ended["progress"]["failed"]),
        (&json!(1), &json!(1))
    );
}

#[tokio::test]
async fn a_failed_step_stops_what_is_behind_it_and_a_retry_keeps_what_is_done() {
    let server = Server::start();
    let client = server.client("operator").await;
    let worker = failing(&server, "bad").await;
    let steps = json!([
        {"id": "good", "prompt": "good"},
        {"id": "bad", "prompt": "bad"},
        {"id": "behind", "prompt": "{{bad.output}}", "dependsOn": ["bad"]},
        {"id": "beside", "prompt": "{{good.output}}", "dependsOn": ["good"]},
    ]);
    let plan = client.plan(&steps).await;
    let id = client.execute(&plan, &json!({})).await;
    let ended = client.execution_with_status(&id, "failed").await;
    let expected = [
        ("good", "completed"),
        ("bad", "failed"),
        ("behind", "cancelled"),
        ("beside", "completed"),
    ];
    assert_eq!(statuses(&ended), BTreeMap::from(expected));
    assert_eq!(ended["steps"]["behind"]["error"]["code"], "DEPENDENCY_FAILED");
    assert_eq!(ended["steps"]["bad"]["error"], json!({"code": "PROVIDER_ERROR", "message": "no"}));
    assert_eq!(ended["error"], json!({"code": "PROVIDER_ERROR", "message": "no", "stepId": "bad"}));
    let kept = ended["steps"]["good"]["taskId"].clone();
    worker.abort();
    let _ = worker.await;

    echo(&server).await;
    let again = client.post(&format!("/api/plans/executions/{id}/retry"), &json!({})).await;
    let again = again.expect(200);
    assert_eq!((&again["id"], &again["status"]), (&json!(id), &json!("running")));
    assert!(again.get("error").is_none() && again.get("completedAt").is_none());
    let done = client.execution_with_status(&id, "completed").await;
    assert_eq!(
        (&done["steps"]["good"]["taskId"], &done["steps"]["behind"]["output"]),
        (&kept, &json!("bad"))
    );
}

#[tokio::test]
async fn a_cancelled_execution_keeps_what_is_done_and_gives_out_nothing_more() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let plan = client
        .plan(&json!([
            {"id": "a", "prompt": "a"},
            {"id": "b", "prompt": "b", "dependsOn": ["a"]},
            {"id": "c", "prompt": "c", "dependsOn": ["b"]},
        ]))
        .await;
    let id = client.execute(&plan, &json!({})).await;
    let first = worker.assignment().await;
    worker.complete(&first["lease"], "done").await;
    let second = worker.assignment().await;
    let running = client.execution_when(&id, |e| e["steps"]["b"]["status"] == "running").await;
    assert!(running["steps"]["b"]["startedAt"].is_string());
    assert_eq!(
        (&running["progress"]["running"], &running["progress"]["completed"]),
        (&json!(1), &json!(1))
    );
    let viewer = server.client("viewer").await;
    viewer.delete(&format!("/api/plans/executions/{id}")).await.refused(403);
    let cancelled = client.delete(&format!("/api/plans/executions/{id}")).await.expect_ok();
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(
        (&cancelled["progress"]["cancelled"], &cancelled["progress"]["completed"]),
        (&json!(2), &json!(1))
    );
    let frame = worker.receive("cancel").await;
    assert_eq!(frame["lease"], second["lease"]);
    let kept = client.execution(&id).await;
    let expected = [("a", "completed"), ("b", "cancelled"), ("c", "cancelled")];
    assert_eq!(
        (statuses(&kept), &kept["steps"]["a"]["output"]),
        (BTreeMap::from(expected), &json!("done"))
    );
    client.delete(&format!("/api/plans/executions/{id}")).await.refused(409);
    viewer.get(&format!("/api/plans/executions/{id}")).await.expect_ok();
}

#[tokio::test]
async fn limits_of_time_and_money_end_an_execution() {
    let server = Server::start();
    let client = server.client("operator").await;
    let plan = client
        .plan(&json!([{"id": "a", "prompt": "a", "maxTokens": 1000, "model": "gpt-4o"}]))
        .await;
    let path = format!("/api/plans/{plan}/execute");
    let refused = client.post(&path, &json!({"options": {"maxCost": 0.000_001}})).await;
    assert_eq!(refused.refused(403), "BUDGET_EXCEEDED");
    let id = client.execute(&plan, &json!({"options": {"timeoutMs": 50}})).await;
    let ended = client.execution_with_status(&id, "failed").await;
    assert_eq!(ended["error"]["code"], "EXECUTION_TIMEOUT");
    assert!(ended["error"].get("stepId").is_none(), "it is of the whole");
    assert_eq!(ended["steps"]["a"]["status"], "cancelled");
}

#[tokio::test]
async fn an_execution_is_started_once_for_each_key() {
    let server = Server::start();
    let client = server.client("operator").await;
    let plan = client.plan(&json!([{"id": "a", "prompt": "{{input.x}}"}])).await;
    let path = format!("/api/plans/{plan}/execute");
    let body = json!({"input": {"x": 1}});
    let first = client.post_once(&path, "k", &body).await;
    assert!(first.headers.get("idempotent-replayed").is_none());
    let first = first.expect(201);
    let again = client.post_once(&path, "k", &body).await;
    assert_eq!(again.headers["idempotent-replayed"], "true");
    assert_eq!(again.expect(201), first);
    let other = client.post_once(&path, "k", &json!({"input": {"x": 2}})).await;
    assert_eq!(other.refused(422), "IDEMPOTENCY_KEY_REUSED");
    let fast = json!({"input": {"x": 1}, "options": {"failFast": true}});
    client.post_once(&path, "k", &fast).await.refused(422);
    assert_eq!(client.get("/api/plans/executions").await.body["pagination"]["total"], 1);
}

#[tokio::test]
async fn events_tell_an_execution_s_life() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut events = Events::open(&client, "events=execution.*,step.*", None).await;
    let plan = client
        .plan(&json!([
            {"id": "a", "prompt": "a"},
            {"id": "b", "prompt": "b", "dependsOn": ["a"], "condition": "false"},
        ]))
        .await;
    let id = client.execute(&plan, &json!({})).await;
    echo(&server).await;
    let (mut told, mut first) = (Vec::new(), None);
    loop {
        let (name, event) = events.next().await;
        first.get_or_insert_with(|| event["cursor"].as_str().expect("a cursor").to_owned());
        let data = &event["data"];
        match event["resource"]["kind"].as_str() {
            Some("execution") => {
                assert_eq!((&data["id"], &data["planId"]), (&json!(id), &json!(plan)));
                assert!(data["startedAt"].is_string() && data["usage"]["total"].is_number());
            }
            Some("step") => {
                assert_eq!(
                    (&data["executionId"], &event["resource"]["executionId"]),
                    (&json!(id), &json!(id))
                );
                assert!(data["status"].is_string(), "{event:#}");
            }
            other => panic!("{other:?}"),
        }
        let what =
            if name.starts_with("step") { data["id"].clone() } else { data["status"].clone() };
        told.push((name.clone(), what.as_str().expect("a text").to_owned()));
        if name == "execution.completed" {
            break;
        }
    }
    let place = |name: &str, what: &str| {
        let found = told.iter().position(|(n, w)| (n.as_str(), w.as_str()) == (name, what));
        found.unwrap_or_else(|| panic!("{name} {what} in {told:?}"))
    };
    assert!(place("execution.started", "running") < place("step.started", "a"));
    assert!(place("step.started", "a") < place("step.completed", "a"));
    assert!(place("step.completed", "a") < place("execution.completed", "completed"));
    assert!(place("step.skipped", "b") < place("execution.completed", "completed"));

    let other = client.execute(&plan, &json!({})).await;
    client.execution_with_status(&other, "completed").await;
    let query = format!("events=execution.*&executionId={other}");
    let mut one = Events::open(&client, &query, first.as_deref()).await;
    let mut last = String::new();
    while last != "execution.completed" {
        let (name, event) = one.next().await;
        assert_eq!(event["data"]["id"], json!(other), "{name}");
        last = name;
    }
}

#[tokio::test]
async fn a_step_shows_why_its_model_stopped() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let plan = client.plan(&json!([{"id": "a", "prompt": "p"}])).await;
    let id = client.execute(&plan, &json!({})).await;
    let lease = worker.assignment().await["lease"].clone();
    worker
        .send(json!({
            "type": "complete", "lease": lease, "output": "half of i", "finishReason": "length",
            "usage": {"input": 1, "output": 1},
        }))
        .await;
    let execution = client.execution_with_status(&id, "completed").await;
    assert_eq!(execution["steps"]["a"]["finishReason"], "length");
    let task = execution["steps"]["a"]["taskId"].as_str().expect("an id");
    assert_eq!(client.task(task).await["finishReason"], "length");
}

#[tokio::test]
async fn what_ended_when_and_why_is_a_filter() {
    let server = Server::start();
    let client = server.client("operator").await;
    failing(&server, "broken").await;
    let run = async |prompt: &str, gate: bool| {
        let step = json!([{"id": "a", "prompt": prompt, "requiresApproval": gate, "retry": {"maxAttempts": 1}}]);
        client.execute(&client.plan(&step).await, &json!({})).await
    };
    let good = run("good", false).await;
    client.execution_with_status(&good, "completed").await;
    let broken = run("broken", false).await;
    let broke = client.execution_with_status(&broken, "failed").await;
    let refused = run("refused", true).await;
    let held =
        client.execution_when(&refused, |e| e["steps"]["a"]["awaitingApproval"] == true).await;
    let task = held["steps"]["a"]["taskId"].as_str().expect("an id").to_owned();
    let began = held["startedAt"].as_str().expect("a time").to_owned();
    let body = json!({"reason": "not so"});
    client.post(&format!("/api/hitl/{task}/reject"), &body).await.expect_ok();
    let ended = client.execution_with_status(&refused, "failed").await;
    let (first, last) = (broke["completedAt"].as_str(), ended["completedAt"].as_str());
    let (first, last) = (first.expect("a time"), last.expect("a time"));
    for (query, expected) in [
        ("status=failed".to_owned(), vec![&refused, &broken]),
        ("status=failed&error=REJECTED".to_owned(), vec![&refused]),
        ("status=failed&exceptError=REJECTED".to_owned(), vec![&broken]),
        ("error=PROVIDER_ERROR,REJECTED".to_owned(), vec![&refused, &broken]),
        (format!("endedAfter={last}"), vec![&refused]),
        (format!("endedBefore={last}&endedAfter={first}"), vec![&broken]),
        (format!("endedAfter={first}&createdAfter={began}"), vec![&refused]),
        ("endedBefore=2020-01-01T00:00:00Z".to_owned(), vec![]),
        ("orderBy=completedAt&order=asc".to_owned(), vec![&good, &broken, &refused]),
    ] {
        let page = client.get(&format!("/api/plans/executions?{query}")).await;
        assert_eq!(page.body["pagination"]["total"], expected.len(), "{query}");
        let found = page.expect_ok();
        let found = found.as_array().expect("a page").iter();
        let found: Vec<_> = found.filter_map(|e| e["id"].as_str()).collect();
        assert_eq!(found, expected, "{query}");
    }
    for (query, total) in [
        (format!("endedAfter={last}"), 1),
        (format!("endedBefore={last}"), 2),
        ("endedAfter=2020-01-01T00:00:00Z".to_owned(), 3),
    ] {
        let page = client.get(&format!("/api/tasks?{query}")).await;
        assert_eq!(page.body["pagination"]["total"], total, "{query}");
    }
    let unknown = client.get("/api/plans/executions?error=NO_SUCH").await;
    assert_eq!(unknown.refused(400), "VALIDATION_ERROR");
}

#[tokio::test]
async fn items_are_found_by_the_beginnings_of_words_of_titles_tags_and_keys() {
    let server = Server::start();
    let client = server.client("operator").await;
    let plan = client
        .plan(&json!([{"id": "a", "prompt": "secret words", "requiresApproval": true}]))
        .await;
    let start = async |body: Value| client.execute(&plan, &body).await;
    let claim = start(json!({"title": "Claim K-10241 of Anna Müller"})).await;
    let letter = start(json!({"title": "Letter", "tags": ["customer:K-10242"]})).await;
    let path = format!("/api/plans/{plan}/execute");
    let keyed = client
        .request(reqwest::Method::POST, &path)
        .header("Idempotency-Key", "night-7")
        .json(&json!({}));
    let keyed = client.send(keyed).await.expect(201);
    assert_eq!(keyed["idempotencyKey"], "night-7");
    let keyed = keyed["id"].as_str().expect("an id").to_owned();
    for (search, expected) in [
        ("K-1024", vec![&letter, &claim]),
        ("10241", vec![&claim]),
        ("anna%20claim", vec![&claim]),
        ("M%C3%9CLL", vec![&claim]),
        ("customer:k-10242", vec![&letter]),
        ("night", vec![&keyed]),
        ("anna%20letter", vec![]),
        ("laim", vec![]),
        ("secret", vec![]),
        (claim.as_str(), vec![&claim]),
    ] {
        let list = client.get(&format!("/api/plans/executions?search={search}")).await;
        assert_eq!(list.body["pagination"]["total"], expected.len(), "{search}");
        let found = list.expect_ok();
        let found = found.as_array().expect("a list").iter();
        let found: Vec<_> = found.filter_map(|e| e["id"].as_str()).collect();
        assert_eq!(found, expected, "{search}");
    }
    let task = json!({
        "prompt": "x", "title": "Mail to Berta", "idempotencyKey": "mail-3", "concurrencyKey": "mailbox",
        "hitl": {"required": true},
    });
    let task = client.submit(&task).await;
    for search in ["berta", "mail-3", "mailbox", task.as_str()] {
        let list = client.get(&format!("/api/tasks?search={search}")).await.expect_ok();
        assert_eq!(
            (&list[0]["id"], list.as_array().map(Vec::len)),
            (&json!(task), Some(1)),
            "{search}"
        );
        assert_eq!(list[0]["idempotencyKey"], "mail-3");
    }
    echo(&server).await;
    client.task_when(&task, |task| task["awaitingApproval"] == true).await;
    for search in ["berta", "mail-3", "mailbox", task.as_str()] {
        let list = client.get(&format!("/api/hitl/pending?search={search}")).await.expect_ok();
        let item = &list[0];
        assert_eq!(
            (&item["taskId"], list.as_array().map(Vec::len)),
            (&json!(task), Some(1)),
            "{search}"
        );
        assert_eq!(
            (&item["idempotencyKey"], &item["concurrencyKey"]),
            (&json!("mail-3"), &json!("mailbox"))
        );
    }
    // A task that tries again was made by no key.
    client
        .post(&format!("/api/hitl/{task}/reject"), &json!({"reason": "no", "retry": true}))
        .await
        .expect_ok();
    let found = client.get("/api/tasks?search=mail-3").await;
    assert_eq!(found.body["pagination"]["total"], 1);
    let found = client.get("/api/tasks?search=berta").await;
    assert_eq!(found.body["pagination"]["total"], 2);
}
