//! The measured program: the real one in a process of its own, on a directory of its own, or a
//! running server of the user.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use callboard_client::{Call, Secret};
use callboard_store::postgres::{Address, Scratch};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::Options;
use super::baseline::{self, StoreBaseline};
use super::error::{Error, broken};
use super::http::Site;

const ADMIN: &str = "admin@example.com";
/// The longest start of a node.
const READY: Duration = Duration::from_mins(1);
const PASSWORD: &str = "correct horse battery staple";

/// The place of the measurements.
pub(super) struct Ground {
    pub(super) options: Options,
    /// The parent of every directory; removed at the end.
    base: TempDir,
    /// The database of the servers, if they have no store of their own.
    database: Option<(String, Scratch)>,
}

/// The settings that nodes share.
const NODE: [(&str, &str); 3] = [
    ("CALLBOARD_AUTH__SIGNING_KEY", "the signing key of a node that is measured"),
    ("CALLBOARD_WEBHOOKS__SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
    ("CALLBOARD_CLUSTER__KEY", "the cluster key of a node that is measured"),
];

/// A server, and the credentials of its clients.
pub(super) struct Service {
    pub(super) operator: Site,
    pub(super) worker: Site,
    /// The process, if it is ours. Dropping it ends the process.
    pub(super) program: Option<Program>,
}

impl Ground {
    pub(super) fn new(options: Options) -> Result<Self, Error> {
        let mut prefix = tempfile::Builder::new();
        let base = prefix.prefix(".callboard-bench-").tempdir_in(&options.directory);
        let what = format!("no directory can be made in {}", options.directory.display());
        let base = base.map_err(Error::of(&what))?;
        Ok(Self { options, base, database: None })
    }

    /// A place whose servers use the database at `url`, which must be empty.
    pub(super) async fn on_postgres(options: Options, url: &str) -> Result<Self, Error> {
        let address = Address::parse(url, None);
        let address = address.map_err(|reason| broken(format!("--store: {reason}")))?;
        let scratch = Scratch::take(address).await.map_err(Error::of("--store"))?;
        Ok(Self { database: Some((url.to_owned(), scratch)), ..Self::new(options)? })
    }

    /// The database of the servers.
    pub(super) fn database(&self) -> Option<&Address> {
        self.database.as_ref().map(|(_, scratch)| scratch.address())
    }

    /// Empties the database, if there is one.
    pub(super) async fn empty(&self) -> Result<(), Error> {
        match &self.database {
            Some((_, scratch)) => scratch.empty().await.map_err(Error::of("--store")),
            None => Ok(()),
        }
    }

    /// True if the server is started here.
    pub(super) const fn is_own(&self) -> bool {
        self.options.server.is_none()
    }

    /// A server, with a client that submits and a worker.
    pub(super) async fn service(&self) -> Result<Service, Error> {
        if let Some(site) = &self.options.server {
            let (operator, worker) = (site.clone(), site.clone());
            return Ok(Service { operator, worker, program: None });
        }
        self.server().await?.service().await
    }

    /// The server on an empty directory, with a first admin.
    pub(super) async fn server(&self) -> Result<Program, Error> {
        self.empty().await?;
        self.server_on(self.directory()?, &[]).await
    }

    /// The server on the directory of an earlier one. Its rate limits count, but are not met.
    pub(super) async fn server_on(
        &self,
        directory: TempDir,
        settings: &[(&str, &str)],
    ) -> Result<Program, Error> {
        let mut command = command(&self.options.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CALLBOARD_") {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(data(&directory))
            .env("CALLBOARD_ADMIN_EMAIL", ADMIN)
            .env("CALLBOARD_ADMIN_PASSWORD", PASSWORD)
            .env("CALLBOARD_LIMITS_ENTERPRISE__REQUESTS_PER_MINUTE", "10000000")
            .env("CALLBOARD_LOG", "warn")
            .envs(settings.iter().copied());
        if let Some((url, _)) = &self.database {
            command.env("CALLBOARD_STORE__URL", url).envs(NODE);
        }
        Program::launch(command, directory).await
    }

    /// The best rates of the store, unless the server is on another machine.
    pub(super) async fn store_baseline(&self) -> Result<Option<StoreBaseline>, Error> {
        if self.options.server.as_ref().is_some_and(|site| !site.is_local()) {
            return Ok(None);
        }
        baseline::store_rates(&self.directory()?, self.options.span).await.map(Some)
    }

    /// The least durable server, unless the server is on another machine.
    pub(super) async fn http_baseline(&self) -> Result<Option<Program>, Error> {
        if self.options.server.as_ref().is_some_and(|site| !site.is_local()) {
            return Ok(None);
        }
        baseline::http(self.directory()?).await.map(Some)
    }

    /// A new directory on the disk that is measured.
    pub(super) fn directory(&self) -> Result<TempDir, Error> {
        let base = std::path::absolute(self.base.path()).map_err(Error::of("no directory"))?;
        tempfile::tempdir_in(base).map_err(Error::of("no directory can be made"))
    }

    /// A directory with a copy of the contents of `of`, whose server has ended.
    pub(super) fn copy(&self, of: &TempDir) -> Result<TempDir, Error> {
        let copy = self.directory()?;
        copy_all(of.path(), copy.path()).map_err(Error::of("a directory cannot be copied"))?;
        Ok(copy)
    }
}

/// The data directory of a server.
pub(super) fn data(directory: &TempDir) -> PathBuf {
    directory.path().join("data")
}

/// A program that ends with this one.
pub(super) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.kill_on_drop(true).stdin(Stdio::null());
    command
}

/// A child process that reports its address. Dropping it kills the process.
pub(super) struct Program {
    child: Child,
    /// The server's address, without credentials.
    pub(super) site: Site,
    // The pipe must outlive the process, whose writes to a closed one would fail.
    _output: BufReader<ChildStdout>,
    /// The directory, removed after the process has ended.
    directory: Option<TempDir>,
}

impl Program {
    /// Starts `command` and returns once the process has reported its address.
    pub(super) async fn launch(mut command: Command, directory: TempDir) -> Result<Self, Error> {
        let spawned = command.stdout(Stdio::piped()).spawn();
        let mut child = spawned.map_err(Error::of("the server does not start"))?;
        let output = child.stdout.take().ok_or_else(|| broken("the server has no output"))?;
        let mut output = BufReader::new(output);
        let mut line = String::new();
        let read = output.read_line(&mut line).await;
        read.map_err(Error::of("the server does not say where it listens"))?;
        let address = line.trim_end().strip_prefix("listening on http://");
        let address = address.and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| broken(format!("the server says {line:?}")))?;
        let site = Site::local(address);
        Ok(Self { child, site, _output: output, directory: Some(directory) })
    }

    /// The server with fresh keys of an operator and a worker.
    pub(super) async fn service(self) -> Result<Service, Error> {
        let password = Secret::new(PASSWORD.into());
        let login = self.site.client()?.log_in(ADMIN, &password).await?;
        let admin = self.site.with_token(&login.token).client()?;
        let key = async |role: &str| {
            let body = json!({"name": role, "role": role});
            let made = admin.data(Call::post(&["auth", "keys"]).json(&body)).await?;
            Ok::<_, Error>(self.site.with_token(text(&made, "key")?))
        };
        let (operator, worker) = (key("operator").await?, key("worker").await?);
        Ok(Service { operator, worker, program: Some(self) })
    }

    /// Returns once the server is ready: a node of a cluster answers before it is.
    pub(super) async fn ready(&self) -> Result<(), Error> {
        let until = Instant::now() + READY;
        loop {
            let mut connection = self.site.open().await?;
            match connection.exchange(&self.site.get("/health"), 200).await {
                Err(_) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                asked => return asked.map(drop),
            }
        }
    }

    /// The resident memory of the process, in bytes.
    pub(super) fn resident(&self) -> Result<f64, Error> {
        resident(self.child.id().ok_or_else(|| broken("the server has ended"))?)
    }

    /// Kills the process at once (kill -9), and leaves its data directory.
    pub(super) async fn kill(mut self) -> Result<TempDir, Error> {
        self.child.kill().await.map_err(Error::of("the server cannot be killed"))?;
        self.directory.take().ok_or_else(|| broken("the server has no directory"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The directory is removed next, so the process has to be gone; kill -9 takes a moment.
        let _ = self.child.start_kill();
        for _ in 0..1_000 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Service {
    /// The server of our own that this must have.
    pub(super) fn own(&self) -> Result<&Program, Error> {
        self.program.as_ref().ok_or_else(|| broken("the server was not started here"))
    }

    /// Kills the server of our own, and leaves its data directory.
    pub(super) async fn kill(self) -> Result<TempDir, Error> {
        let program = self.program.ok_or_else(|| broken("the server was not started here"))?;
        program.kill().await
    }
}

/// The resident memory of a process, in bytes.
pub(super) fn resident(process: u32) -> Result<f64, Error> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    let status = status.map_err(Error::of("memory is read from /proc, on Linux only"))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.and_then(|text| text.trim().strip_suffix(" kB"));
    let kilobytes: Option<f64> = kilobytes.and_then(|number| number.parse().ok());
    kilobytes.map(|number| number * 1024.0).ok_or_else(|| broken("/proc holds no VmRSS"))
}

/// A text of an answer.
pub(super) fn text<'v>(value: &'v serde_json::Value, name: &str) -> Result<&'v str, Error> {
    value[name].as_str().ok_or_else(|| broken(format!("an answer has no {name}")))
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&target)?;
            copy_all(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The bytes that a directory takes on the disk.
pub(super) fn disk(path: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { disk(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}
