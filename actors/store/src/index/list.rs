//! One list: its documents, with their terms and sort values.
//!
//! ```text
//! main    slot 0 ─ 1 ─ 2 ─ … ─ n      in order of document id; bitmaps and columns by slot
//! delta   the newest, and those out of order, by id with their terms: merged into `main` in batches
//! ```
//!
//! Ids are nearly ascending, and a document changes most while it is new. So the newest stay in the delta,
//! where order and changes cost nothing, and main slots are only ever appended. A document that comes much
//! too late stays in the delta until enough of its kind are worth a rebuild.

use std::collections::{BTreeMap, HashMap};

use roaring::RoaringBitmap;

use super::column::Column;
use super::terms::{TermId, Terms};
use super::{MERGE_BATCH, grow};
use crate::row::Block;

/// The terms that a list may have besides twice those that it kept at its last rebuild, if it is small.
const MANY_TERMS: usize = 16_384;
/// The documents of a list that is rebuilt in some milliseconds.
const SMALL: usize = 65_536;

/// The number of a key's prefix, up to the document id.
pub(super) type PrefixId = u16;

/// A document in the delta.
#[derive(Debug)]
pub(super) struct DeltaEntry {
    pub(super) prefix: PrefixId,
    pub(super) sort: [Option<u64>; 2],
    pub(super) terms: Box<[TermId]>,
}

/// One list.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) terms: Terms,
    pub(super) ids: Vec<u128>,
    prefixes: Vec<PrefixId>,
    pub(super) live: RoaringBitmap,
    pub(super) columns: [Column; 2],
    pub(super) delta: BTreeMap<u128, DeltaEntry>,
    /// The number of documents in the delta that are older than the newest main one.
    late: usize,
    /// The number of terms after the last rebuild.
    kept_terms: usize,
    /// Rows of a document that a later put of another row hides: `(stamp, prefix)`.
    pub(super) shadowed: HashMap<u128, Vec<(u64, PrefixId)>>,
}

/// A row to build a list from.
pub(super) struct Item {
    pub(super) document: u128,
    pub(super) stamp: u64,
    pub(super) prefix: PrefixId,
    pub(super) sort: [Option<u64>; 2],
    pub(super) terms: std::ops::Range<u32>,
}

impl List {
    /// A list of all its rows at once. `terms` interns `term_ids`, of which each item has a range.
    pub(super) fn build(mut terms: Terms, term_ids: &[TermId], mut items: Vec<Item>) -> Self {
        items.sort_by_key(|item| (item.document, item.stamp));
        let mut list = Self::default();
        let mut winners = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            match items.get(at + 1) {
                Some(next) if next.document == item.document => {
                    list.shadowed.entry(item.document).or_default().push((item.stamp, item.prefix));
                }
                _ => winners.push(at),
            }
        }
        let winners = winners.iter().map(|at| &items[*at]);
        for (slot, item) in (0..).zip(winners.clone()) {
            for at in item.terms.start..item.terms.end {
                terms.insert(term_ids[at as usize], slot);
            }
        }
        terms.shrink();
        list.terms = terms;
        list.ids = winners.clone().map(|item| item.document).collect();
        list.prefixes = winners.clone().map(|item| item.prefix).collect();
        list.live.insert_range(0..slots(&list.ids));
        list.columns = [0, 1].map(|n| Column::build(winners.clone().map(|item| item.sort[n])));
        list
    }

    /// The prefix of the row that is shown for a document.
    pub(super) fn prefix(&self, document: u128) -> Option<PrefixId> {
        if let Some(delta) = self.delta.get(&document) {
            return Some(delta.prefix);
        }
        let slot = self.slot(document)?;
        self.live.contains(slot).then(|| self.prefixes[slot as usize])
    }

    /// True if the row of `prefix` is shown or shadowed.
    pub(super) fn contains(&self, document: u128, prefix: PrefixId) -> bool {
        let shadowed = || self.shadowed.get(&document);
        self.prefix(document) == Some(prefix)
            || shadowed().is_some_and(|rows| rows.iter().any(|(_, other)| *other == prefix))
    }

    /// Removes the row of `prefix`. `block` is the entry that it was put with; `None` if unknown.
    pub(super) fn remove(&mut self, document: u128, prefix: PrefixId, block: Option<Block<'_>>) {
        if self.prefix(document) != Some(prefix) {
            if let Some(rows) = self.shadowed.get_mut(&document) {
                rows.retain(|(_, other)| *other != prefix);
                if rows.is_empty() {
                    self.shadowed.remove(&document);
                }
            }
            return;
        }
        if self.delta.remove(&document).is_some() {
            self.late -= usize::from(self.is_late(document));
            return;
        }
        let slot = self.slot(document).expect("a shown document is in the delta or has a slot");
        self.live.remove(slot);
        match block {
            Some(block) => {
                for (field, term) in block.terms() {
                    let id = self.terms.intern(field, term);
                    self.terms.remove(id, slot);
                }
            }
            None => self.terms.purge(slot),
        }
        if self.ids.len() as u64 - self.live.len() > self.rebuild_threshold() as u64 * 16 {
            self.rebuild();
        }
    }

    /// Adds a document that is not shown.
    pub(super) fn put(&mut self, document: u128, prefix: PrefixId, block: Block<'_>) {
        if let Some(slot) = self.slot(document) {
            self.live.insert(slot);
            self.prefixes[slot as usize] = prefix;
            for (field, term) in block.terms() {
                let id = self.terms.intern(field, term);
                self.terms.insert(id, slot);
            }
            for (column, value) in self.columns.iter_mut().zip(block.sort) {
                column.set(slot, value);
            }
            return;
        }
        let terms = block.terms().map(|(field, term)| self.terms.intern(field, term)).collect();
        self.late += usize::from(self.is_late(document));
        self.delta.insert(document, DeltaEntry { prefix, sort: block.sort, terms });
        if self.delta.len() - self.late >= 2 * MERGE_BATCH {
            self.merge();
        } else if self.late > self.rebuild_threshold() || self.has_many_dead_terms() {
            self.rebuild();
        }
    }

    /// True if most terms may be of documents that are gone, in a list that is rebuilt in a moment.
    fn has_many_dead_terms(&self) -> bool {
        self.terms.len() > MANY_TERMS + 2 * self.kept_terms && self.ids.len() < SMALL
    }

    fn slot(&self, document: u128) -> Option<u32> {
        // Most documents are new.
        if self.ids.last().is_none_or(|newest| *newest < document) {
            return None;
        }
        let slot = self.ids.binary_search(&document).ok()?;
        Some(u32::try_from(slot).expect("a list contains fewer than 2^32 documents"))
    }

    fn is_late(&self, document: u128) -> bool {
        self.ids.last().is_some_and(|newest| document < *newest)
    }

    /// The number of misplaced documents that is worth a rebuild.
    fn rebuild_threshold(&self) -> usize {
        (self.ids.len() / 64).max(MERGE_BATCH)
    }

    /// Moves the oldest documents of the delta that are in order to the main part.
    fn merge(&mut self) {
        let mut newer = match self.ids.last() {
            Some(newest) => self.delta.split_off(newest),
            None => std::mem::take(&mut self.delta),
        };
        for _ in 0..MERGE_BATCH {
            let Some((document, delta)) = newer.pop_first() else {
                break;
            };
            let slot = slots(&self.ids);
            grow(&mut self.ids);
            grow(&mut self.prefixes);
            self.ids.push(document);
            self.prefixes.push(delta.prefix);
            self.live.insert(slot);
            for term in delta.terms {
                self.terms.insert(term, slot);
            }
            for (column, value) in self.columns.iter_mut().zip(delta.sort) {
                column.push(value);
            }
        }
        self.delta.append(&mut newer);
    }

    /// Moves the whole delta to the main part, and drops the slots of removed documents.
    fn rebuild(&mut self) {
        let mut used = vec![false; self.terms.len()];
        for term in self.delta.values().flat_map(|delta| delta.terms.iter()) {
            used[*term as usize] = true;
        }
        let total = usize::try_from(self.live.len()).expect("slots fit") + self.delta.len();
        let (mut ids, mut prefixes) = (Vec::with_capacity(total), Vec::with_capacity(total));
        let mut sort = [0, 1].map(|_| Vec::with_capacity(total));
        let mut moved = vec![u32::MAX; self.ids.len()];
        let mut placed = Vec::with_capacity(self.delta.len());
        let mut delta = std::mem::take(&mut self.delta).into_iter().peekable();
        let mut place =
            |ids: &mut Vec<u128>, sort: &mut [Vec<_>; 2], document, item: DeltaEntry| {
                if !item.terms.is_empty() {
                    placed.push((slots(ids), item.terms));
                }
                ids.push(document);
                prefixes.push(item.prefix);
                sort.iter_mut().zip(item.sort).for_each(|(column, value)| column.push(value));
            };
        for slot in &self.live {
            let document = self.ids[slot as usize];
            while let Some((before, item)) = delta.next_if(|(other, _)| *other < document) {
                place(&mut ids, &mut sort, before, item);
            }
            moved[slot as usize] = slots(&ids);
            let item = DeltaEntry {
                prefix: self.prefixes[slot as usize],
                sort: [0, 1].map(|n: usize| self.columns[n].get(slot)),
                terms: Box::default(),
            };
            place(&mut ids, &mut sort, document, item);
        }
        for (document, item) in delta {
            place(&mut ids, &mut sort, document, item);
        }
        let terms = self.terms.renumber(&used, |slot| {
            let to = moved[slot as usize];
            (to != u32::MAX).then_some(to)
        });
        for (slot, old) in placed {
            for term in old {
                let term = terms[term as usize].expect("terms in use are kept");
                self.terms.insert(term, slot);
            }
        }
        self.terms.shrink();
        self.live = RoaringBitmap::new();
        self.live.insert_range(0..slots(&ids));
        (self.ids, self.prefixes) = (ids, prefixes);
        self.columns = sort.map(|values| Column::build(values.into_iter()));
        self.late = 0;
        self.kept_terms = self.terms.len();
    }
}

fn slots(ids: &[u128]) -> u32 {
    u32::try_from(ids.len()).expect("a list contains fewer than 2^32 documents")
}
