//! Projects that share a server: a flood in one of them does not stop the work of another one.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reqwest::Method;
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{Client, FakeWorker, Server, until};

/// A host that takes connections and never answers; counts them.
async fn silent_host() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let taken = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&taken);
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            open.push(stream);
        }
    });
    (port, taken)
}

/// A key of a project, by a request of a session.
pub(crate) async fn key(root: &Client, project: &str, role: &str) -> String {
    let request = root.request(Method::POST, "/api/auth/keys").header("Callboard-Project", project);
    let made = root.send(request.json(&json!({"name": "k", "role": role}))).await.expect(201);
    made["key"].as_str().expect("a key").to_owned()
}

pub(crate) async fn project(root: &Client, name: &str) -> String {
    let made = root.post("/api/projects", &json!({"name": name})).await.expect(201);
    made["id"].as_str().expect("an identifier").to_owned()
}

/// Starts the server again with a section of its settings.
fn restart(server: &mut Server, settings: &str) {
    let file = server.data().with_file_name("c.toml");
    fs::write(&file, settings).expect("it is written");
    server.flags(&["--config", file.to_str().expect("UTF-8")]);
    assert!(server.terminate());
    server.restart();
}

async fn working(server: &Server, key: &str) {
    let worker = FakeWorker::connect(server, key, 8).await;
    worker.run(|task| Ok(task["prompt"].as_str().unwrap_or_default().to_owned()));
}

/// Tasks whose webhooks go to so many hosts.
async fn flood(client: &Client, hosts: usize, port: u16) {
    for host in 0..hosts {
        let url = format!("http://127.1.{}.{}:{port}/", host / 200, host % 200 + 1);
        client.submit(&json!({"prompt": "p", "callbackUrl": url})).await;
    }
}

#[tokio::test]
async fn webhooks_of_a_project_do_not_wait_for_the_many_slow_hosts_of_another_one() {
    const HOSTS: usize = 400;
    let mut server = Server::with(&[
        ("WEBHOOKS__ALLOW", "127.0.0.0/8"),
        ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "100000"),
    ]);
    let other = project(&server.admin().await, "search").await;
    restart(&mut server, &format!("[projects.{other}]\nwebhooks_allow = [\"127.0.0.1/32\"]\n"));
    let root = server.admin().await;
    let (port, taken) = silent_host().await;
    working(&server, &key(&root, "default", "worker").await).await;
    flood(&root, HOSTS, port).await;
    until("three quarters are taken", async || taken.load(Ordering::SeqCst) >= 96).await;

    let receiver = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", receiver.local_addr().expect("an address"));
    working(&server, &key(&root, &other, "worker").await).await;
    let admin = Client::new(&server.url, &key(&root, &other, "admin").await);
    admin.submit(&json!({"prompt": "p", "callbackUrl": url})).await;
    receiver.accept().await.expect("the webhook comes");
    let taken = taken.load(Ordering::SeqCst);
    assert!(taken < HOSTS, "before it came {taken} of the others, which are all");
}

#[tokio::test]
async fn a_project_with_half_the_weight_sends_fewer_webhooks_at_once() {
    let mut server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "100000")]);
    let light = project(&server.admin().await, "light").await;
    let section = "webhooks_allow = [\"127.0.0.0/8\"]\nweight = 50\n";
    restart(&mut server, &format!("[projects.{light}]\n{section}"));
    let root = server.admin().await;
    let (port, taken) = silent_host().await;
    working(&server, &key(&root, &light, "worker").await).await;
    let client = Client::new(&server.url, &key(&root, &light, "admin").await);
    flood(&client, 100, port).await;
    // One and a half times the 52 that are left of 128.
    until("its share is taken", async || taken.load(Ordering::SeqCst) >= 76).await;
    let waiting = client.get("/api/webhooks/deliveries?limit=1").await.expect_ok();
    assert_eq!((taken.load(Ordering::SeqCst), waiting.as_array().map(Vec::len)), (76, Some(1)));
}

#[tokio::test]
async fn a_user_s_requests_in_one_project_use_up_no_rate_in_another_one() {
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "30")]);
    let root = server.admin().await;
    let other = project(&root, "search").await;
    until("the rate is used up", async || root.get("/api/tasks").await.status == 429).await;
    let within =
        |name: &str| root.request(Method::GET, "/api/tasks").header("Callboard-Project", name);
    let answer = root.send(within(&other)).await;
    assert_eq!(answer.headers["x-ratelimit-remaining"], "29");
    answer.expect_ok();
    root.send(within("default")).await.refused(429);
}

#[tokio::test]
async fn the_operator_gives_a_project_networks_and_variables() {
    let mut server = Server::with(&[("TEAM", "blue")]);
    let root = server.admin().await;
    let (one, other) = (project(&root, "search").await, project(&root, "sales").await);
    let task = json!({"prompt": "p", "callbackUrl": "http://127.0.0.1:9/"});
    let plan = json!({
        "name": "p", "steps": [{"id": "a", "prompt": "we are {{env.CALLBOARD_TEAM}}"}],
    });
    let admin = key(&root, &one, "admin").await;
    let refused = async |client: &Client| {
        let of_task = client.post("/api/tasks", &task).await;
        let of_plan = client.post("/api/plans", &plan).await;
        (of_task.refused(400).to_owned(), of_plan.status.as_u16())
    };
    let forbidden = ("CALLBACK_URL_FORBIDDEN".to_owned(), 400);
    assert_eq!(refused(&Client::new(&server.url, &admin)).await, forbidden);
    restart(
        &mut server,
        &format!(
            "[projects.{one}]\nwebhooks_allow = [\"127.0.0.1/32\"]\nenv_allow = [\"CALLBOARD_TEAM\"]\n"
        ),
    );
    let root = server.admin().await;
    let admin = Client::new(&server.url, &admin);
    admin.post("/api/tasks", &task).await.expect(201);
    let mut worker = FakeWorker::connect(&server, &key(&root, &one, "worker").await, 2).await;
    assert_eq!(worker.assignment().await["task"]["prompt"], "p");
    let plan_of_one = admin.post("/api/plans", &plan).await.expect(201);
    admin.execute(plan_of_one["id"].as_str().expect("an identifier"), &json!({})).await;
    assert_eq!(worker.assignment().await["task"]["prompt"], "we are blue");
    for project in ["default", &other] {
        let client = Client::new(&server.url, &key(&root, project, "admin").await);
        assert_eq!(refused(&client).await, forbidden, "{project}");
    }
}
