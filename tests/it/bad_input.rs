//! Bad input of every kind gets a clear 4xx in the envelope, and nothing gets a 5xx.

use reqwest::Method;
use serde_json::json;

use crate::support::{Client, Server};

#[tokio::test]
async fn every_broken_field_is_named_with_its_rule() {
    let server = Server::start();
    let client = server.client("operator").await;
    let long = "x".repeat(65);
    let tags: Vec<_> = (0..33).map(|n| n.to_string()).collect();
    for (body, field, rule) in [
        (json!({}), "prompt", "required"),
        (json!({"prompt": null}), "prompt", "required"),
        (json!({"prompt": ""}), "prompt", "length"),
        (json!({"prompt": 5}), "prompt", "type"),
        (json!({"prompt": "p", "priority": 0}), "priority", "range"),
        (json!({"prompt": "p", "priority": 11}), "priority", "range"),
        (json!({"prompt": "p", "priority": 5.5}), "priority", "type"),
        (json!({"prompt": "p", "priority": "5"}), "priority", "type"),
        (json!({"prompt": "p", "temperature": 1.1}), "temperature", "range"),
        (json!({"prompt": "p", "timeoutMs": 0}), "timeoutMs", "range"),
        (json!({"prompt": "p", "timeoutMs": 86_400_001}), "timeoutMs", "range"),
        (json!({"prompt": "p", "maxTokens": 0}), "maxTokens", "range"),
        (json!({"prompt": "p", "maxTokens": -1}), "maxTokens", "range"),
        (json!({"prompt": "p", "tags": "t"}), "tags", "type"),
        (json!({"prompt": "p", "tags": [1]}), "tags[0]", "type"),
        (json!({"prompt": "p", "tags": [long]}), "tags[0]", "length"),
        (json!({"prompt": "p", "tags": tags}), "tags", "length"),
        (json!({"prompt": "p", "context": []}), "context", "type"),
        (
            json!({"prompt": "p", "hitl": {"confidenceThreshold": 2}}),
            "hitl.confidenceThreshold",
            "range",
        ),
        (json!({"prompt": "p", "hitl": {"nope": 2}}), "hitl.nope", "unknown"),
        (json!({"prompt": "p", "callbackUrl": "ftp://example.com"}), "callbackUrl", "format"),
        (json!({"prompt": "p", "callbackUrl": "http://u:p@example.com"}), "callbackUrl", "format"),
        (json!({"prompt": "p", "surprise": true}), "surprise", "unknown"),
        (json!([]), "body", "type"),
        (json!("text"), "body", "type"),
    ] {
        let fault = client.post("/api/tasks", &body).await.fault();
        assert_eq!(fault, (field.into(), rule.into()), "{body}");
    }
    assert_eq!(client.get("/api/tasks").await.body["pagination"]["total"], 0);
}

#[tokio::test]
async fn what_is_no_json_is_refused_as_such() {
    let server = Server::start();
    let client = server.client("operator").await;
    let deep = format!(
        "{{\"prompt\":\"p\",\"context\":{}{}}}",
        "{\"a\":".repeat(70),
        "1".to_owned() + &"}".repeat(70)
    );
    for body in [
        &b""[..],
        b"{",
        b"{\"prompt\":\"p\"} x",
        b"{\"prompt\":\"p\",\"prompt\":\"q\"}",
        b"{\"prompt\":\"p\",\"context\":{\"a\":1,\"a\":2}}",
        b"\xef\xbb\xbf{\"prompt\":\"p\"}",
        b"{\"prompt\":\"\xff\"}",
        b"{\"prompt\":\"\\ud800\"}",
        b"{\"prompt\":\"p\",\"maxTokens\":1e400}",
        deep.as_bytes(),
    ] {
        let answer = client.post_raw("/api/tasks", body.to_vec()).await;
        assert_eq!(answer.refused(400), "INVALID_JSON", "{}", String::from_utf8_lossy(body));
    }
}

#[tokio::test]
async fn paths_methods_types_and_sizes_have_errors_of_their_own() {
    let server = Server::start();
    let client = server.client("operator").await;
    assert_eq!(client.get("/api/nothing").await.refused(404), "NOT_FOUND");
    for id in [
        "nonsense",
        "dt_task_",
        "dt_task_00000000000000000000000000",
        "dt_plan_00000000000000000000000000",
    ] {
        assert_eq!(client.get(&format!("/api/tasks/{id}")).await.refused(404), "NOT_FOUND");
        client.delete(&format!("/api/tasks/{id}")).await.refused(404);
    }
    let put = client.send(client.request(Method::PUT, "/api/tasks")).await;
    assert_eq!(put.refused(405), "METHOD_NOT_ALLOWED");
    assert!(put.headers["allow"].to_str().expect("text").contains("POST"));
    let text =
        client.request(Method::POST, "/api/tasks").header("content-type", "text/plain").body("{}");
    assert_eq!(client.send(text).await.refused(415), "UNSUPPORTED_MEDIA_TYPE");
    let large = format!("{{\"prompt\":\"{}\"}}", "x".repeat(3 << 20));
    assert_eq!(client.post_raw("/api/tasks", large).await.refused(413), "PAYLOAD_TOO_LARGE");
    let long = format!("{{\"prompt\":\"{}\"}}", "x".repeat((1 << 20) + 1));
    let fault = client.post_raw("/api/tasks", long).await.fault();
    assert_eq!(fault, ("prompt".into(), "length".into()));
}

#[tokio::test]
async fn every_broken_parameter_is_named_with_its_rule() {
    let server = Server::start();
    let client = server.client("viewer").await;
    for (query, field, rule) in [
        ("limit=0", "limit", "range"),
        ("limit=101", "limit", "range"),
        ("limit=x", "limit", "type"),
        ("offset=-1", "offset", "range"),
        ("status=nope", "status", "enum"),
        ("orderBy=nope", "orderBy", "enum"),
        ("order=up", "order", "enum"),
        ("createdAfter=yesterday", "createdAfter", "format"),
        ("surprise=1", "surprise", "unknown"),
    ] {
        let fault = client.get(&format!("/api/tasks?{query}")).await.fault();
        assert_eq!(fault, (field.into(), rule.into()), "{query}");
    }
    let fault = client.get("/api/events?events=nope").await.fault();
    assert_eq!(fault, ("events".into(), "enum".into()));
}

#[tokio::test]
async fn nothing_that_is_thrown_at_it_gets_a_5xx() {
    let server = Server::start();
    let client = server.client("admin").await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let paths = [
        "/api/tasks",
        "/api/tasks/batch",
        "/api/tasks/x",
        "/api/auth/login",
        "/api/auth/refresh",
        "/api/auth/users",
        "/api/auth/users/x",
        "/api/auth/keys",
        "/api/workers",
        "/api/workers/x/drain",
        "/api/workers/connect",
        "/api/openapi.json",
        "/api",
        "/",
        "/api/tasks/%00",
        "/api/tasks/%ff",
        "/api/tasks?limit=%ff",
        "/api/tasks?%zz",
        "/health/%00",
    ];
    let bodies = [
        "",
        "null",
        "[]",
        "{}",
        "{\"tasks\":[]}",
        "{\"tasks\":[{}]}",
        "{\"email\":\"\",\"password\":\"\"}",
        "{\"refreshToken\":\"\"}",
        "\u{0}",
    ];
    let own = format!("/api/tasks/{id}");
    for path in paths.into_iter().chain([own.as_str()]) {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"]
        {
            for body in bodies {
                let method = Method::from_bytes(method.as_bytes()).expect("a token");
                let request = client.request(method.clone(), path);
                let request = request.header("content-type", "application/json").body(body);
                let answer = client.send(request).await;
                assert!(!answer.status.is_server_error(), "{method} {path} {body}: {answer:?}");
            }
        }
    }
    // It is still there.
    Client::new(&server.url, "").get("/api/health").await.expect_ok();
}
