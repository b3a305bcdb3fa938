//! Streams of one item.

use super::*;
use crate::support::Events;

/// A stream of server-sent events.
struct Sse {
    response: reqwest::Response,
    unread: Vec<u8>,
}

impl Sse {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.expect("an answer");
        assert!(response.status().is_success(), "{}", response.status());
        Self { response, unread: Vec::new() }
    }

    /// The next event; nothing once the server has closed.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\n\n") {
                let rest = self.unread.split_off(end + 2);
                let event = std::mem::replace(&mut self.unread, rest);
                let event = String::from_utf8(event).expect("UTF-8");
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                let Some(data) = field("data: ") else { continue };
                let data = serde_json::from_str(data).expect("JSON");
                return Some((field("event: ").expect("a name").to_owned(), data));
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await.expect("in time");
            self.unread.extend(chunk.expect("a chunk")?);
        }
    }

    async fn expect(&mut self, name: &str) -> Value {
        let (found, data) = self.next().await.expect("the stream is open");
        assert_eq!(found, name, "{data}");
        data
    }
}

fn stream(client: &Client, id: &str) -> reqwest::RequestBuilder {
    client.request(Method::GET, &format!("/api/tasks/{id}/stream"))
}

async fn delta(worker: &mut FakeWorker, assigned: &Value, text: &str) {
    worker.send(json!({"type": "delta", "lease": assigned["lease"], "text": text})).await;
}

#[tokio::test]
async fn a_late_reader_gets_the_text_so_far_and_then_the_rest() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let submit = client.request(Method::POST, "/api/tasks?stream=true");
    let mut early = Sse::open(submit.json(&json!({"prompt": "p"}))).await;
    assert_eq!(early.response.status().as_u16(), 201);
    let snapshot = early.expect("snapshot").await;
    let id = snapshot["id"].as_str().expect("an id").to_owned();
    assert!(snapshot.get("output").is_none());
    let assigned = worker.assignment().await;
    assert_eq!(early.expect("task.started").await["resource"]["id"], id.as_str());
    delta(&mut worker, &assigned, "Grüße ").await;
    let sent = Instant::now();
    assert_eq!(early.expect("delta").await, json!({"text": "Grüße ", "offset": 0}));
    assert!(sent.elapsed() < Duration::from_millis(500), "{:?}", sent.elapsed());

    let mut late = Sse::open(stream(&client, &id)).await;
    assert_eq!(late.expect("snapshot").await["output"], "Grüße ");
    delta(&mut worker, &assigned, "aus Wien").await;
    for reader in [&mut early, &mut late] {
        assert_eq!(reader.expect("delta").await, json!({"text": "aus Wien", "offset": 6}));
    }
    worker.complete(&assigned["lease"], "Grüße aus Wien").await;
    for reader in [&mut early, &mut late] {
        assert_eq!(reader.expect("task.completed").await["data"]["status"], "completed");
        assert_eq!(reader.expect("end").await["output"], "Grüße aus Wien");
        assert_eq!(reader.next().await, None);
    }

    let mut after = Sse::open(stream(&client, &id)).await;
    assert_eq!(after.expect("snapshot").await["output"], "Grüße aus Wien");
    assert_eq!(after.expect("end").await["status"], "completed");
    assert_eq!(after.next().await, None);
    assert_eq!(client.get("/api/tasks/dt_task_x/stream").await.refused(404), "NOT_FOUND");
}

#[tokio::test]
async fn a_stream_is_one_of_lines_and_takes_no_parameter() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let assigned = worker.assignment().await;
    let mut item = Sse::open(stream(&client, &id)).await;
    let headers = item.response.headers();
    assert_eq!(headers["cache-control"], "no-cache, no-transform");
    assert_eq!(headers["x-accel-buffering"], "no");
    let text = "one\u{2028}two\u{2029}three\u{85}four";
    delta(&mut worker, &assigned, text).await;
    worker.complete(&assigned["lease"], text).await;
    let (mut raw, mut streamed) = (Vec::new(), String::new());
    while let Some(chunk) = item.response.chunk().await.expect("a chunk") {
        raw.extend(chunk);
    }
    let raw = String::from_utf8(raw).expect("UTF-8");
    assert!(!raw.contains(['\u{85}', '\u{2028}', '\u{2029}']), "{raw}");
    for line in raw.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let data: Value = serde_json::from_str(line).expect("JSON");
        streamed.push_str(data["text"].as_str().unwrap_or_default());
    }
    assert_eq!(streamed, text);
    let refused = client.get(&format!("/api/tasks/{id}/stream?deltas=true")).await;
    assert_eq!(refused.fault(), ("deltas".to_owned(), "unknown".to_owned()));
    let execution = "/api/plans/executions/dt_exec_00000000000000000000000000/stream?from=1";
    assert_eq!(client.get(execution).await.fault(), ("from".to_owned(), "unknown".to_owned()));
}

#[tokio::test]
async fn no_piece_comes_before_its_attempt_has_begun() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    for _ in 0..30 {
        let submit = client.request(Method::POST, "/api/tasks?stream=true");
        let mut item = Sse::open(submit.json(&json!({"prompt": "p"}))).await;
        let snapshot = item.expect("snapshot").await;
        let assigned = worker.assignment().await;
        delta(&mut worker, &assigned, "at once").await;
        // The attempt may have begun before the snapshot.
        if snapshot["status"] == "pending" {
            item.expect("task.started").await;
        }
        if snapshot["output"].is_null() {
            assert_eq!(item.expect("delta").await["text"], "at once");
        }
        worker.complete(&assigned["lease"], "at once").await;
        item.expect("task.completed").await;
        item.expect("end").await;
    }
}

#[tokio::test]
async fn a_long_delta_of_a_worker_is_passed_on_in_pieces() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let assigned = worker.assignment().await;
    let mut events = Events::open(&client, "events=task.delta", None).await;
    let mut item = Sse::open(stream(&client, &id)).await;
    item.expect("snapshot").await;
    let text = "ü".repeat(100_000);
    delta(&mut worker, &assigned, &text).await;
    let (mut seen, mut streamed) = (String::new(), String::new());
    while seen.len() < text.len() {
        let (_, event) = events.next().await;
        assert_eq!(event["data"]["offset"], seen.chars().count());
        let piece = event["data"]["text"].as_str().expect("a text");
        assert!(piece.len() <= 8 << 10, "{} bytes", piece.len());
        seen.push_str(piece);
    }
    while streamed.len() < text.len() {
        let (name, piece) = item.next().await.expect("the stream is open");
        // The attempt may begin after the snapshot.
        if name == "task.started" {
            continue;
        }
        assert_eq!(name, "delta", "{piece}");
        assert_eq!(piece["offset"], streamed.chars().count());
        streamed.push_str(piece["text"].as_str().expect("a text"));
    }
    assert_eq!((seen == text, streamed == text), (true, true));
}

#[tokio::test]
async fn an_attempt_that_begins_anew_says_so() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let assigned = worker.assignment().await;
    delta(&mut worker, &assigned, "void").await;
    let mut reader = Sse::open(stream(&client, &id)).await;
    let (name, snapshot) = reader.next().await.expect("a snapshot");
    assert_eq!(name, "snapshot");
    if snapshot["status"] == "pending" {
        reader.expect("task.started").await;
    }
    if snapshot.get("output").is_none() {
        assert_eq!(reader.expect("delta").await["text"], "void");
    }
    let error = json!({"code": "PROVIDER_ERROR", "message": "busy"});
    worker
        .send(
            json!({"type": "fail", "lease": assigned["lease"], "retryable": true, "error": error}),
        )
        .await;
    let assigned = worker.assignment().await;
    delta(&mut worker, &assigned, "good").await;
    let mut names = Vec::new();
    let mut text = String::new();
    loop {
        let (name, data) = reader.next().await.expect("the stream is open");
        match name.as_str() {
            "restart" => {
                assert_eq!(data, json!({"attempt": 2}));
                text.clear();
            }
            "delta" => {
                assert_eq!(data["offset"], text.chars().count());
                text.push_str(data["text"].as_str().expect("text"));
                worker.complete(&assigned["lease"], "good").await;
            }
            "end" => break assert_eq!(data["output"], "good"),
            _ => {}
        }
        names.push(name);
    }
    assert_eq!(text, "good");
    assert_eq!(names.iter().filter(|name| *name == "restart").count(), 1, "{names:?}");
}

#[tokio::test]
async fn an_execution_s_stream_tells_the_texts_of_its_steps() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let plan = json!([{"id": "a", "prompt": "p"}, {"id": "b", "prompt": "q", "dependsOn": ["a"]}]);
    let execution = client.execute(&client.plan(&plan).await, &json!({})).await;
    let assigned = worker.assignment().await;
    delta(&mut worker, &assigned, "one").await;
    client.execution_when(&execution, |it| it["steps"]["a"]["status"] == "running").await;
    let path = format!("/api/plans/executions/{execution}/stream");
    let mut reader = Sse::open(client.request(Method::GET, &path)).await;
    let snapshot = reader.expect("snapshot").await;
    let mut texts = snapshot["steps"]["a"]["output"].as_str().unwrap_or_default().to_owned();
    worker.complete(&assigned["lease"], "one").await;
    let assigned = worker.assignment().await;
    delta(&mut worker, &assigned, "two").await;
    worker.complete(&assigned["lease"], "two").await;
    let mut names = Vec::new();
    loop {
        let (name, data) = reader.next().await.expect("the stream is open");
        match name.as_str() {
            "delta" => {
                assert_eq!(data["stepId"], if texts.is_empty() { "a" } else { "b" });
                texts.push_str(data["text"].as_str().expect("text"));
            }
            "end" => {
                assert_eq!(data["steps"]["b"]["output"], "two");
                break;
            }
            _ => names.push(name),
        }
    }
    assert_eq!(texts, "onetwo");
    assert_eq!(reader.next().await, None);
    for name in ["step.completed", "execution.progress", "task.completed", "execution.completed"] {
        assert!(names.iter().any(|told| told == name), "{name} is missing: {names:?}");
    }
}

#[tokio::test]
async fn an_execution_s_stream_names_the_step_that_begins_anew() {
    let server = Server::start();
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let retry = json!({"maxAttempts": 2, "backoffMs": 10});
    let plan = client.plan(&json!([{"id": "a", "prompt": "p", "retry": retry}])).await;
    let execution = client.execute(&plan, &json!({})).await;
    let path = format!("/api/plans/executions/{execution}/stream");
    let mut reader = Sse::open(client.request(Method::GET, &path)).await;
    reader.expect("snapshot").await;
    let assigned = worker.assignment().await;
    delta(&mut worker, &assigned, "void").await;
    let error = json!({"code": "PROVIDER_ERROR", "message": "busy"});
    let fail =
        json!({"type": "fail", "lease": assigned["lease"], "retryable": true, "error": error});
    worker.send(fail).await;
    let assigned = worker.assignment().await;
    delta(&mut worker, &assigned, "good").await;
    worker.complete(&assigned["lease"], "good").await;
    let mut texts = Vec::new();
    loop {
        let (name, data) = reader.next().await.expect("the stream is open");
        match name.as_str() {
            "delta" | "restart" => texts.push(data),
            "end" => break assert_eq!(data["steps"]["a"]["output"], "good"),
            _ => {}
        }
    }
    let expected = [
        json!({"text": "void", "offset": 0, "stepId": "a"}),
        json!({"attempt": 2, "stepId": "a"}),
        json!({"text": "good", "offset": 0, "stepId": "a"}),
    ];
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn a_stream_ends_with_the_right_to_it() {
    let server = Server::start();
    let admin = server.admin().await;
    let made =
        admin.post("/api/auth/keys", &json!({"name": "k", "role": "viewer"})).await.expect(201);
    let client = Client::new(&server.url, made["key"].as_str().expect("a key"));
    let id = admin.submit(&json!({"prompt": "p"})).await;
    let mut reader = Sse::open(stream(&client, &id)).await;
    reader.expect("snapshot").await;
    let begun = Instant::now();
    admin
        .delete(&format!("/api/auth/keys/{}", made["id"].as_str().expect("an id")))
        .await
        .expect_ok();
    assert_eq!(reader.next().await, None);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// A worker that is lost leaves the number of the attempt as it was, and yet its text is void.
#[tokio::test]
async fn another_go_at_the_same_attempt_begins_its_text_anew() {
    let server = Server::with(&[
        ("WORKER__LEASE", "1s"),
        ("WORKER__HEARTBEAT", "300ms"),
        ("WORKER__SILENT_AFTER", "900ms"),
    ]);
    let client = server.client("operator").await;
    let key = server.key("worker").await;
    let mut lost = FakeWorker::connect(&server, &key, 1).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let assigned = lost.assignment().await;
    client.task_with_status(&id, "running").await;
    let mut reader = Sse::open(stream(&client, &id)).await;
    reader.expect("snapshot").await;
    delta(&mut lost, &assigned, "void").await;
    assert_eq!(reader.expect("delta").await["text"], "void");
    drop(lost);
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    let assigned = worker.assignment().await;
    delta(&mut worker, &assigned, "good").await;
    worker.complete(&assigned["lease"], "good").await;
    let mut names = Vec::new();
    loop {
        let (name, data) = reader.next().await.expect("the stream is open");
        match name.as_str() {
            "delta" => assert_eq!(data, json!({"text": "good", "offset": 0})),
            "restart" => assert_eq!(data["attempt"], 1),
            "end" => break,
            _ => continue,
        }
        names.push(name);
    }
    assert_eq!(names, ["restart", "delta"]);
    let mut after = Sse::open(stream(&client, &id)).await;
    assert_eq!(after.expect("snapshot").await["output"], "good");
}
