//! The server of the year, the people and programs beside it, and the way from date to date.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tokio::process::Child;

use super::alerts::Alerts;
use crate::cli::program::{Ended, Home};
use crate::mail::Post;
use crate::metrics::Scrape;
use crate::support::clock::Clock;
use crate::support::{ADMIN, Client, PASSWORD, PROGRAM, Server, UNSET, credentials, until};

/// How long all is well between two states, for the rules: longer than any of them looks back.
const CALM: usize = 75;

pub(super) struct Year {
    pub(super) server: Server,
    pub(super) clock: Clock,
    /// The home of the admin, who is signed in.
    pub(super) admin: Home,
    pub(super) password: String,
    pub(super) operator: String,
    pub(super) worker: String,
    /// The key of Prometheus.
    pub(super) viewer: String,
    pub(super) alerts: Alerts,
    pub(super) mails: Post,
    /// What the older program said of its work, by path.
    pub(super) told: Value,
    at_work: Option<Child>,
    port: u16,
}

/// A script that starts the server on `data` at this port, sees the clock, and takes further variables.
pub(super) fn script(path: &Path, clock: &Clock, port: u16, data: &Path, enter: &str, more: &str) {
    let seen = clock.variables().map(|(name, value)| format!("{name}={value}")).join(" ");
    let (log, data) = (path.with_extension("log"), data.display());
    // The arguments of the tests are `serve --listen ADDRESS --data-dir DIRECTORY`, and flags.
    let text = format!(
        "#!/bin/sh\nshift 5\nexport CALLBOARD_LOG=info\nexec {enter} env {seen} {more} {PROGRAM} serve \
         --listen 127.0.0.1:{port} --data-dir {data} \"$@\" 2>>{}\n",
        log.display()
    );
    fs::write(path, text).expect("a script");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A home whose programs see the clock.
pub(super) fn home(url: &str, clock: &Clock) -> Home {
    clock
        .variables()
        .into_iter()
        .fold(Home::new(url), |home, (name, value)| home.with(name, &value))
}

/// A port below those that the system gives to others, so that it stays free while the server is stopped.
pub(super) fn free_port() -> u16 {
    let first = 20_000 + u16::try_from(std::process::id() % 10_000).expect("it is small");
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (first..31_000).find(is_free).expect("a port is free")
}

impl Year {
    /// Unpacks the data of the older program, and starts this one on it.
    pub(super) async fn begin(first_day: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/year/fc21b54.tar.gz");
        let unpacked =
            Command::new("tar").arg("-xzf").arg(fixture).arg("-C").arg(dir.path()).status();
        assert!(unpacked.expect("tar runs").success());
        let read = |name: &str| -> Value {
            let bytes = fs::read(dir.path().join(name)).expect("it was packed");
            serde_json::from_slice(&bytes).expect("JSON")
        };
        let (keys, told) = (read("keys.json"), read("told.json"));
        let key = |role: &str| keys[role]["key"].as_str().expect("a key").to_owned();
        let clock = Clock::at(dir.path().join("clock"), first_day);
        let (port, mails) = (free_port(), Post::with(&[]).await);
        let url = format!("http://127.0.0.1:{port}");
        let admin = home(&url, &clock);
        let data = dir.path().join("data").display().to_string();
        let checked = admin.run(&["serve", "--check", "--data-dir", &data]).await;
        assert_eq!(checked.code, 0, "{checked:?}");

        let program = dir.path().join("server");
        script(&program, &clock, port, Path::new(&data), "", "");
        let mail_port = mails.port.to_string();
        let settings = [
            ("ADMIN_EMAIL", UNSET),
            ("ADMIN_PASSWORD", UNSET),
            ("LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000"),
            ("WEBHOOKS__ALLOW", "127.0.0.1/32"),
            ("SMTP__HOST", "127.0.0.1"),
            ("SMTP__PORT", &mail_port),
            ("SMTP__TLS", "none"),
            ("SMTP__FROM", "callboard@example.com"),
        ];
        let server = Server::on(dir, &program, &settings);
        let (operator, worker, viewer) = (key("operator"), key("worker"), key("viewer"));
        let (alerts, password) = (Alerts::default(), PASSWORD.to_owned());
        let (at_work, server) = (None, server);
        let mut year = Self {
            server,
            clock,
            admin,
            password,
            operator,
            worker,
            viewer,
            alerts,
            mails,
            told,
            at_work,
            port,
        };
        year.alerts.saw("the older program is stopped", 5, None, &["CallboardDown"]);
        year.sign_in().await;
        year
    }

    /// A path in the directory of the year, in which the data and the backups are.
    pub(super) fn path(&self, name: &str) -> String {
        self.server.dir.path().join(name).display().to_string()
    }

    /// Has the server run from its next start on behind `enter`, on `data`, with more variables.
    pub(super) fn will_run(&self, enter: &str, data: &Path, more: &str) {
        let program = PathBuf::from(self.path("server"));
        script(&program, &self.clock, self.port, data, enter, more);
    }

    /// Stops the server in order, and its worker.
    pub(super) async fn stop(&mut self) {
        self.dismiss().await;
        assert!(self.server.terminate(), "{}", self.log());
    }

    /// Starts the server, and signs the admin in.
    pub(super) async fn start(&mut self) {
        self.server.restart();
        self.sign_in().await;
    }

    /// The server ends in order, the date comes, and it starts again.
    pub(super) async fn on(&mut self, date: &str) {
        self.stop().await;
        self.clock.set(date);
        self.start().await;
    }

    pub(super) async fn sign_in(&self) {
        let login = ["auth", "login", "--email", ADMIN];
        self.admin.run_with_input(&login, &self.password).await.ok();
        self.admin.keep_logins();
    }

    /// What the admin's command prints.
    pub(super) async fn run(&self, words: &[&str]) -> String {
        self.admin.run(words).await.ok()
    }

    /// The same, by `callboard backup`, in JSON.
    pub(super) async fn backup(&self, words: &[&str]) -> Value {
        self.admin.json(&[&["backup"], words].concat()).await
    }

    /// A key that the admin makes for two years.
    pub(super) async fn key(&self, role: &str) -> String {
        let create = ["keys", "create", "--name", role, "--role", role, "--expires-in", "730d"];
        let key = self.run(&create).await.trim().to_owned();
        credentials::keep(&key);
        key
    }

    /// The identifier of the key that is active under this name and was not replaced.
    pub(super) async fn key_id(&self, name: &str) -> String {
        let listed = self.admin.json(&["keys", "list", "--limit", "100"]).await;
        let keys = listed["data"].as_array().expect("keys");
        let found = keys.iter().find(|key| key["name"] == name && key["status"] == "active");
        found.expect("an active key")["id"].as_str().expect("an id").to_owned()
    }

    /// A home with this key.
    pub(super) fn with_key(&self, key: &str) -> Home {
        home(&self.server.url, &self.clock).with_key(key)
    }

    /// What a command ends with under this key.
    pub(super) async fn run_with(&self, key: &str, words: &[&str]) -> Ended {
        self.with_key(key).run(words).await
    }

    pub(super) fn client(&self, key: &str) -> Client {
        Client::new(&self.server.url, key)
    }

    /// A client of the operator.
    pub(super) fn operator(&self) -> Client {
        self.client(&self.operator)
    }

    /// Returns once the list at this path has so many items, for the operator.
    pub(super) async fn until_total(&self, path: &str, total: usize) {
        let operator = self.operator();
        let is_so = async || operator.get(path).await.body["pagination"]["total"] == total;
        until(&format!("{path} has {total}"), is_so).await;
    }

    /// Starts `callboard worker` with the simulated model, and waits until it is there.
    pub(super) async fn employ(&mut self) {
        let work = [
            "worker",
            "--provider",
            "simulated",
            "--queues",
            "default,later",
            "--concurrency",
            "32",
        ];
        let mut command = self.with_key(&self.worker).command(&work);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        self.at_work = Some(command.spawn().expect("it starts"));
        self.until_total("/api/workers", 1).await;
    }

    /// Kills the worker, which has nothing to do.
    pub(super) async fn dismiss(&mut self) {
        if let Some(mut worker) = self.at_work.take() {
            worker.kill().await.expect("it ran");
        }
    }

    /// A state: the figures of the server at its end, the minutes for which it lasted, the alerts that fire then.
    pub(super) async fn seen(&mut self, name: &str, minutes: usize, firing: &[&'static str]) {
        let scrape = Scrape::of(&self.client(&self.viewer)).await;
        self.alerts.saw(name, minutes, Some(&scrape), firing);
    }

    /// All is well again, for longer than an hour.
    pub(super) async fn calm(&mut self, after: &str) {
        self.seen(&format!("after {after}"), CALM, &[]).await;
    }

    /// All that the server has logged.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(self.path("server.log")).unwrap_or_default()
    }

    /// Returns once the log has these words.
    pub(super) async fn until_logged(&self, words: &str) {
        until(words, async || self.log().contains(words)).await;
    }
}

impl Drop for Year {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().rev().take(30).collect();
            eprintln!("the end of the log, the newest line first:\n{}", lines.join("\n"));
        }
    }
}
