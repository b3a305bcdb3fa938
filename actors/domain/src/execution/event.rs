//! What happens to an execution, what is told of it, what is to be done, and why something changes
//! nothing.

use super::Status;
use crate::Timestamp;
use crate::budget::Money;
use crate::event::EventName;
use crate::id::TaskId;
use crate::task::{Ending, OutputFault};
use crate::usage::Usage;

/// What happened to an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The condition of a ready step was evaluated and its prompt rendered.
    Decided {
        /// The step.
        step: u16,
        /// What came of it.
        decision: StepDecision,
    },
    /// The task of a step is completed.
    StepCompleted {
        /// The step.
        step: u16,
        /// How the task went.
        report: Report,
    },
    /// The task of a step failed for good.
    StepFailed {
        /// The step.
        step: u16,
        /// How the task went.
        report: Report,
        /// Why.
        ending: Ending,
    },
    /// A reviewer rejected the output of a step.
    StepRejected {
        /// The step.
        step: u16,
        /// How the task went.
        report: Report,
        /// The reviewer's reason.
        ending: Ending,
        /// The task that tries again, if the reviewer asked for it.
        retried_as: Option<Retry>,
    },
    /// Somebody cancelled the task of a step.
    StepCancelled {
        /// The step.
        step: u16,
        /// How the task went.
        report: Report,
    },
    /// The task of a step with an output schema answered, and the output does not count.
    OutputMismatched {
        /// The step.
        step: u16,
        /// How the task went.
        report: Report,
        /// The fault of the output.
        fault: OutputFault,
    },
    /// Somebody wants it to stop.
    CancelRequested,
    /// The clock passed an instant that the execution had asked to be woken at.
    TimePassed,
    /// Somebody wants what did not end well to run again.
    RetryRequested,
    /// Its actor broke too often.
    GivenUp,
}

/// What is to become of a ready step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepDecision {
    /// It runs, as this task, which is stored in the same commit if [`super::StepState::task`] says
    /// so afterwards: it may not fit into the budget.
    Run {
        /// The fresh task.
        task: TaskId,
        /// What it costs at most; `None` if the model has no price.
        worst_cost: Option<Money>,
    },
    /// Its condition is false.
    Skip,
    /// Its condition or its prompt can't be evaluated.
    Fail(Ending),
}

/// The task that tries again what a reviewer rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The fresh task.
    pub task: TaskId,
    /// What it costs at most; `None` if the model has no price.
    pub worst_cost: Option<Money>,
}

/// How a task went that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The task. Only the step's current one moves the step.
    pub task: TaskId,
    /// When it first ran.
    pub started_at: Option<Timestamp>,
    /// The number of its last attempt.
    pub attempt: u32,
    /// What it used.
    pub usage: Usage,
    /// The confidence in its output.
    pub confidence: Option<f64>,
    /// Why the model stopped, in the provider's word.
    pub finish_reason: Option<String>,
}

/// A fact for the event log (PROTOCOL.md 10). That a step started, backs off or waits for a
/// reviewer is told by its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// It runs, for the first time or again.
    Started,
    /// Steps ended, and it goes on.
    Progressed,
    /// All steps ended well.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// A step's condition is false.
    StepSkipped(u16),
    /// A step goes again with another task: its output did not match, or was rejected.
    StepRetrying(u16),
    /// A step is completed.
    StepCompleted(u16),
    /// A step failed for good or was rejected.
    StepFailed(u16),
    /// A step was cancelled.
    StepCancelled(u16),
}

impl Fact {
    /// The event that reports the fact.
    #[must_use]
    pub const fn event(self) -> EventName {
        match self {
            Self::Started => EventName::ExecutionStarted,
            Self::Progressed => EventName::ExecutionProgress,
            Self::Completed => EventName::ExecutionCompleted,
            Self::Failed => EventName::ExecutionFailed,
            Self::Cancelled => EventName::ExecutionCancelled,
            Self::StepSkipped(_) => EventName::StepSkipped,
            Self::StepRetrying(_) => EventName::StepRetrying,
            Self::StepCompleted(_) => EventName::StepCompleted,
            Self::StepFailed(_) => EventName::StepFailed,
            Self::StepCancelled(_) => EventName::StepCancelled,
        }
    }

    /// The step that it is about.
    #[must_use]
    pub const fn step(self) -> Option<u16> {
        match self {
            Self::StepSkipped(step)
            | Self::StepRetrying(step)
            | Self::StepCompleted(step)
            | Self::StepFailed(step)
            | Self::StepCancelled(step) => Some(step),
            Self::Started | Self::Progressed | Self::Completed | Self::Failed | Self::Cancelled => {
                None
            }
        }
    }
}

/// What the runtime is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Evaluate the step's condition, render its prompt, and say what came of it.
    Decide(u16),
    /// See to it that the task is worked on and that its end is told here; if it ended already,
    /// tell it now.
    Watch {
        /// The step.
        step: u16,
        /// Its task.
        task: TaskId,
    },
    /// Cancel the task and tell its end here; if it ended already, tell how.
    CancelTask {
        /// The step.
        step: u16,
        /// A task that it let go of.
        task: TaskId,
    },
    /// Wake it at this instant, instead of any instant asked for before.
    WakeAt(Timestamp),
    /// It need not be woken any more.
    ForgetWake,
}

/// Why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The task is not the step's current one, or its end was applied before.
    StaleTask,
    /// The step does not wait for a decision.
    NotReady,
    /// It is final.
    Finished(Status),
    /// Nothing is due.
    NotDue,
    /// It still runs, so there is nothing to retry.
    Running,
    /// Too many tasks of a step are still being stopped.
    StillStopping,
}
