//! A PostgreSQL server of a test's own, in a temporary directory and on a Unix socket there.
//!
//! The server never runs as root: then it runs as the user `postgres`, or `nobody`. It ends with its
//! [`Server`], and can be killed and started again. `tests/postgres/install` installs the programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};
use tempfile::TempDir;

/// A server, and its directory.
#[derive(Debug)]
pub struct Server {
    directory: TempDir,
    programs: PathBuf,
    process: Mutex<Option<Child>>,
    databases: AtomicU32,
    /// The process that sends the log to a standby, while it is stopped.
    stopped: Mutex<Option<Pid>>,
    /// The port of a server that speaks TLS.
    tls: Option<u16>,
}

impl Server {
    /// Makes a database cluster and starts its server.
    ///
    /// # Panics
    /// If PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::make(None)
    }

    /// The same, and the server also listens on a TCP port of 127.0.0.1, with TLS by this certificate and its
    /// key, in PEM.
    ///
    /// # Panics
    /// As [`Server::start`].
    #[must_use]
    pub fn with_tls(certificate: &str, key: &str) -> Self {
        Self::make(Some((certificate, key)))
    }

    fn make(tls: Option<(&str, &str)>) -> Self {
        let programs = programs();
        let directory = directory();
        let data = directory.path().join("data");
        let mut make = as_other(&programs.join("initdb"));
        make.args(["--no-sync", "--auth=trust", "--username=callboard", "--encoding=UTF8", "-D"]);
        let done = make.arg(&data).current_dir(directory.path()).output().expect("initdb runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let tls = tls.map(|(certificate, key)| {
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                give(&data.join(name), text);
            }
            free_port()
        });
        Self::resumed(directory, programs, tls)
    }

    /// A standby of this server, whose receipt every later commit of this server waits for.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn standby(&self) -> Self {
        let directory = directory();
        let mut copy = as_other(&self.programs.join("pg_basebackup"));
        copy.arg("-D")
            .arg(directory.path().join("data"))
            .args(["-R", "-X", "stream", "-c", "fast"]);
        let host = self.directory.path().display();
        copy.args(["-d", &format!("host={host} user=callboard application_name=standby")]);
        let done = copy.current_dir(directory.path()).output().expect("pg_basebackup runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let standby = Self::resumed(directory, self.programs.clone(), None);
        let ask = |sql: &str| self.psql("postgres", sql).expect("the server answers");
        ask("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (standby)'");
        ask("SELECT pg_reload_conf()");
        let begun = Instant::now();
        while ask("SELECT sync_state FROM pg_stat_replication") != "quorum" {
            assert!(begun.elapsed() < Duration::from_secs(30), "the standby does not follow");
            std::thread::sleep(Duration::from_millis(20));
        }
        standby
    }

    fn resumed(directory: TempDir, programs: PathBuf, tls: Option<u16>) -> Self {
        let (process, databases) = (Mutex::new(None), AtomicU32::new(0));
        let stopped = Mutex::new(None);
        let server = Self { directory, programs, process, databases, stopped, tls };
        server.resume();
        server
    }

    /// Makes a standby the primary.
    ///
    /// # Panics
    /// If it does not become one.
    pub fn promote(&self) {
        let done = self.psql("postgres", "SELECT pg_promote(true, 30)");
        assert_eq!(done.as_deref(), Some("t"), "the standby is promoted");
    }

    /// Starts the server again, after [`Server::kill`].
    ///
    /// # Panics
    /// If it does not start.
    pub fn resume(&self) {
        let mut process = self.process.lock().expect("no holder panics");
        assert!(process.is_none(), "the server runs");
        let path = self.directory.path();
        let mut serve = as_other(&self.programs.join("postgres"));
        serve.arg("-D").arg(path.join("data")).arg("-k").arg(path);
        let settings = ["max_connections=200", "shared_buffers=64MB"].map(str::to_owned);
        let listens = match self.tls {
            Some(port) => {
                vec!["listen_addresses=127.0.0.1".into(), format!("port={port}"), "ssl=on".into()]
            }
            None => vec!["listen_addresses=".into()],
        };
        for setting in settings.into_iter().chain(listens) {
            serve.args(["-c", &setting]);
        }
        serve.current_dir(path).stdin(Stdio::null()).stdout(Stdio::null());
        serve.stderr(fs::File::create(path.join("stderr")).expect("a file can be made"));
        let started = process.insert(serve.spawn().expect("postgres starts"));
        let begun = Instant::now();
        while !self.answers() {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "{}",
                fs::read_to_string(path.join("stderr")).unwrap_or_default()
            );
            if started.try_wait().expect("a child of ours").is_some() {
                // The children of a killed server hold its memory for a moment, and a new one then ends.
                *started = serve.spawn().expect("postgres starts");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn answers(&self) -> bool {
        self.psql("postgres", "SELECT 1").is_some()
    }

    /// Kills the server as a crash would: with SIGKILL, so that it replays its log at the next start.
    ///
    /// # Panics
    /// If it does not run.
    pub fn kill(&self) {
        self.end(Signal::KILL);
        // A killed postmaster leaves its children, which end when they see it; the next one waits for that.
        let pid = self.directory.path().join("data/postmaster.pid");
        let _ = fs::remove_file(pid);
    }

    /// Stops the process that sends the log to the standby, until [`Server::kill`]: no transaction
    /// that commits from now on will be there.
    ///
    /// # Panics
    /// If there is no standby.
    pub fn stop_sending(&self) {
        let sender = self.psql("postgres", "SELECT pid FROM pg_stat_replication");
        let sender = sender.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
        let sender = sender.expect("a standby is connected");
        kill_process(sender, Signal::STOP).expect("the process is there");
        *self.stopped.lock().expect("no holder panics") = Some(sender);
    }

    fn end(&self, signal: Signal) {
        let child = self.process.lock().expect("no holder panics").take();
        let Some(mut child) = child else { return };
        // Its process may have ended.
        let _ = kill_process(Pid::from_child(&child), signal);
        if let Some(sender) = self.stopped.lock().expect("no holder panics").take() {
            // If it went on it would send the rest.
            let _ = kill_process(sender, Signal::KILL);
        }
        let _ = child.wait();
    }

    /// The rows of a statement, as psql prints them; `None` if it failed.
    ///
    /// # Panics
    /// If psql does not run.
    #[must_use]
    pub fn psql(&self, database: &str, sql: &str) -> Option<String> {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-U", "callboard", "-d", database, "-c", sql, "-h"]);
        psql.arg(self.directory.path()).args(["-p", &self.port().to_string()]);
        let ran = psql.output().expect("psql runs");
        ran.status.success().then(|| String::from_utf8_lossy(&ran.stdout).trim().to_owned())
    }

    /// Makes an empty database; returns its name.
    ///
    /// # Panics
    /// If the server refuses.
    #[must_use]
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}")).expect("the server makes it");
        name
    }

    /// The directory with the databases and the server's log.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The socket on which the server listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join(format!(".s.PGSQL.{}", self.port()))
    }

    /// The port, which also names the socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.tls.unwrap_or(5432)
    }

    /// The URL of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgres://callboard@{}/{database}", self.host())
    }

    /// The URL of a database on this server or, after its promotion, on a standby.
    #[must_use]
    pub fn url_with(&self, standby: &Self, database: &str) -> String {
        format!("postgres://callboard@{},{}/{database}", self.host(), standby.host())
    }

    fn host(&self) -> String {
        self.directory.path().display().to_string().replace('/', "%2F")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(Signal::QUIT);
    }
}

/// A temporary directory of the user under which PostgreSQL runs.
fn directory() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be had");
    if let Some((user, group)) = other_user() {
        std::os::unix::fs::chown(directory.path(), Some(user), Some(group))
            .expect("root may give a directory away");
    }
    directory
}

/// Writes a file of the user under which PostgreSQL runs.
fn give(path: &Path, text: &str) {
    fs::write(path, text).expect("a file can be made");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a file of ours");
    if let Some((user, group)) = other_user() {
        std::os::unix::fs::chown(path, Some(user), Some(group)).expect("root may give a file away");
    }
}

/// A port that was free a moment ago: PostgreSQL takes none of the system's choice.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The directory of the newest installed programs.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|it| it.path()).max_by_key(|path| version(path));
    newest.expect("PostgreSQL is installed (tests/postgres/install)").join("bin")
}

fn as_other(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = other_user() {
        command.uid(user).gid(group);
    }
    command
}

/// The user and group under which PostgreSQL runs, if this process is root.
fn other_user() -> Option<(u32, u32)> {
    if !getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(ids("postgres").or_else(|| ids("nobody")).unwrap_or((65_534, 65_534)))
}
