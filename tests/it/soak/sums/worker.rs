//! Workers that tell what each call has used, and keep their own count of it. They outlive the server, come back to
//! what they hold, and say again what nobody acknowledged; some are killed now and then, or fall silent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use callboard_disk::Random;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ledger::{About, Call, Does, Fate};
use super::site::Site;
use crate::support::FakeWorker;

/// A call that a worker has begun.
#[derive(Debug)]
struct Running {
    due: Instant,
    answer: Value,
    /// How often the result was sent.
    sent: u32,
}

/// The way in which a worker goes now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    Stays,
    /// Its process is killed, and with it the calls that it has begun.
    Dies,
    /// It says nothing for longer than a lease lasts.
    FallsSilent,
}

/// The queues of this test.
pub(super) const QUEUES: [&str; 4] = ["default", "narrow", "paced", "paused"];
/// Longer than a lease.
const SILENCE: Duration = Duration::from_secs(4);

#[derive(Debug)]
pub(super) struct Worker {
    site: Arc<Site>,
    key: String,
    habit: Habit,
    random: Random,
    /// Empty until it was registered.
    id: String,
    calls: HashMap<String, Running>,
}

impl Worker {
    pub(super) fn new(site: &Arc<Site>, key: &str, habit: Habit, seed: u64) -> Self {
        let (site, key, id) = (Arc::clone(site), key.to_owned(), String::new());
        Self { site, key, habit, random: Random::new(seed), id, calls: HashMap::new() }
    }

    /// Works until the load is over, and every result that was sent is acknowledged: the server may have counted it.
    pub(super) async fn run(mut self) {
        while self.goes_on() {
            if let Some(socket) = self.connect().await {
                self.serve(socket).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn goes_on(&self) -> bool {
        self.site.goes_on() || self.calls.values().any(|call| call.sent > 0)
    }

    async fn connect(&mut self) -> Option<FakeWorker> {
        let mut register = json!({
            "type": "register", "name": "soak", "version": "0", "queues": QUEUES, "models": ["*"], "concurrency": 8,
        });
        if !self.id.is_empty() {
            let leases: Vec<&String> = self.calls.keys().collect();
            register["resume"] = json!({"workerId": self.id, "leases": leases});
        }
        let socket = FakeWorker::try_register(&self.site.url(), &self.key, register).await?;
        self.id.clone_from(&socket.id);
        let kept = socket.registered["kept"].as_array().cloned().unwrap_or_default();
        // A result without an acknowledgement is sent again in any case.
        self.calls
            .retain(|lease, call| call.sent > 0 || kept.iter().any(|kept| kept == lease.as_str()));
        Some(socket)
    }

    /// Works until the connection breaks, or the worker goes.
    async fn serve(&mut self, mut socket: FakeWorker) {
        for call in self.calls.values_mut().filter(|call| call.sent > 0) {
            call.sent += 1;
            if socket.try_send(call.answer.clone()).await.is_err() {
                return;
            }
        }
        let mut beat = tokio::time::interval(Duration::from_millis(300));
        let mut look = tokio::time::interval(Duration::from_millis(20));
        let stays = Duration::from_millis(2_000 + self.random.below(4_000) as u64);
        let goes_at = Instant::now() + stays;
        while self.goes_on() {
            let is_open = tokio::select! {
                frame = socket.next() => match frame {
                    Some(frame) => self.take(&frame),
                    None => false,
                },
                _ = beat.tick() => {
                    let leases: Vec<&String> = self.calls.keys().collect();
                    socket.try_send(json!({"type": "heartbeat", "leases": leases})).await.is_ok()
                }
                _ = look.tick() => self.answer(&mut socket).await,
            };
            let has_gone = Instant::now() >= goes_at && self.goes().await;
            if !is_open || has_gone {
                return;
            }
        }
    }

    /// Goes in the worker's own way; false if it stays.
    async fn goes(&mut self) -> bool {
        match self.habit {
            Habit::Stays => false,
            // The ledger does not know what became of a result that nobody waits for.
            Habit::Dies if self.calls.values().any(|call| call.sent > 0) => false,
            Habit::Dies => {
                self.site.ledger().count("workers killed");
                self.calls.clear();
                self.id.clear();
                true
            }
            Habit::FallsSilent => {
                self.site.ledger().count("workers silent");
                tokio::time::sleep(SILENCE).await;
                true
            }
        }
    }

    /// Sends the results that are due; false if the connection broke.
    async fn answer(&mut self, socket: &mut FakeWorker) -> bool {
        let now = Instant::now();
        for call in self.calls.values_mut().filter(|call| call.sent == 0 && call.due <= now) {
            call.sent = 1;
            if socket.try_send(call.answer.clone()).await.is_err() {
                return false;
            }
        }
        true
    }

    /// True if the connection goes on.
    fn take(&mut self, frame: &Value) -> bool {
        let lease = frame["lease"].as_str().unwrap_or_default().to_owned();
        match frame["type"].as_str().unwrap_or_default() {
            "assign" => self.begin(lease, frame),
            "ack" => {
                let call = self.calls.remove(&lease);
                // One that is not held any more was sent again, and both were acknowledged.
                let again = call.is_none_or(|call| call.sent > 1);
                let result = frame["result"].as_str().unwrap_or_default();
                self.site.ledger().acknowledged(&lease, result, again);
            }
            // Half of the calls are not stopped any more.
            "cancel" if self.random.below(2) == 0 => {
                self.calls.retain(|held, call| *held != lease || call.sent > 0);
            }
            "error" => self.site.ledger().fault(format!("a worker is told {frame}")),
            _ => {}
        }
        true
    }

    fn begin(&mut self, lease: String, frame: &Value) {
        let task = &frame["task"];
        let prompt = task["prompt"].as_str().unwrap_or_default();
        let first = prompt.lines().next().unwrap_or_default();
        let Ok(about) = serde_json::from_str::<About>(first) else {
            return self.site.ledger().fault(format!("a worker is given {frame}"));
        };
        let input = prompt.chars().count() as u64 / 4;
        let output = 1 + self.random.below(20) as u64;
        let usage = json!({"input": input, "output": output});
        let is_first = frame["attempt"] == 1;
        let fails = |retryable: bool| {
            json!({
                "type": "fail", "lease": lease, "retryable": retryable, "usage": usage,
                "error": {"code": "PROVIDER_ERROR", "message": "it fails"},
            })
        };
        let answer = match about.does {
            Does::Fails => fails(false),
            Does::Retries if is_first => fails(true),
            Does::Retries | Does::Well | Does::Slow | Does::Late => {
                json!({"type": "complete", "lease": lease, "output": "done", "usage": usage})
            }
        };
        let takes = match about.does {
            Does::Slow => 1_500,
            Does::Late if is_first => 900,
            Does::Well | Does::Fails | Does::Retries | Does::Late => self.random.below(120) as u64,
        };
        let text = |name: &str| task[name].as_str().map(str::to_owned);
        let call = Call {
            task: text("id").unwrap_or_default(),
            execution: text("planExecutionId"),
            about,
            model: text("model").unwrap_or_default(),
            input,
            output,
            fate: Fate::Open,
        };
        let mut ledger = self.site.ledger();
        ledger.count("calls");
        // A lease that is resumed at another node is not given out again.
        if ledger.calls.insert(lease.clone(), call).is_some() {
            ledger.fault(format!("the lease {lease} was given out twice"));
        }
        drop(ledger);
        let due = Instant::now() + Duration::from_millis(takes);
        self.calls.insert(lease, Running { due, answer, sent: 0 });
    }
}
