//! Signals for wait steps, kept by the execution until its steps have used them.
//!
//! ```text
//!   signal ─▶ steps of its name:  Waiting, Ready ─▶ kept in the row, used when the wait begins
//!                                 Awaiting       ─▶ Completed, the payload is the output
//! ```
//!
//! One signal per name, which every wait of the name uses.

use serde::{Deserialize, Serialize};

use super::step::Stage;
use super::{Execution, Refusal, State};
use crate::Timestamp;
use crate::graph::StepSet;
use crate::id::SignalId;

/// The longest payload of a signal, as compact JSON, in bytes.
pub const MAX_PAYLOAD: usize = 256 << 10;

/// A signal that an execution has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// The identifier, under which the payload is stored.
    pub id: SignalId,
    /// The instant of the signal's acceptance.
    pub at: Timestamp,
}

/// A signal that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The steps that wait for signals of this name.
    pub steps: StepSet,
    /// The signal.
    pub signal: Signal,
    /// True if the signal takes the place of a kept one that no step has used.
    pub replace: bool,
}

impl Signal {
    /// The most bytes of the signal's JSON: `{"id":"dt_sig_…","at":…}`.
    pub(super) const JSON_BOUND: usize = 48 + 20;
}

impl Execution {
    /// The reason why a signal changes nothing; `None` if the signal is accepted.
    pub(super) fn refuses(&self, sent: &Sent) -> Option<Refusal> {
        let rows = || sent.steps.iter().filter_map(|step| self.step(step));
        let kept = || rows().filter_map(|row| row.signal.as_deref());
        if self.head.state.ended_at().is_some() {
            return Some(Refusal::Finished(self.status()));
        }
        let is_used = rows().any(|row| row.signal.is_some() && row.stage == Stage::Completed);
        if is_used || (kept().next().is_some() && !sent.replace) {
            return Some(Refusal::Signalled);
        }
        let is_open = rows().any(|row| row.stage.is_open());
        (!is_open).then_some(Refusal::WaitOver)
    }

    /// The identifier of the kept signal of these steps, which a signal in its place takes over, so
    /// that its payload takes the place of the old one.
    #[must_use]
    pub fn kept_signal(&self, steps: StepSet) -> Option<SignalId> {
        steps
            .iter()
            .filter_map(|step| self.step(step)?.signal.as_ref())
            .map(|signal| signal.id)
            .next()
    }

    /// The instant at which the execution is to be woken: its beginning, its deadline, or the first
    /// end of a wait.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        match self.head.state {
            State::Scheduled { at } => Some(at),
            State::Running => self.waits_until().into_iter().chain(self.head.deadline).min(),
            State::Completed { .. } | State::Failed { .. } | State::Cancelled { .. } => None,
        }
    }

    /// The first end of a wait.
    #[must_use]
    pub fn waits_until(&self) -> Option<Timestamp> {
        let waits = self.tally.at(Stage::Awaiting).iter();
        waits.filter_map(|step| self.step(step)?.until).min()
    }

    /// True if steps wait for signals and nothing else is under way: then no actor is needed.
    #[must_use]
    pub fn only_awaits(&self) -> bool {
        !self.tally.at(Stage::Awaiting).is_empty() && self.tally.at(Stage::Dispatched).is_empty()
    }

    /// The steps whose wait is over by now.
    pub(super) fn overdue(&self, now: Timestamp) -> StepSet {
        let is_over = |step: &u16| {
            self.step(*step).and_then(|row| row.until).is_some_and(|until| until <= now)
        };
        self.tally.at(Stage::Awaiting).iter().filter(is_over).collect()
    }
}
