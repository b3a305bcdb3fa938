//! Reads of rows and logs.

use std::collections::BTreeMap;

use bytes::Bytes;
use tokio_postgres::types::Type;

use super::gathered::Found;
use super::link::Link;
use crate::batch::{Key, LogId};
use crate::log::{self, Bounds, Unpacker};
use crate::ownership::PartitionSet;
use crate::row::disk_key;
use crate::{Error, Measured, Record, Size};

/// The most rows of one call.
const PAGE: usize = 2_000;

/// The most megabytes of the table that a sample reads.
const SAMPLED: i64 = 32;

/// Measures a sample of all rows, and scales it to the whole; of a small table, every row.
pub(super) async fn sample(link: &Link) -> Result<Measured, Error> {
    let found = link.read(|client| async move {
        let share = "SELECT LEAST(100, 100.0 * ($1::bigint << 20) \
                     / GREATEST(1, pg_relation_size('callboard.row')))::real";
        let share = client.query_typed(share, &[(&SAMPLED, Type::INT8)]).await?;
        let percent: f32 = share.first().map_or(100.0, |row| row.get(0));
        // The length of a long value is known without reading it.
        let sample = "SELECT substring(key FROM 1 FOR 2), (count(*) * 100 / $1)::bigint, \
                      (sum(length(key) + length(value)) * 100 / $1)::bigint \
                      FROM callboard.row TABLESAMPLE SYSTEM ($1) GROUP BY 1";
        Ok((percent, client.query_typed(sample, &[(&percent, Type::FLOAT4)]).await?))
    });
    let (percent, rows) = found.await?;
    let mut measured = Measured { is_sample: percent < 100.0, ..Measured::default() };
    for row in &rows {
        let (rows, bytes): (i64, i64) = (row.get(1), row.get(2));
        let size = Size { rows: rows.cast_unsigned(), bytes: bytes.cast_unsigned() };
        measured.add(row.get(0), size);
    }
    Ok(measured)
}

/// The row at a key on disk.
pub(super) async fn get(link: &Link, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let found = link.read(|client| async move {
        let row = "SELECT value FROM callboard.row WHERE key = $1";
        client.query_typed(row, &[(&key, Type::BYTEA)]).await
    });
    Ok(found.await?.first().map(|row| row.get(0)))
}

/// The rows at keys on disk.
pub(super) async fn at(link: &Link, keys: &[Vec<u8>]) -> Result<Found, Error> {
    let found = link.read(|client| async move {
        let rows = "SELECT key, value FROM callboard.row WHERE key = ANY ($1)";
        client.query_typed(rows, &[(&keys, Type::BYTEA_ARRAY)]).await
    });
    let row = |row: &tokio_postgres::Row| (row.get(0), Bytes::copy_from_slice(row.get(1)));
    Ok(found.await?.iter().map(row).collect())
}

/// The keys on disk with `from <= key < to`, in order, at most `limit`.
pub(super) async fn keys(
    link: &Link,
    from: &[u8],
    to: &[u8],
    limit: usize,
) -> Result<Vec<Vec<u8>>, Error> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = link.read(|client| async move {
        let keys =
            "SELECT key FROM callboard.row WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3";
        let bounds =
            [(&from as _, Type::BYTEA), (&to as _, Type::BYTEA), (&limit as _, Type::INT8)];
        client.query_typed(keys, &bounds).await
    });
    Ok(found.await?.iter().map(|row| row.get(0)).collect())
}

/// The rows of a page: keys and values on disk.
pub(super) async fn page(
    link: &Link,
    from: &[u8],
    to: &[u8],
    partitions: PartitionSet,
    limit: usize,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, Error> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let some: Vec<i32> = partitions.iter().map(|partition| i32::from(partition.0)).collect();
    let all = partitions == PartitionSet::ALL;
    let found = link.read(|client| {
        let some = &some;
        async move {
            // A key on disk is one byte longer than the row's key.
            let rows = "SELECT key, value FROM callboard.row WHERE key >= $1 AND key < $2 \
                        AND ($4 OR length(key) > 18 AND get_byte(key, 18) = ANY ($5)) \
                        ORDER BY key LIMIT $3";
            let bounds = [
                (&from as _, Type::BYTEA),
                (&to as _, Type::BYTEA),
                (&limit as _, Type::INT8),
                (&all as _, Type::BOOL),
                (some as _, Type::INT4_ARRAY),
            ];
            client.query_typed(rows, &bounds).await
        }
    });
    Ok(found.await?.iter().map(|row| (row.get(0), row.get(1))).collect())
}

pub(super) async fn scan<T>(
    link: &Link,
    partitions: PartitionSet,
    (from, to): (Key, Key),
    limit: usize,
    read: impl Fn(&[u8], &[u8]) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let (mut from, to) = (disk_key(&from), disk_key(&to));
    let mut rows = Vec::new();
    while from < to && rows.len() < limit {
        let asked = PAGE.min(limit - rows.len());
        let page = page(link, &from, &to, partitions, asked).await?;
        let is_last = page.len() < asked;
        if let Some((last, _)) = page.last() {
            from.clone_from(last);
            from.push(0);
        }
        for (key, row) in page {
            rows.push(read(&key[1..], &row)?);
        }
        if is_last {
            break;
        }
    }
    Ok(rows)
}

/// The bounds of every log that ever had a record.
pub(super) async fn logs(link: &Link) -> Result<BTreeMap<LogId, Bounds>, Error> {
    let found = link.read(|client| async move {
        // One snapshot: a trim and the number after it are never read apart.
        let logs = "SELECT log.id, log.newest, row.value FROM callboard.log \
                    LEFT JOIN callboard.row ON row.key = '\\x6d6c'::bytea || \
                        set_byte('\\x00'::bytea, 0, log.id) \
                    WHERE log.newest > 0 ORDER BY log.id";
        client.query_typed(logs, &[]).await
    });
    let mut logs = BTreeMap::new();
    for row in found.await? {
        let (id, newest): (i16, i64) = (row.get(0), row.get(1));
        let trimmed = row.get::<_, Option<&[u8]>>(2).and_then(log::decode_bounds);
        let oldest = trimmed.map_or(1, |bounds| bounds.oldest.max(1));
        let id = LogId(u8::try_from(id).map_err(|_| Error::Stopped)?);
        logs.insert(id, Bounds { oldest, newest: newest.cast_unsigned() });
    }
    Ok(logs)
}

pub(super) async fn bounds(link: &Link, id: LogId) -> Result<Bounds, Error> {
    Ok(logs(link).await?.get(&id).copied().unwrap_or_default())
}

pub(super) async fn records(
    link: &Link,
    id: LogId,
    after: u64,
    limit: usize,
) -> Result<Vec<Record>, Error> {
    let bounds = bounds(link, id).await?;
    let start = bounds.oldest.max(after.saturating_add(1));
    let mut records = Vec::new();
    if start > bounds.newest || limit == 0 {
        return Ok(records);
    }
    let mut from = first_row(link, id, start).await?;
    let to = log::key(id, bounds.newest, u8::MAX);
    let to = [&to[..], &[0]].concat();
    let mut unpacker = Unpacker::default();
    while records.len() < limit {
        let asked = limit.clamp(8, PAGE / 8);
        let page = page(link, &from, &to, PartitionSet::ALL, asked).await?;
        for (key, row) in &page {
            let record = |sequence, bytes: &[u8]| {
                if sequence >= start && sequence <= bounds.newest && records.len() < limit {
                    let bytes = Bytes::copy_from_slice(bytes);
                    records.push(Record { log: id, sequence, bytes });
                }
            };
            if unpacker.row(key, row, record).is_none() {
                let reason = "its rows are out of sequence".into();
                return Err(Error::Corrupt { path: format!("log {}", id.0), reason });
            }
        }
        match page.last() {
            Some((last, _)) if page.len() == asked => {
                from.clone_from(last);
                from.push(0);
            }
            Some(_) | None => break,
        }
    }
    Ok(records)
}

/// The key of the row in which the record `start` stands or begins.
async fn first_row(link: &Link, id: LogId, start: u64) -> Result<Vec<u8>, Error> {
    let (least, most) = (log::key(id, 0, 0), log::key(id, start, u8::MAX));
    let found = link.read(|client| async move {
        let newest = "SELECT key FROM callboard.row WHERE key >= $1 AND key <= $2 \
                    ORDER BY key DESC LIMIT 1";
        let (least, most) = (&least[..], &most[..]);
        client.query_typed(newest, &[(&least, Type::BYTEA), (&most, Type::BYTEA)]).await
    });
    let found = found.await?;
    let before = found.first().and_then(|row| log::read_key(row.get(0)));
    let first = before.map_or(start, |(first, _)| first);
    Ok(log::key(id, first, 0).to_vec())
}
