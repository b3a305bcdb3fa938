//! `/mcp` as an assistant of an earlier revision sends its messages, by hand.

use reqwest::Method;
use reqwest::header::{ACCEPT, HeaderMap, ORIGIN};
use serde_json::{Value, json};

use crate::support::{Answer, Client, FakeWorker, Server, until};

const BOTH: &str = "application/json, text/event-stream";

fn post(client: &Client, message: &Value) -> reqwest::RequestBuilder {
    client.request(Method::POST, "/mcp").header(ACCEPT, BOTH).json(message)
}

fn message(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

fn call(name: &str, arguments: &Value) -> Value {
    let meta = json!({"progressToken": "p"});
    message("tools/call", &json!({"name": name, "arguments": arguments, "_meta": meta}))
}

/// The headers of an answer, and its messages.
async fn said(request: reqwest::RequestBuilder) -> (HeaderMap, Vec<Value>) {
    let response = request.send().await.expect("an answer");
    assert_eq!(response.status().as_u16(), 200);
    let headers = response.headers().clone();
    let text = response.text().await.expect("a body");
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let messages = data.map(str::trim).filter(|data| !data.is_empty());
    (headers, messages.map(|data| serde_json::from_str(data).expect("JSON")).collect())
}

/// The result of a call of a tool, which comes last.
async fn result(request: reqwest::RequestBuilder) -> Value {
    let (_, mut messages) = said(request).await;
    messages.pop().expect("a message")["result"].take()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

fn initialize() -> Value {
    let info = json!({"name": "test", "version": "1"});
    message(
        "initialize",
        &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}),
    )
}

async fn refused(request: reqwest::RequestBuilder) -> Answer {
    Answer::of(request).await.expect("an answer")
}

#[tokio::test]
async fn an_assistant_acts_with_its_own_credentials_and_without_any_not_at_all() {
    let server = Server::start();
    let nobody = Client::new(&server.url, "");
    let answer = refused(post(&nobody, &initialize())).await;
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    assert_eq!(answer.refused(401), "UNAUTHORIZED");

    let viewer = server.client("viewer").await;
    let result_of = async |request| result(request).await;
    let tools = result_of(post(&viewer, &message("tools/list", &json!({})))).await;
    assert_eq!(tools["tools"][0]["name"], "submit_task");
    let submitted = result_of(post(&viewer, &call("submit_task", &json!({"prompt": "x"})))).await;
    assert_eq!(submitted["isError"], true);
    assert!(text(&submitted).contains("FORBIDDEN"), "{submitted}");
    assert_eq!(viewer.get("/api/tasks").await.expect_ok(), json!([]));

    // A key may stand in the address, as everywhere.
    let path = format!("/mcp?api_key={}", server.key("operator").await);
    let request = nobody.request(Method::POST, &path).header(ACCEPT, BOTH);
    let task = call("submit_task", &json!({"prompt": "x", "wait": false}));
    let submitted = result_of(request.json(&task)).await;
    assert_eq!(submitted["structuredContent"]["status"], "pending", "{submitted}");
}

#[tokio::test]
async fn a_session_names_its_project_and_a_key_is_of_one() {
    let server = Server::start();
    let admin = server.admin().await;
    let project = admin.post("/api/projects", &json!({"name": "other"})).await.expect(201);
    let project = project["id"].as_str().expect("an id");
    let task = call("submit_task", &json!({"prompt": "x", "wait": false}));
    let inside = post(&admin, &task).header("Callboard-Project", project);
    let made = result(inside).await["structuredContent"]["id"].take();
    let read = call("read_task", &json!({"id": made}));
    assert_eq!(result(post(&admin, &read)).await["isError"], true);
    let inside = post(&admin, &read).header("Callboard-Project", project);
    assert_eq!(result(inside).await["structuredContent"]["id"], made);
    let key = server.client("operator").await;
    let outside = post(&key, &read).header("Callboard-Project", project);
    assert_eq!(refused(outside).await.refused(404), "NOT_FOUND");
}

#[tokio::test]
async fn what_is_no_message_is_refused_with_the_reason() {
    let server = Server::start();
    let viewer = server.client("viewer").await;
    for method in [Method::GET, Method::DELETE] {
        let answer = refused(viewer.request(method, "/mcp").header(ACCEPT, BOTH)).await;
        assert_eq!(answer.headers["allow"], "POST, OPTIONS");
        assert_eq!(answer.refused(405), "METHOD_NOT_ALLOWED");
    }
    let foreign = post(&viewer, &initialize()).header(ORIGIN, "https://evil.example");
    assert_eq!(refused(foreign).await.refused(403), "FORBIDDEN");
    let own = post(&viewer, &initialize()).header(ORIGIN, &server.url);
    assert_eq!(own.send().await.expect("an answer").status().as_u16(), 200);

    let of = |body: &str| {
        let request = viewer.request(Method::POST, "/mcp").header(ACCEPT, BOTH);
        request.header("content-type", "application/json").body(body.to_owned())
    };
    for body in ["", "{", "[]", r#"{"jsonrpc": "2.0"}"#] {
        assert_eq!(refused(of(body)).await.refused(400), "VALIDATION_ERROR", "{body}");
    }
    let plain = viewer.request(Method::POST, "/mcp").header(ACCEPT, "application/json");
    let answer = refused(plain.json(&initialize())).await;
    let (_, says) = (answer.refused(400).to_owned(), answer.body["error"]["message"].to_string());
    assert!(says.contains("text/event-stream"), "{says}");
    let form = viewer.request(Method::POST, "/mcp").header(ACCEPT, BOTH).body("x");
    assert_eq!(refused(form).await.refused(415), "UNSUPPORTED_MEDIA_TYPE");
    let long = of(&"x".repeat((2 << 20) + 1));
    assert_eq!(refused(long).await.refused(413), "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_restart_ends_the_calls_that_wait_and_nothing_else() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    let (headers, greeting) = said(post(&client, &initialize())).await;
    assert!(!headers.contains_key("mcp-session-id"), "{headers:?}");
    assert_eq!(greeting[0]["result"]["protocolVersion"], "2025-06-18");
    let waits = post(&client, &call("submit_task", &json!({"prompt": "x"})));
    let mut response = waits.send().await.expect("an answer");
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut progress = String::new();
    while !progress.contains("waits for worker") {
        let piece = response.chunk().await.expect("a piece").expect("the call waits");
        progress.push_str(&String::from_utf8_lossy(&piece));
    }
    let waiting = client.get("/api/tasks").await.expect_ok();
    let id = waiting[0]["id"].as_str().expect("an id").to_owned();
    assert!(server.terminate(), "open calls hold up no stop");
    while let Ok(Some(_)) = response.chunk().await {}
    server.restart();
    let client = client.at(&server.url);
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    worker.run(|_| Ok("done".to_owned()));
    client.task_with_status(&id, "completed").await;
    let read = result(post(&client, &call("read_task", &json!({"id": id})))).await;
    assert_eq!(text(&read), "done");
}

#[tokio::test]
async fn an_account_has_a_budget_of_waiting_calls_which_end_with_their_assistant_or_their_key() {
    let server = Server::with(&[("LIMITS__STREAMS", "1")]);
    let admin = server.admin().await;
    let made = admin.post("/api/auth/keys", &json!({"name": "a", "role": "operator"})).await;
    let made = made.expect(201);
    let client = Client::new(&server.url, made["key"].as_str().expect("a key"));
    let waits = || post(&client, &call("submit_task", &json!({"prompt": "x"})));
    let mut response = waits().send().await.expect("an answer");
    assert!(response.chunk().await.expect("a piece").is_some());
    let answer = refused(waits()).await;
    assert!(answer.body["error"]["message"].to_string().contains("1 calls of assistants"));
    assert_eq!(answer.refused(429), "RATE_LIMIT_EXCEEDED");
    drop(response);
    until("the call has ended", async || {
        post(&client, &initialize()).send().await.expect("an answer").status().is_success()
    })
    .await;
    let mut response = waits().send().await.expect("an answer");
    let id = made["id"].as_str().expect("an id");
    admin.delete(&format!("/api/auth/keys/{id}")).await.expect_ok();
    while let Ok(Some(_)) = response.chunk().await {}
    // The server ends the connection with the answer, so this comes on another one.
    let again = client.at(&server.url);
    let refused = refused(post(&again, &call("submit_task", &json!({"prompt": "x"})))).await;
    assert_eq!(refused.refused(401), "INVALID_TOKEN");
}
