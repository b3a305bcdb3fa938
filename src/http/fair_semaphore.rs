//! A semaphore that accounts and projects share evenly, for what takes much memory or time: to read a whole item for a
//! stream, to search texts.
//!
//! ```text
//!   those of one account ─▶ one at a time ─┐
//!   those of another ─────▶ one at a time ─┴▶ so many of a project ─▶ so many at once
//! ```
//!
//! All wait in the order of their coming. An account waits for at most one permit of each other account of its project,
//! and for at most as many of each other project as are taken at once, however many that one asks for.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use callboard_domain::id::Slot;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limit::Counted;

/// The permits of all accounts.
#[derive(Debug)]
pub(super) struct FairSemaphore {
    at_once: usize,
    all: Arc<Semaphore>,
    /// The account's own permit, while it has one or waits for one.
    by_one: Lines<Counted>,
    /// The project's permits.
    by_project: Lines<Option<Slot>>,
}

/// The semaphores of those who have a permit or wait for one.
type Lines<K> = Mutex<HashMap<K, Weak<Semaphore>>>;

/// A permit; dropping it passes it on.
#[derive(Debug)]
pub(super) struct FairPermit {
    /// Of all, of the project, of the account. They are dropped in this order: the next of the same account comes last
    /// in the line.
    _permits: [OwnedSemaphorePermit; 3],
}

impl FairSemaphore {
    /// A semaphore of which so many permits may be taken at once.
    pub(super) fn new(at_once: usize) -> Self {
        let all = Arc::new(Semaphore::new(at_once));
        Self { at_once, all, by_one: Mutex::default(), by_project: Mutex::default() }
    }

    /// Waits for a permit.
    pub(super) async fn acquire(&self, one: impl Into<Counted>) -> FairPermit {
        let one = one.into();
        let of_one = acquire(line_of(&self.by_one, one, 1)).await;
        let of_project = acquire(line_of(&self.by_project, one.project(), self.at_once)).await;
        let of_all = acquire(Arc::clone(&self.all)).await;
        FairPermit { _permits: [of_all, of_project, of_one] }
    }
}

fn line_of<K: Eq + Hash>(lines: &Lines<K>, whose: K, at_once: usize) -> Arc<Semaphore> {
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(line) = lines.get(&whose).and_then(Weak::upgrade) {
        return line;
    }
    lines.retain(|_, line| line.strong_count() > 0);
    let line = Arc::new(Semaphore::new(at_once));
    lines.insert(whose, Arc::downgrade(&line));
    line
}

async fn acquire(turns: Arc<Semaphore>) -> OwnedSemaphorePermit {
    turns.acquire_owned().await.expect("it is never closed")
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use callboard_domain::access::Account;
    use callboard_domain::id::KeyId;
    use futures_util::FutureExt;

    use super::*;

    fn account(number: u8) -> Counted {
        Counted::address([192, 0, 2, number].into())
    }

    #[tokio::test]
    async fn an_account_waits_for_one_turn_of_another_however_many_streams_that_one_has() {
        let reads = FairSemaphore::new(1);
        let first = reads.acquire(account(1)).await;
        let mut second = pin!(reads.acquire(account(1)));
        let mut third = pin!(reads.acquire(account(1)));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        let mut other = pin!(reads.acquire(account(2)));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        assert!(second.as_mut().now_or_never().is_none(), "it came before, and is not alone");
        let other = other.now_or_never().expect("its turn comes next");
        assert!(second.as_mut().now_or_never().is_none());
        drop(other);
        assert!(second.now_or_never().is_some());
        assert!(third.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_project_does_not_wait_for_the_many_accounts_of_another_one() {
        let of = |project: u8, key: u128| {
            Counted::Account(
                Slot::new(project).expect("a slot"),
                Account::Key(KeyId::from_u128(key)),
            )
        };
        let reads = FairSemaphore::new(2);
        let held = (reads.acquire(of(1, 0)).await, reads.acquire(of(1, 1)).await);
        let mut flood: Vec<_> = (2..100).map(|key| Box::pin(reads.acquire(of(1, key)))).collect();
        for turn in &mut flood {
            assert!(turn.as_mut().now_or_never().is_none());
        }
        let mut other = pin!(reads.acquire(of(2, 0)));
        assert!(other.as_mut().now_or_never().is_none());
        drop(held.0);
        assert!(flood[0].as_mut().now_or_never().is_none(), "the other came before");
        assert!(other.now_or_never().is_some());
        assert!(flood[0].as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn an_account_with_many_streams_reads_one_item_at_a_time() {
        let reads = FairSemaphore::new(2);
        let first = reads.acquire(account(1)).await;
        assert!(reads.acquire(account(1)).now_or_never().is_none());
        let other = reads.acquire(account(2)).now_or_never().expect("there is another turn");
        assert!(reads.acquire(account(3)).now_or_never().is_none(), "two at once");
        drop((first, other));
        assert!(reads.acquire(account(1)).now_or_never().is_some());
    }

    #[tokio::test]
    async fn accounts_without_a_stream_are_forgotten() {
        let reads = FairSemaphore::new(1);
        for number in 0..100 {
            drop(reads.acquire(account(number)).await);
        }
        assert_eq!(reads.by_one.lock().expect("no thread panics").len(), 1);
    }
}
