//! The instants at which items are woken, in few bytes: every waiting item has an entry here.

use std::collections::BTreeSet;

use callboard_domain::Timestamp;
use foldhash::HashMap;

use super::TimerKey;

/// The instants at which items are woken.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    order: BTreeSet<(Instant, TimerKey)>,
    instants: HashMap<TimerKey, Instant>,
}

/// A timestamp in six bytes, which stands beside a key without padding. Sorts as timestamps do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Instant([u8; 6]);

impl From<Timestamp> for Instant {
    fn from(at: Timestamp) -> Self {
        // No timestamp is greater than the last of the year 9999, which fits.
        let [_, _, bytes @ ..] = at.as_millis().to_be_bytes();
        Self(bytes)
    }
}

impl From<Instant> for Timestamp {
    fn from(at: Instant) -> Self {
        let mut bytes = [0; 8];
        bytes[2..].copy_from_slice(&at.0);
        Self::from_millis(u64::from_be_bytes(bytes))
    }
}

impl Deadlines {
    /// Sets the wake-up of a key to this instant, in place of any earlier named one.
    pub(super) fn set(&mut self, key: TimerKey, at: Timestamp) {
        let at = at.into();
        if let Some(earlier) = self.instants.insert(key, at) {
            self.order.remove(&(earlier, key));
        }
        self.order.insert((at, key));
    }

    /// Cancels the wake-up of a key.
    pub(super) fn forget(&mut self, key: TimerKey) {
        if let Some(at) = self.instants.remove(&key) {
            self.order.remove(&(at, key));
        }
    }

    /// Takes out the first key that is to be woken by now.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<TimerKey> {
        let (at, key) = *self.order.first()?;
        if Timestamp::from(at) > now {
            return None;
        }
        self.forget(key);
        Some(key)
    }

    /// The first wake-up.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(at, _)| (*at).into())
    }

    /// The number of items that are to be woken.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.instants.len()
    }
}

#[cfg(test)]
mod tests {

    use callboard_domain::id::{Environment, TaskId};

    use super::*;
    use crate::kernel::address::TaskAddress;

    fn task(number: u128) -> TimerKey {
        let task = TaskId::from_u128(number);
        TimerKey::Task(TaskAddress { environment: Environment::LIVE, task })
    }

    #[test]
    fn the_instant_named_last_counts_and_what_is_due_comes_in_order() {
        let mut deadlines = Deadlines::default();
        deadlines.set(task(1), Timestamp::from_millis(50));
        deadlines.set(task(2), Timestamp::from_millis(20));
        deadlines.set(task(3), Timestamp::from_millis(10));
        deadlines.set(task(1), Timestamp::from_millis(15));
        deadlines.forget(task(3));
        assert_eq!(deadlines.due(Timestamp::from_millis(14)), None);
        assert_eq!(deadlines.due(Timestamp::from_millis(30)), Some(task(1)));
        assert_eq!(deadlines.due(Timestamp::from_millis(30)), Some(task(2)));
        assert_eq!((deadlines.due(Timestamp::MAX), deadlines.next()), (None, None));
    }

    #[test]
    fn instants_come_back_and_sort_as_they_are() {
        let millis = [0, 1, 255, 256, 1 << 32, 1_700_000_000_123];
        let instants = millis.map(Timestamp::from_millis).into_iter().chain([Timestamp::MAX]);
        let packed: Vec<Instant> = instants.clone().map(Instant::from).collect();
        assert!(packed.is_sorted());
        assert!(packed.into_iter().map(Timestamp::from).eq(instants));
        assert_eq!(size_of::<(Instant, TimerKey)>(), 24);
    }
}
