//! The move of an embedded store to an empty database: every row is copied, read back and compared.
//!
//! Deliberately absent: a move of a store in use, and files beside the store.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::errors::{failed, passes};
use super::link::Link;
use super::schema;
use super::session::Address;
use crate::sled::SledStore;
use crate::version::{PROGRAM, ROWS};
use crate::{Error, LogId, Partition, Store};

/// The rows of one call.
const PAGE: usize = 2_000;
const PATIENCE: Duration = Duration::from_secs(10);
/// The tries of a commit whose connection breaks.
const ATTEMPTS: usize = 3;
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '10s'";

/// The outcome of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Migrated {
    /// The rows that were copied and compared.
    pub rows: u64,
    /// The bytes of the rows' keys and values.
    pub bytes: u64,
    /// True if an earlier move had copied them.
    pub was_there: bool,
}

/// Copies the embedded store `from` to the database at `to`, in one transaction. `from` stays as it is.
///
/// A commit whose connection breaks may have happened. The next connection finds out: a database that no node
/// has served from and that holds the same rows is the copy. So a move may be repeated at any time.
///
/// # Errors
/// [`Error::Io`] if the database already holds another store, or refuses; [`Error::Corrupt`] if a row that was
/// read back differs. The database then holds nothing new.
pub async fn migrate(from: &SledStore, to: Address) -> Result<Migrated, Error> {
    let link = Link::new(to, tokio::runtime::Handle::current(), PATIENCE);
    link.check().await?;
    schema::migrate(&link).await?;
    let mut interrupted = None;
    for _ in 0..ATTEMPTS {
        let (client, warned) = match (link.connect_watched(link.deadline()).await, &interrupted) {
            (Ok(connected), _) => connected,
            (Err(error), None) => return Err(error),
            (Err(error), Some(_)) => return Err(unknown(&error)),
        };
        // Dropping the connection rolls the transaction back.
        client.batch_execute(BEGIN).await.map_err(|error| failed(&error))?;
        let migrated = if let Some(found) = found(from, &client).await? {
            found
        } else {
            let copied = copy(from, &client).await?;
            compare(from, &client, copied).await?;
            copied
        };
        record_migration(from, &client).await?;
        warned.take();
        match client.batch_execute("COMMIT").await {
            Ok(()) => {}
            Err(error) if passes(&error) => {
                tracing::warn!(%error, "the commit was interrupted; its fate is asked for");
                interrupted = Some(failed(&error));
                continue;
            }
            Err(error) => return Err(failed(&error)),
        }
        while warned.take() {
            tracing::warn!("a wait for a synchronous standby was cancelled; it begins anew");
            let touch = "UPDATE callboard.meta SET tenure = tenure";
            client.batch_execute(touch).await.map_err(|error| failed(&error))?;
        }
        client.batch_execute("ANALYZE callboard.row").await.map_err(|error| failed(&error))?;
        return Ok(migrated);
    }
    Err(unknown(&interrupted.unwrap_or(Error::Stopped)))
}

/// The connection broke during the commit, and no other one could be had that knows its fate.
fn unknown(error: &Error) -> Error {
    let text = format!(
        "the connection broke during the commit, and whether the rows were copied is unknown: run the same \
         command again once the database answers, it compares them ({error})"
    );
    Error::Io(text.into())
}

/// The copy that the database holds already; `None` if it is empty.
///
/// The row of meta is locked until the end: no node can join or claim meanwhile. A transaction whose connection
/// was lost holds the lock until the database has ended it.
async fn found(from: &SledStore, client: &Client) -> Result<Option<Migrated>, Error> {
    let lock = "SELECT tenure FROM callboard.meta FOR UPDATE";
    let locked = client.query_one(lock, &[]).await.map_err(|error| {
        if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
            let text = "another connection holds the database: another migration, or one whose connection \
                        was lost during its commit; run the same command again";
            return Error::Io(text.into());
        }
        failed(&error)
    });
    let tenure: i64 = locked?.get(0);
    let count = "SELECT count(*), coalesce(sum(length(key) + length(value)), 0)::bigint, \
                 EXISTS (SELECT FROM callboard.writer) FROM callboard.row";
    let counted = client.query_one(count, &[]).await.map_err(|error| failed(&error))?;
    let (rows, bytes): (i64, i64) = (counted.get(0), counted.get(1));
    if counted.get(2) {
        return Err(Error::Io("the database has been served from: name an empty one".into()));
    }
    if tenure == 0 && rows == 0 {
        return Ok(None);
    }
    let (rows, bytes) = (rows.cast_unsigned(), bytes.cast_unsigned());
    let found = Migrated { rows, bytes, was_there: true };
    match compare(from, client, found).await {
        Ok(()) => Ok(Some(found)),
        Err(Error::Corrupt { .. }) => {
            let text = "the database holds a copy of another store, or of an earlier state of this one; no \
                        node has served from it: drop its schema callboard, or name an empty one";
            Err(Error::Io(text.into()))
        }
        Err(error) => Err(error),
    }
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

/// Writes the numbers from which logs, stamps and epochs go on, and the version of the rows.
async fn record_migration(from: &SledStore, client: &Client) -> Result<(), Error> {
    for id in 0..=u8::MAX {
        let (_, newest) = from.log_bounds(LogId(id)).await?;
        if newest > 0 {
            let log = "UPDATE callboard.log SET newest = $2 WHERE id = $1";
            let set = client.execute(log, &[&i16::from(id), &newest.cast_signed()]).await;
            set.map_err(|error| failed(&error))?;
        }
    }
    let epoch = from.epoch(Partition(0)).map_or(0, |epoch| epoch.0.cast_signed());
    let meta = "UPDATE callboard.meta SET tenure = $1, rows = $2, program = $3, \
                oldest_reader = GREATEST(oldest_reader, 3)";
    let noted = client.execute(meta, &[&epoch, &ROWS.cast_signed(), &PROGRAM]).await;
    noted.map_err(|error| failed(&error)).map(drop)
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
