//! The program as a user starts it: in a home of its own, with nothing from the outside.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::support::{ADMIN, PASSWORD, credentials};

/// A user's home, and what their environment says.
pub(crate) struct Home {
    dir: tempfile::TempDir,
    server: String,
    environment: Vec<(&'static str, String)>,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Home {
    /// A fresh home that knows this server.
    pub(crate) fn new(server: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir, server: server.to_owned(), environment: Vec::new() }
    }

    /// The same with a variable.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// The same with an API key.
    pub(crate) fn with_key(self, key: &str) -> Self {
        self.with("CALLBOARD_API_KEY", key)
    }

    /// Signed in as the admin.
    pub(crate) async fn signed_in(self) -> Self {
        self.run_with_input(&["auth", "login", "--email", ADMIN], PASSWORD).await.ok();
        self.keep_logins();
        self
    }

    /// Remembers the credentials of every login, for the search.
    pub(crate) fn keep_logins(&self) {
        let text = std::fs::read(self.credentials()).expect("logins");
        let logins: Value = serde_json::from_slice(&text).expect("JSON");
        let logins = logins["logins"].as_object().expect("logins");
        logins.values().for_each(credentials::keep_in);
    }

    pub(crate) fn credentials(&self) -> PathBuf {
        self.dir.path().join("config/callboard/credentials.json")
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        path.display().to_string()
    }

    /// What the environment of a command says.
    pub(crate) fn environment(&self) -> Vec<(&str, String)> {
        let home = self.dir.path().display();
        let mut environment = vec![
            ("HOME", home.to_string()),
            ("XDG_CONFIG_HOME", format!("{home}/config")),
            ("CALLBOARD_SERVER", self.server.clone()),
        ];
        environment.extend(self.environment.iter().map(|(name, value)| (*name, value.clone())));
        environment
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command
            .args(arguments)
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments).output().await.expect("it runs"))
    }

    pub(crate) async fn run_with_input(&self, arguments: &[&str], input: &str) -> Ended {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(input.as_bytes()).await.expect("it reads");
        drop(stdin);
        Ended::of(child.wait_with_output().await.expect("it ends"))
    }

    /// The JSON that a command writes, and nothing beside it.
    pub(crate) async fn json(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["-o", "json"]].concat();
        serde_json::from_str(&self.run(&arguments).await.ok()).expect("JSON and nothing else")
    }
}

impl Ended {
    pub(crate) fn of(output: std::process::Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let code = output.status.code().expect("no signal ended it");
        let ended = Self { code, stdout: text(output.stdout), stderr: text(output.stderr) };
        credentials::keep_printed(&ended.stdout);
        ended
    }

    /// What a command wrote that did what it was asked for.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// What a command said that ended with this code.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.stderr
    }
}

/// The bits of who may do what with a file.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).expect("it exists").mode() & 0o777
}
