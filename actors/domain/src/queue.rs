//! The order of a queue: by priority, then by age, without starvation (docs/reference/tasks.md).
//!
//! A task that has waited for one `aging` counts as one priority step higher. The order of two
//! waiting tasks therefore never changes, and each has a fixed rank: its creation time minus its
//! priority times `aging`. The smallest rank goes first.
//!
//! Deliberately absent: durability (a queue is rebuilt from the ready tasks after a restart) and
//! workers (a predicate passes the models that may be taken).

mod control;
mod keyed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

pub use control::{MAX_CONCURRENT, MAX_REQUESTS, QueueChange, QueueSettings, Throttle, Wait};
pub use keyed::Dequeued;

use keyed::{Keyed, LeaseConditions};

use crate::Timestamp;
use crate::id::TaskId;
use crate::task::Flow;

/// A task that is ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The task.
    pub task: TaskId,
    /// The model, which a worker must have announced.
    pub model: Arc<str>,
    /// 1 to 10; 10 goes first.
    pub priority: u8,
    /// The start of the wait.
    pub since: Timestamp,
    /// The account, whose tier may limit the number of running tasks.
    pub account: Arc<str>,
    /// The flow control, if it has any.
    pub flow: Option<Arc<Flow>>,
}

/// The tasks of one model and account: a worker that may take one of them may take any.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Lane {
    model: Arc<str>,
    account: Arc<str>,
}

type Rank = (i64, TaskId);

/// The ready tasks of one queue, in order.
#[derive(Debug)]
pub struct Queue {
    aging: Duration,
    lanes: BTreeMap<Arc<Lane>, BTreeSet<Rank>>,
    entries: HashMap<TaskId, (Arc<Lane>, i64)>,
    /// The tasks with flow control, which stand in none of the lanes.
    keyed: Keyed,
    /// The start of the wait of each task that could not run when it was created.
    began_later: HashMap<TaskId, Timestamp>,
}

impl Dequeued {
    fn plain(task: TaskId, lane: &Lane) -> Self {
        let (model, account) = (Arc::clone(&lane.model), Arc::clone(&lane.account));
        Self { task, model, account, flow: None }
    }
}

impl Queue {
    /// An empty queue in which `aging` of waiting counts as one priority step.
    #[must_use]
    pub fn new(aging: Duration) -> Self {
        let (lanes, entries) = (BTreeMap::new(), HashMap::new());
        let began_later = HashMap::new();
        Self { aging, lanes, entries, keyed: Keyed::default(), began_later }
    }

    /// The number of ready tasks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() + self.keyed.len()
    }

    /// True without a ready task.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if the task is queued.
    #[must_use]
    pub fn contains(&self, task: TaskId) -> bool {
        self.entries.contains_key(&task) || self.keyed.contains(task)
    }

    /// The start of the longest wait. Looks at all tasks.
    #[must_use]
    pub fn oldest(&self) -> Option<Timestamp> {
        let since = |task: &TaskId| {
            self.began_later.get(task).copied().unwrap_or_else(|| task.created_at())
        };
        self.entries.keys().chain(self.keyed.tasks()).map(since).min()
    }

    /// Adds a task; a task that is already queued keeps its rank.
    pub fn push(&mut self, mut ready: Ready) {
        if self.contains(ready.task) {
            return;
        }
        let rank = self.rank(&ready);
        if ready.since > ready.task.created_at() {
            self.began_later.insert(ready.task, ready.since);
        }
        if let Some(flow) = ready.flow.take() {
            self.keyed.push(rank, ready, flow);
            return;
        }
        let lane = Lane { model: ready.model, account: ready.account };
        let lane = match self.lanes.get_key_value(&lane) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(lane),
        };
        self.entries.insert(ready.task, (Arc::clone(&lane), rank));
        self.lanes.entry(lane).or_default().insert((rank, ready.task));
    }

    /// Removes a task; true if the task was queued.
    pub fn remove(&mut self, task: TaskId) -> bool {
        self.began_later.remove(&task);
        let Some((lane, rank)) = self.entries.remove(&task) else {
            return self.keyed.remove(task).is_some();
        };
        if let Some(ranks) = self.lanes.get_mut(&lane) {
            ranks.remove(&(rank, task));
            if ranks.is_empty() {
                self.lanes.remove(&lane);
            }
        }
        true
    }

    /// Removes and returns the first task without flow control whose model passes `runs` and whose
    /// account passes `may_start`.
    pub fn take(
        &mut self,
        runs: impl Fn(&str) -> bool,
        may_start: impl Fn(&str) -> bool,
    ) -> Option<Dequeued> {
        let ((_, task), lane) = self.first(&runs, &may_start)?;
        self.remove(task);
        Some(Dequeued::plain(task, &lane))
    }

    /// Removes and returns the first task as [`Self::take`] does, tasks with flow control included:
    /// such a task waits while its concurrency key has no room under its limit, by `has_room`, and its
    /// fairness key takes turns with the others of its priority.
    pub fn take_flow(
        &mut self,
        runs: impl Fn(&str) -> bool,
        may_start: impl Fn(&str) -> bool,
        has_room: impl Fn(&str, u32) -> bool,
    ) -> Option<Dequeued> {
        let plain = self.first(&runs, &may_start);
        if self.keyed.len() > 0 {
            let may = LeaseConditions { runs: &runs, starts: &may_start, has_room: &has_room };
            let keyed = self.keyed.first(&may);
            let goes = |keyed: &Rank| plain.as_ref().is_none_or(|(plain, _)| keyed < plain);
            if let Some(keyed) = keyed.filter(goes) {
                let taken = self.keyed.take(keyed, &may)?;
                self.began_later.remove(&taken.task);
                return Some(taken);
            }
        }
        let ((_, task), lane) = plain?;
        self.remove(task);
        Some(Dequeued::plain(task, &lane))
    }

    /// The smallest rank of a task without flow control that may start, and its lane.
    fn first(
        &self,
        runs: &impl Fn(&str) -> bool,
        may_start: &impl Fn(&str) -> bool,
    ) -> Option<(Rank, Arc<Lane>)> {
        self.lanes
            .iter()
            .filter(|(lane, _)| runs(&lane.model) && may_start(&lane.account))
            .filter_map(|(lane, ranks)| Some((*ranks.first()?, lane)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(rank, lane)| (rank, Arc::clone(lane)))
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
    use crate::task::Fairness;

    const AGING: Duration = Duration::from_mins(1);

    fn ready(number: u128, priority: u8, since_s: u64) -> Ready {
        Ready {
            task: TaskId::from_u128(number << 10),
            model: "m".into(),
            priority,
            since: Timestamp::from_millis(since_s * 1000),
            account: "usr".into(),
            flow: None,
        }
    }

    fn drain(queue: &mut Queue) -> Vec<u128> {
        std::iter::from_fn(|| queue.take(|_| true, |_| true))
            .map(|taken| taken.task.as_u128() >> 10)
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
    fn a_worker_gets_only_what_it_can_run_and_an_account_at_its_limit_waits() {
        let other = Ready { model: "other".into(), ..ready(1, 10, 0) };
        let limited = Ready { account: "limited".into(), ..ready(2, 9, 0) };
        let mut queue = queue_of([other, limited, ready(3, 1, 0)]);
        let taken = |number, account: &str| {
            let (task, account) = (ready(number, 1, 0).task, account.into());
            Some(Dequeued { task, model: "m".into(), account, flow: None })
        };
        let is_m = |model: &str| model == "m";
        let has_room = |account: &str| account != "limited";
        assert_eq!(queue.take(is_m, has_room), taken(3, "usr"));
        assert_eq!(queue.take(is_m, has_room), None);
        assert_eq!(queue.take(is_m, |_| true), taken(2, "limited"));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn the_oldest_is_the_first_that_could_run_whatever_goes_first() {
        let created = |seconds: u64, priority, since_s| Ready {
            task: TaskId::from_u128(u128::from(seconds * 1000) << 80),
            ..ready(0, priority, since_s)
        };
        let scheduled = created(1, 1, 90);
        let fairness = Some(Fairness { key: "k".into(), weight: 1 });
        let flow = Some(Arc::new(Flow { concurrency: None, fairness }));
        let keyed = Ready { flow, ..created(2, 1, 80) };
        let mut queue = queue_of([created(70, 10, 70), scheduled.clone(), keyed.clone()]);
        let oldest = |queue: &Queue| queue.oldest().map(|since| since.as_millis() / 1000);
        assert_eq!(oldest(&queue), Some(70));
        assert!(queue.take(|_| true, |_| true).is_some());
        assert_eq!(oldest(&queue), Some(80), "with flow control it counts too");
        assert_eq!(
            queue.take_flow(|_| true, |_| true, |_, _| true).map(|it| it.task),
            Some(keyed.task)
        );
        assert_eq!(oldest(&queue), Some(90));
        queue.remove(scheduled.task);
        assert_eq!(oldest(&queue), None);
        assert!(queue.began_later.is_empty());
    }

    #[test]
    fn a_task_that_is_pushed_twice_is_taken_once() {
        let mut queue = queue_of([ready(1, 5, 0), ready(1, 9, 0)]);
        assert_eq!(drain(&mut queue), [1]);
        assert!(!queue.remove(ready(1, 5, 0).task));
    }

    proptest! {
        #[test]
        fn tasks_are_taken_in_the_order_of_a_sorted_list_without_the_removed_ones(
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
