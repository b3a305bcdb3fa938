//! The webhooks that a unit orders, for tasks and executions that name an address.

use super::{Change, Sources, Unit, UnitBuilder};
use crate::delivery::{Delivery, ExecutionWebhook, Notification, Webhook};
use crate::execution::{Execution, State as ExecutionState};
use crate::id::TaskId;
use crate::labels::{CallbackEvent, Labels};
use crate::machine::{Machine, Step};
use crate::task::{State, Task};

impl Unit {
    /// The webhook that announces the event of a task which names an address for it.
    pub(super) fn webhook(&self, step: &Step<Task>, sources: &mut impl Sources) -> Option<Change> {
        let spec = &step.next.spec;
        let url = spec.callback_url.as_ref()?;
        let event = announced(&step.next.state)?;
        let name = event.of_task();
        if !Labels::announces(spec.labels.as_deref(), event, || sources.announces(name)) {
            return None;
        }
        let (id, task) = (sources.delivery_id(self.now), spec.id);
        let notification =
            Notification::Webhook(Webhook { id, task, event: name, url: url.clone() });
        Some(Change::Delivery(Delivery::created(notification, self.now)))
    }
}

impl UnitBuilder<'_> {
    /// Orders the webhook of an output that waits for a reviewer since the change `from`.
    pub(super) fn announce_held(&mut self, from: usize, sources: &mut impl Sources) {
        let tasks = self.unit.changes[from..].iter().filter_map(Change::task);
        let is_held = |task: &&Task| matches!(task.state, State::AwaitingApproval { .. });
        let held = tasks.map(|step| &step.next).find(is_held).map(|task| task.spec.id);
        if held.is_some() {
            self.announce(CallbackEvent::AwaitingApproval, held, sources);
        }
    }

    /// Orders the webhook of an event of the execution, if it names an address and the event.
    fn announce(&mut self, event: CallbackEvent, held: Option<TaskId>, sources: &mut impl Sources) {
        let spec = &self.step.next.head.spec;
        let Some(url) = &spec.callback_url else { return };
        let by_default = || sources.announces(event.of_task());
        if Labels::announces(spec.labels.as_deref(), event, by_default) {
            let (id, execution, url) = (sources.delivery_id(self.unit.now), spec.id, url.clone());
            let webhook = ExecutionWebhook { id, execution, event, url, held };
            let created = Delivery::created(Notification::ExecutionWebhook(webhook), self.unit.now);
            self.unit.changes.push(Change::Delivery(created));
        }
    }

    /// Orders the webhook of the end of the execution's run, if that is part of the unit.
    pub(super) fn announce_end(&mut self, sources: &mut impl Sources) {
        let head = &self.step.next.head;
        let event = match head.state {
            ExecutionState::Completed { .. } => CallbackEvent::Completed,
            ExecutionState::Failed { .. } => CallbackEvent::Failed,
            ExecutionState::Cancelled { .. } => CallbackEvent::Cancelled,
            ExecutionState::Scheduled { .. } | ExecutionState::Running => return,
        };
        // A retry may end in the unit that begins it.
        let had_ended = |before: &Execution| before.is_finished() && before.head.run == head.run;
        if !self.before.as_deref().is_some_and(had_ended) {
            self.announce(event, None, sources);
        }
    }
}

/// The event that a webhook may announce of a task that comes to this state.
const fn announced(state: &State) -> Option<CallbackEvent> {
    match state {
        State::AwaitingApproval { .. } => Some(CallbackEvent::AwaitingApproval),
        State::Completed { .. } => Some(CallbackEvent::Completed),
        State::Failed { .. } => Some(CallbackEvent::Failed),
        State::Cancelled { .. } => Some(CallbackEvent::Cancelled),
        State::Rejected { .. } => Some(CallbackEvent::Rejected),
        State::Scheduled { .. } | State::Ready | State::Backoff { .. } | State::Running { .. } => {
            None
        }
    }
}
