//! Where the nodes are now, and the receiver of webhooks; everybody asks until somebody answers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use reqwest::RequestBuilder;
use serde_json::Value;
use tokio::net::TcpListener;

use super::ledger::Ledger;
use crate::cluster::caller::Caller;
use crate::support::Answer;

/// The longest time in which nobody may answer: several restarts one after the other.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Debug, Default)]
pub(super) struct Site {
    urls: Mutex<Vec<String>>,
    turn: AtomicUsize,
    is_closed: AtomicBool,
    is_over: AtomicBool,
    /// New work has the tag `late`, which is never removed before its usage was read.
    is_late: AtomicBool,
    ledger: Mutex<Ledger>,
    receiver: String,
}

impl Site {
    /// A site with a receiver of webhooks.
    pub(super) async fn begin() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let receiver = format!("http://{}/", listener.local_addr().expect("an address"));
        let site = Arc::new(Self { receiver, ..Self::default() });
        let router = axum::Router::new().route("/", post(take)).with_state(Arc::clone(&site));
        tokio::spawn(async move { axum::serve(listener, router).await });
        site
    }

    /// The nodes are here from now on.
    pub(super) fn moved(&self, urls: Vec<String>) {
        *self.urls.lock().unwrap_or_else(PoisonError::into_inner) = urls;
    }

    /// The next node in turn.
    pub(super) fn url(&self) -> String {
        let urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        urls[self.turn.fetch_add(1, Ordering::Relaxed) % urls.len()].clone()
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn receiver(&self) -> &str {
        &self.receiver
    }

    /// From now on nothing new is asked for; what is there is worked on.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn keep(&self) {
        self.is_late.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_open(&self) -> bool {
        !self.is_closed.load(Ordering::Relaxed)
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn is_late(&self) -> bool {
        self.is_late.load(Ordering::Relaxed)
    }
}

/// The end of an item, as a webhook tells it.
async fn take(State(site): State<Arc<Site>>, body: Bytes) -> StatusCode {
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let id = body["taskId"].as_str().or(body["executionId"].as_str()).expect("an item").to_owned();
    let mut ledger = site.ledger();
    ledger.count("webhooks");
    ledger.ends.insert(id, body);
    StatusCode::NO_CONTENT
}

/// One who asks the nodes in turn, until one answers.
#[derive(Clone)]
pub(super) struct Asker {
    pub(super) site: Arc<Site>,
    caller: Caller,
}

impl Asker {
    pub(super) fn new(site: &Arc<Site>, key: &str) -> Self {
        Self { site: Arc::clone(site), caller: Caller::new(key, Duration::from_secs(15)) }
    }

    /// The answer; an answer that no server should give is a fault.
    pub(super) async fn ask(&self, method: &str, path: &str, body: &Value, key: &str) -> Answer {
        let asked = self.caller.ask(|| self.site.url(), ((method, path), body, key));
        let Ok(answer) = tokio::time::timeout(PATIENCE, asked).await else {
            panic!("{method} {path}: nobody answers");
        };
        let (status, code) = (answer.status.as_u16(), &answer.body["error"]["code"]);
        if !(200..300).contains(&status) {
            let mut ledger = self.site.ledger();
            *ledger.refusals.entry(format!("{status} {code}")).or_default() += 1;
            // A clock was set between the question after the time and the request.
            let is_past = answer.body["error"]["details"]["field"] == "at";
            // 404: it was removed. 409: somebody was quicker, or it was removed. 429: too much is unfinished.
            let is_right =
                matches!(status, 404 | 409 | 429) || code == "BUDGET_EXCEEDED" || is_past;
            if !is_right {
                ledger.fault(format!("{method} {path}: {status} {}", answer.body));
            }
        }
        answer
    }

    pub(super) async fn post(&self, path: &str, body: &Value, key: &str) -> Answer {
        self.ask("POST", path, body, key).await
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let mut answer = self.ask("GET", path, &Value::Null, "").await;
        answer.body["data"].take()
    }

    /// The number of items in a list.
    pub(super) async fn total(&self, path: &str) -> u64 {
        let answer = self.ask("GET", path, &Value::Null, "").await;
        answer.body["pagination"]["total"].as_u64().expect("a total")
    }

    pub(super) fn request(&self, path: &str) -> RequestBuilder {
        self.caller.request("GET", &format!("{}{path}", self.site.url()))
    }
}
