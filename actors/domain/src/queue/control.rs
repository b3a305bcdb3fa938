//! The settings of a queue: the pause, and the rate at which it gives out leases.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::rate::{Place, SlidingLog};

/// The highest limit of running tasks.
pub const MAX_CONCURRENT: u32 = 1_000_000;
/// The highest limit of leases a minute.
pub const MAX_REQUESTS: u32 = 1_000_000;

/// The settings of a queue; the default lets every lease pass.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct QueueSettings {
    /// True if the queue gives out no leases.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The most tasks of the queue that run at the same time.
    pub concurrent: Option<u32>,
    /// The most leases in any 60 seconds.
    pub requests_per_minute: Option<u32>,
}

/// A change of settings; `None` leaves a member as it is, and a limit of 0 removes the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueChange {
    /// Pauses or resumes the queue.
    pub paused: Option<bool>,
    /// The most tasks of the queue that run at the same time.
    pub concurrent: Option<u32>,
    /// The most leases in any 60 seconds.
    pub requests_per_minute: Option<u32>,
}

impl QueueSettings {
    /// The settings after a change.
    #[must_use]
    pub fn with(self, change: QueueChange) -> Self {
        let limit = |new: Option<u32>, old| match new {
            Some(0) => None,
            Some(limit) => Some(limit),
            None => old,
        };
        Self {
            paused: change.paused.unwrap_or(self.paused),
            concurrent: limit(change.concurrent, self.concurrent),
            requests_per_minute: limit(change.requests_per_minute, self.requests_per_minute),
        }
    }

    /// True if the queue is as one without settings.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The reason why a queue gives out no lease now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The queue is paused.
    Paused,
    /// The queue's running tasks have reached the limit; the queue waits for the end of one.
    Running,
    /// The leases of the last 60 seconds have reached the limit; the rest of the wait, in seconds.
    Rate(u64),
}

/// The settings of a queue, with the leases of the last minute.
#[derive(Debug, Clone, Default)]
pub struct Throttle {
    settings: QueueSettings,
    leases: SlidingLog,
}

impl Throttle {
    /// A throttle with these settings, as if no lease was given out in the last minute.
    #[must_use]
    pub fn new(settings: QueueSettings) -> Self {
        Self { settings, leases: SlidingLog::default() }
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> QueueSettings {
        self.settings
    }

    /// Other settings; the leases of the last minute still count.
    pub fn set(&mut self, settings: QueueSettings) {
        self.settings = settings;
    }

    /// Passes if a lease may be given out while `running` tasks of the queue run.
    ///
    /// # Errors
    /// The obstacle.
    pub fn check(&mut self, running: u32, now: Timestamp) -> Result<(), Wait> {
        if self.settings.paused {
            return Err(Wait::Paused);
        }
        if self.settings.concurrent.is_some_and(|limit| running >= limit) {
            return Err(Wait::Running);
        }
        if let Some(limit) = self.settings.requests_per_minute {
            self.leases.peek(limit, now).map_err(|exceeded| Wait::Rate(exceeded.retry_after))?;
        }
        Ok(())
    }

    /// Counts a lease that [`Self::check`] let pass; its place in the log, if the queue has a rate.
    pub fn leased(&mut self, now: Timestamp) -> Option<Place> {
        self.settings.requests_per_minute.map(|_| self.leases.count(now))
    }

    /// Takes back a lease that was not given out after all.
    pub fn withdraw(&mut self, lease: Place) {
        self.leases.withdraw(lease);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + ms)
    }

    fn limits(concurrent: u32, requests_per_minute: u32) -> QueueSettings {
        let change = QueueChange {
            concurrent: Some(concurrent),
            requests_per_minute: Some(requests_per_minute),
            ..QueueChange::default()
        };
        QueueSettings::default().with(change)
    }

    #[test]
    fn a_change_leaves_the_rest_and_zero_removes_a_limit() {
        let settings = limits(3, 60);
        let paused = settings.with(QueueChange { paused: Some(true), ..QueueChange::default() });
        assert_eq!(paused, QueueSettings { paused: true, ..settings });
        let change =
            QueueChange { paused: Some(false), concurrent: Some(0), requests_per_minute: Some(0) };
        assert!(paused.with(change).is_default());
    }

    #[test]
    fn a_paused_queue_gives_no_lease_and_a_full_one_waits_for_an_end() {
        let mut throttle = Throttle::new(limits(2, 0));
        assert_eq!(throttle.check(1, at(0)), Ok(()));
        assert_eq!(throttle.check(2, at(0)), Err(Wait::Running));
        throttle.set(QueueSettings { paused: true, ..throttle.settings() });
        assert_eq!(throttle.check(0, at(0)), Err(Wait::Paused));
    }

    #[test]
    fn the_wait_for_the_rate_ends_when_the_oldest_lease_is_a_minute_old() {
        let mut throttle = Throttle::new(limits(0, 2));
        for ms in [0, 500] {
            assert_eq!(throttle.check(0, at(ms)), Ok(()));
            throttle.leased(at(ms));
        }
        assert_eq!(throttle.check(0, at(1_000)), Err(Wait::Rate(59)));
        assert_eq!(throttle.check(0, at(60_000)), Ok(()));
    }

    proptest! {
        #[test]
        fn no_minute_has_more_leases_than_the_limit_and_no_more_tasks_run(
            limit in 1_u32..5,
            concurrent in 1_u32..4,
            moves in prop::collection::vec((0_u64..20_000, any::<bool>()), 1..100),
        ) {
            let mut throttle = Throttle::new(limits(concurrent, limit));
            let (mut now, mut running, mut leases) = (0, 0_u32, Vec::new());
            for (wait, ends) in moves {
                now += wait;
                if ends {
                    running = running.saturating_sub(1);
                }
                if throttle.check(running, at(now)).is_ok() {
                    throttle.leased(at(now));
                    leases.push(now);
                    running += 1;
                }
                prop_assert!(running <= concurrent);
                let recent = leases.iter().filter(|lease| **lease + 60_000 > now).count();
                prop_assert!(recent <= limit as usize);
            }
        }
    }
}
