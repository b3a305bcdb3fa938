//! The life of a task (docs/reference/tasks.md).
//!
//! ```text
//!             Leased                    Completed
//!   Ready ─────────────▶ Running ─────────────────────▶ Completed
//!    ▲ ▲                  │ │ │  Completed, and the gate holds it
//!    │ └──────────────────┘ │ └───────────────────────▶ AwaitingApproval
//!    │   LeaseExpired,      │ AttemptFailed, DeadlinePassed
//!    │   Undelivered        │
//!    │ BackoffElapsed       ▼
//!    └──────────────────  Backoff          no attempts left ──▶ Failed
//!
//!   Scheduled ── TimePassed ──▶ Ready
//!   AwaitingApproval ── Approved ──▶ Completed,  Rejected ──▶ Rejected
//!   Completed, Rejected ── Reopened ──▶ AwaitingApproval      a step's task alone, see `execution/uses.rs`
//!   Scheduled, Ready, Backoff, Running, AwaitingApproval ── CancelRequested ──▶ Cancelled
//! ```

mod answer;
mod copy;
mod correction;
mod ends;
mod erasure;
mod event;
pub mod flow;
mod gate;
mod lease;
mod message;
mod outcome;
mod repeat;
mod route;
mod routing;
mod sampling;
mod spec;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

pub use answer::{Amendment, Correction, OutputFault, is_cut};
pub use erasure::ERASED;
pub use event::{Effect, Event, Fact, Refusal};
pub use flow::{Concurrency, Fairness, Flow, FlowSource, OnConflict};
pub use gate::{Asks, Chance, Channels, Gate, Hold, HoldReason};
pub use lease::{LeaseId, LeaseToken};
pub use message::{Content, FilePlace, MAX_MESSAGES, MAX_PARTS, Message, Part, Role};
pub use outcome::{Completion, Ending, EndingCode, Failure, JudgeUsage, Status, Thinking};
pub use route::Route;
pub use routing::{FailureKind, MODELS, Routing, ServiceTier};
pub use sampling::{MAX_PENALTY, MAX_STOP, MAX_STOPS, Sampling};
pub use spec::{Called, Inputs, MAX_TARGET, Origin, Request, Spec};

use crate::Timestamp;
use crate::approval::MAX_REOPENED;
use crate::execution::clipped;
use crate::id::WorkerId;
use crate::machine::{Machine, Step};

/// A task's snapshot: the request and the state.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The request; never changes.
    pub spec: Arc<Spec>,
    /// The state.
    pub state: State,
    /// Steps taken since creation: the version of the resource in events.
    pub version: u64,
    /// The number of the current or last attempt; 0 before the first.
    pub attempt: u32,
    /// The number of returns to the queue after a failed attempt.
    pub retries: u32,
    /// The number of losses of the task's worker.
    pub losses: u32,
    /// The instant of the task's first start.
    pub started_at: Option<Timestamp>,
    /// The worker that has the task or had it last.
    pub worker: Option<WorkerId>,
    /// The lease whose result was applied last: the same result again is a duplicate.
    pub last_result_lease: Option<LeaseId>,
    /// Usage, confidence and finish reason of the answer. Boxed, because a task is moved often before it
    /// has one.
    pub result: Option<Box<Completion>>,
    /// The reason why the last attempt failed, or why the task ended.
    pub error: Option<Ending>,
    /// True if a reviewer's text stands in place of the model's output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The number of times that the decision on the output was taken back.
    #[serde(default, skip_serializing_if = "is_never")]
    pub reopened: u8,
    /// The instant at which the task's texts were erased.
    pub erased_at: Option<Timestamp>,
    /// The place of the task in its list of models.
    #[serde(default, skip_serializing_if = "Route::is_first")]
    pub route: Route,
    /// The priority that an operator gave the task, in place of the one that was asked for.
    pub priority: Option<u8>,
    /// The rest of answers that did not count, until one does.
    pub correction: Option<Box<Correction>>,
    /// The refusals that used up no attempt. Boxed, because few tasks have any.
    pub turned_away: Option<Box<TurnedAway>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_never(times: &u8) -> bool {
    *times == 0
}

/// The refusals of a task's calls by a model that was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnedAway {
    /// The instant of the first.
    pub since: Timestamp,
    /// Their number.
    pub times: u32,
}

/// The state of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The task waits for the instant at which it may run first.
    Scheduled {
        /// The instant, `startAt`.
        at: Timestamp,
    },
    /// The task is in its queue.
    Ready,
    /// The task waits before the next attempt.
    Backoff {
        /// The end of the backoff.
        until: Timestamp,
    },
    /// A worker holds the task.
    Running {
        /// The lease that the worker holds the task under.
        lease: LeaseId,
        /// The worker.
        worker: WorkerId,
        /// The deadline of the attempt.
        deadline: Timestamp,
    },
    /// The output is there and waits for a reviewer.
    AwaitingApproval {
        /// The instant at which this state began.
        since: Timestamp,
        /// The reason.
        #[serde(default = "required")]
        why: HoldReason,
    },
    /// Final: the output is there.
    Completed {
        /// The instant at which this state began.
        at: Timestamp,
    },
    /// Final: the task failed for good.
    Failed {
        /// The instant at which this state began.
        at: Timestamp,
    },
    /// Final: a caller cancelled the task.
    Cancelled {
        /// The instant at which this state began.
        at: Timestamp,
    },
    /// Final: a reviewer rejected the output.
    Rejected {
        /// The instant at which this state began.
        at: Timestamp,
    },
}

impl State {
    /// The end of the task, however it ended; `None` while it has not.
    #[must_use]
    pub const fn ended_at(&self) -> Option<Timestamp> {
        match *self {
            Self::Completed { at }
            | Self::Failed { at }
            | Self::Cancelled { at }
            | Self::Rejected { at } => Some(at),
            Self::Scheduled { .. }
            | Self::Ready
            | Self::Backoff { .. }
            | Self::Running { .. }
            | Self::AwaitingApproval { .. } => None,
        }
    }
}

/// The reason of the outputs held before the reason was stored.
const fn required() -> HoldReason {
    HoldReason::Required
}

impl Task {
    /// A new task, ready for its queue or waiting for its `startAt`.
    #[must_use]
    pub fn submitted(spec: Spec) -> Step<Self> {
        let (state, effect) = match spec.start_at {
            Some(at) => (State::Scheduled { at }, Effect::WakeAt(at)),
            None => (State::Ready, Effect::Enqueue),
        };
        let task = Self {
            spec: Arc::new(spec),
            state,
            version: 1,
            attempt: 0,
            retries: 0,
            losses: 0,
            started_at: None,
            worker: None,
            last_result_lease: None,
            result: None,
            error: None,
            edited: false,
            reopened: 0,
            erased_at: None,
            route: Route::default(),
            priority: None,
            correction: None,
            turned_away: None,
        };
        Step::to(task).report(Fact::Created).order(effect)
    }

    /// The first instant at which the task could have run.
    #[must_use]
    pub fn eligible_since(&self) -> Timestamp {
        let created_at = self.spec.id.created_at();
        self.spec.start_at.map_or(created_at, |at| at.max(created_at))
    }

    /// The priority, 1 to 10; 10 goes first.
    #[must_use]
    pub fn priority(&self) -> u8 {
        self.priority.unwrap_or(self.spec.priority)
    }

    /// The status on the wire.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self.state {
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::AwaitingApproval { .. } => Status::Pending,
            State::Running { .. } => Status::Running,
            State::Completed { .. } => Status::Completed,
            State::Failed { .. } => Status::Failed,
            State::Cancelled { .. } => Status::Cancelled,
            State::Rejected { .. } => Status::Rejected,
        }
    }

    /// The end with an output, a failure or a rejection (`completedAt`).
    #[must_use]
    pub const fn completed_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Completed { at } | State::Failed { at } | State::Rejected { at } => Some(at),
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::Running { .. }
            | State::AwaitingApproval { .. }
            | State::Cancelled { .. } => None,
        }
    }

    /// The instant since which the task waits, as far as it is known: not after an attempt that failed.
    #[must_use]
    pub fn waiting_since(&self) -> Option<Timestamp> {
        match self.state {
            State::AwaitingApproval { since, .. } => Some(since),
            State::Scheduled { .. } | State::Ready | State::Backoff { .. } => {
                let first = Some(self.spec.id.created_at()).filter(|_| self.attempt == 0);
                self.turned_away.as_ref().map(|away| away.since).or(first)
            }
            State::Running { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => None,
        }
    }

    /// The beginning of the attempt that a worker holds.
    #[must_use]
    pub fn leased_at(&self) -> Option<Timestamp> {
        let State::Running { deadline, .. } = self.state else { return None };
        Some(Timestamp::from_millis(deadline.as_millis().saturating_sub(self.spec.timeout_ms)))
    }

    fn with(&self, state: State) -> Self {
        Self { state, version: self.version + 1, ..self.clone() }
    }

    fn leased(&self, lease: LeaseId, worker: WorkerId, now: Timestamp) -> Step<Self> {
        let deadline = now.after(Duration::from_millis(self.spec.timeout_ms));
        let mut next = self.with(State::Running { lease, worker, deadline });
        // A lost worker uses up no attempt: only an attempt with a result makes room for the next number.
        next.attempt = self.retries + 1;
        next.started_at = self.started_at.or(Some(now));
        next.worker = Some(worker);
        Step::to(next)
            .report(Fact::Started)
            .order(Effect::Assign { lease, worker, deadline })
            .order(Effect::WakeAt(deadline))
    }

    fn answered(
        &self,
        lease: LeaseId,
        completion: Completion,
        chance: Chance,
        now: Timestamp,
    ) -> Step<Self> {
        let held = self.spec.gate.and_then(|gate| gate.holds(completion.confidence, chance));
        let (state, fact) = match held {
            Some(why) => (State::AwaitingApproval { since: now, why }, Fact::AwaitingApproval),
            None => (State::Completed { at: now }, Fact::Completed),
        };
        let mut next = self.with(state);
        next.last_result_lease = Some(lease);
        next.result = Some(Box::new(self.with_earlier(completion)));
        next.correction = None;
        next.error = None;
        Step::to(next).report(fact).order(Effect::ForgetWake)
    }

    fn approved(&self, edited: bool, now: Timestamp) -> Step<Self> {
        let mut next = self.with(State::Completed { at: now });
        next.edited = edited;
        Step::to(next).report(Fact::Completed)
    }

    fn rejected(&self, reason: &str, now: Timestamp) -> Step<Self> {
        let mut next = self.with(State::Rejected { at: now });
        let message = clipped(reason.to_owned());
        next.error = Some(Ending { code: EndingCode::Rejected, message });
        Step::to(next).report(Fact::Rejected)
    }

    fn reopened(&self, why: HoldReason, now: Timestamp) -> Result<Step<Self>, Refusal> {
        let has_decision = match self.state {
            State::Completed { .. } | State::Rejected { .. } => true,
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::Running { .. }
            | State::AwaitingApproval { .. }
            | State::Failed { .. }
            | State::Cancelled { .. } => false,
        };
        if !has_decision || self.erased_at.is_some() || self.reopened >= MAX_REOPENED {
            return Err(Refusal::NotHeld);
        }
        let mut next = self.with(State::AwaitingApproval { since: now, why });
        next.edited = false;
        next.reopened += 1;
        next.error = None;
        Ok(Step::to(next).report(Fact::Reopened))
    }

    fn reprioritized(&self, priority: u8) -> Step<Self> {
        let mut next = self.with(self.state.clone());
        next.priority = Some(priority);
        Step::to(next).report(Fact::Reprioritized)
    }

    /// True if the task runs under `lease`.
    #[must_use]
    pub fn is_held_under(&self, lease: LeaseId) -> bool {
        matches!(self.state, State::Running { lease: held, .. } if held == lease)
    }

    /// True if `event` can end the task: then the task's execution takes part in the decision. An
    /// event that the task refuses, or that moves it on to a state that is not final, cannot.
    #[must_use]
    pub fn can_end_by(&self, event: &Event) -> bool {
        use Event as E;
        match (&self.state, event) {
            (
                State::Completed { .. }
                | State::Failed { .. }
                | State::Cancelled { .. }
                | State::Rejected { .. },
                _,
            )
            | (
                _,
                E::Leased { .. }
                | E::Undelivered { .. }
                | E::Reprioritized { .. }
                | E::Reopened { .. },
            ) => false,
            (
                _,
                E::Completed { lease, .. }
                | E::OutputInvalid { lease, .. }
                | E::AttemptFailed { lease, .. }
                | E::LeaseExpired { lease },
            ) => self.is_held_under(*lease),
            (state, E::TimePassed { .. }) => matches!(state, State::Running { .. }),
            (
                _,
                E::Approved { .. }
                | E::Rejected { .. }
                | E::CancelRequested
                | E::GivenUp
                | E::OwnerGone { .. }
                | E::Unaffordable { .. },
            ) => true,
        }
    }

    /// The refusal of a late or repeated answer under `lease`.
    fn stale(&self, lease: LeaseId) -> Refusal {
        if self.last_result_lease == Some(lease) { Refusal::Duplicate } else { Refusal::StaleLease }
    }
}

impl Machine for Task {
    type Event = Event;
    type Fact = Fact;
    type Effect = Effect;
    type Refusal = Refusal;

    fn transition(&self, event: Event, now: Timestamp) -> Result<Step<Self>, Refusal> {
        use Event as E;
        use State as S;
        match (&self.state, event) {
            (S::Ready, E::Leased { lease, worker }) => Ok(self.leased(lease, worker, now)),
            (
                S::Scheduled { .. }
                | S::Backoff { .. }
                | S::Running { .. }
                | S::AwaitingApproval { .. },
                E::Leased { .. },
            ) => Err(Refusal::NotReady),

            (S::Running { lease, .. }, E::Completed { lease: answered, completion, chance })
                if *lease == answered =>
            {
                Ok(self.answered(answered, completion, chance, now))
            }
            (S::Running { lease, .. }, E::OutputInvalid { lease: answered, completion, fault })
                if *lease == answered =>
            {
                Ok(self.output_invalid(answered, completion, &fault, now))
            }
            (
                S::Running { lease, .. },
                E::AttemptFailed { lease: answered, failure, patience, jitter },
            ) if *lease == answered => {
                let mut step = self.call_failed(failure, patience, jitter, now);
                step.next.last_result_lease = Some(answered);
                Ok(step)
            }
            (S::Running { lease, .. }, E::LeaseExpired { lease: expired }) if *lease == expired => {
                Ok(self.worker_lost(now))
            }
            (S::Running { lease, .. }, E::Undelivered { lease: unknown }) if *lease == unknown => {
                Ok(self.again())
            }
            (
                _,
                E::Completed { lease, .. }
                | E::OutputInvalid { lease, .. }
                | E::AttemptFailed { lease, .. },
            ) => Err(self.stale(lease)),
            (_, E::LeaseExpired { .. } | E::Undelivered { .. }) => Err(Refusal::StaleLease),

            (S::Running { lease, worker, deadline }, E::TimePassed { jitter })
                if *deadline <= now =>
            {
                Ok(self.timed_out(*lease, *worker, jitter, now))
            }
            (S::Backoff { until: at } | S::Scheduled { at }, E::TimePassed { .. })
                if *at <= now =>
            {
                Ok(Step::to(self.with(S::Ready)).order(Effect::Enqueue))
            }
            (
                S::Scheduled { .. }
                | S::Ready
                | S::Backoff { .. }
                | S::Running { .. }
                | S::AwaitingApproval { .. },
                E::TimePassed { .. },
            ) => Err(Refusal::NotDue),

            (S::AwaitingApproval { .. }, E::Approved { edited }) => Ok(self.approved(edited, now)),
            (S::AwaitingApproval { .. }, E::Rejected { reason }) => Ok(self.rejected(&reason, now)),
            (
                S::Scheduled { .. } | S::Ready | S::Backoff { .. } | S::Running { .. },
                E::Approved { .. } | E::Rejected { .. },
            ) => Err(Refusal::NotHeld),

            (_, E::Reopened { why }) => self.reopened(why, now),

            // The task's rank depends on its priority.
            (S::Ready, E::Reprioritized { priority }) => {
                Ok(self.reprioritized(priority).order(Effect::Dequeue).order(Effect::Enqueue))
            }
            (S::Scheduled { .. } | S::Backoff { .. }, E::Reprioritized { priority }) => {
                Ok(self.reprioritized(priority))
            }
            (S::Running { .. } | S::AwaitingApproval { .. }, E::Reprioritized { .. }) => {
                Err(Refusal::NotReady)
            }

            (
                S::Completed { .. } | S::Failed { .. } | S::Cancelled { .. } | S::Rejected { .. },
                E::Leased { .. }
                | E::TimePassed { .. }
                | E::Approved { .. }
                | E::Rejected { .. }
                | E::Reprioritized { .. }
                | E::CancelRequested
                | E::GivenUp
                | E::OwnerGone { .. }
                | E::Unaffordable { .. },
            ) => Err(Refusal::Finished(self.status())),

            (_, E::CancelRequested) => Ok(self.stopped(self.cancelled(now))),
            (_, E::OwnerGone { message }) => Ok(self.stopped(self.owner_gone(message, now))),
            (_, E::GivenUp) => Ok(self.given_up(now)),
            (_, E::Unaffordable { reason: message }) => {
                let ending = Ending { code: EndingCode::BudgetExceeded, message };
                Ok(self.stopped(self.failed(ending, now)))
            }
        }
    }

    fn outstanding(&self) -> Vec<Effect> {
        match self.state {
            State::Ready => vec![Effect::Enqueue],
            State::Backoff { until: at } | State::Scheduled { at } => vec![Effect::WakeAt(at)],
            State::Running { lease, worker, deadline } => {
                vec![Effect::Watch { lease, worker }, Effect::WakeAt(deadline)]
            }
            State::AwaitingApproval { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => vec![],
        }
    }

    fn is_finished(&self) -> bool {
        match self.state {
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::Running { .. }
            | State::AwaitingApproval { .. } => false,
            State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => true,
        }
    }
}
