//! Reviews of outputs of a batch that have passed, over HTTP and by the program.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::batches_compared::{compared, ended, published, uploaded, worked};
use crate::support::{Client, Server, until};

async fn asked(client: &Client, batch: &str, body: Value) -> Value {
    client.post(&format!("/api/batches/{batch}/review"), &body).await.expect_ok()
}

/// The items that wait, by the keys of their rows.
async fn waiting(client: &Client, batch: &str) -> BTreeMap<String, Value> {
    let path = format!("/api/hitl/pending?batch={batch}&limit=100");
    let page = client.get(&path).await;
    let mut found = BTreeMap::new();
    for item in page.body["data"].as_array().expect("a list") {
        let execution = item["planExecutionId"].as_str().expect("an id");
        let key = client.execution(execution).await["key"].as_str().expect("a key").to_owned();
        found.insert(key, item.clone());
    }
    found
}

async fn text(client: &Client, path: &str) -> String {
    let sent = client.request(Method::GET, path).send().await.expect("an answer");
    assert!(sent.status().is_success(), "{}", sent.status());
    sent.text().await.expect("a text")
}

fn mail(number: u32) -> (String, String) {
    (format!("k{number}"), format!("mail {number}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn outputs_that_have_passed_are_reviewed_afterwards_and_nothing_waits_for_it() {
    let mut server = Server::start();
    let operator = server.key("operator").await;
    let client = Client::new(&server.url, &operator);
    let reviewer = server.client("reviewer").await;
    let template = published(&client, "1.0.0", "before", false).await;
    let batch = uploaded(&client, (&template, "1.0.0"), (1..7).map(mail)).await;
    worked(&server).await;
    ended(&client, &batch).await;
    let usual = text(&client, &format!("/api/batches/{batch}/export")).await;
    assert!(usual.starts_with("key,status,output.category,output.urgent,cost,"), "{usual}");

    // The least sure ones: the confidence follows the number of the mail.
    let first = asked(&client, &batch, json!({"top": 2})).await;
    assert_eq!(first, json!({"asked": 2, "left": 4}));
    let held = waiting(&client, &batch).await;
    assert_eq!(held.keys().collect::<Vec<_>>(), ["k1", "k2"]);
    let item = &held["k1"];
    assert_eq!(
        (&item["reason"], &item["output"]),
        (&json!("requested"), &json!(r#"{"category":"c1","urgent":false}"#))
    );
    let now = client.get(&format!("/api/batches/{batch}")).await.expect_ok();
    assert_eq!(
        (&now["status"], &now["progress"]["awaitingApproval"]),
        (&json!("completed"), &json!(0))
    );

    let path = |key: &str, verb: &str| {
        format!("/api/hitl/{}/{verb}", held[key]["taskId"].as_str().expect("an id"))
    };
    let retry = json!({"reason": "wrong", "retry": true});
    assert_eq!(reviewer.post(&path("k2", "reject"), &retry).await.refused(400), "VALIDATION_ERROR");
    let wrong = json!({"modifiedOutput": "no JSON"});
    assert_eq!(
        reviewer.post(&path("k1", "approve"), &wrong).await.refused(400),
        "VALIDATION_ERROR"
    );
    let right = json!({"category": "c9", "urgent": true});
    let edit = json!({"modifiedOutput": right.to_string()});
    reviewer.post(&path("k1", "approve"), &edit).await.expect_ok();
    assert_eq!(reviewer.post(&path("k1", "approve"), &edit).await.refused(409), "ALREADY_DECIDED");
    // Nothing goes by it, so it is taken back whenever somebody wants.
    let again = reviewer.post(&path("k1", "reopen"), &json!({})).await.expect_ok();
    assert_eq!(again["corrects"], false);
    reviewer.post(&path("k1", "approve"), &edit).await.expect_ok();
    reviewer.post(&path("k2", "reject"), &json!({"reason": "wrong"})).await.expect_ok();

    // The output stays, and the reviewer's text stands beside it.
    let rows = client.get(&format!("/api/batches/{batch}/rows")).await.expect_ok();
    let step = &rows["rows"][0]["steps"]["sort"];
    assert_eq!(rows["rows"][0]["output"]["category"], "c1");
    assert_eq!((&step["status"], &step["decision"]["edit"]), (&json!("completed"), &right));
    assert_eq!(rows["rows"][1]["status"], "completed");
    assert_eq!(rows["rows"][1]["steps"]["sort"]["decision"]["verdict"], "rejected");
    let lines = text(&client, &format!("/api/batches/{batch}/export")).await;
    let lines: Vec<_> = lines.lines().collect();
    assert!(
        lines[0].contains("output.urgent,steps.sort.decision,steps.sort.edit,cost"),
        "{lines:?}"
    );
    assert!(
        lines[1].starts_with("k1,completed,c1,false,approved,\"{\"\"category\"\":\"\"c9\"\""),
        "{lines:?}"
    );
    assert!(lines[3].starts_with("k3,completed,c0,false,,,"), "{lines:?}");

    // The decisions measure the batch: one was wrong, and the edited one too.
    let found = compared(&client, &batch, &batch, "").await;
    assert_eq!(found["agreement"]["a"], json!({"decided": 2, "agrees": 0}));

    // They count as a sample does, before and after a restart, and so does one that waits over it.
    asked(&client, &batch, json!({"top": 1, "orderBy": "random"})).await;
    let sampled = async |client: &Client| {
        let path = format!("/api/hitl/calibration?templateId={template}");
        let found = client.get(&path).await.expect_ok();
        let deciles = found["deciles"].as_array().expect("a list").clone();
        let sum = |name: &str| deciles.iter().filter_map(|it| it[name].as_u64()).sum::<u64>();
        [sum("sampled"), sum("edited"), sum("rejected"), sum("undecided")]
    };
    assert_eq!(sampled(&client).await, [2, 1, 1, 1]);
    server.kill();
    server.restart();
    let client = Client::new(&server.url, &operator);
    assert_eq!(sampled(&client).await, [2, 1, 1, 1]);
    assert_eq!(waiting(&client, &batch).await.len(), 1);

    // A repeated request asks for others; at last none is left.
    assert_eq!(asked(&client, &batch, json!({"top": 100})).await, json!({"asked": 3, "left": 0}));
    assert_eq!(asked(&client, &batch, json!({"top": 100})).await, json!({"asked": 0, "left": 0}));
    for (body, status) in [
        (json!({}), 400),
        (json!({"top": 0}), 400),
        (json!({"top": 1, "step": "none"}), 400),
        (json!({"top": 1, "field": "none"}), 400),
    ] {
        client.post(&format!("/api/batches/{batch}/review"), &body).await.refused(status);
    }

    // A review that waits keeps no batch from being deleted.
    let admin = server.client("admin").await;
    let gone = admin.delete(&format!("/api/batches/{batch}")).await;
    gone.expect_ok();
    until("the reviews are gone", async || {
        let path = format!("/api/hitl/pending?batch={batch}");
        client.get(&path).await.body["pagination"]["total"] == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blind_reviewer_answers_without_the_output_and_an_equal_answer_is_no_edit() {
    let server = Server::start();
    let client = server.client("operator").await;
    let reviewer = server.client("reviewer").await;
    let template = published(&client, "1.0.0", "before", false).await;
    let batch = uploaded(&client, (&template, "1.0.0"), (1..4).map(mail)).await;
    worked(&server).await;
    ended(&client, &batch).await;
    let blind = json!({"top": 3, "field": "category", "blind": true});
    assert_eq!(asked(&client, &batch, blind).await["asked"], 3);
    let held = waiting(&client, &batch).await;
    assert_eq!(reviewer.get("/api/search?q=c0").await.refused(403), "FORBIDDEN");
    for item in held.values() {
        let id = item["taskId"].as_str().expect("an id");
        let whole = reviewer.get(&format!("/api/hitl/{id}")).await.expect_ok();
        for shown in [item, &whole] {
            assert_eq!((&shown["blind"], &shown["field"]), (&json!(true), &json!("category")));
            let output: Value =
                serde_json::from_str(shown["output"].as_str().expect("a text")).expect("JSON");
            assert!(output.get("category").is_none() && output.get("urgent").is_some(), "{shown}");
            assert!(shown.get("confidence").is_none() && shown.get("summary").is_none(), "{shown}");
        }
    }
    let path = |key: &str, verb: &str| {
        format!("/api/hitl/{}/{verb}", held[key]["taskId"].as_str().expect("an id"))
    };
    assert_eq!(
        reviewer.post(&path("k1", "approve"), &json!({})).await.refused(400),
        "VALIDATION_ERROR"
    );
    let reason = json!({"reason": "unseen"});
    assert_eq!(reviewer.post(&path("k1", "reject"), &reason).await.refused(409), "INVALID_STATE");
    let answer = async |key: &str, answer: &str| {
        let body = json!({"modifiedOutput": answer});
        reviewer.post(&path(key, "approve"), &body).await.expect_ok()["wasModified"].clone()
    };
    assert_eq!(answer("k1", "c1").await, false);
    assert_eq!(answer("k2", "c1").await, true);
    assert_eq!(answer("k3", r#"{"category": "c0"}"#).await, false);
    let rows = client.get(&format!("/api/batches/{batch}/rows")).await.expect_ok();
    let decision = |row: usize| rows["rows"][row]["steps"]["sort"]["decision"].clone();
    assert_eq!(decision(1)["edit"], json!({"category": "c1", "urgent": true}));
    assert_eq!(
        (&decision(0)["edited"], &decision(0)["verdict"]),
        (&json!(false), &json!("approved"))
    );
    let path = format!("/api/hitl/{}", held["k1"]["taskId"].as_str().expect("an id"));
    let seen = reviewer.get(&path).await.expect_ok();
    assert_eq!(seen["output"], r#"{"category":"c1","urgent":false}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correction_stands_in_the_row_and_in_the_export_and_measures_the_batch() {
    let server = Server::start();
    let client = Client::new(&server.url, &server.key("operator").await);
    let template = published(&client, "1.0.0", "before", true).await;
    let batch = uploaded(&client, (&template, "1.0.0"), (1..2).map(mail)).await;
    worked(&server).await;
    until("it waits", async || waiting(&client, &batch).await.len() == 1).await;
    let held = waiting(&client, &batch).await;
    let id = held["k1"]["taskId"].as_str().expect("an id").to_owned();
    let post = async |verb: &str, body: Value| {
        client.post(&format!("/api/hitl/{id}/{verb}"), &body).await.expect_ok()
    };
    post("approve", json!({})).await;
    ended(&client, &batch).await;
    let agrees = async |query: &str| {
        let found = compared(&client, &batch, &batch, query).await;
        found["agreement"]["a"].clone()
    };
    // A comparison is kept for a while, so each asks for other fields.
    assert_eq!(agrees("").await, json!({"decided": 1, "agrees": 1}));
    assert_eq!(post("reopen", json!({"asCorrection": true})).await["corrects"], true);
    assert_eq!(
        agrees("fields=urgent").await,
        json!({"decided": 1, "agrees": 1}),
        "the first decision counts"
    );
    let right = json!({"category": "c9", "urgent": true});
    post("approve", json!({"modifiedOutput": right.to_string()})).await;
    let rows = client.get(&format!("/api/batches/{batch}/rows")).await.expect_ok();
    let row = &rows["rows"][0];
    assert_eq!((&row["status"], &row["output"]["category"]), (&json!("completed"), &json!("c1")));
    assert_eq!(row["steps"]["sort"]["decision"]["edit"], right);
    let lines = text(&client, &format!("/api/batches/{batch}/export")).await;
    assert!(lines.contains("steps.sort.decision,steps.sort.edit"), "{lines}");
    assert!(lines.contains("approved,\"{\"\"category\"\":\"\"c9\"\""), "{lines}");
    assert_eq!(agrees("fields=category").await, json!({"decided": 1, "agrees": 0}));
}
