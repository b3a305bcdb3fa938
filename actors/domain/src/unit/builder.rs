//! The unit of an execution: the events of several tasks, and everything that follows from them.
//!
//! ```text
//!   task ends ─▶ join ─▶ step ends ─▶ due steps ─▶ decide ─▶ new tasks ─┐
//!                  ▲                     ▲                              │
//!                  └── further events    └── until no step is due ◀─────┘     or 6 MiB are rendered
//! ```
//!
//! Deliberately absent: the reads. A due step may refer to outputs that the owner reads first.

use std::sync::Arc;

use super::{Change, Event, FrozenList, Items, Refusal, Sources, Unit};
use crate::Timestamp;
use crate::approval;
use crate::budget::Money;
use crate::execution::program::{Effort, Evaluation, List, Outputs, Program};
use crate::execution::signal::Sent;
use crate::execution::{
    self, Due, Execution, Expansion, ItemDecision, Report, Retry, Stage, StepDecision,
};
use crate::graph::StepSet;
use crate::id::{SignalId, TaskId};
use crate::machine::{Machine, Step};
use crate::plan::{self, StepSource, WaitSource};
use crate::render::MAX_PROMPT;
use crate::retry::Policy;
use crate::schema::Schema;
use crate::spending::Subject;
use crate::task::{Called, Ending, EndingCode, Origin, OutputFault, Request, State, Task};

/// A unit in the making, of an execution and its tasks.
#[derive(Debug)]
pub struct UnitBuilder<'p> {
    program: &'p Program,
    pub(super) unit: Unit,
    pub(super) before: Option<Box<Execution>>,
    /// Boxed, as the change that it becomes: a future that holds a builder moves as a whole.
    pub(super) step: Box<Step<Execution>>,
    changed: bool,
    /// The bytes that the decisions so far have rendered; a full evaluation counts 1 MiB besides.
    rendered: usize,
    /// The number of items that were decided.
    items: usize,
}

/// The most that one commit of an execution renders, in bytes, of the 16 MiB that an execution may take in
/// all; a commit takes about ten times as much in memory on its way to the disk.
pub const MAX_RENDERED: usize = 6 << 20;

/// The most that one step renders, in bytes: two texts, and a correction.
const MAX_STEP: usize = 2 * MAX_PROMPT + (64 << 10);

/// The most items of `forEach` steps that one commit dispatches: each is a task with rows of its own.
pub(super) const MAX_UNIT_ITEMS: usize = 128;

/// The share of a full evaluation in one commit, in bytes, so that a commit waits for few of them.
const FULL_EVALUATION: usize = 1 << 20;

impl<'p> UnitBuilder<'p> {
    /// A unit that begins at a durable state. A time limit that has passed by now comes before every other event,
    /// whether or not its timer has fired.
    #[must_use]
    pub fn of(program: &'p Program, state: &Execution, now: Timestamp) -> Self {
        let (before, step) = (Some(Box::new(state.clone())), Box::new(Step::to(state.clone())));
        let unit = Unit::at(now);
        let mut builder =
            Self { program, unit, before, step, changed: false, rendered: 0, items: 0 };
        if state.head.state == execution::State::Running {
            // Refused if no limit has passed.
            let _ = builder.happened(execution::Event::TimePassed);
        }
        builder
    }

    /// A unit that begins with the first step of a new execution.
    #[must_use]
    pub fn first(program: &'p Program, step: Step<Execution>, now: Timestamp) -> Self {
        Self {
            program,
            unit: Unit::at(now),
            before: None,
            step: Box::new(step),
            changed: true,
            rendered: 0,
            items: 0,
        }
    }

    /// The state so far.
    #[must_use]
    pub const fn state(&self) -> &Execution {
        &self.step.next
    }

    /// The instant of the unit.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.unit.now
    }

    /// The steps that wait for a signal of this name.
    #[must_use]
    pub fn waits_for(&self, signal: &str) -> StepSet {
        self.program.compiled.waits_for(signal)
    }

    /// Adds an event of the execution itself.
    ///
    /// # Errors
    /// The execution's refusal; nothing changes then.
    pub fn happened(&mut self, event: execution::Event) -> Result<(), execution::Refusal> {
        self.step.and_then(event, self.unit.now)?;
        self.changed = true;
        Ok(())
    }

    /// Adds an event of a task of this execution, with all that it changes. An output with a fault
    /// becomes the task's failure.
    ///
    /// # Errors
    /// The refusal of the task or of its approval, or that the execution does not wait for the reviewed task any
    /// more; nothing changes then.
    pub fn join(
        &mut self,
        items: Items<'_>,
        event: Event,
        fault: Option<OutputFault>,
        outputs: &mut Outputs,
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let number = items.task.and_then(|task| self.program.step_of(task));
        if event.is_decision() && number.is_some_and(|step| !self.waits_for_task(step, items.task))
        {
            return Err(approval::Refusal::Cancelled.into());
        }
        if let (Event::Reopen { .. }, Some(step), Some(task)) = (&event, number, items.task) {
            return self.reopen((step, task), items, event, outputs, sources);
        }
        let event = match &fault {
            Some(fault) => event.faulted(fault.clone()),
            None => event,
        };
        let text = match &event {
            Event::Task { output, .. } => output.clone(),
            Event::Approve { edit, .. } => edit.clone(),
            Event::Approval(_)
            | Event::ReviewTimePassed
            | Event::Extend { .. }
            | Event::Reopen { .. }
            | Event::Correct { .. }
            | Event::AskReview { .. }
            | Event::Reject { .. }
            | Event::EndHeld { .. } => None,
        };
        let from = self.unit.changes.len();
        let retry = self.unit.extend(items, event, sources).inspect_err(|_| {
            self.unit.changes.truncate(from);
        })?;
        self.announce_held(from, sources);
        let ended = self.unit.changes[from..].iter().filter_map(Change::task);
        let ended = ended.map(|step| &step.next).find(|task| task.is_finished());
        let (Some(number), Some(task)) = (number, ended) else { return Ok(()) };
        let (id, item) = (task.spec.id, task.spec.origin.item);
        let event = match fault {
            Some(fault) => {
                let report = report(task);
                Some(execution::Event::OutputMismatched { step: number, report, fault })
            }
            None => end_of(task, number, retry),
        };
        // The execution refuses if it waits for another task by now; then only the task changes.
        let completed = matches!(event, Some(execution::Event::StepCompleted { .. }));
        let counted = event.is_some_and(|event| self.happened(event).is_ok());
        match (counted && completed, text, item) {
            (true, Some(text), None) => outputs.keep(number, &text),
            (true, Some(text), Some(_)) => outputs.keep_item(id, &text),
            (false, _, _) | (true, None, _) => {}
        }
        Ok(())
    }

    /// Takes the decision on a step's output back, if nothing has used the output.
    fn reopen(
        &mut self,
        (step, task): (u16, &Task),
        items: Items<'_>,
        event: Event,
        outputs: &mut Outputs,
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let id = task.spec.id;
        let uses = self.step.next.uses(step, id, task.spec.origin.item);
        if !uses.is_empty() {
            return Err(Refusal::Used(uses));
        }
        let reopened = execution::Event::StepReopened { step, task: id };
        if self.step.next.transition(reopened.clone(), self.unit.now).is_err() {
            return Err(approval::Refusal::StillStopping.into());
        }
        let from = self.unit.changes.len();
        self.unit.extend(items, event, sources).inspect_err(|_| {
            self.unit.changes.truncate(from);
        })?;
        self.happened(reopened).expect("it was tried just before");
        outputs.forget(step);
        self.announce_held(from, sources);
        Ok(())
    }

    /// True if the step, or one of its items, waits for the end of the task.
    fn waits_for_task(&self, step: u16, task: Option<&Task>) -> bool {
        let state = &self.step.next;
        let running = state.head.state == execution::State::Running;
        running && task.is_some_and(|task| state.is_out(step, task.spec.id, task.spec.origin.item))
    }

    /// Adds a signal with its payload's text. A signal that replaces a kept one takes its identifier.
    ///
    /// # Errors
    /// The execution's refusal; nothing changes then.
    pub fn signalled(
        &mut self,
        mut sent: Sent,
        payload: String,
        outputs: &mut Outputs,
    ) -> Result<(), execution::Refusal> {
        sent.signal.id = self.step.next.kept_signal(sent.steps).unwrap_or(sent.signal.id);
        self.happened(execution::Event::Signalled(sent))?;
        let is_completed = |step: &u16| {
            self.step.next.step(*step).is_some_and(|row| row.stage == Stage::Completed)
        };
        for step in sent.steps.iter().filter(is_completed) {
            outputs.keep(step, &payload);
        }
        self.unit.changes.push(Change::Signal(sent.signal.id, payload));
        Ok(())
    }

    /// The payload of a signal that this unit has added.
    #[must_use]
    pub fn payload(&self, signal: SignalId) -> Option<&str> {
        self.unit.changes.iter().rev().find_map(|change| match change {
            Change::Signal(id, payload) if *id == signal => Some(payload.as_str()),
            Change::Signal(..)
            | Change::Task(..)
            | Change::NewTask(..)
            | Change::Approval(..)
            | Change::Execution(..)
            | Change::Delivery(_)
            | Change::Review(..) => None,
        })
    }

    /// The schema that the output of an event must match. The owner checks it
    /// ([`Event::answer_to_check`]) and gives the fault to [`Self::join`].
    #[must_use]
    pub fn schema_of(&self, task: &Task) -> Option<&'p Schema> {
        self.program.step_of(task).and_then(|step| self.program.compiled.schema_of(step))
    }

    /// The schema that the output of a step must match.
    #[must_use]
    pub fn schema_of_step(&self, step: u16) -> Option<&'p Schema> {
        self.program.compiled.schema_of(step)
    }

    /// The definition of a wait step.
    #[must_use]
    pub fn wait_source(&self, step: u16) -> Option<&'p WaitSource> {
        self.source(step)?.wait.as_ref()
    }

    /// The step as it is in the plan.
    #[must_use]
    pub fn source(&self, step: u16) -> Option<&'p StepSource> {
        self.program.compiled.plan.steps().get(usize::from(step)).map(plan::Step::source)
    }

    /// Adds a task's end that a unit of its own has committed.
    pub fn task_ended(&mut self, task: &Task) {
        if let Some(event) = self.program.step_of(task).and_then(|step| end_of(task, step, None)) {
            // The execution refuses if it heard of the end before.
            let _ = self.happened(event);
        }
    }

    /// The next step or item that is due; the owner reads [`Outputs::missing`] and
    /// [`Outputs::missing_list`], evaluates it and calls [`Self::decide`]. `None` also if another one
    /// might render more than [`MAX_RENDERED`] in all, or be more than 128 items: the rest then follows
    /// in the next unit.
    #[must_use]
    pub fn due(&self) -> Option<Due> {
        let has_room = self.rendered <= MAX_RENDERED - MAX_STEP && self.items < MAX_UNIT_ITEMS;
        self.step.next.next_due().filter(|_| has_room)
    }

    /// Evaluates a due step or item with brief effort; `None` if it needs [`Effort::Full`].
    #[must_use]
    pub fn evaluate(&self, due: Due, outputs: &Outputs) -> Option<Evaluation> {
        self.program.evaluate(due, &self.step.next, outputs, Effort::Brief)
    }

    /// Counts an evaluation with [`Effort::Full`], which the owner made elsewhere.
    pub const fn evaluated_fully(&mut self) {
        self.rendered = self.rendered.saturating_add(FULL_EVALUATION);
    }

    /// Decides a due step or item: its task is created, or it is skipped or failed, or its list is
    /// frozen.
    ///
    /// # Panics
    /// If it is not due.
    pub fn decide(
        &mut self,
        due: Due,
        evaluation: Evaluation,
        outputs: &mut Outputs,
        sources: &mut impl Sources,
    ) {
        let Due { step, item } = due;
        self.items += usize::from(item.is_some());
        let evaluation = self.within_budgets(evaluation, sources);
        let (request, retry) = match (evaluation, item) {
            (Evaluation::Await(timeout_ms), _) => {
                return self.is_decided(step, StepDecision::Await { timeout_ms });
            }
            (Evaluation::Skip, _) => return self.is_decided(step, StepDecision::Skip),
            (Evaluation::Fail(ending), None) => {
                return self.is_decided(step, StepDecision::Fail(ending));
            }
            (Evaluation::Fail(ending), Some(item)) => {
                return self.is_item_decided(step, item, ItemDecision::Fail(ending));
            }
            (Evaluation::Expand(list), _) => return self.expand(step, *list, outputs, sources),
            (Evaluation::Run(request, retry), _) => (request, retry),
        };
        let task = sources.task_id(self.unit.now);
        self.rendered += request.inputs.length();
        let called = Called::by(&request.model, request.routing.as_deref());
        let worst_cost = sources.worst_cost(called, &request.inputs, request.max_tokens);
        match item {
            Some(item) => {
                self.is_item_decided(step, item, ItemDecision::Run { task, worst_cost });
            }
            None => self.is_decided(step, StepDecision::Run { task, worst_cost }),
        }
        self.create(due, task, *request, retry);
    }

    /// Completes a due step or item with a copy of another execution's task, which its owner writes in
    /// the same commit; it needs no budget.
    ///
    /// # Panics
    /// If it is not due.
    pub fn take_over(
        &mut self,
        due: Due,
        (copy, saved): (&Task, Money),
        output: &str,
        outputs: &mut Outputs,
    ) {
        let Due { step, item } = due;
        let (task, worst_cost) = (copy.spec.id, Some(Money::ZERO));
        match item {
            Some(item) => self.is_item_decided(step, item, ItemDecision::Run { task, worst_cost }),
            None => self.is_decided(step, StepDecision::Run { task, worst_cost }),
        }
        self.rendered += output.len();
        let completed = execution::Event::StepCompleted { step, report: report(copy) };
        self.happened(completed).expect("a step that was dispatched can be completed");
        self.step.next.head.budget.save(saved);
        // The unit is not stored yet, so the output cannot be read.
        outputs.keep_item(task, output);
        if item.is_none() {
            outputs.keep(step, output);
        }
    }

    fn is_decided(&mut self, step: u16, decision: StepDecision) {
        let decided = execution::Event::Decided { step, decision };
        self.happened(decided).expect("a due step waits for a decision");
    }

    fn is_item_decided(&mut self, step: u16, item: u16, decision: ItemDecision) {
        let decided = execution::Event::ItemDecided { step, item, decision };
        self.happened(decided).expect("a due item waits for a decision");
    }

    /// Creates the task of a step or an item, unless the budget has no room for it.
    fn create(&mut self, due: Due, task: TaskId, request: Request, retry: Policy) {
        let Due { step, item } = due;
        let row = match item {
            Some(item) => self.step.next.item(step, item),
            None => self.step.next.step(step),
        };
        if row.and_then(|row| row.task) != Some(task) {
            return;
        }
        let spec = Arc::clone(&self.step.next.head.spec);
        let name = self.step.next.graph().name(step).to_owned();
        let template = spec.template.as_ref().map(|template| template.id.clone());
        let (step_of, trace) = (Some((spec.id, name)), spec.trace.clone());
        let rows = spec.row_of.as_ref().map(|of| of.batch);
        let origin = Origin { step: step_of, item, rows, template, trace, ..Origin::default() };
        let (mut created, inputs) = request.accepted(task, spec.account.clone(), origin);
        created.retry = retry;
        self.unit.create(created, inputs);
    }

    /// Freezes the list of a step, unless the budget has no room for its items.
    fn expand(&mut self, step: u16, list: List, outputs: &mut Outputs, sources: &mut impl Sources) {
        let List { number, items, concurrency, min_success, costs } = list;
        let worst_cost = costs.and_then(|costs| {
            costs.iter().try_fold(Money::ZERO, |sum, (items, request)| {
                let count = u16::try_from(items.len()).expect("maxItems is less");
                let called = Called::by(&request.model, request.routing.as_deref());
                let worst = sources.worst_cost(called, &request.inputs, request.max_tokens)?;
                Some(sum + worst.times(count))
            })
        });
        let count = u16::try_from(items.len()).expect("maxItems is less");
        let expansion = Expansion { items: count, concurrency, min_success, worst_cost };
        self.is_decided(step, StepDecision::Expand(expansion));
        if self.step.next.step(step).is_some_and(|row| row.map.is_some()) {
            let execution = self.step.next.head.spec.id;
            let text = serde_json::to_string(&items).expect("a list has a JSON form");
            self.rendered += text.len();
            outputs.keep_list(step, items);
            self.unit.lists.push(FrozenList { execution, number, items: text });
        }
    }

    /// The evaluation, unless a budget of many tasks refuses the step's task.
    fn within_budgets(&self, evaluation: Evaluation, sources: &mut impl Sources) -> Evaluation {
        let Evaluation::Run(request, _) = &evaluation else { return evaluation };
        let spec = &self.step.next.head.spec;
        let subject = Subject {
            tags: &request.tags,
            account: &spec.account,
            template: spec.template.as_ref().map(|template| template.id.as_str()),
            model: &request.model,
        };
        // Such a budget is asked again before each further call.
        let called = Called::by(&request.model, request.routing.as_deref()).once();
        let worst = sources.worst_cost(called, &request.inputs, request.max_tokens);
        match sources.budget_refusal(subject, worst) {
            Some(message) => Evaluation::Fail(Ending { code: EndingCode::BudgetExceeded, message }),
            None => evaluation,
        }
    }

    /// The finished unit.
    #[must_use]
    pub fn done(mut self, sources: &mut impl Sources) -> Unit {
        self.announce_end(sources);
        let Self { mut unit, before, step, changed, .. } = self;
        if changed {
            unit.changes.push(Change::Execution(before, step));
        }
        unit
    }
}

/// The report of a task to its execution.
fn report(task: &Task) -> Report {
    let result = task.result.as_deref();
    Report {
        task: task.spec.id,
        item: task.spec.origin.item,
        started_at: task.started_at,
        attempt: task.attempt,
        usage: result.map(|result| result.usage).unwrap_or_default(),
        confidence: result.and_then(|result| result.confidence),
        finish_reason: result.and_then(|result| result.finish_reason.clone()),
        fallback: task.fallback_reason().map(|reason| Box::new((task.model().to_owned(), reason))),
    }
}

/// The event that the end of a task is for its execution; `None` while the task has not ended.
fn end_of(task: &Task, step: u16, retried_as: Option<Retry>) -> Option<execution::Event> {
    use execution::Event as E;
    let report = report(task);
    let ending = || {
        task.error.clone().unwrap_or_else(|| Ending {
            code: EndingCode::InternalError,
            message: "the task ended without a reason".into(),
        })
    };
    match task.state {
        State::Completed { .. } => Some(E::StepCompleted { step, report }),
        State::Failed { .. } => Some(E::StepFailed { step, report, ending: ending() }),
        State::Rejected { .. } => {
            Some(E::StepRejected { step, report, ending: ending(), retried_as })
        }
        State::Cancelled { .. } => Some(E::StepCancelled { step, report }),
        State::Scheduled { .. }
        | State::Ready
        | State::Backoff { .. }
        | State::Running { .. }
        | State::AwaitingApproval { .. } => None,
    }
}
