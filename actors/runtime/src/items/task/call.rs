//! The call that a task makes of a metered model: its reservation, and its end.

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::confidence::ask::Calls;
use callboard_domain::model_limits::{CallEnd, Closure, NoRoom, Reported};
use callboard_domain::task::{Effect, FailureKind, LeaseId, State};
use callboard_domain::usage::estimate_tokens;
use ractor::ActorProcessingErr;

use super::{Answer, TaskItem};
use crate::commit::effects;
use crate::items::worker::Called;
use crate::kernel::item::{Activation, Done};
use crate::limits::models::CallPermit;
use crate::tables;

impl Activation<TaskItem> {
    /// Reserves the demand of the task's own texts. A task without room is in its queue again: it
    /// goes first once there is room.
    pub(super) async fn reserve(
        &mut self,
        call: Option<CallPermit>,
    ) -> Result<Result<Option<CallPermit>, NoRoom>, ActorProcessingErr> {
        let environment = self.address.environment;
        let Some(models) = self.node.limits.models(environment) else { return Ok(Ok(None)) };
        let Some(task) = &self.item.task else { return Ok(Ok(None)) };
        if !models.meters(task.model()) || task.state != State::Ready {
            return Ok(Ok(None));
        }
        let inputs = if let Some(inputs) = self.item.inputs.take() {
            inputs
        } else {
            let store = &*self.node.shard(self.address.task.partition()).store;
            Box::pin(tables::inputs(store, environment, self.address.task)).await?
        };
        let tokens = inputs.texts().map(estimate_tokens).fold(0, u64::saturating_add);
        let ask = inputs.confidence.as_deref();
        let calls = Calls::most(ask).by_model(task.model(), ask);
        let calls = calls.first().map_or(1, |(_, calls)| u64::from(*calls));
        self.item.inputs = Some(inputs);
        let reserved = models.reserve(task, call, (tokens, calls));
        if reserved.is_err() {
            effects::of_tasks(&self.node, environment, task, Effect::Enqueue);
        }
        Ok(reserved.map(Some))
    }

    /// Tells the model's meter the end of the call of a lease, by a worker whose key is bound to the queues `bound`.
    /// The time for which that uses up no attempt: the provider refused it though the model was closed by then, or it
    /// could not be reached, and the model is closed now.
    pub(super) fn call_ended(
        &mut self,
        lease: LeaseId,
        answer: &Answer,
        bound: Arc<[String]>,
    ) -> Duration {
        let Some(task) = self.item.task.as_ref().filter(|task| task.is_held_under(lease)) else {
            return Duration::ZERO;
        };
        let environment = self.address.environment;
        let called = self.item.called.take();
        let Some(models) = self.node.limits.models(environment) else { return Duration::ZERO };
        let end = match answer {
            Answer::Output(_, completion) => {
                let usage = completion.usage;
                if let Some(judge) = completion.judge.as_ref().filter(|it| it.model != task.model())
                {
                    let calls = called.map_or(1, |calls| u64::from(calls.judge.max(1)));
                    models.called(&judge.model, calls, judge.usage);
                }
                CallEnd::Used { input: usage.input, output: usage.output }
            }
            Answer::Failure(failure) => match failure.kind() {
                kind if failure.is_outage || kind == Some(FailureKind::RateLimited) => {
                    let asked = failure.retry_after.map(|wait| wait.as_millis());
                    let asked = asked.map(|wait| u64::try_from(wait).unwrap_or(u64::MAX));
                    let is_outage = failure.is_outage;
                    let cause = if is_outage { Closure::Unavailable } else { Closure::RateLimited };
                    CallEnd::Refused { cause, retry_after_ms: asked, queues: bound }
                }
                Some(FailureKind::Timeout) => CallEnd::Unknown,
                Some(_) | None => CallEnd::Failed,
            },
        };
        let CallEnd::Refused { cause, .. } = end else {
            if let Some(call) = self.item.permits.call.take() {
                call.end(end);
            }
            return Duration::ZERO;
        };
        let is_closed = || models.is_cooling_down(task.model(), &task.spec.queue);
        let was_closed = is_closed();
        match (self.item.permits.call.take(), end) {
            (None, CallEnd::Refused { cause, retry_after_ms, queues }) => {
                models.refused(task.model(), &queues, (cause, retry_after_ms));
            }
            (None, _) => {}
            (Some(call), end) => call.end(end),
        }
        self.node.keep_closure(environment, task.model());
        let spares = was_closed || cause == Closure::Unavailable && is_closed();
        if spares { self.node.settings.outage_patience } else { Duration::ZERO }
    }

    /// The calls of the attempt whose answer follows. A 429 of a sample or a judge closes its model, as that of an
    /// answer does.
    pub(super) async fn called(
        &mut self,
        lease: LeaseId,
        called: Called,
        bound: Arc<[String]>,
    ) -> Done {
        let Some(task) = self.item.task.as_ref().filter(|task| task.is_held_under(lease)) else {
            return Ok(());
        };
        self.item.called = Some(called.calls);
        let Some(limited) = called.limited else { return Ok(()) };
        let (environment, id) = (self.address.environment, self.address.task);
        let mut is_its = limited.model == task.model();
        if !is_its {
            let store = &*self.node.shard(id.partition()).store;
            let inputs = Box::pin(tables::inputs(store, environment, id)).await?;
            let judge = inputs.confidence.as_deref().and_then(|ask| ask.judge_model.as_deref());
            is_its = judge == Some(&limited.model);
        }
        // A worker speaks of no other models.
        if is_its {
            let wait = limited.retry_after_ms;
            let refusal = (Closure::RateLimited, wait);
            if let Some(models) = self.node.limits.models(environment) {
                models.refused(&limited.model, &bound, refusal);
            }
            self.node.keep_closure(environment, &limited.model);
        }
        Ok(())
    }

    /// The provider's own figures count for every task of the model.
    pub(super) fn reported(&self, lease: LeaseId, reported: &Reported) {
        let held = self.item.task.as_ref().filter(|task| task.is_held_under(lease));
        let models = self.node.limits.models(self.address.environment);
        if let (Some(task), Some(models)) = (held, models) {
            models.report(task.model(), *reported);
        }
    }
}
