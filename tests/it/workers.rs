//! The worker protocol, frame by frame.

use serde_json::{Value, json};

use crate::support::{FakeWorker, Server};

#[tokio::test]
async fn a_zombie_s_late_result_heartbeat_and_delta_change_nothing() {
    let server = Server::with(&[
        ("WORKER__LEASE", "2s"),
        ("WORKER__HEARTBEAT", "300ms"),
        ("WORKER__SILENT_AFTER", "800ms"),
    ]);
    let client = server.client("operator").await;
    let key = server.key("worker").await;
    let mut zombie = FakeWorker::connect(&server, &key, 1).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let old = zombie.assignment().await["lease"].clone();
    // It falls silent; its lease runs out and another worker gets the task.
    let mut other = FakeWorker::connect(&server, &key, 1).await;
    let assigned = other.assignment().await;
    assert_eq!((&assigned["task"]["id"], &assigned["attempt"]), (&json!(id), &json!(1)));
    assert_ne!(assigned["lease"], old);

    // The zombie is back, on a new connection, and says everything that it can say.
    let mut zombie = FakeWorker::connect(&server, &key, 1).await;
    assert_eq!(zombie.complete(&old, "zombie").await["result"], "stale");
    zombie.send(json!({"type": "heartbeat", "leases": [old]})).await;
    assert_eq!(zombie.receive("leases").await["lost"], json!([old]));
    zombie.send(json!({"type": "delta", "lease": old, "text": "zombie"})).await;
    let error = json!({"code": "PROVIDER_ERROR", "message": "zombie"});
    zombie.send(json!({"type": "fail", "lease": old, "error": error, "retryable": false})).await;
    assert_eq!(zombie.receive("ack").await["result"], "stale");
    let task = client.task(&id).await;
    assert_eq!((&task["status"], task.get("output")), (&json!("running"), None));

    let lease = assigned["lease"].clone();
    assert_eq!(other.complete(&lease, "right").await["result"], "applied");
    assert_eq!(other.complete(&lease, "again").await["result"], "duplicate");
    assert_eq!(client.task(&id).await["output"], "right");
}

#[tokio::test]
async fn a_dropped_socket_keeps_its_leases_and_resumes() {
    let server = Server::start();
    let client = server.client("operator").await;
    let key = server.key("worker").await;
    let mut worker = FakeWorker::connect(&server, &key, 2).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let lease = worker.assignment().await["lease"].clone();
    let worker_id = worker.id.clone();
    drop(worker);
    let register = json!({
        "type": "register", "name": "fake", "version": "0", "queues": ["default"], "models": ["*"],
        "concurrency": 2, "resume": {"workerId": worker_id, "leases": [lease, "nonsense"]},
    });
    let mut worker = FakeWorker::register(&server.url, &key, register).await;
    assert_eq!(
        (worker.id.as_str(), &worker.registered["kept"]),
        (worker_id.as_str(), &json!([lease]))
    );
    worker.complete(&lease, "out").await;
    assert_eq!(client.task(&id).await["attempt"], 1);
}

#[tokio::test]
async fn cancelling_sends_a_cancel_frame_and_frees_the_place() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let first = client.submit(&json!({"prompt": "1"})).await;
    let lease = worker.assignment().await["lease"].clone();
    let second = client.submit(&json!({"prompt": "2"})).await;
    client.delete(&format!("/api/tasks/{first}")).await.expect_ok();
    let cancel = worker.receive("cancel").await;
    assert_eq!((&cancel["lease"], &cancel["reason"]), (&lease, &json!("cancelled")));
    assert_eq!(worker.assignment().await["task"]["id"], second.as_str());
    assert_eq!(worker.complete(&lease, "late").await["result"], "stale");
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_is_ended_by_the_server() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let id = client.submit(&json!({"prompt": "p", "timeoutMs": 100})).await;
    for attempt in 1..=3 {
        let assigned = worker.assignment().await;
        assert_eq!(assigned["attempt"], attempt);
        assert_eq!(worker.receive("cancel").await["reason"], "timeout");
    }
    let task = client.task_with_status(&id, "failed").await;
    assert_eq!((&task["error"]["code"], &task["retryCount"]), (&json!("TASK_TIMEOUT"), &json!(2)));
}

#[tokio::test]
async fn priority_goes_first_and_only_announced_models_are_given_out() {
    let server = Server::start();
    let client = server.client("operator").await;
    for (prompt, priority, model) in [
        ("low", 1, "gpt-x"),
        ("high", 10, "gpt-y"),
        ("other", 10, "claude-z"),
        ("middle", 5, "gpt-x"),
    ] {
        client.submit(&json!({"prompt": prompt, "priority": priority, "model": model})).await;
    }
    let register = json!({
        "type": "register", "name": "fake", "version": "0", "queues": ["default"],
        "models": ["gpt-*"], "concurrency": 1,
    });
    let key = server.key("worker").await;
    let mut worker = FakeWorker::register(&server.url, &key, register).await;
    for expected in ["high", "middle", "low"] {
        let assigned = worker.assignment().await;
        assert_eq!(assigned["task"]["prompt"], expected);
        worker.complete(&assigned["lease"], "x").await;
    }
    let pending = client.get("/api/tasks?status=pending").await;
    assert_eq!(pending.body["pagination"]["total"], 1);
}

#[tokio::test]
async fn a_draining_worker_finishes_and_gets_nothing_new() {
    let server = Server::start();
    let (client, admin) = (server.client("operator").await, server.admin().await);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 2).await;
    client.submit(&json!({"prompt": "1"})).await;
    let lease = worker.assignment().await["lease"].clone();
    let path = format!("/api/workers/{}/drain", worker.id);
    assert_eq!(admin.post(&path, &json!({})).await.expect_ok()["status"], "draining");
    assert!(worker.receive("drain").await["deadlineMs"].is_u64());
    client.submit(&json!({"prompt": "2"})).await;
    assert_eq!(worker.complete(&lease, "x").await["result"], "applied");
    let listed = client.get("/api/workers").await.expect_ok();
    assert_eq!((&listed[0]["status"], &listed[0]["running"]), (&json!("draining"), &json!(0)));
    client.delete("/api/workers/x/drain").await.refused(405);
    admin.post("/api/workers/wrk_x/drain", &json!({})).await.refused(404);
}

#[tokio::test]
async fn a_bad_frame_is_answered_with_an_error_and_the_line_holds() {
    let server = Server::start();
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    for frame in [
        json!({"type": "nonsense"}),
        json!({"no": "type"}),
        json!([]),
        json!({"type": "heartbeat"}),
        json!({"type": "heartbeat", "leases": [5]}),
        json!({"type": "complete", "lease": "x", "output": "y", "usage": {"input": -1, "output": 0}}),
        json!({"type": "drain", "surprise": 1}),
    ] {
        worker.send(frame).await;
        assert!(worker.receive("error").await["error"]["message"].is_string());
    }
    worker.send(json!({"type": "heartbeat", "leases": []})).await;
    worker.receive("leases").await;
    assert_eq!(worker.complete(&json!("x"), "y").await["result"], "stale");
}

#[tokio::test]
async fn only_worker_keys_and_admins_may_connect() {
    let server = Server::start();
    for (role, status) in [("viewer", 403), ("operator", 403)] {
        let key = server.key(role).await;
        assert_eq!(FakeWorker::refused(&server.url, &key).await, status);
    }
    assert_eq!(FakeWorker::refused(&server.url, "svc_worker_nonsense").await, 401);
    FakeWorker::connect(&server, &server.key("admin").await, 1).await;
}

#[tokio::test]
async fn a_lease_that_cannot_be_read_is_lost_and_the_others_go_on() {
    let server = Server::start();
    let client = server.client("operator").await;
    let key = server.key("worker").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    client.submit(&json!({"prompt": "p"})).await;
    let lease = worker.assignment().await["lease"].clone();
    worker.send(json!({"type": "heartbeat", "leases": ["nonsense", lease, ""]})).await;
    let leases = worker.receive("leases").await;
    assert_eq!(leases["renewed"], json!([lease]));
    assert_eq!(leases["lost"], json!(["nonsense", ""]));

    let register = |id: &str| {
        json!({
            "type": "register", "name": "w", "version": "0", "queues": ["default"], "models": ["*"],
            "concurrency": 1, "resume": {"workerId": id, "leases": ["nonsense", lease]},
        })
    };
    let back = FakeWorker::register(&server.url, &key, register(&worker.id)).await;
    assert_eq!(back.registered["kept"], json!([lease]));
    assert_eq!(back.registered["lost"], json!(["nonsense"]));
    let stranger = FakeWorker::register(&server.url, &key, register("nobody")).await;
    assert_ne!(stranger.id, worker.id);
    assert_eq!(stranger.registered["kept"], json!([]));
    assert_eq!(stranger.registered["lost"], json!(["nonsense", lease]));
}

#[tokio::test]
async fn a_tasks_own_policy_says_how_often_it_is_tried() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let retry = json!({"maxAttempts": 2, "backoffMs": 1, "maxBackoffMs": 5});
    let id = client.submit(&json!({"prompt": "p", "retry": retry})).await;
    assert_eq!(client.task(&id).await["retry"], retry);
    for attempt in 1..=2 {
        let given = worker.assignment().await;
        assert_eq!(given["attempt"], attempt);
        let error = json!({"code": "PROVIDER_ERROR", "message": "no"});
        let fail =
            json!({"type": "fail", "lease": given["lease"], "error": error, "retryable": true});
        worker.send(fail).await;
    }
    let failed = client.task_with_status(&id, "failed").await;
    assert_eq!(
        (&failed["attempt"], &failed["error"]["code"]),
        (&json!(2), &json!("PROVIDER_ERROR"))
    );
    for (retry, field) in [
        (json!({"maxAttempts": 0}), "retry.maxAttempts"),
        (json!({"maxAttempts": 21}), "retry.maxAttempts"),
        (json!({"backoffMs": 300_001}), "retry.backoffMs"),
        (json!({"maxBackoffMs": -1}), "retry.maxBackoffMs"),
    ] {
        let answer = client.post("/api/tasks", &json!({"prompt": "p", "retry": retry})).await;
        assert_eq!(answer.fault(), (field.to_owned(), "range".to_owned()), "{retry}");
    }
    let plain = client.submit(&json!({"prompt": "p"})).await;
    assert!(client.task(&plain).await.get("retry").is_none(), "the default is left out");
}

#[tokio::test]
async fn work_that_no_connected_worker_takes_is_accepted_with_a_warning() {
    let server = Server::start();
    let client = server.client("operator").await;
    let warnings = async |path: &str, body: &Value| {
        client.post(path, body).await.expect(201)["warnings"].clone()
    };
    let task = json!({"prompt": "p"});
    let alone = warnings("/api/tasks", &task).await;
    assert!(alone[0].as_str().is_some_and(|it| it.contains("no worker is connected")), "{alone}");

    let register = json!({
        "type": "register", "name": "ollama", "version": "0", "queues": ["default"],
        "models": ["llama3.2"], "concurrency": 1,
    });
    let _worker = FakeWorker::register(&server.url, &server.key("worker").await, register).await;
    let says =
        "no connected worker runs the model smollm2-135m; models of connected workers: llama3.2";
    assert_eq!(warnings("/api/tasks", &task).await, json!([says]));
    let known = json!({"prompt": "p", "model": "llama3.2"});
    assert_eq!(warnings("/api/tasks", &known).await, Value::Null);
    let batch = json!({"tasks": [task, known, task]});
    assert_eq!(warnings("/api/tasks/batch", &batch).await, json!([says]));
    let steps = json!([
        {"id": "a", "prompt": "p", "model": "llama3.2"},
        {"id": "b", "prompt": "p", "model": "llama3.2", "queue": "letters", "dependsOn": ["a"]},
        {"id": "c", "type": "wait", "signal": "s"},
    ]);
    let plan = client.plan(&steps).await;
    let queue = "no connected worker serves the queue letters for the model llama3.2; the workers that run it \
                 serve default";
    let execute = format!("/api/plans/{plan}/execute");
    assert_eq!(warnings(&execute, &json!({})).await, json!([queue]));

    let template = json!({
        "name": "letters", "version": "1.0.0", "industry": "devops",
        "inputSchema": {"type": "object"}, "steps": steps,
    });
    client.post("/api/templates", &template).await.expect(201);
    let batch = json!({"templateId": "letters-v1", "rows": [{"input": {}}]});
    assert_eq!(warnings("/api/batches", &batch).await, json!([queue]));
    let stream = client.request(reqwest::Method::POST, "/api/tasks?stream=true").json(&task);
    let mut stream = stream.send().await.expect("a stream");
    let first = stream.chunk().await.expect("it goes on").expect("a frame");
    let first = String::from_utf8_lossy(&first).into_owned();
    assert!(first.contains("snapshot") && first.contains(says), "{first}");
}
