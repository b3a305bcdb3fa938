//! Projects move between cells, with everything in them.

use super::*;

impl Cells {
    /// Moves a project, and waits until it is there.
    async fn moved(&self, project: &Value, to: &str) {
        let moving = self.root.post(&path_of(project), &json!({"cell": to})).await.expect_ok();
        assert_eq!(moving["movingTo"], to);
        self.arrives(project, to).await;
    }

    async fn arrives(&self, project: &Value, cell: &str) {
        let path = format!("/api/projects/{}", text(project, "id"));
        until("the project is there", async || {
            let now = self.root.try_send(self.root.request(Method::GET, &path)).await;
            let Some(now) = now.filter(|answer| answer.status == 200) else { return false };
            let now = now.expect_ok();
            now["movingTo"].is_null() && now["cell"].as_str().unwrap_or("home") == cell
        })
        .await;
    }

    async fn restart_berlin(&mut self) {
        self.berlin.kill();
        self.berlin.restart();
        let cell = json!({"name": "berlin", "nodes": [self.berlin.url]});
        self.root.post("/api/cells", &cell).await.expect(201);
    }

    /// Home has another address after a restart, which the cell is told.
    async fn restart_home(&mut self) {
        self.home.kill();
        self.home.restart();
        self.berlin.set("CLUSTER__HOME", &self.home.url);
        self.root = self.home.admin().await;
        self.restart_berlin().await;
    }
}

fn path_of(project: &Value) -> String {
    format!("/api/projects/{}/move", text(project, "id"))
}

/// The data of an answer, once the project is served.
async fn served(client: &Client, path: &str) -> Value {
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
    for path in paths {
        served(client, path).await;
        let mut answer = client.get(path).await.body;
        without_times(&mut answer);
        read.push(json!([answer["data"], answer["pagination"]]));
    }
    read
}

#[tokio::test]
async fn a_project_moves_with_everything_in_it_and_its_keys_work_at_any_node() {
    let cells = Cells::start().await;
    let project = cells.project("home").await;
    let of = async |role: &str| key(&cells.root, &project, role).await;
    let (admin, worker) = (of("admin").await, of("worker").await);
    let home = Client::new(&cells.home.url, &admin);
    let mut fake = FakeWorker::connect(&cells.home, &worker, 1).await;
    let once = json!({"prompt": "once", "tags": ["red"]});
    let done = text(&home.post_once("/api/tasks", "k", &once).await.expect(201), "id").to_owned();
    let lease = fake.assignment().await["lease"].clone();
    fake.complete(&lease, &"long ".repeat(3_000)).await;
    home.task_with_status(&done, "completed").await;
    let held = home.submit(&json!({"prompt": "x", "hitl": {"required": true}})).await;
    let lease = fake.assignment().await["lease"].clone();
    fake.complete(&lease, "to be seen").await;
    until("the output is held", async || {
        home.get(&format!("/api/hitl/{held}")).await.status == 200
    })
    .await;
    let steps = json!([
        {"id": "first", "prompt": "p"},
        {"id": "then", "prompt": "{{first.output}}", "dependsOn": ["first"]},
    ]);
    let plan = home.plan(&steps).await;
    let execution = home.execute(&plan, &json!({"input": {}})).await;
    let running = fake.assignment().await["lease"].clone();
    let waiting = home.submit(&json!({"prompt": "waiting", "priority": 1})).await;
    let template = json!({"name": "Ours", "version": "1.0.0", "industry": "custom",
        "inputSchema": {"type": "object"}, "steps": [{"id": "one", "prompt": "p"}]});
    home.post("/api/templates", &template).await.expect(201);
    let budget =
        json!({"limit": 5, "period": "day", "match": {"tags": ["red"]}, "onExceed": "alert"});
    home.post("/api/budgets", &budget).await.expect_ok();
    let schedule =
        json!({"name": "nightly", "cron": "30 2 * * *", "target": {"task": {"prompt": "p"}}});
    home.post("/api/schedules", &schedule).await.expect(201);
    let file = home.request(Method::POST, "/api/files?name=note.txt");
    let file = file.header("content-type", "text/plain").body("hello");
    let file = home.send(file).await.expect(201);
    home.task_when(&waiting, |task| task["status"] == "pending").await;
    let paths = [
        "/api/tasks".to_owned(),
        "/api/tasks?tags=red".to_owned(),
        "/api/tasks?status=completed".to_owned(),
        format!("/api/tasks/{done}"),
        format!("/api/tasks/{waiting}"),
        "/api/hitl".to_owned(),
        format!("/api/hitl/{held}"),
        format!("/api/plans/executions/{execution}"),
        "/api/templates".to_owned(),
        "/api/budgets".to_owned(),
        "/api/schedules".to_owned(),
        "/api/auth/keys".to_owned(),
        format!("/api/files/{}", text(&file, "id")),
    ];
    let before = read(&home, &paths).await;
    let mut stream = home.request(Method::GET, "/api/events").send().await.expect("a stream");

    cells.moved(&project, "berlin").await;
    while stream.chunk().await.is_ok_and(|chunk| chunk.is_some()) {}
    let berlin = Client::new(&cells.berlin.url, &admin);
    for client in [&home, &berlin] {
        let after = read(client, &paths).await;
        for ((path, before), after) in paths.iter().zip(&before).zip(&after) {
            assert_eq!(after, before, "{path}");
        }
        let again = client.post_once("/api/tasks", "k", &once).await;
        assert_eq!(again.body["data"]["id"], done, "{again:?}");
    }
    let content = format!("/api/files/{}/content", text(&file, "id"));
    let content = home.request(Method::GET, &content).send().await.expect("an answer");
    assert_eq!(content.text().await.expect("a text"), "hello");

    // What was under way goes on: the lease, the step behind it, the review.
    let resume = json!({"workerId": fake.id, "leases": [running]});
    let register = json!({"type": "register", "name": "fake", "version": "0", "queues": ["default"],
        "models": ["*"], "concurrency": 1, "resume": resume});
    let mut back = FakeWorker::register(&cells.home.url, &worker, register).await;
    assert_eq!(back.registered["kept"], json!([running]));
    back.complete(&running, "first").await;
    for _ in 0..2 {
        let lease = back.assignment().await["lease"].clone();
        back.complete(&lease, "out").await;
    }
    berlin.execution_with_status(&execution, "completed").await;
    berlin.task_with_status(&waiting, "completed").await;
    home.post(&format!("/api/hitl/{held}/approve"), &json!({})).await.expect_ok();
    home.task_with_status(&held, "completed").await;

    // And home again, where its place is another one.
    cells.moved(&project, "home").await;
    served(&berlin, "/api/tasks").await;
    assert_eq!(berlin.post_once("/api/tasks", "k", &once).await.body["data"]["id"], done);
    assert_eq!(berlin.task(&held).await["status"], "completed");
    let audit = cells.root.get("/api/audit?action=project.moved").await.expect_ok();
    assert_eq!(audit.as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_move_is_given_up_until_it_has_ended_and_only_an_admin_of_home_moves() {
    let mut cells = Cells::start().await;
    let project = cells.project("home").await;
    let admin = key(&cells.root, &project, "admin").await;
    let home = Client::new(&cells.home.url, &admin);
    let (path, to) = (path_of(&project), |cell: &str| json!({"cell": cell}));
    assert_eq!(home.post(&path, &to("berlin")).await.refused(403), "FORBIDDEN");
    assert_eq!(cells.root.post(&path, &to("rome")).await.refused(400), "VALIDATION_ERROR");
    for there in ["home", "default"] {
        let of_default =
            format!("/api/projects/{there}/move").replace("home", text(&project, "id"));
        assert_eq!(cells.root.post(&of_default, &to("home")).await.refused(409), "INVALID_STATE");
    }
    assert_eq!(cells.root.delete(&path).await.refused(409), "INVALID_STATE");
    let task = home.submit(&json!({"prompt": "x"})).await;

    // The cell is gone, so that the move does not end.
    cells.berlin.kill();
    cells.root.post(&path, &to("berlin")).await.expect_ok();
    assert_eq!(cells.root.post(&path, &to("berlin")).await.refused(409), "INVALID_STATE");
    let refused = home.get("/api/tasks").await;
    assert_eq!(refused.refused(503), "UNAVAILABLE");
    assert!(refused.headers.contains_key("retry-after"));
    let delete = cells.root.request(Method::DELETE, path.trim_end_matches("/move"));
    let delete = cells.root.send(delete.json(&json!({"confirm": "in home"}))).await;
    assert_eq!(delete.refused(409), "INVALID_STATE");
    cells.root.delete(&path).await.expect_ok();
    assert_eq!(home.task(&task).await["status"], "pending");
    until("berlin is silent", async || {
        cells.root.get("/api/cells").await.expect_ok()[1]["status"] == "silent"
    })
    .await;
    assert_eq!(cells.root.post(&path, &to("berlin")).await.refused(409), "INVALID_STATE");
    cells.restart_berlin().await;
    until("berlin follows home", async || {
        cells.root.get("/api/cells").await.expect_ok()[1]["status"] == "following"
    })
    .await;
    cells.moved(&project, "berlin").await;
    assert_eq!(served(&home, &format!("/api/tasks/{task}")).await["status"], "pending");
}

#[tokio::test]
async fn a_cell_or_home_that_is_killed_at_any_time_goes_on_with_the_move() {
    let mut cells = Cells::start().await;
    let project = cells.project("home").await;
    let operator = key(&cells.root, &project, "operator").await;
    let client = Client::new(&cells.home.url, &operator);
    let long = "text ".repeat(2_000);
    let mut tasks = Vec::new();
    for number in 0..120 {
        let task = json!({"prompt": format!("{number} {long}")});
        tasks.push(client.submit(&task).await);
    }
    let ways = ["berlin", "home"].into_iter().cycle();
    for (round, (to, after)) in ways.zip([0, 30, 90, 200, 350, 600, 900, 1_500]).enumerate() {
        until("berlin follows home", async || {
            cells.root.get("/api/cells").await.expect_ok()[1]["status"] == "following"
        })
        .await;
        cells.root.post(&path_of(&project), &json!({"cell": to})).await.expect_ok();
        tokio::time::sleep(Duration::from_millis(after)).await;
        if round % 4 < 2 {
            cells.restart_berlin().await;
        } else {
            cells.restart_home().await;
        }
        cells.arrives(&project, to).await;
        for server in [&cells.home, &cells.berlin] {
            let client = Client::new(&server.url, &operator);
            let page = served(&client, "/api/tasks?limit=100").await;
            assert_eq!(page.as_array().map(Vec::len), Some(100), "round {round}");
            let total = &client.get("/api/tasks?limit=1").await.body["pagination"]["total"];
            assert_eq!(*total, 120 + u64::from(round > 0), "round {round}");
            let last = client.task(&tasks[119]).await;
            assert_eq!(last["status"], "pending");
            assert_eq!(last["prompt"], format!("119 {long}"), "round {round}");
        }
        // Used in the first round, and repeated in each further one.
        let once = Client::new(&cells.berlin.url, &operator);
        once.post_once("/api/tasks", "k", &json!({"prompt": "one"})).await;
    }
}
