//! Loads: many tasks in one request, a line each, over HTTP.

use std::time::Duration;

use callboard_client::{Call, Client as Library, Credential, Secret};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::{Client, Server, credentials};

const NDJSON: &str = "application/x-ndjson";

/// The answers to a load.
async fn load(client: &Client, body: &str) -> Vec<Value> {
    let request = client.request(Method::POST, "/api/tasks/bulk");
    let sent = request.header("content-type", NDJSON).body(body.to_owned()).send().await;
    let sent = sent.expect("an answer");
    assert_eq!(sent.status(), 200);
    assert_eq!(sent.headers()["content-type"], NDJSON);
    let text = sent.text().await.expect("it is whole");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// A load over a socket that sends when the test says so.
async fn socket(server: &Server, key: &str) -> TcpStream {
    let address = server.url.strip_prefix("http://").expect("without TLS");
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    let head = format!(
        "POST /api/tasks/bulk HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
         content-type: {NDJSON}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.expect("it reads");
    socket
}

fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

#[tokio::test]
async fn each_line_is_a_task_and_a_faulty_one_stops_no_other() {
    let server = Server::start();
    let client = server.client("operator").await;
    let long = format!("{{\"prompt\":\"{}\"}}", "x".repeat(2 << 20));
    let body = [
        "\u{feff}{\"prompt\":\"one\",\"idempotencyKey\":\"k\"}",
        "",
        "{\"prompt\":\"\",\"priority\":99}",
        "not JSON",
        &long,
        "{\"prompt\":\"one\",\"idempotencyKey\":\"k\"}\r",
        "{\"prompt\":\"two\",\"idempotencyKey\":\"k\"}",
        "{\"custom_id\":\"r-1\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":\
         {\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"Hi\"}]}}",
        "{\"custom_id\":\"r-2\",\"url\":\"/v1/embeddings\",\"body\":{\"messages\":[]}}",
        "{\"prompt\":\"last\"}",
    ];
    let answers = load(&client, &body.join("\n")).await;
    let lines: Vec<_> = answers.iter().map(|answer| answer["line"].as_u64()).collect();
    assert_eq!(lines, [1, 3, 4, 5, 6, 7, 8, 9, 10].map(Some), "{answers:?}");
    let code = |at: usize| answers[at]["error"]["code"].as_str().unwrap_or_default();
    assert_eq!(
        [code(1), code(2), code(3), code(5), code(7)],
        [
            "VALIDATION_ERROR",
            "INVALID_JSON",
            "PAYLOAD_TOO_LARGE",
            "IDEMPOTENCY_KEY_REUSED",
            "VALIDATION_ERROR"
        ],
        "{answers:?}"
    );
    assert_eq!(answers[1]["error"]["retryable"], false);
    assert_eq!((&answers[4]["id"], &answers[4]["replayed"]), (&answers[0]["id"], &json!(true)));
    assert_eq!(answers[0].get("replayed"), None);
    let chat = client.task(answers[6]["id"].as_str().expect("an id")).await;
    assert_eq!(
        [&chat["title"], &chat["model"], &chat["prompt"], &chat["systemPrompt"]],
        [&json!("r-1"), &json!("m"), &json!("Hi"), &json!("Be brief.")]
    );
    let known = client.post_once("/api/tasks", "k", &json!({"prompt": "one"})).await.expect(201);
    assert_eq!(known["id"], answers[0]["id"], "the keys are those of POST /api/tasks");
    let listed = client.get("/api/tasks").await.body["pagination"]["total"].clone();
    assert_eq!(listed, 3);
}

#[tokio::test]
async fn a_request_that_is_no_load_is_refused_as_a_whole() {
    let server = Server::start();
    let operator = server.client("operator").await;
    let path = "/api/tasks/bulk";
    operator.post_as(path, "text/csv", "prompt\nx\n").await.refused(415);
    operator.post_as(path, NDJSON, "").await.refused(400);
    server.client("viewer").await.post_as(path, NDJSON, "{\"prompt\":\"x\"}").await.refused(403);
}

#[tokio::test]
async fn a_load_has_at_most_a_hundred_thousand_lines() {
    let server = Server::start();
    let client = server.client("operator").await;
    // Lines without a task cost little.
    let answers = load(&client, &"1\n".repeat(100_002)).await;
    assert_eq!(answers.len(), 100_001);
    assert_eq!(answers[99_999]["line"], 100_000);
    let last = &answers[100_000];
    assert_eq!(last.get("line"), None, "{last}");
    assert_eq!(last["error"]["code"], "VALIDATION_ERROR");
    assert!(last["error"]["message"].as_str().expect("a text").contains("100000"), "{last}");
}

#[tokio::test]
async fn a_load_is_read_no_faster_than_its_answers_are_taken() {
    const LINES: usize = 2_000;
    let server = Server::start();
    let key = server.key("operator").await;
    let (mut answers, mut lines) = socket(&server, &key).await.into_split();
    // The answer to such a line is much longer than the line.
    let members: Vec<_> = (0..400).map(|at| format!("\"a{at}\":1")).collect();
    let line = chunk(&format!("{{{}}}\n", members.join(",")));
    let mut sent = 0;
    while sent < LINES
        && timeout(Duration::from_secs(3), lines.write_all(&line))
            .await
            .is_ok_and(|sent| sent.is_ok())
    {
        sent += 1;
    }
    assert!(sent < LINES, "the server reads on, although nobody takes its answers");
    // The line at which it stood still may be cut; the connection ends there.
    drop(lines);
    let mut text = Vec::new();
    timeout(Duration::from_mins(2), answers.read_to_end(&mut text))
        .await
        .expect("in time")
        .expect("it ends");
    let text = String::from_utf8_lossy(&text);
    let count = text.matches("{\"line\":").count();
    assert!(
        count + 1 >= sent.saturating_sub(1) && count <= sent + 1,
        "{count} answers to {sent} lines"
    );
}

#[tokio::test]
async fn a_revoked_key_ends_its_load() {
    let server = Server::start();
    let admin = server.admin().await;
    let made = admin.post("/api/auth/keys", &json!({"name": "load", "role": "operator"})).await;
    let made = made.expect(201);
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    credentials::keep(key);
    let mut socket = socket(&server, key).await;
    let mut read = String::new();
    let mut bytes = vec![0; 64 << 10];
    let mut revoked = false;
    let end = timeout(Duration::from_mins(1), async {
        loop {
            // After the end the server closes the connection.
            if socket.write_all(&chunk("{\"prompt\":\"x\"}\n")).await.is_err() {
                return;
            }
            match timeout(Duration::from_millis(50), socket.read(&mut bytes)).await {
                Ok(Ok(0) | Err(_)) => return,
                Ok(Ok(count)) => read.push_str(&String::from_utf8_lossy(&bytes[..count])),
                Err(_) => {}
            }
            if !revoked && read.contains("dt_task_") {
                admin.delete(&format!("/api/auth/keys/{id}")).await.expect_ok();
                revoked = true;
            }
            if read.contains("\"error\"") {
                return;
            }
        }
    })
    .await;
    end.expect("the load goes on with a revoked key");
    assert!(read.contains("INVALID_TOKEN") && !read.contains("\"line\":0"), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_sends_a_load() {
    let server = Server::start();
    let key = server.key("operator").await;
    let address = callboard_client::Server::parse(&server.url).expect("an address");
    let library = Library::new(address, Credential::Key(Secret::new(key))).expect("a client");
    let call = Call::post(&["tasks", "bulk"])
        .raw(NDJSON, b"{\"prompt\":\"x\"}\n{}\n".to_vec())
        .accepting(NDJSON)
        .repeatable();
    let text = library.stream(&call).await.expect("it is taken").text().await.expect("it is whole");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines[0]["id"].is_string() && lines[1]["error"].is_object(), "{lines:?}");
}
