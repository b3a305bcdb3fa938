//! One sort value of the documents of a list, and their order by it.
//!
//! The order is a vector of slots. New and changed values stand beside it, in `moved`, and are merged in
//! batches: values mostly grow, so that a merge touches the end only.
//!
//! Deliberately absent: removal. A query finds no slot that is in no bitmap.

use std::collections::BTreeSet;

use roaring::RoaringBitmap;

use super::{MERGE_BATCH, grow};

/// Sort values by slot. `none` has the slots without one.
#[derive(Debug, Default)]
pub(super) struct Column {
    values: Vec<u64>,
    none: RoaringBitmap,
    /// Slots in the order of `(value, slot)`, but for the `stale` ones.
    sorted: Vec<u32>,
    stale: RoaringBitmap,
    moved: BTreeSet<(u64, u32)>,
}

impl Column {
    /// A column of all values at once.
    pub(super) fn build(values: impl ExactSizeIterator<Item = Option<u64>>) -> Self {
        let mut column = Self { values: Vec::with_capacity(values.len()), ..Self::default() };
        let mut pairs = Vec::with_capacity(values.len());
        for (slot, value) in (0..).zip(values) {
            column.values.push(value.unwrap_or(0));
            match value {
                Some(value) => pairs.push((value, slot)),
                None => column.none.push_slot(slot),
            }
        }
        pairs.sort_unstable();
        column.sorted = pairs.into_iter().map(|(_, slot)| slot).collect();
        column
    }

    /// Appends a slot.
    pub(super) fn push(&mut self, value: Option<u64>) {
        let slot =
            u32::try_from(self.values.len()).expect("a list contains fewer than 2^32 documents");
        grow(&mut self.values);
        self.values.push(value.unwrap_or(0));
        match value {
            Some(value) => {
                self.moved.insert((value, slot));
            }
            None => self.none.push_slot(slot),
        }
        self.merge_if_due();
    }

    /// Changes the value of a slot.
    pub(super) fn set(&mut self, slot: u32, value: Option<u64>) {
        let old = self.get(slot);
        if old == value {
            return;
        }
        match old {
            Some(old) => {
                if !self.moved.remove(&(old, slot)) {
                    self.stale.insert(slot);
                }
            }
            None => {
                self.none.remove(slot);
            }
        }
        match value {
            Some(value) => {
                self.values[slot as usize] = value;
                self.moved.insert((value, slot));
            }
            None => {
                self.none.insert(slot);
            }
        }
        self.merge_if_due();
    }

    pub(super) fn get(&self, slot: u32) -> Option<u64> {
        (!self.none.contains(slot)).then(|| self.values[slot as usize])
    }

    pub(super) fn none(&self) -> &RoaringBitmap {
        &self.none
    }

    /// The first `needed` of `slots` in the order of `(value, slot)`, without those that have no value. The
    /// answer is unordered, and may hold more.
    pub(super) fn first(
        &self,
        slots: &RoaringBitmap,
        needed: usize,
        descending: bool,
    ) -> Vec<(u64, u32)> {
        /// The most slots that are quicker to collect than to find in the order.
        const FEW: u64 = if cfg!(test) { 4 } else { 1 << 16 };

        if slots.len() <= FEW {
            let mut all: Vec<_> =
                slots.iter().filter_map(|slot| Some((self.get(slot)?, slot))).collect();
            if needed < all.len() {
                if descending {
                    all.select_nth_unstable_by(needed, |a, b| b.cmp(a));
                } else {
                    all.select_nth_unstable(needed);
                }
                all.truncate(needed);
            }
            return all;
        }
        let mut found = if descending {
            self.walk(self.sorted.iter().rev(), slots, needed)
        } else {
            self.walk(self.sorted.iter(), slots, needed)
        };
        found.extend(self.moved.iter().filter(|(_, slot)| slots.contains(*slot)));
        found
    }

    fn walk<'a>(
        &self,
        order: impl Iterator<Item = &'a u32>,
        slots: &RoaringBitmap,
        needed: usize,
    ) -> Vec<(u64, u32)> {
        /// A longer walk is worth a flat bitmap.
        const LONG: usize = if cfg!(test) { 8 } else { 1 << 14 };

        let mut found = Vec::with_capacity(needed.min(self.sorted.len()));
        let mut flat: Option<Vec<u64>> = None;
        for (step, slot) in order.enumerate() {
            if found.len() == needed {
                break;
            }
            if step == LONG {
                flat = Some(flatten(slots, self.values.len()));
            }
            let matches = match &flat {
                Some(flat) => flat[(slot / 64) as usize] >> (slot % 64) & 1 == 1,
                None => slots.contains(*slot),
            };
            if matches && !self.stale.contains(*slot) {
                found.push((self.values[*slot as usize], *slot));
            }
        }
        found
    }

    /// The slots with a value from `from` to before `to`. Costs the slots whose value is not less than `from`,
    /// so it is quick for values near the end.
    pub(super) fn within(&self, from: u64, to: u64) -> RoaringBitmap {
        let sorted = self.sorted.iter().rev().filter(|slot| !self.stale.contains(**slot));
        let found = sorted
            .map(|slot| (self.values[*slot as usize], *slot))
            .take_while(|(value, _)| *value >= from)
            .filter(|(value, _)| *value < to);
        let moved = self.moved.range((from, 0)..).take_while(|(value, _)| *value < to);
        let mut slots: Vec<_> = found.chain(moved.copied()).map(|(_, slot)| slot).collect();
        slots.sort_unstable();
        slots.into_iter().collect()
    }

    fn merge_if_due(&mut self) {
        let due = (self.values.len() / 64).max(MERGE_BATCH);
        if self.moved.len() >= due || self.stale.len() >= due as u64 {
            self.merge();
        }
    }

    fn merge(&mut self) {
        if !self.stale.is_empty() {
            let stale = std::mem::take(&mut self.stale);
            self.sorted.retain(|slot| !stale.contains(*slot));
        }
        let moved = std::mem::take(&mut self.moved);
        let Some(first) = moved.first() else { return };
        let values = &self.values;
        let start = self.sorted.partition_point(|slot| (values[*slot as usize], *slot) < *first);
        let tail = self.sorted.split_off(start);
        self.sorted.reserve_exact(tail.len() + moved.len());
        let mut tail = tail.into_iter().peekable();
        for (value, slot) in moved {
            while let Some(before) =
                tail.next_if(|other| (values[*other as usize], *other) < (value, slot))
            {
                self.sorted.push(before);
            }
            self.sorted.push(slot);
        }
        self.sorted.extend(tail);
    }
}

/// A bitmap as a vector of words.
fn flatten(slots: &RoaringBitmap, length: usize) -> Vec<u64> {
    let mut words = vec![0; length.div_ceil(64)];
    for slot in slots {
        words[(slot / 64) as usize] |= 1 << (slot % 64);
    }
    words
}

trait PushSlot {
    fn push_slot(&mut self, slot: u32);
}

impl PushSlot for RoaringBitmap {
    fn push_slot(&mut self, slot: u32) {
        self.try_push(slot).expect("slots are given out in ascending order");
    }
}
