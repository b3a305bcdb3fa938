//! Traces: one trace from the caller's request to the model call, received by a small OTLP receiver.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Client, FakeWorker, Server, until};

const CALLER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A receiver of OTLP over HTTP.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<Received>>);

#[derive(Default)]
struct Received {
    spans: Vec<(String, Span)>,
    bytes: Vec<u8>,
    headers: Vec<HeaderMap>,
}

impl Receiver {
    /// A receiver, and its address.
    async fn start() -> (Self, String) {
        let receiver = Self::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let routes = Router::new().route("/v1/traces", post(receive)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        (receiver, url)
    }

    fn spans(&self) -> Vec<(String, Span)> {
        self.0.lock().expect("no holder panics").spans.clone()
    }

    /// The spans of this name, once there are so many.
    async fn named(&self, name: &str, count: usize) -> Vec<Span> {
        let named = || {
            let spans = self.spans().into_iter().map(|(_, span)| span);
            spans.filter(|span| span.name == name).collect::<Vec<_>>()
        };
        until(&format!("{count} spans {name} are received"), async || named().len() >= count).await;
        named()
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body.clone()).expect("protobuf");
    let mut kept = receiver.0.lock().expect("no holder panics");
    kept.bytes.extend(body);
    kept.headers.push(headers);
    for resource in request.resource_spans {
        let attributes = resource.resource.map(|it| it.attributes).unwrap_or_default();
        let service = attributes.iter().find(|it| it.key == "service.name");
        let service = service.map(|it| format!("{:?}", it.value)).unwrap_or_default();
        for scope in resource.scope_spans {
            kept.spans.extend(scope.spans.into_iter().map(|span| (service.clone(), span)));
        }
    }
}

/// The attributes of a span, numbers as text.
fn attributes(span: &Span) -> HashMap<&str, String> {
    let text = |value: &Attribute| {
        if let Attribute::StringValue(text) = value {
            text.clone()
        } else if let Attribute::IntValue(number) = value {
            number.to_string()
        } else {
            format!("{value:?}")
        }
    };
    let attributes = span.attributes.iter();
    attributes
        .map(|it| {
            (
                it.key.as_str(),
                it.value.as_ref().and_then(|it| it.value.as_ref()).map(text).unwrap_or_default(),
            )
        })
        .collect()
}

/// A worker program, ended in order when dropped.
struct Worker(Child);

impl Worker {
    fn start(server: &Server, key: &str, receiver: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_callboard"))
            .args(["worker", "--server", &server.url, "--provider", "simulated"])
            .args(["--otel-endpoint", receiver])
            .env("CALLBOARD_API_KEY", key)
            .env("CALLBOARD_LOG", "warn")
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("the program starts"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn traced(client: &Client, path: &str, body: &Value, traceparent: &str) -> Value {
    let request = client.request(Method::POST, path).header("traceparent", traceparent);
    client.send(request.json(body)).await.expect(201)
}

fn traced_server(receiver: &str) -> Server {
    Server::with(&[
        ("OTEL__ENDPOINT", receiver),
        ("OTEL__HEADERS", "authorization=Bearer collector"),
        ("OTEL__SAMPLE_RATIO", "0"),
    ])
}

#[tokio::test]
async fn one_trace_holds_the_request_the_task_two_attempts_and_the_model_call() {
    let (receiver, url) = Receiver::start().await;
    let server = traced_server(&url);
    let client = server.client("operator").await;
    let key = server.key("worker").await;
    let mut flaky = FakeWorker::connect(&server, &key, 1).await;
    let task = json!({"prompt": "a secret prompt", "model": "gpt-x", "maxTokens": 50});
    let task = traced(&client, "/api/tasks", &task, CALLER).await;
    let id = task["id"].as_str().expect("an id").to_owned();
    let assigned = flaky.assignment().await;
    let first_context = assigned["task"]["traceparent"].as_str().expect("a context").to_owned();
    let error = json!({"code": "PROVIDER_RATE_LIMITED", "message": "busy"});
    let fail =
        json!({"type": "fail", "lease": assigned["lease"], "error": error, "retryable": true});
    flaky.send(fail).await;
    assert_eq!(flaky.receive("ack").await["result"], "applied");
    drop(flaky);
    let _worker = Worker::start(&server, &key, &url);
    let done = client.task_with_status(&id, "completed").await;
    let output = done["output"].as_str().expect("an output");

    let [chat] = &receiver.named("chat gpt-x", 1).await[..] else { panic!("one call") };
    let [request] = &receiver.named("POST /api/tasks", 1).await[..] else { panic!("one request") };
    let [task] = &receiver.named("task", 1).await[..] else { panic!("one task") };
    let attempts = receiver.named("attempt", 2).await;
    let [first, second] = &attempts[..] else { panic!("two attempts: {attempts:?}") };

    let trace = u128::from_str_radix(&CALLER[3..35], 16).expect("hexadecimal").to_be_bytes();
    for span in [chat, request, task, first, second] {
        assert_eq!(span.trace_id, trace, "{}", span.name);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
    let caller = u64::from_str_radix(&CALLER[36..52], 16).expect("hexadecimal").to_be_bytes();
    assert_eq!(request.parent_span_id, caller);
    assert_eq!(task.parent_span_id, request.span_id);
    assert_eq!((&first.parent_span_id, &second.parent_span_id), (&task.span_id, &task.span_id));
    assert_eq!(chat.parent_span_id, second.span_id);
    let span = u64::from_be_bytes(first.span_id[..].try_into().expect("eight bytes"));
    assert_eq!(first_context, format!("{}-{span:016x}-01", &CALLER[..35]));

    let call = attributes(chat);
    assert_eq!(call["gen_ai.operation.name"], "chat");
    assert_eq!(call["gen_ai.provider.name"], "simulated");
    assert_eq!(
        (call["gen_ai.request.model"].as_str(), call["gen_ai.request.max_tokens"].as_str()),
        ("gpt-x", "50")
    );
    assert_eq!(call["gen_ai.usage.input_tokens"], done["usage"]["input"].to_string());
    assert_eq!(call["gen_ai.usage.output_tokens"], done["usage"]["output"].to_string());
    assert_eq!(attributes(first)["error.type"], "PROVIDER_RATE_LIMITED");
    let task = attributes(task);
    assert_eq!(
        (task["callboard.task.id"].as_str(), task["callboard.task.status"].as_str()),
        (id.as_str(), "completed")
    );
    assert_eq!(attributes(request)["http.response.status_code"], "201");

    let services: Vec<_> =
        receiver.spans().into_iter().map(|(service, span)| (span.name, service)).collect();
    let service =
        |name: &str| services.iter().find(|(known, _)| known == name).map(|(_, it)| it.clone());
    assert!(service("chat gpt-x").is_some_and(|service| service.contains("callboard-worker")));
    assert!(service("task").is_some_and(|service| service.contains("\"callboard\"")));
    let sent = receiver.0.lock().expect("no holder panics");
    assert!(
        sent.headers
            .iter()
            .any(|headers| headers.get("authorization").is_some_and(|it| it == "Bearer collector"))
    );
    for secret in ["a secret prompt", output] {
        let found = memchr::memmem::find(&sent.bytes, secret.as_bytes());
        assert!(found.is_none(), "no span holds a prompt or an output");
    }
}

#[tokio::test]
async fn a_chat_completion_is_traced_as_its_task_is() {
    let (receiver, url) = Receiver::start().await;
    let server = traced_server(&url);
    let client = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let _running = worker.run(|_| Ok("out".to_owned()));
    let body = json!({"messages": [{"role": "user", "content": "p"}]});
    let request = client.request(Method::POST, "/v1/chat/completions").json(&body);
    let answer = client.send(request.header("traceparent", CALLER)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let request = receiver.named("POST /v1/chat/completions", 1).await;
    let task = receiver.named("task", 1).await;
    let attempt = receiver.named("attempt", 1).await;
    assert_eq!(task[0].parent_span_id, request[0].span_id);
    assert_eq!(attempt[0].parent_span_id, task[0].span_id);
    assert_eq!(request[0].trace_id, attempt[0].trace_id);
    assert_eq!(
        attributes(&task[0])["callboard.task.id"],
        answer.body["id"].as_str().expect("an id")
    );
}

#[tokio::test]
async fn an_execution_stands_between_its_request_and_its_tasks() {
    let (receiver, url) = Receiver::start().await;
    let server = traced_server(&url);
    let client = server.client("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 2).await;
    let running = worker.run(|_| Ok("out".to_owned()));
    let plan = client.plan(&json!([{"id": "a", "prompt": "p"}, {"id": "b", "prompt": "{{a.output}}", "dependsOn": ["a"]}])).await;
    let execution =
        traced(&client, &format!("/api/plans/{plan}/execute"), &json!({}), CALLER).await;
    client.execution_with_status(execution["id"].as_str().expect("an id"), "completed").await;
    let [execution] = &receiver.named("execution", 1).await[..] else { panic!("one execution") };
    let request = receiver.named("POST /api/plans/{id}/execute", 1).await;
    assert_eq!(execution.parent_span_id, request[0].span_id);
    let tasks = receiver.named("task", 2).await;
    assert!(tasks.iter().all(|task| task.parent_span_id == execution.span_id));
    // The requests that sent no context are not recorded: the ratio is 0.
    assert!(receiver.spans().iter().all(|(_, span)| span.trace_id == execution.trace_id));
    running.abort();
}

#[tokio::test]
async fn an_attempt_that_another_model_follows_has_its_own_error() {
    let (receiver, url) = Receiver::start().await;
    let server = traced_server(&url);
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let task = json!({"prompt": "p", "models": ["a", "b"]});
    traced(&client, "/api/tasks", &task, CALLER).await;
    let error = json!({"code": "PROVIDER_RATE_LIMITED", "message": "busy"});
    let lease = worker.assignment().await["lease"].clone();
    worker.send(json!({"type": "fail", "lease": lease, "error": error, "retryable": true})).await;
    assert_eq!(worker.receive("ack").await["result"], "applied");
    let lease = worker.assignment().await["lease"].clone();
    worker.complete(&lease, "x").await;
    let attempts = receiver.named("attempt", 2).await;
    let errors: Vec<_> =
        attempts.iter().map(|it| attributes(it).get("error.type").cloned()).collect();
    assert_eq!(errors, [Some("PROVIDER_RATE_LIMITED".to_owned()), None]);
}

#[tokio::test]
async fn an_execution_lasts_from_its_beginning_and_a_retry_from_its_own() {
    let (receiver, url) = Receiver::start().await;
    let server = traced_server(&url);
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let plan = client.plan(&json!([{"id": "a", "prompt": "p"}])).await;
    let millis = |time: std::time::SystemTime| {
        u64::try_from(time.duration_since(std::time::UNIX_EPOCH).expect("later").as_millis())
            .expect("small")
    };
    let at = millis(std::time::SystemTime::now()) + 1_500;
    let start_at = jiff::Timestamp::from_millisecond(i64::try_from(at).expect("small"));
    let begin = json!({"startAt": start_at.expect("a time").to_string()});
    let started = traced(&client, &format!("/api/plans/{plan}/execute"), &begin, CALLER).await;
    let id = started["id"].as_str().expect("an id");
    let lease = worker.assignment().await["lease"].clone();
    let error = json!({"code": "PROVIDER_ERROR", "message": "no"});
    worker.send(json!({"type": "fail", "lease": lease, "error": error, "retryable": false})).await;
    client.execution_with_status(id, "failed").await;
    let retried = client.post(&format!("/api/plans/executions/{id}/retry"), &json!({})).await;
    assert_eq!(retried.status.as_u16() / 100, 2, "{}", retried.body);
    let lease = worker.assignment().await["lease"].clone();
    worker.complete(&lease, "x").await;
    client.execution_with_status(id, "completed").await;
    let [first, second] = &receiver.named("execution", 2).await[..] else { panic!("two runs") };
    assert!(first.start_time_unix_nano >= at * 1_000_000, "it began at its startAt");
    assert!(second.start_time_unix_nano >= first.end_time_unix_nano, "not with the first run");
}

#[tokio::test]
async fn headers_that_are_given_take_the_place_of_those_of_the_environment() {
    let (receiver, url) = Receiver::start().await;
    let server = Server::start();
    let client = server.client("operator").await;
    let file = server.dir.path().join("headers");
    std::fs::write(&file, "authorization=Bearer given").expect("it is written");
    let child = Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(["worker", "--server", &server.url, "--provider", "simulated"])
        .args(["--otel-endpoint", &url, "--otel-headers-file"])
        .arg(file)
        .env("CALLBOARD_API_KEY", server.key("worker").await)
        .env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer other,x-team=b")
        .stdin(Stdio::null())
        .spawn();
    let _worker = Worker(child.expect("the program starts"));
    traced(&client, "/api/tasks", &json!({"prompt": "p", "model": "gpt-x"}), CALLER).await;
    receiver.named("chat gpt-x", 1).await;
    let sent = receiver.0.lock().expect("no holder panics");
    for headers in &sent.headers {
        assert_eq!(headers["authorization"], "Bearer given");
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert!(headers.get("x-team").is_none());
    }
}

#[tokio::test]
async fn a_context_that_is_not_recorded_is_passed_on_as_it_came() {
    let (receiver, url) = Receiver::start().await;
    let unsampled = CALLER.replace("-01", "-00");
    for (server, context) in [(Server::start(), CALLER), (traced_server(&url), &unsampled)] {
        let client = server.client("operator").await;
        let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
        let task = json!({"prompt": "p"});
        traced(&client, "/api/tasks", &task, context).await;
        let assigned = worker.assignment().await;
        assert_eq!(assigned["task"]["traceparent"], context);
        for wrong in ["nonsense", "00-0-0-0", &CALLER.to_uppercase()] {
            traced(&client, "/api/tasks", &task, wrong).await;
            let assigned = worker.assignment().await;
            assert!(assigned["task"].get("traceparent").is_none(), "{assigned}");
        }
        worker.complete(&assigned["lease"], "x").await;
    }
    assert!(receiver.spans().is_empty());
}

#[tokio::test]
async fn a_receiver_that_is_away_delays_nothing_and_is_counted() {
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", nobody.local_addr().expect("an address"));
    drop(nobody);
    let server = traced_server(&url);
    let client = server.client("operator").await;
    let body = json!({"prompt": "p"});
    traced(&client, "/api/tasks", &body, CALLER).await;
    let dropped = async || {
        let text = client.request(Method::GET, "/metrics").send().await.expect("an answer");
        let text = text.text().await.expect("a text");
        let line = text
            .lines()
            .find(|line| line.starts_with("svc_spans_dropped_total "))
            .expect("the counter");
        line.ends_with(" 1")
    };
    until("the span is counted as dropped", dropped).await;
}
