//! The doctor on a server: each fault is made, and found with its cure.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::program::Home;
use crate::support::{PROGRAM, Server};

/// The findings of a doctor on this machine, with these settings, variables and shell words before it.
fn findings(settings: &str, variables: &[(&str, &str)], before: &str) -> (Vec<Value>, Output) {
    let home = tempfile::tempdir().expect("a directory");
    let config = home.path().join("c.toml");
    std::fs::write(&config, settings).expect("it is written");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before} exec \"$0\" doctor --config \"$1\" -o json"));
    command.arg(PROGRAM).arg(&config).env_clear().env("HOME", home.path());
    command.env("PATH", std::env::var_os("PATH").expect("a path"));
    let output = command.envs(variables.iter().copied()).output().expect("it runs");
    (serde_json::from_slice(&output.stdout).expect("JSON"), output)
}

/// The finding that is no `ok`, of this check; its detail and its cure must have these words.
#[track_caller]
fn assert_found(found: &[Value], check: &str, state: &str, detail: &str, advice: &str) {
    let is_it = |it: &&Value| {
        let has = |name: &str, words: &str| it[name].as_str().is_some_and(|it| it.contains(words));
        it["check"] == check
            && it["state"] == state
            && has("detail", detail)
            && has("advice", advice)
    };
    assert!(found.iter().any(|it| is_it(&it)), "{check}: {}", json!(found));
}

/// A port that nobody listens on.
fn closed_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    free.local_addr().expect("an address").port()
}

fn settings(data: &Path, listen: &str, more: &str) -> String {
    format!("[server]\nlisten = {listen:?}\ndata_dir = {:?}\n{more}", data.display().to_string())
}

#[test]
fn a_machine_without_faults_has_none_and_no_server_is_asked() {
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (found, output) = findings(&settings(data.path(), "127.0.0.1:0", ""), &[], "");
    let states: Vec<_> = found
        .iter()
        .filter(|it| it["check"] != "open files" && it["check"] != "disk" && it["check"] != "space")
        .map(|it| it["state"].clone())
        .collect();
    assert!(states.iter().all(|state| state == "ok"), "{}", json!(found));
    assert!(!found.iter().any(|it| it["check"] == "reachable"), "{}", json!(found));
    assert!(output.status.code().is_some_and(|code| code <= 1), "{output:?}");
}

#[test]
fn wrong_settings_are_named_with_their_line() {
    let (found, output) = findings("[server]\nlisten = \"nowhere\"\n", &[], "");
    assert_found(&found, "settings", "fail", "c.toml line 2", "callboard serve --init");
    assert_eq!(output.status.code(), Some(1));
    let data = tempfile::tempdir().expect("a directory");
    let variables = [("CALLBOARD_RETENTION_ENDED", "1d")];
    let (found, _) = findings(&settings(data.path(), "127.0.0.1:0", ""), &variables, "");
    assert_found(&found, "settings", "warn", "CALLBOARD_RETENTION__ENDED is one", "variable");
}

#[test]
fn a_port_in_use_and_a_limit_of_files_that_is_too_low_are_found() {
    let data = tempfile::tempdir().expect("a directory");
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = held.local_addr().expect("an address").to_string();
    let (found, output) = findings(&settings(data.path(), &at, ""), &[], "ulimit -n 300;");
    let port = format!("{at} is in use by another program");
    assert_found(&found, "port", "fail", &port, "ss -ltnp");
    assert_found(&found, "open files", "warn", "is 300: 225 connections", "LimitNOFILE");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_disk_that_keeps_nothing_does_not_sync_or_cannot_be_written_is_found() {
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let (found, _) = findings(&settings(memory.path(), "127.0.0.1:0", ""), &[], "");
    assert_found(&found, "disk", "warn", "is on tmpfs", "mount a volume");

    // A library that turns syncs off, as libeatmydata does.
    let data = tempfile::tempdir().expect("a directory");
    let (source, library) = (data.path().join("eat.c"), data.path().join("eat.so"));
    std::fs::write(&source, "int fdatasync(int f) { return 0; } int fsync(int f) { return 0; }")
        .expect("it is written");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().expect("cc runs").success());
    let library = library.display().to_string();
    let of = settings(data.path(), "127.0.0.1:0", "");
    let before = format!("export LD_PRELOAD={library};");
    let (found, output) = findings(&of, &[], &before);
    assert_found(&found, "sync", "fail", "syncs are turned off", "LD_PRELOAD");
    assert_eq!(output.status.code(), Some(1));

    // A file where the directory should be.
    let of = settings(Path::new("/proc/self/fd"), "127.0.0.1:0", "");
    let (found, _) = findings(&of, &[], "");
    assert_found(&found, "sync", "fail", "cannot be written", "");
}

#[tokio::test]
async fn a_running_server_is_asked_and_a_clock_behind_its_data_is_found() {
    let server = Server::start();
    let at = server.url.trim_start_matches("http://");
    let data = server.data();
    let (found, _) = findings(&settings(&data, at, ""), &[], "");
    let files = found.iter().find(|it| it["check"] == "open files").expect("it is checked");
    assert!(files["detail"].to_string().contains("the server's limit is"), "{files}");
    let reached = found.iter().find(|it| it["check"] == "reachable").expect("it is asked");
    assert_eq!(reached["state"], "ok");
    let port = found.iter().find(|it| it["check"] == "port").expect("it is checked");
    assert_eq!(
        (&port["state"], port["detail"].to_string().contains("in use")),
        (&json!("ok"), true)
    );

    let file = std::fs::File::options().write(true).open(data.join("store/callboard-format"));
    let tomorrow = SystemTime::now() + Duration::from_hours(24);
    file.and_then(|file| file.set_modified(tomorrow)).expect("its time can be set");
    let (found, _) = findings(&settings(&data, at, ""), &[], "");
    assert_found(&found, "clock", "fail", "the clock is wrong", "NTP");
}

/// Answers each request for an identity provider's metadata, an hour ahead.
fn ahead(listener: &TcpListener) {
    let issuer = format!("http://{}", listener.local_addr().expect("an address"));
    let body = json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/a"),
        "token_endpoint": format!("{issuer}/t"), "jwks_uri": format!("{issuer}/k"),
    });
    let body = body.to_string();
    let at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&at);
    let date = date.expect("a date");
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let mut read = [0; 4096];
        let length = stream.read(&mut read).unwrap_or(0);
        assert!(length > 0, "the doctor sends a request");
        let length = body.len();
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\ndate: {date}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
    }
}

#[test]
fn services_that_do_not_answer_and_a_clock_beside_theirs_are_found() {
    let data = tempfile::tempdir().expect("a directory");
    let port = closed_port();
    let more = format!(
        "[smtp]\nhost = \"127.0.0.1\"\nport = {port}\ntls = \"none\"\nfrom = \"c@example.com\"\n\
         [oidc]\nissuer = \"http://127.0.0.1:{port}\"\nclient_id = \"c\"\ndefault_role = \"viewer\"\n\
         [tls]\ncert = \"/absent.crt\"\nkey = \"/absent.key\"\n"
    );
    let (found, output) = findings(&settings(data.path(), "127.0.0.1:0", &more), &[], "");
    assert_found(&found, "mail", "fail", &format!("127.0.0.1:{port}"), "[smtp] host, port");
    assert_found(&found, "sign-on", "fail", &format!("http://127.0.0.1:{port}"), "[oidc] issuer");
    assert_found(&found, "certificate", "fail", "/absent.crt", "[tls] cert and key");
    assert_eq!(output.status.code(), Some(1));

    let provider = TcpListener::bind("127.0.0.1:0").expect("a port");
    let issuer = format!("http://{}", provider.local_addr().expect("an address"));
    std::thread::spawn(move || ahead(&provider));
    let more =
        format!("[oidc]\nissuer = {issuer:?}\nclient_id = \"c\"\ndefault_role = \"viewer\"\n");
    let (found, _) = findings(&settings(data.path(), "127.0.0.1:0", &more), &[], "");
    assert_found(&found, "clock", "warn", "s behind that of http://127.0.0.1", "NTP");
}

#[tokio::test]
async fn a_key_of_the_wrong_kind_is_named() {
    let server = Server::start();
    let worker = server.key("worker").await;
    let home = Home::new(&server.url).with_key(&worker);
    let ended = home.run(&["doctor", "-o", "json"]).await;
    let found: Vec<Value> = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_found(&found, "key", "fail", "a worker's", "keys create");
    assert_ne!(ended.code, 0);
}

/// Passes requests on to `upstream`, and the body of an answer only once it is whole, as a proxy that buffers does.
fn buffering(listener: &TcpListener, upstream: &str) {
    for stream in listener.incoming() {
        let (upstream, mut down) = (upstream.to_owned(), stream.expect("a connection"));
        std::thread::spawn(move || -> std::io::Result<()> {
            let mut up = TcpStream::connect(upstream)?;
            let mut asked = Vec::new();
            while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut read = [0; 4096];
                let length = down.read(&mut read)?;
                if length == 0 {
                    return Ok(());
                }
                asked.extend_from_slice(&read[..length]);
            }
            // The answer ends with its connection.
            let text = String::from_utf8_lossy(&asked).into_owned();
            let text = text.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            up.write_all(text.as_bytes())?;
            let mut answer = Vec::new();
            up.read_to_end(&mut answer)?;
            down.write_all(&answer)
        });
    }
}

#[tokio::test]
async fn a_proxy_that_buffers_is_found() {
    let server = Server::start();
    let key = server.key("operator").await;
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", proxy.local_addr().expect("an address"));
    let upstream = server.url.trim_start_matches("http://").to_owned();
    std::thread::spawn(move || buffering(&proxy, &upstream));

    let direct = Home::new(&server.url).with_key(&key).json(&["doctor"]).await;
    let streams = direct.as_array().expect("a list").iter().find(|it| it["check"] == "streams");
    assert_eq!(streams.expect("it is checked")["state"], "ok", "{direct}");
    let through = Home::new(&url).with_key(&key).json(&["doctor"]).await;
    let found = through.as_array().expect("a list");
    assert_found(found, "streams", "warn", "a proxy in front collects answers", "proxy_buffering");
}

#[tokio::test]
async fn health_says_by_its_exit_code_whether_a_server_works() {
    let server = Server::start();
    let home = Home::new(&server.url);
    let shown = home.run(&["health"]).await.ok();
    assert!(shown.contains("database") && shown.contains("workers"), "{shown}");
    assert_eq!(home.json(&["health"]).await["components"]["database"]["status"], "ok");
    Home::new("http://127.0.0.1:9").run(&["health"]).await.failed(9);
}
