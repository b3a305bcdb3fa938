//! Plans, executions and templates from the command line, on the real server.

use serde_json::{Value, json};

use super::program::Home;
use crate::support::{FakeWorker, Server};

/// Answers every task with its own prompt.
async fn echo(mut worker: FakeWorker) {
    while let Some(frame) = worker.next().await {
        if frame["type"] == "assign" {
            let (lease, output) = (&frame["lease"], &frame["task"]["prompt"]);
            let usage = json!({"input": 1, "output": 1});
            let answer =
                json!({"type": "complete", "lease": lease, "output": output, "usage": usage});
            if worker.try_send(answer).await.is_err() {
                return;
            }
        }
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON and nothing else")
}

#[tokio::test]
async fn a_plan_is_made_run_watched_and_shown() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let worker = FakeWorker::connect(&server, &server.key("worker").await, 2).await;
    let working = tokio::spawn(echo(worker));
    let plan = home.file(
        "plan.json",
        r#"{"name": "Two", "steps": [
            {"id": "one", "prompt": "one {{input.word}}"},
            {"id": "two", "prompt": "two {{one.output}}", "dependsOn": ["one"]}]}"#,
    );
    let made = parsed(&home.run(&["plans", "create", &plan, "-o", "json"]).await.ok());
    let id = made["id"].as_str().expect("an id");
    let run = ["plans", "execute", id, "--set", "word=hello", "--wait", "-o", "json"];
    home.run(&run).await.ok();
    let list = parsed(&home.run(&["executions", "list", "-o", "json"]).await.ok());
    let execution = list["data"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(list["data"][0]["status"], "completed");
    let shown = parsed(&home.run(&["executions", "show", &execution, "-o", "json"]).await.ok());
    assert_eq!(shown["steps"]["two"]["output"], "two one hello");
    home.run(&["executions", "watch", &execution]).await.ok();
    home.run(&["executions", "cancel", &execution]).await.failed(6);
    home.run(&["plans", "execute", id]).await.failed(5);
    working.abort();
}

#[tokio::test]
async fn a_version_of_a_template_is_published_and_deployed() {
    let server = Server::start();
    let home = Home::new(&server.url).signed_in().await;
    let file = home.file(
        "mine.yaml",
        "name: Mine\nversion: 1.0.0\nindustry: custom\ninputSchema: {type: object}\n\
         steps:\n  - id: one\n    prompt: Say hello.\n",
    );
    home.run(&["templates", "publish", &file]).await.ok();
    let deploy =
        ["templates", "deploy", "mine-v1", "--version", "1.0.0", "--dry-run", "-o", "json"];
    let would = parsed(&home.run(&deploy).await.ok());
    assert_eq!(would["status"], "dry_run");
    let missing = ["templates", "deploy", "mine-v1", "--version", "1.0.9", "--dry-run"];
    home.run(&missing).await.failed(3);
    let sample = ["templates", "deploy", "contract-review-v1", "--sample", "--dry-run"];
    assert!(home.run(&sample).await.ok().contains("analyze-risk"));
}
