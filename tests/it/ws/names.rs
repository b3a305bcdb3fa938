//! Every event of the protocol, from a server on which all of them happen.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The names of docs/reference/events.md.
const NAMES: [&str; 41] = [
    "task.created",
    "task.started",
    "task.delta",
    "task.retrying",
    "task.awaiting_approval",
    "task.completed",
    "task.failed",
    "task.cancelled",
    "task.rejected",
    "execution.started",
    "execution.progress",
    "execution.completed",
    "execution.failed",
    "execution.cancelled",
    "step.started",
    "step.awaiting_approval",
    "step.retrying",
    "step.skipped",
    "step.completed",
    "step.failed",
    "step.cancelled",
    "hitl.pending",
    "hitl.assigned",
    "hitl.claimed",
    "hitl.escalated",
    "hitl.expired",
    "hitl.approved",
    "hitl.rejected",
    "worker.connected",
    "worker.draining",
    "worker.disconnected",
    "queue.depth",
    "webhook.delivered",
    "webhook.failed",
    // Those beyond it that a task or an execution causes.
    "task.reprioritized",
    "execution.scheduled",
    "step.waiting",
    "step.signalled",
    "bulk.completed",
    "hitl.released",
    "hitl.cancelled",
];

/// Answers by prompt: `fail` fails for good, `again` at its first attempt, everything else is answered.
fn work(mut worker: FakeWorker) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            let assigned = worker.assignment().await;
            let lease = &assigned["lease"];
            let prompt = assigned["task"]["prompt"].as_str().unwrap_or_default();
            let is_retryable = prompt == "again" && assigned["attempt"] == 1;
            if prompt == "fail" || is_retryable {
                let error = json!({"code": "PROVIDER_ERROR", "message": "no"});
                let fail = json!({
                    "type": "fail", "lease": lease, "retryable": is_retryable, "error": error,
                });
                worker.send(fail).await;
            } else {
                worker.send(json!({"type": "delta", "lease": lease, "text": "out"})).await;
                worker.complete(lease, "out").await;
            }
        }
    })
}

/// An address that answers every request with 200.
async fn receiver() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let router = axum::Router::new().fallback(async || "");
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

async fn held(client: &Client, hitl: Value) -> String {
    let id = client.submit(&json!({"prompt": "p", "hitl": hitl})).await;
    client.task_when(&id, |task| task["awaitingApproval"] == true).await;
    id
}

async fn tasks(client: &Client) {
    let taken = receiver().await;
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let dead = format!("http://{}/", closed.local_addr().expect("an address"));
    drop(closed);
    for url in [taken, dead] {
        client.submit(&json!({"prompt": "p", "callbackUrl": url})).await;
    }
    for prompt in ["again", "fail"] {
        client.submit(&json!({"prompt": prompt})).await;
    }
    let waits = client.submit(&json!({"prompt": "p", "queue": "idle", "tags": ["idle"]})).await;
    let filter = json!({"tags": ["idle"]});
    let urgent = json!({"action": "reprioritize", "priority": 9, "filter": filter});
    client.post("/api/bulk", &urgent).await.expect_ok();
    client.task_when(&waits, |task| task["priority"] == 9).await;
    client.delete(&format!("/api/tasks/{waits}")).await.expect_ok();
    let required = || json!({"required": true});
    let (approved, rejected) = (held(client, required()).await, held(client, required()).await);
    for verb in ["claim", "release"] {
        client.post(&format!("/api/hitl/{approved}/{verb}"), &json!({})).await.expect_ok();
    }
    client.post(&format!("/api/hitl/{approved}/approve"), &json!({})).await.expect_ok();
    let reject = json!({"reason": "no"});
    client.post(&format!("/api/hitl/{rejected}/reject"), &reject).await.expect_ok();
    let cancelled = held(client, required()).await;
    client.delete(&format!("/api/tasks/{cancelled}")).await.expect_ok();
    held(client, json!({"required": true, "timeoutMs": 600})).await;
}

async fn executions(client: &Client) {
    let start = async |steps: Value, body: Value| {
        let plan = client.plan(&steps).await;
        client.execute(&plan, &body).await
    };
    let retry = json!({"maxAttempts": 2, "backoffMs": 10});
    let steps = json!([
        {"id": "first", "prompt": "p"},
        {"id": "skipped", "prompt": "p", "dependsOn": ["first"], "condition": "false"},
        {"id": "again", "prompt": "again", "dependsOn": ["first"], "retry": retry},
        {"id": "held", "prompt": "p", "dependsOn": ["first"], "requiresApproval": true},
        {"id": "waits", "type": "wait", "signal": "go", "timeoutMs": 600_000},
    ]);
    let whole = start(steps, json!({})).await;
    let signal = format!("/api/plans/executions/{whole}/signals/go");
    client.post(&signal, &json!({"payload": {}})).await.expect_ok();
    let is_held = |it: &Value| it["steps"]["held"]["waitingFor"] == "approval";
    let execution = client.execution_when(&whole, is_held).await;
    let task = execution["steps"]["held"]["taskId"].as_str().expect("an id").to_owned();
    client.post(&format!("/api/hitl/{task}/approve"), &json!({})).await.expect_ok();
    client.execution_with_status(&whole, "completed").await;
    let fails = json!([
        {"id": "fails", "prompt": "fail"}, {"id": "after", "prompt": "p", "dependsOn": ["fails"]},
    ]);
    let fails = start(fails, json!({})).await;
    client.execution_with_status(&fails, "failed").await;
    let later = json!({"startAt": "2099-01-01T00:00:00Z"});
    let later = start(json!([{"id": "a", "prompt": "p"}]), later).await;
    client.delete(&format!("/api/plans/executions/{later}")).await.expect_ok();
}

#[tokio::test]
async fn every_event_is_told_with_its_item() {
    let settings = [("WEBHOOKS__ALLOW", "127.0.0.1/32"), ("WEBHOOKS__RETRY_SECONDS", "")];
    let server = Server::with(&settings);
    let client = server.client("operator").await;
    let mut ws = Ws::connect(&server.url, &server.key("viewer").await).await;
    ws.subscribe("s", json!({"events": ["*"]})).await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    let drain = format!("/api/workers/{}/drain", worker.id);
    let working = work(worker);
    let rest = async {
        tasks(&client).await;
        executions(&client).await;
        server.admin().await.post(&drain, &json!({})).await.expect_ok();
        working.abort();
    };
    let mut told: Vec<Value> = Vec::new();
    let mut wanted = BTreeSet::from(NAMES);
    let all = async {
        while !wanted.is_empty() {
            let Ok(Ok(event)) = timeout(Duration::from_secs(20), ws.next()).await else {
                panic!("{wanted:?} never came");
            };
            assert_eq!(event["type"], "event", "{event}");
            wanted.remove(event["event"].as_str().expect("a name"));
            told.push(event);
        }
    };
    tokio::join!(rest, all);

    let mut versions = BTreeMap::new();
    for event in &told {
        let (name, resource) = (event["event"].as_str().expect("a name"), &event["resource"]);
        let kind = name.split('.').next().expect("a kind");
        assert_eq!(resource["kind"], kind, "{event}");
        let id = resource["id"].as_str().expect("an id");
        let version = resource["version"].as_u64().expect("a number");
        let item = (kind, id, resource["executionId"].as_str().unwrap_or_default());
        // A piece has the version that its attempt began with.
        let last = versions.insert(item, version).unwrap_or_default();
        assert!(version >= last, "{event} after version {last}");
        assert!(event["data"].is_object() && event["at"].is_string(), "{event}");
        let is_stored = !["task.delta", "queue.depth"].contains(&name);
        assert_eq!(event["cursor"].is_string(), is_stored, "{event}");
    }
    // The data of an ended task's last event is its row in a list.
    let ended = async || {
        let path = "/api/tasks?status=completed,failed,cancelled,rejected&limit=100";
        client.get(path).await.expect_ok()
    };
    for row in ended().await.as_array().expect("a list") {
        let of = |event: &&Value| {
            event["resource"]["id"] == row["id"] && event["resource"]["kind"] == "task"
        };
        let last = told.iter().filter(of).rfind(|event| event["event"] != "task.delta");
        let last = last.expect("it was told");
        assert_eq!(last["data"], *row, "{}", last["event"]);
    }
}
