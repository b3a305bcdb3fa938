//! A server, a worker with scripted outputs, and the reviewers.
//!
//! A prompt is the output that the worker gives; `@0.71` at its end is the confidence in it, without which there is
//! none.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::chain;
use crate::support::{ADMIN, Answer, Client, FakeWorker, PASSWORD, Server, until};

/// Everything that a test of approvals needs.
pub(crate) struct Fixture {
    pub(crate) server: Server,
    /// The session of the first admin, the only user there is at first.
    pub(crate) admin: Client,
    pub(crate) admin_id: String,
    /// A key of an operator.
    pub(crate) operator: Client,
    pub(crate) operator_id: String,
    pub(crate) worker_key: String,
}

/// A key and who it is.
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) client: Client,
}

impl Fixture {
    pub(crate) async fn open() -> Self {
        Self::with(&[]).await
    }

    /// A fixture at a server with these settings; nobody is kept waiting by a rate.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let unlimited = ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000");
        let server = Server::with(&[settings, &[unlimited]].concat());
        let (admin, admin_id) = login(&server, ADMIN).await;
        let operator = key_of(&admin, "operator").await;
        let worker = key_of(&admin, "worker").await;
        let fixture = Self {
            server,
            admin,
            admin_id,
            operator: operator.client,
            operator_id: operator.id,
            worker_key: worker.secret,
        };
        fixture.employ().await;
        fixture
    }

    /// Connects the worker.
    pub(crate) async fn employ(&self) -> tokio::task::JoinHandle<()> {
        let worker = FakeWorker::connect(&self.server, &self.worker_key, 32).await;
        tokio::spawn(write(worker))
    }

    /// Kills the server, waits, and starts it again on the same directory.
    pub(crate) async fn crash(&mut self, pause: Duration) {
        self.server.kill();
        tokio::time::sleep(pause).await;
        self.restart();
    }

    /// Starts the killed server again, whose address is another one then; nobody works there yet.
    pub(crate) fn restart(&mut self) {
        self.server.restart();
        self.admin = self.admin.at(&self.server.url);
        self.operator = self.operator.at(&self.server.url);
    }

    pub(crate) async fn key(&self, role: &str) -> Key {
        key_of(&self.admin, role).await
    }

    /// A user of this role with a session, and who it is.
    pub(crate) async fn user(&self, name: &str, role: &str) -> (Client, String) {
        let email = format!("{name}@example.com");
        let user = json!({"email": email, "password": PASSWORD, "name": name, "role": role});
        self.admin.post("/api/auth/users", &user).await.expect(201);
        login(&self.server, &email).await
    }

    /// Submits a task and waits until its output does.
    pub(crate) async fn held(&self, task: &Value) -> String {
        let id = self.operator.submit(task).await;
        self.is_listed(&id).await;
        id
    }

    /// Waits until the item is listed: a moment after it can be read alone.
    async fn is_listed(&self, id: &str) {
        until("it is listed", async || {
            let (items, _) = self.operator.listed("/api/hitl?limit=100").await;
            items.iter().any(|item| item == id)
        })
        .await;
    }

    /// A task whose output waits at any confidence.
    pub(crate) async fn required(&self, prompt: &str) -> String {
        self.held(&json!({"prompt": prompt, "hitl": {"required": true}})).await
    }

    /// The task of a step of an execution, once its output waits.
    pub(crate) async fn waiting(&self, execution: &str, step: &str) -> String {
        let waits = |execution: &Value| execution["steps"][step]["waitingFor"] == "approval";
        let execution = self.operator.execution_when(execution, waits).await;
        let id = execution["steps"][step]["taskId"].as_str().expect("an id").to_owned();
        self.is_listed(&id).await;
        id
    }

    /// Makes a plan of these steps and starts it.
    pub(crate) async fn start(&self, steps: &Value, body: &Value) -> String {
        let plan = self.operator.plan(steps).await;
        self.operator.execute(&plan, body).await
    }

    pub(crate) async fn item(&self, id: &str) -> Value {
        self.operator.get(&format!("/api/hitl/{id}")).await.expect_ok()
    }

    pub(crate) async fn approve(&self, id: &str, body: &Value) -> Answer {
        self.operator.approve(id, body).await
    }

    pub(crate) async fn reject(&self, id: &str, body: &Value) -> Answer {
        self.operator.reject(id, body).await
    }

    /// The history of an item, whose chain must be whole.
    pub(crate) async fn history(&self, id: &str) -> Vec<Value> {
        self.operator.history(id).await
    }

    /// What happened to an item, in order.
    pub(crate) async fn actions(&self, id: &str) -> Vec<String> {
        actions(&self.history(id).await)
    }
}

/// The actions of a history.
pub(crate) fn actions(entries: &[Value]) -> Vec<String> {
    entries.iter().map(|entry| entry["action"].as_str().expect("a text").to_owned()).collect()
}

impl Client {
    pub(crate) async fn approve(&self, id: &str, body: &Value) -> Answer {
        self.post(&format!("/api/hitl/{id}/approve"), body).await
    }

    pub(crate) async fn reject(&self, id: &str, body: &Value) -> Answer {
        self.post(&format!("/api/hitl/{id}/reject"), body).await
    }

    /// The history of an item, whose chain must be whole.
    pub(crate) async fn history(&self, id: &str) -> Vec<Value> {
        let history = self.get(&format!("/api/hitl/{id}/history")).await.expect_ok();
        let item = self.get(&format!("/api/hitl/{id}")).await.expect_ok();
        let entries = history.as_array().expect("a list").clone();
        chain::verify(&item, &entries);
        entries
    }

    /// All the tasks that try again, by those that they try again.
    pub(crate) async fn retries(&self) -> HashMap<String, Vec<String>> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let (mut found, mut seen) = (HashMap::<String, Vec<String>>::new(), 0);
        loop {
            let answer = self.get(&format!("/api/tasks?limit=100&offset={seen}")).await;
            let more = answer.body["pagination"]["hasMore"] == true;
            for task in answer.expect_ok().as_array().expect("a list") {
                seen += 1;
                if let Some(of) = text(&task["retryOf"]) {
                    found.entry(of).or_default().push(text(&task["id"]).expect("an id"));
                }
            }
            if !more {
                return found;
            }
        }
    }

    /// What a list shows, by task, and its total.
    pub(crate) async fn listed(&self, path: &str) -> (Vec<String>, u64) {
        let answer = self.get(path).await;
        let total = answer.body["pagination"]["total"].as_u64().unwrap_or_default();
        let items = answer.expect_ok();
        let id = |item: &Value| item["taskId"].as_str().expect("an id").to_owned();
        (items.as_array().expect("a list").iter().map(id).collect(), total)
    }
}

async fn login(server: &Server, email: &str) -> (Client, String) {
    let login = json!({"email": email, "password": PASSWORD});
    let session = Client::new(&server.url, "").post("/api/auth/login", &login).await.expect_ok();
    let id = session["user"]["id"].as_str().expect("an id").to_owned();
    (Client::new(&server.url, session["token"].as_str().expect("a token")), id)
}

async fn key_of(admin: &Client, role: &str) -> Key {
    let made = admin.post("/api/auth/keys", &json!({"name": role, "role": role})).await.expect(201);
    let text = |name: &str| made[name].as_str().expect("a text").to_owned();
    let secret = text("key");
    Key { id: text("id"), client: Client::new(&admin.url, &secret), secret }
}

/// What the worker makes of a prompt: an output, and the confidence in it.
fn answer(prompt: &str) -> (&str, Option<f64>) {
    let marked = prompt.rsplit_once('@');
    let read = marked.and_then(|(output, mark)| Some((output.trim_end(), mark.parse().ok()?)));
    read.map_or((prompt, None), |(output, confidence)| (output, Some(confidence)))
}

/// Writes the scripted outputs until the connection breaks.
pub(crate) async fn write(mut worker: FakeWorker) {
    let mut beat = tokio::time::interval(Duration::from_millis(300));
    loop {
        let frame = tokio::select! {
            frame = worker.next() => frame,
            _ = beat.tick() => {
                let heartbeat = json!({"type": "heartbeat", "leases": []});
                if worker.try_send(heartbeat).await.is_err() {
                    return;
                }
                continue;
            }
        };
        let Some(frame) = frame else { return };
        if frame["type"] != "assign" {
            continue;
        }
        let (output, confidence) = answer(frame["task"]["prompt"].as_str().unwrap_or_default());
        let mut complete = json!({
            "type": "complete", "lease": frame["lease"], "output": output,
            "usage": {"input": 3, "output": 5},
        });
        if let Some(confidence) = confidence {
            complete["confidence"] = json!(confidence);
            complete["confidenceSource"] = json!("reported");
        }
        if worker.try_send(complete).await.is_err() {
            return;
        }
    }
}
