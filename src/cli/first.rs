//! The first start of a server: the key of the first worker, and the command that starts it.
//!
//! The key is made while there is no admin who could make one, and stands in a file of mode 0600 in the data
//! directory, beside the server's other secrets.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use callboard_cli::process::announce;
use callboard_domain::access::Role;
use callboard_domain::audit::By;
use callboard_domain::credential::{self, DEFAULT_LIFETIME};
use callboard_domain::id::Environment;
use callboard_runtime::Handle;
use callboard_runtime::accounts::NewKey;

/// The key's file in the data directory.
const FILE: &str = "worker.key";

/// Prints the place of the first worker's key, and the command of a worker that uses it. The server runs without
/// that too.
pub(super) async fn announce_worker(handle: &Handle, data_dir: &Path, url: &str) {
    match worker_key(handle, data_dir.join(FILE)).await {
        Ok(path) => {
            let path = path.display();
            announce(&format!("worker key in {path}"));
            announce(&format!(
                "first worker: callboard worker --server {url} --key-file {path} --base-url http://127.0.0.1:11434/v1"
            ));
        }
        Err(why) => tracing::warn!(why, "there is no key for a first worker"),
    }
}

/// The file with a worker's key: that of an earlier start, or a new one if its key counts no more.
async fn worker_key(handle: &Handle, path: PathBuf) -> Result<PathBuf, String> {
    let cannot = |what: &str, error: &dyn std::fmt::Display| {
        format!("{} cannot be {what}: {error}", path.display())
    };
    match fs::read_to_string(&path) {
        Ok(key) if counts(handle, key.trim()) => return Ok(path),
        Ok(_) => fs::remove_file(&path).map_err(|error| cannot("replaced", &error))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(cannot("read", &error)),
    }
    let key = key(handle, "first worker", Role::Worker).await?;
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(&path);
    let mut file = made.map_err(|error| cannot("made", &error))?;
    writeln!(file, "{key}")
        .and_then(|()| file.sync_all())
        .map_err(|error| cannot("written", &error))?;
    Ok(path)
}

/// True if the key is valid.
pub(super) fn counts(handle: &Handle, key: &str) -> bool {
    credential::parse(key).and_then(|(_, it)| handle.caller_of_key(&it)).is_ok()
}

/// Makes a live key for the default queues and lifetime, in the name of the system.
pub(super) async fn key(handle: &Handle, name: &str, role: Role) -> Result<String, String> {
    let key = NewKey {
        name: name.into(),
        role,
        environment: Environment::LIVE,
        tier: None,
        queues: Vec::new(),
        lifetime: DEFAULT_LIFETIME,
    };
    let made = handle.create_key(key, By::SYSTEM).await.map_err(|error| error.to_string());
    made.map(|(_, secret)| secret.expose().to_owned())
}
