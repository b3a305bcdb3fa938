//! A database that fails over, or commits slowly, and a node that others cannot reach.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::load::Load;
use super::nodes::{Cluster, TERM};
use crate::support::Client;

const SETTINGS: [(&str, &str); 2] =
    [("WEBHOOKS__ALLOW", "127.0.0.1/32"), ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")];

/// The longest time from a promotion to the next acknowledged write.
const BACK: Duration = Duration::from_secs(15);

fn rounds() -> usize {
    if std::env::var_os("CALLBOARD_LONG").is_some() { 10 } else { 1 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_loses_nothing_that_its_standby_has() {
    for _ in 0..rounds() {
        let (cluster, standby) = Cluster::replicated(&SETTINGS).await;
        let load =
            Load::new(cluster.nodes.iter().map(|it| it.url.clone()).collect(), &cluster.token);
        let receiver = load.receive().await;
        let clients: Vec<_> = (0..4)
            .map(|number| tokio::spawn(load.clone().submit(number, receiver.clone())))
            .collect();
        let acknowledged = || load.ledger().tasks.len();
        grows(&acknowledged, 30).await;
        // What commits without waiting for the standby is lost with the primary.
        tokio::task::block_in_place(|| cluster.postgres.stop_sending());
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.postgres.kill();
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = acknowledged();
        tokio::task::block_in_place(|| standby.promote());
        let promoted = Instant::now();
        grows(&acknowledged, before + 1).await;
        let pause = promoted.elapsed();
        assert!(pause <= BACK, "{pause:?}");
        grows(&acknowledged, before + 30).await;
        load.stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.expect("a client ends without a fault");
        }
        eprintln!("writes were back after {pause:?}");
        assert_complete(&cluster, &load).await;
    }
}

/// Every acknowledged task is there, and there is no other.
async fn assert_complete(cluster: &Cluster, load: &Load) {
    let tasks = std::mem::take(&mut load.ledger().tasks);
    for (key, id) in &tasks {
        let (status, task) = load.ask("GET", &format!("/api/tasks/{id}"), &Value::Null, "").await;
        assert_eq!(status, 200, "acknowledged and lost: {key}");
        assert_eq!(task["data"]["prompt"], key.as_str());
    }
    let distinct: BTreeSet<_> = tasks.values().collect();
    assert_eq!(distinct.len(), tasks.len());
    assert_eq!(cluster.total(1).await, tasks.len(), "no task was made twice");
}

/// The status of a node's health, and what it says of the database.
async fn health(cluster: &Cluster, node: usize) -> (u16, String, String) {
    let answer = Client::new(&cluster.nodes[node].url, "").get("/health").await;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let database = &answer.body["components"]["database"];
    (answer.status.as_u16(), text(&database["status"]), text(&database["detail"]))
}

/// Before: the sessions with the old primary were kept, no node took over, and the active one ended after a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_turns_read_only_under_open_sessions_is_left_for_the_one_that_takes_writes()
{
    let (cluster, standby) = Cluster::replicated(&SETTINGS).await;
    let load = Load::new(cluster.nodes.iter().map(|it| it.url.clone()).collect(), &cluster.token);
    let receiver = load.receive().await;
    let clients: Vec<_> =
        (0..4).map(|number| tokio::spawn(load.clone().submit(number, receiver.clone()))).collect();
    let acknowledged = || load.ledger().tasks.len();
    grows(&acknowledged, 30).await;
    let ask = |sql: &str| cluster.postgres.psql("postgres", sql).expect("the server answers");
    ask("ALTER SYSTEM SET default_transaction_read_only = on");
    ask("SELECT pg_reload_conf()");
    for node in 0..2 {
        let says_so = async || {
            let (status, database, detail) = health(&cluster, node).await;
            status == 503 && database == "unavailable" && detail.contains("does not allow writes")
        };
        crate::support::until("health names the reason", says_so).await;
    }
    let before = acknowledged();
    tokio::task::block_in_place(|| standby.promote());
    let promoted = Instant::now();
    grows(&acknowledged, before + 1).await;
    let pause = promoted.elapsed();
    assert!(pause <= BACK, "{pause:?}");
    for node in 0..2 {
        let says_so = async || health(&cluster, node).await.1 == "ok";
        crate::support::until("health is well again", says_so).await;
    }
    load.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client ends without a fault");
    }
    assert_complete(&cluster, &load).await;
}

/// Waits until `count` reaches `least`.
async fn grows(count: &impl Fn() -> usize, least: usize) {
    let begun = Instant::now();
    while count() < least {
        assert!(begun.elapsed() < Duration::from_secs(40), "{} of {least}", count());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_commits_let_the_active_node_be_active() {
    let cluster = Cluster::with(2, &SETTINGS).await;
    let active = cluster.active(0).await;
    let epoch = "SELECT max(epoch) FROM callboard.part";
    let before = cluster.sql(epoch);
    cluster.sql(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep(0.2 + random() * 1.8); RETURN NULL; END $$; \
         CREATE TRIGGER slow AFTER UPDATE ON callboard.writer \
         FOR EACH STATEMENT EXECUTE FUNCTION slow()",
    );
    let load = Load::new(cluster.nodes.iter().map(|it| it.url.clone()).collect(), &cluster.token);
    let receiver = load.receive().await;
    let clients: Vec<_> =
        (0..4).map(|number| tokio::spawn(load.clone().submit(number, receiver.clone()))).collect();
    let spans = if rounds() > 1 { 60 } else { 4 };
    let begun = Instant::now();
    while begun.elapsed() < spans * TERM || load.ledger().tasks.len() <= 3 {
        assert_eq!(cluster.active(1 - active).await, active);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    load.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client ends without a fault");
    }
    assert_eq!(cluster.sql(epoch), before, "no partition was claimed again");
    cluster.sql("DROP TRIGGER slow ON callboard.writer");
    let made = load.ledger().tasks.len();
    assert!(made > 3, "{made} tasks were acknowledged");
    assert_eq!(cluster.total(active).await, made);
}

#[tokio::test]
async fn a_standby_that_cannot_reach_the_active_node_refuses_with_a_time_to_come_back() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
    let unreachable = format!("http://{}", closed.expect("an address"));
    let settings = [SETTINGS[0], SETTINGS[1], ("CLUSTER__ADVERTISE", unreachable.as_str())];
    let cluster = Cluster::with(2, &settings).await;
    cluster.submit(0, "before").await;
    let call = crate::support::plain_http().build().expect("a client");
    let call = call.post(format!("{}/api/tasks", cluster.nodes[1].url)).bearer_auth(&cluster.token);
    let answer = call.header("Idempotency-Key", "refused").json(&json!({"prompt": "refused"}));
    let answer = answer.send().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 503);
    assert_eq!(answer.headers()["retry-after"], "1");
    let body: Value = answer.json().await.expect("JSON");
    assert_eq!(body["error"]["code"], "UNAVAILABLE", "{body}");
    let said = body["error"]["message"].as_str().expect("a message");
    assert!(said.contains("the active node cannot be reached"), "{said}");
    // What the standby refused was not made, and the active node goes on.
    assert_eq!(cluster.total(0).await, 1);
    cluster.submit(0, "refused").await;
    assert_eq!(cluster.total(0).await, 2);
}
