//! Projects move between cells, with everything in them.

use callboard_postgres::Server as Postgres;

use super::work::{Work, served};
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

#[tokio::test]
async fn a_project_moves_with_everything_in_it_and_its_keys_work_at_any_node() {
    let cells = Cells::start().await;
    let project = cells.project("home").await;
    let work = Work::of(&cells, &project, &cells.home).await;
    let home = Client::new(&cells.home.url, &work.admin);
    let mut stream = home.request(Method::GET, "/api/events").send().await.expect("a stream");

    cells.moved(&project, "berlin").await;
    while stream.chunk().await.is_ok_and(|chunk| chunk.is_some()) {}
    for server in [&cells.home, &cells.berlin] {
        work.is_at(server).await;
    }
    work.goes_on(&cells.home, &cells.berlin).await;

    // And home again, where its place is another one.
    cells.moved(&project, "home").await;
    let berlin = Client::new(&cells.berlin.url, &work.admin);
    served(&berlin, "/api/tasks").await;
    work.is_once(&berlin).await;
    assert_eq!(berlin.task(&work.held).await["status"], "completed");
    let audit = cells.root.get("/api/audit?action=project.moved").await.expect_ok();
    assert_eq!(audit.as_array().map(Vec::len), Some(2));
}

/// A cell on a new database.
fn on_postgres(postgres: &Postgres, name: &str, home: &str) -> Server {
    let url = postgres.url(&postgres.database());
    let settings = [
        ("STORE__URL", url.as_str()),
        ("AUTH__SIGNING_KEY", "the signing key of every node of this cell"),
        ("WEBHOOKS__SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ];
    cell(name, home, &settings)
}

#[tokio::test]
async fn a_project_moves_between_embedded_cells_and_cells_on_postgresql() {
    let cells = Cells::start().await;
    let postgres = Postgres::start();
    let oslo = on_postgres(&postgres, "oslo", &cells.home.url);
    cells.add("oslo", &oslo).await;
    // Its place is another one in each cell.
    let neighbour = cells.project("oslo").await;
    let neighbour = Client::new(&oslo.url, &key(&cells.root, &neighbour, "operator").await);
    let beside = neighbour.submit(&json!({"prompt": "beside"})).await;
    let project = cells.project("berlin").await;
    let mut work = Work::of(&cells, &project, &cells.berlin).await;
    for to in ["oslo", "berlin", "home"] {
        cells.moved(&project, to).await;
        for server in [&cells.home, &cells.berlin, &oslo] {
            work.is_at(server).await;
        }
        work.grows(&cells.berlin, to).await;
    }
    work.goes_on(&cells.berlin, &oslo).await;
    let tasks = neighbour.get("/api/tasks").await.body;
    assert_eq!(tasks["pagination"]["total"], 1);
    assert_eq!(tasks["data"][0]["id"], beside);
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
    cells.follows("berlin").await;
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
        cells.follows("berlin").await;
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
