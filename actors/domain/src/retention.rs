//! How long what has ended is kept, and what goes with what.
//!
//! ```text
//!   execution ── its steps, its input, its tasks ── and the plan that a deploy made for it alone
//!   task ─────── its texts, its approval
//!   history ──── of an approval: after its task, by a measure of its own
//! ```
//!
//! A task of an execution goes with it, never before. One that tries a rejected task again goes by
//! its own age, as the rejected one does. What has not ended has no age and stays. Deliberately
//! absent: the order in which rows are removed, which has to stand a crash.

use std::time::Duration;

use crate::Timestamp;

/// For how long; `None` is forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    ended: Option<Duration>,
    history: Option<Duration>,
}

/// Whether a task is part of something that is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// It was submitted by itself or in a batch.
    Nothing,
    /// Its execution is there.
    Kept,
    /// Its execution was removed.
    Removed,
}

impl Policy {
    /// Keeps what has ended for `ended`, and the histories of approvals for `history`, but no
    /// history for a shorter time than its task.
    #[must_use]
    pub fn new(ended: Option<Duration>, history: Option<Duration>) -> Self {
        let history = ended.zip(history).map(|(ended, history)| history.max(ended));
        Self { ended, history }
    }

    /// How often it is worth a look: what goes may go so much later.
    #[must_use]
    pub fn every(&self) -> Option<Duration> {
        const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
        self.ended.map(|keep| (keep / 10).clamp(BOUNDS.0, BOUNDS.1))
    }

    /// How many times as long as a part of a look took the pause after it is, so that users do not notice;
    /// `under_way`: how long ago the look began. One that takes longer than the time between two has more to
    /// remove than it gets to, and what is stored would grow for as long as that is so.
    #[must_use]
    pub fn pause(&self, under_way: Duration) -> u32 {
        /// Up to so many times the time between two looks, and the pause.
        const PAUSES: [(u32, u32); 2] = [(1, 3), (2, 1)];
        let every = self.every().unwrap_or(Duration::MAX);
        let in_time = |(times, _): &(u32, u32)| under_way <= every.saturating_mul(*times);
        PAUSES.into_iter().find(in_time).map_or(0, |(_, pause)| pause)
    }

    /// The last instant at which anything can have been made that goes now: whatever is younger
    /// stays, so nobody need look at it. `None` if nothing goes.
    #[must_use]
    pub fn made_until(&self, now: Timestamp) -> Option<Timestamp> {
        before(self.ended?, now)
    }

    /// The same for histories.
    #[must_use]
    pub fn history_made_until(&self, now: Timestamp) -> Option<Timestamp> {
        before(self.history?, now)
    }

    /// Whether an execution goes. `ended` is `None` while it has not.
    #[must_use]
    pub fn execution_goes(&self, ended: Option<Timestamp>, now: Timestamp) -> bool {
        is_over(self.ended, ended, now)
    }

    /// Whether a task goes. `ended` is `None` while it has not.
    #[must_use]
    pub fn task_goes(&self, ended: Option<Timestamp>, part_of: Whole, now: Timestamp) -> bool {
        match part_of {
            Whole::Nothing | Whole::Removed => is_over(self.ended, ended, now),
            Whole::Kept => false,
        }
    }

    /// Whether the history of a removed task goes; `last` is its last entry.
    #[must_use]
    pub fn history_goes(&self, last: Timestamp, now: Timestamp) -> bool {
        is_over(self.history, Some(last), now)
    }
}

fn before(keep: Duration, now: Timestamp) -> Option<Timestamp> {
    let keep = u64::try_from(keep.as_millis()).ok()?;
    now.as_millis().checked_sub(keep).map(Timestamp::from_millis)
}

/// A clock that went back makes nothing older.
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
    fn what_ended_goes_when_its_time_is_over_and_not_before() {
        let policy = Policy::new(Some(DAY * 30), None);
        let almost = Timestamp::from_millis(at(30).as_millis() - 1);
        for (now, goes) in [(at(0), false), (almost, false), (at(30), true), (at(31), true)] {
            assert_eq!(policy.execution_goes(Some(at(0)), now), goes, "{now}");
            assert_eq!(policy.task_goes(Some(at(0)), Whole::Nothing, now), goes, "{now}");
        }
    }

    #[test]
    fn what_has_not_ended_stays_however_old() {
        let policy = Policy::new(Some(DAY), Some(DAY));
        assert!(!policy.execution_goes(None, Timestamp::MAX));
        assert!(!policy.task_goes(None, Whole::Nothing, Timestamp::MAX));
        assert!(!policy.task_goes(None, Whole::Removed, Timestamp::MAX));
    }

    #[test]
    fn a_task_never_goes_before_its_execution() {
        let policy = Policy::new(Some(DAY), None);
        assert!(!policy.task_goes(Some(at(0)), Whole::Kept, at(1000)));
        assert!(policy.task_goes(Some(at(0)), Whole::Removed, at(1)));
    }

    #[test]
    fn forever_is_forever_and_needs_no_look() {
        let policy = Policy::default();
        assert!(!policy.execution_goes(Some(at(0)), Timestamp::MAX));
        assert!(!policy.history_goes(at(0), Timestamp::MAX));
        assert_eq!((policy.every(), policy.made_until(at(1))), (None, None));
    }

    #[test]
    fn a_look_that_takes_too_long_pauses_less_and_then_not_at_all() {
        let policy = Policy::new(Some(DAY * 30), None);
        let pauses =
            [0, 60, 61, 120, 121, 86_400].map(Duration::from_secs).map(|it| policy.pause(it));
        assert_eq!(pauses, [3, 3, 1, 1, 0, 0]);
        assert_eq!(Policy::new(Some(Duration::from_secs(5)), None).pause(DAY), 0);
        assert_eq!(Policy::default().pause(DAY), 3);
    }

    #[test]
    fn a_history_stays_at_least_as_long_as_its_task() {
        let policy = Policy::new(Some(DAY * 30), Some(DAY));
        assert!(!policy.history_goes(at(0), at(29)));
        assert!(policy.history_goes(at(0), at(30)));
        assert_eq!(Policy::new(None, Some(DAY)), Policy::default());
        assert!(!Policy::new(Some(DAY), None).history_goes(at(0), Timestamp::MAX));
    }

    #[test]
    fn a_look_is_taken_each_minute_and_more_often_where_little_is_kept() {
        let every = |keep| Policy::new(Some(keep), None).every();
        assert_eq!(every(DAY * 30), Some(Duration::from_mins(1)));
        assert_eq!(every(Duration::from_secs(30)), Some(Duration::from_secs(3)));
        assert_eq!(every(Duration::from_secs(1)), Some(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn nothing_goes_that_was_made_later_than_is_looked_at(
            keep in 0_u64..100, made in 0_u64..1_000, lived in 0_u64..1_000, now in 0_u64..2_000,
        ) {
            let policy = Policy::new(Some(Duration::from_millis(keep)), Some(Duration::ZERO));
            let [made_at, ended, now] = [made, made + lived, now].map(Timestamp::from_millis);
            let seen = |until: Option<Timestamp>| until.is_some_and(|until| made_at <= until);
            if policy.execution_goes(Some(ended), now) {
                // A clock that went back is as if it had stood still.
                prop_assert!(now < ended || seen(policy.made_until(now)));
            }
            if now >= ended && policy.history_goes(ended, now) {
                prop_assert!(seen(policy.history_made_until(now)));
            }
        }
    }
}
