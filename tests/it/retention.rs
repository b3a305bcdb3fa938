//! What ended long ago is gone, seen from outside; its history is not.

use std::time::Duration;

use serde_json::json;

use crate::support::{Client, FakeWorker, Server};

/// Asks until it is gone.
async fn until_gone(client: &Client, path: &str) {
    for _ in 0..600 {
        let answer = client.get(path).await;
        if answer.status.as_u16() == 404 {
            return;
        }
        assert_eq!(answer.status.as_u16(), 200, "it is whole or gone: {:#}", answer.body);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{path} stays");
}

#[tokio::test]
async fn retention_takes_what_ended_and_leaves_the_history_and_what_waits() {
    let server = Server::with(&[("RETENTION__ENDED", "2s")]);
    let (client, worker) = (server.client("operator").await, server.key("worker").await);
    let waits = client.submit(&json!({"prompt": "p", "queue": "nobody"})).await;
    let run = FakeWorker::connect(&server, &worker, 4).await.run(|_| Ok("done".into()));
    let held = client.submit(&json!({"prompt": "held", "hitl": {"required": true}})).await;
    client.task_when(&held, |task| task["waitingFor"] == "approval").await;
    let edit = json!({"modifiedOutput": "better", "comment": "nearly"});
    client.post(&format!("/api/hitl/{held}/approve"), &edit).await.expect_ok();
    let plan = client.plan(&json!([{"id": "a", "prompt": "a"}])).await;
    let execution = client.execute(&plan, &json!({})).await;
    client.execution_with_status(&execution, "completed").await;

    until_gone(&client, &format!("/api/tasks/{held}")).await;
    until_gone(&client, &format!("/api/plans/executions/{execution}")).await;
    assert_eq!(client.get(&format!("/api/hitl/{held}")).await.refused(404), "NOT_FOUND");
    let again = client.post(&format!("/api/plans/executions/{execution}/retry"), &json!({})).await;
    assert_eq!(again.refused(404), "NOT_FOUND");
    for (list, total) in [("tasks", 1), ("plans/executions", 0), ("hitl", 0), ("plans", 1)] {
        let mut page = client.get(&format!("/api/{list}")).await;
        for _ in 0..200 {
            if page.body["pagination"]["total"] == total {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            page = client.get(&format!("/api/{list}")).await;
        }
        assert_eq!(page.body["pagination"]["total"], total, "{list}");
        assert_eq!(page.body["data"].as_array().map(Vec::len), Some(total), "{list}");
    }
    assert_eq!(client.task(&waits).await["status"], "pending");

    let history = client.get(&format!("/api/hitl/{held}/history")).await.expect_ok();
    let last = history.as_array().and_then(|entries| entries.last()).expect("entries");
    assert_eq!((&last["action"], &last["wasModified"]), (&json!("approved"), &json!(true)));
    assert!(last.get("comment").is_none() && last.get("modifiedOutput").is_none(), "{last}");
    let verify = tokio::process::Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(["hitl", "verify", &held, "-o", "json"])
        .env_clear()
        .env("HOME", server.dir.path())
        .env("CALLBOARD_SERVER", &server.url)
        .env("CALLBOARD_API_KEY", server.key("viewer").await)
        .output()
        .await
        .expect("it runs");
    assert!(verify.status.success(), "{verify:?}");
    let told: serde_json::Value = serde_json::from_slice(&verify.stdout).expect("JSON");
    assert_eq!((&told["ok"], &told["removed"]), (&json!(true), &json!(true)), "{told}");
    run.abort();
}
