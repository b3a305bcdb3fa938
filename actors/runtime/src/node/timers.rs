//! One shard's timers: the wake-ups of tasks, executions, approvals, deliveries and schedules.
//!
//! The instants of timetables are of the wall clock, which may jump, and all others are of the process; the timers
//! look at both at least once a second while something is to be woken. They are rebuilt from the unfinished items.
//! Deliberately absent: the reaction at the instant. The woken actor decides.

mod deadlines;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::Timestamp;
use tokio::sync::Notify;

use crate::kernel::address::{DeliveryAddress, ExecutionAddress, ScheduleAddress, TaskAddress};
use crate::kernel::ports::Clock;

use deadlines::Deadlines;

const LONGEST_NAP: Duration = Duration::from_secs(1);

/// The actor to wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TimerKey {
    Task(TaskAddress),
    Execution(ExecutionAddress),
    Approval(TaskAddress),
    Delivery(DeliveryAddress),
    Schedule(ScheduleAddress),
}

impl TimerKey {
    /// True if the instant is of the wall clock.
    const fn is_by_wall(self) -> bool {
        matches!(self, Self::Schedule(_))
    }
}

/// The wake-ups of a shard.
pub(crate) struct Timers {
    clock: Arc<dyn Clock>,
    planned: Mutex<Planned>,
    /// Told when the clock is to be looked at earlier than planned.
    earlier: Notify,
}

#[derive(Default)]
struct Planned {
    /// The state is whole: items may be woken.
    begun: bool,
    deadlines: Deadlines,
    /// The occurrences of schedules, by the wall clock.
    occurrences: Deadlines,
    /// The next look at the clock; `None` while nothing is to be woken.
    next_look: Option<Timestamp>,
}

impl Planned {
    fn of(&mut self, key: TimerKey) -> &mut Deadlines {
        if key.is_by_wall() { &mut self.occurrences } else { &mut self.deadlines }
    }
}

impl Timers {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, planned: Mutex::default(), earlier: Notify::new() }
    }

    fn planned(&self) -> MutexGuard<'_, Planned> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the item at this instant, and not at any earlier named one.
    pub(crate) fn set(&self, key: TimerKey, at: Timestamp) {
        let mut planned = self.planned();
        planned.of(key).set(key, at);
        let at =
            if key.is_by_wall() { self.clock.now().after(at.since(self.clock.wall())) } else { at };
        if planned.begun && planned.next_look.is_none_or(|look| at < look) {
            planned.next_look = Some(at);
            drop(planned);
            self.earlier.notify_one();
        }
    }

    /// The item need not be woken.
    pub(crate) fn forget(&self, key: TimerKey) {
        self.planned().of(key).forget(key);
    }

    /// Wakes items from now on.
    pub(crate) fn begin(&self) {
        self.planned().begun = true;
        self.earlier.notify_one();
    }

    /// Waits until the clock is to be looked at.
    pub(crate) async fn next_look(&self) {
        match self.nap() {
            // It is looked at early at worst.
            Some(nap) => drop(tokio::time::timeout(nap, self.earlier.notified()).await),
            None => self.earlier.notified().await,
        }
    }

    /// The time until the next look at the clock; `None` if nothing is to be woken.
    fn nap(&self) -> Option<Duration> {
        let mut planned = self.planned();
        let now = self.clock.now();
        let deadline = planned.deadlines.next().map(|at| at.since(now));
        let occurrence = planned.occurrences.next().map(|at| at.since(self.clock.wall()));
        let wait = deadline.into_iter().chain(occurrence).min().filter(|_| planned.begun);
        let nap = wait.map(|wait| wait.min(LONGEST_NAP));
        planned.next_look = nap.map(|nap| now.after(nap));
        nap
    }

    /// Takes out an item that is to be woken by now.
    pub(crate) fn due(&self) -> Option<TimerKey> {
        let mut planned = self.planned();
        if !planned.begun {
            return None;
        }
        let due = planned.deadlines.due(self.clock.now());
        due.or_else(|| planned.occurrences.due(self.clock.wall()))
    }

    /// The number of items that are to be woken.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        let planned = self.planned();
        planned.deadlines.len() + planned.occurrences.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use callboard_domain::id::{Environment, TaskId};
    use tokio::time::Instant;

    use super::*;
    use crate::tests::TestClock;

    fn task(number: u128) -> TimerKey {
        let task = TaskId::from_u128(number);
        TimerKey::Task(TaskAddress { environment: Environment::LIVE, task })
    }

    /// The number of milliseconds after which the next item is woken, and the item.
    async fn woken(timers: &Timers, since: Instant) -> (u128, TimerKey) {
        loop {
            timers.next_look().await;
            if let Some(key) = timers.due() {
                return (since.elapsed().as_millis(), key);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_due_before_the_beginning_and_an_earlier_wake_up_is_not_slept_through() {
        let start = Instant::now();
        let clock = TestClock { started: start, wall: Arc::new(AtomicU64::new(1_000)) };
        let timers = Arc::new(Timers::new(Arc::new(clock)));
        timers.set(task(1), Timestamp::from_millis(900));
        assert_eq!((timers.due(), timers.nap()), (None, None));
        timers.begin();
        assert_eq!(woken(&timers, start).await, (0, task(1)));

        timers.set(task(2), Timestamp::from_millis(6_500));
        timers.set(task(3), Timestamp::from_millis(4_000));
        let later = Arc::clone(&timers);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            later.set(task(4), Timestamp::from_millis(1_250));
            later.forget(task(3));
        });
        assert_eq!(woken(&timers, start).await, (250, task(4)));
        assert_eq!(woken(&timers, start).await, (5_500, task(2)));
        assert_eq!((timers.count(), timers.nap()), (0, None));
    }
}
