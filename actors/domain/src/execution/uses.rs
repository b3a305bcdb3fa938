//! The uses of a step's output, by which its decision cannot be taken back (docs/reference/approvals.md).
//!
//! ```text
//!   the execution has ended, or had ended and was retried ─┐
//!   another task took the step over ───────────────────────┤
//!   the list of the step counts the item ──────────────────┼─▶ used: the decision stays
//!   a dependent step has begun ────────────────────────────┘
//! ```
//!
//! Deliberately absent: readers, of which nothing is known, and webhooks, which the caller looks up.

use super::{Execution, Stage, StepState};
use crate::Timestamp;
use crate::id::TaskId;
use crate::names::names;

names! {
    /// The kind of a use of an output.
    UseKind {
        /// A step that depends on it has begun.
        Step = "step",
        /// The list of its step counts it, and the other items go by that.
        Items = "items",
        /// The execution has ended with it.
        Execution = "execution",
        /// The end of the task, which its submitter knows, or another task that took its place.
        Task = "task",
        /// A webhook about it was ordered.
        Webhook = "webhook",
    }
}

/// A use of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    /// The kind.
    pub kind: UseKind,
    /// The identifier of the user: of a step, an execution, a task or a delivery.
    pub id: String,
    /// The title of the execution, or the URL of the webhook.
    pub name: Option<String>,
    /// The instant of the use.
    pub at: Timestamp,
}

impl Use {
    /// The end of a task that is no step: whoever submitted it has it.
    #[must_use]
    pub fn of_end(task: TaskId, at: Timestamp) -> Self {
        Self { kind: UseKind::Task, id: task.to_string(), name: None, at }
    }
}

impl Execution {
    /// The uses of the output with which `task` ended the step, or the item of its list; none if the step can wait for
    /// another decision.
    #[must_use]
    pub fn uses(&self, step: u16, task: TaskId, item: Option<u16>) -> Vec<Use> {
        let Some(row) = self.step(step) else { return Vec::new() };
        let ended_at = row.completed_at.unwrap_or(self.head.started_at);
        let mut uses = Vec::new();
        let was_over = self.head.retried_at.filter(|at| *at >= ended_at && !row.stage.is_open());
        if let Some(at) = self.head.state.ended_at().or(was_over) {
            let (id, name) =
                (self.head.spec.id.to_string(), self.head.spec.title().map(str::to_owned));
            uses.push(Use { kind: UseKind::Execution, id, name, at });
        }
        if item.is_some() {
            let id = self.graph.name(step).to_owned();
            uses.push(Use { kind: UseKind::Items, id, name: None, at: ended_at });
            return uses;
        }
        if let Some(other) = row.task.filter(|other| *other != task) {
            uses.push(Use::of_end(other, other.created_at()));
            return uses;
        }
        for dependent in self.graph.dependents(step) {
            if let Some(at) = self.step(dependent).and_then(begun_at) {
                let id = self.graph.name(dependent).to_owned();
                uses.push(Use { kind: UseKind::Step, id, name: None, at });
            }
        }
        uses
    }

    /// True if the usage of a step's task is part of the execution's, although the task is held.
    #[must_use]
    pub fn has_counted(&self, task: TaskId) -> bool {
        self.steps().any(|(_, row)| row.task == Some(task) && row.counted == Some(task))
    }

    /// True if the step ended with the output of `task`, and nothing has used it.
    pub(super) fn can_reopen(&self, step: u16, task: TaskId) -> bool {
        let row = self.step(step);
        row.is_some_and(|row| matches!(row.stage, Stage::Completed | Stage::Rejected))
            && row.is_some_and(|row| row.task == Some(task))
            && self.uses(step, task, None).is_empty()
    }
}

/// The instant at which a step began, if it has: its task was made, its wait or its list began, or its condition was
/// evaluated.
fn begun_at(row: &StepState) -> Option<Timestamp> {
    let has_begun = match row.stage {
        // A step that was cancelled without a task never saw an output; neither did one that is still to be decided.
        Stage::Waiting | Stage::Ready | Stage::Cancelled => {
            row.runs > 0 || row.started_at.is_some()
        }
        Stage::Dispatched
        | Stage::Awaiting
        | Stage::Completed
        | Stage::Skipped
        | Stage::Failed
        | Stage::Rejected => true,
    };
    let task = row.task.map(TaskId::created_at);
    let at = row.started_at.or(task).or(row.completed_at).unwrap_or_default();
    has_begun.then_some(at)
}
