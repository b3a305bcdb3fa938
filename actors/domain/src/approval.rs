//! The life of an approval: an output that waits for a reviewer (docs/reference/approvals.md).
//!
//! ```text
//!            a reviewer is there        escalates_at          expires_at
//!   Pending ──────────▶ Assigned ─────────────▶ Escalated ─────────────▶ Expired
//!      └──────┬────────────┴─────────────────────┴──────────────────────────┘
//!             ├── Approved ─────▶ Approved
//!             ├── Rejected ─────▶ Rejected     also at expires_at, where a time-out rejects
//!             └── TaskEnded ────▶ Cancelled
//!
//!   Approved, Rejected ── Reopened ──▶ Assigned     the decision is taken back, or a second one is asked for beside it
//! ```
//!
//! An approval is opened, and its first reviewer chosen, in the step of its task that brings the
//! output. The approval's last step is committed together with that of its task, so that neither is
//! ever decided without the other. Every step is recorded in a chained history, see [`history`].
//!
//! A *requested* review ([`HoldReason::Requested`]) is of an output that has passed, and a *correction*
//! ([`Approval::corrects`]) of one that was decided and used: nothing waits for them, and their decisions change
//! neither the task nor the execution.

mod event;
pub mod history;
mod record;
mod reviewer;
mod salt;
#[cfg(test)]
mod tests;
mod transition;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

pub use event::{Decider, Effect, Event, Mail, MailCause, Refusal};
pub use history::{Action, Chain, Details, Entry};
pub use record::{GateOutcome, Record};
pub use reviewer::{ReviewerPool, check_four_eyes, check_reopener, choose, decider, prompt_again};
pub use salt::{InvalidSalt, Salt};

use crate::Timestamp;
use crate::batch::compare::is_same;
use crate::confidence::Source;
use crate::digest::Digest;
use crate::id::{TaskId, UserId};
use crate::machine::{Machine, Step};
use crate::task::{self, Channels, HoldReason};

use transition::Transition;

/// The time for which other reviewers see a claim.
pub const CLAIM: Duration = Duration::from_mins(5);

/// The most entries of a history up to which claims and releases are recorded in it.
const MAX_RECORDED: u32 = 1_000;

/// The actor of changes that no person or key makes.
pub const SYSTEM: &str = "system";

/// The reason of a rejection that the clock made.
pub const TIMED_OUT: &str = "nobody decided before timeoutAt";

/// The reason of an opening that leaves the decision before as it is.
pub const CORRECTION: &str = "the output was used: this decision stands beside the one before";

/// The time for a requested review, after which an admin is asked: the longest review time.
pub const REQUESTED_TIME: Duration = Duration::from_hours(30 * 24);

/// The most times that the reviewers of an output are given more time.
pub const MAX_EXTENSIONS: u8 = 32;

/// The most times that an output is opened again after a decision.
pub const MAX_REOPENED: u8 = 16;

/// An approval's snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// The task whose output waits; never changes.
    pub task: Arc<task::Spec>,
    /// The reason and the time limits of the wait; only the limits change.
    pub opening: ReviewRequest,
    /// The state.
    pub state: State,
    /// Steps taken: the version of the resource in events.
    pub version: u64,
    /// The assigned reviewer.
    pub assignee: Option<UserId>,
    /// The reviewer who looks at the output now.
    pub claim: Option<Claim>,
    /// The instant of the first escalation.
    pub escalated_at: Option<Timestamp>,
    /// The decision.
    pub decision: Option<Decision>,
    /// The number of times that the reviewers were given more time.
    pub extensions: u8,
    /// The number of times that the output was opened again after a decision.
    pub reopened: u8,
    /// The decision that counted when the output was used, if another one is asked for beside it.
    pub corrects: Option<Box<Corrected>>,
    /// The length of the approval's history, and the hash of the last entry.
    pub chain: Chain,
    /// The salt of its commitments; `None` once the texts are erased, or if an earlier version held
    /// the output.
    pub salt: Option<Salt>,
}

/// The reason and the deadline of a review.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewRequest {
    /// The instant at which the output was held.
    pub since: Timestamp,
    /// The reason why the gate held the output.
    pub why: HoldReason,
    /// The model's confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// The method by which the confidence was made.
    pub method: Option<Source>,
    /// The model that answered, if it is not the task's first one.
    pub model: Option<String>,
    /// Minimum confidence to skip review, 0 to 1.
    pub threshold: Option<f64>,
    /// The commitment to the output.
    pub shown: Digest,
    /// The instant at which an admin is asked.
    pub escalates_at: Timestamp,
    /// The end of the reviewers' time.
    pub expires_at: Timestamp,
    /// True if the end of the reviewers' time rejects the output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rejects: bool,
    /// The channels by which reviewers are notified.
    #[serde(default, skip_serializing_if = "Channels::is_none")]
    pub notify: Channels,
    /// The way in which a requested review is done.
    #[serde(rename = "asked", default, skip_serializing_if = "ReviewWay::is_plain")]
    pub way: ReviewWay,
}

/// The way in which a requested review is done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReviewWay {
    /// The member of the output that is judged; the whole output if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// True if reviewers answer without seeing the output.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub blind: bool,
}

impl ReviewWay {
    /// True if the whole output is judged, and shown.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The part of the output that reviewers see before they answer.
    #[must_use]
    pub fn shown(&self, output: &str) -> String {
        let Some(field) = &self.field else { return String::new() };
        match serde_json::from_str(output) {
            Ok(Value::Object(mut members)) => {
                members.shift_remove(field);
                Value::Object(members).to_string()
            }
            Ok(_) | Err(_) => String::new(),
        }
    }

    /// The output with the answer of a reviewer who did not see it: the output as it is if the two say the same. With
    /// a field, the answer is its value, or an object with the field.
    #[must_use]
    pub fn answered(&self, output: &str, answer: String) -> String {
        let given = serde_json::from_str(&answer).unwrap_or_else(|_| Value::from(answer.trim()));
        let Some(field) = &self.field else {
            let before =
                serde_json::from_str(output).unwrap_or_else(|_| Value::from(output.trim()));
            return if is_same(&before, &given) { output.to_owned() } else { answer };
        };
        let Ok(Value::Object(mut members)) = serde_json::from_str(output) else { return answer };
        let value = match given {
            Value::Object(mut answer) => match answer.shift_remove(field) {
                Some(value) => value,
                None => Value::Object(answer),
            },
            given @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)) => given,
        };
        if members.get(field).is_some_and(|before| is_same(before, &value)) {
            return output.to_owned();
        }
        members.insert(field.clone(), value);
        Value::Object(members).to_string()
    }
}

impl ReviewRequest {
    /// True if the output has passed, and nothing waits for the decision.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.why == HoldReason::Requested
    }
}

/// The state of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The output waits without an assignee: there was no reviewer to ask.
    Pending,
    /// The output waits for its assignee.
    Assigned,
    /// An admin was asked.
    Escalated,
    /// The reviewers' time is over; the output can still be decided.
    Expired,
    /// Final: the output counts, as it was or edited.
    Approved,
    /// Final: the output does not count.
    Rejected,
    /// Final: the task ended without a decision.
    Cancelled,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Assigned,
        Self::Escalated,
        Self::Expired,
        Self::Approved,
        Self::Rejected,
        Self::Cancelled,
    ];

    /// The state's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Assigned => "assigned",
            Self::Escalated => "escalated",
            Self::Expired => "expired",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
        }
    }
}

impl State {
    /// The next instant at which something is due.
    #[must_use]
    pub const fn due_at(self, opening: &ReviewRequest) -> Option<Timestamp> {
        match self {
            Self::Pending | Self::Assigned => Some(opening.escalates_at),
            Self::Escalated => Some(opening.expires_at),
            Self::Expired | Self::Approved | Self::Rejected | Self::Cancelled => None,
        }
    }

    /// The effects still owed to an approval; none needs data of its task.
    #[must_use]
    pub fn outstanding(self, opening: &ReviewRequest, assignee: Option<UserId>) -> Vec<Effect> {
        match self {
            Self::Pending | Self::Assigned | Self::Escalated | Self::Expired => {
                let wake = self.due_at(opening).map(Effect::WakeAt);
                wake.into_iter().chain([Effect::Assign(assignee)]).collect()
            }
            Self::Approved | Self::Rejected | Self::Cancelled => Vec::new(),
        }
    }
}

/// The claim of a reviewer who looks at the output; others are warned, not barred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The reviewer.
    pub by: String,
    /// The end of the claim.
    pub until: Timestamp,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The instant of the decision.
    pub at: Timestamp,
    /// The deciding user or key.
    pub by: Decider,
    /// The decision itself.
    #[serde(rename = "verdict")]
    pub outcome: Outcome,
}

/// A decision that others have gone by, beside which another one stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Corrected {
    /// The decision.
    pub decision: Decision,
    /// The number of times that the output had been opened again before it.
    #[serde(default, skip_serializing_if = "is_first")]
    pub round: u8,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_first(round: &u8) -> bool {
    *round == 0
}

/// The two decisions on an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The output counts.
    Approved {
        /// True if a reviewer's text replaces the output.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        edited: bool,
    },
    /// The output does not count.
    Rejected {
        /// The task that tries again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry: Option<TaskId>,
    },
}

/// The settings for all approvals, from the configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// The share of the reviewers' time after which an admin is asked, 0 to 1.
    pub escalate_after: f64,
    /// True if the end of the reviewers' time rejects an output.
    pub rejects: bool,
    /// True if the submitter of a task may not approve the task's output.
    pub four_eyes: bool,
}

/// The reviewer to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Assignee {
    /// The reviewer; `None` if no user may decide.
    pub reviewer: Option<UserId>,
    /// True if a mail server is configured.
    pub by_mail: bool,
}

impl Approval {
    /// An output is held: the approval's first step, part of the task's step.
    #[must_use]
    pub fn opened(
        task: Arc<task::Spec>,
        held: &HeldOutput<'_>,
        policy: Policy,
        asked: Assignee,
        now: Timestamp,
    ) -> Step<Self> {
        let is_requested = held.why == HoldReason::Requested;
        let gate = task.gate.unwrap_or(task::Gate::ALWAYS);
        let share = policy.escalate_after.clamp(0.0, 1.0);
        let (time, share) = if is_requested {
            (REQUESTED_TIME, 1.0)
        } else {
            (Duration::from_millis(gate.timeout_ms), share)
        };
        let opening = ReviewRequest {
            since: now,
            why: held.why,
            confidence: held.confidence,
            method: held.method,
            model: Some(held.model).filter(|model| *model != task.model).map(str::to_owned),
            threshold: gate.threshold.filter(|_| task.gate.is_some()),
            shown: Salt::commit(held.salt, held.output),
            escalates_at: now.after(time.mul_f64(share)),
            expires_at: now.after(time),
            rejects: policy.rejects && !is_requested,
            notify: if is_requested { Channels::default() } else { gate.notify },
            way: held.way.clone(),
        };
        let fresh = Self {
            task,
            opening,
            state: State::Pending,
            version: 0,
            assignee: None,
            claim: None,
            escalated_at: None,
            decision: None,
            extensions: 0,
            reopened: 0,
            corrects: None,
            chain: Chain::default(),
            salt: held.salt,
        };
        let mut transition = Transition::of(&fresh, now);
        transition.opened(asked);
        transition.done()
    }

    /// The task's identifier, which is the approval's too.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.task.id
    }

    /// The commitment to a text of this approval.
    #[must_use]
    pub fn commit(&self, text: &str) -> Digest {
        Salt::commit(self.salt, text)
    }

    /// True if nothing waits for the decision: the output has passed, or others have gone by an earlier decision.
    #[must_use]
    pub fn is_unawaited(&self) -> bool {
        self.opening.is_requested() || self.corrects.is_some()
    }

    /// The decision that counts: while a correction waits, the one before.
    #[must_use]
    pub fn counting(&self) -> Option<&Decision> {
        let before = || self.corrects.as_ref().map(|before| &before.decision);
        self.decision.as_ref().or_else(before)
    }

    /// The decision that the task went by; none of an output that had passed.
    #[must_use]
    pub fn effective(&self) -> Option<&Decision> {
        let own = self.decision.as_ref().filter(|_| !self.opening.is_requested());
        self.corrects.as_ref().map(|before| &before.decision).or(own)
    }

    /// True if reviewers do not see the output yet.
    #[must_use]
    pub const fn is_hidden(&self) -> bool {
        self.opening.way.blind && self.decision.is_none()
    }

    /// The claim, unless it has run out.
    #[must_use]
    pub fn claimed(&self, now: Timestamp) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| now < claim.until && !self.is_finished())
    }

    /// The time that the output waited: until the decision, else until now.
    #[must_use]
    pub fn waited(&self, now: Timestamp) -> Duration {
        self.decision.as_ref().map_or(now, |decision| decision.at).since(self.opening.since)
    }

    /// True if the approval's timer has an effect at `now`.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.state.due_at(&self.opening).is_some_and(|at| at <= now)
    }

    /// True if the timer ends the approval, and with it the task, at `now`.
    #[must_use]
    pub fn rejects_at(&self, now: Timestamp) -> bool {
        self.state == State::Escalated && self.opening.rejects && self.is_due(now)
    }

    fn then(&self, now: Timestamp, make: impl FnOnce(&mut Transition)) -> Step<Self> {
        let mut transition = Transition::of(self, now);
        make(&mut transition);
        transition.done()
    }

    /// The refusal of every event once the approval is final.
    #[must_use]
    pub fn finished(&self) -> Option<Refusal> {
        let decided = |Decision { at, by, .. }: &Decision| Refusal::AlreadyDecided {
            by: by.name().to_owned(),
            at: *at,
        };
        self.is_finished().then(|| self.decision.as_ref().map_or(Refusal::Cancelled, decided))
    }
}

/// A held output and the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOutput<'a> {
    /// The reason why the gate held the output.
    pub why: HoldReason,
    /// The model's confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// The method by which the confidence was made.
    pub method: Option<Source>,
    /// The model that answered.
    pub model: &'a str,
    /// The output.
    pub output: &'a str,
    /// The salt of the commitments to the output and to the texts of reviewers.
    pub salt: Option<Salt>,
    /// The way in which a requested review is done.
    pub way: ReviewWay,
}

impl Machine for Approval {
    type Event = Event;
    type Fact = Entry;
    type Effect = Effect;
    type Refusal = Refusal;

    fn transition(&self, event: Event, now: Timestamp) -> Result<Step<Self>, Refusal> {
        use Event as E;
        use State as S;
        match (self.state, event) {
            (S::Pending | S::Assigned | S::Escalated | S::Expired, E::Claimed { by }) => {
                match self.claimed(now).filter(|claim| claim.by != by.name()) {
                    Some(Claim { by, until }) => {
                        Err(Refusal::ClaimedBy { by: by.clone(), until: *until })
                    }
                    None => Ok(self.then(now, |it| it.claimed(&by))),
                }
            }
            (S::Pending | S::Assigned | S::Escalated | S::Expired, E::Released { by }) => {
                match self.claimed(now) {
                    None => Err(Refusal::NotClaimed),
                    Some(claim) if claim.by == by.name() => {
                        Ok(self.then(now, |it| it.released(&by)))
                    }
                    Some(Claim { by, until }) => {
                        Err(Refusal::ClaimedBy { by: by.clone(), until: *until })
                    }
                }
            }
            (S::Pending | S::Assigned | S::Escalated | S::Expired, E::Assigned { .. })
                if self.chain.length >= MAX_RECORDED =>
            {
                Err(Refusal::AssignedTooOften)
            }
            (S::Pending | S::Assigned | S::Escalated | S::Expired, E::Assigned { by, asked }) => {
                Ok(self.then(now, |it| it.assigned(&by, asked)))
            }
            (S::Pending | S::Assigned | S::Escalated | S::Expired, E::Extended { .. })
                if self.extensions >= MAX_EXTENSIONS =>
            {
                Err(Refusal::ExtendedTooOften)
            }
            (
                S::Pending | S::Assigned | S::Escalated | S::Expired,
                E::Extended { by, timeout_ms, reason },
            ) => {
                let time = Duration::from_millis(timeout_ms);
                Ok(self.then(now, |it| it.extended(&by, time, reason)))
            }
            (
                S::Pending | S::Assigned | S::Escalated | S::Expired,
                E::Approved { by, edit, comment },
            ) => Ok(self.then(now, |it| it.approved(by, edit, comment))),
            (
                S::Pending | S::Assigned | S::Escalated | S::Expired,
                E::Rejected { by, reason, retry },
            ) => Ok(self.then(now, |it| it.rejected(by, reason, retry))),
            (S::Pending | S::Assigned | S::Escalated | S::Expired, E::TaskEnded { by }) => {
                Ok(self.then(now, |it| it.cancelled(&by)))
            }

            (S::Approved | S::Rejected, E::Reopened { .. }) if self.reopened >= MAX_REOPENED => {
                Err(Refusal::ReopenedTooOften)
            }
            (S::Approved | S::Rejected, E::Reopened { by, asked, corrects }) => {
                Ok(self.then(now, |it| it.reopened(&by, asked, corrects)))
            }
            (S::Pending | S::Assigned | S::Escalated | S::Expired, E::Reopened { .. }) => {
                Err(Refusal::Undecided)
            }
            (S::Cancelled, E::Reopened { .. }) => Err(Refusal::Cancelled),

            (S::Pending | S::Assigned, E::TimePassed { asked }) if self.is_due(now) => {
                Ok(self.then(now, |it| it.escalated(asked, MailCause::Escalated)))
            }
            (S::Escalated, E::TimePassed { asked }) if self.is_due(now) => {
                Ok(self.then(now, |it| it.expired(asked)))
            }
            (S::Pending | S::Assigned | S::Escalated | S::Expired, E::TimePassed { .. }) => {
                Err(Refusal::NotDue)
            }

            (
                S::Approved | S::Rejected | S::Cancelled,
                E::Claimed { .. }
                | E::Released { .. }
                | E::Assigned { .. }
                | E::Extended { .. }
                | E::Approved { .. }
                | E::Rejected { .. }
                | E::TaskEnded { .. }
                | E::TimePassed { .. },
            ) => Err(self.finished().unwrap_or(Refusal::Cancelled)),
        }
    }

    fn outstanding(&self) -> Vec<Effect> {
        self.state.outstanding(&self.opening, self.assignee)
    }

    fn is_finished(&self) -> bool {
        match self.state {
            State::Pending | State::Assigned | State::Escalated | State::Expired => false,
            State::Approved | State::Rejected | State::Cancelled => true,
        }
    }
}
