//! A model that a 429 or 529 closed: until when, and who tries first.

use super::NoRoom;
use crate::worker::Monotonic;

/// The first wait without a `Retry-After`, in milliseconds; doubled after each refused probe.
const FIRST_WAIT_MS: u64 = 1_000;
/// The longest wait without a `Retry-After`, in milliseconds.
const LONGEST_WAIT_MS: u64 = 60_000;

/// Whether calls may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Closure {
    /// They may.
    #[default]
    Open,
    /// None may until then; after that, one.
    Closed {
        /// The end of the closure.
        until: Monotonic,
        /// The refusals in a row: the first, and those of probes.
        refusals: u32,
    },
    /// One is in flight, and decides.
    Probing {
        /// As above.
        refusals: u32,
    },
}

impl Closure {
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Open)
    }

    /// The end of a closure, also if it has passed.
    pub(super) const fn until(self) -> Option<Monotonic> {
        match self {
            Self::Closed { until, .. } => Some(until),
            Self::Open | Self::Probing { .. } => None,
        }
    }

    pub(super) fn admit(self, now: Monotonic) -> Result<(), NoRoom> {
        match self {
            Self::Closed { until, .. } if until > now => Err(NoRoom { until: Some(until) }),
            Self::Probing { .. } => Err(NoRoom { until: None }),
            Self::Open | Self::Closed { .. } => Ok(()),
        }
    }

    /// A call begins; true if it is the probe.
    pub(super) fn begin(&mut self) -> bool {
        let Self::Closed { refusals, .. } = *self else { return false };
        *self = Self::Probing { refusals };
        true
    }

    pub(super) fn close_until(&mut self, until: Monotonic) {
        *self = Self::Closed { until, refusals: 1 };
    }

    /// A call was refused; true if that closed the model, or moved the end of its closure.
    pub(super) fn refused(
        &mut self,
        is_probe: bool,
        retry_after_ms: Option<u64>,
        now: Monotonic,
    ) -> bool {
        let asked = retry_after_ms.map(|wait| Monotonic(now.0.saturating_add(wait)));
        match *self {
            Self::Open => self.close(0, asked, now),
            Self::Probing { refusals } if is_probe => self.close(refusals, asked, now),
            // A call that began before the closure: it moves the end only by what it asks for.
            Self::Closed { until, refusals } => match asked.filter(|asked| *asked > until) {
                Some(until) => {
                    *self = Self::Closed { until, refusals };
                    true
                }
                None => false,
            },
            Self::Probing { .. } => false,
        }
    }

    fn close(&mut self, refusals: u32, asked: Option<Monotonic>, now: Monotonic) -> bool {
        let doubled = FIRST_WAIT_MS.saturating_mul(1 << refusals.min(16)).min(LONGEST_WAIT_MS);
        let until = asked.unwrap_or(Monotonic(now.0.saturating_add(doubled)));
        *self = Self::Closed { until, refusals: refusals.saturating_add(1) };
        true
    }

    /// The probe passed.
    pub(super) fn reopen(&mut self) {
        *self = Self::Open;
    }

    /// The probe's end is not known: another call may be the probe at once.
    pub(super) fn probe_lost(&mut self) {
        if let Self::Probing { refusals } = *self {
            *self = Self::Closed { until: Monotonic::default(), refusals };
        }
    }
}
