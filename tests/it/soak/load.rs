//! A bit of everything, at a steady pace, through restarts: tasks that end well, fail, are held and
//! cancelled; executions; deploys; reviewers; workers that come and go; lists; event streams.
//!
//! Other tests look at outcomes; here only an answer that no server should give counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

use crate::support::{Answer, Client, FakeWorker};

/// Where the server is now, and what it has answered.
#[derive(Debug, Default)]
pub(crate) struct Site {
    url: Mutex<String>,
    full: AtomicBool,
    stop: AtomicBool,
    pub(crate) answered: AtomicU64,
    pub(crate) faults: Mutex<Vec<String>>,
}

/// What the load needs to know of a server.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) operator: String,
    pub(crate) worker: String,
    pub(crate) plan: String,
    pub(crate) template: String,
}

impl Site {
    pub(crate) fn at(url: &str) -> Arc<Self> {
        let site = Self::default();
        site.moved(url);
        Arc::new(site)
    }

    /// The server is somewhere else now.
    pub(crate) fn moved(&self, url: &str) {
        url.clone_into(&mut self.url.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// From now on nothing new is asked for; what is there is worked on.
    pub(crate) fn close(&self) {
        self.full.store(true, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn url(&self) -> String {
        self.url.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// The plan that is executed: a step, five beside each other of which one is skipped and one held,
/// and one behind all.
pub(crate) fn steps() -> Value {
    let beside = |id: &str| json!({"id": id, "prompt": format!("{id} {{{{a.output}}}}"), "dependsOn": ["a"]});
    let mut skipped = beside("d");
    skipped["condition"] = json!("input.deep == true");
    let mut held = beside("e");
    held["requiresApproval"] = json!(true);
    json!([
        {"id": "a", "prompt": "a"}, beside("b"), beside("c"), skipped, held, beside("f"),
        {"id": "z", "prompt": "{{b.output}} {{c.output}}", "dependsOn": ["b", "c", "d", "e", "f"]},
    ])
}

/// A template of one step.
pub(crate) fn template() -> Value {
    json!({
        "name": "Soak", "version": "1.0.0", "industry": "custom", "inputSchema": {"type": "object"},
        "steps": [{"id": "only", "prompt": "one"}],
    })
}

/// Starts everything; it ends with the site.
pub(crate) fn begin(site: &Arc<Site>, access: &Access) -> JoinSet<()> {
    let mut all = JoinSet::new();
    for number in 0..3 {
        all.spawn(submit(Seat::new(site, access, 80), number));
    }
    all.spawn(execute(Seat::new(site, access, 200)));
    all.spawn(deploy(Seat::new(site, access, 400)));
    all.spawn(review(Seat::new(site, access, 100)));
    all.spawn(list(Seat::new(site, access, 100)));
    all.spawn(listen(Seat::new(site, access, 500)));
    // Two that stay, and one that comes and goes.
    for stays in [Duration::from_hours(1), Duration::from_hours(1), Duration::from_millis(700)] {
        all.spawn(work(Arc::clone(site), access.worker.clone(), stays));
    }
    all
}

/// One who asks for something again and again.
struct Seat {
    site: Arc<Site>,
    access: Access,
    client: Client,
    turn: Interval,
}

impl Seat {
    /// One who asks every so many milliseconds; later, if an answer took longer.
    fn new(site: &Arc<Site>, access: &Access, every: u64) -> Self {
        let client = Client::new(&site.url(), &access.operator);
        let mut turn = tokio::time::interval(Duration::from_millis(every));
        turn.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { site: Arc::clone(site), access: access.clone(), client, turn }
    }

    /// The answer; nothing while the server is away.
    async fn ask(&mut self, method: Method, path: &str, body: Option<&Value>) -> Option<Answer> {
        let url = self.site.url();
        if self.client.url != url {
            self.client = self.client.at(&url);
        }
        let mut request = self.client.request(method.clone(), path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = self.client.try_send(request).await?;
        self.site.answered.fetch_add(1, Ordering::Relaxed);
        // 404: it was removed. 409: somebody was quicker. 503: it is stopping.
        if !matches!(answer.status.as_u16(), 200 | 201 | 404 | 409 | 503) {
            let fault = format!("{method} {path}: {} {}", answer.status, answer.body);
            self.site.faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
        }
        Some(answer)
    }

    /// Waits for its turn; whether to make more then.
    async fn makes(&mut self) -> bool {
        self.asks().await && !self.site.full.load(Ordering::Relaxed)
    }

    /// Waits for its turn; whether to go on then.
    async fn asks(&mut self) -> bool {
        self.turn.tick().await;
        self.site.goes_on()
    }
}

async fn submit(mut seat: Seat, number: usize) {
    let mut count = number;
    while seat.makes().await {
        count += 1;
        let task = match count % 8 {
            0 => json!({"prompt": "held", "hitl": {"required": true}}),
            1 => json!({"prompt": "fail"}),
            2 => json!({"prompt": "long ".repeat(1_500), "tags": ["long"]}),
            _ => json!({"prompt": "short", "tags": ["t"], "priority": count % 10 + 1}),
        };
        let made = seat.ask(Method::POST, "/api/tasks", Some(&task)).await;
        if count % 8 == 3
            && let Some(id) = made.as_ref().and_then(|made| made.body["data"]["id"].as_str())
        {
            seat.ask(Method::DELETE, &format!("/api/tasks/{id}"), None).await;
        }
    }
}

async fn execute(mut seat: Seat) {
    let path = format!("/api/plans/{}/execute", seat.access.plan);
    let mut count = 0;
    while seat.makes().await {
        count += 1;
        let body = json!({"input": {"deep": count % 2 == 0}});
        let made = seat.ask(Method::POST, &path, Some(&body)).await;
        if count % 5 == 0
            && let Some(id) = made.as_ref().and_then(|made| made.body["data"]["id"].as_str())
        {
            seat.ask(Method::DELETE, &format!("/api/plans/executions/{id}"), None).await;
        }
    }
}

async fn deploy(mut seat: Seat) {
    let path = format!("/api/templates/{}/deploy", seat.access.template);
    while seat.makes().await {
        seat.ask(Method::POST, &path, Some(&json!({"input": {}}))).await;
    }
}

/// Decides all that waits, every third to its disadvantage.
async fn review(mut seat: Seat) {
    let mut count = 0;
    while seat.asks().await {
        let waiting = seat.ask(Method::GET, "/api/hitl/pending?limit=50", None).await;
        let items = waiting.map_or(Value::Null, |mut answer| answer.body["data"].take());
        for item in items.as_array().into_iter().flatten() {
            let Some(task) = item["taskId"].as_str() else { continue };
            count += 1;
            let (verb, body) = match count % 6 {
                0 => ("reject", json!({"reason": "no"})),
                1 => ("reject", json!({"reason": "again", "retry": true})),
                2 => ("approve", json!({"modifiedOutput": "better", "comment": "so"})),
                _ => ("approve", json!({})),
            };
            seat.ask(Method::POST, &format!("/api/hitl/{task}/{verb}"), Some(&body)).await;
        }
    }
}

async fn list(mut seat: Seat) {
    let paths = [
        "/api/tasks?limit=50",
        "/api/tasks?status=completed&orderBy=completedAt&limit=20&offset=40",
        "/api/tasks?tags=t&limit=20",
        "/api/plans/executions?limit=20",
        "/api/hitl?limit=20",
        "/api/hitl/stats",
        "/api/plans?limit=20",
    ];
    for path in paths.iter().cycle() {
        if !seat.asks().await {
            return;
        }
        let page = seat.ask(Method::GET, path, None).await;
        let items = page.map_or(Value::Null, |mut answer| answer.body["data"].take());
        // What was listed may be gone by now; it is whole or not there.
        if let Some(id) = items[0]["id"].as_str().filter(|id| id.starts_with("dt_exec_")) {
            seat.ask(Method::GET, &format!("/api/plans/executions/{id}"), None).await;
        }
    }
}

/// Opens an event stream, reads for a while, and leaves.
async fn listen(mut seat: Seat) {
    while seat.asks().await {
        let url = seat.site.url();
        if seat.client.url != url {
            seat.client = seat.client.at(&url);
        }
        let request = seat.client.request(Method::GET, "/api/events");
        let Ok(mut stream) = request.send().await else { continue };
        let read = async { while let Ok(Some(_)) = stream.chunk().await {} };
        let _ = tokio::time::timeout(Duration::from_millis(400), read).await;
    }
}

async fn work(site: Arc<Site>, key: String, stays: Duration) {
    while site.goes_on() {
        let Some(worker) = FakeWorker::try_connect(&site.url(), &key, 16).await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let answer = |task: &Value| match task["prompt"].as_str() {
            Some("fail") => Err("it fails".to_owned()),
            Some(prompt) => Ok(format!("done {prompt}")),
            None => Err("nothing is asked".to_owned()),
        };
        let mut run = worker.run(answer);
        let until = tokio::time::Instant::now() + stays;
        while site.goes_on() && tokio::time::Instant::now() < until && !run.is_finished() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        run.abort();
        let _ = (&mut run).await;
    }
}
