//! The texts of an ended task are erased: no read shows them, no file holds them after a compaction, and
//! the history of the approval still verifies.

mod customer;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::approvals::fixture::Fixture;
use crate::support::{Client, Events, FakeWorker, Server};

/// Texts that are short and random enough to stand in a file as they are.
const PROMPT: &str = "qZ7#Vw2!Lk9$Xp4&";
const EDIT: &str = "Hf3^Bn8*Rt1(Yc6)";
const COMMENT: &str = "Gd5{Mj0}Ks7[Pz2]";

async fn erase(client: &Client, task: &str, reason: &Value) -> crate::support::Answer {
    let path = format!("/api/tasks/{task}/texts");
    client.send(client.request(reqwest::Method::DELETE, &path).json(reason)).await
}

/// Erases the texts of a step's task; the execution's actor may be awake for a moment.
async fn erase_soon(fixture: &Fixture, task: &str) {
    for _ in 0..200 {
        let answer = erase(&fixture.admin, task, &json!({"reason": "r"})).await;
        if answer.status.as_u16() == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("the texts of {task} are not erased");
}

/// The texts among `texts` that some file below `directory` holds.
pub(crate) fn held<'t>(directory: &Path, texts: &[&'t str]) -> Vec<&'t str> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(held(&path, texts));
            continue;
        }
        let bytes = std::fs::read(&path).expect("a file");
        let is_there = |text: &&&str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
        for text in texts.iter().filter(is_there) {
            eprintln!("{} holds {text}", path.display());
            found.push(*text);
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

pub(crate) fn compact(data: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    let output = command.args(["compact", "--data-dir"]).arg(data).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
}

async fn verified(fixture: &Fixture, task: &str) -> Value {
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(["hitl", "verify", task, "-o", "json"])
        .env_clear()
        .env("HOME", fixture.server.dir.path())
        .env("CALLBOARD_SERVER", &fixture.server.url)
        .env("CALLBOARD_API_KEY", fixture.operator.token())
        .output()
        .await
        .expect("it runs");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[tokio::test]
async fn erased_texts_are_gone_and_the_chain_still_verifies() {
    let mut fixture = Fixture::open().await;
    let task = fixture.required(PROMPT).await;
    let refused = erase(&fixture.admin, &task, &json!({"reason": "asked for"})).await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
    let edit = json!({"modifiedOutput": EDIT, "comment": COMMENT});
    fixture.approve(&task, &edit).await.expect_ok();
    let rejected = fixture.required(PROMPT).await;
    fixture.reject(&rejected, &json!({"reason": COMMENT})).await.expect_ok();
    let before = fixture.history(&task).await;
    assert_eq!(verified(&fixture, &task).await["result"], "ok");

    assert_eq!(
        erase(&fixture.operator, &task, &json!({"reason": "no"})).await.refused(403),
        "FORBIDDEN"
    );
    assert_eq!(
        erase(&fixture.admin, &task, &json!({})).await.fault(),
        ("reason".into(), "required".into())
    );
    for id in [&task, &rejected] {
        let erased =
            erase(&fixture.admin, id, &json!({"reason": "request 4711"})).await.expect_ok();
        let again = erase(&fixture.admin, id, &json!({"reason": "once more"})).await.expect_ok();
        assert!(erased["erasedAt"].is_string());
        assert_eq!(erased["erasedAt"], again["erasedAt"]);
    }

    // Also after a kill.
    fixture.crash(std::time::Duration::ZERO).await;
    fixture.admin = fixture.server.admin().await;
    for id in [&task, &rejected] {
        let shown = fixture.operator.task(id).await;
        assert!(shown["erasedAt"].is_string() && shown["output"].is_null(), "{shown:#}");
        let history = fixture.history(id).await;
        for said in
            [shown.to_string(), fixture.item(id).await.to_string(), json!(history).to_string()]
        {
            for text in [PROMPT, EDIT, COMMENT] {
                assert!(!said.contains(text), "{text} in {said}");
            }
        }
        let found = verified(&fixture, id).await;
        assert_eq!(found["result"], "ok", "{found:#}");
    }
    let hash = |entries: &[Value]| entries.last().map(|entry| entry["hash"].clone());
    assert_eq!(hash(&fixture.history(&task).await), hash(&before), "the chain is as it was");
    let audit = fixture.admin.get("/api/audit?action=task.texts_erased").await.expect_ok();
    assert_eq!(audit[0]["details"]["reason"], "once more", "{audit:#}");
}

#[tokio::test]
async fn no_file_holds_erased_texts_after_a_compaction() {
    let mut fixture = Fixture::open().await;
    let texts = [PROMPT, EDIT, COMMENT];
    let task = fixture.required(PROMPT).await;
    fixture.approve(&task, &json!({"modifiedOutput": EDIT, "comment": COMMENT})).await.expect_ok();
    let data = fixture.server.data();
    assert!(fixture.server.terminate());
    compact(&data);
    let mut sorted = texts.to_vec();
    sorted.sort_unstable();
    assert_eq!(held(&data, &texts), sorted, "the search finds what is there");

    fixture.restart();
    fixture.admin = fixture.server.admin().await;
    erase(&fixture.admin, &task, &json!({"reason": "asked for"})).await.expect_ok();
    assert!(fixture.server.terminate());
    compact(&data);
    assert_eq!(held(&data, &texts), [""; 0], "after the compaction");
}

#[tokio::test]
async fn a_step_is_erased_after_its_execution_and_feeds_no_retry() {
    let fixture = Fixture::open().await;
    let steps = json!([
        {"id": "a", "prompt": PROMPT},
        {"id": "b", "prompt": "{{a.output}}", "dependsOn": ["a"], "requiresApproval": true},
        {"id": "c", "prompt": "{{a.output}} {{b.output}}", "dependsOn": ["a", "b"]},
    ]);
    let execution = fixture.start(&steps, &json!({})).await;
    let b = fixture.waiting(&execution, "b").await;
    let shown = fixture.operator.execution(&execution).await;
    let a = shown["steps"]["a"]["taskId"].as_str().expect("an id").to_owned();
    let refused = erase(&fixture.admin, &a, &json!({"reason": "r"})).await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
    fixture.reject(&b, &json!({"reason": COMMENT})).await.expect_ok();
    fixture.operator.execution_with_status(&execution, "failed").await;
    for id in [&a, &b] {
        erase_soon(&fixture, id).await;
    }
    let shown = fixture.operator.execution(&execution).await.to_string();
    assert!(!shown.contains(PROMPT) && !shown.contains(COMMENT), "{shown}");
    let path = format!("/api/plans/executions/{execution}/retry");
    let refused = fixture.operator.post(&path, &json!({})).await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
}

#[tokio::test]
async fn an_item_of_a_list_is_erased_and_feeds_no_retry() {
    let fixture = Fixture::open().await;
    let steps = json!([
        {"id": "each", "forEach": "{{input.list}}", "item": "doc", "maxItems": 5,
            "prompt": "{{doc}}"},
        {"id": "b", "prompt": "b", "dependsOn": ["each"], "requiresApproval": true},
    ]);
    let execution = fixture.start(&steps, &json!({"input": {"list": [PROMPT, "another"]}})).await;
    let b = fixture.waiting(&execution, "b").await;
    fixture.reject(&b, &json!({"reason": "no"})).await.expect_ok();
    fixture.operator.execution_with_status(&execution, "failed").await;
    let path = format!("/api/plans/executions/{execution}/steps/each/items");
    let items = fixture.operator.get(&path).await.expect_ok();
    let item = items[0]["taskId"].as_str().expect("an id").to_owned();
    erase_soon(&fixture, &item).await;
    let items = fixture.operator.get(&path).await.expect_ok();
    assert!(items[0]["output"].is_null() && items[1]["output"].is_string(), "{items:#}");
    let path = format!("/api/plans/executions/{execution}/retry");
    let refused = fixture.operator.post(&path, &json!({})).await;
    assert_eq!(refused.refused(409), "INVALID_STATE");
}

#[tokio::test]
async fn thinking_stands_beside_the_output_and_is_erased_with_it() {
    let server = Server::start();
    let (client, admin) = (server.client("operator").await, server.admin().await);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    let lease = worker.assignment().await["lease"].clone();
    // Too long for a row, and nothing makes it shorter.
    let words = (0..10_000_u32).map(|word| format!("{:x}", word.wrapping_mul(2_654_435_761)));
    let thinking = format!("{PROMPT}ü{}", words.collect::<String>());
    worker
        .send(json!({
            "type": "complete", "lease": lease, "output": "out", "thinking": thinking,
            "usage": {"input": 3, "output": 5},
        }))
        .await;
    assert_eq!(worker.receive("ack").await["result"], "applied");
    let shown = client.task(&id).await;
    let kept = shown["thinking"].as_str().expect("the thinking");
    assert!(thinking.starts_with(kept) && kept.len() == 32 * 1024, "{}", kept.len());
    assert_eq!(shown["output"], "out");
    let list = client.get("/api/tasks").await;
    assert_eq!(list.body["data"][0].get("thinking"), None);
    erase(&admin, &id, &json!({"reason": "r"})).await.expect_ok();
    assert_eq!(client.task(&id).await.get("thinking"), None);
}

/// All events since the first, as they are told now.
async fn told(client: &Client) -> String {
    let last = client.submit(&json!({"prompt": "p", "queue": "nobody"})).await;
    let mut events = Events::open(client, "", Some("e3f")).await;
    let mut all = String::new();
    loop {
        let (name, event) = events.next().await;
        all.push_str(&event.to_string());
        if name == "task.created" && event["resource"]["id"] == json!(last) {
            return all;
        }
    }
}

#[tokio::test]
async fn an_erased_word_is_nowhere_whoever_has_quoted_it() {
    let mut server = Server::start();
    let (mut client, mut admin) = (server.client("operator").await, server.admin().await);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let body = json!({"prompt": PROMPT});
    let made = client.post_once("/api/tasks", "a key", &body).await.expect(201);
    let id = made["id"].as_str().expect("an id").to_owned();
    let mut fail = async |retryable: bool| {
        let lease = worker.assignment().await["lease"].clone();
        let error = json!({"code": "PROVIDER_ERROR", "message": format!("bad: {COMMENT}")});
        let frame = json!({"type": "fail", "lease": lease, "error": error, "retryable": retryable});
        worker.send(frame).await;
        worker.receive("ack").await;
    };
    fail(true).await;
    fail(false).await;
    let plan = client.plan(&json!([{"id": "a", "prompt": "{{input.x}}"}])).await;
    let path = format!("/api/plans/{plan}/execute");
    // The input of an execution stays: the step's error alone quotes what is erased.
    let begin = json!({"input": {"x": "another"}});
    let execution = client.post_once(&path, "another", &begin).await.expect(201)["id"].clone();
    let execution = execution.as_str().expect("an id").to_owned();
    fail(true).await;
    fail(false).await;
    let ended = client.execution_with_status(&execution, "failed").await;
    let step = ended["steps"]["a"]["taskId"].as_str().expect("an id").to_owned();
    let before = told(&client).await;
    assert!(before.contains(COMMENT) && before.contains("task.retrying"), "{before}");

    for id in [&id, &step] {
        let path = format!("/api/tasks/{id}/texts");
        crate::support::until("the execution sleeps", async || {
            let request = admin.request(reqwest::Method::DELETE, &path);
            admin.send(request.json(&json!({"reason": "r"}))).await.status.as_u16() == 200
        })
        .await;
    }
    for start in 0..2 {
        if start == 1 {
            server.kill();
            server.restart();
            (client, admin) = (client.at(&server.url), admin.at(&server.url));
        }
        let now = told(&client).await;
        assert!(now.contains("task.retrying") && now.contains("the texts of the task were erased"));
        for word in [PROMPT, COMMENT] {
            assert!(!now.contains(word), "{word} in {now}");
        }
        // Neither a repetition nor a guess tells what was submitted.
        for body in [&body, &json!({"prompt": "a guess"})] {
            let again = client.post_once("/api/tasks", "a key", body).await;
            assert_eq!(again.refused(409), "INVALID_STATE", "{body}");
        }
        let again = client.post_once(&path, "another", &begin).await;
        assert_eq!(again.refused(409), "INVALID_STATE");
        let again = client.post(&format!("/api/tasks/{id}/retry"), &json!({})).await;
        assert_eq!(again.refused(409), "INVALID_STATE");
    }
    drop(admin);
    let data = server.data();
    assert!(server.terminate());
    compact(&data);
    assert_eq!(held(&data, &[PROMPT, COMMENT]), [""; 0], "after the compaction");
}
