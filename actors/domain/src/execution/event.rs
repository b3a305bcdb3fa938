//! The events of an execution, its facts, its effects, and the refusals of an event that changes
//! nothing.

use super::items::Expansion;
use super::{Status, signal};
use crate::Timestamp;
use crate::budget::Money;
use crate::event::EventName;
use crate::id::TaskId;
use crate::task::{Ending, FailureKind, OutputFault};
use crate::usage::Usage;

/// An event of an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The condition of a ready step was evaluated and its prompt rendered.
    Decided {
        /// The step.
        step: u16,
        /// The result.
        decision: StepDecision,
    },
    /// The prompt of an item was rendered, or cannot be.
    ItemDecided {
        /// The step.
        step: u16,
        /// The item.
        item: u16,
        /// The result.
        decision: ItemDecision,
    },
    /// The task of a step is completed.
    StepCompleted {
        /// The step.
        step: u16,
        /// The usage and the times of the task.
        report: Report,
    },
    /// The task of a step failed for good.
    StepFailed {
        /// The step.
        step: u16,
        /// The usage and the times of the task.
        report: Report,
        /// The reason.
        ending: Ending,
    },
    /// A reviewer rejected the output of a step.
    StepRejected {
        /// The step.
        step: u16,
        /// The usage and the times of the task.
        report: Report,
        /// The reviewer's reason.
        ending: Ending,
        /// The task that tries again, if the reviewer asked for it.
        retried_as: Option<Retry>,
    },
    /// A caller cancelled the task of a step.
    StepCancelled {
        /// The step.
        step: u16,
        /// The usage and the times of the task.
        report: Report,
    },
    /// The task of a step with an output schema answered, and the output does not count.
    OutputMismatched {
        /// The step.
        step: u16,
        /// The usage and the times of the task.
        report: Report,
        /// The fault of the output.
        fault: OutputFault,
    },
    /// The decision on the output of a step is taken back: the step's task is held again.
    StepReopened {
        /// The step.
        step: u16,
        /// The task with which the step ended.
        task: TaskId,
    },
    /// A signal came.
    Signalled(signal::Sent),
    /// A caller wants the execution to stop.
    CancelRequested,
    /// The clock passed an instant that the execution had asked to be woken at.
    TimePassed,
    /// A caller wants the steps that did not end well to run again.
    RetryRequested,
    /// The execution's actor broke too often.
    GivenUp,
}

/// The decision on a ready step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepDecision {
    /// The step runs, as this task, which is stored in the same commit if [`super::StepState::task`]
    /// says so afterwards: the task may not fit into the budget.
    Run {
        /// The fresh task.
        task: TaskId,
        /// The worst-case cost; `None` if the model has no price.
        worst_cost: Option<Money>,
    },
    /// The step is a wait: it goes on with its signal, or fails at the time limit, if it has one.
    Await {
        /// The time limit.
        timeout_ms: Option<u64>,
    },
    /// The step's condition is false.
    Skip,
    /// The step's condition or prompt can't be evaluated.
    Fail(Ending),
    /// The step runs once for each item of a list.
    Expand(Expansion),
}

/// The decision on an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemDecision {
    /// The item runs, as this task, as with [`StepDecision::Run`].
    Run {
        /// The fresh task.
        task: TaskId,
        /// The worst-case cost; `None` if the model has no price.
        worst_cost: Option<Money>,
    },
    /// The item's prompt can't be rendered.
    Fail(Ending),
}

/// The task that replaces a rejected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The fresh task.
    pub task: TaskId,
    /// The worst-case cost; `None` if the model has no price.
    pub worst_cost: Option<Money>,
}

/// The end of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The task. Only the step's current task moves the step.
    pub task: TaskId,
    /// The item that the task is of, if its step has items.
    pub item: Option<u16>,
    /// The instant of the task's first start.
    pub started_at: Option<Timestamp>,
    /// The number of the task's last attempt.
    pub attempt: u32,
    /// The usage of the task.
    pub usage: Usage,
    /// The confidence in the task's output.
    pub confidence: Option<f64>,
    /// The reason why the model stopped, in the provider's word.
    pub finish_reason: Option<String>,
    /// The model that took the place of the first, and the failure of the model before it.
    pub fallback: Option<Box<(String, FailureKind)>>,
}

/// A fact for the event log. The starts, backoffs and reviews of steps are reported by
/// their tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The execution waits for the instant at which it begins.
    Scheduled,
    /// The execution runs, for the first time or again.
    Started,
    /// Steps ended or were reopened, and the execution goes on.
    Progressed,
    /// All steps ended well.
    Completed,
    /// The execution failed.
    Failed,
    /// The execution was cancelled.
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
    /// An item of a step goes again with another task.
    ItemRetrying(u16, u16),
    /// An item of a step is completed.
    ItemCompleted(u16, u16),
    /// An item of a step failed for good or was rejected.
    ItemFailed(u16, u16),
    /// An item of a step was cancelled after it had been dispatched.
    ItemCancelled(u16, u16),
    /// A step waits for its signal.
    StepWaiting(u16),
    /// The signal of a step came.
    StepSignalled(u16),
}

impl Fact {
    /// The event that reports the fact.
    #[must_use]
    pub const fn event(self) -> EventName {
        match self {
            Self::Scheduled => EventName::ExecutionScheduled,
            Self::Started => EventName::ExecutionStarted,
            Self::Progressed => EventName::ExecutionProgress,
            Self::Completed => EventName::ExecutionCompleted,
            Self::Failed => EventName::ExecutionFailed,
            Self::Cancelled => EventName::ExecutionCancelled,
            Self::StepSkipped(_) => EventName::StepSkipped,
            Self::StepRetrying(_) | Self::ItemRetrying(..) => EventName::StepRetrying,
            Self::StepCompleted(_) | Self::ItemCompleted(..) => EventName::StepCompleted,
            Self::StepFailed(_) | Self::ItemFailed(..) => EventName::StepFailed,
            Self::StepCancelled(_) | Self::ItemCancelled(..) => EventName::StepCancelled,
            Self::StepWaiting(_) => EventName::StepWaiting,
            Self::StepSignalled(_) => EventName::StepSignalled,
        }
    }

    /// The step that the fact is about.
    #[must_use]
    pub const fn step(self) -> Option<u16> {
        match self {
            Self::StepSkipped(step)
            | Self::StepRetrying(step)
            | Self::StepCompleted(step)
            | Self::StepFailed(step)
            | Self::StepCancelled(step)
            | Self::StepWaiting(step)
            | Self::StepSignalled(step)
            | Self::ItemRetrying(step, _)
            | Self::ItemCompleted(step, _)
            | Self::ItemFailed(step, _)
            | Self::ItemCancelled(step, _) => Some(step),
            Self::Scheduled
            | Self::Started
            | Self::Progressed
            | Self::Completed
            | Self::Failed
            | Self::Cancelled => None,
        }
    }

    /// The item that the fact is about.
    #[must_use]
    pub const fn item(self) -> Option<u16> {
        match self {
            Self::ItemRetrying(_, item)
            | Self::ItemCompleted(_, item)
            | Self::ItemFailed(_, item)
            | Self::ItemCancelled(_, item) => Some(item),
            Self::StepSkipped(_)
            | Self::StepRetrying(_)
            | Self::StepCompleted(_)
            | Self::StepFailed(_)
            | Self::StepCancelled(_)
            | Self::StepWaiting(_)
            | Self::StepSignalled(_)
            | Self::Scheduled
            | Self::Started
            | Self::Progressed
            | Self::Completed
            | Self::Failed
            | Self::Cancelled => None,
        }
    }
}

/// An order to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Evaluate the step's condition, render its prompt or its next item's, and report the decision.
    Decide(u16),
    /// See to it that the task is worked on and that its end is reported here; if it ended already,
    /// report it now.
    Watch {
        /// The step.
        step: u16,
        /// The step's task.
        task: TaskId,
    },
    /// Watch the task of an item, as [`Self::Watch`] does.
    WatchItem {
        /// The step.
        step: u16,
        /// The item.
        item: u16,
        /// The item's task.
        task: TaskId,
    },
    /// Cancel the task and report its end here; if it ended already, report that end.
    CancelTask {
        /// The step.
        step: u16,
        /// A task that the step let go of.
        task: TaskId,
    },
    /// Wake the execution at this instant, instead of any instant asked for before.
    WakeAt(Timestamp),
    /// Cancel the execution's wake-up.
    ForgetWake,
}

/// The reason why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The task is not the step's current one, or its end was applied before.
    StaleTask,
    /// The step does not wait for a decision.
    NotReady,
    /// The step has not ended with the output, or the output was used ([`super::Execution::uses`]).
    NotReopened,
    /// The execution has ended, with this status.
    Finished(Status),
    /// Nothing is due.
    NotDue,
    /// The execution still runs, so there is nothing to retry.
    Running,
    /// A step has too many tasks that are still being stopped.
    StillStopping,
    /// The texts of a completed step were erased.
    TextsErased,
    /// A signal of this name was accepted before, and is not to be replaced or was used.
    Signalled,
    /// Every wait for a signal of this name has ended without one.
    WaitOver,
}
