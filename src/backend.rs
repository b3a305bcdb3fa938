//! The store that several nodes share, named by the settings.

use std::sync::Arc;
use std::time::Duration;

use callboard_store::ownership::NodeId;
use callboard_store::postgres::{self, Address, Migrated, PostgresOptions, PostgresStore};
use callboard_store::sled::{SledOptions, SledStore};
use callboard_store::{OnFailure, Ownership, Store};

use crate::config::Config;

/// A node's connection to the shared store, by both of its roles.
pub struct Shared {
    /// Rows, lists and logs.
    pub store: Arc<dyn Store>,
    /// The partitions.
    pub ownership: Arc<dyn Ownership>,
}

/// Connects `node`, whose row lives for `term`, to the database at `address`; the node has not
/// joined yet.
///
/// # Errors
/// The database cannot be reached, or refuses; the text gives the reason.
pub async fn open_shared(
    address: Address,
    node: NodeId,
    term: Duration,
    on_failure: OnFailure,
) -> Result<Shared, String> {
    let options = PostgresOptions { term, ..PostgresOptions::new(address, node, on_failure) };
    let store = PostgresStore::open(options).await;
    let store = Arc::new(store.map_err(|error| error.to_string())?);
    Ok(Shared { store: store.clone(), ownership: store })
}

/// Copies the embedded store in the data directory to the database of the settings, and compares every row.
///
/// # Errors
/// The directory holds no store, a server uses it, or the database is not empty or cannot be
/// reached.
pub async fn migrate(config: &Config) -> Result<Migrated, String> {
    let path = config.server.data_dir.join("store");
    if !path.exists() {
        return Err(format!("there is no store in {}", config.server.data_dir.display()));
    }
    let address = config.store.shared.clone().ok_or("store.url is not set")?;
    let archive = config.store.archive.clone();
    let options = SledOptions::new(path, config.store.cache_bytes, Box::new(|_| ()));
    let store = SledStore::open(SledOptions { archive, ..options });
    let store = store.map_err(|error| error.to_string())?;
    postgres::migrate(&store, address).await.map_err(|error| error.to_string())
}
