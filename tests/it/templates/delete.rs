//! Templates that are deleted: by whom, when not, and what stays.

use serde_json::{Value, json};

use super::{template, user};
use crate::support::{Client, FakeWorker, Server};

const PATH: &str = "/api/templates/say-it-v1";

/// The version numbers that `client` sees.
async fn versions(client: &Client) -> Vec<String> {
    let answer = client.get(&format!("{PATH}/versions")).await;
    if answer.status == 404 {
        return Vec::new();
    }
    let versions = answer.expect_ok();
    let number = |version: &Value| version["version"].as_str().expect("a text").to_owned();
    versions.as_array().expect("a list").iter().map(number).collect()
}

#[tokio::test]
async fn its_author_and_admins_delete_a_template_or_a_version_of_it() {
    let mut server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    let eve = user(&server, "eve@example.com", "operator").await;
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        ada.post("/api/templates", &template("Say it", version)).await.expect(201);
    }
    assert_eq!(eve.delete(PATH).await.refused(403), "FORBIDDEN");
    let built_in = "/api/templates/due-diligence-v1";
    assert_eq!(server.admin().await.delete(built_in).await.refused(403), "FORBIDDEN");
    assert_eq!(ada.delete("/api/templates/nothing-v1").await.refused(404), "NOT_FOUND");
    assert_eq!(ada.delete(&format!("{PATH}?version=9.0.0")).await.refused(404), "NOT_FOUND");
    let fault = ada.delete(&format!("{PATH}?version=one")).await.fault();
    assert_eq!(fault, ("version".to_owned(), "pattern".to_owned()));
    server.client("viewer").await.delete(PATH).await.refused(403);

    let gone = ada.delete(&format!("{PATH}?version=1.2.0")).await.expect_ok();
    assert_eq!(gone, json!({"id": "say-it-v1", "versions": ["1.2.0"]}));
    assert_eq!(versions(&eve).await, ["1.1.0", "1.0.0"]);
    // A version never changes, deleted or not; the same content may come back.
    let mut other = template("Say it", "1.2.0");
    other["description"] = json!("Other.");
    assert_eq!(ada.post("/api/templates", &other).await.refused(409), "VERSION_EXISTS");
    ada.post("/api/templates", &template("Say it", "1.2.0")).await.expect(201);
    assert_eq!(versions(&eve).await, ["1.2.0", "1.1.0", "1.0.0"]);

    // The author is who made the first version, also when that is deleted.
    ada.delete(&format!("{PATH}?version=1.0.0")).await.expect_ok();
    server.kill();
    server.restart();
    let (ada, eve) = (ada.at(&server.url), eve.at(&server.url));
    assert_eq!(versions(&ada).await, ["1.2.0", "1.1.0"]);
    assert_eq!(eve.delete(PATH).await.refused(403), "FORBIDDEN");
    let admin = server.admin().await;
    let gone = admin.delete(PATH).await.expect_ok();
    assert_eq!(gone["versions"], json!(["1.2.0", "1.1.0"]));
    assert_eq!(ada.get(PATH).await.refused(404), "NOT_FOUND");
    assert_eq!(ada.get("/api/templates?search=Say%20it").await.body["pagination"]["total"], 0);
    let entries = admin.get("/api/audit?action=template.deleted").await.expect_ok();
    let entry = &entries[0];
    assert_eq!(
        (&entry["target"], entries.as_array().map(Vec::len)),
        (&json!("say-it-v1"), Some(3))
    );
    // The name is free.
    let made = eve.post("/api/templates", &template("Say it", "1.3.0")).await.expect(201);
    assert_eq!(made["author"], "eve@example.com");
}

#[tokio::test]
async fn what_runs_bars_a_deletion_and_what_has_run_keeps_what_it_ran() {
    let mut server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    for version in ["1.0.0", "1.1.0"] {
        ada.post("/api/templates", &template("Say it", version)).await.expect(201);
    }
    let body = json!({"input": {"what": "hi"}, "version": "1.0.0"});
    let begun = ada.post(&format!("{PATH}/deploy"), &body).await.expect(201);
    let text = |name: &str| begun[name].as_str().expect("a text").to_owned();
    let (execution, plan) = (text("id"), text("planId"));
    for path in [PATH.to_owned(), format!("{PATH}?version=1.0.0")] {
        let answer = ada.delete(&path).await;
        assert_eq!(answer.refused(409), "INVALID_STATE");
        let message = answer.body["error"]["message"].as_str().expect("a text");
        assert!(message.contains(&execution), "{message}");
    }
    assert_eq!(versions(&ada).await, ["1.1.0", "1.0.0"]);
    ada.delete(&format!("{PATH}?version=1.1.0")).await.expect_ok();

    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    worker.run(|task| Ok(task["prompt"].as_str().unwrap_or_default().to_owned()));
    ada.execution_with_status(&execution, "completed").await;
    ada.delete(PATH).await.expect_ok();
    for _ in 0..2 {
        let ada = ada.at(&server.url);
        let done = ada.execution(&execution).await;
        assert_eq!(done["steps"]["again"]["output"], "again say hi loud");
        let shown = ada.get(&format!("/api/plans/{plan}")).await.expect_ok();
        assert_eq!(shown["steps"][0]["prompt"], "say {{input.what}} {{input.how}}");
        assert_eq!(shown["templateVersion"], "1.0.0");
        server.kill();
        server.restart();
    }
    let ada = ada.at(&server.url);
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    worker.run(|task| Ok(task["prompt"].as_str().unwrap_or_default().to_owned()));
    let again = ada.execute(&plan, &json!({"input": {"what": "ho"}})).await;
    let done = ada.execution_with_status(&again, "completed").await;
    assert_eq!(done["steps"]["say"]["output"], "say ho loud");
}

#[tokio::test]
async fn an_admin_s_version_leaves_author_and_visibility() {
    let server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    let eve = user(&server, "eve@example.com", "operator").await;
    let admin = server.admin().await;
    ada.post("/api/templates", &template("Say it", "1.0.0")).await.expect(201);
    let mut silent = template("Say it", "1.1.0");
    silent.as_object_mut().expect("an object").remove("visibility");
    let added = admin.post("/api/templates", &silent).await.expect(201);
    let told = (&added["author"], &added["visibility"]);
    assert_eq!(told, (&json!("ada@example.com"), &json!("organization")));
    assert_eq!(admin.post("/api/templates", &silent).await.expect(200), added);
    assert_eq!(eve.get(PATH).await.expect_ok()["version"], "1.1.0");
    let mut other = template("Say it", "1.2.0");
    other["visibility"] = json!("public");
    assert_eq!(admin.post("/api/templates", &other).await.refused(403), "FORBIDDEN");
    ada.post("/api/templates", &other).await.expect(201);
}
