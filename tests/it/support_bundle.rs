//! Before an upgrade, and for a ticket: `serve --check`, and the support bundle.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{FakeWorker, PASSWORD, PROGRAM, Server};

/// A word that no bundle may have.
const MARK: &str = "Xq7Mark";

fn run(server: &Server, key: &str, args: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(args).env_clear().env("HOME", server.dir.path()).current_dir(server.dir.path());
    command.env("CALLBOARD_SERVER", &server.url).env("CALLBOARD_API_KEY", key);
    command.env("CALLBOARD_STORE__PASSWORD", format!("{MARK}-store"));
    command.env("CALLBOARD_AUTH__SIGNING_KEY", format!("{MARK}-a-signing-key-of-enough-bytes"));
    command.output().expect("it runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_support_bundle_has_what_a_ticket_needs_and_no_text_and_no_secret() {
    let server = Server::start();
    let (operator, worker) = (server.client("operator").await, server.key("worker").await);
    let marked = |of: &str| format!("{MARK} {of}");
    let task = json!({
        "prompt": marked("prompt"), "context": {"a": marked("context")}, "tags": [MARK],
        "title": marked("title"), "systemPrompt": marked("system"),
    });
    let made = operator.post("/api/tasks", &task).await;
    let id = made.expect(201)["id"].as_str().expect("an id").to_owned();
    let output = marked("output");
    let running = FakeWorker::connect_to(&server.url, &worker, 1).await;
    let running = running.run(move |_| Ok(output.clone()));
    operator.task_with_status(&id, "completed").await;
    running.abort();

    let admin = server.key("admin").await;
    let log = format!("a line\n{{\"text\": \"{admin}\"}}\nthe last line\n");
    std::fs::write(server.dir.path().join("log"), log).expect("it is ours");
    let args = ["support-bundle", "--data-dir", "data", "--log", "log", "--to", "bundle.json"];
    let done = run(&server, &admin, &args);
    assert!(done.status.success(), "{done:?}");
    let path = server.dir.path().join("bundle.json");
    let text = std::fs::read_to_string(&path).expect("it is there");
    let secret = |name: &str| std::fs::read(server.data().join(name)).expect("a secret");
    assert!(!text.contains(MARK), "{text}");
    let secrets = [admin, worker, PASSWORD.to_owned(), operator.token().to_owned()];
    for word in secrets.iter().map(String::as_str) {
        assert!(!text.contains(word), "it has {word}");
    }
    for file in ["signing.key", "webhook.secret"] {
        let words = String::from_utf8_lossy(&secret(file)).trim().to_owned();
        assert!(!text.contains(&words), "it has the {file}");
    }
    let bundle: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(bundle["server"]["health"]["version"], env!("CARGO_PKG_VERSION"), "{bundle:#}");
    assert_eq!(bundle["settings"]["retention.ended"], "30d", "{bundle:#}");
    assert!(bundle["variables"].as_array().is_some_and(|all| all.len() == 4), "{bundle:#}");
    let metrics = bundle["server"]["metrics"].to_string();
    assert!(metrics.contains("svc_store_bytes"), "{metrics}");
    assert!(bundle["checks"].as_array().is_some_and(|all| all.len() > 5), "{bundle:#}");
    assert!(bundle["store"]["bytes"]["db"].as_u64() > Some(0), "{bundle:#}");
    assert!(bundle["store"]["limits"].to_string().contains("Max open files"), "{bundle:#}");
    assert_eq!(bundle["log"][2], "the last line");
    let permitted = std::fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(permitted & 0o777, 0o600);
    // Nothing is overwritten, and a server that is down is no obstacle.
    assert!(!run(&server, "", &args).status.success());
    drop(server);
}

#[tokio::test]
async fn the_settings_and_the_data_are_checked_without_a_start() {
    let server = Server::start();
    let checked = run(&server, "", &["serve", "--check", "--data-dir", "data"]);
    let says = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{checked:?}");
    assert!(
        says.contains("every setting is known and valid") && says.contains("way back"),
        "{says}"
    );
    std::fs::write(server.dir.path().join("c.toml"), "[server]\nlisten = \"nowhere\"\n")
        .expect("ours");
    let checked = run(&server, "", &["serve", "--check", "--config", "c.toml"]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let says = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(says.contains("c.toml") && says.contains("line 2"), "{says}");
}
