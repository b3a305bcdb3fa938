//! Batches in the form of OpenAI's interface: a task for each line of a file.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::files::{refused, upload};
use super::installed;
use crate::support::{Client, FakeWorker, Server, until};

const CHAT: &str = "/v1/chat/completions";

fn line(id: &str, prompt: &str) -> String {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": prompt}]});
    json!({"custom_id": id, "method": "POST", "url": CHAT, "body": body}).to_string()
}

fn lines(count: usize) -> String {
    (0..count).map(|at| line(&format!("r-{at}"), &format!("p-{at}")) + "\n").collect()
}

async fn create(client: &Client, file: &str) -> Value {
    let body = json!({"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"});
    let answer = client.post("/v1/batches", &body).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    answer.body
}

/// Uploads lines and creates their batch; returns its id.
async fn begin(client: &Client, lines: &[u8]) -> String {
    let file = upload(client, "in.jsonl", "batch", lines).await;
    id_of(&create(client, id_of(&file)).await).to_owned()
}

fn id_of(item: &Value) -> &str {
    item["id"].as_str().expect("an id")
}

async fn batch(client: &Client, id: &str) -> Value {
    client.get(&format!("/v1/batches/{id}")).await.body
}

/// The batch once it has this status.
async fn batch_with(client: &Client, id: &str, status: &str) -> Value {
    until(status, async || batch(client, id).await["status"] == status).await;
    batch(client, id).await
}

/// The lines of a file of answers, by their `custom_id`; none twice.
async fn answers(client: &Client, file: &Value) -> BTreeMap<String, Value> {
    let Some(file) = file.as_str() else { return BTreeMap::new() };
    let content = client.request(Method::GET, &format!("/v1/files/{file}/content")).send().await;
    let text = content.expect("an answer").text().await.expect("it is whole");
    let mut answers = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let id = line["custom_id"].as_str().expect("an id").to_owned();
        assert!(answers.insert(id, line.clone()).is_none(), "{line}");
    }
    answers
}

async fn total_tasks(client: &Client) -> u64 {
    let list = client.get("/api/tasks?limit=1").await.body;
    list["pagination"]["total"].as_u64().expect("a number")
}

#[tokio::test]
async fn a_batch_answers_each_line_as_the_door_would() {
    let server = Server::start();
    let client = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 8).await;
    let running = worker.run(|task| match task["prompt"].as_str() {
        Some("fail") => Err("it cannot".into()),
        prompt => Ok(format!("re: {}", prompt.unwrap_or_default())),
    });
    let chat = |members: Value| {
        let mut body = json!({"messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().expect("members").extend(members.as_object().expect("some").clone());
        body
    };
    let of = |id: &str, body: Value| json!({"custom_id": id, "body": body}).to_string();
    let input = [
        line("a", "hello"),
        String::new(),
        "  ".to_owned(),
        of("other model", chat(json!({"model": "other", "metadata": {"team": "t"}}))),
        of("no tools", chat(json!({"tools": [{"type": "function"}]}))),
        of("no stream", chat(json!({"stream": true}))),
        line("long", &"x".repeat(10 << 20)),
        of("twice", json!(1)).replace(":1}", ":{\"n\":1,\"n\":1}}"),
        line("fails", "fail"),
    ];
    // A byte order mark, lines that end as on Windows, and no end of the last one.
    let input = format!("\u{feff}{}", input.join("\r\n"));
    let file = upload(&client, "in.jsonl", "batch", input.as_bytes()).await;
    let body = json!({
        "input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h",
        "metadata": {"night": "7"},
    });
    let request = client.request(Method::POST, "/v1/batches").json(&body);
    let created = client.send(request.header("X-Callboard-Priority", "2")).await.body;
    let id = id_of(&created);
    assert!(id.starts_with("batch_"), "{created}");
    let done = batch_with(&client, id, "completed").await;
    assert_eq!(done["request_counts"], json!({"total": 7, "completed": 2, "failed": 5}));
    for (member, value) in [
        ("object", json!("batch")),
        ("endpoint", json!(CHAT)),
        ("errors", Value::Null),
        ("input_file_id", file["id"].clone()),
        ("completion_window", json!("24h")),
        ("metadata", json!({"night": "7"})),
        ("failed_at", Value::Null),
        ("expired_at", Value::Null),
        ("cancelling_at", Value::Null),
        ("cancelled_at", Value::Null),
    ] {
        assert_eq!(done[member], value, "{member}");
    }
    let created_at = done["created_at"].as_u64().expect("seconds");
    assert_eq!(done["expires_at"], created_at + 24 * 3_600);
    for member in ["in_progress_at", "finalizing_at", "completed_at"] {
        assert!(done[member].as_u64().is_some_and(|at| at >= created_at), "{member}: {done}");
    }
    let outputs = answers(&client, &done["output_file_id"]).await;
    assert_eq!(outputs.keys().collect::<Vec<_>>(), ["a", "other model"]);
    let a = &outputs["a"];
    let response = &a["response"];
    assert!(a["error"].is_null() && id_of(a).starts_with("batch_req_"), "{a}");
    assert_eq!(response["status_code"], 200);
    let task = id_of(&response["body"]);
    assert_eq!(response["request_id"], task);
    assert_eq!(response["body"]["object"], "chat.completion");
    assert_eq!(response["body"]["choices"][0]["message"]["content"], "re: hello");
    let shown = client.task(task).await;
    assert_eq!(
        [&shown["title"], &shown["priority"], &shown["model"]],
        [&json!("a"), &json!(2), &json!("m")]
    );
    let other = client.task(id_of(&outputs["other model"]["response"]["body"])).await;
    assert_eq!([&other["model"], &other["tags"]], [&json!("other"), &json!(["team:t"])]);

    let errors = answers(&client, &done["error_file_id"]).await;
    let of = |id: &str| {
        let error = &errors[id]["response"];
        let said = |member: &str| error["body"]["error"][member].as_str().unwrap_or_default();
        (error["status_code"].as_u64().unwrap_or_default(), said("code"), said("param"))
    };
    assert_eq!(of("no tools"), (400, "unsupported", "tools"));
    assert_eq!(of("no stream"), (400, "unsupported", "stream"));
    assert_eq!(of("long"), (400, "VALIDATION_ERROR", "messages[0].content"));
    assert_eq!(of("twice"), (400, "INVALID_JSON", ""));
    assert_eq!(of("fails"), (422, "PROVIDER_ERROR", ""));
    let failed = errors["fails"]["response"]["body"]["error"]["taskId"].as_str();
    assert_eq!(client.task(failed.expect("an id")).await["status"], "failed");
    assert_eq!(total_tasks(&client).await, 3, "no task was made of a line that was refused");

    let output = format!("/v1/files/{}", done["output_file_id"].as_str().expect("one"));
    let output = client.get(&output).await.body;
    assert_eq!(output["purpose"], "batch_output");
    assert_eq!(output["filename"], format!("{id}_output.jsonl"));
    assert!(output["expires_at"].is_u64(), "{output}");
    let listed = client.get("/v1/files?purpose=batch_output").await.body;
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(2));
    running.abort();
}

#[tokio::test]
async fn a_file_with_faults_fails_the_batch_and_makes_no_task() {
    let server = Server::start();
    let client = server.client("operator").await;
    let one = line("a", "x");
    let too_long = line("b", &"x".repeat(25 << 20));
    for (input, found) in [
        ("\n \r\n\n".to_owned(), vec![("empty_file", None)]),
        ("\u{feff}".to_owned(), vec![("empty_file", None)]),
        (format!("{one}\n\nnot JSON\n"), vec![("invalid_json_line", Some(3))]),
        (
            format!("{one}\n{one}\n{one}"),
            vec![("duplicate_custom_id", Some(2)), ("duplicate_custom_id", Some(3))],
        ),
        (one.replace(CHAT, "/v1/embeddings"), vec![("url_mismatch", Some(1))]),
        (one.replace("POST", "GET"), vec![("invalid_request", Some(1))]),
        (
            "{\"custom_id\":\"a\"}\n[]\n".to_owned(),
            vec![("invalid_request", Some(1)), ("invalid_request", Some(2))],
        ),
        (format!("{one}\n{too_long}"), vec![("line_too_long", Some(2))]),
    ] {
        let id = begin(&client, input.as_bytes()).await;
        let failed = batch_with(&client, &id, "failed").await;
        assert_eq!(failed["errors"]["object"], "list");
        let data = failed["errors"]["data"].as_array().expect("a list").iter();
        let data: Vec<_> =
            data.map(|it| (it["code"].as_str().expect("a code"), it["line"].as_u64())).collect();
        assert_eq!(data, found, "{}", input.chars().take(200).collect::<String>());
        assert!(failed["failed_at"].is_u64() && failed["in_progress_at"].is_null(), "{failed}");
        assert_eq!(failed["request_counts"], json!({"total": 0, "completed": 0, "failed": 0}));
    }
    let many = "x\n".repeat(1_000);
    let failed = batch_with(&client, &begin(&client, many.as_bytes()).await, "failed").await;
    assert_eq!(failed["errors"]["data"].as_array().map(Vec::len), Some(100), "the first ones");
    assert_eq!(total_tasks(&client).await, 0);
}

#[tokio::test]
async fn each_line_becomes_one_task_however_often_the_server_is_killed() {
    const LINES: usize = 2_000;
    // What the worker held at the last kill is given to the next one soon.
    let mut server = Server::with(&[("WORKER__HEARTBEAT", "500ms"), ("WORKER__LEASE", "2s")]);
    let mut client = server.client("operator").await;
    let key = server.key("worker").await;
    let id = begin(&client, lines(LINES).as_bytes()).await;
    for killed_at in [1, 300, 900, 1_500] {
        until("some tasks", async || total_tasks(&client).await >= killed_at).await;
        server.kill();
        server.restart();
        client = client.at(&server.url);
    }
    until("all tasks", async || total_tasks(&client).await >= LINES as u64).await;
    let worker = FakeWorker::connect(&server, &key, 64).await;
    let running = worker.run(|task| Ok(format!("re: {}", task["prompt"])));
    until("half of the answers", async || {
        batch(&client, &id).await["request_counts"]["completed"].as_u64() > Some(LINES as u64 / 2)
    })
    .await;
    running.abort();
    server.kill();
    server.restart();
    client = client.at(&server.url);
    let running = FakeWorker::connect(&server, &key, 64).await;
    let running = running.run(|task| Ok(format!("re: {}", task["prompt"])));
    let done = batch_with(&client, &id, "completed").await;
    running.abort();
    assert_eq!(done["request_counts"], json!({"total": LINES, "completed": LINES, "failed": 0}));
    assert_eq!(total_tasks(&client).await, LINES as u64);
    let outputs = answers(&client, &done["output_file_id"]).await;
    assert_eq!((outputs.len(), &done["error_file_id"]), (LINES, &Value::Null));
    for (id, answer) in outputs {
        let asked = id.replace("r-", "p-");
        let content = &answer["response"]["body"]["choices"][0]["message"]["content"];
        assert_eq!(content, &json!(format!("re: \"{asked}\"")));
    }
}

#[tokio::test]
async fn a_batch_that_is_cancelled_answers_every_line() {
    const LINES: usize = 50_001;
    let server = Server::start();
    let client = server.client("operator").await;
    let file = upload(&client, "in.jsonl", "batch", lines(LINES).as_bytes()).await;
    let id = id_of(&create(&client, id_of(&file)).await).to_owned();
    let cancel = format!("/v1/batches/{id}/cancel");
    let input = format!("/v1/files/{}", id_of(&file));
    until("some tasks", async || total_tasks(&client).await > 0).await;
    assert_eq!(refused(&client.delete(&input).await, 409).0, "INVALID_STATE");
    let cancelling = client.post(&cancel, &json!({})).await;
    assert_eq!(cancelling.status, 200, "{:#}", cancelling.body);
    let status = cancelling.body["status"].as_str();
    assert!(matches!(status, Some("cancelling" | "cancelled")), "{status:?}");
    let done = batch_with(&client, &id, "cancelled").await;
    assert_eq!(done["request_counts"], json!({"total": LINES, "completed": 0, "failed": LINES}));
    assert!(done["cancelling_at"].is_u64() && done["cancelled_at"].is_u64(), "{done}");
    let errors = answers(&client, &done["error_file_id"]).await;
    assert_eq!((errors.len(), &done["output_file_id"]), (LINES, &Value::Null));
    let stopped = |it: &Value| it["response"].is_null() && it["error"]["code"] == "batch_cancelled";
    assert!(errors.values().all(stopped));
    let left = client.get("/api/tasks?status=pending,running&limit=1").await.body;
    assert_eq!(left["pagination"]["total"], 0);
    assert_eq!(client.post(&cancel, &json!({})).await.body["status"], "cancelled");
    until("the file is free", async || client.delete(&input).await.status == 200).await;
}

#[tokio::test]
async fn a_batch_of_a_key_that_is_revoked_is_cancelled() {
    let server = Server::start();
    let admin = server.admin().await;
    let made = admin.post("/api/auth/keys", &json!({"name": "b", "role": "operator"})).await;
    let made = made.expect(201);
    let client = Client::new(&server.url, made["key"].as_str().expect("a key"));
    let id = begin(&client, lines(20_000).as_bytes()).await;
    admin.delete(&format!("/api/auth/keys/{}", id_of(&made))).await.expect_ok();
    let done = batch_with(&admin, &id, "cancelled").await;
    assert_eq!(done["errors"]["data"][0]["code"], "INVALID_TOKEN", "{done}");
}

#[tokio::test]
async fn a_request_that_makes_no_batch_is_refused() {
    let server = Server::start();
    let client = server.client("operator").await;
    let file = upload(&client, "in.jsonl", "batch", line("a", "x").as_bytes()).await;
    let other = upload(&client, "x.txt", "user_data", b"{}").await;
    let right = json!({
        "input_file_id": file["id"], "endpoint": CHAT, "completion_window": "24h", "metadata": null,
    });
    for (member, value, code) in [
        ("input_file_id", json!("file_1"), "VALIDATION_ERROR"),
        ("input_file_id", json!("file_01m8j77f3br0kxt8mn0rysyw4v"), "VALIDATION_ERROR"),
        ("input_file_id", other["id"].clone(), "VALIDATION_ERROR"),
        ("endpoint", json!("/v1/embeddings"), "unsupported"),
        ("completion_window", json!("1d"), "VALIDATION_ERROR"),
        ("completion_window", json!("721h"), "VALIDATION_ERROR"),
        ("metadata", json!({"a": "x".repeat(513)}), "VALIDATION_ERROR"),
        ("output_expires_after", json!({"anchor": "created_at", "seconds": 3600}), "unsupported"),
    ] {
        let mut body = right.clone();
        body[member] = value;
        let answer = client.post("/v1/batches", &body).await;
        let (found, param) = refused(&answer, 400);
        assert_eq!((found, param.split('.').next()), (code, Some(member)), "{body}");
    }
    let made = client.post_once("/v1/batches", "k", &right).await;
    let again = client.post_once("/v1/batches", "k", &right).await;
    assert_eq!(id_of(&made.body), id_of(&again.body));
    assert_eq!(again.headers["idempotent-replayed"], "true");
    let mut body = right.clone();
    body["completion_window"] = json!("48h");
    let reused = client.post_once("/v1/batches", "k", &body).await;
    assert_eq!(refused(&reused, 422).0, "IDEMPOTENCY_KEY_REUSED");
    let viewer = server.client("viewer").await;
    assert_eq!(refused(&viewer.post("/v1/batches", &right).await, 403).0, "FORBIDDEN");
    assert_eq!(viewer.get("/v1/batches").await.body["data"].as_array().map(Vec::len), Some(1));
    for id in ["batch_1", "batch_01m8j77f3br0kxt8mn0rysyw4v"] {
        assert_eq!(client.get(&format!("/v1/batches/{id}")).await.status, 404);
        let cancel = format!("/v1/batches/{id}/cancel");
        assert_eq!(client.post(&cancel, &json!({})).await.status, 404);
    }
}

#[tokio::test]
async fn batches_are_seen_in_their_environment_and_project_alone() {
    let server = Server::start();
    let (operator, root) = (server.client("operator").await, server.admin().await);
    let id = begin(&operator, line("a", "x").as_bytes()).await;
    let input = batch(&operator, &id).await["input_file_id"].clone();
    let key = async |body: Value, project: &str| {
        let request = root.request(Method::POST, "/api/auth/keys");
        let made = root.send(request.header("Callboard-Project", project).json(&body)).await;
        Client::new(&server.url, made.expect(201)["key"].as_str().expect("a key"))
    };
    let project = root.post("/api/projects", &json!({"name": "other"})).await.expect(201);
    let test = json!({"name": "t", "role": "operator", "environment": "test"});
    let clients = [
        key(test, "default").await,
        key(json!({"name": "p", "role": "admin"}), id_of(&project)).await,
    ];
    for client in &clients {
        assert_eq!(client.get(&format!("/v1/batches/{id}")).await.status, 404);
        assert_eq!(client.get("/v1/batches").await.body["data"], json!([]));
        let cancel = client.post(&format!("/v1/batches/{id}/cancel"), &json!({})).await;
        assert_eq!(cancel.status, 404);
        let body = json!({"input_file_id": input, "endpoint": CHAT, "completion_window": "24h"});
        let answer = client.post("/v1/batches", &body).await;
        let (_, param) = refused(&answer, 400);
        assert_eq!(param, "input_file_id");
    }
    // The sandbox's worker answers a batch of a test key.
    let own = begin(&clients[0], lines(30).as_bytes()).await;
    let done = batch_with(&clients[0], &own, "completed").await;
    assert_eq!(done["request_counts"]["completed"], 30, "{done}");
}

#[tokio::test]
async fn the_library_runs_a_batch_and_cancels_another() {
    let (server, installed) = (Server::start(), installed().await);
    let client = server.client("operator").await;
    // A task of another model waits.
    let register = json!({
        "type": "register", "name": "w", "version": "0", "queues": ["default"], "models": ["m"],
        "concurrency": 8,
    });
    let key = server.key("worker").await;
    let worker = FakeWorker::register(&server.url, &key, register).await;
    let running = worker.run(|task| match task["prompt"].as_str() {
        Some("fail") => Err("it cannot".into()),
        prompt => Ok(format!("re: {}", prompt.unwrap_or_default())),
    });
    let said =
        tokio::time::timeout(Duration::from_mins(2), installed.tell("batch.py", &client, &[]));
    let said = said.await.expect("in time");
    assert_eq!(
        said,
        json!({
            "status": "completed", "counts": [3, 2, 1], "window": "24h", "metadata": {"team": "a"},
            "outputs": {"r-0": "re: hello", "r-1": "re: again"}, "errors": {"r-2": "PROVIDER_ERROR"},
            "faults": [["invalid_json_line", 2]], "cancelled": ["cancelled", "batch_cancelled"],
            "listed": 5, "same": true, "conflict": "INVALID_STATE",
        })
    );
    running.abort();
}
