//! Retries of a failed attempt: their number, and the backoff before each (docs/reference/tasks.md).
//!
//! Deliberately absent: randomness. The jitter is an argument.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest backoff, unless the provider asks for more.
pub const MAX_BACKOFF: Duration = Duration::from_millis(MAX_BACKOFF_MS);

/// The longest `Retry-After` of a provider that is honoured; a longer one is cut to this.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// The time for which an outage of its provider uses up no attempt of a task, unless the settings say otherwise.
pub const OUTAGE_PATIENCE: Duration = Duration::from_hours(1);

/// The number of lost workers with which a task fails (`WORKER_LOST`).
pub const MAX_LOSSES: u32 = 5;

/// The number of attempts, and the backoff between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The number of attempts, the first included; at least 1.
    pub max_attempts: u32,
    /// The wait after the first failure, in milliseconds; doubled after each further one.
    pub backoff_ms: u64,
    /// The longest of these waits, in milliseconds; at most [`MAX_BACKOFF`].
    #[serde(default = "longest", skip_serializing_if = "is_longest")]
    pub max_backoff_ms: u64,
}

/// [`MAX_BACKOFF`] in milliseconds.
pub const MAX_BACKOFF_MS: u64 = 300_000;

const fn longest() -> u64 {
    MAX_BACKOFF_MS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_longest(max_backoff_ms: &u64) -> bool {
    *max_backoff_ms == MAX_BACKOFF_MS
}

impl Default for Policy {
    fn default() -> Self {
        Self { max_attempts: 3, backoff_ms: 1000, max_backoff_ms: MAX_BACKOFF_MS }
    }
}

/// A random number, evenly spread over its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter(pub u16);

impl Policy {
    /// True for the default policy, which rows leave out.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The wait before the attempt after `attempt` (counted from 1); `None` after the last attempt.
    ///
    /// `backoff_ms × 2^(attempt-1)`, times 0.75 to 1.25, at most `max_backoff_ms`, but never shorter than
    /// the provider's `Retry-After` (`asked`).
    #[must_use]
    pub fn wait(&self, attempt: u32, asked: Option<Duration>, jitter: Jitter) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let doublings = attempt.saturating_sub(1).min(32);
        let base = u128::from(self.backoff_ms) << doublings;
        let spread = 75_000 + 50_000 * u128::from(jitter.0) / u128::from(u16::MAX);
        let millis = (base * spread / 100_000).min(u128::from(self.max_backoff_ms));
        let backoff = Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX));
        Some(backoff.max(asked.unwrap_or_default().min(MAX_RETRY_AFTER)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIDDLE: Jitter = Jitter(u16::MAX / 2 + 1);

    #[test]
    fn the_wait_doubles_and_ends_with_the_attempts() {
        let policy = Policy::default();
        assert_eq!(policy.wait(1, None, MIDDLE), Some(Duration::from_secs(1)));
        assert_eq!(policy.wait(2, None, MIDDLE), Some(Duration::from_secs(2)));
        assert_eq!(policy.wait(3, None, MIDDLE), None);
    }

    #[test]
    fn a_longer_wait_that_the_provider_asked_for_is_honoured() {
        let asked = Some(Duration::from_mins(10));
        assert_eq!(Policy::default().wait(1, asked, MIDDLE), asked);
        let policy = Policy { max_backoff_ms: 1_500, ..Policy::default() };
        assert_eq!(policy.wait(2, None, MIDDLE), Some(Duration::from_millis(1_500)));
        assert_eq!(policy.wait(1, asked, MIDDLE), asked);
        let less = Some(Duration::from_millis(10));
        assert_eq!(Policy::default().wait(1, less, MIDDLE), Some(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn backoff_stays_within_a_quarter_of_its_middle_and_under_five_minutes(
            attempt in 1_u32..1000, backoff_ms: u64, jitter: u16,
        ) {
            let policy = Policy { max_attempts: u32::MAX, backoff_ms, ..Policy::default() };
            let wait = policy.wait(attempt, None, Jitter(jitter)).expect("attempts remain");
            prop_assert!(wait <= MAX_BACKOFF);
            let middle = u128::from(backoff_ms) << (attempt - 1).min(32);
            prop_assert!(wait.as_millis() <= middle * 5 / 4);
            prop_assert!(wait.as_millis() >= (middle * 3 / 4).min(MAX_BACKOFF.as_millis()));
        }
    }
}
