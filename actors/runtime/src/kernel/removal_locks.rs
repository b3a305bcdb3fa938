//! Locks against a race: no new item refers to an item that is being removed.
//!
//! A caller that finds an item leaving waits until it has left or stays, and looks whether it is there then.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The items of one kind that are held just now.
#[derive(Debug)]
pub(crate) struct RemovalLocks<A>(Arc<Inner<A>>);

#[derive(Debug)]
struct Inner<A> {
    locked: Mutex<HashMap<A, Lock>>,
    /// An item has left, or stays.
    decided: Notify,
}

#[derive(Debug)]
enum Lock {
    /// The number of others that build on the item.
    Used(usize),
    /// The item is being removed.
    Leaving,
}

/// Keeps an item from removal until it is dropped.
#[derive(Debug)]
pub(crate) struct UseGuard<A: Eq + Hash>(Arc<Inner<A>>, A);

/// Keeps others from using an item that is being removed, until it is dropped.
#[derive(Debug)]
pub(crate) struct RemovalGuard<A: Eq + Hash>(Arc<Inner<A>>, A);

impl<A> Default for RemovalLocks<A> {
    fn default() -> Self {
        Self(Arc::new(Inner { locked: Mutex::default(), decided: Notify::new() }))
    }
}

impl<A: Eq + Hash + Clone> RemovalLocks<A> {
    /// Keeps an item from removal, once it is not leaving: it may have left by then.
    pub(crate) async fn keep(&self, item: &A) -> UseGuard<A> {
        loop {
            if let Some(guard) = self.keep_now(item) {
                return guard;
            }
            self.decided(item).await;
        }
    }

    fn keep_now(&self, item: &A) -> Option<UseGuard<A>> {
        let mut locks = self.0.lock();
        match locks.entry(item.clone()).or_insert(Lock::Used(0)) {
            Lock::Used(count) => *count += 1,
            Lock::Leaving => return None,
        }
        Some(UseGuard(Arc::clone(&self.0), item.clone()))
    }

    /// Lets an item go, unless a user locks it.
    pub(crate) fn leave(&self, item: &A) -> Option<RemovalGuard<A>> {
        let mut locks = self.0.lock();
        if locks.contains_key(item) {
            return None;
        }
        locks.insert(item.clone(), Lock::Leaving);
        Some(RemovalGuard(Arc::clone(&self.0), item.clone()))
    }

    /// Waits as long as the item is being removed.
    pub(crate) async fn decided(&self, item: &A) {
        loop {
            let decided = self.0.decided.notified();
            if !matches!(self.0.lock().get(item), Some(Lock::Leaving)) {
                return;
            }
            decided.await;
        }
    }
}

impl<A> Inner<A> {
    fn lock(&self) -> MutexGuard<'_, HashMap<A, Lock>> {
        self.locked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Eq + Hash> Drop for UseGuard<A> {
    fn drop(&mut self) {
        let mut locks = self.0.lock();
        if let Some(Lock::Used(count)) = locks.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                locks.remove(&self.1);
            }
        }
    }
}

impl<A: Eq + Hash> Drop for RemovalGuard<A> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
        self.0.decided.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_is_used_stays_until_the_last_has_let_go() {
        let locks = RemovalLocks::default();
        let (first, second) = (locks.keep(&1).await, locks.keep(&1).await);
        drop(first);
        assert!(locks.leave(&1).is_none());
        assert!(locks.leave(&2).is_some());
        drop(second);
        assert!(locks.leave(&1).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_builds_on_what_is_leaving_and_whoever_waits_hears_when_that_is_over() {
        let locks = RemovalLocks::default();
        let leaving = locks.leave(&1);
        assert!(locks.leave(&1).is_none());
        let soon = Duration::from_secs(1);
        assert!(tokio::time::timeout(soon, locks.keep(&1)).await.is_err());
        locks.decided(&2).await;
        let (_kept, ()) = tokio::join!(locks.keep(&1), async { drop(leaving) });
        assert!(locks.leave(&1).is_none());
    }
}
