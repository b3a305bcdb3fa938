//! Files of tasks and steps: checked at submission, given to workers and providers, seen by reviewers, kept as long as
//! something refers to them.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use callboard_worker::provider::Provider;
use callboard_worker::provider::anthropic::Anthropic;
use callboard_worker::provider::openai::OpenAi;
use callboard_worker::{GRACE, Options};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{PNG, download, id_of, upload};
use crate::support::{Client, FakeWorker, Server};

pub(super) const PDF: &[u8] = b"%PDF-1.7\n1 0 obj\n";

pub(super) async fn kept(client: &Client, name: &str, bytes: &'static [u8]) -> String {
    let path = format!("/api/files?name={name}");
    let file = upload(client, &path, "application/octet-stream", bytes).await.expect(201);
    id_of(&file).to_owned()
}

async fn bound_key(server: &Server, queue: &str) -> String {
    let body = json!({"name": "w", "role": "worker", "queues": [queue]});
    let made = server.admin().await.post("/api/auth/keys", &body).await.expect(201);
    made["key"].as_str().expect("a key").to_owned()
}

#[tokio::test]
async fn a_bound_worker_reads_the_files_of_the_task_that_it_holds_and_a_reviewer_those_of_held_outputs()
 {
    let server = Server::start();
    let client = server.client("operator").await;
    let (scan, other) = (kept(&client, "scan.pdf", PDF).await, kept(&client, "o.png", PNG).await);
    let key = bound_key(&server, "default").await;
    let reader = Client::new(&server.url, &key);
    let reviewer = server.client("reviewer").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    assert_eq!(download(&reader, &scan, None).await.0, 404, "it holds no task yet");
    let task =
        json!({"prompt": "What is it?", "model": "m", "files": [scan], "hitl": {"required": true}});
    let id = client.submit(&task).await;
    let assigned = worker.assignment().await;
    let shown = client.get(&format!("/api/files/{scan}")).await.expect(200);
    assert_eq!(
        assigned["task"]["files"],
        json!([{
            "id": scan, "name": "scan.pdf", "contentType": "application/pdf",
            "bytes": PDF.len(), "sha256": shown["sha256"],
        }])
    );
    assert_eq!(download(&reader, &scan, None).await.2, PDF);
    assert_eq!(download(&reader, &other, None).await.0, 404, "another file");
    let refused = client.delete(&format!("/api/files/{scan}")).await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
    assert_eq!(download(&reviewer, &scan, None).await.0, 404, "nothing is held yet");
    worker.complete(&assigned["lease"], "a scan").await;
    client.task_when(&id, |task| task["awaitingApproval"] == true).await;
    assert_eq!(download(&reviewer, &scan, None).await.2, PDF);
    assert_eq!(download(&reviewer, &other, None).await.0, 404);
    assert_eq!(download(&reader, &scan, None).await.0, 404, "the lease is over");
    let held = client.get(&format!("/api/hitl/{id}")).await.expect(200);
    assert_eq!(held["task"]["files"], json!([scan]));
    client.post(&format!("/api/hitl/{id}/approve"), &json!({})).await.expect(200);
    assert_eq!(client.task_with_status(&id, "completed").await["files"], json!([scan]));

    // The texts of the task go, and the file with them, unless another task refers to it.
    let admin = server.admin().await;
    let erase = async |id: &str| {
        let path = format!("/api/tasks/{id}/texts");
        let request = admin.request(Method::DELETE, &path).json(&json!({"reason": "asked for"}));
        admin.send(request).await.expect(200)
    };
    let second = client.submit(&json!({"prompt": "p", "model": "m", "files": [scan]})).await;
    erase(&id).await;
    assert_eq!(download(&client, &scan, None).await.2, PDF);
    let assigned = worker.assignment().await;
    worker.complete(&assigned["lease"], "again").await;
    client.task_with_status(&second, "completed").await;
    erase(&second).await;
    assert_eq!(download(&client, &scan, None).await.0, 404);
    assert_eq!(download(&client, &other, None).await.0, 200);
}

#[tokio::test]
async fn files_that_no_model_can_be_shown_are_refused_by_their_place() {
    let server = Server::start();
    let client = server.client("operator").await;
    let png = kept(&client, "a.png", PNG).await;
    let zip = kept(&client, "a.png", b"PK\x03\x04\0\0\xff").await;
    let missing = "file_00000000000000000000000000";
    for (files, field, rule) in [
        (json!([png, missing]), "files[1]", "format"),
        (json!([zip]), "files[0]", "format"),
        (json!(["dt_task_1"]), "files[0]", "format"),
        (json!(vec![&png; 21]), "files", "length"),
        (json!(png), "files", "type"),
    ] {
        let refused = client.post("/api/tasks", &json!({"prompt": "p", "files": files})).await;
        assert_eq!(refused.fault(), (field.to_owned(), rule.to_owned()), "{files}");
    }
    // A function reads any file.
    let call = json!({"function": "unpack", "args": {}, "files": [zip]});
    client.post("/api/tasks", &call).await.expect(201);
    let batch = json!({"tasks": [{"prompt": "p"}, {"prompt": "p", "files": [missing]}]});
    let refused = client.post("/api/tasks/batch", &batch).await;
    assert_eq!(refused.fault(), ("tasks[1].files[0]".to_owned(), "format".to_owned()));
    let plan = json!({"name": "p", "steps": [{"id": "a", "prompt": "p", "files": ["scan.pdf"]}]});
    let refused = client.post("/api/plans", &plan).await;
    assert_eq!(refused.fault(), ("steps[0].files[0]".to_owned(), "format".to_owned()));
}

#[tokio::test]
async fn a_step_takes_files_from_its_input() {
    let server = Server::start();
    let client = server.client("operator").await;
    let (one, two) = (kept(&client, "1.pdf", PDF).await, kept(&client, "2.png", PNG).await);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let steps = json!([{
        "id": "a", "prompt": "Compare.", "model": "m",
        "files": ["{{input.scan}}", "{{input.more}}", "{{input.none}}"],
    }]);
    let plan = client.plan(&steps).await;
    let input = json!({"scan": one, "more": [two, one], "none": []});
    let execution = client.execute(&plan, &json!({"input": input})).await;
    let assigned = worker.assignment().await;
    let ids: Vec<_> = assigned["task"]["files"]
        .as_array()
        .expect("files")
        .iter()
        .map(|file| &file["id"])
        .collect();
    assert_eq!(ids, [&json!(one), &json!(two), &json!(one)]);
    worker.complete(&assigned["lease"], "same").await;
    client.execution_with_status(&execution, "completed").await;
    let input = json!({"scan": "a.pdf", "more": [], "none": []});
    let execution = client.execute(&plan, &json!({"input": input})).await;
    let failed = client.execution_with_status(&execution, "failed").await;
    assert_eq!(failed["error"]["code"], "RENDER_FAILED", "{failed}");
}

/// A provider that says what it was asked.
pub(super) async fn provider() -> (String, mpsc::UnboundedReceiver<Value>) {
    async fn openai(State(asked): State<mpsc::UnboundedSender<Value>>, body: Bytes) -> Response {
        let body: Value = serde_json::from_slice(&body).expect("a JSON body");
        let takes_files = body["model"] != "vision-only";
        let content = body["messages"][0]["content"].clone();
        let has_file =
            content.as_array().is_some_and(|parts| parts.iter().any(|it| it["type"] == "file"));
        asked.send(content).expect("the test listens");
        if has_file && !takes_files {
            let error =
                json!({"error": {"message": "Unknown part type: file", "type": "BadRequestError"}});
            return (axum::http::StatusCode::BAD_REQUEST, error.to_string()).into_response();
        }
        let event = json!({"choices": [{"index": 0, "delta": {"content": "seen"}, "finish_reason": "stop"}]});
        let text = format!("data: {event}\n\ndata: [DONE]\n\n");
        ([("content-type", "text/event-stream")], text).into_response()
    }
    async fn anthropic(State(asked): State<mpsc::UnboundedSender<Value>>, body: Bytes) -> Response {
        let body: Value = serde_json::from_slice(&body).expect("a JSON body");
        asked.send(body["messages"][0]["content"].clone()).expect("the test listens");
        let events = [
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 1, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "seen"}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}),
            json!({"type": "message_stop"}),
        ];
        let event = |event: &Value| {
            format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"))
        };
        let text: String = events.iter().map(event).collect();
        ([("content-type", "text/event-stream")], text).into_response()
    }
    let (sender, asked) = mpsc::unbounded_channel();
    let router = Router::new()
        .route("/v1/chat/completions", post(openai))
        .route("/v1/messages", post(anthropic))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(sender);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
    (url, asked)
}

pub(super) async fn work(server: &Server, provider: Arc<dyn Provider>, queue: &str) {
    let options = Options {
        server: server.url.clone(),
        key: bound_key(server, queue).await,
        identity: None,
        name: queue.to_owned(),
        queues: vec![queue.to_owned()],
        models: None,
        concurrency: 1,
        provider,
        spans: None,
        grace: GRACE,
    };
    tokio::spawn(callboard_worker::run(options, std::future::pending()));
}

#[tokio::test]
async fn providers_get_files_in_their_form_and_a_refusal_names_them() {
    let server = Server::start();
    let client = server.client("operator").await;
    let (url, mut asked) = provider().await;
    let openai = OpenAi::new(&format!("{url}/v1"), None).expect("a client");
    let anthropic = Anthropic::new(&url, None, Arc::default()).expect("a client");
    work(&server, Arc::new(openai), "openai").await;
    work(&server, Arc::new(anthropic), "anthropic").await;
    // A photograph of 4 MB, and a PDF.
    let photo: Vec<u8> = PNG.iter().copied().chain((0..249_u8).cycle().take(4_000_000)).collect();
    let file =
        upload(&client, "/api/files?name=p.png", "image/png", photo.clone()).await.expect(201);
    let (photograph, scan) = (id_of(&file).to_owned(), kept(&client, "scan.pdf", PDF).await);
    let ask = async |queue: &str, model: &str| {
        let task = json!({
            "prompt": "What is it?", "queue": queue, "model": model, "files": [photograph, scan],
            "retry": {"maxAttempts": 5}, "timeoutMs": 60_000,
        });
        client.submit(&task).await
    };
    let (image, pdf) = (STANDARD.encode(&photo), STANDARD.encode(PDF));
    let mut seen = async || tokio::time::timeout(Duration::from_mins(1), asked.recv()).await;

    let id = ask("openai", "m").await;
    assert_eq!(client.task_with_status(&id, "completed").await["output"], "seen");
    let content = seen().await.expect("in time").expect("it was asked");
    let is_whole = content
        == json!([
            {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{image}")}},
            {"type": "file", "file":
                {"filename": "scan.pdf", "file_data": format!("data:application/pdf;base64,{pdf}")}},
            {"type": "text", "text": "What is it?"},
        ]);
    assert!(is_whole, "OpenAI's form");

    let id = ask("anthropic", "m").await;
    assert_eq!(client.task_with_status(&id, "completed").await["output"], "seen");
    let content = seen().await.expect("in time").expect("it was asked");
    let is_whole = content
        == json!([
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
            {"type": "document", "title": "scan.pdf", "source":
                {"type": "base64", "media_type": "application/pdf", "data": pdf}},
            {"type": "text", "text": "What is it?"},
        ]);
    assert!(is_whole, "Anthropic's form");

    let id = ask("openai", "vision-only").await;
    let failed = client.task_with_status(&id, "failed").await;
    assert_eq!(
        (&failed["error"]["code"], &failed["attempt"]),
        (&json!("PROVIDER_ERROR"), &json!(1))
    );
    let message = failed["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("Unknown part type") && message.contains(&scan), "{message}");
}
