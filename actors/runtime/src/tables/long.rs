//! Rows whose length a caller decides: the lists of a key, a plan, a budget or a schedule can be longer than a row
//! of the store, and then stand in a text of the item.

use callboard_store::table::Table;
use callboard_store::{Entry, Error, Op, Store};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{TEXTS, text};

/// The longest value that stands in its row, in bytes as JSON: a row has room for the terms of its entry too.
const SHORT: usize = 3_000;

/// A table of such rows.
#[derive(Debug)]
pub(crate) struct LongTable<V>(Table<u128, Place<V>>);

/// The place of a value.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Place<V> {
    Row(V),
    /// `null`: the value is the text [`text::ROW`] of the item.
    Text,
}

impl<V: Serialize + DeserializeOwned + Clone> LongTable<V> {
    /// The table `number`, whose rows are written in `version`.
    pub(crate) const fn new(number: u8, version: u8) -> Self {
        Self(Table::new(number, version))
    }

    /// Writes a row; in a listed table, with its entry. The text of a longer value stays until the next one, or
    /// until the row is deleted.
    pub(crate) fn put(&self, number: u8, id: u128, value: &V, entry: Option<Entry>) -> Vec<Op> {
        let json = serde_json::to_string(value).expect("a row has a JSON form");
        if json.len() <= SHORT {
            return vec![self.0.put(number, &id, &Place::Row(value.clone()), entry)];
        }
        let mut ops = TEXTS.put(number, id, text::ROW, &json);
        ops.push(self.0.put(number, &id, &Place::Text, entry));
        ops
    }

    /// The row of an item.
    pub(crate) async fn get(
        &self,
        store: &dyn Store,
        number: u8,
        id: u128,
    ) -> Result<Option<V>, Error> {
        match self.0.get(store, number, &id).await? {
            Some(place) => Self::read(store, number, id, place).await.map(Some),
            None => Ok(None),
        }
    }

    /// The rows after the item `after` or from the first, in the order of their identifiers, at most `limit`.
    pub(crate) async fn scan(
        &self,
        store: &dyn Store,
        number: u8,
        after: Option<&u128>,
        limit: usize,
    ) -> Result<Vec<(u128, V)>, Error> {
        let mut rows = Vec::new();
        for (id, place) in self.0.scan(store, number, after, limit).await? {
            rows.push((id, Self::read(store, number, id, place).await?));
        }
        Ok(rows)
    }

    /// Deletes the row of an item, and all its texts.
    pub(crate) async fn delete(
        &self,
        store: &dyn Store,
        number: u8,
        id: u128,
    ) -> Result<Vec<Op>, Error> {
        let mut ops = TEXTS.delete_all(store, number, id).await?;
        ops.push(self.0.delete(number, &id));
        Ok(ops)
    }

    async fn read(store: &dyn Store, number: u8, id: u128, place: Place<V>) -> Result<V, Error> {
        if let Place::Row(value) = place {
            return Ok(value);
        }
        let corrupt = |reason: String| Error::Corrupt { path: format!("row {id:032x}"), reason };
        let json = TEXTS.get(store, number, id, text::ROW).await?;
        let json = json.ok_or_else(|| corrupt("its text is missing".into()))?;
        serde_json::from_str(&json).map_err(|error| corrupt(error.to_string()))
    }
}
