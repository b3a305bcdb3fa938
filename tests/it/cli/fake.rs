//! A server with scripted answers, which remembers its requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

/// What it was asked.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// `POST /api/plans?x=y`
    pub(super) line: String,
    pub(super) headers: axum::http::HeaderMap,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// What it answers.
pub(super) enum Told {
    /// A success with this data.
    Data(Value),
    /// One page.
    Page(Vec<Value>),
    /// One page of a list of so many.
    PageOf(usize, Vec<Value>),
    /// A refusal; `Retry-After: 0` goes with it.
    Refused(u16, &'static str),
    /// The same because somebody was first: who, and when.
    Decided(&'static str, &'static str),
    /// Server-sent events; then the connection stays open, or breaks.
    Events(Vec<String>, After),
}

/// What becomes of a stream.
pub(super) enum After {
    Silence,
    Break,
}

/// The server.
pub(super) struct Fake {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Fake {
    /// A server whose answers `tell` makes; the number counts the earlier requests of the same.
    pub(super) async fn start(
        tell: impl Fn(&Asked, usize) -> Told + Send + Sync + 'static,
    ) -> Self {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, tell) = (Arc::clone(&asked), Arc::new(tell));
        let router = Router::new().fallback(move |request: Request| {
            let (seen, tell) = (Arc::clone(&seen), Arc::clone(&tell));
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, 1 << 24).await.expect("a body");
                let asked = Asked {
                    line: format!("{} {}", parts.method, parts.uri),
                    headers: parts.headers,
                    body: String::from_utf8(body.into()).expect("UTF-8"),
                };
                let mut seen = seen.lock().expect("nobody panicked");
                let before = seen.iter().filter(|other| other.line == asked.line).count();
                seen.push(asked.clone());
                answer(tell(&asked, before))
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, asked }
    }

    /// Everything that it was asked.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("nobody panicked").clone()
    }

    /// The first request whose line begins so.
    pub(super) fn asked_for(&self, line: &str) -> Asked {
        let asked = self.asked();
        let found = asked.iter().find(|asked| asked.line.starts_with(line));
        found.unwrap_or_else(|| panic!("{line} was not asked for: {asked:#?}")).clone()
    }
}

fn answer(told: Told) -> Response {
    let meta = json!({"requestId": "r1", "timestamp": "2026-11-21T10:00:00.000Z"});
    let (status, body) = match told {
        Told::Data(data) => (200, json!({"success": true, "data": data, "meta": meta})),
        Told::Page(data) => (200, page(data.len(), false, &data)),
        Told::PageOf(total, data) => (200, page(total, true, &data)),
        Told::Refused(status, code) => {
            let error = json!({"code": code, "message": "no"});
            (status, json!({"success": false, "error": error, "meta": meta}))
        }
        Told::Decided(by, at) => {
            let details = json!({"decidedBy": by, "decidedAt": at});
            let error = json!({"code": "ALREADY_DECIDED", "message": "no", "details": details});
            (409, json!({"success": false, "error": error, "meta": meta}))
        }
        Told::Events(events, after) => {
            let events =
                stream::iter(events).map(|event| Ok::<_, std::io::Error>(Bytes::from(event)));
            let body = match after {
                After::Silence => Body::from_stream(events.chain(stream::pending())),
                After::Break => {
                    let broken = stream::once(async {
                        // What was sent is on its way before the connection is reset.
                        tokio::time::sleep(Duration::from_millis(300)).await;
                        Err(std::io::Error::other("broken"))
                    });
                    Body::from_stream(events.chain(broken))
                }
            };
            let response = Response::builder().header("content-type", "text/event-stream");
            return response.body(body).expect("a response");
        }
    };
    let response = Response::builder().status(status).header("content-type", "application/json");
    let response = response.header("retry-after", "0");
    response.body(Body::from(body.to_string())).expect("a response")
}

fn page(total: usize, more: bool, data: &[Value]) -> Value {
    let pagination = json!({"total": total, "limit": 20, "offset": 0, "hasMore": more});
    json!({"success": true, "data": data, "pagination": pagination, "meta": {}})
}

/// An event of a step, as in a stream.
pub(super) fn step_event(cursor: &str, name: &str, step: &str) -> String {
    let resource = json!({"kind": "step", "id": step, "executionId": "dt_exec_1"});
    let data = json!({"cursor": cursor, "event": name, "resource": resource, "data": {}});
    format!("id: {cursor}\nevent: {name}\ndata: {data}\n\n")
}

/// An execution of the steps `one` and `two` with these statuses.
pub(super) fn execution(status: &str, one: &str, two: &str) -> Value {
    let completed = [one, two].iter().filter(|status| **status == "completed").count();
    json!({
        "id": "dt_exec_1", "planId": "dt_plan_1", "status": status,
        "progress": {"total": 2, "completed": completed},
        "steps": {
            "one": {"status": one, "durationMs": 1200, "output": "fine\u{1b}[2J"},
            "two": {"status": two},
        },
        "usage": {"input": 1, "output": 2, "total": 3, "totalCost": 0.5},
    })
}
