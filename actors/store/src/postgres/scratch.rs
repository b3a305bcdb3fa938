//! A database for measurements, emptied between them.
//!
//! Deliberately absent: databases that held a store before.

use super::errors::failed;
use super::link::Link;
use super::session::Address;
use crate::Error;

/// A database of which the schema `callboard` may be dropped, because it held none.
#[derive(Debug)]
pub struct Scratch(Address);

impl Scratch {
    /// Takes the database at `address`.
    ///
    /// # Errors
    /// [`Error::Io`] if it has a schema `callboard`, or cannot be reached.
    pub async fn take(address: Address) -> Result<Self, Error> {
        let link = link(&address);
        link.check().await?;
        let found = link.read(async |client| {
            let any = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'callboard')";
            client.query_one(any, &[]).await
        });
        if found.await?.get(0) {
            let text =
                "the database holds a store, which a measurement would destroy: name an empty one";
            return Err(Error::Io(text.into()));
        }
        Ok(Self(address))
    }

    /// The database.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.0
    }

    /// Drops everything that servers have made. None may run.
    ///
    /// # Errors
    /// [`Error::Io`] if the database refuses.
    pub async fn empty(&self) -> Result<(), Error> {
        let link = link(&self.0);
        let client = link.connect(link.deadline()).await?;
        let dropped = client.batch_execute("DROP SCHEMA IF EXISTS callboard CASCADE").await;
        dropped.map_err(|error| failed(&error))
    }
}

fn link(address: &Address) -> Link {
    Link::new(
        address.clone(),
        tokio::runtime::Handle::current(),
        std::time::Duration::from_secs(10),
    )
}
