//! The cooldown of a model after a 429, a 529 or an outage: its end, and the calls that try it afterwards.
//!
//! ```text
//!   Inactive ── refused ──▶ Active until an instant ── one call begins ──▶ Opening
//!      ▲                      ▲                                              │
//!      │                      └───────────── refused ────────────────────────┤
//!      └── so many calls were answered, or a minute passed since the first ◀─┘
//! ```
//!
//! A model that opens takes one call at a time, then two, four and so on, so that a crowd that waited does not meet
//! the provider at once. A worker whose key is bound to queues closes the model for these queues alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Closure, NoRoom};
use crate::worker::Monotonic;

/// The first wait without a `Retry-After`, in milliseconds; doubled after each refused probe.
const FIRST_WAIT_MS: u64 = 1_000;
/// The longest wait without a `Retry-After`, in milliseconds.
const LONGEST_WAIT_MS: u64 = 60_000;
/// The longest wait at all, in milliseconds: any worker may name any time, and a probe finds out.
pub const LONGEST_PAUSE_MS: u64 = 300_000;
/// The number of calls at a time from which on a model is open.
const OPEN: u32 = 64;
/// The time for which a model opens.
const OPENING: Duration = Duration::from_mins(1);

/// The cooldowns of a model: for every queue, and for single ones.
#[derive(Debug, Clone, Default)]
pub(super) struct Cooldowns {
    all: Cooldown,
    of_queues: BTreeMap<Arc<str>, Cooldown>,
}

/// A call that tries a model which was closed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tries {
    all: Option<u32>,
    of_queue: Option<(Arc<str>, u32)>,
}

impl Cooldowns {
    pub(super) fn is_inactive(&self) -> bool {
        self.all.state == State::Inactive && self.of_queues.is_empty()
    }

    /// True while calls for tasks of the queue may be kept from beginning.
    pub(super) fn is_active(&self, queue: &str) -> bool {
        let own = self.of_queues.get(queue).is_some_and(|own| own.state != State::Inactive);
        own || self.all.state != State::Inactive
    }

    /// The end of the closure for every queue, also if it has passed.
    pub(super) const fn until(&self) -> Option<Monotonic> {
        self.all.until()
    }

    /// The reason of that closure.
    pub(super) const fn cause(&self) -> Option<Closure> {
        match self.all.state {
            State::Active { cause, .. } => Some(cause),
            State::Inactive | State::Opening { .. } => None,
        }
    }

    /// The queues for which alone the model is closed, each with the end.
    pub(super) fn closed_queues(&self) -> impl Iterator<Item = (&Arc<str>, Monotonic)> {
        self.of_queues.iter().filter_map(|(queue, own)| Some((queue, own.until()?)))
    }

    pub(super) fn admit(&mut self, queue: &str, now: Monotonic) -> Result<(), NoRoom> {
        self.all.admit(now)?;
        let Some(own) = self.of_queues.get_mut(queue) else { return Ok(()) };
        own.admit(now)?;
        if own.state == State::Inactive {
            self.of_queues.remove(queue);
        }
        Ok(())
    }

    /// A call begins.
    pub(super) fn begin(&mut self, queue: &str) -> Tries {
        let own = self.of_queues.get_key_value(queue).map(|(queue, _)| Arc::clone(queue));
        let tried = own.and_then(|queue| {
            let round = self.of_queues.get_mut(&queue)?.begin()?;
            Some((queue, round))
        });
        Tries { all: self.all.begin(), of_queue: tried }
    }

    pub(super) fn start_until(&mut self, until: Monotonic, cause: Closure) {
        self.all.state = State::Active { until, refusals: 1, cause };
    }

    /// A call was refused, whose worker's key is bound to `queues`, if there are any; true if that began the cooldown
    /// of every queue, or moved its end.
    pub(super) fn refused(
        &mut self,
        tries: &Tries,
        queues: &[String],
        (cause, retry_after_ms): (Closure, Option<u64>),
        now: Monotonic,
    ) -> bool {
        let asked =
            retry_after_ms.map(|wait| Monotonic(now.0.saturating_add(wait.min(LONGEST_PAUSE_MS))));
        if queues.is_empty() {
            self.lost_of_queue(tries);
            return self.all.refused(tries.all, (cause, asked), now);
        }
        self.all.lost(tries.all);
        for queue in queues {
            let round = tries.of_queue.as_ref().filter(|(own, _)| **own == **queue);
            let own = self.of_queues.entry(queue.as_str().into()).or_default();
            own.refused(round.map(|(_, round)| *round), (cause, asked), now);
        }
        false
    }

    /// A call was answered.
    pub(super) fn answered(&mut self, tries: &Tries, now: Monotonic) {
        self.all.answered(tries.all, now);
        if let Some((queue, round)) = &tries.of_queue
            && let Some(own) = self.of_queues.get_mut(queue)
        {
            own.answered(Some(*round), now);
            if own.state == State::Inactive {
                self.of_queues.remove(queue);
            }
        }
    }

    /// The end of a call is not known: another one may try at once.
    pub(super) fn lost(&mut self, tries: &Tries) {
        self.all.lost(tries.all);
        self.lost_of_queue(tries);
    }

    fn lost_of_queue(&mut self, tries: &Tries) {
        if let Some((queue, round)) = &tries.of_queue
            && let Some(own) = self.of_queues.get_mut(queue)
        {
            own.lost(Some(*round));
        }
    }
}

/// One cooldown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Cooldown {
    state: State,
    /// The number of times that it began: calls of an earlier time count no more.
    round: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Calls may begin.
    #[default]
    Inactive,
    /// No call may begin before the end; after it, one may.
    Active {
        /// The end.
        until: Monotonic,
        /// The refusals in a row: the first, and those of first calls after a closure.
        refusals: u32,
        /// The reason of the last one.
        cause: Closure,
    },
    /// Some calls may be in flight at a time, and each that is answered makes room for one more.
    Opening {
        most: u32,
        in_flight: u32,
        /// The refusals in a row.
        refusals: u32,
        /// The instant from which on the model is open, once a call was answered.
        ends: Option<Monotonic>,
    },
}

impl Cooldown {
    const fn until(self) -> Option<Monotonic> {
        match self.state {
            State::Active { until, .. } => Some(until),
            State::Inactive | State::Opening { .. } => None,
        }
    }

    fn admit(&mut self, now: Monotonic) -> Result<(), NoRoom> {
        match self.state {
            State::Active { until, .. } if until > now => Err(NoRoom { until: Some(until) }),
            State::Opening { ends: Some(ends), .. } if ends <= now => {
                self.state = State::Inactive;
                Ok(())
            }
            State::Opening { most, in_flight, ends, .. } if in_flight >= most => {
                Err(NoRoom { until: ends })
            }
            State::Inactive | State::Active { .. } | State::Opening { .. } => Ok(()),
        }
    }

    /// A call begins; the round in which it tries a model that opens.
    fn begin(&mut self) -> Option<u32> {
        match &mut self.state {
            State::Inactive => return None,
            State::Active { refusals, .. } => {
                let refusals = *refusals;
                self.state = State::Opening { most: 1, in_flight: 1, refusals, ends: None };
            }
            State::Opening { in_flight, .. } => *in_flight += 1,
        }
        Some(self.round)
    }

    /// A call was refused; true if that began the cooldown, or moved its end.
    fn refused(
        &mut self,
        round: Option<u32>,
        (cause, asked): (Closure, Option<Monotonic>),
        now: Monotonic,
    ) -> bool {
        match self.state {
            State::Inactive => self.start(0, (cause, asked), now),
            State::Opening { refusals, .. } if round == Some(self.round) => {
                self.start(refusals, (cause, asked), now)
            }
            // A call that began before the cooldown moves the end only by its own `Retry-After`.
            State::Active { until, refusals, .. } => match asked.filter(|asked| *asked > until) {
                Some(until) => {
                    self.state = State::Active { until, refusals, cause };
                    true
                }
                None => false,
            },
            State::Opening { .. } => false,
        }
    }

    fn start(
        &mut self,
        refusals: u32,
        (cause, asked): (Closure, Option<Monotonic>),
        now: Monotonic,
    ) -> bool {
        let doubled = FIRST_WAIT_MS.saturating_mul(1 << refusals.min(16)).min(LONGEST_WAIT_MS);
        let until = asked.unwrap_or(Monotonic(now.0.saturating_add(doubled)));
        self.state = State::Active { until, refusals: refusals.saturating_add(1), cause };
        self.round = self.round.wrapping_add(1);
        true
    }

    fn answered(&mut self, round: Option<u32>, now: Monotonic) {
        if let State::Opening { most, in_flight, refusals, ends } = &mut self.state
            && round == Some(self.round)
        {
            *in_flight = in_flight.saturating_sub(1);
            *most += 1;
            *refusals = 0;
            let ends = *ends.get_or_insert(now.after(OPENING));
            if *most >= OPEN || ends <= now {
                self.state = State::Inactive;
            }
        }
    }

    fn lost(&mut self, round: Option<u32>) {
        if let State::Opening { in_flight, .. } = &mut self.state
            && round == Some(self.round)
        {
            *in_flight = in_flight.saturating_sub(1);
        }
    }
}
