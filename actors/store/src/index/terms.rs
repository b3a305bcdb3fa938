//! Posting lists: the slots of a list that have each term.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use roaring::RoaringBitmap;

use crate::query::Filter;

/// The id of a term within its list.
pub(super) type TermId = u32;

/// The most slots for which a plain vector is smaller than a bitmap. The terms that few documents share
/// (the steps of one execution) are the most numerous ones.
const FEW: usize = 16;

/// The slots that have one term.
#[derive(Debug)]
enum Posting {
    Few(Vec<u32>),
    Many(RoaringBitmap),
}

impl Posting {
    fn insert(&mut self, slot: u32) {
        match self {
            Self::Few(slots) => {
                let Err(at) = slots.binary_search(&slot) else {
                    return;
                };
                if slots.len() < FEW {
                    slots.insert(at, slot);
                } else {
                    let mut many: RoaringBitmap = slots.iter().copied().collect();
                    many.insert(slot);
                    *self = Self::Many(many);
                }
            }
            Self::Many(slots) => {
                slots.insert(slot);
            }
        }
    }

    fn remove(&mut self, slot: u32) {
        match self {
            Self::Few(slots) => slots.retain(|other| *other != slot),
            Self::Many(slots) => {
                slots.remove(slot);
            }
        }
    }

    fn bitmap(&self) -> Cow<'_, RoaringBitmap> {
        match self {
            Self::Few(slots) => Cow::Owned(slots.iter().copied().collect()),
            Self::Many(slots) => Cow::Borrowed(slots),
        }
    }

    fn renumbered(&self, to: impl Fn(u32) -> Option<u32>) -> Self {
        match self {
            Self::Few(slots) => Self::Few(slots.iter().filter_map(|slot| to(*slot)).collect()),
            Self::Many(slots) => Self::Many(slots.iter().filter_map(to).collect()),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Few(slots) => slots.is_empty(),
            Self::Many(slots) => slots.is_empty(),
        }
    }
}

/// All terms of a list, with the slots that have them.
#[derive(Debug, Default)]
pub(super) struct Terms {
    ids: HashMap<Box<[u8]>, TermId>,
    /// The terms of fields of words, in order.
    words: BTreeMap<Box<[u8]>, TermId>,
    postings: Vec<Posting>,
    scratch: Vec<u8>,
}

impl Terms {
    /// The id of a term, given on its first use.
    pub(super) fn intern(&mut self, field: u8, term: &[u8]) -> TermId {
        self.scratch.clear();
        self.scratch.push(field);
        self.scratch.extend_from_slice(term);
        if let Some(id) = self.known(field, &self.scratch) {
            return id;
        }
        let id = TermId::try_from(self.postings.len()).expect("fewer terms than memory holds");
        let name = self.scratch.as_slice().into();
        if field < Filter::WORDS {
            self.ids.insert(name, id);
        } else {
            self.words.insert(name, id);
        }
        self.postings.push(Posting::Few(Vec::new()));
        id
    }

    /// The id of a term; `None` if no document ever had it.
    pub(super) fn find(&self, field: u8, term: &[u8]) -> Option<TermId> {
        let mut name = Vec::with_capacity(1 + term.len());
        name.push(field);
        name.extend_from_slice(term);
        self.known(field, &name)
    }

    fn known(&self, field: u8, name: &[u8]) -> Option<TermId> {
        if field < Filter::WORDS { self.ids.get(name) } else { self.words.get(name) }.copied()
    }

    /// The ids, in order, of the terms of a field of words that begin with these bytes: one more than
    /// [`Filter::MAX_BEGUN`] at most.
    pub(super) fn starting(&self, field: u8, start: &[u8]) -> Vec<TermId> {
        let mut name = Vec::with_capacity(1 + start.len());
        name.push(field);
        name.extend_from_slice(start);
        let range =
            self.words.range::<[u8], _>((Bound::Included(name.as_slice()), Bound::Unbounded));
        let begun = range.take_while(|(word, _)| word.starts_with(&name)).map(|(_, id)| *id);
        let mut ids: Vec<_> = begun.take(Filter::MAX_BEGUN + 1).collect();
        ids.sort_unstable();
        ids
    }

    pub(super) fn insert(&mut self, term: TermId, slot: u32) {
        self.postings[term as usize].insert(slot);
    }

    pub(super) fn remove(&mut self, term: TermId, slot: u32) {
        self.postings[term as usize].remove(slot);
    }

    /// Removes a slot from every term, in the rare case that its terms are unknown.
    pub(super) fn purge(&mut self, slot: u32) {
        for posting in &mut self.postings {
            posting.remove(slot);
        }
    }

    /// The slots that have a term.
    pub(super) fn slots(&self, term: TermId) -> Cow<'_, RoaringBitmap> {
        self.postings[term as usize].bitmap()
    }

    /// Renumbers every slot, in the same order, and drops the terms that neither a slot nor `used` has.
    /// Returns the new ids of the terms.
    pub(super) fn renumber(
        &mut self,
        used: &[bool],
        slot: impl Fn(u32) -> Option<u32>,
    ) -> Vec<Option<TermId>> {
        let mut postings = Vec::new();
        let mut moved = Vec::with_capacity(self.postings.len());
        for (posting, used) in self.postings.iter().zip(used) {
            let posting = posting.renumbered(&slot);
            let kept = *used || !posting.is_empty();
            moved.push(
                kept.then_some(TermId::try_from(postings.len()).expect("no more than before")),
            );
            if kept {
                postings.push(posting);
            }
        }
        self.postings = postings;
        let keep = |id: &mut TermId| match moved[*id as usize] {
            Some(new) => {
                *id = new;
                true
            }
            None => false,
        };
        self.ids.retain(|_, id| keep(id));
        self.words.retain(|_, id| keep(id));
        moved
    }

    /// Frees the capacity beyond the length.
    pub(super) fn shrink(&mut self) {
        for posting in &mut self.postings {
            match posting {
                Posting::Few(slots) => slots.shrink_to_fit(),
                // A clone has the capacity that it needs.
                Posting::Many(slots) => *slots = slots.clone(),
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.postings.len()
    }
}
