//! A worker that outlives its server: it comes back to what it holds, says everything twice now and
//! then, and answers under leases that were replaced, which must never count.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::ledger::{Fact, Ledger};
use crate::support::FakeWorker;

/// One in so many acknowledged outputs is followed by another one under the same lease.
const TWICE: usize = 8;

/// What the worker makes of a prompt.
pub(super) fn output(prompt: &str) -> String {
    format!("done: {prompt}")
}

/// A worker, connected or not.
#[derive(Debug)]
pub(super) struct Worker {
    key: String,
    concurrency: usize,
    /// Empty until it was registered.
    id: String,
    /// By their leases, tasks whose output was not acknowledged, with that output.
    held: HashMap<String, (String, String)>,
    applied: usize,
}

impl Worker {
    /// A worker that was never connected.
    pub(super) fn new(key: &str, concurrency: usize) -> Self {
        let (key, id, held) = (key.to_owned(), String::new(), HashMap::new());
        Self { key, concurrency, id, held, applied: 0 }
    }

    /// Connects, and resumes what it holds; `None` if the server is gone.
    pub(super) async fn connect(&mut self, url: &str) -> Option<FakeWorker> {
        let mut register = json!({
            "type": "register", "name": "fake", "version": "0", "queues": ["default"],
            "models": ["*"], "concurrency": self.concurrency,
        });
        if !self.id.is_empty() {
            let leases: Vec<&String> = self.held.keys().collect();
            register["resume"] = json!({"workerId": self.id, "leases": leases});
        }
        let socket = FakeWorker::try_register(url, &self.key, register).await?;
        self.id.clone_from(&socket.id);
        let kept = socket.registered["kept"].as_array().cloned().unwrap_or_default();
        self.held.retain(|lease, _| kept.iter().any(|kept| kept == lease.as_str()));
        Some(socket)
    }

    /// Works until the connection breaks.
    pub(super) async fn work(&mut self, mut socket: FakeWorker, ledger: &Ledger) {
        for (lease, (_, output)) in &self.held {
            if !complete(&mut socket, lease, output).await {
                return;
            }
        }
        let mut beat = tokio::time::interval(Duration::from_millis(300));
        loop {
            let frame = tokio::select! {
                frame = socket.next() => frame,
                _ = beat.tick() => {
                    let held: Vec<&String> = self.held.keys().collect();
                    let heartbeat = json!({"type": "heartbeat", "leases": held});
                    if socket.try_send(heartbeat).await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            let Some(frame) = frame else { return };
            let lease = text(&frame["lease"]);
            let goes_on = if frame["type"] == "assign" {
                self.run(&mut socket, lease, &frame["task"], ledger).await
            } else if frame["type"] == "ack" {
                self.heard(&mut socket, lease, &frame["result"], ledger).await
            } else {
                true
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Answers at once; before that, wrongly, under the lease that this one replaced. Says whether
    /// the connection holds.
    async fn run(
        &mut self,
        socket: &mut FakeWorker,
        lease: String,
        task: &Value,
        ledger: &Ledger,
    ) -> bool {
        let (id, output) = (text(&task["id"]), output(&text(&task["prompt"])));
        if let Some(replaced) = ledger.assigned(&id, &lease) {
            self.held.remove(&replaced);
            if !complete(socket, &replaced, &format!("late: {id}")).await {
                return false;
            }
        }
        let sent = complete(socket, &lease, &output).await;
        self.held.insert(lease, (id, output));
        sent
    }

    /// What became of an answer: it counts once, and only under the lease of the task.
    async fn heard(
        &mut self,
        socket: &mut FakeWorker,
        lease: String,
        result: &Value,
        ledger: &Ledger,
    ) -> bool {
        let held = self.held.remove(&lease);
        if result != "applied" {
            return true;
        }
        let Some((id, _)) = held else {
            ledger.broken(format!("an answer under {lease} was applied, which held nothing"));
            return true;
        };
        self.applied += 1;
        let again = format!("again: {id}");
        ledger.note(Fact::Output { id });
        !self.applied.is_multiple_of(TWICE) || complete(socket, &lease, &again).await
    }
}

/// Sends an output; says whether the connection holds.
async fn complete(socket: &mut FakeWorker, lease: &str, output: &str) -> bool {
    let usage = json!({"input": 1, "output": 1});
    let complete = json!({"type": "complete", "lease": lease, "output": output, "usage": usage});
    socket.try_send(complete).await.is_ok()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
