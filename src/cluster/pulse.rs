//! The sign that another node can be heard: a question a second, on a connection of its own.
//!
//! A network that drops packets closes no connection, so nothing else tells of it. A long answer is no silence: the
//! question is one that a node answers by itself, active or not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::HOST;
use hyper::client::conn::http1::SendRequest;
use tokio::sync::{oneshot, watch};
use url::Url;

use super::peers::connect;

/// The pause between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// The time for an answer.
const WITHIN: Duration = Duration::from_secs(3);
/// The questions in a row without an answer that make a silence: one may be lost with its connection.
const MISSED: u32 = 2;
/// The questions without anybody interested after which no more are asked.
const IDLE: u32 = 30;

/// The nodes that are asked, and whether each is silent.
#[derive(Debug, Default)]
pub(super) struct Pulses(Mutex<HashMap<Url, watch::Sender<bool>>>);

impl Pulses {
    /// True while the node is silent; it is asked from now on, as long as anybody is interested.
    pub(super) fn silence(self: &Arc<Self>, node: &Url) -> watch::Receiver<bool> {
        let mut asked = self.asked();
        let silence = asked.entry(node.clone()).or_insert_with(|| {
            let silence = watch::Sender::new(false);
            tokio::spawn(Arc::clone(self).ask(node.clone(), silence.clone()));
            silence
        });
        silence.subscribe()
    }

    async fn ask(self: Arc<Self>, node: Url, silence: watch::Sender<bool>) {
        let (mut line, mut missed, mut idle) = (None, 0, 0);
        while idle < IDLE || !self.forget(&node, &silence) {
            // A first missing answer is asked for at once, for its connection may be old.
            if missed != 1 {
                tokio::time::sleep(PAUSE).await;
            }
            let heard = tokio::time::timeout(WITHIN, is_heard(&node, &mut line)).await;
            missed = if heard == Ok(true) { 0 } else { missed + 1 };
            let is_silent = missed >= MISSED;
            if silence.send_replace(is_silent) != is_silent {
                tracing::warn!(%node, is_silent, "another node is not heard any more, or again");
            }
            idle = if silence.receiver_count() == 0 { idle + 1 } else { 0 };
        }
    }

    /// Ends the asking, unless somebody has become interested.
    fn forget(&self, node: &Url, silence: &watch::Sender<bool>) -> bool {
        let mut asked = self.asked();
        let is_over = silence.receiver_count() == 0;
        if is_over {
            asked.remove(node);
        }
        is_over
    }

    fn asked(&self) -> MutexGuard<'_, HashMap<Url, watch::Sender<bool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that ends when it is dropped, whatever it waits for.
struct Line {
    sender: SendRequest<Body>,
    _held: oneshot::Sender<()>,
}

/// True if the node answers, on the connection from before if there is one.
async fn is_heard(node: &Url, line: &mut Option<Line>) -> bool {
    let mut open = match line.take() {
        Some(line) if line.sender.is_ready() => line,
        Some(_) | None => {
            let (held, dropped) = oneshot::channel();
            let gone = async move { drop(dropped.await) };
            let Ok(sender) = connect(node, gone).await else { return false };
            Line { sender, _held: held }
        }
    };
    let question = Request::get("/health/live").header(HOST, node.authority());
    let question = question.body(Body::empty()).expect("the path and the name are right");
    let Ok(answer) = open.sender.send_request(question).await else { return false };
    // The connection is free for the next question once the answer was read.
    let is_read = axum::body::to_bytes(Body::new(answer.into_body()), 1 << 10).await.is_ok();
    *line = is_read.then_some(open);
    true
}
