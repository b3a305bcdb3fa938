//! Rows that are durable in the journal and are not, or not surely, in sled yet.
//!
//! ```text
//! commit ─▶ fresh ──settle──▶ settling ──written and synced──▶ gone: sled has it
//! ```
//!
//! Whoever reads looks here first. Of a row that changes often within one round only the last state
//! is brought to sled, and of one that comes and goes within it nothing at all.
//!
//! Deliberately absent: what is below (see `sled/layers.rs`).

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::journal::Change;

/// Rows by key: `None` if there is no such row.
pub(crate) type Rows = BTreeMap<Bytes, Option<Bytes>>;

/// The rows of the groups in the journal.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    fresh: Rows,
    /// How many bytes were put since the last round began.
    bytes: usize,
    settling: Option<Arc<Rows>>,
}

impl Overlay {
    /// Takes the rows of a group.
    pub(crate) fn take(&mut self, rows: Vec<Change>) {
        for (key, value) in rows {
            self.bytes += key.len() + value.as_ref().map_or(0, Bytes::len);
            self.fresh.insert(key, value);
        }
    }

    /// How many bytes wait for the next round.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Begins a round. `None` if there is nothing to do.
    pub(crate) fn settle(&mut self) -> Option<Arc<Rows>> {
        debug_assert!(self.settling.is_none(), "one round at a time");
        if self.fresh.is_empty() {
            return None;
        }
        self.bytes = 0;
        let rows = Arc::new(std::mem::take(&mut self.fresh));
        self.settling = Some(Arc::clone(&rows));
        Some(rows)
    }

    /// Ends the round: what is below has its rows.
    pub(crate) fn settled(&mut self) -> Option<Arc<Rows>> {
        self.settling.take()
    }

    /// What is known of the row at `key`: `None` if what is below knows.
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        let settling = || self.settling.as_ref().and_then(|rows| rows.get(key));
        self.fresh.get(key).or_else(settling)
    }

    /// What is known of the rows between two keys, in order.
    pub(crate) fn range<'a>(&'a self, from: &[u8], to: Bound<&[u8]>) -> Known<'a> {
        let range = (Bound::Included(from), to);
        let settling = self.settling.as_ref().map(|rows| rows.range::<[u8], _>(range).peekable());
        Known { fresh: self.fresh.range::<[u8], _>(range).peekable(), settling }
    }

    /// The greatest key between two that is known to be there.
    pub(crate) fn last(&self, from: &[u8], to: &[u8]) -> Option<&Bytes> {
        let range = (Bound::Included(from), Bound::Included(to));
        let there = |(_, value): &(&Bytes, &Option<Bytes>)| value.is_some();
        let fresh = self.fresh.range::<[u8], _>(range).rev().find(there);
        let hidden = |key: &Bytes| self.fresh.get(key).is_some_and(Option::is_none);
        let settling = self.settling.as_ref().and_then(|rows| {
            let mut rows = rows.range::<[u8], _>(range).rev();
            rows.find(|row| there(row) && !hidden(row.0))
        });
        fresh.into_iter().chain(settling).map(|(key, _)| key).max()
    }
}

/// What is known of a range of rows.
pub(crate) struct Known<'a> {
    fresh: Peekable<Range<'a, Bytes, Option<Bytes>>>,
    settling: Option<Peekable<Range<'a, Bytes, Option<Bytes>>>>,
}

impl<'a> Iterator for Known<'a> {
    type Item = (&'a Bytes, &'a Option<Bytes>);

    fn next(&mut self) -> Option<Self::Item> {
        let Some(settling) = &mut self.settling else { return self.fresh.next() };
        let (Some((newer, _)), Some((older, _))) = (self.fresh.peek(), settling.peek()) else {
            return self.fresh.next().or_else(|| settling.next());
        };
        if older < newer {
            return settling.next();
        }
        if older == newer {
            settling.next();
        }
        self.fresh.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &'static str, value: Option<&'static str>) -> Change {
        (Bytes::from(key), value.map(Bytes::from))
    }

    fn all(overlay: &Overlay) -> Vec<(&str, Option<&str>)> {
        let text = |bytes: &'_ Bytes| std::str::from_utf8(bytes.as_ref()).map(str::to_owned);
        let known = overlay.range(b"a", Bound::Excluded(b"z"));
        known
            .map(|(key, value)| {
                let leak = |text: String| -> &'static str { text.leak() };
                let key = leak(text(key).expect("a text"));
                (key, value.as_ref().map(|value| leak(text(value).expect("a text"))))
            })
            .collect()
    }

    #[test]
    fn the_newer_round_hides_the_older_one() {
        let mut overlay = Overlay::default();
        assert!(overlay.settle().is_none());
        overlay.take(vec![row("a", Some("1")), row("b", Some("1")), row("d", Some("1"))]);
        assert_eq!(overlay.settle().map(|rows| rows.len()), Some(3));
        overlay.take(vec![row("b", None), row("c", Some("2")), row("d", Some("2"))]);
        let whole = [("a", Some("1")), ("b", None), ("c", Some("2")), ("d", Some("2"))];
        assert_eq!(all(&overlay), whole);
        assert_eq!(overlay.get(b"b"), Some(&None));
        assert_eq!(overlay.get(b"e"), None);
        overlay.settled();
        assert_eq!(all(&overlay), whole[1..]);
        assert_eq!(overlay.get(b"a"), None);
    }

    #[test]
    fn the_last_row_is_one_that_is_there() {
        let mut overlay = Overlay::default();
        overlay.take(vec![row("a", Some("1")), row("b", Some("1"))]);
        overlay.settle();
        let last = |overlay: &Overlay| overlay.last(b"a", b"c").cloned();
        assert_eq!(last(&overlay), Some("b".into()));
        overlay.take(vec![row("b", None)]);
        assert_eq!(last(&overlay), Some("a".into()));
        overlay.take(vec![row("c", Some("2"))]);
        assert_eq!(last(&overlay), Some("c".into()));
        assert_eq!(overlay.last(b"d", b"e"), None);
    }
}
