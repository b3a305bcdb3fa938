//! Retention: the time for which ended items are kept, and the items that are removed together.
//!
//! ```text
//!   execution ── its steps, its input, its tasks ── and the plan that a deploy created for it alone
//!   task ─────── its texts, its approval
//!   history ──── of an approval: after its task, with a period of its own
//! ```
//!
//! A task of an execution expires with it, never before. A task that retries a rejected one expires
//! by its own age. An item that has not ended has no age and stays. Deliberately absent: the order in
//! which rows are removed, which has to survive a crash.

use std::time::Duration;

use crate::Timestamp;

/// The retention periods; `None` keeps items for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    ended: Option<Duration>,
    history: Option<Duration>,
}

/// The execution that a task belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// The task was submitted alone or in a batch.
    None,
    /// The execution is stored.
    Stored,
    /// The execution was removed.
    Removed,
}

/// True if what is older than `keep` may be removed by its age, on a server that has been running for `uptime`.
///
/// A machine whose clock is wrong at the start has it set soon, and what was removed by then would be gone for good. So
/// nothing goes in the first hundredth of the period, at most an hour, and none while the server's time is ahead of the
/// machine's.
#[must_use]
pub fn may_remove(keep: Duration, uptime: Duration, now: Timestamp, wall: Timestamp) -> bool {
    const LONGEST: Duration = Duration::from_hours(1);
    const APART: Duration = Duration::from_mins(1);
    uptime >= (keep / 100).min(LONGEST) && now.since(wall) <= APART
}

impl Policy {
    /// The policy of a project that keeps ended items for so many days; this one if it says nothing.
    #[must_use]
    pub fn of_project(self, days: Option<u16>) -> Self {
        let keep = days.map(|days| Duration::from_hours(24 * u64::from(days)));
        keep.map_or(self, |keep| Self::new(Some(keep), self.history))
    }

    /// The time for which ended items are kept; `None` for ever.
    #[must_use]
    pub const fn ended(&self) -> Option<Duration> {
        self.ended
    }

    /// Keeps ended items for `ended`, and histories of approvals for `history`, but no history for
    /// less time than its task.
    #[must_use]
    pub fn new(ended: Option<Duration>, history: Option<Duration>) -> Self {
        let history = ended.zip(history).map(|(ended, history)| history.max(ended));
        Self { ended, history }
    }

    /// The time between two sweeps, by which an item may be removed late: a tenth of the period,
    /// within 1 s to 1 min.
    #[must_use]
    pub fn interval(&self) -> Option<Duration> {
        const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
        self.ended.map(|keep| (keep / 10).clamp(BOUNDS.0, BOUNDS.1))
    }

    /// The pause after each part of a sweep, as a multiple of the time that the part took, so that
    /// requests are not slowed down; `elapsed` is the time since the sweep began. A sweep that takes
    /// longer than the interval pauses less, because it falls behind and the store would grow.
    #[must_use]
    pub fn pause(&self, elapsed: Duration) -> u32 {
        /// The pauses for sweeps of up to this number of intervals.
        const PAUSES: [(u32, u32); 2] = [(1, 3), (2, 1)];
        let interval = self.interval().unwrap_or(Duration::MAX);
        let in_time = |(times, _): &(u32, u32)| elapsed <= interval.saturating_mul(*times);
        PAUSES.into_iter().find(in_time).map_or(0, |(_, pause)| pause)
    }

    /// The latest creation time of an item that can have expired at `now`: the sweep skips younger
    /// items. `None` if no item expires.
    #[must_use]
    pub fn cutoff(&self, now: Timestamp) -> Option<Timestamp> {
        before(self.ended?, now)
    }

    /// The latest creation time of a history that can have expired at `now`.
    #[must_use]
    pub fn history_cutoff(&self, now: Timestamp) -> Option<Timestamp> {
        before(self.history?, now)
    }

    /// True if an execution is to be removed; `ended` is `None` while it has not ended.
    #[must_use]
    pub fn execution_expired(&self, ended: Option<Timestamp>, now: Timestamp) -> bool {
        is_over(self.ended, ended, now)
    }

    /// True if a task is to be removed; `ended` is `None` while it has not ended.
    #[must_use]
    pub fn task_expired(&self, ended: Option<Timestamp>, parent: Parent, now: Timestamp) -> bool {
        match parent {
            Parent::None | Parent::Removed => is_over(self.ended, ended, now),
            Parent::Stored => false,
        }
    }

    /// True if the history of a removed task is to be removed; `last` is the time of its last entry.
    #[must_use]
    pub fn history_expired(&self, last: Timestamp, now: Timestamp) -> bool {
        is_over(self.history, Some(last), now)
    }
}

fn before(keep: Duration, now: Timestamp) -> Option<Timestamp> {
    let keep = u64::try_from(keep.as_millis()).ok()?;
    now.as_millis().checked_sub(keep).map(Timestamp::from_millis)
}

/// A clock that went back makes no item older.
fn is_over(keep: Option<Duration>, since: Option<Timestamp>, now: Timestamp) -> bool {
    keep.zip(since).is_some_and(|(keep, since)| now.since(since) >= keep)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn at(days: u32) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000).after(DAY * days)
    }

    #[test]
    fn an_ended_item_expires_after_its_period_and_not_before() {
        let policy = Policy::new(Some(DAY * 30), None);
        let almost = Timestamp::from_millis(at(30).as_millis() - 1);
        for (now, expires) in [(at(0), false), (almost, false), (at(30), true), (at(31), true)] {
            assert_eq!(policy.execution_expired(Some(at(0)), now), expires, "{now}");
            assert_eq!(policy.task_expired(Some(at(0)), Parent::None, now), expires, "{now}");
        }
    }

    #[test]
    fn an_item_that_has_not_ended_never_expires() {
        let policy = Policy::new(Some(DAY), Some(DAY));
        assert!(!policy.execution_expired(None, Timestamp::MAX));
        assert!(!policy.task_expired(None, Parent::None, Timestamp::MAX));
        assert!(!policy.task_expired(None, Parent::Removed, Timestamp::MAX));
    }

    #[test]
    fn a_task_never_expires_before_its_execution() {
        let policy = Policy::new(Some(DAY), None);
        assert!(!policy.task_expired(Some(at(0)), Parent::Stored, at(1000)));
        assert!(policy.task_expired(Some(at(0)), Parent::Removed, at(1)));
    }

    #[test]
    fn without_a_period_nothing_expires_and_no_sweep_runs() {
        let policy = Policy::default();
        assert!(!policy.execution_expired(Some(at(0)), Timestamp::MAX));
        assert!(!policy.history_expired(at(0), Timestamp::MAX));
        assert_eq!((policy.interval(), policy.cutoff(at(1))), (None, None));
    }

    #[test]
    fn a_sweep_that_falls_behind_pauses_less_and_then_not_at_all() {
        let policy = Policy::new(Some(DAY * 30), None);
        let pauses =
            [0, 60, 61, 120, 121, 86_400].map(Duration::from_secs).map(|it| policy.pause(it));
        assert_eq!(pauses, [3, 3, 1, 1, 0, 0]);
        assert_eq!(Policy::new(Some(Duration::from_secs(5)), None).pause(DAY), 0);
        assert_eq!(Policy::default().pause(DAY), 3);
    }

    #[test]
    fn nothing_goes_by_its_age_while_the_clock_may_be_wrong() {
        let day = |keep: u32, uptime| may_remove(DAY * keep, uptime, at(40), at(40));
        assert!(!day(30, Duration::from_mins(59)));
        assert!(day(30, Duration::from_hours(1)));
        assert!(day(1, Duration::from_mins(15)));
        let short = Duration::from_secs(10);
        assert!(may_remove(short, Duration::from_millis(100), at(1), at(1)));
        // The clock was a month ahead at the start, and was set since.
        assert!(!may_remove(DAY, DAY, at(71), at(40)));
        assert!(may_remove(DAY, DAY, at(40), at(71)));
    }

    #[test]
    fn a_project_keeps_ended_items_for_its_own_time_and_histories_as_the_server_does() {
        let server = Policy::new(Some(DAY * 30), Some(DAY * 90));
        assert_eq!(server.of_project(None), server);
        assert_eq!(server.of_project(Some(7)), Policy::new(Some(DAY * 7), Some(DAY * 90)));
        assert_eq!(server.of_project(Some(365)), Policy::new(Some(DAY * 365), Some(DAY * 365)));
        assert_eq!(Policy::default().of_project(Some(7)), Policy::new(Some(DAY * 7), None));
    }

    #[test]
    fn a_history_stays_at_least_as_long_as_its_task() {
        let policy = Policy::new(Some(DAY * 30), Some(DAY));
        assert!(!policy.history_expired(at(0), at(29)));
        assert!(policy.history_expired(at(0), at(30)));
        assert_eq!(Policy::new(None, Some(DAY)), Policy::default());
        assert!(!Policy::new(Some(DAY), None).history_expired(at(0), Timestamp::MAX));
    }

    #[test]
    fn a_sweep_runs_each_minute_and_more_often_for_short_periods() {
        let interval = |keep| Policy::new(Some(keep), None).interval();
        assert_eq!(interval(DAY * 30), Some(Duration::from_mins(1)));
        assert_eq!(interval(Duration::from_secs(30)), Some(Duration::from_secs(3)));
        assert_eq!(interval(Duration::from_secs(1)), Some(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn nothing_expires_that_was_created_after_the_cutoff(
            keep in 0_u64..100, created in 0_u64..1_000, lived in 0_u64..1_000, now in 0_u64..2_000,
        ) {
            let policy = Policy::new(Some(Duration::from_millis(keep)), Some(Duration::ZERO));
            let [created_at, ended, now] = [created, created + lived, now].map(Timestamp::from_millis);
            let seen = |until: Option<Timestamp>| until.is_some_and(|until| created_at <= until);
            if policy.execution_expired(Some(ended), now) {
                // A clock that went back is as if it had stood still.
                prop_assert!(now < ended || seen(policy.cutoff(now)));
            }
            if now >= ended && policy.history_expired(ended, now) {
                prop_assert!(seen(policy.history_cutoff(now)));
            }
        }
    }
}
