//! The real program, in a process of its own on a directory of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::http::{Connection, post};

const ADMIN: &str = "admin@example.com";
const PASSWORD: &str = "correct horse battery staple";

/// A child process that says where it listens. Killed when dropped.
pub(crate) struct Program {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    // What it writes to must outlive it.
    _output: BufReader<ChildStdout>,
    directory: Option<TempDir>,
}

impl Program {
    /// Starts `command` and returns once it has said where it listens.
    pub(crate) fn launch(mut command: Command, directory: TempDir) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it says where it listens");
        let address = line.trim_end().strip_prefix("listening on http://");
        let address = address.and_then(|address| address.parse().ok());
        let address = address.unwrap_or_else(|| panic!("it says {line:?}"));
        Self { child, address, _output: output, directory: Some(directory) }
    }

    /// Its resident memory, in bytes.
    pub(crate) fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("the program runs, on Linux");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|text| text.trim().strip_suffix(" kB"));
        let kilobytes: f64 = kilobytes.and_then(|number| number.parse().ok()).expect("in kB");
        kilobytes * 1024.0
    }

    /// Kills it at once (kill -9), and leaves what it has stored.
    pub(crate) fn kill(mut self) -> TempDir {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        self.directory.take().expect("it is taken once")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails only if it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A new directory on the disk that is measured.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory can be had")
}

/// The server on an empty directory, with a first admin. Its rate limits count, but are not met.
pub(crate) fn server() -> Program {
    server_on(directory())
}

/// The server on what another has left.
pub(crate) fn server_on(directory: TempDir) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(directory.path().join("data"))
        .env("CALLBOARD_ADMIN_EMAIL", ADMIN)
        .env("CALLBOARD_ADMIN_PASSWORD", PASSWORD)
        .env("CALLBOARD_LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "10000000")
        .env("CALLBOARD_LOG", "warn");
    Program::launch(command, directory)
}

/// The texts of fresh API keys with these roles.
pub(crate) async fn keys<const N: usize>(server: &Program, roles: [&str; N]) -> [String; N] {
    let mut connection = Connection::open(server.address).await;
    let login = json!({"email": ADMIN, "password": PASSWORD}).to_string();
    let session = connection.data(&post("/api/auth/login", None, &login), 200).await;
    let token = session["token"].as_str().expect("a session has a token");
    let mut keys = [const { String::new() }; N];
    for (key, role) in keys.iter_mut().zip(roles) {
        let body = json!({"name": role, "role": role}).to_string();
        let made = connection.data(&post("/api/auth/keys", Some(token), &body), 201).await;
        made["key"].as_str().expect("a key has a text").clone_into(key);
    }
    keys
}
