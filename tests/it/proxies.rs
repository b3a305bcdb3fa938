//! Real proxies between a client and the server: nginx in front of streams, and tinyproxy on the way of a worker.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flate2::read::GzDecoder;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::timeout;

use crate::support::{Client, FakeWorker, PROGRAM, Server, until};

const PATIENCE: Duration = Duration::from_secs(30);

/// The paths of nginx and of tinyproxy.
fn installed() -> (String, String) {
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proxies/install");
    let installed = Command::new(install).stdin(Stdio::null()).output().expect("bash starts");
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let text = String::from_utf8(installed.stdout).expect("UTF-8");
    let mut lines = text.lines().map(str::to_owned);
    (lines.next().expect("nginx"), lines.next().expect("tinyproxy"))
}

/// A proxy in a process of its own. Killed when dropped.
struct Proxy {
    child: Child,
    url: String,
    dir: tempfile::TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of the loopback that is free now.
fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

impl Proxy {
    /// nginx before a server as most people set it up: with `proxy_pass` alone, and compression.
    async fn nginx(server: &str) -> Self {
        let (program, _) = installed();
        let (dir, port) = (tempfile::tempdir().expect("a directory"), free_port());
        let at = dir.path().display();
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log; events {{}}
             http {{
                 access_log off;
                 client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/f;
                 uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
                 gzip on; gzip_proxied any; gzip_types *; gzip_min_length 0;
                 server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass {server}; }} }}
             }}"
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config).expect("it is written");
        let mut command = Command::new(program);
        command.arg("-e").arg(dir.path().join("early.log")).arg("-c").arg(&file);
        Self::started(command, dir, port).await
    }

    /// A proxy of a company, which wants a user and a password.
    async fn tinyproxy() -> Self {
        let (_, program) = installed();
        let (dir, port) = (tempfile::tempdir().expect("a directory"), free_port());
        let config = format!(
            "Port {port}\nListen 127.0.0.1\nTimeout 600\nMaxClients 20\nBasicAuth ada hunter2\n\
             LogFile \"{}/log\"\nLogLevel Connect\n",
            dir.path().display()
        );
        let file = dir.path().join("tinyproxy.conf");
        std::fs::write(&file, config).expect("it is written");
        let mut command = Command::new(program);
        command.arg("-d").arg("-c").arg(&file).stdout(Stdio::null());
        Self::started(command, dir, port).await
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    async fn started(mut command: Command, dir: tempfile::TempDir, port: u16) -> Self {
        let child = command.stdin(Stdio::null()).spawn().expect("the proxy starts");
        let proxy = Self { child, url: format!("http://127.0.0.1:{port}"), dir };
        let address = (Ipv4Addr::LOCALHOST, port);
        until("the proxy listens", async || tokio::net::TcpStream::connect(address).await.is_ok())
            .await;
        proxy
    }
}

/// A stream of which the client sees bytes as they come.
struct Stream {
    response: reqwest::Response,
    bytes: Vec<u8>,
}

impl Stream {
    async fn open(client: &Client, path: &str, encoding: &str) -> Self {
        let request = client.request(Method::GET, path).header("accept-encoding", encoding);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let encoded = response.headers().contains_key("content-encoding");
        assert_eq!(encoded, encoding == "gzip", "{:?}", response.headers());
        Self { response, bytes: Vec::new() }
    }

    /// Waits until the text so far has this part.
    async fn has(&mut self, part: &str) {
        loop {
            let mut text = self.bytes.clone();
            if self.response.headers().contains_key("content-encoding") {
                text = Vec::new();
                // The stream has no end yet.
                let _ = GzDecoder::new(&*self.bytes).read_to_end(&mut text);
            }
            if String::from_utf8_lossy(&text).contains(part) {
                return;
            }
            let chunk = timeout(PATIENCE, self.response.chunk()).await;
            let chunk = chunk.unwrap_or_else(|_| panic!("{part} does not come"));
            self.bytes.extend(chunk.expect("a chunk").expect("the stream is open"));
        }
    }
}

#[tokio::test]
async fn pieces_pass_nginx_one_by_one_compressed_or_not() {
    let server = Server::start();
    let nginx = Proxy::nginx(&server.url).await;
    let client = server.client("operator").await;
    let mut worker = FakeWorker::connect(&server, &server.key("worker").await, 4).await;
    let through = client.at(&nginx.url);
    for encoding in ["identity", "gzip"] {
        let id = through.submit(&json!({"prompt": "p"})).await;
        let lease = worker.assignment().await["lease"].clone();
        let mut item = Stream::open(&through, &format!("/api/tasks/{id}/stream"), encoding).await;
        let events = "/api/events?events=task.delta";
        let mut log = Stream::open(&through, events, encoding).await;
        item.has("event: snapshot").await;
        for piece in ["first", "second"] {
            worker.send(json!({"type": "delta", "lease": lease, "text": piece})).await;
            item.has(piece).await;
            log.has(piece).await;
        }
        worker.complete(&lease, "firstsecond").await;
        item.has("event: end").await;
    }
    let asked = through.request(Method::POST, "/v1/chat/completions");
    let body = json!({"messages": [{"role": "user", "content": "x"}], "stream": true});
    let asked = tokio::spawn(asked.json(&body).send());
    let lease = worker.assignment().await["lease"].clone();
    let response = asked.await.expect("it is sent").expect("an answer");
    let mut chat = Stream { response, bytes: Vec::new() };
    worker.send(json!({"type": "delta", "lease": lease, "text": "third"})).await;
    chat.has("third").await;
    worker.complete(&lease, "third").await;
    chat.has("[DONE]").await;
}

/// The program with this proxy in its environment.
fn program(proxy: &str, except: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(PROGRAM);
    for name in ["HTTPS_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name);
    }
    command.env("HTTP_PROXY", proxy).env("NO_PROXY", except);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

#[tokio::test]
async fn a_worker_and_every_client_go_through_the_proxy_of_the_environment() {
    let server = Server::start();
    let proxy = Proxy::tinyproxy().await;
    let client = server.client("admin").await;
    let key = server.key("worker").await;
    let key_file = proxy.dir.path().join("key");
    std::fs::write(&key_file, &key).expect("it is written");
    // An address of this machine that is not taken for one: proxies are for others.
    let port = server.url.rsplit(':').next().expect("a port");
    let url = format!("http://[::ffff:127.0.0.1]:{port}");
    let with_password = proxy.url.replace("//", "//ada:hunter2@");
    let doctor = async |proxy: &str, except: &str| {
        let mut command = program(proxy, except);
        command.args(["doctor", "--server", &url, "-o", "json"]).env("CALLBOARD_API_KEY", &key);
        let home = tempfile::tempdir().expect("a directory");
        let output = command.env("HOME", home.path()).output().await.expect("it ends");
        let found: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        let of = |check: &str| {
            let found = found.iter().find(|finding| finding["check"] == check);
            found.cloned().unwrap_or_default()
        };
        (of("route"), of("reachable"))
    };

    let (route, reachable) = doctor(&with_password, "").await;
    assert_eq!(route["detail"], format!("through the proxy {}", proxy.url));
    assert_eq!(reachable["state"], "ok", "{reachable}");
    let (_, reachable) = doctor(&proxy.url, "").await;
    assert_eq!(reachable["state"], "fail");
    let advice = reachable["advice"].as_str().expect("advice");
    assert!(reachable["detail"].to_string().contains("answered 407"), "{reachable}");
    assert!(advice.contains("USER:PASSWORD") && advice.contains("NO_PROXY"), "{advice}");
    let (route, reachable) = doctor(&proxy.url, "::ffff:127.0.0.1").await;
    assert_eq!(
        (&route["detail"], &reachable["state"]),
        (&json!("direct, without a proxy"), &json!("ok"))
    );

    let worker = |proxy: &str, name: &str| {
        let mut command = program(proxy, "");
        command.args(["worker", "--server", &url, "--provider", "simulated", "--name", name]);
        command.arg("--key-file").arg(&key_file);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        command.spawn().expect("it starts")
    };
    let running = worker(&with_password, "inside");
    let is_active = async || {
        let workers = client.get("/api/workers").await.expect_ok();
        workers.as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "inside"))
    };
    until("the worker is connected", is_active).await;
    let id = client.submit(&json!({"prompt": "p"})).await;
    until("it works", async || client.task(&id).await["status"] == "completed").await;
    assert!(proxy.log().contains("CONNECT [::ffff:"), "{}", proxy.log());
    drop(running);

    let mut turned_away = worker(&proxy.url, "outside");
    let mut lines = BufReader::new(turned_away.stderr.take().expect("it is piped")).lines();
    loop {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("in time");
        let line = line.expect("UTF-8").expect("the worker goes on");
        // The digits alone may stand in the time of any line.
        if line.contains("answered 407") {
            assert!(line.contains(&proxy.url) && line.contains("USER:PASSWORD"), "{line}");
            break;
        }
    }
}
