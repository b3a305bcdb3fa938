//! A project with work of every kind, and how it is found again in another cell.

use super::*;

/// The project's contents, as a client has read them.
pub(super) struct Work {
    pub(super) admin: String,
    worker: String,
    paths: Vec<String>,
    before: Vec<Value>,
    /// The tasks that were submitted with an idempotency key, by it.
    once: Vec<(String, String)>,
    /// A task whose output waits for a reviewer.
    pub(super) held: String,
    execution: String,
    waiting: String,
    file: String,
    /// The worker, and the lease of the task that it holds.
    fake: FakeWorker,
    lease: Value,
}

/// The data of an answer, once the project is served.
pub(super) async fn served(client: &Client, path: &str) -> Value {
    until("the project is served", async || {
        let answer = client.try_send(client.request(Method::GET, path)).await;
        answer.is_some_and(|answer| answer.status != 503)
    })
    .await;
    client.get(path).await.expect_ok()
}

/// Takes out what changes by the clock, or with each request.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !matches!(&**name, "waitingMs" | "lastUsedAt"));
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The lists and items of a project, as a client reads them.
async fn read(client: &Client, paths: &[String]) -> Vec<Value> {
    let mut read = Vec::new();
    served(client, &paths[0]).await;
    for path in paths {
        let mut answer = client.get(path).await.body;
        without_times(&mut answer);
        read.push(json!([answer["data"], answer["pagination"]]));
    }
    read
}

fn once(key: &str) -> Value {
    json!({"prompt": format!("once {key}"), "tags": ["red"]})
}

async fn completes(fake: &mut FakeWorker, output: &str) {
    let lease = fake.assignment().await["lease"].clone();
    fake.complete(&lease, output).await;
}

impl Work {
    /// Fills a project at one of its cell's nodes.
    pub(super) async fn of(cells: &Cells, project: &Value, server: &Server) -> Self {
        let of = async |role: &str| key(&cells.root, project, role).await;
        let (admin, worker) = (of("admin").await, of("worker").await);
        let client = Client::new(&server.url, &admin);
        let mut fake = FakeWorker::connect(server, &worker, 1).await;
        let done = client.post_once("/api/tasks", "k", &once("k")).await.expect(201);
        let done = text(&done, "id").to_owned();
        completes(&mut fake, &"long ".repeat(3_000)).await;
        client.task_with_status(&done, "completed").await;
        let held = client.submit(&json!({"prompt": "x", "hitl": {"required": true}})).await;
        completes(&mut fake, "to be seen").await;
        until("the output is held", async || {
            client.get(&format!("/api/hitl/{held}")).await.status == 200
        })
        .await;
        let steps = json!([
            {"id": "first", "prompt": "p"},
            {"id": "then", "prompt": "{{first.output}}", "dependsOn": ["first"]},
        ]);
        let plan = client.plan(&steps).await;
        let execution = client.execute(&plan, &json!({"input": {}})).await;
        let lease = fake.assignment().await["lease"].clone();
        let waiting = client.submit(&json!({"prompt": "waiting", "priority": 1})).await;
        let template = json!({"name": "Ours", "version": "1.0.0", "industry": "custom",
            "inputSchema": {"type": "object"}, "steps": [{"id": "one", "prompt": "p"}]});
        client.post("/api/templates", &template).await.expect(201);
        let budget =
            json!({"limit": 5, "period": "day", "match": {"tags": ["red"]}, "onExceed": "alert"});
        client.post("/api/budgets", &budget).await.expect_ok();
        let schedule =
            json!({"name": "nightly", "cron": "30 2 * * *", "target": {"task": {"prompt": "p"}}});
        client.post("/api/schedules", &schedule).await.expect(201);
        let file = client.request(Method::POST, "/api/files?name=note.txt");
        let file = file.header("content-type", "text/plain").body("hello");
        let file = text(&client.send(file).await.expect(201), "id").to_owned();
        client.task_when(&waiting, |task| task["status"] == "pending").await;
        let paths = [
            "/api/tasks",
            "/api/tasks?tags=red",
            "/api/tasks?status=completed",
            &format!("/api/tasks/{done}"),
            &format!("/api/tasks/{waiting}"),
            "/api/hitl",
            &format!("/api/hitl/{held}"),
            &format!("/api/plans/executions/{execution}"),
            "/api/templates",
            "/api/budgets",
            "/api/schedules",
            "/api/auth/keys",
            &format!("/api/files/{file}"),
        ];
        let paths: Vec<_> = paths.map(str::to_owned).into();
        let before = read(&client, &paths).await;
        let once = vec![("k".to_owned(), done)];
        Self { admin, worker, paths, before, once, held, execution, waiting, file, fake, lease }
    }

    /// Asserts that everything is as it was, for a client of this server.
    pub(super) async fn is_at(&self, server: &Server) {
        let client = Client::new(&server.url, &self.admin);
        let after = read(&client, &self.paths).await;
        for ((path, before), after) in self.paths.iter().zip(&self.before).zip(&after) {
            assert_eq!(after, before, "{path}");
        }
        self.is_once(&client).await;
        let content = format!("/api/files/{}/content", self.file);
        let content = client.request(Method::GET, &content).send().await.expect("an answer");
        assert_eq!(content.text().await.expect("a text"), "hello");
    }

    /// Asserts that no submission with a key is made twice.
    pub(super) async fn is_once(&self, client: &Client) {
        for (key, id) in &self.once {
            let again = client.post_once("/api/tasks", key, &once(key)).await;
            assert_eq!(again.body["data"]["id"], *id, "{again:?}");
        }
    }

    /// Submits one more task, with this key.
    pub(super) async fn grows(&mut self, server: &Server, key: &str) {
        let client = Client::new(&server.url, &self.admin);
        let made = client.post_once("/api/tasks", key, &once(key)).await.body;
        self.once.push((key.to_owned(), text(&made["data"], "id").to_owned()));
        self.before = read(&client, &self.paths).await;
    }

    /// Lets the work that was under way go on to its end: the lease, the step behind it, the review.
    pub(super) async fn goes_on(&self, one: &Server, other: &Server) {
        let resume = json!({"workerId": self.fake.id, "leases": [self.lease]});
        let register = json!({"type": "register", "name": "fake", "version": "0", "queues": ["default"],
            "models": ["*"], "concurrency": 1, "resume": resume});
        let mut back = FakeWorker::register(&one.url, &self.worker, register).await;
        assert_eq!(back.registered["kept"], json!([self.lease]));
        back.complete(&self.lease, "first").await;
        let further = self.once.len() + 1;
        for _ in 0..further {
            completes(&mut back, "out").await;
        }
        let [one, other] = [one, other].map(|server| Client::new(&server.url, &self.admin));
        other.execution_with_status(&self.execution, "completed").await;
        other.task_with_status(&self.waiting, "completed").await;
        one.post(&format!("/api/hitl/{}/approve", self.held), &json!({})).await.expect_ok();
        one.task_with_status(&self.held, "completed").await;
    }
}
