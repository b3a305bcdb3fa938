//! The steps of a transition that concern the items of a `forEach` step.

use std::sync::Arc;

use super::super::event::{Effect, Fact, ItemDecision, Report, Retry};
use super::super::items::{Expansion, Items, MapState};
use super::super::step::{Stage, StepState, clipped};
use super::Transition;
use crate::budget::{Fit, Money};
use crate::id::TaskId;
use crate::task::{Amendment, Ending, EndingCode, OutputFault};

impl Transition {
    /// The step has its list: the worst-case cost of its items is reserved before the first one runs.
    pub(super) fn expanded(&mut self, step: u16, expansion: Expansion) {
        match self.fit(expansion.worst_cost) {
            Fit::Now(reserved) => self.expand(step, expansion, reserved),
            Fit::Later(worst) => self.hold(step, worst),
            Fit::Never | Fit::Unpriced => {
                let why = self.refusal(expansion.worst_cost);
                self.over_budget(step, &why);
            }
        }
    }

    fn expand(&mut self, step: u16, expansion: Expansion, reserved: Money) {
        self.next.head.budget.reserve(reserved);
        let now = self.now;
        let Expansion { items, concurrency, min_success, .. } = expansion;
        let row = self.enter(step, Stage::Dispatched);
        row.runs += 1;
        row.started_at = Some(now);
        row.reserved = reserved;
        let map = MapState { items, concurrency, min_success, ..MapState::default() };
        row.map = Some(Box::new(map));
        self.next.items.insert(step, Arc::new(Items::fresh(items)));
        self.go_on(step, None);
    }

    pub(in super::super) fn item_decided(&mut self, step: u16, item: u16, decision: ItemDecision) {
        let (task, worst) = match decision {
            ItemDecision::Run { task, worst_cost } => (task, worst_cost),
            ItemDecision::Fail(ending) => {
                return self.item_ended_badly(step, item, Stage::Failed, ending);
            }
        };
        match self.next.fit_item(step, worst) {
            (share, Fit::Now(reserved)) => {
                self.give_back(step, share);
                self.item_out(step, item, task, reserved);
            }
            (_, Fit::Later(worst)) => {
                let items = self.items(step);
                items.rows.at(item).held = Some(worst);
                items.tally.held.insert(item);
            }
            (_, Fit::Never | Fit::Unpriced) => {
                let why = self.refusal(worst);
                self.item_over_budget(step, item, &why);
            }
        }
    }

    pub(super) fn item_completed(&mut self, step: u16, item: u16, report: &Report) {
        self.record_item_attempt(step, item, report);
        let now = self.now;
        let row = self.enter_item(step, item, Stage::Completed);
        row.completed_at = Some(now);
        row.correction = None;
        self.facts.push(Fact::ItemCompleted(step, item));
        self.go_on(step, None);
    }

    pub(super) fn item_failed(&mut self, step: u16, item: u16, report: &Report, ending: Ending) {
        self.record_item_attempt(step, item, report);
        self.item_ended_badly(step, item, Stage::Failed, ending);
    }

    pub(super) fn item_rejected(
        &mut self,
        (step, item): (u16, u16),
        report: &Report,
        ending: Ending,
        retry: Option<Retry>,
    ) {
        self.record_item_attempt(step, item, report);
        let Some(Retry { task, worst_cost }) = retry else {
            return self.item_ended_badly(step, item, Stage::Rejected, ending);
        };
        if let (share, Fit::Now(reserved)) = self.next.fit_item(step, worst_cost) {
            self.give_back(step, share);
            self.facts.push(Fact::ItemRetrying(step, item));
            return self.item_out(step, item, task, reserved);
        }
        self.stop_item_task(step, item, task);
        let why = format!("was to be tried again, but {}", self.refusal(worst_cost));
        self.item_over_budget(step, item, &why);
    }

    pub(super) fn item_cancelled(&mut self, step: u16, item: u16, report: &Report) {
        self.record_item_attempt(step, item, report);
        let message = "its task was cancelled".to_owned();
        let ending = Ending { code: EndingCode::Cancelled, message };
        self.item_ended_badly(step, item, Stage::Cancelled, ending);
    }

    pub(super) fn item_mismatched(
        &mut self,
        step: u16,
        item: u16,
        report: &Report,
        fault: &OutputFault,
    ) {
        let again = self.next.item(step, item).and_then(|row| row.amendment().after(fault));
        self.record_item_attempt(step, item, report);
        if let Some(Amendment { mismatch, max_tokens }) = again {
            self.facts.push(Fact::ItemRetrying(step, item));
            let row = self.enter_item(step, item, Stage::Waiting);
            row.correction = mismatch;
            row.max_tokens = max_tokens;
            self.go_on(step, None);
        } else {
            self.item_ended_badly(step, item, Stage::Failed, fault.ending());
        }
    }

    /// The end of a task that the item had let go of: only its cost still counts.
    pub(super) fn item_swept(
        &mut self,
        step: u16,
        item: u16,
        report: &Report,
        retry: Option<Retry>,
    ) {
        self.next.head.budget.charge(report.usage);
        self.next.rows.at(step).usage += report.usage;
        let items = self.items(step);
        let row = items.rows.at(item);
        row.usage += report.usage;
        row.stopping.retain(|task| *task != report.task);
        if row.stopping.is_empty() {
            items.tally.stopping.remove(item);
        }
        if let Some(retry) = retry {
            self.stop_item_task(step, item, retry.task);
        }
        self.count_items(step);
    }

    /// Releases the dispatched items of a step that ends, and the reservation for the others.
    pub(super) fn stop_items(&mut self, step: u16, ending: &Ending) {
        let Some(items) = self.next.items.get(&step) else { return };
        for item in *items.tally.at(Stage::Dispatched) {
            if let Some(task) = self.next.current_item(step, item) {
                self.stop_item_task(step, item, task);
            }
            let now = self.now;
            let row = self.enter_item(step, item, Stage::Cancelled);
            row.completed_at = Some(now);
            row.correction = None;
            row.error = Some(ending.clone());
            let reserved = std::mem::take(&mut row.reserved);
            self.next.head.budget.release(reserved);
            self.facts.push(Fact::ItemCancelled(step, item));
        }
        let items = self.items(step);
        for item in items.tally.held {
            items.rows.at(item).held = None;
            items.tally.held.remove(item);
        }
        self.close_items(step);
    }

    /// A step that ended badly goes on with its list: items that did not complete run again.
    pub(super) fn reopen_items(&mut self, step: u16) {
        let now = self.now;
        for item in self.items(step).tally.badly() {
            self.enter_item(step, item, Stage::Waiting);
            let row = self.items(step).rows.at(item);
            *row = row.again();
        }
        let row = self.enter(step, Stage::Dispatched);
        row.runs += 1;
        row.started_at = Some(now);
        self.count_items(step);
    }

    fn items(&mut self, step: u16) -> &mut Items {
        Arc::make_mut(self.next.items.get_mut(&step).expect("the step has items"))
    }

    /// Moves the item on and ends its waits.
    fn enter_item(&mut self, step: u16, item: u16, stage: Stage) -> &mut StepState {
        let items = self.items(step);
        let row = items.rows.at(item);
        items.tally.moved(item, row.stage, stage);
        items.tally.held.remove(item);
        row.stage = stage;
        row.held = None;
        row
    }

    fn item_out(&mut self, step: u16, item: u16, task: TaskId, reserved: Money) {
        self.next.head.budget.reserve(reserved);
        let row = self.enter_item(step, item, Stage::Dispatched);
        row.runs += 1;
        row.task = Some(task);
        row.reserved = reserved;
        self.effects.push(Effect::WatchItem { step, item, task });
        self.count_items(step);
    }

    /// Releases a part of the reservation for all items of a step.
    fn give_back(&mut self, step: u16, share: Money) {
        self.next.head.budget.release(share);
        if !share.is_zero() {
            self.next.rows.at(step).reserved -= share;
        }
    }

    /// The item's task is over: its reservation gives way to its real cost.
    fn record_item_attempt(&mut self, step: u16, item: u16, report: &Report) {
        self.next.rows.at(step).usage += report.usage;
        let row = self.items(step).rows.at(item);
        row.started_at = report.started_at;
        row.attempt = report.attempt;
        row.confidence = report.confidence;
        row.finish_reason.clone_from(&report.finish_reason);
        row.usage += report.usage;
        let reserved = std::mem::take(&mut row.reserved);
        self.next.head.budget.release(reserved);
        self.next.head.budget.charge(report.usage);
    }

    fn item_over_budget(&mut self, step: u16, item: u16, why: &str) {
        let ending = Ending { code: EndingCode::BudgetExceeded, message: why.to_owned() };
        self.item_ended_badly(step, item, Stage::Failed, ending);
    }

    fn item_ended_badly(&mut self, step: u16, item: u16, stage: Stage, ending: Ending) {
        let ending = Ending { message: clipped(ending.message), ..ending };
        let now = self.now;
        let row = self.enter_item(step, item, stage);
        row.completed_at = Some(now);
        row.correction = None;
        row.error = Some(ending.clone());
        let cancelled = stage == Stage::Cancelled;
        self.facts.push(if cancelled {
            Fact::ItemCancelled(step, item)
        } else {
            Fact::ItemFailed(step, item)
        });
        self.go_on(step, Some((item, stage, ending)));
    }

    /// Ends the step once its items say so; `last` is an item that has just ended badly.
    fn go_on(&mut self, step: u16, last: Option<(u16, Stage, Ending)>) {
        self.count_items(step);
        let map = self.next.step(step).and_then(|row| row.map.as_deref().copied());
        let map = map.expect("the step has items");
        if let (false, Some((item, stage, ending))) = (map.can_complete(), last) {
            let mut message = format!("item {item}: {}", ending.message);
            if map.min_success < map.items {
                let MapState { min_success, items, .. } = map;
                let left = items - map.bad();
                message = format!(
                    "at most {left} of {items} items can complete, and minSuccess asks for \
                     {min_success}; {message}"
                );
            }
            let others = clipped(format!("item {item} ended the step"));
            self.stop_items(step, &Ending { code: EndingCode::Cancelled, message: others });
            return self.ended_badly(step, stage, Ending { code: ending.code, message });
        }
        if map.is_done() {
            self.close_items(step);
            self.ended_well(step, Stage::Completed);
        }
    }

    /// Nothing is set aside for the items any more.
    fn close_items(&mut self, step: u16) {
        let reserved = std::mem::take(&mut self.next.rows.at(step).reserved);
        self.next.head.budget.release(reserved);
        self.count_items(step);
    }

    fn stop_item_task(&mut self, step: u16, item: u16, task: TaskId) {
        let items = self.items(step);
        items.rows.at(item).stopping.push(task);
        items.tally.stopping.insert(item);
        self.effects.push(Effect::CancelTask { step, task });
        self.next.tally.stopping.insert(step);
    }

    /// Writes the counts into the step's row.
    fn count_items(&mut self, step: u16) {
        let Some(items) = self.next.items.get(&step) else { return };
        let row = self.next.rows.at(step);
        if let Some(map) = &mut row.map {
            items.count(map);
        }
        if items.tally.stopping.is_empty() && row.stopping.is_empty() {
            self.next.tally.stopping.remove(step);
        } else {
            self.next.tally.stopping.insert(step);
        }
    }
}
