//! One commit of an execution in the making: what happened, what follows from it, and all rows.
//!
//! Used by the execution's actor, and by whoever starts one. Deliberately absent: the commit itself,
//! and the rules, which the machines decide.

use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::execution::{Event, Execution, Refusal, Verdict};
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::retry::Jitter;
use callboard_domain::task::{self, Ending, EndingCode, Failure, Inputs, Origin, Task};
use callboard_store::{Error, Op};

use crate::durable::Persist;
use crate::execution::{end_of, report};
use crate::node::Node;
use crate::script::{Decision, Outputs, Script};
use crate::shard::Address;
use crate::tables::{executions, first_rows};
use crate::task::Alongside;

/// A task that was made and is yet to become durable.
pub(crate) struct Born {
    pub(crate) environment: Environment,
    pub(crate) step: Step<Task>,
    pub(crate) inputs: Inputs,
}

/// A task that is remembered, to be sent on its way once it is durable.
pub(crate) struct Departing {
    pub(crate) address: Address,
    pub(crate) task: Task,
    pub(crate) effects: Vec<task::Effect>,
}

/// What a commit comes to so far.
pub(crate) struct Advance<'a> {
    node: &'a Node,
    environment: Environment,
    script: &'a Script,
    now: Timestamp,
    step: Step<Execution>,
    happened: bool,
    rows: Vec<Op>,
    born: Vec<Born>,
}

impl<'a> Advance<'a> {
    /// On from a state that is durable.
    pub(crate) fn from(
        node: &'a Node,
        environment: Environment,
        script: &'a Script,
        state: Execution,
    ) -> Self {
        let step = Step::to(state);
        let (rows, born) = (Vec::new(), Vec::new());
        Self { node, environment, script, now: node.now(), step, happened: false, rows, born }
    }

    /// On from the first step of a fresh execution.
    pub(crate) fn first(
        node: &'a Node,
        environment: Environment,
        script: &'a Script,
        step: Step<Execution>,
    ) -> Self {
        let (rows, born) = (Vec::new(), Vec::new());
        Self { node, environment, script, now: node.now(), step, happened: true, rows, born }
    }

    /// Something happened to the execution.
    pub(crate) fn happened(&mut self, event: Event) -> Result<(), Refusal> {
        self.step.and_then(event, self.now)?;
        self.happened = true;
        Ok(())
    }

    /// A task takes its last step, or one whose output is checked first; returns what it becomes.
    pub(crate) fn task_ends(
        &mut self,
        task: &Task,
        event: task::Event,
        output: Option<String>,
        along: Alongside,
        outputs: &mut Outputs,
    ) -> Result<(Task, Vec<task::Effect>), task::Refusal> {
        let step = self.script.step_of(task);
        let mismatch = match (&event, step, &output) {
            (task::Event::Completed { .. }, Some(step), Some(output)) if task.spec.checked => {
                self.script.check(step, output).err()
            }
            _ => None,
        };
        let (taken, output) = match (&mismatch, event) {
            (Some(message), task::Event::Completed { lease, completion, .. }) => {
                let mut taken = task.transition(invalid(lease, message), self.now)?;
                // What the answer cost is known, though it does not count.
                taken.next.result = Some(completion);
                (taken, None)
            }
            (_, event) => (task.transition(event, self.now)?, output),
        };
        let Alongside { rows, edit, retry } = along;
        // What goes along with an output is not for one that is no good.
        if mismatch.is_none() {
            self.rows.extend(rows);
        }
        if let (Some(step), true) = (step, taken.next.is_finished()) {
            let event = match mismatch {
                Some(message) => {
                    Some(Event::OutputMismatched { step, report: report(&taken.next), message })
                }
                None => end_of(&taken.next, step, retry),
            };
            // Refused when the execution does not wait for this task any more: then only the task
            // itself takes note.
            let counted = event.is_some_and(|event| self.happened(event).is_ok());
            if let (true, Some(output)) = (counted, edit.as_ref().or(output.as_ref())) {
                outputs.keep(step, output);
            }
        }
        self.rows.extend(Task::rows(&taken, self.environment, self.now, output));
        Ok((taken.next, taken.effects))
    }

    /// A task had ended without a word.
    pub(crate) fn task_ended(&mut self, task: &Task) {
        if let Some(event) = self.script.step_of(task).and_then(|step| end_of(task, step, None)) {
            // Refused when it was told before.
            let _ = self.happened(event);
        }
    }

    /// Decides what is due, until nothing is.
    pub(crate) async fn decide(&mut self, outputs: &mut Outputs) -> Result<(), Error> {
        while let Some(step) = self.step.next.due().first() {
            let store = &*self.node.shard(self.step.next.head.spec.id.partition()).store;
            outputs.read(store, self.environment, &self.step.next, step).await?;
            self.decide_one(step, outputs);
        }
        Ok(())
    }

    fn decide_one(&mut self, step: u16, outputs: &Outputs) {
        let decision = self.script.decide(step, &self.step.next, outputs);
        let (verdict, dispatch) = match decision {
            Decision::Skip => (Verdict::Skip, None),
            Decision::Fail(ending) => (Verdict::Fail(ending), None),
            Decision::Run(request, retry) => {
                let partition = self.step.next.head.spec.id.partition();
                let task = TaskId::from_u128(self.node.fresh_id(partition));
                let worst_cost =
                    self.node.worst_cost(&request.model, &request.inputs, request.max_tokens);
                (Verdict::Run { task, worst_cost }, Some((task, request, retry)))
            }
        };
        self.happened(Event::Decided { step, verdict }).expect("what is due waits for a decision");
        let Some((task, request, retry)) = dispatch else { return };
        // It may not fit into the budget.
        if self.step.next.step(step).and_then(|row| row.task) != Some(task) {
            return;
        }
        let spec = Arc::clone(&self.step.next.head.spec);
        let name = self.step.next.graph().name(step).to_owned();
        let template = spec.template.as_ref().map(|template| template.id.clone());
        let origin = Origin { step: Some((spec.id, name)), template, ..Origin::default() };
        let (mut made, inputs) =
            request.accepted(task, spec.account.clone(), spec.concurrent, origin);
        made.retry = retry;
        made.checked = spec.output_checked == Some(step);
        let made = Task::submitted(made);
        self.rows.extend(first_rows(self.environment, &made.next, &inputs));
        self.rows.extend(Task::rows(&made, self.environment, self.now, None));
        self.born.push(Born { environment: self.environment, step: made, inputs });
    }

    /// The state so far.
    pub(crate) const fn state(&self) -> &Execution {
        &self.step.next
    }

    /// The step to propose, all rows to commit, and the tasks to send on their way then.
    pub(crate) fn done(
        mut self,
        before: Option<&Execution>,
    ) -> (Step<Execution>, Vec<Op>, Vec<Born>) {
        if self.happened {
            self.rows.extend(executions::rows(self.environment, before, &self.step, self.now));
        }
        (self.step, self.rows, self.born)
    }
}

/// The output was there and is no good.
fn invalid(lease: task::LeaseId, message: &str) -> task::Event {
    let ending = Ending {
        code: EndingCode::OutputInvalid,
        message: format!("the output does not match the output schema: {message}"),
    };
    let failure = Failure { ending, retryable: false, retry_after: None };
    // It is not tried again, whatever chance says.
    task::Event::AttemptFailed { lease, failure, jitter: Jitter(0) }
}
