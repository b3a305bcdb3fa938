//! Real proxies between a client and the server: nginx in front of streams.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use flate2::read::GzDecoder;
use reqwest::Method;
use serde_json::json;
use tokio::time::timeout;

use crate::support::{Client, FakeWorker, Server, until};

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
    _dir: tempfile::TempDir,
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

    async fn started(mut command: Command, dir: tempfile::TempDir, port: u16) -> Self {
        let child = command.stdin(Stdio::null()).spawn().expect("the proxy starts");
        let proxy = Self { child, url: format!("http://127.0.0.1:{port}"), _dir: dir };
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
