//! The life of a delivery: what somebody outside is to be told, until it was taken (PROTOCOL.md 6).
//!
//! ```text
//!             Sent
//!   Pending ─────────▶ Delivered
//!    ▲ │ ├── Failed, for good or once too often ─▶ Dead
//!    │ │ └── NotNeeded ─▶ Dropped
//!    └─┘
//!    Failed: again later
//! ```
//!
//! A delivery is made in the commit of what it tells of, and sent at least once: one that was under
//! way when the process died is sent again, under the same identifier, so that a receiver can drop
//! the second. Deliberately absent: what is written and how it travels, which is made anew for each
//! attempt.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::approval::Mail;
use crate::execution::clipped;
use crate::id::{DeliveryId, TaskId};
use crate::machine::{Machine, Step};
use crate::retry::Jitter;

/// How long a mail waits after each failed attempt; a fifth more or less.
const MAIL_WAITS: [Duration; 7] = [
    Duration::from_secs(10),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
    Duration::from_hours(12),
];

/// A delivery's snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// What is delivered; never changes.
    pub cargo: Cargo,
    /// How far it is.
    pub state: State,
    /// Attempts that were begun.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cargo {
    /// A mail to a reviewer.
    Mail(Mail),
}

impl Cargo {
    /// The delivery's identifier, the same for every attempt.
    #[must_use]
    pub const fn id(&self) -> DeliveryId {
        match self {
            Self::Mail(mail) => mail.id,
        }
    }

    /// The task that it is about.
    #[must_use]
    pub const fn task(&self) -> TaskId {
        match self {
            Self::Mail(mail) => mail.task,
        }
    }

    const fn waits(&self) -> &'static [Duration] {
        match self {
            Self::Mail(_) => &MAIL_WAITS,
        }
    }
}

/// How far a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is to be sent.
    Pending {
        /// The first instant of the next attempt, or of the one under way.
        next_attempt_at: Timestamp,
    },
    /// Final: it was taken.
    Delivered {
        /// When.
        at: Timestamp,
    },
    /// Final: it was refused for good, or too often.
    Dead {
        /// When.
        at: Timestamp,
    },
    /// Final: there was nothing to tell any more.
    Dropped {
        /// When.
        at: Timestamp,
    },
}

/// What happened to a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The clock passed the instant that it had asked to be woken at.
    TimePassed,
    /// The receiver took it.
    Sent,
    /// The receiver did not take it.
    Failed {
        /// Whether another attempt is in vain.
        permanent: bool,
        /// Why, for the operator.
        message: String,
        /// Chance, for the wait.
        jitter: Jitter,
    },
    /// What it tells of is over, or nobody is there to be told.
    NotNeeded,
}

/// What the runtime is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Wake the delivery now.
    Begin,
    /// Make an attempt, and report its result.
    Send,
    /// Wake it at this instant, instead of any instant asked for before.
    WakeAt(Timestamp),
    /// It need not be woken any more.
    ForgetWake,
}

/// Why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing is due.
    NotDue,
    /// It is over.
    Finished,
}

impl Delivery {
    /// A delivery whose first attempt is due at once.
    #[must_use]
    pub fn created(cargo: Cargo, now: Timestamp) -> Step<Self> {
        let state = State::Pending { next_attempt_at: now };
        Step::to(Self { cargo, state, attempts: 0, last_error: None }).order(Effect::Begin)
    }

    /// How long to wait after an attempt that failed; `None` if it was the last.
    fn wait(&self, jitter: Jitter) -> Option<Duration> {
        let failed = usize::try_from(self.attempts.saturating_sub(1)).unwrap_or(usize::MAX);
        let wait = *self.cargo.waits().get(failed)?;
        let spread = 80_000 + 40_000 * u32::from(jitter.0) / u32::from(u16::MAX);
        Some(wait * spread / 100_000)
    }

    fn ended(&self, state: State) -> Step<Self> {
        Step::to(Self { state, ..self.clone() }).order(Effect::ForgetWake)
    }
}

impl Machine for Delivery {
    type Event = Event;
    type Fact = Infallible;
    type Effect = Effect;
    type Refusal = Refusal;

    fn transition(&self, event: Event, now: Timestamp) -> Result<Step<Self>, Refusal> {
        use Event as E;
        use State as S;
        match (self.state, event) {
            (S::Pending { next_attempt_at }, E::TimePassed) if next_attempt_at <= now => {
                let attempts = self.attempts.saturating_add(1);
                Ok(Step::to(Self { attempts, ..self.clone() }).order(Effect::Send))
            }
            (S::Pending { .. }, E::TimePassed) => Err(Refusal::NotDue),
            (S::Pending { .. }, E::Sent) => Ok(self.ended(S::Delivered { at: now })),
            (S::Pending { .. }, E::NotNeeded) => Ok(self.ended(S::Dropped { at: now })),
            (S::Pending { .. }, E::Failed { permanent, message, jitter }) => {
                let last_error = Some(clipped(message));
                let failed = Self { last_error, ..self.clone() };
                match self.wait(jitter).filter(|_| !permanent) {
                    None => Ok(failed.ended(S::Dead { at: now })),
                    Some(wait) => {
                        let next_attempt_at = now.after(wait);
                        let state = S::Pending { next_attempt_at };
                        let step = Step::to(Self { state, ..failed });
                        Ok(step.order(Effect::WakeAt(next_attempt_at)))
                    }
                }
            }
            (
                S::Delivered { .. } | S::Dead { .. } | S::Dropped { .. },
                E::TimePassed | E::Sent | E::NotNeeded | E::Failed { .. },
            ) => Err(Refusal::Finished),
        }
    }

    /// An attempt that was under way is due again at once.
    fn outstanding(&self) -> Vec<Effect> {
        match self.state {
            State::Pending { next_attempt_at } => vec![Effect::WakeAt(next_attempt_at)],
            State::Delivered { .. } | State::Dead { .. } | State::Dropped { .. } => vec![],
        }
    }

    fn is_finished(&self) -> bool {
        match self.state {
            State::Pending { .. } => false,
            State::Delivered { .. } | State::Dead { .. } | State::Dropped { .. } => true,
        }
    }
}
