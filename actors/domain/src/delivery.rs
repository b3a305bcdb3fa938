//! The life of a delivery: a message to a receiver outside, until the receiver took it
//! (docs/reference/webhooks.md).
//!
//! ```text
//!             Sent
//!   Pending ─────────▶ Delivered
//!    ▲ │ ├── Failed, for good or once too often ─▶ Dead
//!    │ │ └── NotNeeded ─▶ Dropped
//!    └─┘
//!    Failed: again later
//!
//!   Delivered, Dead, Dropped ── Redelivered ──▶ Pending, with the whole schedule before it
//!   Pending between attempts ── Redelivered ──▶ Pending, due at once
//! ```
//!
//! A delivery is made in the commit of the change that it reports, and sent at least once: one that was
//! under way when the process died is sent again, under the same identifier, so that a receiver can
//! drop the second. Deliberately absent: its text and its transport, which are made anew for each
//! attempt.

mod notification;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

pub use notification::{ExecutionWebhook, KeyEnd, Notification, Subject, Webhook};

use crate::Timestamp;
use crate::event::EventName;
use crate::execution::clipped;
use crate::machine::{Machine, Step};
use crate::names::names;
use crate::retry::{Jitter, MAX_RETRY_AFTER};

/// The waits of a mail after each failed attempt; the jitter adds or takes up to a fifth.
pub const MAIL_WAITS: [Duration; 7] = [
    Duration::from_secs(10),
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(6),
    Duration::from_hours(12),
];

/// The events and waits of all webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookPolicy {
    /// The ends of a task that are announced.
    pub events: Vec<EventName>,
    /// The wait after each failed attempt, a fifth more or less: one attempt more than waits.
    pub waits: Arc<[Duration]>,
}

/// The ends of a task, of which `[webhooks] events` lists some.
pub const TASK_ENDS: [EventName; 4] = [
    EventName::TaskCompleted,
    EventName::TaskFailed,
    EventName::TaskCancelled,
    EventName::TaskRejected,
];

/// A delivery's snapshot.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The message; never changes.
    #[serde(rename = "cargo")]
    pub notification: Notification,
    /// The state.
    pub state: State,
    /// Attempts that were begun.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// The reason of the last failed attempt.
    pub last_error: Option<String>,
    /// The HTTP status that the last attempt was answered with; `None` if there was no answer.
    pub last_status: Option<u16>,
    /// The attempts before the last redelivery, which begins the schedule anew.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub attempts_before: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The message is to be sent.
    Pending {
        /// The first instant of the next attempt, or of the one under way.
        next_attempt_at: Timestamp,
    },
    /// Final: the receiver took the message.
    Delivered {
        /// The instant.
        at: Timestamp,
    },
    /// Final: the receiver refused the message for good, or too often.
    Dead {
        /// The instant.
        at: Timestamp,
    },
    /// Final: the message was no longer needed.
    Dropped {
        /// The instant.
        at: Timestamp,
    },
}

names! {
    /// The status of a delivery on the wire.
    Status {
        /// The message is to be sent.
        Pending = "pending",
        /// The receiver took the message.
        Delivered = "delivered",
        /// The receiver refused the message for good, or too often.
        Dead = "dead",
        /// The message was no longer needed.
        Dropped = "dropped",
    }
}

/// An event of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The clock passed the instant that the delivery had asked to be woken at.
    TimePassed,
    /// The receiver took the message.
    Sent {
        /// The status of the answer, if it was one of HTTP.
        status: Option<u16>,
    },
    /// The receiver did not take the message.
    Failed {
        /// The reason, and the wait that the receiver asks for.
        failure: Failure,
        /// The wait after each failed attempt.
        waits: Arc<[Duration]>,
        /// Chance, for the wait.
        jitter: Jitter,
    },
    /// The reported matter is over, or it has no receiver any more.
    NotNeeded {
        /// The reason, for the operator.
        message: String,
    },
    /// An operator wants the message sent again.
    Redelivered,
}

/// An attempt that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// True if another attempt would fail too.
    pub permanent: bool,
    /// The status of the answer, if there was one and it was one of HTTP.
    pub status: Option<u16>,
    /// The time for which the receiver asks to be left alone (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// The reason, for the operator.
    pub message: String,
}

/// A fact for the event log and the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The receiver took the message.
    Delivered,
    /// No attempt is left.
    Failed,
    /// The delivery had ended, and is to be sent again.
    Revived,
}

/// An order to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Wake the delivery now.
    Begin,
    /// Make an attempt, and report its result.
    Send,
    /// Wake the delivery at this instant, instead of any instant asked for before.
    WakeAt(Timestamp),
    /// Cancel the delivery's wake-up.
    ForgetWake,
}

/// The reason why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing is due.
    NotDue,
    /// The delivery has ended.
    Finished,
    /// An attempt is due or under way already.
    UnderWay,
}

impl Delivery {
    /// A delivery whose first attempt is due at once.
    #[must_use]
    pub fn created(notification: Notification, now: Timestamp) -> Step<Self> {
        let state = State::Pending { next_attempt_at: now };
        let (last_error, last_status) = (None, None);
        let delivery =
            Self { notification, state, attempts: 0, last_error, last_status, attempts_before: 0 };
        Step::to(delivery).order(Effect::Begin)
    }

    /// The status on the wire.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self.state {
            State::Pending { .. } => Status::Pending,
            State::Delivered { .. } => Status::Delivered,
            State::Dead { .. } => Status::Dead,
            State::Dropped { .. } => Status::Dropped,
        }
    }

    /// True if an attempt is to be made now.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Pending { next_attempt_at } if next_attempt_at <= now)
    }

    /// The wait after a failed attempt, never less than the receiver asked for (`asked`, at most
    /// [`MAX_RETRY_AFTER`]); `None` if that was the last attempt.
    fn wait(
        &self,
        waits: &[Duration],
        asked: Option<Duration>,
        jitter: Jitter,
    ) -> Option<Duration> {
        let tried = self.attempts.saturating_sub(self.attempts_before);
        let failed = usize::try_from(tried.saturating_sub(1)).unwrap_or(usize::MAX);
        let wait = *waits.get(failed)?;
        let spread = 80_000 + 40_000 * u32::from(jitter.0) / u32::from(u16::MAX);
        let asked = asked.unwrap_or_default().min(MAX_RETRY_AFTER);
        Some((wait * spread / 100_000).max(asked))
    }

    /// A delivery that is due at once, with the whole schedule before it.
    fn again(&self, now: Timestamp) -> Step<Self> {
        let state = State::Pending { next_attempt_at: now };
        Step::to(Self { state, attempts_before: self.attempts, ..self.clone() })
    }

    fn ended(&self, state: State) -> Step<Self> {
        Step::to(Self { state, ..self.clone() }).order(Effect::ForgetWake)
    }
}

impl Machine for Delivery {
    type Event = Event;
    type Fact = Fact;
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
            (S::Pending { .. }, E::Sent { status }) => {
                let sent = Self { last_status: status, ..self.clone() };
                Ok(sent.ended(S::Delivered { at: now }).report(Fact::Delivered))
            }
            (S::Pending { .. }, E::NotNeeded { message }) => {
                let dropped = Self { last_error: Some(clipped(message)), ..self.clone() };
                Ok(dropped.ended(S::Dropped { at: now }))
            }
            (S::Pending { .. }, E::Failed { failure, waits, jitter }) => {
                let Failure { permanent, status, retry_after, message } = failure;
                let last_error = Some(clipped(message));
                let failed = Self { last_error, last_status: status, ..self.clone() };
                match self.wait(&waits, retry_after, jitter).filter(|_| !permanent) {
                    None => Ok(failed.ended(S::Dead { at: now }).report(Fact::Failed)),
                    Some(wait) => {
                        let next_attempt_at = now.after(wait);
                        let state = S::Pending { next_attempt_at };
                        let step = Step::to(Self { state, ..failed });
                        Ok(step.order(Effect::WakeAt(next_attempt_at)))
                    }
                }
            }
            (S::Pending { next_attempt_at }, E::Redelivered) if next_attempt_at <= now => {
                Err(Refusal::UnderWay)
            }
            (S::Pending { .. }, E::Redelivered) => {
                Ok(self.again(now).order(Effect::ForgetWake).order(Effect::Begin))
            }
            (S::Delivered { .. } | S::Dead { .. } | S::Dropped { .. }, E::Redelivered) => {
                Ok(self.again(now).report(Fact::Revived).order(Effect::Begin))
            }
            (
                S::Delivered { .. } | S::Dead { .. } | S::Dropped { .. },
                E::TimePassed | E::Sent { .. } | E::NotNeeded { .. } | E::Failed { .. },
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
