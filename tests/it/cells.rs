//! Cells: several servers share the projects of one company, and any of them takes any request.

mod moves;
mod work;

use std::time::{Duration, Instant};

use callboard_domain::credential::project_named;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::{ADMIN, Answer, Client, FakeWorker, PASSWORD, Server, until};

const KEY: &str = "a key that all cells of this company share";
const UNLIMITED: (&str, &str) = ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000");
const PROJECT: &str = "Callboard-Project";

/// Home and one more cell, each an embedded server.
struct Cells {
    home: Server,
    berlin: Server,
    /// An admin's session, at home.
    root: Client,
}

/// A cell besides home. By default an embedded server.
fn cell(name: &str, home: &str, settings: &[(&str, &str)]) -> Server {
    let mut all =
        vec![("CLUSTER__KEY", KEY), UNLIMITED, ("CLUSTER__CELL", name), ("CLUSTER__HOME", home)];
    all.extend(settings);
    Server::with(&all)
}

impl Cells {
    async fn start() -> Self {
        let home = Server::with(&[("CLUSTER__KEY", KEY), UNLIMITED]);
        let berlin = cell("berlin", &home.url, &[]);
        let root = home.admin().await;
        let cells = Self { home, berlin, root };
        cells.add("berlin", &cells.berlin).await;
        cells
    }

    /// Adds a cell, and waits until it follows home.
    async fn add(&self, name: &str, server: &Server) {
        let cell = json!({"name": name, "nodes": [server.url]});
        self.root.post("/api/cells", &cell).await.expect(201);
        self.follows(name).await;
    }

    async fn follows(&self, name: &str) {
        until("the cell follows home", async || {
            let cells = self.root.get("/api/cells").await.expect_ok();
            let mut cells = cells.as_array().expect("a list").iter();
            cells.any(|cell| cell["name"] == name && cell["status"] == "following")
        })
        .await;
    }

    /// A project, with a key of this role.
    async fn project(&self, cell: &str) -> Value {
        let project = json!({"name": format!("in {cell}"), "cell": cell});
        self.root.post("/api/projects", &project).await.expect(201)
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} in {value:#}"))
}

fn within(client: &Client, project: &Value, method: Method, path: &str) -> RequestBuilder {
    client.request(method, path).header(PROJECT, text(project, "id"))
}

async fn key(root: &Client, project: &Value, role: &str) -> String {
    let key = json!({"name": role, "role": role});
    let made = within(root, project, Method::POST, "/api/auth/keys").json(&key);
    text(&root.send(made).await.expect(201), "key").to_owned()
}

async fn list(client: &Client, project: &Value) -> Answer {
    client.send(within(client, project, Method::GET, "/api/tasks")).await
}

#[tokio::test]
async fn any_cell_takes_any_request_for_keys_workers_and_sessions() {
    let cells = Cells::start().await;
    let (here, there) = (cells.project("home").await, cells.project("berlin").await);
    assert_eq!((here.get("cell"), &there["cell"]), (None, &json!("berlin")));
    let (operator, worker) =
        (key(&cells.root, &there, "operator").await, key(&cells.root, &there, "worker").await);
    assert_ne!(project_named(&operator), project_named(&key(&cells.root, &here, "operator").await));

    // A task that one cell's node took is answered by a worker at the other's, and read at both.
    let at = |server: &Server| Client::new(&server.url, &operator);
    let (home, berlin) = (at(&cells.home), at(&cells.berlin));
    let mut one = FakeWorker::connect(&cells.home, &worker, 1).await;
    for client in [&home, &berlin] {
        let task = client.submit(&json!({"prompt": "x"})).await;
        let assigned = one.assignment().await;
        assert_eq!(assigned["task"]["id"], task);
        one.complete(&assigned["lease"], "y").await;
        for client in [&home, &berlin] {
            client.task_with_status(&task, "completed").await;
        }
    }

    // So are people, by their session at either, and each project is the other's stranger.
    let session_at_berlin = Client::new(&cells.berlin.url, cells.root.token());
    for client in [&cells.root, &session_at_berlin] {
        assert_eq!(list(client, &there).await.expect_ok().as_array().map(Vec::len), Some(2));
        assert_eq!(list(client, &here).await.expect_ok(), json!([]));
        assert_eq!(client.get("/api/projects").await.expect_ok().as_array().map(Vec::len), Some(3));
    }
    let login = json!({"email": ADMIN, "password": PASSWORD});
    Client::new(&cells.berlin.url, "").post("/api/auth/login", &login).await.expect_ok();
    let elsewhere = home.request(Method::GET, "/api/tasks").header(PROJECT, text(&here, "id"));
    assert_eq!(home.send(elsewhere).await.refused(404), "NOT_FOUND");
    assert_eq!(berlin.get("/api/auth/users").await.refused(403), "FORBIDDEN");
    let other = if operator.ends_with('0') { '1' } else { '0' };
    let forged = format!("{}{other}", &operator[..operator.len() - 1]);
    for server in [&cells.home, &cells.berlin] {
        let forged = Client::new(&server.url, &forged).get("/api/tasks").await;
        assert_eq!(forged.refused(401), "INVALID_TOKEN");
        assert_eq!(
            Client::new(&server.url, "").get("/api/tasks").await.refused(401),
            "UNAUTHORIZED"
        );
    }

    // What is about the whole server of a cell is asked of it by its name.
    let of_berlin =
        |path: &str| cells.root.request(Method::GET, path).header("Callboard-Cell", "berlin");
    let audit = cells.root.send(of_berlin("/api/audit?action=project.created")).await.expect_ok();
    assert_eq!(audit[0]["target"], there["id"]);
    let of_berlin =
        cells.root.request(Method::POST, "/api/auth/keys").header("Callboard-Cell", "berlin");
    let made = of_berlin.json(&json!({"name": "backup", "role": "admin"}));
    let made = cells.root.send(made).await.expect(201);
    let whole = Client::new(&cells.berlin.url, text(&made, "key"));
    assert_eq!(
        whole.get("/api/audit?action=key.created").await.expect_ok()[0]["target"],
        made["id"]
    );
    let unknown = cells.root.request(Method::GET, "/api/audit").header("Callboard-Cell", "rome");
    assert_eq!(cells.root.send(unknown).await.refused(404), "NOT_FOUND");
}

#[tokio::test]
async fn a_note_that_home_did_not_write_vouches_for_nobody() {
    let cells = Cells::start().await;
    let there = cells.project("berlin").await;
    let user =
        text(&cells.root.get("/api/auth/session").await.expect_ok()["user"], "id").to_owned();
    let anybody = Client::new(&cells.berlin.url, "");
    let note =
        format!("1;n;127.0.0.1:1;1800000000000;{user};ses_01kahj9d2z4x0v5y8m3n7r6q4e;0;00ff");
    let forged =
        within(&anybody, &there, Method::GET, "/api/tasks").header("callboard-forwarded", note);
    assert_eq!(anybody.send(forged).await.refused(401), "UNAUTHORIZED");
    let nobody = anybody.request(Method::GET, "/api/audit").header("Callboard-Cell", "berlin");
    assert_eq!(anybody.send(nobody).await.refused(401), "UNAUTHORIZED");
    let list = anybody.get("/internal/cells/berlin").await;
    assert!(matches!(list.status.as_u16(), 401 | 404), "{}", list.status);
    let list = Client::new(&cells.home.url, "").get("/internal/cells/berlin").await;
    assert_eq!(list.refused(404), "NOT_FOUND");
}

#[tokio::test]
async fn a_new_project_goes_to_the_emptiest_cell_and_a_cell_with_projects_stays() {
    let cells = Cells::start().await;
    let mut made = Vec::new();
    for name in ["one", "two", "three"] {
        let project = cells.root.post("/api/projects", &json!({"name": name})).await.expect(201);
        made.push(project["cell"].as_str().map(str::to_owned));
    }
    assert_eq!(made, [None, Some("berlin".to_owned()), None]);
    let unknown = json!({"name": "four", "cell": "rome"});
    let refused = cells.root.post("/api/projects", &unknown).await;
    assert_eq!(refused.refused(400), "VALIDATION_ERROR");
    assert_eq!(cells.root.delete("/api/cells/berlin").await.refused(409), "INVALID_STATE");
    let again = json!({"name": "berlin", "nodes": [cells.berlin.url]});
    cells.root.post("/api/cells", &again).await.expect(201);
    let cells = cells.root.get("/api/cells").await.expect_ok();
    assert_eq!((&cells[0]["projects"], &cells[1]["projects"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn home_adds_up_what_the_cells_know_and_names_the_silent_ones() {
    let mut cells = Cells::start().await;
    let (here, there) = (cells.project("home").await, cells.project("berlin").await);
    for (project, tasks) in [(&here, 1), (&there, 2)] {
        let key = key(&cells.root, project, "operator").await;
        for _ in 0..tasks {
            Client::new(&cells.home.url, &key).submit(&json!({"prompt": "x"})).await;
        }
    }
    let figures = async |client: &Client| client.get("/api/projects/figures").await.expect_ok();
    let pending = |figures: &Value| -> Vec<_> {
        let all = figures["projects"].as_array().expect("a list").clone();
        all.iter().map(|it| (text(it, "name").to_owned(), it["tasks"]["pending"].clone())).collect()
    };
    let (default, home, berlin) = (
        ("default".to_owned(), json!(0)),
        ("in home".to_owned(), json!(1)),
        ("in berlin".to_owned(), json!(2)),
    );
    let known = figures(&cells.root).await;
    assert_eq!(pending(&known), [default.clone(), home.clone(), berlin.clone()]);
    assert_eq!(
        (&known["silent"], &known["projects"][2]["usage"]["totalCost"]),
        (&json!([]), &json!(0.0))
    );
    // An admin of the server needs no role there; a member sees the own projects, a reviewer none.
    let root =
        text(&cells.root.get("/api/auth/session").await.expect_ok()["user"], "id").to_owned();
    let leave = format!("/api/projects/{}/members/{root}", text(&there, "id"));
    cells.root.delete(&leave).await.expect_ok();
    assert_eq!(pending(&figures(&cells.root).await), [default, home.clone(), berlin.clone()]);
    let person =
        json!({"email": "v@example.com", "password": "lovelace-engine-1843", "role": "viewer"});
    let id = text(&cells.root.post("/api/auth/users", &person).await.expect(201), "id").to_owned();
    let login = json!({"email": "v@example.com", "password": "lovelace-engine-1843"});
    let session =
        Client::new(&cells.home.url, "").post("/api/auth/login", &login).await.expect_ok();
    let viewer = Client::new(&cells.home.url, text(&session, "token"));
    for (role, sees) in [("reviewer", vec![]), ("viewer", vec![berlin.clone()])] {
        let member = format!("/api/projects/{}/members/{id}", text(&there, "id"));
        let admitted = cells.root.request(Method::PUT, &member).json(&json!({"role": role}));
        cells.root.send(admitted).await.expect_ok();
        let mut known = pending(&figures(&viewer).await);
        known.retain(|(name, _)| name != "default");
        assert_eq!(known, sees, "{role}");
    }

    let everywhere = "/api/audit?everywhere=true&action=project.created";
    let made = cells.root.get(everywhere).await.expect_ok();
    let of_cell: Vec<_> =
        made.as_array().expect("a list").iter().map(|it| (&it["cell"], &it["target"])).collect();
    // Home makes a project and its cell opens it.
    let (home, berlin) = (json!("home"), json!("berlin"));
    assert_eq!(of_cell.len(), 3);
    assert!(of_cell.contains(&(&berlin, &there["id"])) && of_cell.contains(&(&home, &there["id"])));
    let second = cells.root.get(&format!("{everywhere}&limit=1&offset=1")).await.expect_ok();
    assert_eq!(second, json!([made[1]]));
    let far = format!("{everywhere}&offset=1000");
    assert_eq!(cells.root.get(&far).await.refused(400), "VALIDATION_ERROR");
    let listed = cells.root.get("/api/cells").await.expect_ok();
    assert_eq!(listed[1]["health"]["components"]["workers"], "no worker is connected");
    let targets = cells.root.get("/metrics/targets").await.body;
    assert_eq!(targets[0]["labels"], json!({"cell": "berlin", "__scheme__": "http"}));
    assert!(cells.berlin.url.ends_with(text(&json!({"it": targets[0]["targets"][0]}), "it")));

    cells.berlin.kill();
    let known = figures(&cells.root).await;
    assert_eq!(known["silent"], json!(["berlin"]));
    assert_eq!(known["projects"].as_array().map(Vec::len), Some(2));
    let answer = cells.root.get(everywhere).await;
    assert_eq!(answer.headers["callboard-silent-cells"], "berlin");
    assert_eq!(cells.root.get("/api/cells").await.expect_ok()[1].get("health"), None);
}

#[tokio::test]
async fn a_right_that_ends_at_home_ends_everywhere() {
    let cells = Cells::start().await;
    let there = cells.project("berlin").await;
    let person =
        json!({"email": "p@example.com", "password": "lovelace-engine-1843", "role": "viewer"});
    let person =
        text(&cells.root.post("/api/auth/users", &person).await.expect(201), "id").to_owned();
    let member = format!("/api/projects/{}/members/{person}", text(&there, "id"));
    let admit = || cells.root.request(Method::PUT, &member).json(&json!({"role": "admin"}));
    cells.root.send(admit()).await.expect_ok();
    let login = json!({"email": "p@example.com", "password": "lovelace-engine-1843"});
    let sign_in = async || {
        let session = Client::new(&cells.home.url, "").post("/api/auth/login", &login).await;
        Client::new(&cells.home.url, text(&session.expect_ok(), "token"))
    };
    let client = sign_in().await;
    list(&client, &there).await.expect_ok();
    let made = Client::new(&cells.berlin.url, &key(&client, &there, "operator").await);
    made.get("/api/tasks").await.expect_ok();
    let mut stream =
        within(&client, &there, Method::GET, "/api/events").send().await.expect("a stream");
    assert_eq!(stream.status(), 200);

    // The membership: the session, the key and the stream.
    let begun = Instant::now();
    cells.root.delete(&member).await.expect_ok();
    assert_eq!(list(&client, &there).await.refused(404), "NOT_FOUND");
    assert_eq!(made.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    while stream.chunk().await.is_ok_and(|chunk| chunk.is_some()) {}
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

    // The session: its stream through home.
    cells.root.send(admit()).await.expect_ok();
    let mut stream =
        within(&client, &there, Method::GET, "/api/events").send().await.expect("a stream");
    assert_eq!(stream.status(), 200);
    let nobody =
        json!({"email": "q@example.com", "password": "lovelace-engine-1843", "role": "operator"});
    cells.root.post("/api/auth/users", &nobody).await.expect(201);
    let login = json!({"email": "q@example.com", "password": "lovelace-engine-1843"});
    let session = Client::new(&cells.berlin.url, "").post("/api/auth/login", &login).await;
    let stranger = Client::new(&cells.berlin.url, text(&session.expect_ok(), "token"));
    assert_eq!(list(&stranger, &there).await.refused(404), "NOT_FOUND");
    let begun = Instant::now();
    client.post("/api/auth/logout", &json!({})).await.expect_ok();
    while stream.chunk().await.is_ok_and(|chunk| chunk.is_some()) {}
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

    // The project.
    let operator = Client::new(&cells.home.url, &key(&cells.root, &there, "operator").await);
    operator.submit(&json!({"prompt": "never answered"})).await;
    let path = format!("/api/projects/{}", text(&there, "id"));
    let delete = cells.root.request(Method::DELETE, &path).json(&json!({"confirm": "in berlin"}));
    cells.root.send(delete).await.expect_ok();
    assert_eq!(operator.get("/api/tasks").await.refused(401), "INVALID_TOKEN");
    assert_eq!(list(&cells.root, &there).await.refused(404), "NOT_FOUND");
    let deleted = "/api/audit?action=project.deleted";
    let deleted = cells.root.request(Method::GET, deleted).header("Callboard-Cell", "berlin");
    assert_eq!(cells.root.send(deleted).await.expect_ok()[0]["target"], there["id"]);
}

#[tokio::test]
async fn a_cell_goes_on_without_home_and_home_without_a_cell() {
    let mut cells = Cells::start().await;
    let (here, there) = (cells.project("home").await, cells.project("berlin").await);
    let of = async |project: &Value| {
        (key(&cells.root, project, "operator").await, key(&cells.root, project, "worker").await)
    };
    let ((operator, worker), (at_home, _)) = (of(&there).await, of(&here).await);
    cells.home.kill();
    let berlin = Client::new(&cells.berlin.url, &operator);
    let mut one = FakeWorker::connect(&cells.berlin, &worker, 1).await;
    let task = berlin.submit(&json!({"prompt": "x"})).await;
    let assigned = one.assignment().await;
    one.complete(&assigned["lease"], "y").await;
    berlin.task_with_status(&task, "completed").await;
    // A restart needs no home either: the projects are in the cell's own store.
    cells.berlin.kill();
    cells.berlin.restart();
    let berlin = Client::new(&cells.berlin.url, &operator);
    berlin.task_with_status(&task, "completed").await;
    let refused = Client::new(&cells.berlin.url, &at_home).get("/api/tasks").await;
    assert_eq!(refused.refused(503), "UNAVAILABLE");

    // Home comes back at another address, and is told where the cell is now.
    cells.home.restart();
    let home = cells.home.url.clone();
    cells.berlin.set("CLUSTER__HOME", &home);
    cells.berlin.kill();
    cells.berlin.restart();
    let root = cells.home.admin().await;
    let nodes = json!({"name": "berlin", "nodes": [cells.berlin.url]});
    root.post("/api/cells", &nodes).await.expect(201);
    let through_home = Client::new(&home, &operator);
    through_home.task_with_status(&task, "completed").await;
    cells.berlin.kill();
    Client::new(&home, &at_home).get("/api/tasks").await.expect_ok();
    until("home says that the cell is silent", async || {
        root.get("/api/cells").await.expect_ok()[1]["status"] == "silent"
    })
    .await;
}
