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

use super::{Change, Event, Items, Refusal, Sources, Unit};
use crate::Timestamp;
use crate::execution::program::{Effort, Evaluation, Outputs, Program};
use crate::execution::{self, Execution, Report, Retry, StepDecision};
use crate::machine::{Machine, Step};
use crate::render::MAX_PROMPT;
use crate::schema::Schema;
use crate::task::{Ending, EndingCode, Origin, OutputFault, State, Task};

/// A unit in the making, of an execution and its tasks.
#[derive(Debug)]
pub struct Joint<'p> {
    program: &'p Program,
    unit: Unit,
    before: Option<Box<Execution>>,
    step: Step<Execution>,
    changed: bool,
    /// The bytes that the decisions so far have rendered; a full evaluation counts 1 MiB besides.
    rendered: usize,
}

/// The most that one commit of an execution renders, in bytes. PROTOCOL.md 4 allows 16 MiB; a commit takes
/// about ten times as much in memory on its way to the disk.
pub const MAX_RENDERED: usize = 6 << 20;

/// The most that one step renders, in bytes: two texts, and a correction.
const MAX_STEP: usize = 2 * MAX_PROMPT + (64 << 10);

/// The share of a full evaluation in what one commit renders, so that a commit waits for few of them.
const FULL_EVALUATION: usize = 1 << 20;

impl<'p> Joint<'p> {
    /// A unit that begins at a durable state.
    #[must_use]
    pub fn of(program: &'p Program, state: &Execution, now: Timestamp) -> Self {
        let (before, step) = (Some(Box::new(state.clone())), Step::to(state.clone()));
        Self { program, unit: Unit::at(now), before, step, changed: false, rendered: 0 }
    }

    /// A unit that begins with the first step of a new execution.
    #[must_use]
    pub fn first(program: &'p Program, step: Step<Execution>, now: Timestamp) -> Self {
        Self { program, unit: Unit::at(now), before: None, step, changed: true, rendered: 0 }
    }

    /// The state so far.
    #[must_use]
    pub const fn state(&self) -> &Execution {
        &self.step.next
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
    /// The refusal of the task or of its approval; nothing changes then.
    pub fn join(
        &mut self,
        items: Items<'_>,
        event: Event,
        fault: Option<OutputFault>,
        outputs: &mut Outputs,
        sources: &mut impl Sources,
    ) -> Result<(), Refusal> {
        let number = items.task.and_then(|task| self.program.step_of(task));
        let event = match &fault {
            Some(fault) => event.faulted(fault.clone()),
            None => event,
        };
        let text = match &event {
            Event::Task { output, .. } => output.clone(),
            Event::Approve { edit, .. } => edit.clone(),
            Event::Approval(_)
            | Event::ReviewTimePassed
            | Event::Reject { .. }
            | Event::EndHeld { .. } => None,
        };
        let from = self.unit.changes.len();
        let retry = self.unit.extend(items, event, sources).inspect_err(|_| {
            self.unit.changes.truncate(from);
        })?;
        let ended = self.unit.changes[from..].iter().filter_map(Change::task);
        let ended = ended.map(|step| &step.next).find(|task| task.is_finished());
        let (Some(number), Some(task)) = (number, ended) else { return Ok(()) };
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
        if let (true, true, Some(text)) = (counted, completed, text) {
            outputs.keep(number, &text);
        }
        Ok(())
    }

    /// The schema that the output of an event must match. The owner checks it
    /// ([`Event::answer_to_check`]) and gives the fault to [`Self::join`].
    #[must_use]
    pub fn schema_of(&self, task: &Task) -> Option<&'p Schema> {
        self.program.step_of(task).and_then(|step| self.program.compiled.schema_of(step))
    }

    /// Adds a task's end that a unit of its own has committed.
    pub fn task_ended(&mut self, task: &Task) {
        if let Some(event) = self.program.step_of(task).and_then(|step| end_of(task, step, None)) {
            // The execution refuses if it was told before.
            let _ = self.happened(event);
        }
    }

    /// The next step that is due; the owner reads [`Outputs::missing`], evaluates the step and calls
    /// [`Self::decide`]. `None` also if another step might render more than [`MAX_RENDERED`] in all:
    /// the steps that are due then follow in the next unit.
    #[must_use]
    pub fn due(&self) -> Option<u16> {
        let has_room = self.rendered <= MAX_RENDERED - MAX_STEP;
        self.step.next.due().first().filter(|_| has_room)
    }

    /// Evaluates a due step with brief effort; `None` if it needs [`Effort::Full`].
    #[must_use]
    pub fn evaluate(&self, step: u16, outputs: &Outputs) -> Option<Evaluation> {
        self.program.evaluate(step, &self.step.next, outputs, Effort::Brief)
    }

    /// Counts an evaluation with [`Effort::Full`], which the owner made elsewhere.
    pub const fn evaluated_fully(&mut self) {
        self.rendered = self.rendered.saturating_add(FULL_EVALUATION);
    }

    /// Decides a due step: its task is created, or the step is skipped or failed.
    ///
    /// # Panics
    /// If the step is not due.
    pub fn decide(&mut self, step: u16, evaluation: Evaluation, sources: &mut impl Sources) {
        let (decision, request) = match evaluation {
            Evaluation::Skip => (StepDecision::Skip, None),
            Evaluation::Fail(ending) => (StepDecision::Fail(ending), None),
            Evaluation::Run(request, retry) => {
                let task = sources.task_id(self.unit.now);
                self.rendered += request.inputs.length();
                let worst_cost =
                    sources.worst_cost(&request.model, &request.inputs, request.max_tokens);
                (StepDecision::Run { task, worst_cost }, Some((task, request, retry)))
            }
        };
        let decided = execution::Event::Decided { step, decision };
        self.happened(decided).expect("a due step waits for a decision");
        let Some((task, request, retry)) = request else { return };
        // The budget may have no room for it.
        if self.step.next.step(step).and_then(|row| row.task) != Some(task) {
            return;
        }
        let spec = Arc::clone(&self.step.next.head.spec);
        let name = self.step.next.graph().name(step).to_owned();
        let template = spec.template.as_ref().map(|template| template.id.clone());
        let (step_of, trace) = (Some((spec.id, name)), spec.trace.clone());
        let origin = Origin { step: step_of, template, trace, ..Origin::default() };
        let (mut created, inputs) =
            request.accepted(task, spec.account.clone(), spec.concurrent, origin);
        created.retry = retry;
        self.unit.create(created, inputs);
    }

    /// The finished unit.
    #[must_use]
    pub fn done(self) -> Unit {
        let Self { mut unit, before, step, changed, .. } = self;
        if changed {
            unit.changes.push(Change::Execution(before, Box::new(step)));
        }
        unit
    }
}

/// The report of a task to its execution.
fn report(task: &Task) -> Report {
    let result = task.result.as_ref();
    Report {
        task: task.spec.id,
        started_at: task.started_at,
        attempt: task.attempt,
        usage: result.map(|result| result.usage).unwrap_or_default(),
        confidence: result.and_then(|result| result.confidence),
        finish_reason: result.and_then(|result| result.finish_reason.clone()),
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
        State::Ready
        | State::Backoff { .. }
        | State::Running { .. }
        | State::AwaitingApproval { .. } => None,
    }
}
