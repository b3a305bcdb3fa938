//! The cooldown of a model after a 429 or 529: its end, and the probe that ends it early or renews it.

use super::NoRoom;
use crate::worker::Monotonic;

/// The first wait without a `Retry-After`, in milliseconds; doubled after each refused probe.
const FIRST_WAIT_MS: u64 = 1_000;
/// The longest wait without a `Retry-After`, in milliseconds.
const LONGEST_WAIT_MS: u64 = 60_000;

/// The cooldown of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Cooldown {
    /// Calls may begin.
    #[default]
    Inactive,
    /// No call may begin before the end; after it, one may.
    Active {
        /// The end.
        until: Monotonic,
        /// The refusals in a row: the first, and those of probes.
        refusals: u32,
    },
    /// A probe is in flight, and decides.
    Probing {
        /// The refusals in a row.
        refusals: u32,
    },
}

impl Cooldown {
    pub(super) const fn is_inactive(self) -> bool {
        matches!(self, Self::Inactive)
    }

    /// The end, also if it has passed.
    pub(super) const fn until(self) -> Option<Monotonic> {
        match self {
            Self::Active { until, .. } => Some(until),
            Self::Inactive | Self::Probing { .. } => None,
        }
    }

    pub(super) fn admit(self, now: Monotonic) -> Result<(), NoRoom> {
        match self {
            Self::Active { until, .. } if until > now => Err(NoRoom { until: Some(until) }),
            Self::Probing { .. } => Err(NoRoom { until: None }),
            Self::Inactive | Self::Active { .. } => Ok(()),
        }
    }

    /// A call begins; true if it is the probe.
    pub(super) fn begin(&mut self) -> bool {
        let Self::Active { refusals, .. } = *self else { return false };
        *self = Self::Probing { refusals };
        true
    }

    pub(super) fn start_until(&mut self, until: Monotonic) {
        *self = Self::Active { until, refusals: 1 };
    }

    /// A call was refused; true if that began the cooldown, or moved its end.
    pub(super) fn refused(
        &mut self,
        is_probe: bool,
        retry_after_ms: Option<u64>,
        now: Monotonic,
    ) -> bool {
        let asked = retry_after_ms.map(|wait| Monotonic(now.0.saturating_add(wait)));
        match *self {
            Self::Inactive => self.start(0, asked, now),
            Self::Probing { refusals } if is_probe => self.start(refusals, asked, now),
            // A call that began before the cooldown moves the end only by its own `Retry-After`.
            Self::Active { until, refusals } => match asked.filter(|asked| *asked > until) {
                Some(until) => {
                    *self = Self::Active { until, refusals };
                    true
                }
                None => false,
            },
            Self::Probing { .. } => false,
        }
    }

    fn start(&mut self, refusals: u32, asked: Option<Monotonic>, now: Monotonic) -> bool {
        let doubled = FIRST_WAIT_MS.saturating_mul(1 << refusals.min(16)).min(LONGEST_WAIT_MS);
        let until = asked.unwrap_or(Monotonic(now.0.saturating_add(doubled)));
        *self = Self::Active { until, refusals: refusals.saturating_add(1) };
        true
    }

    /// The probe passed.
    pub(super) fn end(&mut self) {
        *self = Self::Inactive;
    }

    /// The probe's end is not known: another call may be the probe at once.
    pub(super) fn probe_lost(&mut self) {
        if let Self::Probing { refusals } = *self {
            *self = Self::Active { until: Monotonic::default(), refusals };
        }
    }
}
