//! The latest version can be set, a version can be retired, and its runs are found and cancelled.

use serde_json::{Value, json};

use super::{template, user};
use crate::support::{Client, Server, until};

const PATH: &str = "/api/templates/say-it-v1";

async fn deploy(client: &Client, body: &Value) -> crate::support::Answer {
    let mut whole = json!({"input": {"what": "x"}});
    whole.as_object_mut().expect("an object").extend(body.as_object().expect("one").clone());
    client.post(&format!("{PATH}/deploy"), &whole).await
}

/// The version that a deploy takes.
async fn deployed(client: &Client) -> String {
    let made = deploy(client, &json!({})).await.expect(201);
    made["templateVersion"].as_str().expect("a version").to_owned()
}

async fn retire(client: &Client, version: &str, retired: bool) -> crate::support::Answer {
    let change = json!({"version": version, "retired": retired});
    client.send(client.request(reqwest::Method::PATCH, PATH).json(&change)).await
}

async fn set_latest(client: &Client, version: &str) -> crate::support::Answer {
    let path = format!("{PATH}/latest");
    let body = json!({"version": version});
    client.send(client.request(reqwest::Method::PUT, &path).json(&body)).await
}

#[tokio::test]
async fn deploys_follow_the_version_that_was_set_and_take_no_retired_one() {
    let mut server = Server::start();
    let ada = user(&server, "ada@example.com", "operator").await;
    let eve = user(&server, "eve@example.com", "operator").await;
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        ada.post("/api/templates", &template("Say it", version)).await.expect(201);
    }
    assert_eq!(deployed(&ada).await, "1.2.0");
    assert_eq!(set_latest(&eve, "1.0.0").await.refused(403), "FORBIDDEN");
    assert_eq!(set_latest(&ada, "9.0.0").await.refused(404), "NOT_FOUND");
    assert_eq!(set_latest(&ada, "one").await.fault(), ("version".into(), "pattern".into()));
    let set = set_latest(&ada, "1.0.0").await.expect_ok();
    assert_eq!(
        (&set["version"], &set["latest"], &set["latestSet"]),
        (&json!("1.0.0"), &json!(true), &json!(true))
    );
    assert_eq!(deployed(&ada).await, "1.0.0");
    // A higher version changes nothing.
    ada.post("/api/templates", &template("Say it", "1.3.0")).await.expect(201);
    assert_eq!(deployed(&ada).await, "1.0.0");
    assert_eq!(ada.get(PATH).await.expect_ok()["version"], "1.0.0");
    let listed = ada.get("/api/templates?search=Say%20it").await.expect_ok();
    assert_eq!(listed[0]["version"], "1.0.0");

    let plan = deploy(&ada, &json!({"version": "1.3.0"})).await.expect(201);
    let retired = retire(&ada, "1.3.0", true).await.expect_ok();
    assert!(retired["retiredAt"].is_string() && retired["latest"] == false, "{retired}");
    assert_eq!(set_latest(&ada, "1.3.0").await.refused(409), "INVALID_STATE");
    let mut ada = ada;
    for round in 0..2 {
        if round == 1 {
            server.kill();
            server.restart();
            ada = ada.at(&server.url);
        }
        let refused = deploy(&ada, &json!({"version": "1.3.0"})).await;
        assert_eq!(refused.refused(409), "INVALID_STATE");
        let says = refused.body["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(says.contains("retired") && says.contains("1.0.0 can be deployed"), "{says}");
        let path = format!("/api/plans/{}/execute", plan["planId"].as_str().expect("an id"));
        let again = ada.post(&path, &json!({"input": {"what": "x"}})).await;
        assert_eq!(again.refused(409), "INVALID_STATE");
        assert_eq!(deployed(&ada).await, "1.0.0");
    }
    // The highest one in use.
    let latest = ada.delete(&format!("{PATH}/latest")).await.expect_ok();
    assert_eq!((&latest["version"], latest.get("latestSet")), (&json!("1.2.0"), None));
    assert_eq!(deployed(&ada).await, "1.2.0");
    retire(&ada, "1.3.0", false).await.expect_ok();
    assert_eq!(deployed(&ada).await, "1.3.0");
    let versions = ada.get(&format!("{PATH}/versions")).await.expect_ok();
    let latest: Vec<_> =
        versions.as_array().expect("a list").iter().map(|it| &it["latest"]).collect();
    assert_eq!(latest, [true, false, false, false]);
    let admin = server.admin().await;
    for (action, count) in
        [("template.latest_set", 2), ("template.retired", 1), ("template.restored", 1)]
    {
        let entries = admin.get(&format!("/api/audit?action={action}")).await.expect_ok();
        assert_eq!(entries.as_array().map(Vec::len), Some(count), "{action}");
        assert_eq!(entries[0]["target"], "say-it-v1");
    }
    // A deletion forgets the choice.
    retire(&ada, "1.2.0", true).await.expect_ok();
    for execution in
        ada.get("/api/plans/executions?limit=100").await.expect_ok().as_array().expect("a list")
    {
        let path = format!("/api/plans/executions/{}", execution["id"].as_str().expect("an id"));
        ada.delete(&path).await.expect_ok();
    }
    ada.delete(&format!("{PATH}?version=1.2.0")).await.expect_ok();
    ada.post("/api/templates", &template("Say it", "1.2.0")).await.expect(201);
    deploy(&ada, &json!({"version": "1.2.0"})).await.expect(201);
}

#[tokio::test]
async fn the_runs_of_a_version_are_listed_and_cancelled_together() {
    let server = Server::start();
    let operator = server.client("operator").await;
    for version in ["1.0.0", "1.1.0"] {
        operator.post("/api/templates", &template("Say it", version)).await.expect(201);
        for _ in 0..3 {
            deploy(&operator, &json!({"version": version})).await.expect(201);
        }
    }
    let listed = async |query: &str| {
        let path = format!("/api/plans/executions?templateId=say-it-v1&{query}");
        operator.get(&path).await.body["pagination"]["total"].as_u64()
    };
    assert_eq!(listed("version=1.1.0").await, Some(3));
    let page = operator.get("/api/plans/executions?templateId=say-it-v1&version=1.1.0").await;
    assert_eq!(page.expect_ok()[0]["templateVersion"], "1.1.0");
    assert_eq!(listed("").await, Some(6));
    let fault = operator.get("/api/plans/executions?version=1.1.0").await.fault();
    assert_eq!(fault, ("templateId".into(), "required".into()));

    let filter = json!({"templateId": "say-it-v1", "version": "1.1.0"});
    let tasks = json!({"action": "cancel", "filter": filter});
    assert_eq!(operator.post("/api/bulk", &tasks).await.fault().0, "filter");
    let order = json!({"action": "cancel", "of": "executions", "filter": filter, "expect": 3});
    let job = operator.post("/api/bulk", &order).await.expect_ok();
    let path = format!("/api/bulk/{}", job["id"].as_str().expect("an id"));
    until("the job ends", async || operator.get(&path).await.expect_ok()["status"] == "completed")
        .await;
    let job = operator.get(&path).await.expect_ok();
    assert_eq!((&job["succeeded"], &job["of"]), (&json!(3), &json!("executions")), "{job}");
    assert_eq!(listed("version=1.1.0&status=cancelled").await, Some(3));
    assert_eq!(listed("version=1.0.0&status=running").await, Some(3));
    for (body, field) in [
        (json!({"action": "reject", "of": "all", "reason": "r", "filter": {"tags": ["a"]}}), "of"),
        (json!({"action": "cancel", "of": "executions", "filter": {"queue": "q"}}), "filter"),
        (json!({"action": "cancel", "of": "executions", "filter": {"version": "1.0.0"}}), "filter"),
    ] {
        assert_eq!(operator.post("/api/bulk", &body).await.fault().0, field, "{body}");
    }
}
