//! The result of a step.

use callboard_domain::Timestamp;
use callboard_domain::excerpts::Excerpts;
use callboard_domain::execution::{Stage, StepState};
use callboard_domain::id::{ExecutionId, TaskId};
use callboard_domain::task::{FailureKind, State, Task};
use callboard_domain::usage::Usage;
use callboard_runtime::read::items::ItemDetail;
use callboard_runtime::read::runs::ExecutionDetail;
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::items::ItemCountsBody;
use crate::approvals::DecisionBody;
use crate::common::{Iso, Text};
use crate::tasks::{TaskErrorBody, UsageBody};

/// The obstacle of a pending task, and its earliest end.
pub type Waiting = (Option<&'static str>, Option<Timestamp>);

/// The state of a step, without the fields that do not exist yet.
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepResult<'a> {
    /// pending, running, completed, failed, cancelled, skipped or rejected.
    status: &'static str,
    /// The model's answer, or the reviewer's edit of it. Of a step with forEach the JSON array of its
    /// items' outputs, unless that has more than 1 MiB.
    output: Option<&'a str>,
    /// True if the rest of `output` is left out, because all outputs of the answer have more than 8 MiB;
    /// `GET /api/tasks/{id}` has the whole.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    output_truncated: bool,
    /// The time at which its task first ran.
    started_at: Option<Iso>,
    /// The time of the end, of any kind.
    completed_at: Option<Iso>,
    /// The time from startedAt to completedAt, in milliseconds.
    duration_ms: Option<u64>,
    /// The usage of all its model calls.
    usage: Option<UsageBody>,
    /// The task, the latest if there were several.
    #[schema(value_type = Option<String>)]
    task_id: Option<Text<TaskId>>,
    /// The task of the forked execution whose output it has taken over.
    #[schema(value_type = Option<String>)]
    reused_from: Option<Text<TaskId>>,
    /// The number of the current or last attempt of that task.
    attempt: Option<u32>,
    /// The worker's confidence in the output, 0 to 1.
    confidence: Option<f64>,
    /// The reason why the model stopped, in the provider's word.
    finish_reason: Option<&'a str>,
    /// True if its output is held for review.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    awaiting_approval: bool,
    /// The reason that it waits while it is pending: worker, approval, backoff, limit, paused, `queue_paused`, budget or
    /// signal; none where it waits for other steps.
    waiting_for: Option<&'static str>,
    /// The arrival of a wait's signal, which may be before the wait.
    signalled_at: Option<Iso>,
    /// The end of the wait, if it is known: the earliest for a model or a retry, the latest for a signal.
    waiting_until: Option<Iso>,
    /// The model that was called last; once the step has ended, only if it was not the first.
    model_used: Option<&'a str>,
    /// The failure after which the task went on to this model.
    fallback_reason: Option<&'static str>,
    /// The error of a step that did not end well.
    error: Option<TaskErrorBody<'a>>,
    /// The second decision on the output, beside the one that the execution went by; of a long text the first 2,000
    /// characters.
    correction: Option<DecisionBody<'a>>,
    /// The number of items in each state, once the list is known.
    items: Option<ItemCountsBody>,
}

impl<'a> StepResult<'a> {
    /// The step of this number; `waiting` gives the obstacle of a pending task.
    pub(crate) fn of(
        detail: &'a ExecutionDetail,
        number: u16,
        waiting: impl Fn(&Task) -> Waiting,
    ) -> Self {
        let execution = &detail.overview.execution;
        let Some(row) = execution.step(number) else { return Self::default() };
        let items = detail.items.get(&number).copied().map(ItemCountsBody::from);
        let correction = detail.corrections.get(&number).map(DecisionBody::from);
        let correction = correction.map(DecisionBody::shortened);
        Self { correction, items, ..Self::without_items(detail, number, row, waiting) }
    }

    /// The status.
    pub(crate) const fn status(&self) -> &'static str {
        self.status
    }

    /// The confidence in the output.
    pub(crate) const fn confidence(&self) -> Option<f64> {
        self.confidence
    }

    fn without_items(
        detail: &'a ExecutionDetail,
        number: u16,
        row: &'a StepState,
        waiting: impl Fn(&Task) -> Waiting,
    ) -> Self {
        let execution = &detail.overview.execution;
        match row.stage {
            Stage::Waiting => Self::row("pending", row),
            Stage::Awaiting => Self {
                waiting_for: Some("signal"),
                waiting_until: row.until.map(Iso),
                ..Self::row("pending", row)
            },
            Stage::Ready => {
                let budget = execution.waits_for_budget(number).then_some("budget");
                Self { waiting_for: budget, ..Self::row("pending", row) }
            }
            Stage::Dispatched => {
                let task = row.task.and_then(|id| detail.tasks.get(&id));
                let of = |task| Self::dispatched(row, task, waiting(task));
                let of = |task| of(task).with(&detail.outputs, number);
                task.map_or_else(|| Self::row("running", row), of)
            }
            Stage::Completed => {
                let reused_from = detail.copies.get(&number).copied().map(Text);
                Self { reused_from, ..Self::row("completed", row) }.with(&detail.outputs, number)
            }
            Stage::Skipped => Self::row("skipped", row),
            Stage::Failed => Self::row("failed", row),
            Stage::Rejected => Self::row("rejected", row),
            Stage::Cancelled => Self::row("cancelled", row),
        }
    }

    /// An item of a step; `waiting` gives the obstacle of a pending task.
    pub(super) fn of_item(item: &'a ItemDetail, waiting: impl Fn(&Task) -> Waiting) -> Self {
        let status = item.status.as_str();
        let shown = match &item.task {
            Some(task) => Self::dispatched(&item.row, task, waiting(task)),
            None => Self::row(status, &item.row),
        };
        Self { status, ..shown }
    }

    /// This step with its output, which has this number.
    pub(super) fn with(self, outputs: &'a Excerpts<u16>, number: u16) -> Self {
        let (output, output_truncated) = (outputs.get(&number), outputs.is_cut(&number));
        Self { output, output_truncated, ..self }
    }

    fn row(status: &'static str, row: &'a StepState) -> Self {
        let took = |(started, ended): (Timestamp, Timestamp)| {
            u64::try_from(ended.since(started).as_millis()).unwrap_or(u64::MAX)
        };
        Self {
            status,
            started_at: row.started_at.map(Iso),
            completed_at: row.completed_at.map(Iso),
            duration_ms: row.started_at.zip(row.completed_at).map(took),
            usage: used(row.usage),
            task_id: row.task.map(Text),
            attempt: Some(row.attempt).filter(|attempt| *attempt > 0),
            confidence: row.confidence,
            finish_reason: row.finish_reason.as_deref(),
            signalled_at: row.signal.as_ref().map(|signal| Iso(signal.at)),
            model_used: row.fallback.as_deref().map(|(model, _)| model.as_str()),
            fallback_reason: row.fallback.as_deref().map(|(_, reason)| reason.as_str()),
            error: row.error.as_ref().map(TaskErrorBody::from),
            ..Self::default()
        }
    }

    /// A step whose task runs it. A task that has ended counts as running until the execution has
    /// noticed the end.
    fn dispatched(row: &'a StepState, task: &'a Task, (waiting_for, until): Waiting) -> Self {
        let status = match task.state {
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::AwaitingApproval { .. } => "pending",
            State::Running { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. }
            | State::Rejected { .. } => "running",
        };
        let result = task.result.as_ref();
        let usage = result.map(|result| result.usage).unwrap_or_default();
        let usage = row.usage + row.uncounted(task.spec.id, usage);
        Self {
            started_at: task.started_at.map(Iso),
            usage: used(usage),
            attempt: Some(task.attempt).filter(|attempt| *attempt > 0),
            confidence: result.and_then(|result| result.confidence),
            finish_reason: result.and_then(|result| result.finish_reason.as_deref()),
            awaiting_approval: matches!(task.state, State::AwaitingApproval { .. }),
            waiting_for,
            waiting_until: until.map(Iso),
            model_used: task.model_used(),
            fallback_reason: task.fallback_reason().map(FailureKind::as_str),
            ..Self::row(status, row)
        }
    }
}

fn used(usage: Usage) -> Option<UsageBody> {
    (usage != Usage::default()).then(|| UsageBody::from(usage))
}

/// A step in an event.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepSummary<'a> {
    /// The step's id in its plan.
    id: &'a str,
    /// The item of the step's list that the event is about, from 0.
    item: Option<u16>,
    /// `dt_exec_…`
    #[schema(value_type = String)]
    execution_id: Text<ExecutionId>,
    /// The status at the event.
    status: Option<&'static str>,
    /// The step's task, if the event is about one.
    #[schema(value_type = Option<String>)]
    task_id: Option<Text<TaskId>>,
    /// The number of the attempt.
    attempt: Option<u32>,
    /// The time at which its task first ran.
    started_at: Option<Iso>,
    /// The worker's confidence in the output.
    confidence: Option<f64>,
    /// True if its output is held for review.
    awaiting_approval: bool,
}

impl<'a> StepSummary<'a> {
    /// A step whose status follows from the name of the event alone: `step.completed`.
    #[must_use]
    pub fn named(id: &'a str, item: Option<u16>, execution: ExecutionId, event: &str) -> Self {
        let status = match event {
            "step.completed" => Some("completed"),
            "step.failed" => Some("failed"),
            "step.cancelled" => Some("cancelled"),
            "step.skipped" => Some("skipped"),
            "step.retrying" | "step.awaiting_approval" | "step.waiting" => Some("pending"),
            "step.started" => Some("running"),
            _ => None,
        };
        Self {
            id,
            item,
            execution_id: Text(execution),
            status,
            task_id: None,
            attempt: None,
            started_at: None,
            confidence: None,
            awaiting_approval: event == "step.awaiting_approval",
        }
    }

    /// A step as its task shows it.
    #[must_use]
    pub fn of_task(id: &'a str, execution: ExecutionId, event: &str, task: &Task) -> Self {
        Self {
            task_id: Some(Text(task.spec.id)),
            attempt: Some(task.attempt),
            started_at: task.started_at.map(Iso),
            confidence: task.result.as_ref().and_then(|result| result.confidence),
            ..Self::named(id, task.spec.origin.item, execution, event)
        }
    }
}
