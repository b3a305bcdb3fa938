//! The embedded store of a data directory: opened, made smaller, and the reserve of its disk.

use std::sync::Arc;

use callboard_domain::room::Held;
use callboard_store::Reserve;
use callboard_store::sled::{Compacted, SledOptions, SledStore};

use super::{Error, blocking, broken};
use crate::config::Config;

/// The reserve of the data directory's disk.
pub(super) fn reserve(config: &Config) -> Reserve {
    Reserve::new(&config.server.data_dir, config.store.reserve_bytes)
}

pub(super) async fn open_store(config: &Config) -> Result<Arc<SledStore>, Error> {
    let (dir, settings) = (&config.server.data_dir, &config.store);
    let directory = dir.join("store");
    check_exists(config)?;
    make_room(&reserve(config));
    let on_failure = Box::new(|error: &callboard_store::Error| broken(&error.to_string()));
    let options = SledOptions {
        archive: settings.archive.clone(),
        ..SledOptions::new(directory, settings.cache_bytes, on_failure)
    };
    let store = blocking(move || SledStore::open(options)).await?;
    Ok(Arc::new(store.map_err(|e| Error(e.to_string()))?))
}

/// Passes unless there is no store where one must exist.
///
/// # Errors
/// The remedies.
pub fn check_exists(config: &Config) -> Result<(), Error> {
    let dir = &config.server.data_dir;
    if !config.store.must_exist || dir.join("store").exists() {
        return Ok(());
    }
    Err(Error(format!(
        "there is no store in {}, and [store] must_exist is set: mount its disk, restore a backup with callboard \
         backup restore, or start once without the setting, which makes an empty store",
        dir.display()
    )))
}

/// Gives bytes of the reserve back to a disk that is too full to open the store.
fn make_room(reserve: &Reserve) {
    let held = Held { now: reserve.held(), whole: reserve.bytes() };
    let Ok(free) = reserve.free() else { return };
    let Some(left) = held.at_start(free) else { return };
    match reserve.keep(left) {
        Ok(()) => tracing::warn!(
            free,
            bytes = held.now - left,
            "the disk of the data directory is full: the reserve gives it bytes back"
        ),
        Err(error) => tracing::error!(%error, "the reserve cannot be given back"),
    }
}

/// Makes the store of a data directory as small as its live rows; no process may have it open.
///
/// # Errors
/// The store is open elsewhere, absent or damaged, or the disk fails. Every live row is still
/// there.
pub fn compact(config: &Config) -> Result<Compacted, Error> {
    let store = config.server.data_dir.join("store");
    // The copy needs room, and the next start makes the reserve again.
    let _ = reserve(config).keep(0);
    callboard_store::sled::compact(&store, config.store.cache_bytes, config.store.archive.clone())
        .map_err(|e| Error(e.to_string()))
}
