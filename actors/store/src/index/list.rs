//! One list: which documents stand in it, with their terms and sort values.
//!
//! ```text
//! dense   slot 0 ─ 1 ─ 2 ─ … ─ n      in order of document id; bitmaps and columns by slot
//! loose   what came last, or out of order, by id with its terms: folded into `dense` in lots
//! ```
//!
//! Ids are nearly ascending, and a document changes most while it is young. So the youngest stay
//! loose, where order and changes cost nothing, and dense slots are only ever appended. A document
//! that comes much too late stays loose until enough of its kind are worth a rebuild.
//!
//! Deliberately absent: reading (see `select.rs`), and the terms of dense documents by document:
//! whoever takes one off says what its terms were.

use std::collections::{BTreeMap, HashMap};

use roaring::RoaringBitmap;

use super::column::Column;
use super::terms::{TermId, Terms};
use super::{YOUNG, grow};
use crate::row::Block;

/// The number of a key's first part, up to the document id.
pub(super) type Owner = u16;

/// A document outside the dense part.
#[derive(Debug)]
pub(super) struct Loose {
    pub(super) owner: Owner,
    pub(super) sort: [Option<u64>; 2],
    pub(super) terms: Box<[TermId]>,
}

/// One list.
#[derive(Debug, Default)]
pub(super) struct List {
    pub(super) terms: Terms,
    pub(super) ids: Vec<u128>,
    owners: Vec<Owner>,
    pub(super) live: RoaringBitmap,
    pub(super) columns: [Column; 2],
    pub(super) loose: BTreeMap<u128, Loose>,
    /// How many of the loose are older than the youngest dense document.
    late: usize,
    /// Rows of a document that another row put later: `(stamp, owner)`.
    pub(super) shadowed: HashMap<u128, Vec<(u64, Owner)>>,
}

/// A document to build a list of.
pub(super) struct Item {
    pub(super) document: u128,
    pub(super) stamp: u64,
    pub(super) owner: Owner,
    pub(super) sort: [Option<u64>; 2],
    pub(super) terms: std::ops::Range<u32>,
}

impl List {
    /// A list of all its documents at once; `terms` numbers what `term_ids` and the items refer to.
    pub(super) fn build(mut terms: Terms, term_ids: &[TermId], mut items: Vec<Item>) -> Self {
        items.sort_by_key(|item| (item.document, item.stamp));
        let mut list = Self::default();
        let mut winners = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            match items.get(at + 1) {
                Some(next) if next.document == item.document => {
                    list.shadowed.entry(item.document).or_default().push((item.stamp, item.owner));
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
        list.owners = winners.clone().map(|item| item.owner).collect();
        list.live.insert_range(0..slots(&list.ids));
        list.columns = [0, 1].map(|n| Column::build(winners.clone().map(|item| item.sort[n])));
        list
    }

    /// Which row a document stands for.
    pub(super) fn owner(&self, document: u128) -> Option<Owner> {
        if let Some(loose) = self.loose.get(&document) {
            return Some(loose.owner);
        }
        let slot = self.slot(document)?;
        self.live.contains(slot).then(|| self.owners[slot as usize])
    }

    /// Whether the row of `owner` stands for a document, or would if another left.
    pub(super) fn has(&self, document: u128, owner: Owner) -> bool {
        let shadowed = || self.shadowed.get(&document);
        self.owner(document) == Some(owner)
            || shadowed().is_some_and(|rows| rows.iter().any(|(_, other)| *other == owner))
    }

    /// Takes the row of `owner` off the list. `terms` are those it was put with, or `None` if
    /// nobody knows.
    pub(super) fn remove(&mut self, document: u128, owner: Owner, block: Option<Block<'_>>) {
        if self.owner(document) != Some(owner) {
            if let Some(rows) = self.shadowed.get_mut(&document) {
                rows.retain(|(_, other)| *other != owner);
                if rows.is_empty() {
                    self.shadowed.remove(&document);
                }
            }
            return;
        }
        if self.loose.remove(&document).is_some() {
            self.late -= usize::from(self.is_late(document));
            return;
        }
        let slot = self.slot(document).expect("a document with an owner is loose or has a slot");
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
        if self.ids.len() as u64 - self.live.len() > self.due() as u64 * 16 {
            self.rebuild();
        }
    }

    /// Puts a document that has no owner on the list.
    pub(super) fn put(&mut self, document: u128, owner: Owner, block: Block<'_>) {
        if let Some(slot) = self.slot(document) {
            self.live.insert(slot);
            self.owners[slot as usize] = owner;
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
        self.loose.insert(document, Loose { owner, sort: block.sort, terms });
        if self.loose.len() - self.late >= 2 * YOUNG {
            self.fold();
        } else if self.late > self.due() {
            self.rebuild();
        }
    }

    fn slot(&self, document: u128) -> Option<u32> {
        // Most that are asked for are new.
        if self.ids.last().is_none_or(|youngest| *youngest < document) {
            return None;
        }
        let slot = self.ids.binary_search(&document).ok()?;
        Some(u32::try_from(slot).expect("a list has fewer than 2^32 documents"))
    }

    fn is_late(&self, document: u128) -> bool {
        self.ids.last().is_some_and(|youngest| document < *youngest)
    }

    /// How many misplaced documents are worth a rebuild.
    fn due(&self) -> usize {
        (self.ids.len() / 64).max(YOUNG)
    }

    /// Appends the oldest of the young to the dense part.
    fn fold(&mut self) {
        let mut young = match self.ids.last() {
            Some(youngest) => self.loose.split_off(youngest),
            None => std::mem::take(&mut self.loose),
        };
        for _ in 0..YOUNG {
            let Some((document, loose)) = young.pop_first() else {
                break;
            };
            let slot = slots(&self.ids);
            grow(&mut self.ids);
            grow(&mut self.owners);
            self.ids.push(document);
            self.owners.push(loose.owner);
            self.live.insert(slot);
            for term in loose.terms {
                self.terms.insert(term, slot);
            }
            for (column, value) in self.columns.iter_mut().zip(loose.sort) {
                column.push(value);
            }
        }
        self.loose.append(&mut young);
    }

    /// Makes everything dense, and forgets the slots of those that left.
    fn rebuild(&mut self) {
        let mut used = vec![false; self.terms.len()];
        for term in self.loose.values().flat_map(|loose| loose.terms.iter()) {
            used[*term as usize] = true;
        }
        let total = usize::try_from(self.live.len()).expect("slots fit") + self.loose.len();
        let (mut ids, mut owners) = (Vec::with_capacity(total), Vec::with_capacity(total));
        let mut sort = [0, 1].map(|_| Vec::with_capacity(total));
        let mut moved = vec![u32::MAX; self.ids.len()];
        let mut placed = Vec::with_capacity(self.loose.len());
        let mut loose = std::mem::take(&mut self.loose).into_iter().peekable();
        let mut place = |ids: &mut Vec<u128>, sort: &mut [Vec<_>; 2], document, item: Loose| {
            if !item.terms.is_empty() {
                placed.push((slots(ids), item.terms));
            }
            ids.push(document);
            owners.push(item.owner);
            sort.iter_mut().zip(item.sort).for_each(|(column, value)| column.push(value));
        };
        for slot in &self.live {
            let document = self.ids[slot as usize];
            while let Some((before, item)) = loose.next_if(|(other, _)| *other < document) {
                place(&mut ids, &mut sort, before, item);
            }
            moved[slot as usize] = slots(&ids);
            let item = Loose {
                owner: self.owners[slot as usize],
                sort: [0, 1].map(|n: usize| self.columns[n].get(slot)),
                terms: Box::default(),
            };
            place(&mut ids, &mut sort, document, item);
        }
        for (document, item) in loose {
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
        (self.ids, self.owners) = (ids, owners);
        self.columns = sort.map(|values| Column::build(values.into_iter()));
        self.late = 0;
    }
}

fn slots(ids: &[u128]) -> u32 {
    u32::try_from(ids.len()).expect("a list has fewer than 2^32 documents")
}
