//! Batches: operations that a store applies together or not at all.

use bytes::Bytes;

/// The most bytes of a key and its value together. [`crate::table::Texts`] splits longer texts over rows.
pub const MAX_ROW: usize = 4096;

/// A key: `[table][environment][key within the table …]`.
///
/// Tables from [`Key::FIRST_LISTED`] up hold *listed* rows: their keys end in a 16-byte,
/// big-endian document id, their operations carry an [`Entry`], and [`crate::Query`] finds them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub Box<[u8]>);

impl Key {
    /// The first table number of listed rows.
    pub const FIRST_LISTED: u8 = 0x80;

    /// The byte of a key in which its first document id ends.
    const PARTITION: usize = 2 + 15;

    /// The key `rest` in `table` and `environment`.
    #[must_use]
    pub fn new(table: u8, environment: u8, rest: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(2 + rest.len());
        bytes.extend([table, environment]);
        bytes.extend(rest);
        Self(bytes.into())
    }

    /// The table number.
    #[must_use]
    pub fn table(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// The partition in which the first document id of the key ends; `None` without one.
    #[must_use]
    pub fn partition(&self) -> Option<Partition> {
        self.0.get(Self::PARTITION).copied().map(Partition)
    }

    /// True if this is the key of a listed row.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.0.first().is_some_and(|table| *table >= Self::FIRST_LISTED)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for byte in &self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// One of the 256 partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(pub u8);

/// The number of claims of a partition; in the embedded store, the number of openings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// Identifies a batch, so that its outcome can be queried after an [`crate::Outcome::Unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchId(pub u128);

/// One of the store's append-only logs; by convention one per environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogId(pub u8);

/// The terms of a listed row: `(field, value)`, each at most once, in any order.
pub type Terms = Vec<(u8, Box<[u8]>)>;

/// The index entry of a listed row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The list, which shows a document once: the last put wins. Rows of several tables may share a
    /// list, so that a row that moves keeps its place.
    pub list: [u8; 2],
    /// The terms to filter by.
    pub terms: Terms,
    /// The values to sort by, besides the document id. `None` sorts last in both directions.
    pub sort: [Option<u64>; 2],
}

/// One operation of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Writes a row, new or not.
    Put {
        /// The row's key.
        key: Key,
        /// The row's value.
        value: Bytes,
        /// The index entry of a listed row; without one, the row is in no list.
        entry: Option<Entry>,
    },
    /// Writes a row without an entry. The outcome of the batch is [`crate::Outcome::Conflict`] if the key
    /// exists.
    Insert {
        /// The row's key.
        key: Key,
        /// The row's value.
        value: Bytes,
    },
    /// Deletes a row and its entry, if it exists.
    Delete {
        /// The row's key.
        key: Key,
    },
    /// Appends a record, of up to 64 KiB, to a log.
    Append {
        /// The log.
        log: LogId,
        /// The record's bytes.
        record: Bytes,
    },
    /// Drops the records of a log with a number smaller than `before`.
    Trim {
        /// The log.
        log: LogId,
        /// The first number to keep.
        before: u64,
    },
}

/// Operations that are applied together or not at all, in the partitions that the guards name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The batch's id.
    pub id: BatchId,
    /// The epochs that must still be current.
    pub guards: Vec<(Partition, Epoch)>,
    /// The operations, in order: of two on one key the later one holds.
    pub ops: Vec<Op>,
}
