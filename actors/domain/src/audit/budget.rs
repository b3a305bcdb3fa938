//! The bound on entries about refused sign-ins, which any caller can cause.
//!
//! ```text
//!   refused ─▶ a slot is free ─▶ an entry of its own
//!          └─▶ none ─▶ counted; the next minute writes one entry for all of them
//! ```
//!
//! 100 slots at first, one more each minute: a flood of any size adds at most two entries a minute, 2,880 a day, about
//! 1 MB.

use crate::Timestamp;

/// The entries that may be written at once.
const BURST: u64 = 100;

const MINUTE: u64 = 60_000;

/// The slots that are left, and the refusals that found none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalBudget {
    slots: u64,
    refilled_at: Timestamp,
    suppressed: u64,
}

/// The fate of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The refusal gets an entry.
    Written,
    /// The refusal is counted.
    Counted,
}

impl Default for RefusalBudget {
    fn default() -> Self {
        Self { slots: BURST, refilled_at: Timestamp::default(), suppressed: 0 }
    }
}

impl RefusalBudget {
    /// Takes a slot for a refusal at `now`, or counts it.
    pub fn admit(&mut self, now: Timestamp) -> Refused {
        let minutes = now.as_millis().saturating_sub(self.refilled_at.as_millis()) / MINUTE;
        if minutes > 0 || now < self.refilled_at {
            self.slots = (self.slots + minutes).min(BURST);
            self.refilled_at = now;
        }
        if let Some(left) = self.slots.checked_sub(1) {
            self.slots = left;
            Refused::Written
        } else {
            self.suppressed = self.suppressed.saturating_add(1);
            Refused::Counted
        }
    }

    /// Takes the number of refusals that were only counted; `None` if there were none.
    pub fn take_suppressed(&mut self) -> Option<u64> {
        let suppressed = std::mem::take(&mut self.suppressed);
        (suppressed > 0).then_some(suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_writes_a_burst_then_one_a_minute_and_counts_the_rest() {
        let mut budget = RefusalBudget::default();
        let start = 1_800_000_000_000;
        let mut written = 0;
        for second in 0..600 {
            for _ in 0..100 {
                let at = Timestamp::from_millis(start + second * 1_000);
                written += u64::from(budget.admit(at) == Refused::Written);
            }
        }
        assert_eq!(written, BURST + 9);
        assert_eq!(budget.take_suppressed(), Some(60_000 - written));
        assert_eq!(budget.take_suppressed(), None);
    }

    #[test]
    fn a_quiet_time_fills_it_again_up_to_the_burst() {
        let mut budget = RefusalBudget::default();
        let at = |minutes: u64| Timestamp::from_millis(1_800_000_000_000 + minutes * MINUTE);
        let mut burst = |at| (0..1_000).filter(|_| budget.admit(at) == Refused::Written).count();
        assert_eq!([burst(at(0)), burst(at(0)), burst(at(3)), burst(at(9_000))], [100, 0, 3, 100]);
    }
}
