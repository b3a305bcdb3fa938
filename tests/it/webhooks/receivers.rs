//! The receivers of the documentation, each with the published `standardwebhooks` package, against
//! hostile outputs.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Duration, Fixture};

#[path = "../../../docs/webhooks/receiver.rs"]
#[expect(dead_code, clippy::print_stdout, reason = "main is for users")]
mod receiver;

const PATIENCE: Duration = Duration::from_mins(2);
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Outputs that quoting, escaping or another encoding would change.
const HOSTILE: [&str; 10] = [
    "",
    "plain",
    "quotes \" ' ` and backslashes \\ \\\\ \\u0041 \\n",
    "</script><!-- & %00 %s {0} ${x}",
    "line\nend\r\n\ttab \u{8}\u{c}\u{b}",
    "\u{0}\u{1}\u{1f}\u{7f}\u{80}\u{9f}",
    "\u{2028}\u{2029}\u{feff}\u{200b}\u{202e}",
    "\u{1f600}\u{1f469}\u{200d}\u{1f680} e\u{301} \u{e9} \u{10ffff}\u{fffd}",
    "{\"signature\":\"sha256=0000000000000000000000000000000000000000000000000000000000000000\"}",
    "1e400 -0.0 12345678901234567890",
];

/// A receiver, and the events that it accepted.
struct Running {
    url: String,
    events: mpsc::UnboundedReceiver<Value>,
    _process: Option<Child>,
}

impl Running {
    /// A program that says its URL and then each event, one to a line.
    async fn program(mut command: Command) -> Self {
        let mut process = command
            .env("CALLBOARD_WEBHOOK_SECRET", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the receiver starts");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let url = timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("text");
        let url = url.expect("the receiver starts");
        let (accepted, events) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = accepted.send(serde_json::from_str(&line).expect("JSON"));
            }
        });
        Self { url, events, _process: Some(process) }
    }

    async fn in_rust() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (accepted, events) = mpsc::unbounded_channel();
        let accept = move |event| drop(accepted.send(event));
        let router = receiver::receiver(SECRET.to_owned(), accept);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, events, _process: None }
    }

    async fn next(&mut self) -> Value {
        timeout(PATIENCE, self.events.recv()).await.expect("in time").expect("it runs")
    }
}

/// The receivers in Python, Node.js and Rust.
async fn receivers() -> [Running; 3] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = Command::new(root.join("tests/webhooks/install"))
        .stdin(Stdio::null())
        .output()
        .await
        .expect("bash starts");
    let words = String::from_utf8_lossy(&installed.stderr).into_owned();
    assert!(installed.status.success(), "{words}");
    let paths = String::from_utf8(installed.stdout).expect("UTF-8");
    let (python, modules) = paths.trim().split_once('\n').expect("two lines");
    let scripts = root.join("docs/webhooks");
    let mut in_python = Command::new(python);
    in_python.arg(scripts.join("receiver.py")).arg("0");
    let mut in_node = Command::new("node");
    in_node.arg(scripts.join("receiver.cjs")).arg("0").env("NODE_PATH", modules);
    [Running::program(in_python).await, Running::program(in_node).await, Running::in_rust().await]
}

#[tokio::test]
async fn receivers_in_python_node_and_rust_verify_every_output() {
    let fixture = Fixture::with(&[("WEBHOOKS__SECRET", SECRET)]).await;
    for mut receiver in receivers().await {
        for output in HOSTILE {
            // A prompt is never empty; the worker answers with what follows.
            let prompt = format!("{output}.");
            let task = fixture.submit(&prompt, &receiver.url).await;
            let event = receiver.next().await;
            assert_eq!((&event["taskId"], &event["output"]), (&json!(task), &json!(prompt)));
            let delivery = fixture.delivery(&task, "delivered").await;
            assert_eq!(delivery["attempts"], 1, "{delivery}");
            let path = delivery["id"].as_str().expect("an id");
            let path = format!("/api/webhooks/deliveries/{path}/redeliver");
            fixture.operator.post(&path, &json!({})).await.expect_ok();
        }
        let last = fixture.submit("last", &receiver.url).await;
        let event = receiver.next().await;
        assert_eq!(event["taskId"], last, "what came twice is dropped");
    }
}

#[tokio::test]
async fn receivers_refuse_what_was_not_signed() {
    callboard_common::tls::install_provider();
    let http = crate::support::plain_http().build().expect("a client");
    for mut receiver in receivers().await {
        let forged = json!({"event": "task.completed", "output": "x", "signature": format!("sha256={}", "0".repeat(64))});
        for headers in [
            &[][..],
            &[
                ("webhook-id", "dlv_1"),
                ("webhook-timestamp", "1800000000"),
                ("webhook-signature", "v1,AAAA"),
            ],
        ] {
            let mut request = http.post(&receiver.url).json(&forged);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            assert_eq!(request.send().await.expect("an answer").status(), 401, "{}", receiver.url);
        }
        assert!(receiver.events.try_recv().is_err());
    }
}
