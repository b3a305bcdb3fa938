//! Sets of steps as bits: copied in a few words, and counted without a scan over the steps.
//!
//! Deliberately absent: growth. A plan has at most 500 steps (SPEC.md, Limits).

const WORDS: usize = 8;

/// The most steps that an execution can have here.
pub const CAPACITY: usize = WORDS * 64;

/// A set of step numbers, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepSet([u64; WORDS]);

impl StepSet {
    /// No steps.
    pub const EMPTY: Self = Self([0; WORDS]);

    /// Whether `step` is one of them.
    #[must_use]
    pub fn contains(&self, step: u16) -> bool {
        self.0.get(word(step)).is_some_and(|bits| bits & bit(step) != 0)
    }

    /// Adds `step`, which must be less than [`CAPACITY`]; whether it is new.
    pub fn insert(&mut self, step: u16) -> bool {
        let fresh = !self.contains(step);
        self.0[word(step)] |= bit(step);
        fresh
    }

    /// Takes `step` out; nothing changes if it is not there.
    pub fn remove(&mut self, step: u16) {
        if let Some(bits) = self.0.get_mut(word(step)) {
            *bits &= !bit(step);
        }
    }

    /// The steps, in ascending order; later changes of the set are not seen.
    #[must_use]
    pub const fn iter(&self) -> Iter {
        Iter(*self)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The first of them.
    #[must_use]
    pub fn first(&self) -> Option<u16> {
        let (word, bits) = (0_u16..).zip(self.0).find(|(_, bits)| *bits != 0)?;
        u16::try_from(bits.trailing_zeros()).ok().map(|bit| word * 64 + bit)
    }

    /// These and those.
    #[must_use]
    pub fn with(mut self, others: &Self) -> Self {
        self.0.iter_mut().zip(others.0).for_each(|(bits, more)| *bits |= more);
        self
    }

    /// These but for those.
    #[must_use]
    pub fn without(mut self, others: &Self) -> Self {
        self.0.iter_mut().zip(others.0).for_each(|(bits, less)| *bits &= !less);
        self
    }

    /// Those that are in both.
    #[must_use]
    pub fn also_in(mut self, others: &Self) -> Self {
        self.0.iter_mut().zip(others.0).for_each(|(bits, kept)| *bits &= kept);
        self
    }

    /// Whether all of them are among `others`.
    #[must_use]
    pub fn is_within(&self, others: &Self) -> bool {
        self.without(others).is_empty()
    }
}

/// The steps of a set, in ascending order.
#[derive(Debug, Clone)]
pub struct Iter(StepSet);

impl Iterator for Iter {
    type Item = u16;

    fn next(&mut self) -> Option<u16> {
        let first = self.0.first()?;
        self.0.remove(first);
        Some(first)
    }
}

impl IntoIterator for StepSet {
    type Item = u16;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        Iter(self)
    }
}

impl IntoIterator for &StepSet {
    type Item = u16;
    type IntoIter = Iter;

    fn into_iter(self) -> Iter {
        Iter(*self)
    }
}

impl FromIterator<u16> for StepSet {
    fn from_iter<I: IntoIterator<Item = u16>>(steps: I) -> Self {
        let mut set = Self::EMPTY;
        steps.into_iter().for_each(|step| {
            set.insert(step);
        });
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
            prop_assert_eq!(a.with(&b), set(&(&ours | &theirs)));
            prop_assert_eq!(a.without(&b), set(&(&ours - &theirs)));
            prop_assert_eq!(a.also_in(&b), set(&(&ours & &theirs)));
            prop_assert_eq!(a.is_within(&b), ours.is_subset(&theirs));
            prop_assert!(!a.contains(512) && !a.contains(u16::MAX));
        }
    }
}
