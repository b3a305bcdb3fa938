//! The events that subscribers and webhooks are sent, by name (docs/reference/events.md).
//!
//! ```text
//!   execution.completed
//!   └ ResourceKind       a machine's fact says which name it has: task::Fact, execution::Fact,
//!                        approval::Action; workers, queues and webhooks have no facts
//! ```

use crate::names::names;

names! {
    /// The kind of resource that an event is about: the part of the event's name before the dot.
    ResourceKind {
        /// A task.
        Task = "task",
        /// One run of a plan.
        Execution = "execution",
        /// A step of an execution.
        Step = "step",
        /// An approval.
        Hitl = "hitl",
        /// A connected worker.
        Worker = "worker",
        /// A queue.
        Queue = "queue",
        /// A budget of many tasks.
        Budget = "budget",
        /// A bulk job.
        Bulk = "bulk",
        /// A batch.
        Batch = "batch",
        /// A webhook delivery.
        Webhook = "webhook",
        /// A schedule.
        Schedule = "schedule",
    }
}

names! {
    /// The name of an event. The event log stores it, so a value is never renamed.
    EventName {
        /// A task was submitted.
        TaskCreated = "task.created",
        /// A worker leased the task.
        TaskStarted = "task.started",
        /// A worker sent a piece of the output; never stored.
        TaskDelta = "task.delta",
        /// The task returns to its queue, at once or after a backoff.
        TaskRetrying = "task.retrying",
        /// An operator gave the task another priority.
        TaskReprioritized = "task.reprioritized",
        /// The gate holds the output for a reviewer.
        TaskAwaitingApproval = "task.awaiting_approval",
        /// Final: the output was accepted, by the gate or by a reviewer.
        TaskCompleted = "task.completed",
        /// Final: no attempt is left, or the failure cannot be retried.
        TaskFailed = "task.failed",
        /// Final: a user or the task's execution cancelled the task.
        TaskCancelled = "task.cancelled",
        /// Final: a reviewer, or the end of the review time, rejected the output.
        TaskRejected = "task.rejected",
        /// The execution waits for its startAt.
        ExecutionScheduled = "execution.scheduled",
        /// The execution runs, for the first time or after a retry.
        ExecutionStarted = "execution.started",
        /// At least one step ended, and others are open.
        ExecutionProgress = "execution.progress",
        /// Every step completed or was skipped.
        ExecutionCompleted = "execution.completed",
        /// A step failed, the time ran out, or the execution's actor failed.
        ExecutionFailed = "execution.failed",
        /// A user cancelled the execution.
        ExecutionCancelled = "execution.cancelled",
        /// A worker leased the step's task.
        StepStarted = "step.started",
        /// The gate holds the step's output for a reviewer.
        StepAwaitingApproval = "step.awaiting_approval",
        /// The step's task returns to its queue, or a new task takes its place.
        StepRetrying = "step.retrying",
        /// The step's condition is false.
        StepSkipped = "step.skipped",
        /// The step's output was accepted, by the gate or by a reviewer.
        StepCompleted = "step.completed",
        /// The step failed, or a reviewer rejected its output.
        StepFailed = "step.failed",
        /// The step was cancelled, alone or with its execution.
        StepCancelled = "step.cancelled",
        /// The step waits for its signal.
        StepWaiting = "step.waiting",
        /// The step's signal came, before its wait or during it.
        StepSignalled = "step.signalled",
        /// An output waits for a reviewer.
        HitlPending = "hitl.pending",
        /// A reviewer was chosen.
        HitlAssigned = "hitl.assigned",
        /// A reviewer announced to be working on the approval.
        HitlClaimed = "hitl.claimed",
        /// The approval was handed to an admin.
        HitlEscalated = "hitl.escalated",
        /// The review time is over.
        HitlExpired = "hitl.expired",
        /// A reviewer let the output pass, edited or not.
        HitlApproved = "hitl.approved",
        /// A reviewer, or the end of the review time, rejected the output.
        HitlRejected = "hitl.rejected",
        /// A reviewer gave a claim up.
        HitlReleased = "hitl.released",
        /// The reviewers were given more time.
        HitlExtended = "hitl.extended",
        /// A decision was taken back, or another one was asked for beside it.
        HitlReopened = "hitl.reopened",
        /// A second decision was made beside the one that others have gone by.
        HitlCorrected = "hitl.corrected",
        /// The task ended without a decision: it was cancelled, or its execution ended.
        HitlCancelled = "hitl.cancelled",
        /// A worker connected or reconnected.
        WorkerConnected = "worker.connected",
        /// A worker finishes its leases and takes no new ones.
        WorkerDraining = "worker.draining",
        /// A worker's connection ended; its leases run on.
        WorkerDisconnected = "worker.disconnected",
        /// The number of tasks in a queue changed; never stored.
        QueueDepth = "queue.depth",
        /// A queue was paused, resumed or limited.
        QueueChanged = "queue.changed",
        /// A share of a budget is spent.
        BudgetAlert = "budget.alert",
        /// The limit of a budget is spent.
        BudgetExceeded = "budget.exceeded",
        /// A bulk job has acted on all its tasks.
        BulkCompleted = "bulk.completed",
        /// The rows of a batch are durable, and the first ones start.
        BatchCreated = "batch.created",
        /// Rows of a batch have started or ended; at most one a second.
        BatchProgress = "batch.progress",
        /// A batch starts no further row.
        BatchPaused = "batch.paused",
        /// A batch starts rows again.
        BatchResumed = "batch.resumed",
        /// Every row of a batch has ended.
        BatchCompleted = "batch.completed",
        /// A batch was cancelled.
        BatchCancelled = "batch.cancelled",
        /// A batch was deleted with all its rows.
        BatchDeleted = "batch.deleted",
        /// A webhook was delivered.
        WebhookDelivered = "webhook.delivered",
        /// A webhook delivery failed with no attempt left.
        WebhookFailed = "webhook.failed",
        /// A schedule was made.
        ScheduleCreated = "schedule.created",
        /// The settings or the target of a schedule changed.
        ScheduleUpdated = "schedule.updated",
        /// A schedule was deleted.
        ScheduleDeleted = "schedule.deleted",
        /// An occurrence started its work.
        ScheduleStarted = "schedule.started",
        /// An occurrence waits for the end of an earlier run.
        ScheduleQueued = "schedule.queued",
        /// An occurrence was left out, because an earlier run is under way.
        ScheduleSkipped = "schedule.skipped",
        /// An occurrence passed while the service could not start it, and is not made up for.
        ScheduleMissed = "schedule.missed",
        /// The work of an occurrence could not be started.
        ScheduleFailed = "schedule.failed",
    }
}

impl EventName {
    /// The kind of resource that the event is about.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "a test walks all names")]
    pub fn kind(self) -> ResourceKind {
        let (kind, _) = self.as_str().split_once('.').expect("a name has a dot");
        ResourceKind::parse(kind).expect("a name begins with its kind")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_begins_with_its_kind_and_every_kind_has_a_name() {
        for name in EventName::ALL {
            assert!(name.as_str().starts_with(name.kind().as_str()), "{name}");
        }
        for kind in ResourceKind::ALL {
            assert!(EventName::ALL.into_iter().any(|name| name.kind() == kind), "{kind}");
        }
        assert_eq!(EventName::StepAwaitingApproval.kind(), ResourceKind::Step);
    }

    #[test]
    fn a_name_leads_back_to_its_value_and_is_what_serde_writes() {
        for name in EventName::ALL {
            assert_eq!(EventName::parse(name.as_str()), Some(name));
            let json = serde_json::to_string(&name).unwrap();
            assert_eq!(json, format!("\"{name}\""));
            assert_eq!(serde_json::from_str::<EventName>(&json).unwrap(), name);
        }
        assert_eq!(EventName::parse("Task.created"), None);
        assert!(serde_json::from_str::<EventName>("\"task.create\"").is_err());
    }
}
