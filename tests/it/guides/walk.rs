//! A reader who types the commands of a page, in a directory that was empty.
//!
//! The addresses, paths and identifiers of the pages are examples; [`Walk::typed`] puts the reader's own in their
//! place. Each command runs in a shell of its own, which begins with the variables that the one before left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::page::commands;
use super::{REFUSED, excuse, provider};
use crate::support::{Client, FakeWorker, PROGRAM, until};

/// The time for one command.
const PATIENCE: Duration = Duration::from_mins(1);

/// The identifiers of the pages, and the variables that stand for them.
const KINDS: [(&str, &str); 6] = [
    ("dt_task_", "TASK"),
    ("dt_plan_", "PLAN"),
    ("dt_exec_", "EXECUTION"),
    ("dt_sched_", "SCHEDULE"),
    ("dlv_", "DELIVERY"),
    ("wrk_", "WORKER"),
];

/// A reader of guides, with servers and workers that run meanwhile.
pub(super) struct Walk {
    dir: tempfile::TempDir,
    url: String,
    provider: String,
    running: Vec<Child>,
    /// The last identifier of each kind.
    ids: BTreeMap<&'static str, String>,
    said: String,
    /// The commands that ended otherwise than expected.
    faults: Vec<String>,
    /// A key that reads everything; empty before there is one.
    key: String,
}

impl Walk {
    /// A reader with nothing but the program and the files of the repository.
    pub(super) async fn alone() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("home")).expect("a home");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for name in ["config", "docs", "examples"] {
            std::os::unix::fs::symlink(root.join(name), dir.path().join(name)).expect("a link");
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let provider = provider::start().await;
        let (running, ids) = (Vec::new(), BTreeMap::new());
        let (said, faults, key) = (String::new(), Vec::new(), String::new());
        Self { dir, url, provider, running, ids, said, faults, key }
    }

    /// A reader with `callboard dev --simulated`, and with a worker that runs the function of a guide.
    pub(super) async fn beside_dev() -> Self {
        let mut walk = Self::alone().await;
        walk.url = "http://127.0.0.1:0".into();
        walk.start(
            "callboard dev --simulated --listen 127.0.0.1:8080 --data-dir callboard-data",
            |line| line.starts_with("  ") && line.ends_with("--wait"),
        )
        .await;
        let keys = std::fs::read(walk.dir.path().join("callboard-data/dev-keys.json"));
        let keys: Value = serde_json::from_slice(&keys.expect("keys")).expect("JSON");
        walk.key = keys["apiKey"].as_str().expect("a key").to_owned();
        let worker = keys["workerKey"].as_str().expect("a key");
        let register = json!({
            "type": "register", "name": "crm", "version": "1", "queues": ["default"], "models": [],
            "functions": [{"name": "lookup_customer"}], "concurrency": 1,
        });
        let crm = FakeWorker::register(&walk.url, worker, register).await;
        crm.run(|_| Ok(r#"{"name": "Ada", "tier": "gold"}"#.into()));
        let template = include_str!("../../../docs/tutorial.md").split("```yaml\n").nth(1);
        let template = template.and_then(|rest| rest.split("```").next()).expect("a template");
        std::fs::write(walk.dir.path().join("my-template.yaml"), template).expect("a file");
        walk
    }

    /// Everything that the commands have printed.
    pub(super) fn said(&self) -> &str {
        &self.said
    }

    /// Types every command of a page that is not excused.
    pub(super) async fn follow(&mut self, page: &str, text: &str) {
        for command in commands(text) {
            if excuse(page, &command).is_some() {
                continue;
            }
            if command.starts_with("callboard serve ") {
                let is_first = self.running.is_empty();
                self.start(&command, |line| line.contains("listening on ")).await;
                if !is_first {
                    // A restored copy: it listens, which is all that the page shows.
                    self.stop_last().await;
                }
            } else if command.starts_with("callboard worker ") {
                self.start(&command, |_| true).await;
                self.until_a_worker_is_there().await;
            } else {
                self.types(page, &command).await;
            }
        }
    }

    /// Stops what runs, in the order in which a reader would. Every command must have ended as expected.
    pub(super) async fn end(mut self) {
        assert!(self.faults.is_empty(), "{}", self.faults.join("\n"));
        while !self.running.is_empty() {
            self.stop_last().await;
        }
    }

    async fn stop_last(&mut self) {
        let mut last = self.running.pop().expect("something runs");
        let id = last.id().expect("it runs").to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().await.expect("kill runs");
        assert!(sent.success());
        timeout(PATIENCE, last.wait()).await.expect("it ends in time").expect("it ends");
    }

    /// The command with the reader's own addresses, paths and identifiers.
    fn typed(&self, command: &str) -> String {
        let address = self.url.strip_prefix("http://").expect("an address");
        let backups = self.dir.path().join("backups").display().to_string();
        let mut typed = command
            .replace("127.0.0.1:8080", address)
            .replace("127.0.0.1:9090", "127.0.0.1:0")
            .replace("http://127.0.0.1:11434/v1", &self.provider)
            .replace("https://example.com/hook", "http://127.0.0.1:9/hook")
            .replace("/var/backups/callboard", &backups)
            .replace("admin@example.com", "you@example.com")
            // A date of the pages would pass some day.
            .replace("2026-12-24", "2099-12-24");
        for (prefix, _) in KINDS {
            if let Some(id) = self.ids.get(prefix) {
                typed = typed.replace(&format!("{prefix}…"), id);
            }
        }
        typed
    }

    fn shell(&self, script: &str) -> Command {
        let program = Path::new(PROGRAM).parent().expect("a directory").display().to_string();
        let home = self.dir.path().join("home");
        let mut command = Command::new("bash");
        command
            .args(["-c", script])
            .current_dir(self.dir.path())
            .env_clear()
            .env("PATH", format!("{program}:/usr/bin:/bin"))
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("CALLBOARD_SERVER", &self.url)
            .env("CALLBOARD_WEBHOOKS__ALLOW", "127.0.0.1/32")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if self.dir.path().join("password").exists() {
            // A terminal would ask for it.
            command.env("CALLBOARD_PASSWORD_FILE", "password");
        }
        command
    }

    fn variables(&self) -> PathBuf {
        self.dir.path().join("home/variables")
    }

    /// The beginning of a script: the variables of before, and the identifiers.
    fn beginning(&self) -> String {
        let file = self.variables().display().to_string();
        let mut script = format!("set -a; [ ! -f {file} ] || . {file}\n");
        for (prefix, name) in KINDS {
            if let Some(id) = self.ids.get(prefix) {
                script = format!("{script}{name}={id}\n");
            }
        }
        script
    }

    /// Starts a program that goes on running, and waits for its line.
    async fn start(&mut self, command: &str, is_ready: impl Fn(&str) -> bool) {
        let script = format!("{}exec {}", self.beginning(), self.typed(command));
        let mut child = self.shell(&script).stderr(Stdio::inherit()).spawn().expect("bash runs");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let is_worker = command.starts_with("callboard worker");
        let is_first = self.running.is_empty();
        let ready = async {
            while let Some(line) = lines.next_line().await.expect("text") {
                if let (true, Some((_, url))) = (is_first, line.split_once("listening on ")) {
                    url.trim().clone_into(&mut self.url);
                }
                if is_ready(&line) {
                    return;
                }
            }
            panic!("it ended: {command}");
        };
        if is_worker {
            drop(ready);
        } else {
            timeout(PATIENCE, ready).await.unwrap_or_else(|_| panic!("{command} is not ready"));
        }
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        self.running.push(child);
    }

    async fn until_a_worker_is_there(&self) {
        let health = Client::new(&self.url, "");
        until("a worker is connected", async || {
            health.get("/api/health").await.body["data"]["components"]["workers"]["status"] == "ok"
        })
        .await;
    }

    /// Types a command and looks at its end.
    async fn types(&mut self, page: &str, command: &str) {
        let typed = self.typed(command);
        let is_endless = typed.contains("curl -sN") || typed.contains("executions watch");
        // What follows events goes on until it is interrupted.
        let run =
            if is_endless { format!("timeout 2 {typed} || [ $? = 124 ]") } else { typed.clone() };
        let variables = self.variables().display().to_string();
        let script =
            format!("{}{run}\nstatus=$?\nexport -p > {variables}\nexit $status", self.beginning());
        let output = timeout(PATIENCE, self.shell(&script).output()).await;
        let output = output.unwrap_or_else(|_| panic!("{page}: {typed} takes too long"));
        let output = output.expect("bash runs");
        let (said, noted) =
            [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it)).into();
        let told = format!("{page}: {typed}\n{said}{noted}");
        let is_meant = |(of, part, _): &&(&str, &str, &str)| *of == page && command.contains(part);
        let expected = REFUSED.iter().find(is_meant).map(|(_, _, code)| *code);
        let code = if typed.contains("curl -s ") {
            let answer: Value = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{told}"));
            answer["error"]["code"].as_str().map(str::to_owned)
        } else if output.status.success() {
            None
        } else {
            Some(format!("exit {}", output.status.code().unwrap_or(-1)))
        };
        if code.as_deref() != expected {
            self.faults.push(format!("{expected:?} was expected, and {code:?} came: {told}"));
        }
        self.keep_ids(&said, &noted);
        self.said.push_str(&said);
        self.settle().await;
    }

    /// Keeps the first identifier of each kind: that of the item itself, or of the newest of a list.
    fn keep_ids(&mut self, said: &str, noted: &str) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for (prefix, _) in KINDS {
            let words = [said, noted].into_iter().flat_map(|text| text.split(|c| !is_part(c)));
            let is_id = |word: &&str| word.starts_with(prefix) && word.len() == prefix.len() + 26;
            if let Some(id) = words.into_iter().find(is_id) {
                self.ids.insert(prefix, id.to_owned());
            }
        }
    }

    /// Waits until the last task and the last execution have ended, or wait for something that no worker gives.
    async fn settle(&self) {
        if self.key.is_empty() {
            return;
        }
        let client = Client::new(&self.url, &self.key);
        let paths = [("dt_task_", "/api/tasks"), ("dt_exec_", "/api/plans/executions")];
        for (prefix, path) in paths {
            let Some(id) = self.ids.get(prefix) else { continue };
            until("it has settled", async || {
                let item = client.get(&format!("{path}/{id}")).await.body;
                let (item, is_known) = (&item["data"], item["success"] == true);
                let waits = item["waitingFor"].as_str().unwrap_or_default();
                !is_known
                    || !["pending", "running"]
                        .contains(&item["status"].as_str().unwrap_or_default())
                    || ["approval", "schedule", "signal"].contains(&waits)
            })
            .await;
        }
    }
}
