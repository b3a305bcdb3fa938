//! Walks over all rows of batches, each made once in the background and kept for a while.
//!
//! ```text
//!   a request ─▶ the walk of its key ─┬─ done ─▶ an answer
//!                 one at a time       └─ after a few seconds: the figures so far
//! ```
//!
//! A result is in memory, a few dozen bytes for each row, and at most [`MOST`] are kept.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::Error;
use callboard_domain::batch::Batch;
use callboard_store::Error as StoreError;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// The most results that are kept, or on their way.
const MOST: usize = 8;
/// The time for which a result is kept if every batch has ended, and otherwise.
const KEEP: Duration = Duration::from_mins(1);
const KEEP_MOVING: Duration = Duration::from_secs(5);

/// The walks of one kind.
#[derive(Debug)]
pub(crate) struct Walks<K, T> {
    walks: Mutex<HashMap<K, Arc<Walk<T>>>>,
    turn: Arc<Semaphore>,
}

/// A walk and its result so far.
#[derive(Debug)]
pub(crate) struct Walk<T> {
    begun: Instant,
    keep: Duration,
    result: Mutex<T>,
    /// The end of the walk: its instant, or its failure.
    end: watch::Sender<Option<Result<Instant, ()>>>,
}

impl<K, T> Default for Walks<K, T> {
    fn default() -> Self {
        Self { walks: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

/// The time for which a result about these batches is kept.
pub(crate) fn keep(batches: &[&Batch]) -> Duration {
    if batches.iter().all(|batch| batch.is_over()) { KEEP } else { KEEP_MOVING }
}

/// The part of a key that changes when a batch that has ended is changed.
pub(crate) fn stamp(batch: &Batch) -> u64 {
    if batch.is_over() { batch.revision } else { 0 }
}

impl<T> Walk<T> {
    /// The result so far.
    pub(crate) fn result(&self) -> MutexGuard<'_, T> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// True if the result must not be used any more: a walk that took long is kept as long as it took.
    fn is_stale(&self) -> bool {
        match *self.end.borrow() {
            None => false,
            Some(Err(())) => true,
            Some(Ok(ended)) => ended.elapsed() > self.keep.max(ended - self.begun),
        }
    }

    /// Waits for the end, at most so long; true if the result is complete.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the rows could not be read.
    pub(crate) async fn wait(&self, limit: Duration) -> Result<bool, Error> {
        let mut end = self.end.subscribe();
        let ended = tokio::time::timeout(limit, end.wait_for(Option::is_some)).await;
        match ended {
            Err(_) => Ok(false),
            Ok(Ok(end)) if matches!(*end, Some(Ok(_))) => Ok(true),
            Ok(_) => Err(Error::Unavailable("the store cannot be read")),
        }
    }
}

impl<K: Eq + Hash, T: Send + 'static> Walks<K, T> {
    /// The walk of this key: one that is kept, or a new one that `walk` makes.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if as many as there may be are on their way.
    pub(crate) fn of<F>(
        &self,
        key: K,
        keep: Duration,
        empty: T,
        walk: impl FnOnce(Arc<Walk<T>>) -> F,
    ) -> Result<Arc<Walk<T>>, Error>
    where
        F: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        walks.retain(|_, walk| !walk.is_stale());
        if let Some(known) = walks.get(&key) {
            return Ok(Arc::clone(known));
        }
        if walks.len() >= MOST {
            let begun = walks.values().filter(|walk| walk.is_over()).map(|walk| walk.begun).min();
            let oldest = begun.ok_or(Error::Unavailable(
                "too many batches are being read: send this again in a few seconds",
            ))?;
            walks.retain(|_, walk| walk.begun != oldest || !walk.is_over());
        }
        let (begun, end) = (Instant::now(), watch::Sender::new(None));
        let made = Arc::new(Walk { begun, keep, result: Mutex::new(empty), end });
        walks.insert(key, Arc::clone(&made));
        let (turn, own, walking) =
            (Arc::clone(&self.turn), Arc::clone(&made), walk(Arc::clone(&made)));
        tokio::spawn(async move {
            let _turn = turn.acquire_owned().await;
            // A panic of the walk drops this and reads as a failure.
            let ending = Ending(own);
            let read = walking.await;
            if let Err(error) = &read {
                tracing::warn!(%error, "the rows of a batch cannot be read");
            }
            ending.0.end.send_replace(Some(read.map(|()| Instant::now()).map_err(drop)));
        });
        Ok(made)
    }
}

struct Ending<T>(Arc<Walk<T>>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        self.0.end.send_if_modified(|end| {
            let is_open = end.is_none();
            if is_open {
                *end = Some(Err(()));
            }
            is_open
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_result_is_made_once_and_kept_for_a_while_and_a_failure_is_not_kept() {
        let walks: Walks<u8, u32> = Walks::default();
        let walk = |key: u8, fails: bool| {
            walks.of(key, KEEP_MOVING, 0, move |walk| async move {
                tokio::time::sleep(Duration::from_secs(8)).await;
                *walk.result() += 1;
                if fails { Err(StoreError::Stopped) } else { Ok(()) }
            })
        };
        let first = walk(1, false).expect("there is room");
        assert_eq!(first.wait(Duration::from_secs(2)).await, Ok(false));
        let same = walk(1, false).expect("it is known");
        assert_eq!(same.wait(Duration::from_secs(20)).await, Ok(true));
        assert!(Arc::ptr_eq(&first, &same));
        // As long as it took.
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert!(Arc::ptr_eq(&first, &walk(1, false).expect("it is kept")));
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!Arc::ptr_eq(&first, &walk(1, false).expect("it is made anew")));
        let broken = walk(2, true).expect("there is room");
        assert!(broken.wait(Duration::from_mins(1)).await.is_err());
        assert!(!Arc::ptr_eq(&broken, &walk(2, false).expect("it is made anew")));
        for key in 3..10 {
            walk(key, false).expect("there is room");
        }
        assert!(walk(10, false).is_err(), "none of them has ended");
    }
}
