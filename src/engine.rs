//! The store that several nodes share, as the settings name it.
//!
//! Deliberately absent: the embedded store, which is the service's, and the choice of partitions to own.

use std::sync::Arc;

use callboard_store::Ownership;
use callboard_store::ownership::NodeId;
use callboard_store::postgres::{Address, PostgresOptions, PostgresStore};
use callboard_store::{OnFailure, Store};

/// A node's connection to the shared store, by both of its roles.
pub struct Shared {
    /// Rows, lists and logs.
    pub store: Arc<dyn Store>,
    /// The partitions.
    pub ownership: Arc<dyn Ownership>,
}

/// Connects `node` to the database at `address`; it has not joined yet.
///
/// # Errors
/// The database cannot be reached, or refuses; in words that say why.
pub async fn open_shared(
    address: Address,
    node: NodeId,
    on_failure: OnFailure,
) -> Result<Shared, String> {
    let store = PostgresStore::open(PostgresOptions::new(address, node, on_failure)).await;
    let store = Arc::new(store.map_err(|error| error.to_string())?);
    Ok(Shared { store: store.clone(), ownership: store })
}
