//! Work of every kind, for which every limit counts: tasks, batches and executions with signals, lists and gates, of
//! accounts of several tiers; cancels, retries, schedules, repeated requests, decisions, pauses.

use std::sync::Arc;
use std::time::Duration;

use callboard_disk::Random;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::ledger::{About, Does};
use super::limits::Access;
use super::site::{Asker, Site};
use super::worker::QUEUES;
use crate::support::Answer;

/// One who asks for something again and again.
pub(super) struct Seat {
    asker: Asker,
    random: Random,
    access: Arc<Access>,
    /// The number of the account.
    account: usize,
    /// Every request has a key of its own.
    name: String,
    count: usize,
}

/// Starts everybody but the workers.
pub(super) fn begin(site: &Arc<Site>, access: &Arc<Access>, seed: u64) -> JoinSet<()> {
    let mut all = JoinSet::new();
    let seat = |name: &str, account: usize, number: u64| {
        let key = access.accounts.get(account).map_or(&access.admin, |account| &account.key);
        Seat {
            asker: Asker::new(site, key),
            random: Random::new(seed ^ number << 40),
            access: Arc::clone(access),
            account,
            name: format!("{name}{account}"),
            count: 0,
        }
    };
    for account in 0..access.accounts.len() {
        all.spawn(seat("t", account, 1 + account as u64).submit());
        all.spawn(seat("e", account, 11 + account as u64).execute());
    }
    let admin = usize::MAX;
    all.spawn(seat("s", 1, 21).schedule());
    all.spawn(seat("r", admin, 22).review());
    all.spawn(seat("p", admin, 23).pause());
    all
}

impl Seat {
    /// Waits a while; whether to make more then.
    async fn makes(&mut self, every: usize) -> bool {
        let pause = every / 2 + self.random.below(every);
        tokio::time::sleep(Duration::from_millis(pause as u64)).await;
        self.count += 1;
        self.asker.site.is_open()
    }

    /// True once in so many times.
    fn one_in(&mut self, times: usize) -> bool {
        self.random.below(times) == 0
    }

    fn key(&self, part: &str) -> String {
        format!("{} {} {part}", self.name, self.count)
    }

    fn about(&mut self, deployed: bool) -> About {
        let mut tags = vec!["all".to_owned(), format!("t{}", self.random.below(40))];
        if self.asker.site.is_late() {
            tags.push("late".into());
        }
        let does = match self.random.below(12) {
            0 => Does::Fails,
            1 | 2 => Does::Retries,
            3 => Does::Slow,
            4 => Does::Late,
            _ => Does::Well,
        };
        About { account: self.account, tags, deployed, does }
    }

    fn task(&mut self) -> Value {
        let about = self.about(false);
        let model = ["cheap", "cheap", "dear", "free"][self.random.below(4)];
        let queue = QUEUES[self.random.below(QUEUES.len())];
        let mut task = json!({
            "prompt": about.line(), "model": model, "queue": queue, "maxTokens": 20, "tags": about.tags,
            "priority": 1 + self.random.below(10),
            "timeoutMs": if about.does == Does::Late { 500 } else { 10_000 },
            "retry": {"maxAttempts": 3, "backoffMs": 50, "maxBackoffMs": 200},
            "callbackUrl": self.asker.site.receiver(), "callbackDetails": true,
            "callbackEvents": ["completed", "failed", "cancelled", "rejected"],
        });
        let key = format!("k{}", self.random.below(3));
        match self.random.below(12) {
            0..=2 => {
                task["concurrencyKey"] = json!(key);
                task["concurrencyLimit"] = json!(2);
            }
            3 => {
                task["concurrencyKey"] = json!(format!("reject {key}"));
                task["onConflict"] = json!("reject");
            }
            4 => {
                task["concurrencyKey"] = json!(format!("cancel {key}"));
                task["onConflict"] = json!("cancel_running");
            }
            5..=7 => {
                task["fairnessKey"] = json!(key);
                task["weight"] = json!(1 + self.random.below(5));
            }
            _ => {}
        }
        if self.one_in(8) {
            task["hitl"] = json!({"required": true});
        }
        task
    }

    /// Notes what was made, and asks once more under the same key now and then.
    async fn made(&mut self, path: &str, body: &Value, key: &str) -> Option<String> {
        let answer = self.asker.post(path, body, key).await;
        let id = self.note(&answer)?;
        if self.one_in(6) {
            let again = self.asker.post(path, body, key).await;
            // What was removed by now is said to be so.
            let is_gone = again.body["error"]["code"] == "INVALID_STATE";
            let is_same = again.body["data"]["id"] == id.as_str()
                && again.headers.contains_key("idempotent-replayed");
            let mut ledger = self.asker.site.ledger();
            ledger.count("replays");
            if !is_gone && !is_same {
                ledger.fault(format!("{path} again under {key}, of {id}: {}", again.body));
            }
        }
        Some(id)
    }

    fn note(&self, answer: &Answer) -> Option<String> {
        let id = answer.body["data"]["id"].as_str()?;
        let mut ledger = self.asker.site.ledger();
        ledger.made.insert(id.to_owned());
        Some(id.to_owned())
    }

    async fn submit(mut self) {
        while self.makes(280).await {
            let key = self.key("");
            if self.one_in(12) {
                let tasks: Vec<_> = (0..3).map(|_| self.task()).collect();
                let batch = json!({"tasks": tasks});
                let answer = self.asker.post("/api/tasks/batch", &batch, &key).await;
                let tasks = answer.body["data"]["tasks"].as_array();
                let ids = tasks.into_iter().flatten().filter_map(|task| task["id"].as_str());
                let mut ledger = self.asker.site.ledger();
                ledger.batches += 1;
                ledger.made.extend(ids.map(str::to_owned));
                continue;
            }
            let task = self.task();
            let Some(id) = self.made("/api/tasks", &task, &key).await else { continue };
            match self.random.below(10) {
                0 => {
                    self.asker.ask("DELETE", &format!("/api/tasks/{id}"), &Value::Null, "").await;
                }
                1 => {
                    let path = format!("/api/tasks/{id}/retry");
                    let answer = self.asker.post(&path, &Value::Null, &self.key("retry")).await;
                    self.note(&answer);
                }
                _ => {}
            }
        }
    }

    async fn execute(mut self) {
        while self.makes(1_500).await {
            let deployed = self.one_in(2);
            let about = self.about(deployed);
            let body = json!({
                "input": {"about": about.line(), "docs": ["one", "two", "three"]}, "tags": about.tags,
                "callbackUrl": self.asker.site.receiver(),
                "callbackEvents": ["completed", "failed", "cancelled"],
            });
            let path = if deployed {
                format!("/api/templates/{}/deploy", self.access.template)
            } else {
                format!("/api/plans/{}/execute", self.access.plan)
            };
            let key = self.key("");
            let Some(id) = self.made(&path, &body, &key).await else { continue };
            let execution = format!("/api/plans/executions/{id}");
            if !self.one_in(5) {
                self.signal(&format!("{execution}/signals/go")).await;
            }
            if self.one_in(8) {
                self.asker.ask("DELETE", &execution, &Value::Null, "").await;
            }
            if self.one_in(3) {
                self.asker.post(&format!("{execution}/retry"), &json!({}), "").await;
            }
        }
    }

    /// A signal, another one in its place now and then, and the first again.
    async fn signal(&mut self, path: &str) {
        let (first, second) = (self.key("first"), self.key("second"));
        let old = self.asker.post(path, &json!({"payload": "old"}), &first).await;
        if !self.one_in(2) {
            return;
        }
        let new = json!({"payload": "new", "replace": true});
        self.asker.post(path, &new, &second).await;
        let again = self.asker.post(path, &json!({"payload": "old"}), &first).await;
        let was_sent = old.status == 200;
        let is_replay = again.headers.contains_key("idempotent-replayed");
        if was_sent && again.status == 200 && !is_replay {
            self.asker.site.ledger().fault(format!("{path}: the old signal came again"));
        }
    }

    /// Schedules that are due soon, and are triggered besides.
    async fn schedule(mut self) {
        while self.makes(2_500).await {
            let task = self.task();
            let timing = ["cron", "at"][self.random.below(2)];
            let when =
                if timing == "cron" { json!("* * * * *") } else { json!(soon(&self.asker).await) };
            let overlap = ["skip", "queue", "cancel_running", "allow"][self.random.below(4)];
            let schedule = json!({
                "name": self.key(""), timing: when, "overlap": overlap, "catchUp": "all", "target": {"task": task},
            });
            let made = self.asker.post("/api/schedules", &schedule, "").await;
            let Some(id) = made.body["data"]["id"].as_str() else { continue };
            let path = format!("/api/schedules/{id}");
            self.asker.post(&format!("{path}/trigger"), &Value::Null, "").await;
            tokio::time::sleep(Duration::from_secs(2)).await;
            self.asker.ask("DELETE", &path, &Value::Null, "").await;
        }
    }

    /// Decides all that waits, in each way.
    async fn review(mut self) {
        while self.asker.site.goes_on() {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let items = self.asker.get("/api/hitl/pending?includeExpired=true&limit=50").await;
            for item in items.as_array().into_iter().flatten() {
                let task = item["taskId"].as_str().expect("an id");
                let (verb, body) = match self.random.below(6) {
                    0 => ("reject", json!({"reason": "no"})),
                    1 => ("reject", json!({"reason": "again", "retry": true})),
                    2 => ("approve", json!({"modifiedOutput": "better", "comment": "so"})),
                    _ => ("approve", json!({})),
                };
                self.asker.post(&format!("/api/hitl/{task}/{verb}"), &body, "").await;
            }
        }
    }

    /// Pauses a queue for a moment now and then.
    async fn pause(mut self) {
        while self.makes(2_500).await {
            for paused in [true, false] {
                let path = "/api/queues/paused";
                self.asker.ask("PATCH", path, &json!({"paused": paused}), "").await;
                tokio::time::sleep(Duration::from_millis(600)).await;
            }
        }
    }
}

/// Two seconds from now, by the clock of a server.
async fn soon(asker: &Asker) -> String {
    let answer = asker.ask("GET", "/api/queues", &Value::Null, "").await;
    let now: jiff::Timestamp =
        answer.body["meta"]["timestamp"].as_str().expect("a time").parse().expect("a time");
    (now + Duration::from_secs(2)).to_string()
}

/// The plan of the executions: a step, a wait for a signal, a list, and a step behind a gate.
pub(super) fn steps() -> Value {
    let limits =
        json!({"maxTokens": 20, "timeoutMs": 5_000, "retry": {"maxAttempts": 3, "backoffMs": 50}});
    let mut steps = json!([
        {"id": "first", "prompt": "{{input.about}}", "model": "cheap"},
        {"id": "signal", "type": "wait", "signal": "go", "timeoutMs": 3_000, "dependsOn": ["first"]},
        {"id": "each", "prompt": "{{input.about}}\n{{item}} {{signal.output}}", "forEach": "{{input.docs}}",
         "maxItems": 5, "concurrency": 2, "onItemError": "skip", "model": "dear", "dependsOn": ["signal"],
         "queue": "narrow"},
        {"id": "last", "prompt": "{{input.about}}\n{{each.output}}", "model": "cheap", "dependsOn": ["each"],
         "requiresApproval": true, "concurrencyKey": "k0", "concurrencyLimit": 2},
    ]);
    for step in steps.as_array_mut().expect("a list") {
        if step["type"] != "wait" {
            let limits = limits.as_object().expect("an object").clone();
            step.as_object_mut().expect("an object").extend(limits);
        }
    }
    steps
}
