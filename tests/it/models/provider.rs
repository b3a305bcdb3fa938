//! Fifty workers against a model server of 60 requests and 10,000 tokens a minute.
//!
//! The server counts what arrived in the last 60 seconds, prompts and answers alike, and answers 429
//! beyond, in the format and with the headers of `OpenAI`. Only a call that it takes generates anything.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use callboard_worker::provider::openai::OpenAi;
use serde_json::{Value, json};

use crate::support::{Client, Server, until};

const REQUESTS: usize = 60;
const TOKENS: u64 = 10_000;
const MINUTE: Duration = Duration::from_mins(1);
const WORKERS: u32 = 50;

#[derive(Default)]
struct Seen {
    taken: VecDeque<(Instant, u64)>,
    all: Vec<(Instant, u64)>,
    refused: usize,
}

type Shared = Arc<Mutex<Seen>>;

/// A call's tokens: of the prompt, a quarter more than its characters say; of the answer, by the prompt.
fn tokens(body: &Value) -> (u64, u64) {
    let texts = body["messages"].as_array().expect("messages").iter();
    let characters: usize = texts.map(|it| it["content"].as_str().map_or(0, str::len)).sum();
    let input = (characters / 4 * 5 / 4) as u64;
    (input, 30 + (characters as u64 * 7) % 60)
}

async fn complete(State(seen): State<Shared>, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).expect("a JSON body");
    let (input, output) = tokens(&body);
    let now = Instant::now();
    let (taken, requests, used) = {
        let mut seen = seen.lock().expect("nobody panics");
        while seen.taken.front().is_some_and(|(at, _)| now.duration_since(*at) >= MINUTE) {
            seen.taken.pop_front();
        }
        let used: u64 = seen.taken.iter().map(|(_, tokens)| tokens).sum();
        let fits = seen.taken.len() < REQUESTS && used + input + output <= TOKENS;
        if fits {
            seen.taken.push_back((now, input + output));
            seen.all.push((now, input + output));
        } else {
            seen.refused += 1;
        }
        let added = if fits { input + output } else { 0 };
        (fits, seen.taken.len(), used + added)
    };
    let headers = [
        ("x-ratelimit-limit-requests", REQUESTS.to_string()),
        ("x-ratelimit-remaining-requests", (REQUESTS - requests).to_string()),
        ("x-ratelimit-reset-requests", "1s".to_owned()),
        ("x-ratelimit-limit-tokens", TOKENS.to_string()),
        ("x-ratelimit-remaining-tokens", (TOKENS - used).to_string()),
        ("x-ratelimit-reset-tokens", "1s".to_owned()),
    ];
    if !taken {
        let error = json!({"error": {"message": "Rate limit reached", "type": "requests",
            "param": null, "code": "rate_limit_exceeded"}});
        let limited = [("retry-after", "1")];
        return (StatusCode::TOO_MANY_REQUESTS, headers, limited, error.to_string())
            .into_response();
    }
    tokio::time::sleep(Duration::from_millis(500 + output * 20)).await;
    let events = [
        json!({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}),
        json!({"choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output}}),
    ];
    let text = events.map(|event| format!("data: {event}\n\n")).concat() + "data: [DONE]\n\n";
    let kind = [("content-type", "text/event-stream")];
    (headers, kind, text).into_response()
}

async fn serve(seen: Shared) -> String {
    let router = Router::new().route("/v1/chat/completions", post(complete)).with_state(seen);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let served: Result<(), std::io::Error> = axum::serve(listener, router).await;
        let never: Result<(), Infallible> = served.map_err(|error| panic!("{error}"));
        never
    });
    url
}

async fn submit(client: &Client, count: usize) {
    let task = |n: usize| {
        // 260 to 380 characters: about 100 tokens, and 60 of the answer.
        json!({"prompt": format!("{n:04} {}", "word ".repeat(52 + n % 24)), "model": "m", "maxTokens": 200})
    };
    for batch in 0..count / 100 {
        let tasks: Vec<_> = (0..100).map(|n| task(batch * 100 + n)).collect();
        client.post("/api/tasks/batch", &json!({"tasks": tasks})).await.expect(201);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_workers_use_a_small_limit_and_are_hardly_refused() {
    let seen = Shared::default();
    let url = serve(Arc::clone(&seen)).await;
    let server = Server::start();
    let client = server.client("admin").await;
    let limits = json!({"requestsPerMinute": REQUESTS, "tokensPerMinute": TOKENS});
    client.limit("m", &limits).await.expect_ok();
    let key = server.key("worker").await;
    for number in 0..WORKERS {
        let options = callboard_worker::Options {
            server: server.url.clone(),
            key: key.clone(),
            identity: None,
            name: format!("worker {number}"),
            queues: vec!["default".into()],
            models: None,
            concurrency: 1,
            provider: Arc::new(OpenAi::new(&url, None).expect("a client")),
            spans: None,
            grace: callboard_worker::GRACE,
        };
        tokio::spawn(callboard_worker::run(options, std::future::pending()));
    }
    submit(&client, 300).await;
    let minutes = if std::env::var_os("CALLBOARD_LONG").is_some() { 2 } else { 1 };
    let measured = Duration::from_mins(minutes);
    let first = loop {
        if let Some((at, _)) = seen.lock().expect("nobody panics").all.first() {
            break *at;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::time::sleep_until((first + measured).into()).await;
    let (calls, tokens, refused) = {
        let seen = seen.lock().expect("nobody panics");
        let within = seen.all.iter().filter(|(at, _)| at.duration_since(first) < measured);
        let (calls, tokens) =
            within.fold((0, 0), |(calls, sum), (_, tokens)| (calls + 1, sum + tokens));
        (calls, tokens, seen.refused)
    };
    let of_requests = calls as u64 * 100 / (REQUESTS as u64 * minutes);
    let of_tokens = tokens * 100 / (TOKENS * minutes);
    let seen = format!(
        "{calls} calls, {tokens} tokens ({of_requests} % and {of_tokens} %), {refused} refused"
    );
    println!("{seen}");
    assert!(refused * 100 <= calls + refused, "{seen}");
    assert!(of_requests.max(of_tokens) >= 95, "{seen}");
    let failed = client.get("/api/tasks?status=failed").await.body;
    assert_eq!(failed["pagination"]["total"], 0, "{failed}");
}

/// The address of a provider that is away: whoever connects is refused.
fn away() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_outlives_an_outage_of_its_provider_with_one_attempt() {
    let address = away();
    let server = Server::start();
    let client = server.client("admin").await;
    let options = callboard_worker::Options {
        server: server.url.clone(),
        key: server.key("worker").await,
        identity: None,
        name: "w".into(),
        queues: vec!["default".into()],
        models: None,
        concurrency: 4,
        provider: Arc::new(OpenAi::new(&format!("http://{address}/v1"), None).expect("a client")),
        spans: None,
        grace: callboard_worker::GRACE,
    };
    tokio::spawn(callboard_worker::run(options, std::future::pending()));
    let once = json!({"maxAttempts": 1});
    let task = json!({"prompt": "p", "model": "m", "retry": once});
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(client.submit(&task).await);
    }
    until("the model is closed", async || {
        client.model("m").await["closedBecause"] == "unavailable"
    })
    .await;
    let closed = client.model("m").await;
    assert!(closed["closedUntil"].is_string(), "{closed}");
    let listener = tokio::net::TcpListener::bind(address).await.expect("the port is free again");
    let router =
        Router::new().route("/v1/chat/completions", post(complete)).with_state(Shared::default());
    tokio::spawn(axum::serve(listener, router).into_future());
    for id in ids {
        assert_eq!(client.task_with_status(&id, "completed").await["attempt"], 1);
    }
}
