//! The program on a given directory, which may end by itself at any time.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{ADMIN, PASSWORD, credentials};

/// How long a start or an end may take: beyond that it hangs.
const PATIENCE: Duration = Duration::from_mins(1);

const SIGKILL: i32 = 9;

/// A running server. Killed when dropped.
pub(super) struct Program {
    child: Child,
    pub(super) url: String,
    data: PathBuf,
    stderr: PathBuf,
}

/// How a server ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// `None` if it was killed, or hangs.
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) stderr: String,
}

impl Ended {
    /// Whether it said what is wrong, and did not panic.
    pub(super) fn in_words(&self) -> bool {
        self.code == Some(1) && !self.stderr.trim().is_empty() && !self.panicked()
    }

    /// Whether it was killed, by whomever, and had not panicked before.
    pub(super) fn killed(&self) -> bool {
        self.signal == Some(SIGKILL) && !self.panicked()
    }

    pub(super) fn panicked(&self) -> bool {
        self.stderr.contains("panic")
    }
}

impl Program {
    /// Starts on the directory `data`, with what `prepare` adds; or says how it ended instead.
    /// What it logs goes to the file `stderr`.
    pub(super) fn start(
        data: &Path,
        stderr: &Path,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Self, Ended> {
        let mut program = Self::spawn(data, stderr, prepare);
        let stdout = BufReader::new(program.child.stdout.take().expect("it is piped"));
        let (said, listening) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        match listening.recv_timeout(PATIENCE) {
            Ok(line) => {
                line.strip_prefix("listening on ")
                    .expect("it says where it listens")
                    .clone_into(&mut program.url);
                Ok(program)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(program.wait()),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(program.hangs("start")),
        }
    }

    /// Starts, and is killed so long afterwards, wherever it is then.
    pub(super) fn killed_after(
        data: &Path,
        stderr: &Path,
        moment: Duration,
        prepare: impl FnOnce(&mut Command),
    ) -> Ended {
        let program = Self::spawn(data, stderr, prepare);
        thread::sleep(moment);
        program.kill()
    }

    fn spawn(data: &Path, stderr: &Path, prepare: impl FnOnce(&mut Command)) -> Self {
        credentials::keep(PASSWORD);
        let level = if credentials::are_searched() { "trace" } else { "warn" };
        let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data)
            .env("CALLBOARD_ADMIN_EMAIL", ADMIN)
            .env("CALLBOARD_ADMIN_PASSWORD", PASSWORD)
            .env("CALLBOARD_LOG", level)
            .env("CALLBOARD_LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "1000000")
            .env("CALLBOARD_WORKER__LEASE", "2s")
            .env("CALLBOARD_WORKER__HEARTBEAT", "500ms")
            .env("CALLBOARD_WORKER__SILENT_AFTER", "1s")
            .stdout(Stdio::piped())
            .stderr(File::create(stderr).expect("a file can be made"));
        prepare(&mut command);
        let child = command.spawn().expect("the program starts");
        Self { child, url: String::new(), data: data.into(), stderr: stderr.into() }
    }

    pub(super) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).expect("a file of ours")).into_owned()
    }

    /// SIGKILL, and nothing else.
    pub(super) fn kill(mut self) -> Ended {
        // It may have ended before.
        let _ = self.child.kill();
        self.wait()
    }

    /// SIGTERM.
    pub(super) fn terminate(mut self) -> Ended {
        let id = self.child.id().to_string();
        // It may have ended before.
        let _ = Command::new("kill").args(["-TERM", &id]).status().expect("kill runs");
        self.wait()
    }

    /// How it ended, if it did.
    pub(super) fn has_ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().expect("it is a child")?;
        Some(Ended { code: status.code(), signal: status.signal(), stderr: self.stderr() })
    }

    fn wait(&mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(ended) = self.has_ended() {
                return ended;
            }
            thread::sleep(Duration::from_millis(5));
        }
        self.hangs("end")
    }

    /// Kept alive for a debugger where `CALLBOARD_KEEP` is set.
    fn hangs(&self, what: &str) -> Ended {
        let id = self.child.id();
        if std::env::var_os("CALLBOARD_KEEP").is_some() {
            eprintln!("the {what} of process {id} hangs");
            thread::sleep(Duration::from_mins(10));
        }
        let stderr = format!("the {what} hangs: {}", self.stderr());
        Ended { code: None, signal: None, stderr }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if credentials::are_searched() && !thread::panicking() {
            credentials::assert_none_in(&[&self.data, &self.stderr]);
        }
    }
}
