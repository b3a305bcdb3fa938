//! The end of an attempt or of the task without an output: the next try, a failure, a cancellation.

use super::{Effect, Ending, EndingCode, Fact, Failure, LeaseId, Route, State, Task, TurnedAway};
use std::time::Duration;

use crate::Timestamp;
use crate::id::WorkerId;
use crate::machine::Step;
use crate::retry::{Jitter, MAX_LOSSES};

impl Task {
    pub(super) fn attempt_failed(
        &self,
        failure: Failure,
        jitter: Jitter,
        now: Timestamp,
    ) -> Step<Self> {
        if let Some(route) = self.fallback(&failure) {
            let mut step = self.again();
            step.next.route = route;
            step.next.error = Some(failure.ending);
            return step;
        }
        let wait = if failure.retryable {
            self.spec.retry.wait(self.attempt, failure.retry_after, jitter)
        } else {
            None
        };
        let Some(wait) = wait else {
            return self.failed(failure.ending, now);
        };
        let until = now.after(wait);
        let mut next = self.with(State::Backoff { until });
        next.retries += 1;
        next.route = Route::default();
        next.error = Some(failure.ending);
        Step::to(next).report(Fact::Retrying).order(Effect::WakeAt(until))
    }

    /// If the provider refused a call although nobody should have called it, or could not be reached, the task is not
    /// at fault: it goes on once the model opens. After `patience` that counts like any failure.
    pub(super) fn call_failed(
        &self,
        failure: Failure,
        patience: Duration,
        jitter: Jitter,
        now: Timestamp,
    ) -> Step<Self> {
        if let Some(usage) = failure.usage {
            let failure = Failure { usage: None, ..failure };
            return self.having_paid(usage).call_failed(failure, patience, jitter, now);
        }
        let before = self.turned_away.as_deref();
        let since = before.map_or(now, |before| before.since);
        let counts = now.since(since) >= patience;
        if counts || self.fallback(&failure).is_some() {
            return self.attempt_failed(failure, jitter, now);
        }
        let times = before.map_or(1, |before| before.times.saturating_add(1));
        let mut step = self.again();
        step.next.turned_away = Some(Box::new(TurnedAway { since, times }));
        step.next.error = Some(failure.ending);
        step
    }

    pub(super) fn failed(&self, ending: Ending, now: Timestamp) -> Step<Self> {
        let mut next = self.with(State::Failed { at: now });
        next.error = Some(ending);
        next.keep_paid_answer();
        Step::to(next).report(Fact::Failed).order(Effect::ForgetWake)
    }

    pub(super) fn timed_out(
        &self,
        lease: LeaseId,
        worker: WorkerId,
        jitter: Jitter,
        now: Timestamp,
    ) -> Step<Self> {
        let message =
            format!("attempt {} took longer than {} ms", self.attempt, self.spec.timeout_ms);
        let failure = Failure::new(Ending { code: EndingCode::TaskTimeout, message }, true);
        self.attempt_failed(failure, jitter, now).order(Effect::Revoke {
            lease,
            worker,
            reason: "timeout",
        })
    }

    pub(super) fn worker_lost(&self, now: Timestamp) -> Step<Self> {
        let losses = self.losses + 1;
        let mut step = if losses >= MAX_LOSSES {
            let message = format!("its worker was lost {losses} times");
            self.failed(Ending { code: EndingCode::WorkerLost, message }, now)
        } else {
            self.again()
        };
        step.next.losses = losses;
        step
    }

    /// Back to the queue, with nothing used up.
    pub(super) fn again(&self) -> Step<Self> {
        Step::to(self.with(State::Ready))
            .report(Fact::Retrying)
            .order(Effect::ForgetWake)
            .order(Effect::Enqueue)
    }

    /// The failure of this attempt, if another one follows it in `after`, the state that it led to.
    #[must_use]
    pub fn failure_before<'a>(&self, after: &'a Self) -> Option<&'a Ending> {
        let is_failure = match after.state {
            State::Backoff { .. } => true,
            // Neither a lost worker nor a lease that never reached it.
            State::Ready => {
                after.retries > self.retries
                    || after.route != self.route
                    || after.turned_away != self.turned_away
            }
            State::Scheduled { .. }
            | State::Running { .. }
            | State::AwaitingApproval { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => false,
        };
        after.error.as_ref().filter(|_| is_failure)
    }

    pub(super) fn cancelled(&self, now: Timestamp) -> Step<Self> {
        let mut next = self.with(State::Cancelled { at: now });
        next.error = Some(Ending { code: EndingCode::Cancelled, message: "cancelled".into() });
        next.keep_paid_answer();
        Step::to(next).report(Fact::Cancelled).order(Effect::ForgetWake)
    }

    pub(super) fn owner_gone(&self, message: String, now: Timestamp) -> Step<Self> {
        let mut step = self.cancelled(now);
        step.next.error = Some(Ending { code: EndingCode::Cancelled, message });
        step
    }

    pub(super) fn given_up(&self, now: Timestamp) -> Step<Self> {
        let message = "internal error: the task's actor failed repeatedly".into();
        self.stopped(self.failed(Ending { code: EndingCode::InternalError, message }, now))
    }

    /// An end that no answer brings: the task's queue or its worker lets go of it.
    pub(super) fn stopped(&self, end: Step<Self>) -> Step<Self> {
        match self.state {
            State::Ready => end.order(Effect::Dequeue),
            State::Running { lease, worker, .. } => {
                let is_cancelled = matches!(end.next.state, State::Cancelled { .. });
                let reason = if is_cancelled { "cancelled" } else { "failed" };
                end.order(Effect::Revoke { lease, worker, reason })
            }
            State::Scheduled { .. }
            | State::Backoff { .. }
            | State::AwaitingApproval { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => end,
        }
    }
}
