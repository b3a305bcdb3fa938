//! A disk or a memory that is nearly full: new work is refused, and everything else goes on.

use std::process::Command;

use reqwest::Method;
use serde_json::json;

use crate::support::small_disk::{MIB, SmallDisk};
use crate::support::{Client, FakeWorker, PROGRAM, Server, until};

const DISK: &str = "STORE__MIN_FREE_BYTES";
/// More than any disk has free.
const ALL: &str = "1125899906842624";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_low_disk_refuses_new_work_and_lets_the_rest_end() {
    let mut server = Server::start();
    let (operator, worker) = (server.client("operator").await, server.key("worker").await);
    let waiting = operator.submit(&json!({"prompt": "waits"})).await;
    let other = operator.submit(&json!({"prompt": "goes", "queue": "idle"})).await;
    let plan = json!({"name": "p", "steps": [{"id": "a", "prompt": "x"}]});
    let plan = operator.post("/api/plans", &plan).await.expect(201)["id"].clone();
    assert!(server.terminate());
    server.set(DISK, ALL);
    server.restart();
    let operator = operator.at(&server.url);

    let task = json!({"prompt": "new"});
    let execute = format!("/api/plans/{}/execute", plan.as_str().expect("an id"));
    for (path, body) in [
        ("/api/tasks", task.clone()),
        ("/api/tasks/batch", json!({"tasks": [task]})),
        (execute.as_str(), json!({})),
        ("/v1/chat/completions", json!({"model": "m", "messages": []})),
    ] {
        let refused = operator.post(path, &body).await;
        assert_eq!(refused.status.as_u16(), 507, "{path}: {:#}", refused.body);
        assert!(refused.headers.contains_key("retry-after"), "{path}");
        let says = refused.body["error"]["message"].as_str().unwrap_or_default();
        assert!(says.contains(ALL) && says.contains("bytes free"), "{path}: {says}");
    }
    let refused = operator.post("/api/tasks", &json!({"prompt": "new"})).await;
    assert_eq!(refused.refused(507), "INSUFFICIENT_STORAGE");

    // Running and waiting work ends; reads, cancels and erasure go on.
    let running = FakeWorker::connect_to(&server.url, &worker, 2).await.run(|_| Ok("done".into()));
    operator.task_with_status(&waiting, "completed").await;
    operator.delete(&format!("/api/tasks/{other}")).await.expect_ok();
    let admin = server.admin().await;
    let texts = format!("/api/tasks/{waiting}/texts");
    until("the texts are erased", async || {
        let erase = admin.request(Method::DELETE, &texts).json(&json!({"reason": "asked"}));
        admin.send(erase).await.status.as_u16() == 200
    })
    .await;
    let health = operator.get("/health/database").await.body;
    assert_eq!(health["status"], "degraded", "{health}");
    assert!(health["detail"].as_str().is_some_and(|it| it.contains("min_free_bytes")), "{health}");
    running.abort();

    assert!(server.terminate());
    server.set(DISK, "0");
    server.restart();
    operator.at(&server.url).submit(&json!({"prompt": "new"})).await;
}

#[tokio::test]
async fn memory_that_is_short_refuses_new_work() {
    // A megabyte is less than any server uses.
    let server = Server::with(&[("SERVER__MEMORY_BYTES", "1048576")]);
    let operator = server.client("operator").await;
    let refused = operator.post("/api/tasks", &json!({"prompt": "new"})).await;
    assert_eq!(refused.refused(503), "UNAVAILABLE");
    let says = refused.body["error"]["message"].as_str().unwrap_or_default();
    assert!(says.contains("short of memory"), "{says}");
    assert!(refused.headers.contains_key("retry-after"));
    operator.get("/api/tasks").await.expect_ok();
}

async fn until_database(operator: &Client, says: &str) {
    until(says, async || {
        let health = operator.get("/health/database").await.body;
        health["detail"].as_str().unwrap_or("ok").contains(says)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_read_cancelled_and_erased_from_and_a_server_starts_on_it() {
    let Some(disk) = SmallDisk::mount(224 * MIB) else { return };
    let settings = [(DISK, "67108864"), ("STORE__RESERVE_BYTES", "67108864")];
    let mut server = Server::of(&disk.program(), &settings);
    assert_eq!(disk.reserve(), 64, "it is made at the start");
    let (operator, worker) = (server.client("operator").await, server.key("worker").await);
    let (done, held, waits, other) = (
        operator.submit(&json!({"prompt": "done"})).await,
        operator.submit(&json!({"prompt": "held", "hitl": {"required": true}})).await,
        operator.submit(&json!({"prompt": "waits", "queue": "idle"})).await,
        operator.submit(&json!({"prompt": "other", "queue": "idle"})).await,
    );
    let running = FakeWorker::connect_to(&server.url, &worker, 2).await.run(|_| Ok("yes".into()));
    operator.task_with_status(&done, "completed").await;
    until("the output is held", async || operator.listed("/api/hitl/pending").await.1 == 1).await;
    running.abort();

    // The disk gets half the reserve: work that runs can end.
    disk.fill(1);
    until("half the reserve is given back", async || disk.reserve() == 32).await;
    until_database(&operator, "min_free_bytes").await;
    operator.post("/api/tasks", &json!({"prompt": "new"})).await.refused(507);
    let approve = format!("/api/hitl/{held}/approve");
    operator.post(&approve, &json!({})).await.expect_ok();

    // It is full again: nothing is added.
    disk.fill(12);
    until_database(&operator, "full").await;
    for path in ["/api/plans", "/api/tasks"] {
        let refused =
            operator.post(path, &json!({"prompt": "new", "name": "p", "steps": []})).await;
        let says = refused.body["error"]["message"].as_str().unwrap_or_default();
        assert!(says.contains("bytes free") && says.contains("make room for"), "{says}");
        assert!(refused.headers.contains_key("retry-after"));
        assert_eq!(refused.refused(507), "INSUFFICIENT_STORAGE");
    }
    let register = json!({
        "type": "register", "name": "w", "version": "0", "queues": ["idle"], "models": ["*"], "concurrency": 2,
    });
    let idle = FakeWorker::register(&server.url, &worker, register.clone()).await;
    let idle = idle.run(|_| Ok("late".into()));
    operator.delete(&format!("/api/tasks/{other}")).await.expect_ok();
    let admin = server.admin().await;
    let texts = format!("/api/tasks/{done}/texts");
    let erase = admin.request(Method::DELETE, &texts).json(&json!({"reason": "asked"}));
    admin.send(erase).await.expect_ok();
    let shown = operator.get(&format!("/api/tasks/{waits}")).await.expect_ok();
    assert_eq!(shown["status"], "pending", "no task is leased: {shown}");

    // A server starts where nothing is left, and answers.
    server.kill();
    disk.fill(0);
    server.restart();
    let operator = operator.at(&server.url);
    assert_eq!(disk.reserve(), 0);
    operator.get(&format!("/api/tasks/{held}")).await.expect_ok();
    idle.abort();

    // There is room again: what waits is leased, and the reserve is whole.
    disk.empty();
    until_database(&operator, "ok").await;
    until("the reserve is whole", async || disk.reserve() == 64).await;
    let idle = FakeWorker::register(&server.url, &worker, register).await;
    let _running = idle.run(|_| Ok("late".into()));
    operator.task_with_status(&waits, "completed").await;
    operator.submit(&json!({"prompt": "new"})).await;
}

#[tokio::test]
async fn a_store_that_must_exist_is_not_made() {
    const MUST: &str = "STORE__MUST_EXIST";
    let directory = tempfile::tempdir().expect("a directory");
    let mut serve = Command::new(PROGRAM);
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.path());
    let refused = serve.env(format!("CALLBOARD_{MUST}"), "true").output().expect("it runs");
    let says = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && says.contains("must_exist"), "{says}");
    assert!(!directory.path().join("store").exists());
    let checked = serve.arg("--check").output().expect("it runs");
    let says = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success() && says.contains("must_exist"), "{says}");

    let mut server = Server::start();
    assert!(server.terminate());
    server.set(MUST, "true");
    server.restart();
    server.admin().await.get("/api/tasks").await.expect_ok();
}
