//! The wait before the next try to connect. Pure: the randomness is an argument.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(10);

/// The state of the backoff: waits double from 100 ms to 10 s.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// The next wait. `random` in 0..1 shortens it by up to a half, so that the workers of a server
    /// that comes back do not all come at once.
    pub(super) fn next(&mut self, random: f64) -> Duration {
        let whole = FIRST.saturating_mul(2_u32.saturating_pow(self.tries)).min(LONGEST);
        self.tries = self.tries.saturating_add(1);
        whole.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
    }

    /// Notes a connection that worked: the next wait is short again.
    pub(super) fn reset(&mut self) {
        self.tries = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_ten_seconds_and_start_over_after_a_connection() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..9).map(|_| backoff.next(0.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        backoff.reset();
        assert_eq!(backoff.next(1.0), Duration::from_millis(50));
        backoff.tries = u32::MAX;
        assert_eq!(backoff.next(0.5), Duration::from_millis(7500));
    }
}
