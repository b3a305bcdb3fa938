//! Limits of a model: requests and tokens a minute, calls in flight, and the answer to a 429.
//!
//! ```text
//!           begin: reserves an estimate           settle: the real figures
//!   queue ─────────────────────────▶ call in flight ──────────────────────▶ counts for a minute
//!                                        │ 429, 529
//!                                        ▼
//!   Open ─────────────────────────▶ Closed until Retry-After ─▶ one call, two, four … ─▶ Open
//!                                        ▲                                │ 429, 529
//!                                        └────────────────────────────────┘
//! ```
//!
//! A [`Meter`] decides for one model. The minute slides as for accounts ([`crate::rate`]), and an
//! entry counts half a second longer than a minute, because calls travel for different times.
//! Deliberately absent: the order of the waiting tasks, and the map from models to meters.

mod cooldown;
mod estimate;
mod reported;
mod window;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::id::TaskId;
use crate::worker::Monotonic;

pub use estimate::Demand;
pub use reported::{Allowance, Reported};

pub use cooldown::LONGEST_PAUSE_MS;
use cooldown::{Cooldowns, Tries};
use estimate::Estimator;
use reported::ExternalUse;
use window::{Load, Window};

/// The greatest limit that is taken, in requests, tokens or calls.
pub const MAX_LIMIT: u64 = 1_000_000_000_000;

/// The limits of one model; `None` is unlimited.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelLimits {
    /// Requests in any minute.
    pub requests_per_minute: Option<u64>,
    /// Input tokens in any minute.
    pub input_tokens_per_minute: Option<u64>,
    /// Output tokens in any minute.
    pub output_tokens_per_minute: Option<u64>,
    /// Input and output tokens together in any minute.
    pub tokens_per_minute: Option<u64>,
    /// Calls in flight.
    pub concurrent: Option<u64>,
}

impl ModelLimits {
    /// True if nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The limits with those of the provider where these are lower. A limit that is absent here stays
    /// absent.
    fn lowered(self, reported: &Reported) -> Self {
        let lower = |own: Option<u64>, allowance: Option<Allowance>| {
            own.map(|own| allowance.map_or(own, |allowance| own.min(allowance.limit)))
        };
        Self {
            requests_per_minute: lower(self.requests_per_minute, reported.requests),
            input_tokens_per_minute: lower(self.input_tokens_per_minute, reported.input_tokens),
            output_tokens_per_minute: lower(self.output_tokens_per_minute, reported.output_tokens),
            tokens_per_minute: lower(self.tokens_per_minute, reported.tokens),
            concurrent: self.concurrent,
        }
    }
}

/// A further call of an attempt that the provider refused with 429 or 529: the model has no room, though
/// the attempt has an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limited {
    /// The model of the call: the task's, or the judge's.
    pub model: String,
    /// The wait that the provider asks for, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// The reason why a model is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closure {
    /// Its provider refused a call: too many requests (429).
    #[default]
    RateLimited,
    /// Its provider could not be reached, or is overloaded (502, 503, 504, 529).
    Unavailable,
}

impl Closure {
    /// Every reason.
    pub const ALL: [Self; 2] = [Self::RateLimited, Self::Unavailable];

    /// The reason's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
        }
    }

    /// True for the default, which rows leave out.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A refused call: the model has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    /// The instant from which there may be room; `None` if that depends on a call in flight.
    pub until: Option<Monotonic>,
}

/// A call in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    at: Monotonic,
    /// The reservation.
    demand: Demand,
    /// The part of the reservation that had room when the call began.
    admitted: Demand,
    tries: Tries,
}

/// The end of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallEnd {
    /// The provider answered; the tokens are those that it counted.
    Used {
        /// Tokens of the prompt.
        input: u64,
        /// Tokens of the output.
        output: u64,
    },
    /// The provider refused the call, or could not be reached: the model is closed.
    Refused {
        /// The reason.
        cause: Closure,
        /// The wait, if the provider named one.
        retry_after_ms: Option<u64>,
        /// The queues that the worker's key is bound to: the model is closed for them alone. None for a key that is
        /// bound to no queue.
        queues: Arc<[String]>,
    },
    /// The provider failed otherwise: the request counts, its tokens do not.
    Failed,
    /// The worker was lost, or the attempt took too long: the reservation stands.
    Unknown,
}

/// The use of a model by one node, against its limits.
#[derive(Debug, Clone)]
pub struct Meter {
    limits: ModelLimits,
    reported: Reported,
    foreign: ExternalUse,
    window: Window,
    in_flight: u64,
    cooldown: Cooldowns,
    estimator: Estimator,
    /// The task that found too little room, and its demand: it goes next.
    next: Option<(TaskId, Demand)>,
}

/// The status of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeterStatus {
    /// The configured limits.
    pub limits: ModelLimits,
    /// The provider's own figures.
    pub reported: Reported,
    /// Requests of the last minute.
    pub requests: u64,
    /// Input tokens of the last minute, reservations included.
    pub input_tokens: u64,
    /// Output tokens of the last minute, reservations included.
    pub output_tokens: u64,
    /// Calls in flight.
    pub in_flight: u64,
    /// The instant until which the model is closed.
    pub closed_until: Option<Monotonic>,
    /// The reason of that closure.
    pub closed_because: Option<Closure>,
    /// The queues for which alone the model is closed, each with the instant.
    pub closed_queues: Vec<(Arc<str>, Monotonic)>,
}

impl Meter {
    /// A model that was not called yet.
    #[must_use]
    pub fn new(limits: ModelLimits) -> Self {
        Self {
            limits,
            reported: Reported::default(),
            foreign: ExternalUse::default(),
            window: Window::default(),
            in_flight: 0,
            cooldown: Cooldowns::default(),
            estimator: Estimator::default(),
            next: None,
        }
    }

    /// Other limits count from now on.
    pub fn set_limits(&mut self, limits: ModelLimits) {
        self.limits = limits;
    }

    /// Closes the model until an instant; for a model that was closed before a restart.
    pub fn cool_down_until(&mut self, until: Monotonic, cause: Closure) {
        self.cooldown.start_until(until, cause);
    }

    /// Counts a call of before a restart that is still in flight.
    pub fn adopt(&mut self, at: Monotonic, now: Monotonic) -> Call {
        let demand = self.estimator.usual();
        self.window.evict(now);
        self.window.add(at, demand.load());
        self.in_flight += 1;
        Call { at, demand, admitted: demand, tries: Tries::default() }
    }

    /// Counts calls that were not reserved and have ended, such as those of a judge.
    pub fn count_now(&mut self, requests: u64, input: u64, output: u64, now: Monotonic) {
        self.window.evict(now);
        self.window.add(now, Load { requests, input, output });
    }

    /// Counts a call of before a restart that has ended.
    pub fn count(&mut self, at: Monotonic, input: u64, output: u64, now: Monotonic) {
        self.window.evict(now);
        self.window.add(at, Load { requests: 1, input, output });
    }

    /// True if the meter neither limits nor remembers anything that matters.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.limits.is_none() && self.in_flight == 0 && self.cooldown.is_inactive()
    }

    /// The demand of a call whose texts have about `input` tokens.
    #[must_use]
    pub fn demand(&self, input: u64, max_tokens: Option<u64>) -> Demand {
        self.estimator.demand(input, max_tokens)
    }

    /// Passes if a call for a task of the queue may begin now.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn room(&mut self, queue: &str, now: Monotonic) -> Result<(), NoRoom> {
        self.admit(queue, self.least(), now)
    }

    /// The demand that there must be room for before a call of unknown texts begins: a call smaller
    /// than usual may fit.
    fn least(&self) -> Demand {
        self.next.map_or_else(|| self.estimator.usual().quarter(), |(_, demand)| demand)
    }

    /// Begins a call whose texts are not known yet: reserves the usual demand until
    /// [`Self::resize`], so that not all waiting calls begin at once.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing is counted.
    pub fn begin(&mut self, queue: &str, now: Monotonic) -> Result<Call, NoRoom> {
        self.room(queue, now)?;
        let admitted = self.least();
        let next = self.next.take().map(|(_, demand)| demand);
        let demand = next.unwrap_or_else(|| self.estimator.usual());
        Ok(self.begun(queue, demand, admitted, now))
    }

    /// Begins a call of a task.
    ///
    /// # Errors
    /// [`NoRoom`]; nothing is counted, and the task goes next.
    pub fn begin_with(
        &mut self,
        (task, queue): (TaskId, &str),
        demand: Demand,
        now: Monotonic,
    ) -> Result<Call, NoRoom> {
        if let Err(no_room) = self.admit(queue, demand, now) {
            self.next = Some((task, demand));
            return Err(no_room);
        }
        self.next = None;
        Ok(self.begun(queue, demand, demand, now))
    }

    /// Keeps no room for the task that goes next, if it is one of these: it cannot go. True if it was.
    pub fn pass_over(&mut self, is_one: impl FnOnce(TaskId) -> bool) -> bool {
        self.next.take_if(|(task, _)| is_one(*task)).is_some()
    }

    /// True if a task goes next that did not fit.
    #[must_use]
    pub const fn has_next(&self) -> bool {
        self.next.is_some()
    }

    fn begun(&mut self, queue: &str, demand: Demand, admitted: Demand, now: Monotonic) -> Call {
        self.window.add(now, demand.load());
        self.in_flight += 1;
        Call { at: now, demand, admitted, tries: self.cooldown.begin(queue) }
    }

    /// Reserves the demand of a call's own texts.
    ///
    /// # Errors
    /// [`NoRoom`]; the call is abandoned, and its task goes next.
    pub fn resize(
        &mut self,
        task: (TaskId, &str),
        call: Call,
        demand: Demand,
        now: Monotonic,
    ) -> Result<Call, NoRoom> {
        let Demand { further, input, output, .. } = call.admitted;
        if demand.further <= further && demand.input <= input && demand.output <= output {
            // A later reservation must not take the room of a call that has it.
            self.window.change(call.at, call.demand.load(), demand.load());
            return Ok(Call { demand, ..call });
        }
        self.abandon(call);
        self.begin_with(task, demand, now)
    }

    /// A call that was never made counts no more.
    #[expect(clippy::needless_pass_by_value, reason = "a call ends once")]
    pub fn abandon(&mut self, call: Call) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.window.change(call.at, call.demand.load(), Load::default());
        self.cooldown.lost(&call.tries);
    }

    /// The end of a call; true if it began the model's cooldown, or moved its end.
    #[expect(clippy::needless_pass_by_value, reason = "a call ends once")]
    pub fn settle(&mut self, call: Call, end: CallEnd, now: Monotonic) -> bool {
        self.in_flight = self.in_flight.saturating_sub(1);
        let reserved = call.demand.load();
        match end {
            CallEnd::Used { input, output } => {
                self.estimator.learn(call.demand, input, output);
                let used = Load { requests: reserved.requests, input, output };
                if !self.window.change(call.at, reserved, used) {
                    // The call took longer than a minute: its output is of now.
                    self.window.add(now, Load { requests: 0, input: 0, output });
                }
                self.cooldown.answered(&call.tries, now);
                false
            }
            CallEnd::Refused { cause, retry_after_ms, queues } => {
                self.window.change(call.at, reserved, Load::REQUEST);
                self.cooldown.refused(&call.tries, &queues, (cause, retry_after_ms), now)
            }
            CallEnd::Failed => {
                self.window.change(call.at, reserved, Load::REQUEST);
                self.cooldown.answered(&call.tries, now);
                false
            }
            CallEnd::Unknown => {
                self.cooldown.lost(&call.tries);
                false
            }
        }
    }

    /// A refusal or an outage of a call that was not counted; true if it closed the model for every queue.
    pub fn refused_uncounted(
        &mut self,
        queues: &[String],
        refusal: (Closure, Option<u64>),
        now: Monotonic,
    ) -> bool {
        self.cooldown.refused(&Tries::default(), queues, refusal, now)
    }

    /// True while the model is closed for tasks of the queue, or opens after that.
    #[must_use]
    pub fn is_cooling_down(&self, queue: &str) -> bool {
        self.cooldown.is_active(queue)
    }

    /// The model is open again, whatever was refused before.
    pub fn reopen(&mut self) {
        self.cooldown = Cooldowns::default();
    }

    /// The provider's own figures, from the headers of an answer.
    pub fn report(&mut self, reported: Reported, now: Monotonic) {
        self.window.evict(now);
        self.reported = reported.over(self.reported);
        let limits = self.limits.lowered(&self.reported);
        self.foreign = ExternalUse::of(&reported, limits, self.window.sum(), now);
    }

    /// The state of the model at `now`.
    pub fn status(&mut self, now: Monotonic) -> MeterStatus {
        self.window.evict(now);
        let Load { requests, input, output } = self.window.sum();
        MeterStatus {
            limits: self.limits,
            reported: self.reported,
            requests,
            input_tokens: input,
            output_tokens: output,
            in_flight: self.in_flight,
            closed_until: self.closed_until().filter(|until| *until > now),
            closed_because: self.closed_because(now),
            closed_queues: self
                .cooldown
                .closed_queues()
                .filter(|(_, until)| *until > now)
                .map(|(queue, until)| (Arc::clone(queue), until))
                .collect(),
        }
    }

    /// The instant until which the model is closed, also if it has passed.
    #[must_use]
    pub const fn closed_until(&self) -> Option<Monotonic> {
        self.cooldown.until()
    }

    /// The reason why the model is closed.
    #[must_use]
    pub fn closed_because(&self, now: Monotonic) -> Option<Closure> {
        self.closed_until().filter(|until| *until > now).and_then(|_| self.cooldown.cause())
    }

    fn admit(&mut self, queue: &str, demand: Demand, now: Monotonic) -> Result<(), NoRoom> {
        self.cooldown.admit(queue, now)?;
        self.window.evict(now);
        let limits = self.limits.lowered(&self.reported);
        if limits.concurrent.is_some_and(|most| self.in_flight >= most) {
            return Err(NoRoom { until: None });
        }
        let until = self.window.room_at(limits, &self.foreign, demand, now);
        if until > now { Err(NoRoom { until: Some(until) }) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
