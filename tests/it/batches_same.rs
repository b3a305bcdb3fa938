//! Rows of a batch that ask the same: answered once and decided once, over a kill too.

use serde_json::{Value, json};

use crate::batches_compared::{ended, published, worked};
use crate::support::{Client, Server, until};

/// Uploads rows `key=mail`, of which those that ask the same are answered once.
async fn deduped(client: &Client, template: &str, rows: &[(&str, &str)], query: &str) -> Value {
    let lines: Vec<_> = rows
        .iter()
        .map(|(key, mail)| format!("{}\n", json!({"key": key, "input": {"mail": mail}})))
        .collect();
    let path = format!("/api/batches?templateId={template}&dedupe=true{query}");
    let status = if query.is_empty() { 201 } else { 200 };
    client.post_as(&path, "application/x-ndjson", &lines.concat()).await.expect(status)
}

async fn rows(client: &Client, batch: &str) -> Vec<Value> {
    let page = client.get(&format!("/api/batches/{batch}/rows")).await.expect_ok();
    page["rows"].as_array().expect("a list").clone()
}

async fn tasks(client: &Client) -> Value {
    client.get("/api/tasks").await.body["pagination"]["total"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_ask_the_same_are_answered_once_and_each_keeps_its_key() {
    let mut server = Server::start();
    let operator = server.key("operator").await;
    let client = Client::new(&server.url, &operator);
    let template = published(&client, "1.0.0", "before", false).await;
    let asked = [
        ("k1", "mail 1"),
        ("k2", "mail 1"),
        ("k3", "mail 2 bad"),
        ("k4", "mail 2 bad"),
        ("k5", "mail 1"),
    ];
    let tried = deduped(&client, &template, &asked, "&dryRun=true").await;
    assert_eq!((&tried["rows"], &tried["reused"]), (&json!(2), &json!(3)));
    let made = deduped(&client, &template, &asked, "").await;
    assert_eq!(made["dedupe"], true);
    let batch = made["id"].as_str().expect("an id").to_owned();
    until("the first two rows run", async || tasks(&client).await == 2).await;
    let now = client.get(&format!("/api/batches/{batch}")).await.expect_ok();
    assert_eq!((&now["progress"]["pending"], &now["progress"]["running"]), (&json!(3), &json!(2)));
    server.kill();
    server.restart();
    let client = Client::new(&server.url, &operator);
    worked(&server).await;
    ended(&client, &batch).await;
    let found = rows(&client, &batch).await;
    let of = |row: &Value| {
        let text = |member: &Value| member.as_str().unwrap_or_default().to_owned();
        (text(&row["key"]), text(&row["status"]), text(&row["output"]["category"]))
    };
    let found: Vec<_> = found.iter().map(of).collect();
    let expected = [
        ("k1", "completed", "c1"),
        ("k2", "completed", "c1"),
        ("k3", "failed", ""),
        ("k4", "failed", ""),
        ("k5", "completed", "c1"),
    ];
    let expected = expected.map(|(key, status, of)| (key.into(), status.into(), of.into()));
    assert_eq!(found, expected);
    let now = client.get(&format!("/api/batches/{batch}")).await.expect_ok();
    let progress = &now["progress"];
    assert_eq!((&progress["completed"], &progress["failed"]), (&json!(3), &json!(2)), "{now}");
    assert_eq!((&progress["reused"], &progress["pending"]), (&json!(2), &json!(0)));
    // One answer of mail 1, and two copies of it.
    assert_eq!(now["usage"]["input"], 1);
    let failed = client.get(&format!("/api/batches/{batch}/rows?status=failed")).await.expect_ok();
    let failed = &failed["rows"][1];
    assert_eq!(
        (&failed["key"], &failed["error"]["code"]),
        (&json!("k4"), &json!("PROVIDER_ERROR"))
    );

    // A retry asks once more, and both rows end by it.
    let before = tasks(&client).await.as_u64().expect("a number");
    let again = client.post(&format!("/api/batches/{batch}/retry"), &json!({})).await.expect_ok();
    assert_eq!(again["retried"], 2);
    ended(&client, &batch).await;
    assert_eq!(tasks(&client).await, before + 1);
    let now = client.get(&format!("/api/batches/{batch}")).await.expect_ok();
    assert_eq!(now["progress"]["failed"], 2, "{now}");
    // The later row alone asks by itself.
    let keys = json!({"keys": ["k4"]});
    let again = client.post(&format!("/api/batches/{batch}/retry"), &keys).await.expect_ok();
    assert_eq!(again["retried"], 1);
    ended(&client, &batch).await;
    assert_eq!(tasks(&client).await, before + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_decision_counts_for_all_rows_that_ask_the_same() {
    let server = Server::start();
    let client = server.client("operator").await;
    let reviewer = server.client("reviewer").await;
    let template = published(&client, "1.0.0", "before", true).await;
    let asked = [("a1", "mail 1"), ("a2", "mail 1"), ("b1", "mail 2"), ("b2", "mail 2")];
    let made = deduped(&client, &template, &asked, "").await;
    let batch = made["id"].as_str().expect("an id").to_owned();
    worked(&server).await;
    until("two are held", async || {
        let now = client.get(&format!("/api/batches/{batch}")).await.expect_ok();
        now["progress"]["awaitingApproval"] == 2
    })
    .await;
    let held = client.get(&format!("/api/hitl/pending?batch={batch}")).await;
    for item in held.body["data"].as_array().expect("a list") {
        let task = item["taskId"].as_str().expect("an id");
        let execution = item["planExecutionId"].as_str().expect("an id");
        let (verb, body) = match client.execution(execution).await["key"].as_str() {
            Some("a1") => ("approve", json!({})),
            _ => ("reject", json!({"reason": "wrong"})),
        };
        reviewer.post(&format!("/api/hitl/{task}/{verb}"), &body).await.expect_ok();
    }
    ended(&client, &batch).await;
    let found = rows(&client, &batch).await;
    let statuses: Vec<_> = found.iter().map(|row| row["status"].clone()).collect();
    assert_eq!(statuses, ["completed", "completed", "rejected", "rejected"]);
    assert_eq!(found[1]["steps"]["sort"]["decision"]["verdict"], "approved");
    assert_eq!(found[3]["error"]["code"], "REJECTED");
    let now = client.get(&format!("/api/batches/{batch}")).await.expect_ok();
    let progress = &now["progress"];
    assert_eq!((&progress["rejected"], &progress["failed"]), (&json!(2), &json!(0)), "{now}");
    let held = client.get(&format!("/api/hitl?batch={batch}")).await;
    assert_eq!(held.body["pagination"]["total"], 2);
}
