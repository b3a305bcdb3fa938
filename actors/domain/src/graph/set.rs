//! Sets of steps as 512 bits: copied in eight words, and counted without a scan over the steps.
//!
//! A `Copy` set of its own, because a transition of an execution copies ten sets and combines
//! several. `fixedbitset` keeps its bits on the heap; with it a transition of an execution of five
//! steps took 2.4 times as many instructions. Deliberately absent: growth. A plan has at most 500
//! steps, and a list at most 1,000 items.

/// The number of words of a set of steps.
pub(crate) const STEP_WORDS: usize = 8;

/// The number of words of a set of items.
pub(crate) const ITEM_WORDS: usize = 16;

/// The most steps that a graph can have.
pub const CAPACITY: usize = STEP_WORDS * 64;

/// A set of step numbers, in ascending order.
pub type StepSet = Set<STEP_WORDS>;

/// A set of numbers below `WORDS` × 64, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Default for Set<WORDS> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const WORDS: usize> Set<WORDS> {
    /// No steps.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// True if `step` is in the set.
    #[must_use]
    pub fn contains(&self, step: u16) -> bool {
        self.0.get(word(step)).is_some_and(|bits| bits & bit(step) != 0)
    }

    /// Adds `step`.
    ///
    /// # Panics
    /// `step` is not less than `WORDS` × 64.
    pub fn insert(&mut self, step: u16) {
        self.0[word(step)] |= bit(step);
    }

    /// Removes `step`, if it is in the set.
    ///
    /// # Panics
    /// `step` is not less than `WORDS` × 64.
    pub fn remove(&mut self, step: u16) {
        self.0[word(step)] &= !bit(step);
    }

    /// The steps in ascending order, as they are now: the iterator owns a copy.
    #[must_use]
    pub const fn iter(&self) -> Iter<WORDS> {
        Iter(*self)
    }

    /// The number of steps.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }

    /// True if the set has no steps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The lowest step.
    #[must_use]
    pub fn first(&self) -> Option<u16> {
        let (word, bits) = (0_u16..).zip(self.0).find(|(_, bits)| *bits != 0)?;
        u16::try_from(bits.trailing_zeros()).ok().map(|bit| word * 64 + bit)
    }

    /// The steps that are in either set.
    #[must_use]
    pub fn union(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(bits, other)| *bits |= other);
        self
    }

    /// The steps that are in this set and not in `other`.
    #[must_use]
    pub fn difference(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(bits, other)| *bits &= !other);
        self
    }

    /// The steps that are in both sets.
    #[must_use]
    pub fn intersection(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(bits, other)| *bits &= other);
        self
    }

    /// True if every step of this set is in `other`.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).is_empty()
    }
}

/// The steps of a set in ascending order.
#[derive(Debug, Clone)]
pub struct Iter<const WORDS: usize>(Set<WORDS>);

impl<const WORDS: usize> Iterator for Iter<WORDS> {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let first = self.0.first()?;
        self.0.remove(first);
        Some(first)
    }
}

impl<const WORDS: usize> IntoIterator for Set<WORDS> {
    type Item = u16;
    type IntoIter = Iter<WORDS>;

    fn into_iter(self) -> Iter<WORDS> {
        Iter(self)
    }
}

impl<const WORDS: usize> IntoIterator for &Set<WORDS> {
    type Item = u16;
    type IntoIter = Iter<WORDS>;

    fn into_iter(self) -> Iter<WORDS> {
        Iter(*self)
    }
}

impl<const WORDS: usize> FromIterator<u16> for Set<WORDS> {
    fn from_iter<I: IntoIterator<Item = u16>>(steps: I) -> Self {
        let mut set = Self::EMPTY;
        steps.into_iter().for_each(|step| set.insert(step));
        set
    }
}

fn word(step: u16) -> usize {
    usize::from(step / 64)
}

const fn bit(step: u16) -> u64 {
    1 << (step % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_set_of_numbers(
            ours in prop::collection::btree_set(0_u16..512, 0..40),
            theirs in prop::collection::btree_set(0_u16..512, 0..40),
        ) {
            let set = |steps: &BTreeSet<u16>| steps.iter().copied().collect::<StepSet>();
            let (a, b) = (set(&ours), set(&theirs));
            prop_assert_eq!(a.iter().collect::<BTreeSet<u16>>(), ours.clone());
            prop_assert_eq!(a.len() as usize, ours.len());
            prop_assert_eq!(a.first(), ours.first().copied());
            prop_assert_eq!(a.union(&b), set(&(&ours | &theirs)));
            prop_assert_eq!(a.difference(&b), set(&(&ours - &theirs)));
            prop_assert_eq!(a.intersection(&b), set(&(&ours & &theirs)));
            prop_assert_eq!(a.is_subset(&b), ours.is_subset(&theirs));
            prop_assert!(!a.contains(512) && !a.contains(u16::MAX));
        }
    }
}
