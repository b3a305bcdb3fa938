//! The index without a store, for benchmarks of its latency and its memory.
//!
//! Deliberately absent: durability.

use crate::batch::{Entry, Key};
use crate::index::{Change, Lists, Loader};
use crate::query::{Page, Query};
use crate::row::encode_listed;

/// An index on its own.
#[derive(Debug, Default)]
pub struct Probe {
    lists: Lists,
    stamp: u64,
}

impl Probe {
    /// Builds the index of `documents` at once, as an opening does.
    ///
    /// # Panics
    /// If an entry is larger than a row.
    pub fn load(documents: impl Iterator<Item = (u128, Entry)>) -> Self {
        let mut loader = Loader::default();
        for (document, entry) in documents {
            loader.row(&key(document), &block(0, &entry)).expect("the block was just written");
        }
        Self { lists: loader.build(&[]), stamp: 0 }
    }

    /// Puts a document; `old` is the document's entry so far.
    pub fn put(&mut self, document: u128, old: Option<&Entry>, new: &Entry) {
        self.stamp += 1;
        let old = old.map(|old| block(0, old));
        let new = Some(block(self.stamp, new));
        self.lists.apply(&[Change { key: key(document), old, new }], &|_| None);
    }

    /// Answers a query.
    #[must_use]
    pub fn query(&self, query: &Query) -> Page {
        self.lists.select(query).expect("a query of few terms")
    }
}

fn key(document: u128) -> Key {
    Key::new(Key::FIRST_LISTED, 1, &document.to_be_bytes())
}

fn block(stamp: u64, entry: &Entry) -> Box<[u8]> {
    let mut row = Vec::new();
    let head = encode_listed(stamp, Some(entry), &[], &mut row);
    row[2..head].into()
}
