//! `Table<K, V>`: a typed, versioned view of rows, `Texts`: long texts in chunks, and `Chunks`: bytes.
//!
//! ```text
//! row     [version u8][crc32 of the payload u32, little-endian][payload: JSON]
//! ```
//!
//! A table with a dictionary compresses a payload if that pays, and the version says so (`compress.rs`).
//!
//! A payload that does not match its checksum, or that a newer program wrote, is an error that names the
//! table and the key. A payload of an older version goes through the table's upgrade first.
//!
//! Deliberately absent: caching, and the meaning of any table.

mod buffers;
mod chunks;
mod compress;
mod key;
mod records;
mod texts;

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::batch::{Entry, Key, MAX_ROW, Op};
use crate::{Error, Row, Store};

pub use chunks::Chunks;
pub use key::TableKey;
pub use records::Records;
pub use texts::{StoredText, Texts};

use buffers::EncodeBuffers;
use compress::{COMPRESSED, decompress};

/// Upgrades a payload by one version: `(from, payload)`.
pub type Upgrade = fn(u8, Value) -> Value;

const HEADER: usize = 5;
/// The longest payload that a compressed row is decompressed to.
const MAX_PAYLOAD: usize = 16 * MAX_ROW;

/// Rows of one table: `V`s by `K`.
#[derive(Debug)]
pub struct Table<K, V> {
    number: u8,
    version: u8,
    upgrade: Option<Upgrade>,
    dictionary: Option<&'static [u8]>,
    of: PhantomData<fn(K) -> V>,
}

impl<K: TableKey, V: Serialize + DeserializeOwned> Table<K, V> {
    /// The table `number`, whose rows are written in `version` from now on.
    ///
    /// # Panics
    /// If the version is 128 or more.
    #[must_use]
    pub const fn new(number: u8, version: u8) -> Self {
        assert!(version < COMPRESSED, "the upper half of versions is for compressed rows");
        Self { number, version, upgrade: None, dictionary: None, of: PhantomData }
    }

    /// The same, with rows of older versions upgraded one version at a time.
    #[must_use]
    pub const fn upgraded_by(self, upgrade: Upgrade) -> Self {
        Self { upgrade: Some(upgrade), ..self }
    }

    /// The same, with compressed rows: `dictionary` holds their common parts, and never changes.
    #[must_use]
    pub const fn compressed_with(self, dictionary: &'static [u8]) -> Self {
        Self { dictionary: Some(dictionary), ..self }
    }

    /// The store's key of `key`.
    #[must_use]
    pub fn key(&self, environment: u8, key: &K) -> Key {
        Key::new(self.number, environment, &key.bytes())
    }

    /// Writes a row; in a listed table, with its entry.
    ///
    /// # Panics
    /// If `V` cannot be JSON: a map whose keys are no strings.
    #[must_use]
    pub fn put(&self, environment: u8, key: &K, value: &V, entry: Option<Entry>) -> Op {
        Op::Put { key: self.key(environment, key), value: self.encode(value), entry }
    }

    /// The same, never compressed: for a row that is written again soon.
    ///
    /// # Panics
    /// Those of [`Table::put`].
    #[must_use]
    pub fn put_uncompressed(
        &self,
        environment: u8,
        key: &K,
        value: &V,
        entry: Option<Entry>,
    ) -> Op {
        let value = EncodeBuffers::with(|buffers| buffers.row(self.version, value, None));
        Op::Put { key: self.key(environment, key), value, entry }
    }

    /// Writes a row; a conflict if it exists.
    ///
    /// # Panics
    /// Those of [`Table::put`].
    #[must_use]
    pub fn insert(&self, environment: u8, key: &K, value: &V) -> Op {
        Op::Insert { key: self.key(environment, key), value: self.encode(value) }
    }

    /// Deletes a row.
    #[must_use]
    pub fn delete(&self, environment: u8, key: &K) -> Op {
        Op::Delete { key: self.key(environment, key) }
    }

    /// The row at `key`.
    ///
    /// # Errors
    /// The store's, and [`Error::Corrupt`] if the row cannot be read.
    pub async fn get(
        &self,
        store: &dyn Store,
        environment: u8,
        key: &K,
    ) -> Result<Option<V>, Error> {
        let key = self.key(environment, key);
        let row = store.get(&key).await?;
        row.map(|row| self.decode(&key, &row)).transpose()
    }

    /// The rows after the key `after` or from the first, in key order, at most `limit`.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub async fn scan(
        &self,
        store: &dyn Store,
        environment: u8,
        after: Option<&K>,
        limit: usize,
    ) -> Result<Vec<(K, V)>, Error> {
        let from = match after {
            Some(key) => next(&self.key(environment, key)),
            None => Key::new(self.number, environment, &[]),
        };
        self.read(store, from, past(self.number, environment), limit).await
    }

    /// The rows from `first` to `last`, both included, in key order.
    ///
    /// # Errors
    /// Those of [`Table::get`].
    pub async fn range(
        &self,
        store: &dyn Store,
        environment: u8,
        first: &K,
        last: &K,
    ) -> Result<Vec<(K, V)>, Error> {
        self.decoded(self.stored_range(store, environment, first, last).await?)
    }

    /// The same as they are stored, for [`Table::decoded`] on another thread.
    ///
    /// # Errors
    /// The store's.
    pub async fn stored_range(
        &self,
        store: &dyn Store,
        environment: u8,
        first: &K,
        last: &K,
    ) -> Result<Vec<Row>, Error> {
        let (from, to) = (self.key(environment, first), next(&self.key(environment, last)));
        store.scan(from, to, usize::MAX).await
    }

    /// Rows of this table that were read as they are stored.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a row cannot be read.
    pub fn decoded(&self, rows: Vec<Row>) -> Result<Vec<(K, V)>, Error> {
        let rows = rows.into_iter().map(|(key, row)| {
            let name = K::read(&key.0[2..])
                .ok_or_else(|| self.corrupt(&key, "its key is of another kind"))?;
            Ok((name, self.decode(&key, &row)?))
        });
        rows.collect()
    }

    async fn read(
        &self,
        store: &dyn Store,
        from: Key,
        to: Key,
        limit: usize,
    ) -> Result<Vec<(K, V)>, Error> {
        self.decoded(store.scan(from, to, limit).await?)
    }

    fn encode(&self, value: &V) -> Bytes {
        EncodeBuffers::with(|buffers| buffers.row(self.version, value, self.dictionary))
    }

    fn decode(&self, key: &Key, row: &[u8]) -> Result<V, Error> {
        let corrupt = |reason: &str| self.corrupt(key, reason);
        let (version, payload) = open(row).map_err(corrupt)?;
        let dictionary = self.dictionary.filter(|_| version & COMPRESSED != 0);
        let (version, payload) = match dictionary {
            Some(dictionary) => {
                let payload = decompress(payload, dictionary, MAX_PAYLOAD);
                let payload = payload.ok_or_else(|| corrupt("it cannot be decompressed"))?;
                (version & !COMPRESSED, Cow::Owned(payload))
            }
            None => (version, Cow::Borrowed(payload)),
        };
        if version > self.version {
            let reason = format!("it has version {version}, of a newer program");
            return Err(self.corrupt(key, &reason));
        }
        let read = if version == self.version {
            serde_json::from_slice(&payload)
        } else {
            let upgrade = self.upgrade.ok_or_else(|| {
                corrupt(&format!("it has version {version}, which no upgrade reads"))
            })?;
            serde_json::from_slice(&payload).and_then(|old| {
                let steps: RangeInclusive<u8> = version..=self.version - 1;
                serde_json::from_value(steps.fold(old, |payload, from| upgrade(from, payload)))
            })
        };
        read.map_err(|error| self.corrupt(key, &error.to_string()))
    }

    fn corrupt(&self, key: &Key, reason: &str) -> Error {
        corrupt(self.number, key, reason)
    }
}

/// The next greater key.
fn next(key: &Key) -> Key {
    Key([&*key.0, &[0]].concat().into())
}

/// The first key behind a table in an environment.
fn past(table: u8, environment: u8) -> Key {
    match (environment.checked_add(1), table.checked_add(1)) {
        (Some(environment), _) => Key::new(table, environment, &[]),
        (None, Some(table)) => Key::new(table, 0, &[]),
        (None, None) => Key::new(u8::MAX, u8::MAX, &[u8::MAX; 256]),
    }
}

/// Fills in the checksum of a row.
fn seal(row: &mut [u8]) {
    let crc = crc32fast::hash(&row[HEADER..]);
    row[1..HEADER].copy_from_slice(&crc.to_le_bytes());
}

/// The version and the payload of a row, if its checksum matches.
fn open(row: &[u8]) -> Result<(u8, &[u8]), &'static str> {
    let (version, rest) = row.split_first().ok_or("it is empty")?;
    let (crc, payload) = rest.split_first_chunk().ok_or("it is cut short")?;
    if crc32fast::hash(payload) == u32::from_le_bytes(*crc) {
        Ok((*version, payload))
    } else {
        Err("its checksum does not match")
    }
}

fn corrupt(table: u8, key: &Key, reason: &str) -> Error {
    Error::Corrupt { path: format!("(table {table}, key {key:?})"), reason: reason.into() }
}

#[cfg(test)]
mod tests;
