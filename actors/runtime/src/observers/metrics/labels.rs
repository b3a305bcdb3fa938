//! Figures by the value of a label that clients choose: a model's or a queue's name.
//!
//! The table only grows, so that finding a known value takes no lock and no allocation. The table has
//! room for 200 values (docs/reference/metrics.md): a later value is counted as `other`. A model or a queue of that
//! name is counted as `other (name)`, which no name can be. Deliberately absent:
//! removal. A value is there until the process ends, as its counters are.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::quality::RandomState;

/// The most values with figures of their own.
const MOST: usize = 200;
/// The name of all others together.
const OTHER: &str = "other";
/// The value of a model or a queue that is called as all others together.
const NAMED_OTHER: &str = "other (name)";
/// More than twice as many as values, so that a search is short.
const SLOTS: usize = 512;

/// A value and its figures, once there are some.
type Slot<V> = OnceLock<Box<(Box<str>, V)>>;

/// Figures by value.
pub(crate) struct Labels<V> {
    slots: Box<[Slot<V>]>,
    count: AtomicUsize,
    other: V,
    hasher: RandomState,
}

impl<V: Default> Default for Labels<V> {
    fn default() -> Self {
        let slots = (0..SLOTS).map(|_| OnceLock::new()).collect();
        let hasher = RandomState::default();
        Self { slots, count: AtomicUsize::new(0), other: V::default(), hasher }
    }
}

impl<V: Default> Labels<V> {
    /// The figures of `name`.
    pub(crate) fn of(&self, name: &str) -> &V {
        self.entry(name).1
    }

    /// The value under which `name` is counted.
    pub(crate) fn label<'a>(&'a self, name: &str) -> &'a str {
        self.entry(name).0
    }

    /// Every value with its figures, in the order of the values; `other` if there may be others.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &V)> {
        let entries = self.slots.iter().filter_map(OnceLock::get);
        let mut all: Vec<_> = entries.map(|entry| (&*entry.0, &entry.1)).collect();
        if all.len() == MOST {
            all.push((OTHER, &self.other));
        }
        all.sort_unstable_by_key(|(name, _)| *name);
        all.into_iter()
    }

    fn entry(&self, name: &str) -> (&str, &V) {
        let name = if name == OTHER { NAMED_OTHER } else { name };
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let mut at = self.hasher.hash_one(name) as usize % SLOTS;
        loop {
            match self.slots[at].get() {
                Some(entry) if *entry.0 == *name => return (&entry.0, &entry.1),
                Some(_) => at = (at + 1) % SLOTS,
                None if !self.reserve() => return (OTHER, &self.other),
                None => {
                    if self.slots[at].set(Box::new((name.into(), V::default()))).is_err() {
                        // Another thread was first, perhaps with the same name: look again.
                        self.count.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    /// Takes room for one more value, if there is any.
    fn reserve(&self) -> bool {
        let more = |count| (count < MOST).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::numbers::Counter;
    use super::*;

    #[test]
    fn the_two_hundred_and_first_value_and_all_later_ones_are_others() {
        let labels = Labels::<Counter>::default();
        for number in 0..300 {
            labels.of(&format!("model-{number}")).add(1);
        }
        labels.of("model-7").add(1);
        let all: Vec<_> = labels.all().map(|(name, counter)| (name, counter.get())).collect();
        assert_eq!(all.len(), MOST + 1);
        assert!(all.contains(&("other", 100)) && all.contains(&("model-7", 2)));
        assert_eq!((labels.label("model-7"), labels.label("model-299")), ("model-7", "other"));
    }

    #[test]
    fn a_value_that_is_called_other_has_figures_of_its_own() {
        let labels = Labels::<Counter>::default();
        labels.of("other").add(1);
        assert_eq!(labels.label("other"), NAMED_OTHER);
        let all: Vec<_> = labels.all().map(|(name, counter)| (name, counter.get())).collect();
        assert_eq!(all, [(NAMED_OTHER, 1)]);
        for number in 0..MOST {
            labels.of(&number.to_string()).add(1);
        }
        let others: BTreeMap<_, _> =
            labels.all().filter(|(name, _)| name.starts_with(OTHER)).collect();
        let counts: Vec<_> = others.values().map(|counter| counter.get()).collect();
        assert_eq!(counts, [1, 1], "the last value is one of the others");
    }

    #[test]
    fn threads_that_meet_a_value_at_once_share_its_figures() {
        let labels = Labels::<Counter>::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..150).for_each(|n| labels.of(&n.to_string()).add(1)));
            }
        });
        assert!(labels.all().all(|(_, counter)| counter.get() == 8));
        assert_eq!(labels.all().count(), 150);
    }
}
