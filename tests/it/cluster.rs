//! Several nodes on one PostgreSQL: real programs, killed, stopped and cut off.

pub(crate) mod caller;
mod cells;
mod chart;
mod database;
mod failures;
mod load;
mod migration;
pub(crate) mod nodes;
pub(crate) mod proxy;
mod reset;
mod rolling;
mod sockets;
mod tls;

use std::time::{Duration, Instant};

use serde_json::json;

use nodes::{Cluster, TERM};

/// The pause that a takeover adds to the term.
const TAKEOVER: Duration = Duration::from_millis(1_500);
/// Nodes share two busy cores with other tests.
const SLACK: Duration = Duration::from_secs(2);

#[tokio::test]
async fn every_node_answers_and_takes_over_and_a_worker_may_sit_at_any() {
    let mut cluster = Cluster::start(3).await;
    let active = cluster.active(0).await;
    let others: Vec<_> = (0..3).filter(|node| *node != active).collect();
    let (first, second) = (others[0], others[1]);

    // Work that is submitted at one node reaches the worker of another.
    let mut worker = cluster.worker(first).await;
    let task = cluster.submit(second, "before").await;
    let assigned = worker.assignment().await;
    assert_eq!(assigned["task"]["id"], task);
    let (lease, usage) = (&assigned["lease"], json!({"input": 1, "output": 1}));
    let done = json!({"type": "complete", "lease": lease, "output": "done", "usage": usage});
    worker.send(done).await;
    worker.receive("ack").await;
    assert_eq!(cluster.get(active, &format!("/api/tasks/{task}")).await["status"], "completed");

    // The active node knows of a new one when it renews its row.
    for line in [
        "svc_cluster_nodes{status=\"active\"} 1.0",
        "svc_cluster_nodes{status=\"standby\"} 2.0",
        "svc_cluster_partitions_owned 256.0",
    ] {
        let begun = Instant::now();
        while !cluster.metrics(second).await.contains(line) {
            assert!(begun.elapsed() < TERM + SLACK, "{line}: {}", cluster.metrics(second).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    // A node that is alone with a dead database is alive; only the active one is asked for all else.
    let live = format!("{}/health/live", cluster.nodes[second].url);
    let live = crate::support::plain_http()
        .build()
        .expect("a client")
        .get(live)
        .send()
        .await
        .expect("an answer");
    assert_eq!(
        (live.status().as_u16(), live.text().await.expect("a text").as_str()),
        (200, r#"{"status":"ok"}"#)
    );

    let killed_at = Instant::now();
    cluster.nodes[active].kill();
    let after = cluster.submit(first, "after").await;
    let pause = killed_at.elapsed();
    assert!(pause <= TERM + TAKEOVER + SLACK, "{pause:?}");
    assert_eq!(cluster.submit(second, "before").await, task, "the key holds on every node");
    assert_eq!(cluster.get(second, &format!("/api/tasks/{task}")).await["status"], "completed");

    cluster.nodes[active].restart();
    assert_eq!(cluster.submit(active, "after").await, after);
    let mut worker = cluster.worker(active).await;
    assert_eq!(worker.assignment().await["task"]["id"], after);
}

#[tokio::test]
async fn a_node_is_drained_and_stopped_in_order() {
    let mut cluster = Cluster::start(2).await;
    let active = cluster.active(0).await;
    let other = 1 - active;
    let task = cluster.submit(other, "before").await;
    let nodes = cluster.get(other, "/api/cluster").await;
    let nodes = nodes.as_array().expect("nodes");
    let leaving = nodes.iter().find(|node| node["status"] == "active").expect("an active one");
    let path = format!("/api/cluster/nodes/{}", leaving["id"].as_str().expect("an id"));
    cluster.ask(other, ("PATCH", &path), &json!({"draining": true}), "").await;
    while cluster.active(other).await != other {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(cluster.nodes[active].terminate(), "it ends in order");
    assert_eq!(cluster.submit(other, "before").await, task);
    assert!(cluster.nodes[other].terminate(), "the last node ends in order, too");
}
