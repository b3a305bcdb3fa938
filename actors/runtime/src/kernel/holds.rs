//! Locks against a race: no new item refers to an item that is being removed.
//!
//! A caller that finds an item leaving does without it, or waits until it has left or stays.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The items of one kind that are held just now.
#[derive(Debug)]
pub(crate) struct Holds<A> {
    held: Mutex<HashMap<A, Hold>>,
    /// An item has left, or stays.
    decided: Notify,
}

#[derive(Debug)]
enum Hold {
    /// The number of others that build on the item.
    Used(usize),
    /// The item is being removed.
    Leaving,
}

/// Keeps an item from removal until it is dropped.
#[derive(Debug)]
pub(crate) struct UseGuard<'h, A: Eq + Hash>(&'h Holds<A>, A);

/// Keeps others from using an item that is being removed, until it is dropped.
#[derive(Debug)]
pub(crate) struct RemovalGuard<'h, A: Eq + Hash>(&'h Holds<A>, A);

impl<A> Default for Holds<A> {
    fn default() -> Self {
        Self { held: Mutex::default(), decided: Notify::new() }
    }
}

impl<A: Eq + Hash + Clone> Holds<A> {
    /// Keeps an item, unless it is leaving.
    pub(crate) fn keep(&self, item: &A) -> Option<UseGuard<'_, A>> {
        let mut holds = self.lock();
        match holds.entry(item.clone()).or_insert(Hold::Used(0)) {
            Hold::Used(count) => *count += 1,
            Hold::Leaving => return None,
        }
        Some(UseGuard(self, item.clone()))
    }

    /// Lets an item go, unless a user holds it.
    pub(crate) fn leave(&self, item: &A) -> Option<RemovalGuard<'_, A>> {
        let mut holds = self.lock();
        if holds.contains_key(item) {
            return None;
        }
        holds.insert(item.clone(), Hold::Leaving);
        Some(RemovalGuard(self, item.clone()))
    }

    /// Waits as long as the item is being removed.
    pub(crate) async fn decided(&self, item: &A) {
        loop {
            let decided = self.decided.notified();
            if !matches!(self.lock().get(item), Some(Hold::Leaving)) {
                return;
            }
            decided.await;
        }
    }
}

impl<A> Holds<A> {
    fn lock(&self) -> MutexGuard<'_, HashMap<A, Hold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Eq + Hash> Drop for UseGuard<'_, A> {
    fn drop(&mut self) {
        let mut holds = self.0.lock();
        if let Some(Hold::Used(count)) = holds.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&self.1);
            }
        }
    }
}

impl<A: Eq + Hash> Drop for RemovalGuard<'_, A> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
        self.0.decided.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_until_the_last_has_let_go() {
        let holds = Holds::default();
        let (first, second) = (holds.keep(&1), holds.keep(&1));
        drop(first);
        assert!(holds.leave(&1).is_none());
        assert!(holds.leave(&2).is_some());
        drop(second);
        assert!(holds.leave(&1).is_some());
    }

    #[tokio::test]
    async fn nobody_builds_on_what_is_leaving_and_whoever_waits_hears_when_that_is_over() {
        let holds = Holds::default();
        let leaving = holds.leave(&1);
        assert!(holds.keep(&1).is_none() && holds.leave(&1).is_none());
        holds.decided(&2).await;
        tokio::join!(holds.decided(&1), async { drop(leaving) });
        assert!(holds.keep(&1).is_some());
    }
}
