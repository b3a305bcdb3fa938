//! The overlay: rows that are durable in the journal and not, or not surely, in sled yet.
//!
//! ```text
//! commit ─▶ active ──begin_checkpoint──▶ frozen ──end_checkpoint──▶ gone: sled has it
//! ```
//!
//! Readers look here first. A row that changes often between two checkpoints brings only its last value
//! to sled, and a row that comes and goes between two checkpoints brings nothing.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::journal::RowChange;

/// Rows by key: `None` for a row that was deleted.
pub(crate) type Rows = BTreeMap<Bytes, Option<Bytes>>;

/// The rows of the groups in the journal.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    active: Rows,
    /// The bytes that were put since the last checkpoint began.
    bytes: usize,
    frozen: Option<Arc<Rows>>,
}

impl Overlay {
    /// Applies the rows of a group.
    pub(crate) fn apply(&mut self, rows: Vec<RowChange>) {
        for (key, value) in rows {
            self.bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            self.active.insert(key, value);
        }
    }

    /// The bytes that wait for the next checkpoint.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Freezes the rows so far and returns them; `None` if there are none.
    pub(crate) fn begin_checkpoint(&mut self) -> Option<Arc<Rows>> {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        if self.active.is_empty() {
            return None;
        }
        self.bytes = 0;
        let rows = Arc::new(std::mem::take(&mut self.active));
        self.frozen = Some(Arc::clone(&rows));
        Some(rows)
    }

    /// Takes out the frozen rows, which sled has.
    pub(crate) fn end_checkpoint(&mut self) -> Option<Arc<Rows>> {
        self.frozen.take()
    }

    /// Every row, deleted ones too.
    pub(crate) fn rows(&self) -> Rows {
        let mut rows = self.frozen.as_deref().cloned().unwrap_or_default();
        rows.extend(self.active.iter().map(|(key, row)| (key.clone(), row.clone())));
        rows
    }

    /// The row at `key`, or that it was deleted; `None` if only sled knows.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        let frozen = || self.frozen.as_ref().and_then(|rows| rows.get(key));
        self.active.get(key).or_else(frozen)
    }

    /// The rows between two keys, deleted ones too, in order.
    pub(crate) fn range<'a>(&'a self, from: &[u8], to: Bound<&[u8]>) -> Merged<'a> {
        let range = (Bound::Included(from), to);
        let frozen = self.frozen.as_ref().map(|rows| rows.range::<[u8], _>(range).peekable());
        Merged { active: self.active.range::<[u8], _>(range).peekable(), frozen }
    }

    /// The greatest key with `from <= key <= to` that was not deleted.
    pub(crate) fn last(&self, from: &[u8], to: &[u8]) -> Option<&Bytes> {
        let range = (Bound::Included(from), Bound::Included(to));
        let exists = |(_, value): &(&Bytes, &Option<Bytes>)| value.is_some();
        let active = self.active.range::<[u8], _>(range).rev().find(exists);
        let deleted = |key: &Bytes| self.active.get(key).is_some_and(Option::is_none);
        let frozen = self.frozen.as_ref().and_then(|rows| {
            let mut rows = rows.range::<[u8], _>(range).rev();
            rows.find(|row| exists(row) && !deleted(row.0))
        });
        active.into_iter().chain(frozen).map(|(key, _)| key).max()
    }
}

/// The rows of a range: an active one hides the frozen one of the same key.
pub(crate) struct Merged<'a> {
    active: Peekable<Range<'a, Bytes, Option<Bytes>>>,
    frozen: Option<Peekable<Range<'a, Bytes, Option<Bytes>>>>,
}

impl<'a> Iterator for Merged<'a> {
    type Item = (&'a Bytes, &'a Option<Bytes>);

    fn next(&mut self) -> Option<Self::Item> {
        let Some(frozen) = &mut self.frozen else { return self.active.next() };
        let (Some((newer, _)), Some((older, _))) = (self.active.peek(), frozen.peek()) else {
            return self.active.next().or_else(|| frozen.next());
        };
        if older < newer {
            return frozen.next();
        }
        if older == newer {
            frozen.next();
        }
        self.active.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &'static str, value: Option<&'static str>) -> RowChange {
        (Bytes::from(key), value.map(Bytes::from))
    }

    fn all(overlay: &Overlay) -> Vec<RowChange> {
        let rows = overlay.range(b"a", Bound::Excluded(b"z"));
        rows.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    #[test]
    fn an_active_row_hides_the_frozen_one() {
        let mut overlay = Overlay::default();
        assert!(overlay.begin_checkpoint().is_none());
        overlay.apply(vec![row("a", Some("1")), row("b", Some("1")), row("d", Some("1"))]);
        assert_eq!(overlay.begin_checkpoint().map(|rows| rows.len()), Some(3));
        overlay.apply(vec![row("b", None), row("c", Some("2")), row("d", Some("2"))]);
        let whole = [row("a", Some("1")), row("b", None), row("c", Some("2")), row("d", Some("2"))];
        assert_eq!(all(&overlay), whole);
        assert_eq!(overlay.get(b"b"), Some(&None));
        assert_eq!(overlay.get(b"e"), None);
        overlay.end_checkpoint();
        assert_eq!(all(&overlay), whole[1..]);
        assert_eq!(overlay.get(b"a"), None);
    }

    #[test]
    fn the_last_row_is_one_that_was_not_deleted() {
        let mut overlay = Overlay::default();
        overlay.apply(vec![row("a", Some("1")), row("b", Some("1"))]);
        overlay.begin_checkpoint();
        let last = |overlay: &Overlay| overlay.last(b"a", b"c").cloned();
        assert_eq!(last(&overlay), Some("b".into()));
        overlay.apply(vec![row("b", None)]);
        assert_eq!(last(&overlay), Some("a".into()));
        overlay.apply(vec![row("c", Some("2"))]);
        assert_eq!(last(&overlay), Some("c".into()));
        assert_eq!(overlay.last(b"d", b"e"), None);
    }
}
