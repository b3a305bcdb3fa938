//! A new password for the admin of a cluster whose nodes are stopped.

use std::process::Command;

use serde_json::json;

use super::nodes::{Cluster, TERM};
use crate::support::{ADMIN, Client, PROGRAM};

#[tokio::test]
async fn an_admin_of_a_cluster_gets_a_password_once_all_nodes_are_stopped() {
    const OTHER: &str = "babbage-difference-1822";
    let mut cluster = Cluster::start(2).await;
    let url = cluster.postgres.url(&cluster.database);
    let directory = tempfile::tempdir().expect("a directory");
    let reset = || {
        let mut command = Command::new(PROGRAM);
        command.args(["admin", "reset", "--store", &url, "--data-dir"]).arg(directory.path());
        let term = format!("{}s", TERM.as_secs());
        command.env_clear().env("CALLBOARD_NEW_PASSWORD", OTHER);
        command.env("CALLBOARD_CLUSTER__TERM", term).output().expect("it runs")
    };
    let refused = reset();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("is active: stop all nodes"), "{said}");
    cluster.nodes.iter_mut().for_each(|node| assert!(node.terminate()));
    let done = reset();
    assert!(done.status.success(), "{done:?}");
    for node in &mut cluster.nodes {
        node.restart();
    }
    let login = json!({"email": ADMIN, "password": OTHER});
    crate::support::until("the new password counts at every node", async || {
        for node in &cluster.nodes {
            let answer = Client::new(&node.url, "").post("/api/auth/login", &login).await;
            if answer.status != 200 {
                return false;
            }
        }
        true
    })
    .await;
}
