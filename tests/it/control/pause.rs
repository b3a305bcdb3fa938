//! The pause of everything, as operators see it.

use serde_json::json;

use crate::support::{Client, FakeWorker, Server, until};

#[tokio::test]
async fn an_operator_pauses_everything_and_it_is_shown_everywhere_until_it_is_resumed() {
    let mut server = Server::start();
    let (operator, viewer) = (server.client("operator").await, server.client("viewer").await);
    let worker_key = server.key("worker").await;
    let pause = json!({"reason": "costs run away"});
    assert_eq!(viewer.post("/api/system/pause", &pause).await.refused(403), "FORBIDDEN");
    let fault = operator.post("/api/system/pause", &json!({})).await.fault();
    assert_eq!(fault, ("reason".to_owned(), "required".to_owned()));
    let unknown = json!({"reason": "r", "submissions": "x"});
    let fault = operator.post("/api/system/pause", &unknown).await.fault();
    assert_eq!(fault, ("submissions".to_owned(), "enum".to_owned()));
    let before = viewer.get("/api/system/pause").await.expect_ok();
    assert_eq!(before, json!({"paused": false, "standsStill": false}));

    let paused = operator.post("/api/system/pause", &pause).await.expect_ok();
    assert_eq!((&paused["paused"], &paused["reason"]), (&json!(true), &pause["reason"]));
    let id = operator.submit(&json!({"prompt": "p"})).await;
    server.kill();
    server.restart();
    let (operator, viewer) = (operator.at(&server.url), viewer.at(&server.url));
    assert_eq!(viewer.get("/api/system/pause").await.expect_ok(), paused);
    let mut worker = FakeWorker::connect_to(&server.url, &worker_key, 1).await;
    let shown = operator.task(&id).await;
    assert_eq!((&shown["status"], &shown["waitingFor"]), (&json!("pending"), &json!("paused")));
    let anybody = Client::new(&server.url, "");
    let health = anybody.get("/health").await;
    assert_eq!((health.status.as_u16(), &health.body["status"]), (200, &json!("degraded")));
    let engine = &health.body["components"]["engine"];
    assert_eq!(engine["status"], "degraded");
    for detail in [&engine["detail"], &health.body["paused"]] {
        assert!(detail.as_str().expect("a text").ends_with(": costs run away"), "{detail}");
    }
    assert_eq!(anybody.get("/health/ready").await.status, 200);
    let metrics = viewer.request(reqwest::Method::GET, "/metrics").send().await.expect("an answer");
    let metrics = metrics.text().await.expect("a text");
    assert!(metrics.contains("\nsvc_paused 1"), "{metrics}");

    let refusing = json!({"reason": "costs run away", "submissions": "refuse"});
    operator.post("/api/system/pause", &refusing).await.expect_ok();
    let refused = operator.post("/api/tasks", &json!({"prompt": "p"})).await;
    assert_eq!(refused.refused(503), "UNAVAILABLE");
    assert_eq!(refused.headers["retry-after"], "60");
    let message = refused.body["error"]["message"].as_str().expect("a text");
    assert!(message.contains("costs run away"), "{message}");

    let resumed = operator.delete("/api/system/pause").await.expect_ok();
    assert_eq!(resumed, before);
    assert_eq!(worker.assignment().await["task"]["id"], id);
    let admin = server.admin().await;
    let log = admin.get("/api/audit?action=system.paused,system.resumed").await.expect_ok();
    let actions: Vec<_> = log.as_array().expect("a list").iter().map(|it| &it["action"]).collect();
    assert_eq!(actions, ["system.resumed", "system.paused", "system.paused"]);
    assert_eq!(log[2]["details"], json!({"reason": "costs run away", "submissions": "accept"}));
}

#[tokio::test]
async fn a_server_started_with_paused_stands_still_until_it_is_started_without() {
    let mut server = Server::start();
    let operator = server.client("operator").await;
    let id = operator.submit(&json!({"prompt": "p"})).await;
    assert!(server.terminate());
    server.flags(&["--paused"]);
    server.restart();
    let operator = operator.at(&server.url);
    let shown = operator.get("/api/system/pause").await.expect_ok();
    assert_eq!(shown, json!({"paused": true, "standsStill": true}));
    assert_eq!(operator.task(&id).await["waitingFor"], "paused");
    let resume = operator.delete("/api/system/pause").await;
    assert_eq!(resume.refused(409), "INVALID_STATE");
    let health = Client::new(&server.url, "").get("/health").await;
    assert_eq!(health.body["paused"], "paused by --paused at the start");
    assert!(server.terminate());
    server.flags(&[]);
    server.restart();
    let key = server.key("worker").await;
    let mut worker = FakeWorker::connect(&server, &key, 1).await;
    assert_eq!(worker.assignment().await["task"]["id"], id);
    until("nothing is paused", async || {
        Client::new(&server.url, "").get("/health").await.body["paused"].is_null()
    })
    .await;
}
