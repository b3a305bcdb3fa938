//! The measurement of a store: the rows and the bytes of each table.

use std::collections::BTreeMap;

use crate::row::{LOGS, ROWS};

/// The rows of a table, and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// The number of rows.
    pub rows: u64,
    /// The bytes of keys and values as they are stored, without what the engine adds to them.
    pub bytes: u64,
}

impl std::ops::AddAssign for Size {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// A measurement, or a part of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measured {
    /// By the number of the table; `None` is all logs together, in which a row may hold many records.
    pub tables: BTreeMap<Option<u8>, Size>,
    /// The key on disk behind which the measurement goes on; `None` at its end.
    pub next: Option<Vec<u8>>,
    /// True if the figures are estimated from a sample of the rows.
    pub is_sample: bool,
}

impl Measured {
    /// Adds rows whose keys on disk begin with the bytes of `key`. The store's own notes do not count.
    pub(crate) fn add(&mut self, key: &[u8], size: Size) {
        let table = match key {
            [ROWS, table, ..] => Some(*table),
            [LOGS, ..] => None,
            _ => return,
        };
        *self.tables.entry(table).or_default() += size;
    }
}
