//! `callboard dev` as a user starts it: the command line is signed in meanwhile.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use super::program::{Home, mode};
use crate::support::Server;

/// A running `callboard dev`, and its address.
async fn dev(home: &Home, directory: &str) -> (Child, String) {
    let arguments = [
        "dev",
        "--simulated",
        "--first-prompt",
        "",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        directory,
    ];
    let mut child =
        home.command(&arguments).env_remove("CALLBOARD_SERVER").spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut url = String::new();
    // The last line of the greeting.
    loop {
        let line = lines.next_line().await.expect("text").expect("it greets");
        if let Some(address) = line.strip_prefix("listening on ") {
            address.clone_into(&mut url);
        }
        if line.trim_start().starts_with("signed in ") {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return (child, url);
        }
    }
}

async fn stop(mut child: Child) {
    let id = child.id().expect("it runs").to_string();
    let sent = tokio::process::Command::new("kill").args(["-TERM", &id]).status().await;
    assert!(sent.expect("kill runs").success());
    assert!(child.wait().await.expect("it ends").success());
}

/// Runs a command with no variable that names a server or a key.
async fn run(home: &Home, arguments: &[&str]) -> (Option<i32>, String) {
    let output = home.command(arguments).env_remove("CALLBOARD_SERVER").output().await;
    let output = output.expect("it runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn stored(home: &Home) -> Value {
    let text = std::fs::read(home.credentials()).expect("logins");
    serde_json::from_slice(&text).expect("JSON")
}

#[tokio::test]
async fn the_next_command_works_without_any_variable_and_other_logins_stay() {
    let other = Server::start();
    let home = Home::new(&other.url).signed_in().await;
    let before = stored(&home);
    let data = tempfile::tempdir().expect("a directory");
    let directory = data.path().join("data").display().to_string();
    // The second start finds the admin of the first.
    for _ in 0..2 {
        let (child, url) = dev(&home, &directory).await;
        assert_eq!(mode(&home.credentials()), 0o600);
        let (code, text) = run(&home, &["tasks", "submit", "Say hello.", "--wait"]).await;
        assert_eq!(code, Some(0), "{text}");
        let (code, text) = run(&home, &["users", "list", "-o", "json"]).await;
        assert_eq!(code, Some(0), "an admin may: {text}");
        let logins = stored(&home);
        assert_eq!(logins["logins"][&*other.url], before["logins"][&*other.url]);
        assert_eq!(logins["current"], *url);
        let (code, text) = run(&home, &["tasks", "list", "--server", &other.url]).await;
        assert_eq!(code, Some(0), "{text}");
        stop(child).await;
        assert_eq!(stored(&home), before, "as before");
    }
    let (code, text) = run(&home, &["tasks", "list"]).await;
    assert_eq!(code, Some(0), "the server of before is the usual one: {text}");
}

/// A line without what differs from run to run: addresses, paths, ids, passwords, the model's part.
fn skeleton(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let is_hexadecimal = word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit());
        match word {
            _ if word.starts_with("http://") => "URL",
            _ if word.contains('/') => "PATH",
            _ if word.starts_with("dt_task_") => "ID",
            _ if is_hexadecimal || word.ends_with('…') => "SECRET",
            word => word,
        }
    });
    let words: Vec<_> = words.collect();
    if words.first() == Some(&"model") { "model".to_owned() } else { words.join(" ") }
}

/// The greeting and the commands to go on with, without the model's answer between them.
fn frame<'l>(lines: impl Iterator<Item = &'l str>) -> Vec<String> {
    let mut is_answer = false;
    let mut kept = Vec::new();
    for line in lines.map(str::trim).skip_while(|line| !line.starts_with("listening on ")) {
        is_answer &= !line.starts_with("again,");
        if !is_answer && !line.is_empty() {
            kept.push(skeleton(line));
        }
        is_answer |= line.ends_with(": completed");
        if line.ends_with("--wait") {
            break;
        }
    }
    kept
}

#[tokio::test]
async fn the_readme_shows_the_lines_that_dev_prints() {
    let home = Home::new("http://127.0.0.1:9");
    let data = tempfile::tempdir().expect("a directory");
    let directory = data.path().join("data").display().to_string();
    let arguments = ["dev", "--simulated", "--listen", "127.0.0.1:0", "--data-dir", &directory];
    let mut child =
        home.command(&arguments).env_remove("CALLBOARD_SERVER").spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut printed = Vec::new();
    while let Some(line) = lines.next_line().await.expect("text") {
        let is_last = line.ends_with("--wait");
        printed.push(line);
        if is_last {
            break;
        }
    }
    stop(child).await;
    let readme = include_str!("../../../README.md");
    assert_eq!(frame(readme.lines()), frame(printed.iter().map(String::as_str)));
}
