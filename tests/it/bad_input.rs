//! Bad input of every kind gets a clear 4xx in the envelope, and nothing gets a 5xx.

use reqwest::Method;
use serde_json::json;

use crate::approvals::fixture::Fixture;
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
        (json!({"prompt": "p", "topP": -0.1}), "topP", "range"),
        (json!({"prompt": "p", "seed": "x"}), "seed", "type"),
        (json!({"prompt": "p", "seed": 1e19}), "seed", "range"),
        (json!({"prompt": "p", "stop": 5}), "stop", "type"),
        (json!({"prompt": "p", "stop": ["x".repeat(257)]}), "stop[0]", "length"),
        (json!({"prompt": "p", "stop": vec!["x"; 17]}), "stop", "length"),
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
        (json!({"prompt": "p", "hitl": {"requiredFor": []}}), "hitl.requiredFor", "unknown"),
        (json!({"prompt": "p", "hitl": true}), "hitl", "type"),
        (json!({"prompt": "p", "hitl": {"required": "yes"}}), "hitl.required", "type"),
        (json!({"prompt": "p", "hitl": {"timeoutMs": 0}}), "hitl.timeoutMs", "range"),
        (
            json!({"prompt": "p", "hitl": {"timeoutMs": 2_592_000_001_u64}}),
            "hitl.timeoutMs",
            "range",
        ),
        (json!({"prompt": "p", "hitl": {"sampleRate": 1.1}}), "hitl.sampleRate", "range"),
        (json!({"prompt": "p", "hitl": {"sampleRate": "1"}}), "hitl.sampleRate", "type"),
        (
            json!({"prompt": "p", "hitl": {"notifyChannels": "email"}}),
            "hitl.notifyChannels",
            "type",
        ),
        (
            json!({"prompt": "p", "hitl": {"notifyChannels": ["email", "sms"]}}),
            "hitl.notifyChannels[1]",
            "enum",
        ),
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
async fn every_broken_field_of_a_decision_is_named_with_its_rule() {
    let fixture = Fixture::open().await;
    let id = fixture.required("p").await;
    let long = "x".repeat(10_001);
    let prompt = "x".repeat((1 << 20) + 1);
    for (verb, body, field, rule) in [
        ("approve", json!({"comment": 5}), "comment", "type"),
        ("approve", json!({"comment": long}), "comment", "length"),
        ("approve", json!({"modifiedOutput": {"a": 1}}), "modifiedOutput", "type"),
        ("approve", json!({"reviewerId": 5}), "reviewerId", "type"),
        ("approve", json!({"reviewerId": ""}), "reviewerId", "length"),
        ("approve", json!({"reviewerId": "x".repeat(129)}), "reviewerId", "length"),
        ("approve", json!({"reason": "r"}), "reason", "unknown"),
        ("approve", json!({"approved": true}), "approved", "unknown"),
        ("approve", json!([]), "body", "type"),
        ("reject", json!({}), "reason", "required"),
        ("reject", json!({"reason": null}), "reason", "required"),
        ("reject", json!({"reason": ""}), "reason", "length"),
        ("reject", json!({"reason": long}), "reason", "length"),
        ("reject", json!({"reason": 5}), "reason", "type"),
        ("reject", json!({"reason": "r", "retry": "yes"}), "retry", "type"),
        ("reject", json!({"reason": "r", "retry": 1}), "retry", "type"),
        ("reject", json!({"reason": "r", "retryPrompt": "p"}), "retry", "required"),
        ("reject", json!({"reason": "r", "retry": false, "retryPrompt": "p"}), "retry", "required"),
        (
            "reject",
            json!({"reason": "r", "retry": true, "retryPrompt": ""}),
            "retryPrompt",
            "length",
        ),
        (
            "reject",
            json!({"reason": "r", "retry": true, "retryPrompt": prompt}),
            "retryPrompt",
            "length",
        ),
        (
            "reject",
            json!({"reason": "r", "retry": true, "retryPrompt": prompt[1..]}),
            "retryPrompt",
            "length",
        ),
        ("reject", json!({"reason": "r", "reviewerId": []}), "reviewerId", "type"),
        ("reject", json!({"reason": "r", "comment": "c"}), "comment", "unknown"),
    ] {
        let fault = fixture.operator.post(&format!("/api/hitl/{id}/{verb}"), &body).await.fault();
        assert_eq!(fault, (field.into(), rule.into()), "{verb}");
    }
    let absent = fixture.operator.post_raw(&format!("/api/hitl/{id}/reject"), "").await;
    assert_eq!(absent.refused(400), "INVALID_JSON");
    for verb in ["approve", "reject"] {
        for body in ["{", "{\"reason\":\"r\",\"reason\":\"s\"}", "{\"reason\":\"\\ud800\"}"] {
            let answer = fixture.operator.post_raw(&format!("/api/hitl/{id}/{verb}"), body).await;
            assert_eq!(answer.refused(400), "INVALID_JSON", "{verb} {body}");
        }
    }
    for (query, field, rule) in [
        ("/pending?limit=0", "limit", "range"),
        ("/pending?limit=101", "limit", "range"),
        ("/pending?offset=-1", "offset", "range"),
        ("/pending?offset=x", "offset", "type"),
        ("/pending?queue=", "queue", "length"),
        ("/pending?reviewerId=", "reviewerId", "length"),
        ("/pending?includeExpired=maybe", "includeExpired", "type"),
        ("/pending?status=approved", "status", "enum"),
        ("/pending?order=asc", "order", "unknown"),
        ("?status=nope", "status", "enum"),
        ("?status=approved,nope", "status", "enum"),
        ("?includeExpired=true", "includeExpired", "unknown"),
        ("?limit=0", "limit", "range"),
    ] {
        let fault = fixture.operator.get(&format!("/api/hitl{query}")).await.fault();
        assert_eq!(fault, (field.into(), rule.into()), "{query}");
    }
    assert_eq!(fixture.actions(&id).await, ["pending", "assigned"], "nothing was decided");
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
    // Not so many that they are refused for their number.
    let fixture = Fixture::open().await;
    let client = fixture.key("admin").await.client;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let held = fixture.required("p").await;
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
        "/api/hitl",
        "/api/hitl/pending",
        "/api/hitl/pending?tags=,,&limit=%00",
        "/api/hitl/stats",
        "/api/hitl/x/approve",
        "/api/hitl/%00/reject",
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
        "{\"reason\":\"r\",\"retry\":true}",
        "\u{0}",
    ];
    let own = [format!("/api/tasks/{id}"), format!("/api/hitl/{id}")].into_iter();
    let verbs = ["history", "claim", "release", "approve", "reject"];
    let decided = verbs.map(|verb| format!("/api/hitl/{held}/{verb}"));
    for path in paths.into_iter().map(str::to_owned).chain(own).chain(decided) {
        let path = path.as_str();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"]
        {
            for body in bodies {
                let method = Method::from_bytes(method.as_bytes()).expect("a token");
                let request = client.request(method.clone(), path);
                let request = request.header("content-type", "application/json").body(body);
                let answer = client.send(request).await;
                assert!(!answer.status.is_server_error(), "{method} {path} {body}: {answer:?}");
                let heard = path == "/api/auth/login" || answer.status.as_u16() != 429;
                assert!(heard, "{method} {path} {body}: {answer:?}");
            }
        }
    }
    // It is still there.
    Client::new(&fixture.server.url, "").get("/api/health").await.expect_ok();
}
