//! Mails to reviewers, against a real SMTP server (`tests/smtp/server.py`) in a process of its own.

use std::process::Stdio;
use std::time::Duration;

use callboard::config::{Config, Flags, Smtp};
use callboard::outbound::email::Email;
use callboard_domain::Timestamp;
use callboard_domain::account;
use callboard_domain::approval::MailCause;
use callboard_domain::id::{DeliveryId, ProjectId, TaskId};
use callboard_domain::task::HoldReason;
use callboard_runtime::ports::{Mailer, NotSent, ReviewerMail};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::support::{ADMIN, FakeWorker, Server, until};

const PATIENCE: Duration = Duration::from_mins(1);

/// A server for mail. Ends when this is dropped.
pub(crate) struct Post {
    pub(crate) port: u16,
    dir: tempfile::TempDir,
    _process: Child,
}

impl Post {
    /// A server with these flags.
    pub(crate) async fn with(flags: &[&str]) -> Self {
        let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/smtp");
        let installed = Command::new(scripts.join("install"))
            .stdin(Stdio::null())
            .output()
            .await
            .expect("bash starts");
        let words = String::from_utf8_lossy(&installed.stderr).into_owned();
        assert!(installed.status.success(), "{words}");
        let python = String::from_utf8_lossy(&installed.stdout).trim().to_owned();
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut process = Command::new(python)
            .arg(scripts.join("server.py"))
            .arg(dir.path())
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the python that was installed starts");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let line = timeout(PATIENCE, lines.next_line()).await.expect("in time").expect("text");
        let line = line.expect("the server starts");
        let port = line.strip_prefix("ready ").expect("it says its port");
        Self { port: port.parse().expect("a port"), dir, _process: process }
    }

    /// What it was given, once it was given something.
    pub(crate) async fn first_mails(&self) -> Vec<Value> {
        let some = async {
            loop {
                let mails = self.mails();
                if !mails.is_empty() {
                    return mails;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, some).await.expect("a mail arrives")
    }

    /// What it was given so far.
    pub(crate) fn mails(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.dir.path().join("mails")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    fn ca(&self) -> String {
        self.dir.path().join("ca.pem").display().to_string()
    }

    /// Sends one to Ann with these settings.
    async fn send(&self, settings: &[(&str, &str)]) -> Result<(), NotSent> {
        self.send_to("ann@example.com", settings).await
    }

    async fn send_to(&self, to: &str, settings: &[(&str, &str)]) -> Result<(), NotSent> {
        client(self.port, settings).send(letter(to)).await
    }
}

fn client(port: u16, settings: &[(&str, &str)]) -> Email {
    let port = port.to_string();
    let usual = [("HOST", "127.0.0.1"), ("PORT", &port), ("FROM", "callboard@example.com")];
    let variables = usual.iter().chain(settings);
    let variables =
        variables.map(|(name, value)| (format!("CALLBOARD_SMTP__{name}"), (*value).to_owned()));
    let config = Config::load(Flags::default(), variables).expect("the settings are right");
    let smtp: Smtp = config.smtp.expect("a server");
    Email::new(&smtp, "https://callboard.example.com").expect("usable")
}

fn letter(to: &str) -> ReviewerMail {
    let since = Timestamp::from_millis(1_800_000_000_000);
    ReviewerMail {
        delivery: DeliveryId::from_u128(7 << 10),
        to: account::Email::parse(to).expect("an e-mail"),
        name: "Jürgen".into(),
        project: ProjectId::DEFAULT,
        task: TaskId::from_u128(1 << 10),
        title: None,
        step: None,
        template: None,
        why: HoldReason::BelowThreshold,
        confidence: Some(0.71),
        threshold: Some(0.85),
        since,
        expires_at: since.after(Duration::from_hours(1)),
        cause: MailCause::Assigned,
    }
}

#[track_caller]
fn assert_later(sent: Result<(), NotSent>, says: &str) {
    let refused = sent.expect_err("it is not taken");
    assert!(!refused.permanent && refused.message.contains(says), "{refused:?}");
}

#[tokio::test]
async fn a_mail_arrives_over_every_kind_of_connection() {
    for (tls, encrypted) in [("none", false), ("starttls", true), ("tls", true)] {
        let post = Post::with(&["--tls", tls]).await;
        assert_eq!(post.send(&[("TLS", tls), ("CA", &post.ca())]).await, Ok(()), "{tls}");
        let mails = post.mails();
        assert_eq!(mails.len(), 1, "{tls}");
        assert_eq!(mails[0]["encrypted"], encrypted, "{tls}");
        assert_eq!(mails[0]["from"], "callboard@example.com");
        assert_eq!(mails[0]["to"], json!(["ann@example.com"]));
        let text = mails[0]["text"].as_str().expect("text");
        let id = format!("Message-ID: <{}@example.com>", DeliveryId::from_u128(7 << 10));
        let link = format!("https://callboard.example.com/review/{}", TaskId::from_u128(1 << 10));
        assert!(text.contains(&id), "{text}");
        assert!(text.contains(&link), "{text}");
    }
}

#[tokio::test]
async fn whom_an_unknown_authority_vouches_for_is_not_written_to() {
    let stranger = Post::with(&[]).await;
    for tls in ["starttls", "tls"] {
        let post = Post::with(&["--tls", tls]).await;
        assert_later(post.send(&[("TLS", tls), ("CA", &stranger.ca())]).await, "certificate");
        assert_later(post.send(&[("TLS", tls)]).await, "certificate");
        assert!(post.mails().is_empty());
    }
}

#[tokio::test]
async fn nothing_is_sent_in_the_clear_where_encryption_was_asked_for() {
    let post = Post::with(&["--tls", "none"]).await;
    assert_later(post.send(&[("TLS", "starttls"), ("CA", &post.ca())]).await, "STARTTLS");
    assert!(post.mails().is_empty());
}

#[tokio::test]
async fn a_user_signs_in_with_the_password_and_a_wrong_one_can_be_mended() {
    let post = Post::with(&["--tls", "tls", "--user", "callboard:hunter22"]).await;
    let ca = post.ca();
    let tls = [("TLS", "tls"), ("CA", &*ca)];
    let with = |password| [&tls[..], &[("USERNAME", "callboard"), ("PASSWORD", password)]].concat();
    assert_eq!(post.send(&with("hunter22")).await, Ok(()));
    assert_eq!(post.mails()[0]["user"], "callboard");
    let wrong = post.send(&with("hunter23")).await;
    assert!(!format!("{wrong:?}").contains("hunter23"));
    assert_later(wrong, "535");
    assert_later(post.send(&tls).await, "530");
    assert_eq!(post.mails().len(), 1);
}

#[tokio::test]
async fn a_password_is_never_shown() {
    let settings = [("TLS", "none"), ("USERNAME", "callboard"), ("PASSWORD", "hunter22")];
    let shown = format!("{:?}", client(25, &settings));
    assert!(!shown.contains("hunter22"), "{shown}");
}

#[tokio::test]
async fn a_recipient_whom_the_server_refuses_is_not_written_to_again() {
    let post = Post::with(&[]).await;
    let refused = post.send_to("nobody@example.com", &[("TLS", "none")]).await;
    let refused = refused.expect_err("there is no such user");
    assert!(refused.permanent, "{refused:?}");
    assert_eq!(refused.message, "permanent error (550): 5.1.1 no such user");
    let busy = post.send_to("busy@example.com", &[("TLS", "none")]).await;
    assert_later(busy, "450");
}

#[tokio::test]
async fn a_server_that_is_down_is_tried_again() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let sent = client(port, &[("TLS", "none")]).send(letter("ann@example.com")).await;
    assert_later(sent, "onnection");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up_on() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    for tls in ["none", "tls"] {
        let begun = tokio::time::Instant::now();
        let sent = client(port, &[("TLS", tls)]).send(letter("ann@example.com")).await;
        assert_later(sent, "");
        assert!(begun.elapsed() <= Duration::from_secs(31), "{tls}");
    }
    drop(listener);
}

/// A server that sends its mails to this port of the machine.
fn server(port: u16) -> Server {
    let port = port.to_string();
    Server::with(&[
        ("SMTP__HOST", "127.0.0.1"),
        ("SMTP__PORT", &port),
        ("SMTP__TLS", "none"),
        ("SMTP__FROM", "callboard@example.com"),
    ])
}

/// A task whose output waits for a reviewer, who is notified by mail.
async fn held(server: &Server) -> String {
    let hitl = json!({"required": true, "notifyChannels": ["email"]});
    let task = json!({"prompt": "the secret question", "hitl": hitl});
    let client = server.client("operator").await;
    let id = client.submit(&task).await;
    let mut worker = FakeWorker::connect(server, &server.key("worker").await, 1).await;
    let given = worker.assignment().await;
    worker.complete(&given["lease"], "the secret answer").await;
    id
}

#[tokio::test]
async fn a_reviewer_is_told_by_mail_of_an_output_that_waits() {
    let post = Post::with(&[]).await;
    let server = server(post.port);
    let id = held(&server).await;
    let mails = post.first_mails().await;
    assert_eq!(mails[0]["to"], json!([ADMIN]));
    let text = mails[0]["text"].as_str().expect("text");
    assert!(text.contains(&format!("Subject: Review: task {id}")), "{text}");
    assert!(text.contains("Why it is held: a review is required"), "{text}");
    assert!(text.contains(&format!("{}/review/{id}", server.url)), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_mail_is_listed_with_the_webhooks_and_can_be_sent_again() {
    let post = Post::with(&[]).await;
    let server = server(post.port);
    let id = held(&server).await;
    let client = server.client("operator").await;
    let path = format!("/api/webhooks/deliveries?taskId={id}&status=delivered");
    let delivered = async || client.get(&path).await.expect_ok();
    until("the mail is delivered", async || delivered().await != json!([])).await;
    let mail = delivered().await[0].take();
    let admin = client.get(&format!("/api/hitl/{id}")).await.expect_ok()["assignedTo"].take();
    for (member, value) in [
        ("kind", json!("mail")),
        ("event", json!("hitl.assigned")),
        ("taskId", json!(id)),
        ("to", admin),
        ("attempts", json!(1)),
    ] {
        assert_eq!(mail[member], value, "{mail}");
    }
    assert!(mail.get("url").is_none() && mail["deliveredAt"].is_string(), "{mail}");
    let again = mail["id"].as_str().expect("an id");
    let again = format!("/api/webhooks/deliveries/{again}/redeliver");
    client.post(&again, &json!({})).await.expect_ok();
    until("it comes again", async || post.mails().len() == 2).await;
    let known = |mail: &Value| {
        let text = mail["text"].as_str().expect("text");
        text.lines().find(|line| line.starts_with("Message-ID: ")).map(str::to_owned)
    };
    let mails = post.mails();
    assert_eq!(known(&mails[0]), known(&mails[1]), "a reader of mail drops the second");
}

#[tokio::test]
async fn a_mail_outlives_a_server_for_mail_that_is_down_and_a_kill() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let mut server = server(port);
    let id = held(&server).await;
    server.kill();
    let post_office = Post::with(&["--port", &port.to_string()]).await;
    server.restart();
    let mails = post_office.first_mails().await;
    assert!(mails[0]["text"].as_str().expect("text").contains(&id));
    assert_eq!(mails.len(), 1);
}
