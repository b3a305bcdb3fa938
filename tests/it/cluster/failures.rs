//! Nodes that are killed under load, stopped for three terms, or cut from the database.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::load::Load;
use super::nodes::{Cluster, TERM, signal};
use super::proxy::Way;
use super::{SLACK, TAKEOVER};

const SETTINGS: [(&str, &str); 6] = [
    ("WEBHOOKS__ALLOW", "127.0.0.1/32"),
    ("WEBHOOKS__RETRY_SECONDS", "1,1,1,1,1"),
    ("WORKER__LEASE", "2s"),
    ("WORKER__HEARTBEAT", "500ms"),
    ("WORKER__SILENT_AFTER", "1s"),
    ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000"),
];

/// The number of kills, and the time from one to the next.
fn kills() -> (usize, Duration) {
    if std::env::var_os("CALLBOARD_LONG").is_some() {
        (60, Duration::from_secs(10))
    } else {
        (3, Duration::from_secs(6))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_killed_under_load_lose_nothing_and_apply_nothing_twice() {
    let mut cluster = Cluster::with(3, &SETTINGS).await;
    let urls = cluster.nodes.iter().map(|node| node.url.clone()).collect();
    let load = Load::new(urls, &cluster.token);
    let steps = json!([
        {"id": "draft", "prompt": "draft {{input.n}}", "requiresApproval": true},
        {"id": "final", "prompt": "final {{draft.output}}", "dependsOn": ["draft"]},
    ]);
    let plan = json!({"name": "p", "steps": steps});
    let (status, plan) = load.ask("POST", "/api/plans", &plan, "").await;
    assert_eq!(status, 201, "{plan}");
    let plan = plan["data"]["id"].as_str().expect("an id").to_owned();
    let receiver = load.receive().await;
    let mut clients = Vec::new();
    for number in 0..4 {
        clients.push(tokio::spawn(load.clone().submit(number, receiver.clone())));
    }
    clients.push(tokio::spawn(load.clone().execute(plan)));
    let reviewer = tokio::spawn(load.clone().review());
    let key = cluster.key(0, "worker").await;
    let workers = [0, 1].map(|_| tokio::spawn(load.clone().work(key.clone())));

    let (count, pause) = kills();
    for _ in 0..count {
        tokio::time::sleep(pause).await;
        let victim = usize::from(rand::random::<u8>() % 3);
        cluster.nodes[victim].kill();
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.nodes[victim].restart();
        load.urls.lock().expect("no panic")[victim] = cluster.nodes[victim].url.clone();
    }
    // The active one at last, so that each run has a takeover.
    let active = cluster.active(0).await;
    cluster.nodes[active].kill();
    load.urls.lock().expect("no panic").remove(active);
    tokio::time::sleep(TERM + TAKEOVER).await;
    load.has_work().await;
    load.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client ends without a fault");
    }
    verify(&load).await;
    assert!(!reviewer.is_finished(), "the reviewer met a fault");
    reviewer.abort();
    workers.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Compares the ledger with the cluster's answers.
async fn verify(load: &Load) {
    let ledger = std::mem::take(&mut *load.ledger.lock().expect("no panic"));
    let (tasks, executions) = (ledger.tasks.len(), ledger.executions.len());
    eprintln!(
        "{tasks} tasks, {executions} executions, {} approvals; longest pause {:?}",
        ledger.approved.len(),
        ledger.longest
    );
    assert!(ledger.longest <= TERM + TAKEOVER + SLACK, "{:?}", ledger.longest);
    for (key, id) in &ledger.tasks {
        let task = ended(load, &format!("/api/tasks/{id}")).await;
        assert_eq!((&task["status"], &task["prompt"]), (&json!("completed"), &json!(key)));
        if let Some(output) = ledger.applied.get(id) {
            assert_eq!(task["output"], output.as_str(), "an acknowledged output was replaced");
        }
    }
    for id in ledger.executions.values() {
        let execution = ended(load, &format!("/api/plans/executions/{id}")).await;
        assert_eq!(execution["status"], "completed", "{execution}");
    }
    assert_eq!(ledger.twice, Vec::<String>::new(), "results were applied twice");
    // Each key made one item: one task of its own, and two in each execution.
    let (_, page) = load.ask("GET", "/api/tasks?limit=1", &Value::Null, "").await;
    assert_eq!(page["pagination"]["total"], tasks + 2 * executions, "no task was made twice");
    for task in ledger.approved.keys() {
        let (_, record) = load.ask("GET", &format!("/api/hitl/{task}"), &Value::Null, "").await;
        assert_eq!(record["data"]["status"], "approved", "{record}");
    }
    let hooked: BTreeSet<_> = ledger
        .tasks
        .iter()
        .filter(|(key, _)| {
            let count = key.rsplit('.').next().and_then(|count| count.parse::<u32>().ok());
            count.expect("a number") % 3 == 0
        })
        .map(|(_, id)| id.clone())
        .collect();
    webhooks(load, ledger.webhooks, &hooked).await;
}

/// Waits for every webhook; a task has one, which may arrive more than once.
async fn webhooks(
    load: &Load,
    mut arrived: std::collections::HashMap<String, Vec<String>>,
    wanted: &BTreeSet<String>,
) {
    let begun = Instant::now();
    loop {
        for (task, ids) in load.ledger.lock().expect("no panic").webhooks.drain() {
            arrived.entry(task).or_default().extend(ids);
        }
        if wanted.iter().all(|task| arrived.contains_key(task)) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "webhooks are missing");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for (task, ids) in &arrived {
        assert!(wanted.contains(task), "{task} asked for no webhook");
        let distinct: BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), 1, "{task} has one delivery: {ids:?}");
    }
}

/// The item at this path, once it has ended.
async fn ended(load: &Load, path: &str) -> Value {
    let begun = Instant::now();
    loop {
        let (status, answer) = load.ask("GET", path, &Value::Null, "").await;
        assert_eq!(status, 200, "acknowledged, and not there: {path} {answer}");
        let item = &answer["data"];
        if ["completed", "failed", "cancelled"].iter().any(|end| item["status"] == *end) {
            return item.clone();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{path} does not end: {item}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Submits a task to one node, and never again.
fn submitted(
    cluster: &Cluster,
    node: usize,
    prompt: &str,
) -> impl Future<Output = reqwest::Result<(u16, Value)>> + Send + use<> {
    let path = format!("{}/api/tasks", cluster.nodes[node].url);
    let call = crate::support::plain_http().build().expect("a client");
    let call = call.post(path).bearer_auth(&cluster.token);
    let call = call.header("Idempotency-Key", prompt).json(&json!({"prompt": prompt}));
    async move {
        let answer = call.send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }
}

/// The late answer of a node that is not active any more.
fn is_repeated_or_refused((status, body): (u16, Value), made: &BTreeSet<String>) {
    match status {
        200 | 201 => assert!(made.contains(body["data"]["id"].as_str().expect("an id")), "{body}"),
        409 => assert_eq!(body["error"]["code"], "IDEMPOTENCY_KEY_IN_USE"),
        _ => assert_eq!(status, 503, "{body}"),
    }
}

#[tokio::test]
async fn a_node_stopped_for_three_terms_changes_no_row_afterwards() {
    let cluster = Cluster::with(2, &SETTINGS).await;
    let (active, id) = cluster.active_with_id(0).await;
    let other = 1 - active;
    let mut made = BTreeSet::from([cluster.submit(active, "before").await]);
    let mut worker = cluster.worker(active).await;
    let lease = worker.assignment().await["lease"].clone();
    signal(cluster.nodes[active].pid(), "-STOP");
    // A result and a submission that wait for the node in its sockets.
    let usage = json!({"input": 1, "output": 1});
    let late = json!({"type": "complete", "lease": lease, "output": "late", "usage": usage});
    worker.send(late).await;
    let waiting = tokio::spawn(submitted(&cluster, active, "meanwhile 0"));
    let begun = Instant::now();
    for number in 0.. {
        made.insert(cluster.submit(other, &format!("meanwhile {number}")).await);
        if begun.elapsed() > 3 * TERM {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(cluster.active(other).await, other);
    // The number counts the groups that a node has committed.
    let committed = format!("SELECT number FROM callboard.writer WHERE node = '{id}'");
    let before = cluster.sql(&committed);
    signal(cluster.nodes[active].pid(), "-CONT");
    made.insert(cluster.submit(active, "afterwards").await);
    is_repeated_or_refused(waiting.await.expect("no panic").expect("an answer"), &made);
    tokio::time::sleep(TERM).await;
    assert_eq!(cluster.active(active).await, other);
    assert_eq!(cluster.sql(&committed), before, "the stopped node has committed");
    assert_eq!(cluster.total(active).await, made.len());
}

#[tokio::test]
async fn a_node_cut_from_the_database_is_replaced_and_forwards_after_it() {
    for way in [Way::Cut, Way::Unanswered] {
        let cluster = Cluster::with(2, &SETTINGS).await;
        // Node 0 started first, and its connections go through the proxy.
        assert_eq!(cluster.active(1).await, 0);
        let mut made = BTreeSet::from([cluster.submit(0, "before").await]);
        cluster.proxy.set(way);
        let cut_at = Instant::now();
        // The commit of this one waits at the node that is cut off.
        let waiting = tokio::spawn(submitted(&cluster, 0, "first"));
        made.insert(cluster.submit(1, "first").await);
        let pause = cut_at.elapsed();
        assert!(pause <= TERM + TAKEOVER + SLACK, "{way:?}: {pause:?}");
        // It still reaches the other node, but cannot know that it is the active one.
        cluster.proxy.set(Way::Open);
        made.insert(cluster.submit(0, "second").await);
        is_repeated_or_refused(waiting.await.expect("no panic").expect("an answer"), &made);
        assert_eq!(cluster.active(0).await, 1);
        assert_eq!(cluster.submit(0, "before").await, cluster.submit(1, "before").await);
        assert_eq!(cluster.total(0).await, made.len(), "{way:?}");
    }
}

/// The time of a commit.
const SLOW: Duration = Duration::from_secs(1);

/// Before: the claim of a takeover outlasted its own term, and no node ever became active.
#[tokio::test]
async fn a_node_killed_in_a_slow_commit_is_replaced() {
    let mut cluster = Cluster::with(2, &SETTINGS).await;
    let active = cluster.active(0).await;
    let other = 1 - active;
    let mut made = BTreeSet::from([cluster.submit(active, "before").await]);
    let seconds = SLOW.as_secs();
    cluster.sql(&format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$; \
         CREATE TRIGGER slow AFTER UPDATE ON callboard.writer \
         FOR EACH STATEMENT EXECUTE FUNCTION slow()"
    ));
    let lost = tokio::spawn(submitted(&cluster, active, "during"));
    let committing = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    crate::support::until("the node commits", async || cluster.sql(committing) != "0").await;
    let killed_at = Instant::now();
    cluster.nodes[active].kill();
    assert!(lost.await.expect("no panic").is_err(), "its answer is lost");
    made.insert(cluster.submit(other, "during").await);
    let pause = killed_at.elapsed();
    assert!(pause <= TERM + TAKEOVER + 5 * SLOW + SLACK, "{pause:?}");
    cluster.sql("DROP TRIGGER slow ON callboard.writer");
    made.insert(cluster.submit(other, "after").await);
    assert_eq!(made.len(), 3, "{made:?}");
    assert_eq!(cluster.total(other).await, made.len(), "the interrupted submission was made once");
}
