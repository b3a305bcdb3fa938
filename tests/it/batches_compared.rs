//! Rows of batches in an order and by figure, and two batches side by side, over HTTP and by the program.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Client, FakeWorker, Server, until};

/// A template whose prompt is the mail behind a word, which differs between versions.
fn template(version: &str, word: &str, is_gated: bool) -> Value {
    json!({
        "name": "sorter", "description": "Sorts mails.", "version": version, "industry": "devops",
        "tags": ["mail"], "visibility": "organization",
        "inputSchema": {
            "type": "object", "required": ["mail"], "properties": {"mail": {"type": "string"}},
        },
        "outputSchema": {
            "type": "object", "required": ["category"],
            "properties": {"category": {"type": "string"}, "urgent": {"type": "boolean"}},
        },
        "steps": [{
            "id": "sort", "prompt": format!("{word} {{{{input.mail}}}}"), "requiresApproval": is_gated,
        }],
    })
}

/// Answers `WORD mail N …`: the category is N by thirds, the second word moves every fourth mail, mails with `bad` fail,
/// and the confidence and the usage follow N.
fn answer(prompt: &str) -> Value {
    let words: Vec<_> = prompt.split(' ').collect();
    let number: u32 = words[2].parse().expect("a number");
    if words.contains(&"bad") {
        let error = json!({"code": "PROVIDER_ERROR", "message": "no"});
        return json!({"type": "fail", "retryable": false, "error": error});
    }
    let moved = words[0] == "after" && number.is_multiple_of(4);
    let category = if moved { "moved".to_owned() } else { format!("c{}", number % 3) };
    let output = json!({"category": category, "urgent": number.is_multiple_of(2)}).to_string();
    json!({
        "type": "complete", "output": output, "confidence": f64::from(number % 10) / 10.0,
        "confidenceSource": "reported", "usage": {"input": number, "output": 1},
    })
}

pub(crate) async fn worked(server: &Server) {
    let worker = FakeWorker::connect(server, &server.key("worker").await, 20).await;
    worker.run_with(|task| answer(task["prompt"].as_str().unwrap_or_default()));
}

pub(crate) async fn published(
    client: &Client,
    version: &str,
    word: &str,
    is_gated: bool,
) -> String {
    let made = client.post("/api/templates", &template(version, word, is_gated)).await.expect(201);
    made["id"].as_str().expect("an id").to_owned()
}

/// Uploads rows `{key, mail}` for a version, and returns the batch.
pub(crate) async fn uploaded(
    client: &Client,
    (template, version): (&str, &str),
    rows: impl Iterator<Item = (String, String)>,
) -> String {
    let lines: Vec<_> = rows
        .map(|(key, mail)| format!("{}\n", json!({"key": key, "input": {"mail": mail}})))
        .collect();
    let path = format!("/api/batches?templateId={template}&version={version}");
    let made = client.post_as(&path, "application/x-ndjson", &lines.concat()).await.expect(201);
    made["id"].as_str().expect("an id").to_owned()
}

pub(crate) async fn ended(client: &Client, id: &str) {
    until("it ends", async || {
        client.get(&format!("/api/batches/{id}")).await.expect_ok()["status"] == "completed"
    })
    .await;
}

pub(crate) async fn compared(client: &Client, a: &str, b: &str, query: &str) -> Value {
    client.get(&format!("/api/batches/{a}/compare/{b}?{query}")).await.expect_ok()
}

fn keys(page: &Value, list: &str) -> Vec<String> {
    let rows = page[list].as_array().expect("a list");
    rows.iter().map(|row| row["key"].as_str().expect("a key").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_batches_are_compared_by_key_and_field_and_an_unfinished_row_is_never_equal() {
    let server = Server::start();
    let client = server.client("operator").await;
    let template = published(&client, "1.0.0", "before", false).await;
    published(&client, "1.1.0", "after", false).await;
    let mail = |n: u32| (format!("k{n}"), format!("mail {n}{}", if n == 5 { " bad" } else { "" }));
    let before = uploaded(&client, (&template, "1.0.0"), (0..40).map(mail)).await;
    // Other rows, and in another order.
    let after = uploaded(&client, (&template, "1.1.0"), (2..42).rev().map(mail)).await;

    let none = compared(&client, &before, &after, "").await;
    assert_eq!(none["rows"], json!({"both": 38, "onlyA": 2, "onlyB": 2}));
    assert_eq!((&none["unfinished"], &none["equal"]), (&json!(38), &json!(0)), "nothing has ended");
    assert_eq!(none["items"], json!([]));
    worked(&server).await;
    ended(&client, &before).await;
    ended(&client, &after).await;
    // The comparison of what moves is kept for a few seconds.
    until("it is compared anew", async || {
        compared(&client, &before, &after, "").await["unfinished"] == 0
    })
    .await;

    let found = compared(&client, &before, &after, "limit=4").await;
    // 4, 8, … 36 differ; 5 failed in both.
    assert_eq!((&found["equal"], &found["differs"]), (&json!(28), &json!(9)));
    assert_eq!(found["failed"], json!({"a": 1, "b": 1, "either": 1}));
    assert_eq!(
        found["byField"],
        json!([
            {"field": "category", "equal": 28, "differs": 9},
            {"field": "urgent", "equal": 37, "differs": 0},
        ])
    );
    assert_eq!(found["agreement"]["a"], json!({"decided": 0, "agrees": 0}));
    assert_eq!((&found["isComplete"], &found["compared"]), (&json!(true), &json!(42)));
    assert_eq!(keys(&found, "items"), ["k4", "k8", "k12", "k16"]);
    let item = &found["items"][0];
    assert_eq!(item["fields"], json!(["category"]));
    assert_eq!(
        (&item["a"]["output"]["category"], &item["b"]["output"]["category"]),
        (&json!("c1"), &json!("moved"))
    );
    let (mut all, mut cursor) = (keys(&found, "items"), found["nextCursor"].clone());
    while !cursor.is_null() {
        let page = compared(&client, &before, &after, &format!("limit=4&cursor={cursor}")).await;
        all.extend(keys(&page, "items"));
        cursor = page["nextCursor"].clone();
    }
    let expected: Vec<_> = (1..10).map(|n| format!("k{}", 4 * n)).collect();
    assert_eq!(all, expected);

    let urgent = compared(&client, &before, &after, "fields=urgent").await;
    assert_eq!((&urgent["equal"], &urgent["differs"]), (&json!(37), &json!(0)));
    let rest = compared(&client, &before, &after, "outcome=onlyA,onlyB,failed").await;
    assert_eq!(keys(&rest, "items"), ["k0", "k1", "k5", "k41", "k40"]);
    assert_eq!(rest["items"][0].get("b"), None);
    let rows =
        client.get(&format!("/api/batches/{after}/rows?differsFrom={before}&limit=100")).await;
    let mut differing = keys(&rows.expect_ok(), "rows");
    differing.reverse();
    assert_eq!(differing, expected, "in the order of the rows there");

    let path = format!("/api/batches/{before}/compare/{after}");
    assert_eq!(client.get(&format!("{path}?step=none")).await.fault().0, "step");
    assert_eq!(client.get(&format!("{path}?outcome=none")).await.fault().0, "outcome");
    let missing = format!("/api/batches/{before}/compare/bat_0");
    assert_eq!(client.get(&missing).await.refused(404), "NOT_FOUND");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_row_is_unfinished_and_the_decisions_measure_both_batches() {
    let server = Server::start();
    let client = server.client("operator").await;
    let reviewer = server.client("reviewer").await;
    let template = published(&client, "1.0.0", "before", true).await;
    published(&client, "1.1.0", "after", false).await;
    let mail = |n: u32| (format!("k{n}"), format!("mail {n}"));
    let before = uploaded(&client, (&template, "1.0.0"), (3..7).map(mail)).await;
    let after = uploaded(&client, (&template, "1.1.0"), (3..7).map(mail)).await;
    worked(&server).await;
    ended(&client, &after).await;
    until("all are held", async || {
        let now = client.get(&format!("/api/batches/{before}")).await.expect_ok();
        now["progress"]["awaitingApproval"] == 4
    })
    .await;
    let held = compared(&client, &before, &after, "outcome=unfinished").await;
    assert_eq!((&held["unfinished"], &held["equal"]), (&json!(4), &json!(0)));
    assert_eq!(held["items"][0]["a"]["status"], "awaiting_approval");

    let waiting = client.get(&format!("/api/hitl/pending?batch={before}&limit=100")).await;
    let by_key: HashMap<String, String> = {
        let mut found = HashMap::new();
        for item in waiting.body["data"].as_array().expect("a list") {
            let task = item["taskId"].as_str().expect("an id");
            let execution = item["planExecutionId"].as_str().expect("an id");
            let key = client.execution(execution).await["key"].as_str().expect("a key").to_owned();
            found.insert(key, task.to_owned());
        }
        found
    };
    let decide = async |key: &str, verb: &str, body: Value| {
        reviewer.post(&format!("/api/hitl/{}/{verb}", by_key[key]), &body).await.expect_ok()
    };
    // k3: c0 in both. k4: c1 before, moved after, and moved is right. k5: c2 in both, and wrong. k6 stays held.
    decide("k3", "approve", json!({})).await;
    let right = json!({"category": "moved", "urgent": true}).to_string();
    decide("k4", "approve", json!({"modifiedOutput": right})).await;
    decide("k5", "reject", json!({"reason": "wrong"})).await;
    until("it is compared anew", async || {
        compared(&client, &before, &after, "").await["unfinished"] == 1
    })
    .await;
    let found = compared(&client, &before, &after, "").await;
    assert_eq!((&found["equal"], &found["differs"]), (&json!(2), &json!(0)), "{found}");
    assert_eq!(found["failed"], json!({"a": 1, "b": 0, "either": 1}));
    assert_eq!(
        found["agreement"],
        json!({"a": {"decided": 3, "agrees": 1}, "b": {"decided": 3, "agrees": 2}})
    );
    let rows = async |query: &str| {
        let path = format!("/api/batches/{before}/rows?{query}");
        keys(&client.get(&path).await.expect_ok(), "rows")
    };
    until("the rows are read anew", async || rows("decision=edited").await == ["k4"]).await;
    assert_eq!(rows("decision=approved,rejected&orderBy=key&order=desc").await, ["k5", "k3"]);
    assert_eq!(rows("decision=none").await, ["k6"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_listed_by_confidence_cost_and_key_page_by_page() {
    let server = Server::start();
    let client = server.client("operator").await;
    let template = published(&client, "1.0.0", "before", false).await;
    let mail = |n: u32| {
        let bad = if n == 7 { " bad" } else { "" };
        (
            format!("{}{n}", if n.is_multiple_of(2) { "even" } else { "odd" }),
            format!("mail {n}{bad}"),
        )
    };
    let id = uploaded(&client, (&template, "1.0.0"), (0..25).map(mail)).await;
    worked(&server).await;
    ended(&client, &id).await;
    let pages = async |query: &str, limit: usize| {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/batches/{id}/rows?{query}&limit={limit}{cursor}");
            let page = client.get(&path).await.expect_ok();
            all.extend(page["rows"].as_array().expect("rows").clone());
            match page["nextCursor"].as_u64() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    };
    let numbers = |rows: &[Value]| -> Vec<u64> {
        rows.iter().map(|row| row["row"].as_u64().expect("a number") - 1).collect()
    };
    for limit in [4, 100] {
        // The confidence is the last digit, and row 7 has none.
        let mut expected: Vec<u64> = (0..25).filter(|n| *n != 7).collect();
        expected.sort_by_key(|n| (n % 10, *n));
        let rows = pages("orderBy=confidence", limit).await;
        assert_eq!(numbers(&rows), [expected.clone(), vec![7]].concat());
        let confidence = |row: &Value| row["steps"]["sort"]["confidence"].as_f64();
        assert!(rows.windows(2).all(|two| {
            confidence(&two[1]).is_none() || confidence(&two[0]) <= confidence(&two[1])
        }));
        expected.sort_by_key(|n| (9 - n % 10, *n));
        let rows = pages("orderBy=confidence&order=desc", limit).await;
        assert_eq!(numbers(&rows), [expected, vec![7]].concat());
        let rows = pages("minConfidence=0.2&maxConfidence=0.3&step=sort", limit).await;
        assert_eq!(numbers(&rows), [2, 3, 12, 13, 22, 23]);
        let rows = pages("orderBy=key&order=desc", limit).await;
        let mut keys: Vec<_> = (0..25).map(|n| mail(n).0).collect();
        keys.sort_unstable_by(|a, b| b.cmp(a));
        let found: Vec<_> = rows.iter().map(|row| row["key"].as_str().expect("a key")).collect();
        assert_eq!(found, keys);
        let rows = pages("orderBy=cost&status=failed", limit).await;
        assert_eq!(numbers(&rows), [7]);
        let rows = pages("orderBy=duration&errorCode=PROVIDER_ERROR", limit).await;
        assert_eq!(numbers(&rows), [7]);
        assert_eq!(pages("orderBy=duration", limit).await.len(), 25);
        let backwards: Vec<u64> = (0..25).rev().collect();
        assert_eq!(numbers(&pages("orderBy=row&order=desc", limit).await), backwards);
    }
    let unknown = client.get(&format!("/api/batches/{id}/rows?orderBy=cost&step=none")).await;
    assert_eq!(unknown.fault().0, "step");
    let other = client.get(&format!("/api/batches/{id}/rows?differsFrom=bat_0")).await;
    assert_eq!(other.fault().0, "differsFrom");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_to_the_same_question_are_taken_over_with_their_decisions_and_cost_nothing() {
    let server = Server::start();
    let client = server.client("operator").await;
    let reviewer = server.client("reviewer").await;
    let template = published(&client, "1.0.0", "before", true).await;
    let mail = |n: u32| (format!("k{n}"), format!("mail {n}"));
    let first = uploaded(&client, (&template, "1.0.0"), (1..4).map(mail)).await;
    worked(&server).await;
    let held = async |id: &str, count: u64| {
        until("they are held", async || {
            let now = client.get(&format!("/api/batches/{id}")).await.expect_ok();
            now["progress"]["awaitingApproval"] == count
        })
        .await;
    };
    held(&first, 3).await;
    let waiting = client.get(&format!("/api/hitl/pending?batch={first}")).await;
    for item in waiting.body["data"].as_array().expect("a list") {
        let task = item["taskId"].as_str().expect("an id");
        reviewer.post(&format!("/api/hitl/{task}/approve"), &json!({})).await.expect_ok();
    }
    ended(&client, &first).await;
    let calls = async || client.get("/api/tasks").await.body["pagination"]["total"].clone();
    assert_eq!(calls().await, 3);

    // k1 and k2 are the same, k3 asks something else, k9 is new.
    let rows = [mail(1), mail(2), ("k3".into(), "mail 30".into()), mail(9)];
    let lines: Vec<_> = rows
        .iter()
        .map(|(key, mail)| format!("{}\n", json!({"key": key, "input": {"mail": mail}})))
        .collect();
    let path = format!("/api/batches?templateId={template}&reuse=latest");
    let kind = "application/x-ndjson";
    let tried = client.post_as(&format!("{path}&dryRun=true"), kind, &lines.concat()).await;
    let tried = tried.expect(200);
    assert_eq!((&tried["rows"], &tried["reused"]), (&json!(2), &json!(2)), "it says what follows");
    let made = client.post_as(&path, kind, &lines.concat()).await.expect(201);
    assert_eq!(made["reuse"], first);
    let second = made["id"].as_str().expect("an id").to_owned();
    held(&second, 2).await;
    let now = client.get(&format!("/api/batches/{second}")).await.expect_ok();
    assert_eq!((&now["progress"]["completed"], &now["progress"]["reused"]), (&json!(2), &json!(2)));
    // The input tokens of k3 and k9 alone.
    assert_eq!(now["usage"]["input"], 39);
    let rows = client.get(&format!("/api/batches/{second}/rows")).await.expect_ok();
    let row = &rows["rows"][0];
    assert_eq!((&row["reused"], &row["output"]["category"]), (&json!(true), &json!("c1")));
    assert_eq!(row["steps"]["sort"]["decision"]["verdict"], "approved");
    assert_eq!(rows["rows"][2].get("reused"), None);
    // The same from a copy: the decision of the first is found.
    let line = format!("{}\n", json!({"key": "k1", "input": {"mail": "mail 1"}}));
    let path = format!("/api/batches?templateId={template}&reuse={second}");
    let third = client.post_as(&path, kind, &line).await.expect(201);
    let third = third["id"].as_str().expect("an id").to_owned();
    ended(&client, &third).await;
    let rows =
        client.get(&format!("/api/batches/{third}/rows?decision=approved")).await.expect_ok();
    assert_eq!(keys(&rows, "rows"), ["k1"]);

    for (reuse, field) in [("bat_0", "reuse"), ("bat_01m7ydfg8h1fvf4c29awjks549", "reuse")] {
        let path = format!("/api/batches?templateId={template}&reuse={reuse}");
        assert_eq!(client.post_as(&path, kind, &line).await.fault().0, field);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cost_of_rows_is_estimated_from_their_length_and_past_outputs_and_nothing_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let prices = dir.path().join("prices.json");
    let table = json!({"m": {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}});
    std::fs::write(&prices, table.to_string()).expect("a file");
    let server = Server::with(&[("MODELS__PRICES", prices.to_str().expect("UTF-8"))]);
    let client = server.client("operator").await;
    let template = json!({
        "name": "sorter", "description": "Sorts mails.", "version": "1.0.0", "industry": "devops",
        "tags": ["mail"], "visibility": "organization", "defaults": {"model": "m", "maxTokens": 100},
        "inputSchema": {
            "type": "object", "required": ["mail"], "properties": {"mail": {"type": "string"}},
        },
        "steps": [{"id": "sort", "prompt": "{{input.mail}}"}],
    });
    let made = client.post("/api/templates", &template).await.expect(201);
    let template = made["id"].as_str().expect("an id").to_owned();
    let lines = |lengths: &[usize]| {
        let line =
            |length: &usize| format!("{}\n", json!({"input": {"mail": "x".repeat(*length)}}));
        lengths.iter().map(line).collect::<String>() + "{\"input\": {}}\n"
    };
    let path = format!("/api/batches?templateId={template}");
    let kind = "application/x-ndjson";
    let tried = async |lengths: &[usize]| {
        client.post_as(&format!("{path}&dryRun=true"), kind, &lines(lengths)).await.expect(200)
    };
    let none = tried(&[400]).await;
    assert_eq!(
        (&none["basis"], &none["rows"], &none["invalid"]),
        (&json!("prices"), &json!(1), &json!(1))
    );
    assert_eq!(none["faults"][0]["row"], 2);
    // 100 tokens in, at most 100 out.
    assert_eq!(none["cost"], json!({"low": 0.1, "expected": 1.1, "high": 1.1}));

    let worker = FakeWorker::connect(&server, &server.key("worker").await, 8).await;
    worker.run_with(|task| {
        // The provider counts a token for each two characters, and the answers have 9 or 11.
        let length = task["prompt"].as_str().unwrap_or_default().len();
        let output = if length % 800 == 0 { 11 } else { 9 };
        json!({"type": "complete", "output": "x", "usage": {"input": length / 2, "output": output}})
    });
    let lengths: Vec<_> = (0..10).map(|n| 400 + 400 * (n % 2)).collect();
    let made = client.post_as(&path, kind, &lines(&lengths)).await.expect(201);
    let id = made["id"].as_str().expect("an id").to_owned();
    ended(&client, &id).await;
    let actual =
        client.get(&format!("/api/batches/{id}")).await.expect_ok()["cost"]["actual"].clone();

    let same = tried(&lengths).await;
    assert_eq!((&same["basis"], &same["pastRuns"]), (&json!("history"), &json!(10)));
    assert_eq!(same["cost"]["expected"], actual, "the same rows cost the same");
    let (low, high) = (same["cost"]["low"].as_f64(), same["cost"]["high"].as_f64());
    assert!(low < actual.as_f64() && actual.as_f64() < high, "{same}");
    // An empty mail costs its answer, a long one its length.
    let empty = tried(&[0]).await["cost"]["expected"].as_f64().expect("a cost");
    let long = tried(&[8_000]).await["cost"]["expected"].as_f64().expect("a cost");
    assert!((empty - 0.1).abs() < 1e-9 && (long - 4.1).abs() < 1e-9, "{empty} {long}");
    assert_eq!(client.get("/api/batches").await.body["pagination"]["total"], 1, "nothing is kept");

    client.post_as(&format!("{path}&concurrency=1"), kind, &lines(&[400])).await.expect(201);
    let waiting = client.post(&format!("/api/batches/{id}/estimate"), &json!({})).await.expect_ok();
    assert_eq!((&waiting["rows"], &waiting["spent"]), (&json!(0), &actual));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_ended_long_ago_is_removed_and_its_rows_are_left_out_where_asked() {
    let server = Server::with(&[("RETENTION__ENDED", "2s")]);
    let client = server.client("operator").await;
    let template = published(&client, "1.0.0", "before", false).await;
    let mail = |n: u32| (format!("k{n}"), format!("mail {n}"));
    let id = uploaded(&client, (&template, "1.0.0"), (0..3).map(mail)).await;
    let total = async |query: &str| {
        let path = format!("/api/plans/executions?{query}");
        client.get(&path).await.body["pagination"]["total"].clone()
    };
    until("all are started", async || total("").await == 3).await;
    assert_eq!(total(&format!("batch={id}")).await, 3);
    assert_eq!(total("batch=none").await, 0);
    worked(&server).await;
    until("it is gone", async || client.get(&format!("/api/batches/{id}")).await.status == 404)
        .await;
    until("all of it is gone", async || total("").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_how_to_of_comparing_prompts_can_be_followed() {
    let page = include_str!("../../docs/how-to/compare-prompts.md");
    let server = Server::start();
    let key = server.key("operator").await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 50).await;
    worker.run(|task| {
        let prompt = task["prompt"].as_str().unwrap_or_default();
        let asks = prompt.contains("refund") && prompt.contains("money back");
        let category = if asks { "complaint" } else { "question" };
        Ok(json!({"category": category, "urgent": false}).to_string())
    });
    let dir = tempfile::tempdir().expect("a directory");
    let files =
        [("classify.yaml", include_str!("../../docs/how-to/batch.md")), ("classify-2.yaml", page)];
    for (name, page) in files {
        let yaml = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
        std::fs::write(dir.path().join(name), yaml.expect("the page has a file")).expect("a file");
    }
    let subject = |n: u32| if n.is_multiple_of(7) { "a refund" } else { "a parcel" };
    let mails: Vec<_> = (0..300).map(|n| format!("{n},{},text\n", subject(n))).collect();
    std::fs::write(dir.path().join("mails.csv"), format!("id,subject,body\n{}", mails.concat()))
        .expect("a file");
    let typed: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let typed: Vec<_> = typed.into_iter().filter(|line| line.contains("callboard ")).collect();
    assert!(typed.len() >= 12, "the page's commands are found: {}", typed.len());
    let program = Path::new(env!("CARGO_BIN_EXE_callboard"));
    let path = program.parent().expect("a directory").display().to_string();
    let output = Command::new("bash")
        .args(["-euc", &typed.join("\n")])
        .current_dir(dir.path())
        .env("PATH", format!("{path}:/usr/bin:/bin"))
        .env("HOME", dir.path())
        .env("CALLBOARD_SERVER", &server.url)
        .env("CALLBOARD_API_KEY", &key)
        .stdin(Stdio::null())
        .output()
        .await
        .expect("bash runs");
    let (said, noted) =
        [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it)).into();
    assert!(output.status.success(), "{said}{noted}");
    assert!(said.contains("category: 257 equal, 43 differ"), "{said}");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("a file");
    let comparison: Value = serde_json::from_str(&read("comparison.json")).expect("JSON");
    assert_eq!((&comparison["equal"], &comparison["differs"]), (&json!(257), &json!(43)));
    // The tables say the same.
    let table = |name: &str| -> HashMap<String, String> {
        let text = read(name);
        let cells = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
        cells.map(|cells| (cells[0].to_owned(), cells[2].to_owned())).collect()
    };
    let (before, after) = (table("before.csv"), table("after.csv"));
    assert_eq!(before.iter().filter(|(key, cell)| after[*key] != **cell).count(), 43);
}
