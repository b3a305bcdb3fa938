//! The order of a queue: priority, then age, and nothing starves (PROTOCOL.md 3).
//!
//! A task that has waited one `aging` counts as one priority step higher. So the order of two tasks
//! never changes while both wait, and each has one fixed rank: its creation time, less its
//! priority times `aging`. The smaller rank goes first.
//!
//! Deliberately absent: durability (a queue orders what is ready and is rebuilt from the tasks) and
//! workers (who may take what is asked for as a predicate).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use crate::Timestamp;
use crate::id::TaskId;

/// A task that is ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The task.
    pub task: TaskId,
    /// Who can run it is decided by the model.
    pub model: Arc<str>,
    /// 1 to 10, 10 first.
    pub priority: u8,
    /// Since when it counts as waiting.
    pub since: Timestamp,
    /// The account, if its plan bounds how many of its tasks run at once.
    pub limited: Option<Arc<str>>,
}

/// Tasks of one kind: whoever may take one of them may take any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Lane {
    model: Arc<str>,
    limited: Option<Arc<str>>,
}

type Rank = (i64, TaskId);

/// What is ready in one queue, in order.
#[derive(Debug)]
pub struct Queue {
    aging: Duration,
    lanes: BTreeMap<Arc<Lane>, BTreeSet<Rank>>,
    places: HashMap<TaskId, (Arc<Lane>, i64)>,
}

impl Queue {
    /// An empty queue in which `aging` of waiting counts as one priority step.
    #[must_use]
    pub fn new(aging: Duration) -> Self {
        Self { aging, lanes: BTreeMap::new(), places: HashMap::new() }
    }

    /// How many tasks are ready.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether none is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Puts a task in its place; one that is there stays where it is.
    pub fn push(&mut self, ready: Ready) {
        if self.places.contains_key(&ready.task) {
            return;
        }
        let rank = self.rank(&ready);
        let lane = Lane { model: ready.model, limited: ready.limited };
        let lane = match self.lanes.get_key_value(&lane) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(lane),
        };
        self.places.insert(ready.task, (Arc::clone(&lane), rank));
        self.lanes.entry(lane).or_default().insert((rank, ready.task));
    }

    /// Takes a task out; says whether it was there.
    pub fn remove(&mut self, task: TaskId) -> bool {
        let Some((lane, rank)) = self.places.remove(&task) else {
            return false;
        };
        if let Some(places) = self.lanes.get_mut(&lane) {
            places.remove(&(rank, task));
            if places.is_empty() {
                self.lanes.remove(&lane);
            }
        }
        true
    }

    /// Takes out the first task whose model passes `runs` and whose account, if it is limited,
    /// passes `may_start`; returns that account with it.
    pub fn take(
        &mut self,
        runs: impl Fn(&str) -> bool,
        may_start: impl Fn(&str) -> bool,
    ) -> Option<(TaskId, Option<Arc<str>>)> {
        let ((_, task), lane) = self
            .lanes
            .iter()
            .filter(|(lane, _)| runs(&lane.model) && lane.limited.as_deref().is_none_or(&may_start))
            .filter_map(|(lane, places)| Some((*places.first()?, lane)))
            .min_by_key(|(rank, _)| *rank)?;
        let limited = lane.limited.clone();
        self.remove(task);
        Some((task, limited))
    }

    fn rank(&self, ready: &Ready) -> i64 {
        let aging = i64::try_from(self.aging.as_millis()).unwrap_or(i64::MAX);
        let since = i64::try_from(ready.since.as_millis()).unwrap_or(i64::MAX);
        since.saturating_sub(aging.saturating_mul(i64::from(ready.priority)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGING: Duration = Duration::from_mins(1);

    fn ready(number: u128, priority: u8, since_s: u64) -> Ready {
        Ready {
            task: TaskId::from_u128(number << 10),
            model: "m".into(),
            priority,
            since: Timestamp::from_millis(since_s * 1000),
            limited: None,
        }
    }

    fn drain(queue: &mut Queue) -> Vec<u128> {
        std::iter::from_fn(|| queue.take(|_| true, |_| true))
            .map(|(id, _)| id.as_u128() >> 10)
            .collect()
    }

    fn queue_of(entries: impl IntoIterator<Item = Ready>) -> Queue {
        let mut queue = Queue::new(AGING);
        entries.into_iter().for_each(|entry| queue.push(entry));
        queue
    }

    #[test]
    fn the_higher_priority_goes_first_and_then_the_older() {
        let mut queue =
            queue_of([ready(1, 5, 30), ready(2, 10, 40), ready(3, 5, 20), ready(4, 5, 20)]);
        assert_eq!(drain(&mut queue), [2, 3, 4, 1]);
    }

    #[test]
    fn a_minute_of_waiting_counts_as_one_priority_step() {
        let mut queue = queue_of([ready(1, 5, 0), ready(2, 6, 59), ready(3, 6, 61)]);
        assert_eq!(drain(&mut queue), [2, 1, 3]);
    }

    #[test]
    fn a_worker_gets_only_what_it_can_run_and_a_limited_account_waits() {
        let other = Ready { model: "other".into(), ..ready(1, 10, 0) };
        let limited = Ready { limited: Some("usr".into()), ..ready(2, 9, 0) };
        let mut queue = queue_of([other, limited, ready(3, 1, 0)]);
        assert_eq!(queue.take(|model| model == "m", |_| false), Some((ready(3, 1, 0).task, None)));
        assert_eq!(queue.take(|model| model == "m", |_| false), None);
        assert_eq!(
            queue.take(|model| model == "m", |_| true),
            Some((ready(2, 9, 0).task, Some("usr".into())))
        );
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_task_that_is_pushed_twice_is_taken_once() {
        let mut queue = queue_of([ready(1, 5, 0), ready(1, 9, 0)]);
        assert_eq!(drain(&mut queue), [1]);
        assert!(!queue.remove(ready(1, 5, 0).task));
    }

    proptest! {
        #[test]
        fn what_is_taken_is_the_first_of_a_sorted_list_without_what_was_removed(
            entries in prop::collection::vec((1_u8..=10, 0_u64..600), 0..60),
            removed in prop::collection::vec(any::<bool>(), 60),
        ) {
            let entries: Vec<_> = (1..).zip(&entries).map(|(n, (p, s))| ready(n, *p, *s)).collect();
            let mut queue = queue_of(entries.clone());
            let mut kept: Vec<_> = entries
                .into_iter()
                .zip(removed)
                .filter_map(|(entry, gone)| if gone { queue.remove(entry.task); None } else { Some(entry) })
                .collect();
            kept.sort_by_key(|e| (e.since.as_millis().cast_signed() - 60_000 * i64::from(e.priority), e.task));
            let expected: Vec<_> = kept.iter().map(|entry| entry.task.as_u128() >> 10).collect();
            prop_assert_eq!(drain(&mut queue), expected);
        }
    }
}
