//! Batches: one template over many rows, over HTTP and by the program, with kills in the middle.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::support::{Answer, Client, Events, FakeWorker, Server, until};

fn template() -> Value {
    json!({
        "name": "classify", "description": "Sorts mails.", "version": "1.0.0", "industry": "devops",
        "tags": ["mail"], "visibility": "organization",
        "inputSchema": {
            "type": "object", "required": ["subject"],
            "properties": {"subject": {"type": "string"}, "size": {"type": "integer"}},
        },
        "outputSchema": {
            "type": "object", "required": ["category"],
            "properties": {"category": {"type": "string"}, "urgent": {"type": "boolean"}},
        },
        "steps": [
            {"id": "read", "prompt": "read {{input.subject}}"},
            {"id": "sort", "prompt": "sort {{read.output}}", "dependsOn": ["read"]},
        ],
    })
}

async fn published(client: &Client) -> String {
    let made = client.post("/api/templates", &template()).await.expect(201);
    made["id"].as_str().expect("an id").to_owned()
}

/// The calls of a model, by prompt.
type Calls = Arc<Mutex<HashMap<String, usize>>>;

/// Answers every prompt, and counts it; fails the prompts for which `fails` says so.
fn work(
    worker: FakeWorker,
    calls: &Calls,
    fails: impl Fn(&str) -> bool + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    let calls = Arc::clone(calls);
    worker.run(move |task| {
        let prompt = task["prompt"].as_str().unwrap_or_default().to_owned();
        *calls.lock().expect("no panic").entry(prompt.clone()).or_default() += 1;
        if fails(&prompt) {
            return Err("no".to_owned());
        }
        match prompt.strip_prefix("read ") {
            Some(subject) => Ok(subject.to_owned()),
            None => Ok(json!({"category": prompt, "urgent": false}).to_string()),
        }
    })
}

async fn upload(client: &Client, query: &str, kind: &str, body: &str) -> Answer {
    client.post_as(&format!("/api/batches?{query}"), kind, body).await
}

async fn batch(client: &Client, id: &str) -> Value {
    client.get(&format!("/api/batches/{id}")).await.expect_ok()
}

async fn ended(client: &Client, id: &str, status: &str) -> Value {
    until(status, async || batch(client, id).await["status"] == status).await;
    batch(client, id).await
}

fn csv(rows: usize) -> String {
    let rows: Vec<_> = (0..rows).map(|row| format!("m{row},mail {row},{row}\n")).collect();
    let rows = rows.concat();
    format!("id,subject,size\n{rows}")
}

async fn export(client: &Client, id: &str, query: &str) -> String {
    let path = format!("/api/batches/{id}/export?{query}");
    let sent = client.request(Method::GET, &path).send().await.expect("an answer");
    assert!(sent.status().is_success(), "{}", sent.status());
    sent.text().await.expect("a text")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_of_a_file_becomes_an_execution_and_the_export_has_them_all() {
    let server = Server::start();
    let client = server.client("operator").await;
    let template = published(&client).await;
    let calls = Calls::default();
    let mut events = Events::open(&client, "events=batch.*", None).await;
    let file = "\u{feff}id,subject,size\r\n\
        a,\"Hello, \"\"you\"\"\r\nthere\",3\r\n\
        b,Bye,x\r\n\
        a,twice,1\r\n\
        ,no key,1\r\n\
        c,short\r\n\
        d,last,";
    let query = format!("templateId={template}&keyColumn=id&name=first&tags=t1");
    let made = upload(&client, &query, "text/csv", file).await.expect(201);
    let id = made["id"].as_str().expect("an id");
    assert!(id.starts_with("bat_"), "{id}");
    assert_eq!((&made["rows"], &made["progress"]["invalid"]), (&json!(6), &json!(4)));
    assert_eq!((&made["version"], &made["name"]), (&json!("1.0.0"), &json!("first")));
    work(FakeWorker::connect(&server, &server.key("worker").await, 8).await, &calls, |_| false);
    let end = ended(&client, id, "completed").await;
    assert_eq!(
        end["progress"],
        json!({"total": 6, "pending": 0, "running": 0, "awaitingApproval": 0, "completed": 2,
            "failed": 0, "rejected": 0, "cancelled": 0, "invalid": 4, "reused": 0})
    );
    // Two rows of two steps each.
    assert_eq!((&end["usage"]["input"], &end["usage"]["output"]), (&json!(12), &json!(20)));

    let path = format!("/api/batches/{id}/rows");
    let page = client.get(&format!("{path}?limit=2")).await.expect_ok();
    let row = &page["rows"][0];
    assert_eq!(
        (&row["row"], &row["key"], &row["status"]),
        (&json!(1), &json!("a"), &json!("completed"))
    );
    let subject = "Hello, \"you\"\r\nthere";
    assert_eq!(row["output"]["category"], format!("sort {subject}"));
    assert_eq!(row["steps"]["read"]["status"], "completed");
    let invalid = &page["rows"][1];
    assert_eq!(
        (&invalid["status"], &invalid["error"]["code"]),
        (&json!("invalid"), &json!("VALIDATION_ERROR"))
    );
    let rest = format!("{path}?cursor={}", page["nextCursor"]);
    let rest = client.get(&rest).await.expect_ok();
    assert_eq!(rest["rows"].as_array().map(Vec::len), Some(4));
    assert_eq!(rest.get("nextCursor"), None);
    let says =
        |row: usize| rest["rows"][row]["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(says(0).contains("an earlier row has the key \"a\""), "{}", says(0));
    assert!(says(1).contains("the key is empty"), "{}", says(1));
    assert!(says(2).contains("2 cells"), "{}", says(2));
    let completed = client.get(&format!("{path}?status=completed")).await.expect_ok();
    assert_eq!(completed["rows"].as_array().map(Vec::len), Some(2));

    let execution = row["executionId"].as_str().expect("an id");
    let execution = client.execution(execution).await;
    assert_eq!((&execution["batchId"], &execution["key"]), (&json!(id), &json!("a")));
    assert_eq!(execution["input"], json!({"subject": subject, "size": 3}));
    for list in ["plans/executions", "tasks"] {
        let found = client.get(&format!("/api/{list}?batch={id}")).await;
        let expected = if list == "tasks" { 4 } else { 2 };
        assert_eq!(found.body["pagination"]["total"], expected, "{list}");
    }
    let plans = client.get("/api/plans").await.body["pagination"]["total"].clone();
    assert_eq!(plans, 1, "all rows share one plan");

    let text = export(&client, id, "format=csv").await;
    let mut lines = text.split_inclusive('\n');
    assert_eq!(
        lines.next(),
        Some("key,status,output.category,output.urgent,cost,error.code,executionId\n")
    );
    assert!(text.contains("a,completed,\"sort Hello, \"\"you\"\"\r\nthere\",false,0"), "{text}");
    let text = export(&client, id, "format=jsonl&columns=key,input.size&status=completed").await;
    assert_eq!(text, "{\"key\":\"a\",\"input.size\":3}\n{\"key\":\"d\",\"input.size\":null}\n");
    let unknown = client.get(&format!("/api/batches/{id}/export?columns=colour")).await;
    assert_eq!(unknown.fault(), ("columns".to_owned(), "enum".to_owned()));

    let list =
        client.get(&format!("/api/batches?templateId={template}&tags=t1&status=completed")).await;
    assert_eq!(list.body["data"][0]["id"], id);
    assert_eq!(client.get("/api/batches?tags=other").await.body["pagination"]["total"], 0);
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "batch.completed") {
        let (name, event) = events.next().await;
        assert_eq!(event["data"]["id"], id);
        names.push(name);
    }
    assert_eq!(names[0], "batch.created");
}

#[tokio::test]
async fn an_upload_with_a_fault_keeps_nothing_and_says_what_to_do() {
    let server = Server::start();
    let client = server.client("operator").await;
    let template = published(&client).await;
    let query = format!("templateId={template}");
    let lines = "{\"key\":\"a\",\"input\":{\"subject\":\"x\"}}\n{\"key\":\"b\",\"input\":{}}\n";
    let kind = "application/x-ndjson";
    let rejected = upload(&client, &format!("{query}&onInvalid=reject"), kind, lines).await;
    assert_eq!(rejected.fault(), ("rows[2]".to_owned(), "format".to_owned()));
    let semicolons = upload(&client, &query, "text/csv", "subject;size\nx;1\n").await;
    assert_eq!(semicolons.fault(), ("body".to_owned(), "format".to_owned()));
    assert!(
        semicolons.body["error"]["message"].as_str().is_some_and(|it| it.contains("save the file"))
    );
    let key = upload(&client, &format!("{query}&keyColumn=id"), "text/csv", "subject\nx\n").await;
    assert_eq!(key.fault(), ("keyColumn".to_owned(), "enum".to_owned()));
    assert_eq!(upload(&client, &query, "text/csv", "subject\n").await.fault().0, "rows");
    assert_eq!(upload(&client, &query, kind, "").await.fault().0, "rows");
    assert_eq!(upload(&client, "", kind, lines).await.fault().0, "templateId");
    assert_eq!(upload(&client, "templateId=none", kind, lines).await.refused(404), "NOT_FOUND");
    assert_eq!(
        upload(&client, &query, "text/plain", lines).await.refused(415),
        "UNSUPPORTED_MEDIA_TYPE"
    );
    until("nothing is kept", async || {
        client.get("/api/batches").await.body["pagination"]["total"] == 0
    })
    .await;

    let body = json!({"templateId": template, "tags": ["x"], "rows": [{"key": "a", "input": {"subject": "s"}}]});
    let made = client.post("/api/batches", &body).await.expect(201);
    assert_eq!((&made["rows"], &made["tags"]), (&json!(1), &json!(["x"])));
    assert_eq!(
        client.post("/api/batches", &json!({"templateId": template})).await.fault().0,
        "rows"
    );

    let once = |body: &'static str| {
        let request = client.request(Method::POST, &format!("/api/batches?{query}"));
        client.send(request.header("idempotency-key", "k1").header("content-type", kind).body(body))
    };
    let line = "{\"key\":\"a\",\"input\":{\"subject\":\"x\"}}\n";
    let first = once(line).await.expect(201);
    let second = once(line).await;
    assert_eq!(second.headers["idempotent-replayed"], "true");
    assert_eq!(second.expect(201)["id"], first["id"]);
    assert_eq!(
        once("{\"input\":{\"subject\":\"y\"}}\n").await.refused(422),
        "IDEMPOTENCY_KEY_REUSED"
    );

    let viewer = server.client("viewer").await;
    let id = first["id"].as_str().expect("an id");
    viewer.get(&format!("/api/batches/{id}")).await.expect_ok();
    assert_eq!(
        viewer.post(&format!("/api/batches/{id}/pause"), &json!({})).await.refused(403),
        "FORBIDDEN"
    );
    let worker = Client::new(&server.url, &server.key("worker").await);
    for path in ["", "/rows", "/export"] {
        assert_eq!(worker.get(&format!("/api/batches/{id}{path}")).await.refused(403), "FORBIDDEN");
    }
    assert_eq!(client.get("/api/batches/bat_0").await.refused(404), "NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_start_as_concurrency_allows_and_a_batch_can_be_paused_resumed_cancelled_and_deleted()
{
    let server = Server::start();
    let (admin, client) = (server.admin().await, server.client("operator").await);
    let template = published(&client).await;
    let query = format!("templateId={template}&keyColumn=id&concurrency=3");
    let made = upload(&client, &query, "text/csv", &csv(10)).await.expect(201);
    let id = made["id"].as_str().expect("an id").to_owned();
    let path = format!("/api/batches/{id}");
    let running = async |count: u64| {
        until("rows run", async || batch(&client, &id).await["progress"]["running"] == count).await;
    };
    running(3).await;
    assert_eq!(batch(&client, &id).await["progress"]["pending"], 7);
    client.post(&format!("{path}/pause"), &json!({})).await.expect_ok();
    let calls = Calls::default();
    let key = server.key("worker").await;
    let working = work(FakeWorker::connect(&server, &key, 8).await, &calls, |_| false);
    until("three end", async || batch(&client, &id).await["progress"]["completed"] == 3).await;
    assert_eq!(
        batch(&client, &id).await["progress"]["pending"],
        7,
        "none starts while it is paused"
    );
    working.abort();
    client.post(&format!("{path}/resume"), &json!({})).await.expect_ok();
    running(3).await;
    assert_eq!(admin.delete(&path).await.refused(409), "INVALID_STATE");
    client.post(&format!("{path}/cancel"), &json!({})).await.expect_ok();
    until("the rows are cancelled", async || {
        batch(&client, &id).await["progress"]["cancelled"] == 7
    })
    .await;
    let end = batch(&client, &id).await;
    assert_eq!((&end["status"], &end["progress"]["completed"]), (&json!("cancelled"), &json!(3)));
    assert_eq!(
        client.post(&format!("{path}/resume"), &json!({})).await.refused(409),
        "INVALID_STATE"
    );
    let rows = client.get(&format!("{path}/rows?status=cancelled&limit=100")).await.expect_ok();
    assert_eq!(rows["rows"].as_array().map(Vec::len), Some(7));

    assert_eq!(client.delete(&path).await.refused(403), "FORBIDDEN");
    until("it may be deleted", async || admin.delete(&path).await.status == 200).await;
    assert_eq!(client.get(&path).await.refused(404), "NOT_FOUND");
    for list in ["plans/executions", "tasks", "batches", "plans"] {
        until("it is gone", async || {
            client.get(&format!("/api/{list}")).await.body["pagination"]["total"] == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_runs_failed_rows_anew_within_the_batch_and_keeps_good_steps() {
    let server = Server::start();
    let client = server.client("operator").await;
    let template = published(&client).await;
    let (calls, key) = (Calls::default(), server.key("worker").await);
    let worker = FakeWorker::connect(&server, &key, 8).await;
    let working = work(worker, &calls, |prompt| prompt.starts_with("sort mail 1"));
    let query = format!("templateId={template}&keyColumn=id");
    let made = upload(&client, &query, "text/csv", &csv(12)).await.expect(201);
    let id = made["id"].as_str().expect("an id");
    let end = ended(&client, id, "completed").await;
    // 1, 10 and 11.
    assert_eq!((&end["progress"]["completed"], &end["progress"]["failed"]), (&json!(9), &json!(3)));
    let path = format!("/api/batches/{id}");
    let failed = client.get(&format!("{path}/rows?errorCode=PROVIDER_ERROR")).await.expect_ok();
    assert_eq!(failed["rows"].as_array().map(Vec::len), Some(3));
    let none = client.get(&format!("{path}/rows?errorCode=WORKER_LOST")).await.expect_ok();
    assert_eq!(none["rows"], json!([]));
    working.abort();
    work(FakeWorker::connect(&server, &key, 8).await, &calls, |_| false);
    let retry = |body: Value| {
        client.post(Box::leak(format!("{path}/retry").into_boxed_str()), Box::leak(Box::new(body)))
    };
    assert_eq!(retry(json!({"codes": ["WORKER_LOST"]})).await.expect_ok()["retried"], 0);
    assert_eq!(retry(json!({"keys": ["m10", "m2"]})).await.expect_ok()["retried"], 1);
    until("one more", async || batch(&client, id).await["progress"]["completed"] == 10).await;
    ended(&client, id, "completed").await;
    assert_eq!(retry(json!({})).await.expect_ok()["retried"], 2);
    let end = async || {
        let now = batch(&client, id).await;
        now["progress"]["completed"] == 12 && now["status"] == "completed"
    };
    until("all are completed", end).await;
    let calls = calls.lock().expect("no panic");
    for row in 0..12 {
        let again = if matches!(row, 1 | 10 | 11) { 2 } else { 1 };
        assert_eq!(calls[&format!("read mail {row}")], 1, "a good step runs once");
        assert_eq!(calls[&format!("sort mail {row}")], again, "row {row}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_does_not_wait_for_rows_that_start_as_quickly_as_others_end() {
    const ROWS: usize = 4_000;
    let server = Server::with(&[("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")]);
    let (operator, worker_key) = (server.key("operator").await, server.key("worker").await);
    let client = Client::new(&server.url, &operator);
    let template = published(&client).await;
    let query = format!("templateId={template}&keyColumn=id&concurrency=1000");
    let made = upload(&client, &query, "text/csv", &csv(ROWS)).await.expect(201);
    let id = made["id"].as_str().expect("an id").to_owned();
    let calls = Calls::default();
    let count = || calls.lock().expect("no panic").len();
    let working =
        work(FakeWorker::connect_to(&server.url, &worker_key, 200).await, &calls, |_| false);
    until("some are answered", async || count() >= 200).await;
    let before = count();
    client.post(&format!("/api/batches/{id}/cancel"), &json!({})).await.expect_ok();
    let meanwhile = count() - before;
    assert!(meanwhile < 1_000, "{meanwhile} rows were answered meanwhile");
    ended(&client, &id, "cancelled").await;
    working.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_rows_run_once_each_over_kills_of_upload_run_and_retry() {
    const ROWS: usize = 2_000;
    let mut server = Server::with(&[
        ("WORKER__LEASE", "2s"),
        ("WORKER__HEARTBEAT", "500ms"),
        ("WORKER__SILENT_AFTER", "1s"),
        ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000"),
    ]);
    let (operator, worker_key) = (server.key("operator").await, server.key("worker").await);
    let client = Client::new(&server.url, &operator);
    let template = published(&client).await;
    let query = format!("templateId={template}&keyColumn=id&concurrency=200");

    // Killed in the middle of an upload: nothing is left of it.
    let text = csv(ROWS);
    let address = server.url.strip_prefix("http://").expect("without TLS");
    let mut socket = tokio::net::TcpStream::connect(address).await.expect("it listens");
    let head = format!(
        "POST /api/batches?{query} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {operator}\r\n\
         content-type: text/csv\r\ncontent-length: {}\r\n\r\n{}",
        text.len(),
        &text[..text.len() / 2]
    );
    socket.write_all(head.as_bytes()).await.expect("it reads");
    until("it loads", async || {
        client.get("/api/batches?status=loading").await.body["pagination"]["total"] == 1
    })
    .await;
    server.kill();
    server.restart();
    let client = Client::new(&server.url, &operator);
    until("nothing is left", async || {
        client.get("/api/batches").await.body["pagination"]["total"] == 0
    })
    .await;

    let made = upload(&client, &query, "text/csv", &text).await.expect(201);
    let id = made["id"].as_str().expect("an id").to_owned();
    let calls = Calls::default();
    let count = |calls: &Calls| calls.lock().expect("no panic").len();
    let bad = |prompt: &str| prompt.starts_with("sort mail 19");
    for goal in [700, 2_000] {
        let worker = FakeWorker::connect_to(&server.url, &worker_key, 50).await;
        let working = work(worker, &calls, bad);
        until("some more are answered", async || count(&calls) >= goal).await;
        server.kill();
        working.abort();
        server.restart();
    }
    let working = work(FakeWorker::connect_to(&server.url, &worker_key, 50).await, &calls, bad);
    let client = Client::new(&server.url, &operator);
    let end = ended(&client, &id, "completed").await;
    // 19, 190 to 199 and 1900 to 1999.
    assert_eq!(
        (&end["progress"]["completed"], &end["progress"]["failed"]),
        (&json!(ROWS - 111), &json!(111))
    );
    let total =
        client.get(&format!("/api/plans/executions?batch={id}")).await.body["pagination"]["total"]
            .clone();
    assert_eq!(total, ROWS, "each row was started once");
    working.abort();

    // Killed in the middle of a retry.
    let retried = client.post(&format!("/api/batches/{id}/retry"), &json!({})).await.expect_ok();
    assert_eq!(retried["retried"], 111);
    server.kill();
    server.restart();
    let client = Client::new(&server.url, &operator);
    work(FakeWorker::connect_to(&server.url, &worker_key, 50).await, &calls, |_| false);
    let end = ended(&client, &id, "completed").await;
    assert_eq!(
        (&end["progress"]["completed"], &end["progress"]["failed"]),
        (&json!(ROWS), &json!(0))
    );
    let total =
        client.get(&format!("/api/plans/executions?batch={id}")).await.body["pagination"]["total"]
            .clone();
    assert_eq!(total, ROWS);
    let lines = export(&client, &id, "format=jsonl&columns=key,output.category").await;
    let mut keys: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(keys.len(), ROWS);
    keys.dedup_by_key(|row| row["key"].clone());
    assert_eq!(keys.len(), ROWS);
    assert!(
        keys.iter()
            .enumerate()
            .all(|(row, it)| it["output.category"] == format!("sort mail {row}"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_how_to_can_be_followed() {
    let page = include_str!("../../docs/how-to/batch.md");
    let server = Server::start();
    let key = server.key("operator").await;
    let calls = Calls::default();
    let tried = Arc::clone(&calls);
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 50).await;
    worker.run(move |task| {
        let prompt = task["prompt"].as_str().unwrap_or_default();
        let mut calls = tried.lock().expect("no panic");
        let count = calls.entry(prompt.to_owned()).or_default();
        *count += 1;
        // The first call of some mails fails.
        if prompt.contains("mail 7\n") && *count == 1 {
            Err("busy".into())
        } else {
            Ok(r#"{"category": "question", "urgent": false}"#.into())
        }
    });
    let dir = tempfile::tempdir().expect("a directory");
    let yaml = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    std::fs::write(dir.path().join("classify.yaml"), yaml.expect("the page has a file"))
        .expect("a file");
    let mails: Vec<_> =
        (0..3_000).map(|n| format!("{n},mail {n},\"a text,\nwith lines\"\n")).collect();
    let mails = mails.concat();
    std::fs::write(dir.path().join("mails.csv"), format!("id,subject,body\n{mails}"))
        .expect("a file");
    let mut batch = String::new();
    let mut run = 0;
    let typed = page.lines().filter_map(|line| line.strip_prefix("    "));
    for line in typed.filter(|line| line.starts_with("callboard ")) {
        let program = Path::new(env!("CARGO_BIN_EXE_callboard"));
        let path = program.parent().expect("a directory").display().to_string();
        // A batch with failed rows ends with the code of failed work, and so does its watch.
        let may_fail = line.contains("--watch");
        let output = Command::new("bash")
            .args(["-c", line])
            .current_dir(dir.path())
            .env("PATH", format!("{path}:/usr/bin:/bin"))
            .env("HOME", dir.path())
            .env("CALLBOARD_SERVER", &server.url)
            .env("CALLBOARD_API_KEY", &key)
            .env("BATCH", &batch)
            .stdin(Stdio::null())
            .output()
            .await
            .expect("bash runs");
        let (said, noted) =
            [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it)).into();
        assert!(output.status.success() || may_fail, "{line}\n{said}{noted}");
        let words = noted.split_whitespace().chain(said.split_whitespace());
        if let Some(id) = words.clone().find(|word| word.starts_with("bat_")) {
            batch = id.trim_end_matches([';', ':']).to_owned();
        }
        run += 1;
    }
    assert!(run >= 7, "the page's commands are found: {run}");
    let result = std::fs::read_to_string(dir.path().join("result.csv")).expect("the export");
    assert_eq!(result.lines().count(), 3_001);
    assert!(
        result.lines().skip(1).all(|line| line.contains(",completed,question,false,")),
        "{}",
        &result[..500]
    );
    assert_eq!(calls.lock().expect("no panic").values().sum::<usize>(), 3_001);
}
