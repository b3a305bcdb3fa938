//! The move of an embedded store to an empty database: every row is copied, read back and compared.
//!
//! Deliberately absent: a move of a store in use, and files beside the store.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::link::{Address, Link, failed};
use super::schema;
use crate::sled::SledStore;
use crate::{Error, LogId, Partition, Store};

/// The rows of one call.
const PAGE: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(10);

/// The outcome of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Migrated {
    /// The rows that were copied and compared.
    pub rows: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
}

/// Copies the embedded store `from` to the database at `to`, in one transaction. `from` stays as it is.
///
/// # Errors
/// [`Error::Io`] if the database already holds a store, or refuses; [`Error::Corrupt`] if a row that was read
/// back differs. The database then holds nothing new.
pub async fn migrate(from: &SledStore, to: Address) -> Result<Migrated, Error> {
    let link = Link::new(to, tokio::runtime::Handle::current(), PATIENCE);
    link.check().await?;
    schema::migrate(&link).await?;
    let (client, warned) = link.connect_watched(link.deadline()).await?;
    // Dropping the connection rolls the transaction back.
    client.batch_execute("BEGIN").await.map_err(|error| failed(&error))?;
    refuse_in_use(&client).await?;
    let migrated = copy(from, &client).await?;
    note(from, &client).await?;
    compare(from, &client, migrated).await?;
    warned.take();
    client.batch_execute("COMMIT").await.map_err(|error| failed(&error))?;
    while warned.take() {
        tracing::warn!("a wait for a synchronous standby was cancelled; it begins anew");
        let touch = "UPDATE callboard.meta SET tenure = tenure";
        client.batch_execute(touch).await.map_err(|error| failed(&error))?;
    }
    client.batch_execute("ANALYZE callboard.row").await.map_err(|error| failed(&error))?;
    Ok(migrated)
}

async fn refuse_in_use(client: &Client) -> Result<(), Error> {
    // The row of meta is locked until the end: no node can join or claim meanwhile.
    let lock = "SELECT tenure FROM callboard.meta FOR UPDATE";
    let tenure: i64 = client.query_one(lock, &[]).await.map_err(|error| failed(&error))?.get(0);
    let any = "SELECT EXISTS (SELECT FROM callboard.row)";
    let any: bool = client.query_one(any, &[]).await.map_err(|error| failed(&error))?.get(0);
    if tenure > 0 || any {
        return Err(Error::Io("the database has been served from: name an empty one".into()));
    }
    Ok(())
}

async fn copy(from: &SledStore, client: &Client) -> Result<Migrated, Error> {
    let mut migrated = Migrated::default();
    let mut after = Vec::new();
    loop {
        let page = from.raw_rows(&after, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(migrated) };
        after.clone_from(last);
        let keys: Vec<_> = page.iter().map(|(key, _)| key.as_slice()).collect();
        let values: Vec<_> = page.iter().map(|(_, value)| value.as_slice()).collect();
        let insert = "INSERT INTO callboard.row SELECT * FROM unnest($1::bytea[], $2::bytea[])";
        client.execute(insert, &[&keys, &values]).await.map_err(|error| failed(&error))?;
        migrated.rows += page.len() as u64;
        migrated.bytes +=
            page.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
    }
}

/// Writes the numbers from which logs, stamps and epochs go on.
async fn note(from: &SledStore, client: &Client) -> Result<(), Error> {
    for id in 0..=u8::MAX {
        let (_, newest) = from.log_bounds(LogId(id)).await?;
        if newest > 0 {
            let log = "UPDATE callboard.log SET newest = $2 WHERE id = $1";
            let set = client.execute(log, &[&i16::from(id), &newest.cast_signed()]).await;
            set.map_err(|error| failed(&error))?;
        }
    }
    let epoch = from.epoch(Partition(0)).map_or(0, |epoch| epoch.0.cast_signed());
    let tenure = client.execute("UPDATE callboard.meta SET tenure = $1", &[&epoch]).await;
    tenure.map_err(|error| failed(&error)).map(drop)
}

async fn compare(from: &SledStore, client: &Client, migrated: Migrated) -> Result<(), Error> {
    let differs = |key: &[u8]| Error::Corrupt {
        path: format!("the row {key:02x?}"),
        reason: "its copy in the database differs".into(),
    };
    let (mut after, mut compared) = (Vec::new(), 0);
    loop {
        let expected = from.raw_rows(&after, PAGE)?;
        let read = "SELECT key, value FROM callboard.row WHERE key > $1 ORDER BY key LIMIT $2";
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let found = client.query_typed(read, &[(&after, Type::BYTEA), (&limit, Type::INT8)]).await;
        let found = found.map_err(|error| failed(&error))?;
        if let Some((key, _)) = expected.iter().zip(&found).find_map(|((key, value), row)| {
            let same = key.as_slice() == row.get::<_, &[u8]>(0)
                && value.as_slice() == row.get::<_, &[u8]>(1);
            (!same).then_some((key, value))
        }) {
            return Err(differs(key));
        }
        if found.len() != expected.len() {
            return Err(differs(&after));
        }
        compared += expected.len() as u64;
        match expected.last() {
            Some((last, _)) => after.clone_from(last),
            None if compared == migrated.rows => return Ok(()),
            None => return Err(differs(&after)),
        }
    }
}
