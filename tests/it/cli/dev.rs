//! `callboard dev` as a user starts it: the command line is signed in meanwhile.

use std::fs::OpenOptions;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use super::program::{Home, mode};
use crate::support::{Server, credentials, until};

/// A running `callboard dev`, and its address.
async fn dev(home: &Home, directory: &str) -> (Child, String) {
    dev_with(home, directory, "0").await
}

/// The same with a model that takes so many milliseconds to answer.
async fn dev_with(home: &Home, directory: &str, delay: &str) -> (Child, String) {
    let arguments = [
        "dev",
        "--simulated",
        "--simulated-delay",
        delay,
        "--first-prompt",
        "",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        directory,
    ];
    let mut command = home.command(&arguments);
    if credentials::are_searched() {
        let log = OpenOptions::new().create(true).append(true).open(format!("{directory}.log"));
        command.env("CALLBOARD_LOG", "trace").stderr(log.expect("a file"));
    }
    let mut child = command.env_remove("CALLBOARD_SERVER").spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut url = String::new();
    // The last line of the greeting.
    loop {
        let line = lines.next_line().await.expect("text").expect("it greets");
        if let Some(address) = line.strip_prefix("listening on ") {
            address.clone_into(&mut url);
        }
        if line.trim_start().starts_with("signed in ") {
            home.keep_logins();
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return (child, url);
        }
    }
}

async fn signal(child: &Child, name: &str) {
    let id = child.id().expect("it runs").to_string();
    let sent = tokio::process::Command::new("kill").args([name, &id]).status().await;
    assert!(sent.expect("kill runs").success());
}

/// The id of a task that is running.
async fn running(home: &Home, prompt: &str) -> String {
    let (code, text) = run(home, &["tasks", "submit", prompt, "-o", "json"]).await;
    assert_eq!(code, Some(0), "{text}");
    // A warning that no worker is there yet may follow.
    let task = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next();
    let task = task.expect("a task").expect("JSON");
    let id = task["id"].as_str().expect("an id").to_owned();
    until("it runs", async || run(home, &["tasks", "show", &id]).await.1.contains("running")).await;
    id
}

async fn stop(mut child: Child) {
    signal(&child, "-TERM").await;
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
    credentials::assert_none_in(&[data.path()]);
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
        is_answer &= !line.starts_with("next,");
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

#[tokio::test]
async fn a_running_task_is_delivered_before_the_server_goes() {
    let home = Home::new("");
    let data = tempfile::tempdir().expect("a directory");
    let directory = data.path().join("data").display().to_string();
    let (child, _) = dev_with(&home, &directory, "1500").await;
    let task = running(&home, "Say hello.").await;
    let begun = Instant::now();
    stop(child).await;
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let (child, _) = dev(&home, &directory).await;
    let (_, shown) = run(&home, &["tasks", "show", &task]).await;
    assert!(shown.contains("completed") && shown.contains("simulated answer"), "{shown}");
    assert!(shown.contains("attempt     1"), "{shown}");
    stop(child).await;
    credentials::assert_none_in(&[data.path()]);
}

#[tokio::test]
async fn on_the_directory_of_another_server_it_makes_its_keys_and_names_no_password() {
    let home = Home::new("");
    let mut server = Server::start();
    assert!(server.terminate());
    let directory = server.data().display().to_string();
    for keys in [None, Some(r#"{"apiKey":"svc_live_gone","workerKey":"svc_live_gone"}"#)] {
        let file = server.data().join("dev-keys.json");
        if let Some(keys) = keys {
            std::fs::write(&file, keys).expect("it is written");
        }
        let arguments = ["dev", "--simulated", "--listen", "127.0.0.1:0", "--data-dir", &directory];
        let mut command =
            home.command(&[&arguments[..], &["--first-prompt", "Say hello."]].concat());
        let mut child = command.env_remove("CALLBOARD_SERVER").spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // The worker has its key: it runs the first task.
        let mut shown = Vec::new();
        while !shown.last().is_some_and(|line: &String| line.contains(": completed")) {
            shown.push(lines.next_line().await.expect("text").expect("it goes on"));
        }
        assert!(shown.iter().all(|line| !line.contains("password")), "{shown:#?}");
        stop(child).await;
        assert_eq!(mode(&file), 0o600);
    }
}

#[tokio::test]
async fn a_second_interrupt_ends_at_once() {
    let home = Home::new("");
    let data = tempfile::tempdir().expect("a directory");
    let directory = data.path().join("data").display().to_string();
    let (mut child, _) = dev_with(&home, &directory, "60000").await;
    running(&home, "Say hello.").await;
    signal(&child, "-INT").await;
    // A script passes the first one on: still the first.
    signal(&child, "-TERM").await;
    until("it stops", async || run(&home, &["tasks", "list"]).await.0 != Some(0)).await;
    assert_eq!(child.try_wait().expect("it is ours"), None, "the task has its time");
    signal(&child, "-INT").await;
    let ended = tokio::time::timeout(Duration::from_secs(10), child.wait()).await;
    assert_eq!(ended.expect("in time").expect("it ends").code(), Some(130));
    credentials::assert_none_in(&[data.path()]);
}
