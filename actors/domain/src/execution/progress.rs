//! The number of steps in each state, as on the wire (docs/reference/executions.md).

use super::Execution;
use super::step::Stage;
use crate::id::TaskId;

/// The counts; all but `awaiting_approval` sum to `total`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// All steps.
    pub total: u32,
    /// Steps that have an output.
    pub completed: u32,
    /// Steps whose task a worker holds.
    pub running: u32,
    /// Steps that wait: for others, for budget, in a queue, in backoff, for a reviewer, or for a signal.
    pub pending: u32,
    /// Steps that failed or were rejected.
    pub failed: u32,
    /// Steps that were cancelled.
    pub cancelled: u32,
    /// Skipped.
    pub skipped: u32,
    /// The part of `pending` that waits for a reviewer.
    pub awaiting_approval: u32,
}

/// The state of a dispatched step's task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchState {
    /// The task is in its queue or in backoff.
    Pending,
    /// The task's output waits for a reviewer.
    AwaitingApproval,
    /// A worker holds the task, or the task ended and the execution has not heard of it yet.
    Running,
}

impl Execution {
    /// The counts; `live` gives the state of a task and is called for dispatched tasks only. A step
    /// whose items run counts as one running step.
    #[must_use]
    pub fn progress(&self, live: impl Fn(TaskId) -> DispatchState) -> Progress {
        let count = |stage| self.tally.at(stage).len();
        let mut progress = Progress {
            total: u32::try_from(self.graph.len()).unwrap_or(u32::MAX),
            completed: count(Stage::Completed),
            running: u32::try_from(self.running_maps()).unwrap_or(u32::MAX),
            pending: count(Stage::Waiting) + count(Stage::Ready) + count(Stage::Awaiting),
            failed: count(Stage::Failed) + count(Stage::Rejected),
            cancelled: count(Stage::Cancelled),
            skipped: count(Stage::Skipped),
            awaiting_approval: 0,
        };
        for (_, task) in self.steps_out() {
            match live(task) {
                DispatchState::Running => progress.running += 1,
                DispatchState::Pending => progress.pending += 1,
                DispatchState::AwaitingApproval => {
                    progress.pending += 1;
                    progress.awaiting_approval += 1;
                }
            }
        }
        progress
    }
}
