//! One transition in the making: the next state, its facts and its effects.

mod items;

use std::time::Duration;

use super::Execution;
use super::event::{Effect, Fact, Report, Retry, StepDecision};
use super::head::{Cause, State};
use super::signal::Sent;
use super::step::{Stage, StepState, clipped};
use crate::Timestamp;
use crate::budget::{Fit, Money};
use crate::graph::StepSet;
use crate::id::TaskId;
use crate::machine::Step;
use crate::task::{Amendment, Ending, EndingCode, OutputFault};

pub(super) struct Transition {
    /// The steps that were due before, and those of which an item was.
    due: [StepSet; 2],
    /// The instant of the wake-up asked for before.
    woken_at: Option<Timestamp>,
    next: Execution,
    facts: Vec<Fact>,
    effects: Vec<Effect>,
    now: Timestamp,
}

impl Transition {
    pub(super) fn of(before: &Execution, now: Timestamp) -> Self {
        let mut next = before.clone();
        next.head.version += 1;
        let (due, woken_at) = (before.due_and_with_due_items(), before.wakes_at());
        Self { due, woken_at, next, facts: Vec::new(), effects: Vec::new(), now }
    }

    pub(super) fn decided(&mut self, step: u16, decision: StepDecision) {
        match decision {
            StepDecision::Run { task, worst_cost } => self.dispatched(step, task, worst_cost),
            StepDecision::Await { timeout_ms } => self.awaits(step, timeout_ms),
            StepDecision::Skip => self.ended_well(step, Stage::Skipped),
            StepDecision::Fail(ending) => self.ended_badly(step, Stage::Failed, ending),
            StepDecision::Expand(expansion) => self.expanded(step, expansion),
        }
    }

    fn dispatched(&mut self, step: u16, task: TaskId, worst: Option<Money>) {
        match self.fit(worst) {
            Fit::Now(reserved) => self.out(step, task, reserved),
            Fit::Later(worst) => self.hold(step, worst),
            Fit::Never | Fit::Unpriced => {
                let why = self.refusal(worst);
                self.over_budget(step, &why);
            }
        }
    }

    fn hold(&mut self, step: u16, worst: Money) {
        self.next.rows.at(step).held = Some(worst);
        self.next.tally.held.insert(step);
    }

    /// A wait begins, and is over at once if its signal came before.
    fn awaits(&mut self, step: u16, timeout_ms: Option<u64>) {
        let now = self.now;
        let row = self.enter(step, Stage::Awaiting);
        row.started_at = Some(now);
        if row.signal.is_some() {
            return self.ended_well(step, Stage::Completed);
        }
        row.until = timeout_ms.map(|ms| now.after(Duration::from_millis(ms)));
        self.facts.push(Fact::StepWaiting(step));
    }

    pub(super) fn signalled(&mut self, sent: &Sent) {
        for step in sent.steps {
            let Some(stage) = self.next.step(step).map(|row| row.stage) else { continue };
            // A retry may begin a wait again that has failed or was cancelled.
            if !matches!(stage, Stage::Completed | Stage::Skipped) {
                self.next.rows.at(step).signal = Some(Box::new(sent.signal));
            }
            if stage.is_open() {
                self.facts.push(Fact::StepSignalled(step));
            }
            if stage == Stage::Awaiting {
                self.ended_well(step, Stage::Completed);
            }
        }
    }

    /// Fails the waits whose time is over.
    pub(super) fn waits_over(&mut self) {
        for step in self.next.overdue(self.now) {
            // The failure of another may have ended it.
            if self.next.tally.at(Stage::Awaiting).contains(step) {
                let name = self.next.graph.name(step);
                let message = format!("step `{name}` got no signal within its timeoutMs");
                self.ended_badly(
                    step,
                    Stage::Failed,
                    Ending { code: EndingCode::TaskTimeout, message },
                );
            }
        }
    }

    fn fit(&self, worst: Option<Money>) -> Fit {
        self.next.head.budget.fit(self.next.head.spec.max_cost, worst)
    }

    pub(super) fn refusal(&self, worst: Option<Money>) -> String {
        self.next.head.budget.refusal(self.next.head.spec.max_cost, worst)
    }

    fn out(&mut self, step: u16, task: TaskId, reserved: Money) {
        self.next.head.budget.reserve(reserved);
        let row = self.enter(step, Stage::Dispatched);
        row.runs += 1;
        row.task = Some(task);
        row.reserved = reserved;
        self.effects.push(Effect::Watch { step, task });
    }

    fn over_budget(&mut self, step: u16, why: &str) {
        let message = format!("step `{}` {why}", self.next.graph.name(step));
        let ending = Ending { code: EndingCode::BudgetExceeded, message };
        self.ended_badly(step, Stage::Failed, ending);
    }

    pub(super) fn completed(&mut self, step: u16, report: &Report) {
        if let Some(item) = report.item {
            return self.item_completed(step, item, report);
        }
        self.record_attempt(step, report);
        self.ended_well(step, Stage::Completed);
    }

    pub(super) fn failed(&mut self, step: u16, report: &Report, ending: Ending) {
        if let Some(item) = report.item {
            return self.item_failed(step, item, report, ending);
        }
        self.record_attempt(step, report);
        self.ended_badly(step, Stage::Failed, ending);
    }

    /// The retry is a dispatch like any other. The retry's task is there already, so one that does not fit
    /// is stopped instead of held.
    pub(super) fn rejected(
        &mut self,
        step: u16,
        report: &Report,
        ending: Ending,
        retry: Option<Retry>,
    ) {
        if let Some(item) = report.item {
            return self.item_rejected((step, item), report, ending, retry);
        }
        self.record_attempt(step, report);
        let Some(Retry { task, worst_cost }) = retry else {
            return self.ended_badly(step, Stage::Rejected, ending);
        };
        if let Fit::Now(reserved) = self.fit(worst_cost) {
            self.facts.push(Fact::StepRetrying(step));
            return self.out(step, task, reserved);
        }
        self.stop(step, task);
        let why = format!("was to be tried again, but {}", self.refusal(worst_cost));
        self.over_budget(step, &why);
    }

    pub(super) fn cancelled_alone(&mut self, step: u16, report: &Report) {
        if let Some(item) = report.item {
            return self.item_cancelled(step, item, report);
        }
        self.record_attempt(step, report);
        let message = format!("the task of step `{}` was cancelled", self.next.graph.name(step));
        self.ended_badly(step, Stage::Cancelled, Ending { code: EndingCode::Cancelled, message });
    }

    pub(super) fn mismatched(&mut self, step: u16, report: &Report, fault: &OutputFault) {
        if let Some(item) = report.item {
            return self.item_mismatched(step, item, report, fault);
        }
        let again = self.next.step(step).and_then(|row| row.amendment().after(fault));
        self.record_attempt(step, report);
        if let Some(Amendment { mismatch, max_tokens }) = again {
            self.facts.push(Fact::StepRetrying(step));
            let row = self.enter(step, Stage::Ready);
            row.correction = mismatch;
            row.max_tokens = max_tokens;
        } else {
            self.ended_badly(step, Stage::Failed, fault.ending());
        }
    }

    /// The step's task is held again, with the same output: the steps behind it wait for it, as they did before it
    /// ended.
    pub(super) fn reopened(&mut self, step: u16, task: TaskId) {
        let behind = self.next.graph.downstream(step);
        for ready in behind.intersection(self.next.tally.at(Stage::Ready)) {
            self.enter(ready, Stage::Waiting);
        }
        let row = self.enter(step, Stage::Dispatched);
        row.completed_at = None;
        row.error = None;
        row.counted = Some(task);
        let ended_badly = self.next.tally.badly().into_iter();
        let roots: StepSet = ended_badly.filter(|step| !self.was_cancelled_behind(*step)).collect();
        let mut lost = StepSet::EMPTY;
        roots.into_iter().for_each(|root| lost = lost.union(&self.next.graph.downstream(root)));
        for cancelled in behind.difference(&lost).intersection(self.next.tally.at(Stage::Cancelled))
        {
            if self.was_cancelled_behind(cancelled) {
                self.enter(cancelled, Stage::Waiting);
                let row = self.next.rows.at(cancelled);
                *row = row.again();
            }
        }
        if self.next.head.error.as_ref().is_some_and(|cause| cause.step == Some(step)) {
            self.next.head.error = self.first_failure(roots);
        }
        self.effects.push(Effect::Watch { step, task });
        self.facts.push(Fact::Progressed);
    }

    /// True if the step was cancelled because a step before it did not end well.
    fn was_cancelled_behind(&self, step: u16) -> bool {
        let row = self.next.step(step).filter(|row| row.stage == Stage::Cancelled);
        let error = row.and_then(|row| row.error.as_ref());
        error.is_some_and(|error| error.code == EndingCode::DependencyFailed)
    }

    /// The earliest failure of these steps.
    fn first_failure(&self, steps: StepSet) -> Option<Cause> {
        let rows = steps.into_iter().filter_map(|step| Some((step, self.next.step(step)?)));
        let first = rows.min_by_key(|(_, row)| row.completed_at);
        first.and_then(|(step, row)| Some(Cause { ending: row.error.clone()?, step: Some(step) }))
    }

    /// The end of a task that the step had released: only its cost still counts.
    pub(super) fn swept(&mut self, step: u16, report: &Report, retry: Option<Retry>) {
        if let Some(item) = report.item {
            return self.item_swept(step, item, report, retry);
        }
        let row = self.next.rows.at(step);
        let usage = row.uncounted(report.task, report.usage);
        row.usage += usage;
        self.next.head.budget.charge(usage);
        let row = self.next.rows.at(step);
        row.stopping.retain(|task| *task != report.task);
        if row.stopping.is_empty() {
            self.next.tally.stopping.remove(step);
        }
        if let Some(retry) = retry {
            self.stop(step, retry.task);
        }
    }

    /// Nothing runs from here on.
    pub(super) fn called_off(&mut self, code: EndingCode, message: &str, state: State) {
        let ending = Ending { code, message: message.into() };
        self.next.head.error = Some(Cause { ending: ending.clone(), step: None });
        self.cancel_open(&ending);
        self.close(state);
    }

    pub(super) fn retried(&mut self) {
        let head = &mut self.next.head;
        if !head.has_begun() {
            head.started_at = self.now;
        }
        head.state = State::Running;
        head.retried_at = Some(self.now);
        head.run += 1;
        head.error = None;
        for step in self.next.tally.badly() {
            self.enter(step, Stage::Waiting);
            let row = self.next.rows.at(step);
            *row = row.again();
            if self.next.items.contains_key(&step) {
                self.reopen_items(step);
            }
        }
        self.started();
    }

    /// The execution waits for its beginning.
    pub(super) fn scheduled(&mut self, at: Timestamp) {
        self.facts.push(Fact::Scheduled);
        self.next.head.state = State::Scheduled { at };
    }

    /// The instant at which the execution begins has come.
    pub(super) fn begun(&mut self) {
        self.next.head.state = State::Running;
        self.next.head.started_at = self.now;
        self.started();
    }

    /// Arms the deadline and opens the steps without dependencies.
    pub(super) fn started(&mut self) {
        self.facts.push(Fact::Started);
        let head = &mut self.next.head;
        head.deadline = head.spec.timeout_ms.map(|ms| self.now.after(Duration::from_millis(ms)));
        self.open(*self.next.tally.at(Stage::Waiting));
    }

    /// The transition, with its consequences: the end of the whole, and orders for
    /// the steps that have become due.
    pub(super) fn done(mut self) -> Step<Execution> {
        if self.next.head.state == State::Running {
            if self.next.tally.open().is_empty() {
                let at = self.now;
                let well = self.next.tally.badly().is_empty();
                self.close(if well { State::Completed { at } } else { State::Failed { at } });
            } else if self.facts.iter().any(|fact| ends_a_step(*fact)) {
                self.facts.push(Fact::Progressed);
            }
        }
        let wakes_at = self.next.wakes_at();
        if wakes_at != self.woken_at {
            self.effects.push(wakes_at.map_or(Effect::ForgetWake, Effect::WakeAt));
        }
        let [steps, items] = self.next.due_and_with_due_items();
        let fresh = steps.difference(&self.due[0]).union(&items.difference(&self.due[1]));
        self.effects.extend(fresh.iter().map(Effect::Decide));
        Step { next: self.next, facts: self.facts, effects: self.effects }
    }

    /// Moves the step on and ends its waits.
    fn enter(&mut self, step: u16, stage: Stage) -> &mut StepState {
        let row = self.next.rows.at(step);
        self.next.tally.moved(step, row.stage, stage);
        self.next.tally.held.remove(step);
        row.stage = stage;
        row.held = None;
        row.until = None;
        row
    }

    /// Makes the steps in `waiting` ready whose dependencies all ended well.
    fn open(&mut self, waiting: StepSet) {
        let well = self.next.tally.well();
        for step in waiting {
            if self.next.graph.dependencies(step).is_subset(&well) {
                self.enter(step, Stage::Ready);
            }
        }
    }

    /// The step's task is over: its reservation gives way to its real cost.
    fn record_attempt(&mut self, step: u16, report: &Report) {
        let row = self.next.rows.at(step);
        row.started_at = report.started_at;
        row.attempt = report.attempt;
        row.confidence = report.confidence;
        row.finish_reason.clone_from(&report.finish_reason);
        row.fallback.clone_from(&report.fallback);
        let usage = row.uncounted(report.task, report.usage);
        row.usage += usage;
        let reserved = std::mem::take(&mut row.reserved);
        self.next.head.budget.release(reserved);
        self.next.head.budget.charge(usage);
    }

    fn ended_well(&mut self, step: u16, stage: Stage) {
        let now = self.now;
        let row = self.enter(step, stage);
        row.completed_at = Some(now);
        row.correction = None;
        row.max_tokens = None;
        let skipped = stage == Stage::Skipped;
        let fact = if skipped { Fact::StepSkipped(step) } else { Fact::StepCompleted(step) };
        self.facts.push(fact);
        let waiting = self.next.tally.at(Stage::Waiting);
        self.open(self.next.graph.dependents(step).intersection(waiting));
    }

    fn ended_badly(&mut self, step: u16, stage: Stage, ending: Ending) {
        let ending = Ending { message: clipped(ending.message), ..ending };
        let cause = Cause { ending: ending.clone(), step: Some(step) };
        self.next.head.error.get_or_insert(cause);
        self.close_step(step, stage, ending);
        let name = self.next.graph.name(step);
        let did = match stage {
            Stage::Cancelled => "was cancelled",
            Stage::Rejected => "was rejected",
            Stage::Waiting
            | Stage::Ready
            | Stage::Dispatched
            | Stage::Awaiting
            | Stage::Completed
            | Stage::Skipped
            | Stage::Failed => "failed",
        };
        let behind = clipped(format!("step `{name}`, which is upstream, {did}"));
        let others = clipped(format!("step `{name}` {did}, which cancels all else"));
        let waiting = self.next.tally.at(Stage::Waiting);
        let ending = Ending { code: EndingCode::DependencyFailed, message: behind };
        for step in self.next.graph.downstream(step).intersection(waiting) {
            self.close_step(step, Stage::Cancelled, ending.clone());
        }
        if self.next.head.spec.fail_fast {
            self.cancel_open(&Ending { code: EndingCode::Cancelled, message: others });
        }
    }

    fn cancel_open(&mut self, ending: &Ending) {
        for step in self.next.tally.open() {
            if let Some(task) = self.next.current(step) {
                self.stop(step, task);
                let reserved = std::mem::take(&mut self.next.rows.at(step).reserved);
                self.next.head.budget.release(reserved);
            }
            self.stop_items(step, ending);
            self.close_step(step, Stage::Cancelled, ending.clone());
        }
    }

    fn close_step(&mut self, step: u16, stage: Stage, ending: Ending) {
        let now = self.now;
        let row = self.enter(step, stage);
        row.completed_at = Some(now);
        row.correction = None;
        row.max_tokens = None;
        row.error = Some(ending);
        let cancelled = stage == Stage::Cancelled;
        let fact = if cancelled { Fact::StepCancelled(step) } else { Fact::StepFailed(step) };
        self.facts.push(fact);
    }

    /// Lets go of a task, and remembers it until its end is known.
    fn stop(&mut self, step: u16, task: TaskId) {
        self.next.rows.at(step).stopping.push(task);
        self.next.tally.stopping.insert(step);
        self.effects.push(Effect::CancelTask { step, task });
    }

    fn close(&mut self, state: State) {
        self.next.head.state = state;
        self.facts.push(match state {
            State::Scheduled { .. } => Fact::Scheduled,
            State::Running => Fact::Progressed,
            State::Completed { .. } => Fact::Completed,
            State::Failed { .. } => Fact::Failed,
            State::Cancelled { .. } => Fact::Cancelled,
        });
    }
}

const fn ends_a_step(fact: Fact) -> bool {
    match fact {
        Fact::StepSkipped(_)
        | Fact::StepCompleted(_)
        | Fact::StepFailed(_)
        | Fact::StepCancelled(_) => true,
        Fact::Scheduled
        | Fact::Started
        | Fact::Progressed
        | Fact::Completed
        | Fact::Failed
        | Fact::Cancelled
        | Fact::StepRetrying(_)
        | Fact::ItemRetrying(..)
        | Fact::ItemCompleted(..)
        | Fact::ItemFailed(..)
        | Fact::ItemCancelled(..)
        | Fact::StepWaiting(_)
        | Fact::StepSignalled(_) => false,
    }
}
