//! Events and texts on the command line, as they come.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::program::Home;
use crate::support::{FakeWorker, Server};

#[tokio::test]
async fn events_are_followed_one_a_line() {
    let server = Server::start();
    let client = server.client("operator").await;
    let viewer = Home::new(&server.url).with_key(&server.key("viewer").await);
    let first = client.submit(&json!({"prompt": "p"})).await;
    // From the first place on, so that nothing depends on when the program connects.
    let follow = ["events", "follow", "--events", "task.created", "--after", "e3f", "-o", "jsonl"];
    let mut program = viewer.command(&follow).spawn().expect("it starts");
    let mut lines = BufReader::new(program.stdout.take().expect("it is piped")).lines();
    let second = client.submit(&json!({"prompt": "p"})).await;
    for id in [first, second] {
        let line = lines.next_line().await.expect("a line").expect("it goes on");
        let event: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(
            (&event["event"], &event["resource"]["id"]),
            (&json!("task.created"), &json!(id))
        );
    }
    let unknown = viewer.run(&["events", "follow", "--events", "task.done"]).await.failed(5);
    assert!(unknown.contains("task.completed"), "{unknown}");
    Home::new(&server.url).run(&["events", "follow"]).await.failed(4);
}

#[tokio::test]
async fn a_submitted_text_is_printed_as_it_comes() {
    let server = Server::start();
    let operator = Home::new(&server.url).with_key(&server.key("operator").await);
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 1).await;
    let submit = operator.command(&["tasks", "submit", "p", "--stream"]).output();
    let run = async {
        let first = worker.assignment().await;
        worker.send(json!({"type": "delta", "lease": first["lease"], "text": "void"})).await;
        let error = json!({"code": "PROVIDER_ERROR", "message": "busy"});
        let lease = &first["lease"];
        worker
            .send(json!({"type": "fail", "lease": lease, "retryable": true, "error": error}))
            .await;
        let second = worker.assignment_while_beating().await;
        for text in ["go", "od"] {
            worker.send(json!({"type": "delta", "lease": second["lease"], "text": text})).await;
        }
        worker.complete(&second["lease"], "good").await;
    };
    let (ended, ()) = tokio::join!(submit, run);
    let ended = ended.expect("it runs");
    let (out, err) =
        (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{err}");
    assert_eq!(out, "void\ngood\n");
    assert!(err.contains("another attempt begins"), "{err}");
}
