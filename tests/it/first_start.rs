//! The first start of a real server, its supervisor, and data that is newer than the program.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use callboard::cli;
use serde_json::json;

use crate::support::{FakeWorker, PROGRAM, Server, UNSET, credentials};

const NOBODY: [(&str, &str); 2] = [("ADMIN_EMAIL", UNSET), ("ADMIN_PASSWORD", UNSET)];

/// The key's file and the command of the lines behind the setup link.
fn worker_lines(server: &mut Server) -> (String, String) {
    let [setup, key, command] = std::array::from_fn(|_| server.line());
    assert!(setup.starts_with("setup at "), "{setup}");
    let path = key.strip_prefix("worker key in ").unwrap_or_else(|| panic!("{key}"));
    let command = command.strip_prefix("first worker: ").unwrap_or_else(|| panic!("{command}"));
    (path.to_owned(), command.to_owned())
}

#[tokio::test]
async fn three_lines_of_the_first_start_are_enough_for_an_admin_and_a_worker() {
    let mut server = Server::with(&NOBODY);
    let (path, command) = worker_lines(&mut server);
    assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    let words = shlex::split(&command).expect("a command");
    cli::command().try_get_matches_from(&words).expect("the program knows the command");
    assert!(command.contains(&format!("--server {} --key-file {path}", server.url)), "{command}");
    let key = fs::read_to_string(&path).expect("a key").trim().to_owned();
    credentials::keep(&key);
    FakeWorker::connect(&server, &key, 1).await;

    // Another start without an admin keeps the key that counts.
    server.kill();
    server.restart();
    worker_lines(&mut server);
    assert_eq!(fs::read_to_string(&path).expect("a key").trim(), key);
    // A file whose key counts no more is replaced.
    server.kill();
    fs::write(&path, "svc_worker_unknown\n").expect("it is written");
    server.restart();
    worker_lines(&mut server);
    let other = fs::read_to_string(&path).expect("a key").trim().to_owned();
    credentials::keep(&other);
    assert_ne!(other, key);
    FakeWorker::connect(&server, &other, 1).await;
}

/// A run of the program in a directory that ends by itself.
fn run(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(words).current_dir(directory).env("HOME", directory);
    command.output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn init_writes_a_settings_file_that_a_server_starts_with_and_replaces_none() {
    let home = tempfile::tempdir().expect("a directory");
    let words = ["serve", "--init", "--listen", "127.0.0.1:0", "--data-dir", "data"];
    let made = run(home.path(), &words);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let told = "wrote callboard.toml; start: callboard serve --config callboard.toml\n";
    assert_eq!(text(&made.stdout), told);
    assert!(!home.path().join("data").exists(), "nothing was started");
    let again = run(home.path(), &words);
    assert_eq!(again.status.code(), Some(1));
    let why = text(&again.stderr);
    assert!(why.contains("callboard.toml is there already"), "{why}");

    let mut child = Command::new(PROGRAM)
        .args(["serve", "--config", "callboard.toml"])
        .current_dir(home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    out.read_line(&mut line).expect("a line");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(line.starts_with("listening on http://127.0.0.1:"), "{line}");
    assert!(home.path().join("data/store").exists());
}

#[test]
fn the_supervisor_hears_of_the_start_of_settings_and_of_the_stop() {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_mins(1))).expect("a time");
    let hear = || {
        let mut read = [0; 256];
        let length = socket.recv(&mut read).expect("a message in time");
        text(&read[..length])
    };
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir", "data"])
        .current_dir(home.path())
        .env("NOTIFY_SOCKET", &path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let ready = hear();
    assert!(ready.starts_with("READY=1\nSTATUS=listening on http://127.0.0.1:"), "{ready}");
    let signal = |kind: &str| {
        let id = child.id().to_string();
        assert!(Command::new("kill").args([kind, &id]).status().expect("kill runs").success());
    };
    signal("-HUP");
    assert_eq!(hear(), "RELOADING=1\n");
    assert_eq!(hear(), ready);
    signal("-TERM");
    assert!(hear().starts_with("STOPPING=1\n"));
    assert!(child.wait().expect("it ends").success());
}

#[tokio::test]
async fn data_of_a_newer_program_is_refused_with_the_version_to_use() {
    let mut server = Server::start();
    let client = server.client("operator").await;
    let task = client.post("/api/tasks", &json!({"prompt": "Say hello."})).await.expect(201);
    server.kill();
    let format = server.data().join("store/callboard-format");
    let own = fs::read_to_string(&format).expect("a format");
    fs::write(&format, "5 9.8.7\n").expect("it is written");
    let data = server.data().display().to_string();
    for words in [
        ["serve", "--listen", "127.0.0.1:0", "--data-dir", &data],
        ["admin", "reset", "--data-dir", &data, "--email=a@example.com"],
    ] {
        let refused = run(server.dir.path(), &words[..]);
        let why = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{why}");
        assert!(why.contains("start callboard of version 9.8.7 or a later one"), "{why}");
        assert!(!why.contains("restore it from a backup, or name an empty one"), "{why}");
    }
    fs::write(&format, own).expect("it is written");
    server.restart();
    let id = task["id"].as_str().expect("an id");
    let kept = server.client("viewer").await.get(&format!("/api/tasks/{id}")).await.expect_ok();
    assert_eq!(kept["prompt"], "Say hello.");
}
