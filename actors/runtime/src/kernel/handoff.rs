//! Tasks and executions that were made a moment ago and that no actor has touched yet; and the permits of running tasks
//! whose actors broke, until they are started again.
//!
//! Most tasks are leased soon after they are made; their first actor takes them from here instead of
//! reading back rows that were just written. Bounded in bytes and in time: the old ones are forgotten, and
//! are read from the store like any other. Deliberately absent: a cache of anything that changes. An
//! actor that takes an item takes it out, so an item here is always as it was made.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::{HashMap, HashMapExt};

/// The bytes that each of the two generations holds.
const GENERATION: usize = 4 << 20;

/// Items of one kind, each of which waits for its next actor.
pub(crate) struct HandoffCache<A, T>(Mutex<Generations<A, T>>);

struct Generations<A, T> {
    young: HashMap<A, T>,
    old: HashMap<A, T>,
    size: usize,
}

impl<A, T> Default for HandoffCache<A, T> {
    fn default() -> Self {
        let (young, old) = (HashMap::new(), HashMap::new());
        Self(Mutex::new(Generations { young, old, size: 0 }))
    }
}

impl<A, T> Generations<A, T> {
    /// Makes the young generation the old one; returns the former old one.
    fn turn(&mut self) -> HashMap<A, T> {
        self.size = 0;
        let young = std::mem::take(&mut self.young);
        std::mem::replace(&mut self.old, young)
    }
}

impl<A: Eq + Hash, T> HandoffCache<A, T> {
    /// Remembers an item of about `size` bytes that is about to become durable. Once the item is
    /// durable, a request may find and change it, and then it must not come in here any more.
    pub(crate) fn add(&self, address: A, item: T, size: usize) {
        let mut generations = self.lock();
        if generations.size + size > GENERATION {
            drop(generations.turn());
        }
        generations.size += size;
        generations.young.insert(address, item);
    }

    /// Forgets the items that were here at the last call already.
    pub(crate) fn age(&self) {
        let forgotten = self.lock().turn();
        // The items are thousands, and no request is to wait for them.
        drop(forgotten);
    }

    /// Takes an item out.
    pub(crate) fn take(&self, address: &A) -> Option<T> {
        let mut generations = self.lock();
        generations.young.remove(address).or_else(|| generations.old.remove(address))
    }

    fn lock(&self) -> MutexGuard<'_, Generations<A, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_taken_once() {
        let handoff = HandoffCache::default();
        handoff.add(1, "one", 10);
        assert_eq!((handoff.take(&1), handoff.take(&1)), (Some("one"), None));
    }

    #[test]
    fn what_nobody_took_is_forgotten_after_a_while() {
        let handoff = HandoffCache::default();
        handoff.add(1, "one", 10);
        handoff.add(2, "two", 10);
        handoff.age();
        handoff.add(3, "three", 10);
        assert_eq!(handoff.take(&1), Some("one"));
        handoff.age();
        assert_eq!((handoff.take(&2), handoff.take(&3)), (None, Some("three")));
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_many() {
        let handoff = HandoffCache::default();
        (0..5).for_each(|number| handoff.add(number, (), GENERATION / 2));
        let kept: Vec<_> = (0..5).filter(|number| handoff.take(number).is_some()).collect();
        assert_eq!(kept, [2, 3, 4]);
    }
}
