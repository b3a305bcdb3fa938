//! Cells that are clusters themselves: each takes over by itself, and the others go on.

use std::time::Instant;

use reqwest::Method;
use serde_json::json;

use super::nodes::Cluster;
use crate::support::{Client, until};

fn addresses(cluster: &Cluster) -> Vec<&str> {
    cluster.nodes.iter().map(|node| node.url.as_str()).collect()
}

#[tokio::test]
async fn a_takeover_in_one_cell_is_no_failure_in_another() {
    let mut home = Cluster::start(2).await;
    let at_home = addresses(&home).join(",");
    let settings = [("CLUSTER__CELL", "berlin"), ("CLUSTER__HOME", at_home.as_str())];
    // Its nodes pass the sign-in on to home.
    let mut berlin = Cluster::with(2, &settings).await;
    let cell = json!({"name": "berlin", "nodes": addresses(&berlin)});
    home.ask(0, ("POST", "/api/cells"), &cell, "").await;
    let active = home.active(0).await;
    let root = Client::new(&home.nodes[active].url, &home.token);
    until("berlin follows home", async || {
        root.get("/api/cells").await.expect_ok()[1]["status"] == "following"
    })
    .await;
    let project = json!({"name": "there", "cell": "berlin"});
    let project = root.post("/api/projects", &project).await.expect(201);
    let key = root.request(Method::POST, "/api/auth/keys");
    let key = key.header("Callboard-Project", project["id"].as_str().expect("an id"));
    let key = root.send(key.json(&json!({"name": "a", "role": "operator"}))).await.expect(201);
    let key = key["key"].as_str().expect("a key").to_owned();

    // The longest way: a standby of home, home, a standby of the cell, the cell.
    let nodes = berlin.get(0, "/api/cluster?cell=berlin").await;
    let is_active = |url: &str| {
        let mut nodes = nodes.as_array().expect("nodes").iter();
        nodes.any(|node| node["status"] == "active" && node["address"] == format!("{url}/"))
    };
    let first = usize::from(is_active(&berlin.nodes[1].url));
    let by_standby = json!({"name": "berlin", "nodes": [berlin.nodes[1 - first].url]});
    root.post("/api/cells", &by_standby).await.expect(201);
    let far = Client::new(&home.nodes[1 - active].url, &key);
    let task = far.submit(&json!({"prompt": "x"})).await;
    root.post("/api/cells", &cell).await.expect(201);

    // The cell's node dies: a request through home waits for the next one.
    berlin.nodes[first].kill();
    let near = Client::new(&home.nodes[active].url, &key);
    let begun = Instant::now();
    while !near.get(&format!("/api/tasks/{task}")).await.status.is_success() {
        assert!(begun.elapsed().as_secs() < 20, "the other node takes over");
    }
    // Home's node dies: keys of the cell notice nothing.
    home.nodes[active].kill();
    let own = Client::new(&berlin.nodes[1 - first].url, &key);
    for _ in 0..20 {
        own.submit(&json!({"prompt": "x"})).await;
    }
    let session = Client::new(&berlin.nodes[1 - first].url, &home.token);
    let begun = Instant::now();
    while !session.get("/api/projects").await.status.is_success() {
        assert!(begun.elapsed().as_secs() < 20, "home's other node takes over");
    }
}
