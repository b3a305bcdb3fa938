//! The tables and functions, made in an empty database.

use tokio_postgres::error::SqlState;

use super::errors::failed;
use super::link::Link;
use crate::version::{self, ROWS, Written};
use crate::{Error, Inspected};

/// The format that this program writes.
const FORMAT: i32 = 3;
const TABLES: &str = include_str!("schema.sql");
/// The steps from each format to the next, from the first on.
const STEPS: [&str; 2] = [include_str!("schema_2.sql"), include_str!("schema_3.sql")];
/// The tables in an error's text.
const PLACE: &str = "the schema callboard of the database";

/// Makes the tables if there are none, and adds to those of an earlier format.
///
/// A later format adds to the tables; a program of an earlier format then goes on as long as the tables say
/// that they are readable to it.
pub(super) async fn migrate(link: &Link) -> Result<(), Error> {
    let deadline = link.deadline();
    loop {
        let client = link.connect(deadline).await?;
        match client.query_one("SELECT format, oldest_reader FROM callboard.meta", &[]).await {
            Ok(row) => {
                let (format, oldest_reader) = (row.get(0), row.get(1));
                check(format, oldest_reader)?;
                let Some(step) = usize::try_from(format - 1).ok().and_then(|at| STEPS.get(at))
                else {
                    return check_rows(link).await;
                };
                // Only one of several nodes finds the format that the step begins with.
                let add = format!("BEGIN; {step} COMMIT");
                match client.batch_execute(&add).await {
                    Ok(()) => tracing::info!(format = format + 1, "the tables were extended"),
                    Err(error) if is_made(&error) => {}
                    Err(error) => link.pause(&error, deadline).await?,
                }
                continue;
            }
            Err(error) if is_missing(&error) => {}
            Err(error) => {
                link.pause(&error, deadline).await?;
                continue;
            }
        }
        // One transaction, sent at once: PostgreSQL refuses the second of two nodes that make the tables.
        let make = format!("BEGIN; CREATE SCHEMA callboard; {TABLES} COMMIT");
        match client.batch_execute(&make).await {
            Ok(()) => tracing::info!("the tables were made"),
            Err(error) if is_made(&error) => {}
            Err(error) => link.pause(&error, deadline).await?,
        }
    }
}

fn check(format: i32, oldest_reader: i32) -> Result<(), Error> {
    if oldest_reader > FORMAT {
        return Err(version::newer(&format!("{PLACE} (format {format})"), None));
    }
    Ok(())
}

/// Looks at the tables, and changes nothing; `None` if there are none.
pub(super) async fn inspect(link: &Link) -> Result<Option<Inspected>, Error> {
    let client = link.connect(link.deadline()).await?;
    let meta =
        "SELECT format, oldest_reader, pg_total_relation_size('callboard.row') FROM callboard.meta";
    let (format, bytes): (i32, i64) = match client.query_one(meta, &[]).await {
        Ok(row) => {
            check(row.get(0), row.get(1))?;
            (row.get(0), row.get(2))
        }
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    let mut written = Written { rows: 0, program: String::new() };
    if format >= FORMAT {
        written = self::written(link).await?;
        written.check(PLACE)?;
    }
    let is_changed_by_opening = written.rows < ROWS;
    Ok(Some(Inspected { written, bytes: bytes.cast_unsigned(), is_changed_by_opening }))
}

/// Refuses rows of a newer program.
pub(super) async fn check_rows(link: &Link) -> Result<(), Error> {
    written(link).await?.check(PLACE)
}

async fn written(link: &Link) -> Result<Written, Error> {
    let found = link.read(|client| async move {
        client.query_one("SELECT rows, program FROM callboard.meta", &[]).await
    });
    let row = found.await?;
    let rows = u32::try_from(row.get::<_, i32>(0)).unwrap_or_default();
    Ok(Written { rows, program: row.get(1) })
}

fn is_missing(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::UNDEFINED_TABLE) || code == Some(&SqlState::INVALID_SCHEMA_NAME)
}

fn is_made(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    let made = [SqlState::DUPLICATE_SCHEMA, SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_COLUMN];
    code.is_some_and(|code| made.contains(code))
}
