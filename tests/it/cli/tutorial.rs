//! docs/tutorial.md, as somebody follows it: its file is saved and its commands are run, in order.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::process::Command;

use super::program::Home;
use crate::support::{FakeWorker, Server};

/// The commands that a reader types: indented lines, but for the start of the server, and for what needs
/// a terminal.
fn commands(page: &str) -> impl Iterator<Item = &str> {
    let typed = page.lines().filter_map(|line| line.strip_prefix("    "));
    let is_run = |line: &&str| line.starts_with("callboard ") || line.starts_with("echo ");
    let is_interactive =
        |line: &&str| line.contains("auth login") || *line == "callboard hitl review";
    typed.filter(is_run).filter(move |line| !is_interactive(line))
}

#[tokio::test]
async fn the_tutorial_can_be_followed() {
    let page = include_str!("../../../docs/tutorial.md");
    let server = Server::start();
    let admin = server.admin().await;
    let key = json!({"name": "w", "role": "worker"});
    let key = admin.post("/api/auth/keys", &key).await.expect(201);
    let key = key["key"].as_str().expect("a key");
    FakeWorker::connect(&server, key, 8).await.run(|task| Ok(format!("about {}", task["stepId"])));
    let home = Home::new(&server.url).signed_in().await;
    let yaml = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next());
    home.file("announcement.yaml", yaml.expect("the page has a file"));
    let directory = home.file("final.txt", "An announcement.\n");
    let directory = Path::new(&directory).parent().expect("a directory").to_owned();

    let mut ids: HashMap<&str, String> = HashMap::new();
    let mut run = 0;
    for line in commands(page) {
        let mut line = line.to_owned();
        for (prefix, id) in &ids {
            line = line.replace(&format!("{prefix}…"), id);
        }
        if line.contains("hitl list") {
            let execution = ids["dt_exec_"].clone();
            admin.execution_when(&execution, |it| it["progress"]["awaitingApproval"] == 1).await;
        }
        if line.contains("executions watch") {
            // It ends with the execution, which waits for the review of the next section.
            line = format!("timeout 2 {line} || [ $? = 124 ]");
        }
        let program = Path::new(env!("CARGO_BIN_EXE_callboard"));
        let path = program.parent().expect("a directory").display().to_string();
        let output = Command::new("bash")
            .args(["-c", &line])
            .current_dir(&directory)
            .env("PATH", format!("{path}:/usr/bin:/bin"))
            .env("HOME", &directory)
            .env("XDG_CONFIG_HOME", directory.join("config"))
            .env("CALLBOARD_SERVER", &server.url)
            .stdin(Stdio::null())
            .output()
            .await
            .expect("bash runs");
        let (said, noted) =
            [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it)).into();
        assert!(output.status.success(), "{line}\n{said}{noted}");
        for word in said.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            for prefix in ["dt_exec_", "dt_task_"] {
                if word.starts_with(prefix) && word.len() == prefix.len() + 26 {
                    ids.entry(prefix).or_insert_with(|| word.to_owned());
                }
            }
        }
        run += 1;
    }
    assert!(run >= 10, "the page's commands are found: {run}");
    let execution = admin.execution(&ids["dt_exec_"]).await;
    assert_eq!(execution["status"], "completed", "{execution:#}");
    assert_eq!(execution["steps"]["final"]["output"], "An announcement.\n");
}
