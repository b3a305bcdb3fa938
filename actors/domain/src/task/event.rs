//! The events of a task, its facts, its effects, and its refusals.

use std::time::Duration;

use super::{Chance, Completion, Failure, HoldReason, LeaseId, OutputFault, Status};
use crate::Timestamp;
use crate::event::EventName;
use crate::id::WorkerId;
use crate::retry::Jitter;

/// An event of a task.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A worker with a free place was found.
    Leased {
        /// The fresh lease.
        lease: LeaseId,
        /// The worker.
        worker: WorkerId,
    },
    /// The holder of `lease` answered.
    Completed {
        /// The lease of the answer.
        lease: LeaseId,
        /// The usage and the other data of the answer.
        completion: Completion,
        /// The random number that decides if the output is in the sample, should there be one.
        chance: Chance,
    },
    /// The holder of `lease` answered, and the output does not count: it does not match the output
    /// schema, or was cut.
    OutputInvalid {
        /// The lease of the answer.
        lease: LeaseId,
        /// The cost of the answer, which counts.
        completion: Completion,
        /// The fault of the output.
        fault: OutputFault,
    },
    /// The holder of `lease` gave up.
    AttemptFailed {
        /// The lease of the failure.
        lease: LeaseId,
        /// The reason.
        failure: Failure,
        /// The time for which such failures use up no attempt, from the task's first: nobody should have called the
        /// model, or nobody could. Zero for any other failure.
        patience: Duration,
        /// The random part of the wait.
        jitter: Jitter,
    },
    /// The holder of `lease` was silent for too long.
    LeaseExpired {
        /// The lease that ran out.
        lease: LeaseId,
    },
    /// The server went down before the holder of `lease` received it.
    Undelivered {
        /// The lease that no worker holds.
        lease: LeaseId,
    },
    /// The clock passed an instant that the task had asked to be woken at.
    TimePassed {
        /// The random part of the wait, should one follow.
        jitter: Jitter,
    },
    /// A reviewer lets the output pass.
    Approved {
        /// True if a text takes the place of the output.
        edited: bool,
    },
    /// A reviewer does not let the output pass.
    Rejected {
        /// The reason.
        reason: String,
    },
    /// A reviewer takes the decision on the output back: the output is held again.
    Reopened {
        /// The reason why the gate held the output.
        why: HoldReason,
    },
    /// An operator gives the task another priority.
    Reprioritized {
        /// 1 to 10.
        priority: u8,
    },
    /// A caller wants the task to stop.
    CancelRequested,
    /// The task's actor broke too often.
    GivenUp,
    /// The person behind the task's account may not have it done any more.
    OwnerGone {
        /// The reason, in words.
        message: String,
    },
    /// No budget can ever have room for the task.
    Unaffordable {
        /// The reason, in words.
        reason: String,
    },
}

/// A fact for the event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// The task was submitted.
    Created,
    /// A worker has the task.
    Started,
    /// The task goes back to the queue.
    Retrying,
    /// The task has another priority.
    Reprioritized,
    /// The task's output waits for a reviewer.
    AwaitingApproval,
    /// The task had ended, and its output waits for a reviewer again.
    Reopened,
    /// The task is completed.
    Completed,
    /// The task failed for good.
    Failed,
    /// The task was cancelled.
    Cancelled,
    /// A reviewer rejected the task's output.
    Rejected,
}

impl Fact {
    /// The event that reports the fact.
    #[must_use]
    pub const fn event(self) -> EventName {
        match self {
            Self::Created => EventName::TaskCreated,
            Self::Started => EventName::TaskStarted,
            Self::Retrying => EventName::TaskRetrying,
            Self::Reprioritized => EventName::TaskReprioritized,
            Self::AwaitingApproval | Self::Reopened => EventName::TaskAwaitingApproval,
            Self::Completed => EventName::TaskCompleted,
            Self::Failed => EventName::TaskFailed,
            Self::Cancelled => EventName::TaskCancelled,
            Self::Rejected => EventName::TaskRejected,
        }
    }
}

/// An order to the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Put the task into its queue; nothing changes if it is there.
    Enqueue,
    /// Take the task out of its queue; nothing changes if it is not there.
    Dequeue,
    /// Give the task to the worker.
    Assign {
        /// The lease to name.
        lease: LeaseId,
        /// The worker.
        worker: WorkerId,
        /// The deadline of the attempt.
        deadline: Timestamp,
    },
    /// Watch over a lease that was given out before a restart, with a full term.
    Watch {
        /// The lease.
        lease: LeaseId,
        /// The worker that held the lease.
        worker: WorkerId,
    },
    /// Tell the worker to stop, and free its slot.
    Revoke {
        /// The lease that is over.
        lease: LeaseId,
        /// The worker that held the lease.
        worker: WorkerId,
        /// The reason, in a word for the `cancel` frame.
        reason: &'static str,
    },
    /// Wake the task at this instant, instead of any instant asked for before.
    WakeAt(Timestamp),
    /// Cancel the task's wake-up.
    ForgetWake,
}

/// The reason why an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The lease is not the current one.
    StaleLease,
    /// The result under this lease was applied before.
    Duplicate,
    /// The task is not waiting for a worker.
    NotReady,
    /// The task's output does not wait for a reviewer.
    NotHeld,
    /// The task has ended, with this status.
    Finished(Status),
    /// Nothing is due.
    NotDue,
}
