//! The backup of a data directory that no server uses.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use callboard_store::sled::{SledOptions, SledStore};

use crate::{Error, Manifest, Writer};

const CACHE: u64 = 64 << 20;
/// The server's secrets beside the store.
const SECRETS: [&str; 2] = ["signing.key", "webhook.secret"];

/// Writes the store of a data directory, and the server's secrets, to a backup. `archive` is that of the
/// server.
///
/// # Errors
/// [`Error::NotFound`] if there is no store, [`Error::Store`] if a server uses it or if it is damaged.
pub fn back_up(
    data: &Path,
    archive: Option<PathBuf>,
    mut writer: Writer<'_>,
) -> Result<Manifest, Error> {
    let path = data.join("store");
    if !path.join("db").exists() {
        return Err(Error::NotFound(format!("there is no store at {}", path.display())));
    }
    let options = SledOptions::new(path, CACHE, Box::new(|_| ()));
    let store = SledStore::open(SledOptions { archive, ..options })?;
    for piece in store.snapshot()? {
        writer.push(&piece?)?;
    }
    for secret in SECRETS.map(|name| data.join(name)) {
        if secret.exists() {
            writer.add_file(&secret)?;
        }
    }
    let manifest = writer.finish(None)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    store.record_backup(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), manifest.group)?;
    Ok(manifest)
}
