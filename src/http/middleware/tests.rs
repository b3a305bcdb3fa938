use axum::body::Body as Bytes;
use axum::http::header::CONTENT_LENGTH;
use axum::routing::{get, post};
use callboard_domain::id::TaskId;
use callboard_wire::common::Paging;
use callboard_wire::read::rule;
use callboard_wire::request;
use serde_json::{Value, json};

use super::*;
use crate::http::{Body, Id, Query, Reply};

request! {
    struct NewTask as "NewTask" {
        /// The prompt.
        prompt: String = required("prompt", rule::text(rule::bytes(1..=10))),
    }
}

async fn create(Body(new): Body<NewTask>) -> Result<Reply, Failure> {
    Ok(Reply::created(&json!({"prompt": new.prompt})))
}

async fn list(Query(paging): Query<Paging>) -> Result<Reply, Failure> {
    Ok(Reply::page(&[1, 2], 50, paging.window()))
}

async fn read(Id(id): Id<TaskId>) -> Result<Reply, Failure> {
    Ok(Reply::ok(&json!({"id": id})))
}

async fn panics() -> Result<Reply, Failure> {
    panic!("the secret is 42")
}

async fn health() -> Reply {
    Reply::bare(StatusCode::OK, &json!({"status": "ok"}))
}

fn service() -> Middleware {
    let routes = Router::new()
        .route("/api/tasks", post(create).get(list))
        .route("/api/tasks/{id}", get(read))
        .route("/api/panics", get(panics))
        .route("/api/short", get(async || StatusCode::INTERNAL_SERVER_ERROR))
        .route("/health", get(health))
        .route("/metrics", get(async || "svc_workers_active 0\n"));
    Middleware::new(routes, Edge::default())
}

struct Answer {
    status: u16,
    headers: axum::http::HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).expect("the header is there");
        value.to_str().expect("text")
    }
}

async fn answer(request: Request) -> Answer {
    let response = service().answer(request).await;
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("a body in memory");
    let answer = Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).expect("UTF-8"),
    };
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("x-frame-options"), "DENY");
    assert_eq!(answer.header("x-xss-protection"), "1; mode=block");
    let transport = answer.header("strict-transport-security");
    assert_eq!(transport, "max-age=31536000; includeSubDomains");
    if !answer.text.is_empty() && answer.header("content-type") == "application/json" {
        let id = &answer.json()["meta"]["requestId"];
        assert!(id.is_null() || id == answer.header("x-request-id"));
    }
    answer
}

fn request(method: &str, path: &str, body: impl Into<Bytes>) -> Request {
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body.into())
        .expect("a request")
}

async fn ask(method: &str, path: &str, body: &'static str) -> Answer {
    answer(request(method, path, body)).await
}

/// Asks, expects a refusal, and gives its status, code and message.
async fn refusal(method: &str, path: &str, body: &'static str) -> (u16, String, String) {
    let answer = ask(method, path, body).await;
    let json = answer.json();
    assert_eq!(json["success"], false);
    assert!(json["meta"]["timestamp"].is_string() && json["meta"]["duration"].is_null());
    let text = |name: &str| json["error"][name].as_str().unwrap_or_default().to_owned();
    (answer.status, text("code"), text("message"))
}

fn error(status: u16, code: &str, message: &str) -> (u16, String, String) {
    (status, code.to_owned(), message.to_owned())
}

#[tokio::test]
async fn handlers_answer_in_the_envelope() {
    let created = ask("POST", "/api/tasks", r#"{"prompt":"hi"}"#).await;
    assert_eq!((created.status, &created.json()["data"]), (201, &json!({"prompt": "hi"})));
    assert!(created.json()["meta"]["duration"].is_u64());
    let listed = ask("GET", "/api/tasks?limit=2&offset=48&api_key=x", "").await;
    let pagination = json!({"total": 50, "limit": 2, "offset": 48, "hasMore": false});
    assert_eq!(listed.json()["pagination"], pagination);
}

#[tokio::test]
async fn paths_outside_of_the_api_are_bare() {
    assert_eq!(ask("GET", "/health", "").await.text, r#"{"status":"ok"}"#);
    assert_eq!(ask("GET", "/metrics", "").await.text, "svc_workers_active 0\n");
}

#[tokio::test]
async fn a_given_request_id_comes_back() {
    let mut asked = request("GET", "/api/tasks", "");
    asked.headers_mut().insert("x-request-id", HeaderValue::from_static("my-1"));
    let answer = answer(asked).await;
    assert_eq!(answer.header("x-request-id"), "my-1");
    assert_eq!(answer.json()["meta"]["requestId"], "my-1");
}

#[tokio::test]
async fn every_refusal_is_in_the_envelope() {
    assert_eq!(
        refusal("POST", "/api/tasks", "{}").await,
        error(400, "VALIDATION_ERROR", "prompt is required")
    );
    assert_eq!(
        refusal("POST", "/api/tasks", "").await,
        error(400, "INVALID_JSON", "the body is not valid JSON: it is empty")
    );
    assert_eq!(
        refusal("GET", "/api/tasks?x=1", "").await,
        error(400, "VALIDATION_ERROR", "x is an unknown field; allowed: limit, offset")
    );
    assert_eq!(
        refusal("GET", "/api/tasks/dt_task_x", "").await,
        error(404, "NOT_FOUND", "task dt_task_x does not exist")
    );
    let nothing =
        error(404, "NOT_FOUND", "no route matches this path: GET /api/openapi.json lists all");
    assert_eq!(refusal("GET", "/api/nothing", "").await, nothing);
    assert_eq!(refusal("GET", "/api/tasks/%ff", "").await, nothing);
    let inside = error(500, "INTERNAL_ERROR", "internal error");
    assert_eq!(refusal("GET", "/api/panics", "").await, inside);
    assert_eq!(refusal("GET", "/api/short", "").await, inside);
}

#[tokio::test]
async fn a_method_that_does_not_exist_is_told_those_that_do() {
    let answer = ask("PUT", "/api/tasks", "").await;
    assert_eq!((answer.status, answer.header("allow")), (405, "POST, GET, HEAD, OPTIONS"));
    assert_eq!(
        answer.json()["error"]["message"],
        "method PUT is not allowed here; allowed: POST, GET, HEAD, OPTIONS"
    );
    let options = ask("OPTIONS", "/api/tasks", "").await;
    assert_eq!((options.status, options.text.as_str()), (204, ""));
    assert_eq!(options.header("allow"), "POST, GET, HEAD, OPTIONS");
}

#[tokio::test]
async fn head_tells_the_length_and_sends_nothing() {
    let head = ask("HEAD", "/api/tasks", "").await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
    assert!(head.header("content-length").parse::<usize>().is_ok_and(|length| length > 100));
}

#[tokio::test]
async fn another_content_type_or_a_compressed_body_is_refused() {
    let mut plain = request("POST", "/api/tasks", "{}");
    plain.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    let mut absent = request("POST", "/api/tasks", "{}");
    absent.headers_mut().remove(CONTENT_TYPE);
    let mut packed = request("POST", "/api/tasks", "{}");
    packed.headers_mut().insert("content-encoding", HeaderValue::from_static("gzip"));
    for asked in [plain, absent, packed] {
        let answer = answer(asked).await;
        assert_eq!(answer.json()["error"]["code"], "UNSUPPORTED_MEDIA_TYPE");
        assert_eq!(answer.status, 415);
    }
}

#[tokio::test]
async fn a_body_or_headers_too_large_are_refused() {
    let large = answer(request("POST", "/api/tasks", " ".repeat(body::MAX_BODY + 1))).await;
    assert_eq!((large.status, &large.json()["error"]["code"]), (413, &json!("PAYLOAD_TOO_LARGE")));
    let mut announced = request("POST", "/api/tasks", "{}");
    announced.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("3000000"));
    assert_eq!(answer(announced).await.status, 413);
    let mut headers = request("GET", "/api/tasks", "");
    let value = HeaderValue::try_from("x".repeat(16 * 1024)).expect("ASCII");
    headers.headers_mut().insert("x-long", value);
    let refused = answer(headers).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (431, &json!("HEADERS_TOO_LARGE"))
    );
}
