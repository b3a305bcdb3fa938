//! Executions on the wire (docs/reference/executions.md).

use callboard_domain::execution::{Cause, Execution, Head, Progress, Stage, State};
use callboard_domain::id::{ExecutionId, PlanId, TemplateBatchId};
use callboard_domain::task::{Ending, Task};
use callboard_runtime::read::runs::{ExecutionDetail, Overview};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::common::{Iso, Text};
use super::labels::LabelsBody;
use super::tasks::UsageBody;

mod dry_run;
mod erasure;
mod fork;
mod items;
mod list;
mod start;
mod step;

pub use dry_run::{DryBudgetBody, DryItemsBody, DryRunBody, DryStepBody, EstimateBody};
pub use erasure::ErasedExecutionBody;
pub use fork::{ForkExecution, ForkedFromBody};
pub use items::{ItemBody, ItemCountsBody, ListItems};
pub use list::ListExecutions;
pub use start::{ExecutePlan, RunOptions};
pub use step::{StepResult, StepSummary, Waiting};

/// An execution; a member that does not exist yet is left out.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionBody<'a> {
    /// `dt_exec_…`
    #[schema(value_type = String)]
    id: Text<ExecutionId>,
    /// The plan that it runs: `dt_plan_…`
    #[schema(value_type = String)]
    plan_id: Text<PlanId>,
    /// The template that it was deployed from.
    template_id: Option<&'a str>,
    /// The version that was deployed.
    template_version: Option<&'a str>,
    /// The batch that it is a row of: `bat_…`
    #[schema(value_type = Option<String>)]
    batch_id: Option<Text<TemplateBatchId>>,
    /// The key of that row.
    key: Option<&'a str>,
    /// pending, running, completed, failed or cancelled.
    status: &'static str,
    /// The idempotency key of the request that started it.
    idempotency_key: Option<&'a str>,
    /// The tags of the plan and of the request.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    /// The receiver of webhooks.
    callback_url: Option<&'a str>,
    /// The title, and what the webhooks announce.
    #[serde(flatten)]
    labels: LabelsBody<'a>,
    /// The number of steps in each state; in an event, at the time of reading.
    progress: Option<ProgressBody>,
    /// The state of each step, by its id; not in lists.
    #[schema(value_type = Option<std::collections::HashMap<String, StepResult>>)]
    steps: Option<Steps<'a>>,
    /// The input, defaults filled in; not in lists.
    #[schema(value_type = Option<Object>)]
    input: Option<&'a Map<String, Value>>,
    /// The usage of all its model calls.
    usage: UsageBody,
    /// The instant before which it does not begin.
    start_at: Option<Iso>,
    /// The reason that nothing of it runs: schedule while it is pending; worker, approval, backoff, limit,
    /// `queue_paused`, budget or signal of the step that waits.
    waiting_for: Option<&'static str>,
    /// The instant since which it waits, if it is known.
    waiting_since: Option<Iso>,
    /// The end of the wait, if it is known: the earliest, or the latest for a signal.
    waiting_until: Option<Iso>,
    /// The execution that it is a fork of.
    forked_from: Option<ForkedFromBody<'a>>,
    /// The time of the first run.
    started_at: Option<Iso>,
    /// The time of the end.
    completed_at: Option<Iso>,
    /// The error, once it has failed.
    error: Option<ExecutionErrorBody<'a>>,
    /// The time at which the texts were erased.
    erased_at: Option<Iso>,
    /// Work that no connected worker takes now; only in the answer to a start.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

/// The number of steps in each state; all but `awaitingApproval` sum to `total`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProgressBody {
    /// All steps.
    total: u32,
    /// The number with an output.
    completed: u32,
    /// The number with a worker.
    running: u32,
    /// Waiting, for any reason.
    pending: u32,
    /// Failed or rejected.
    failed: u32,
    /// Cancelled.
    cancelled: u32,
    /// Steps whose condition was false.
    skipped: u32,
    /// The number of the pending ones that wait for a reviewer.
    awaiting_approval: u32,
}

/// The error of an execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionErrorBody<'a> {
    /// The code.
    code: &'static str,
    /// The text for people.
    message: &'a str,
    /// The step in which the error occurred, if in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    step_id: Option<&'a str>,
}

/// The steps by their ids, in the order of the plan.
#[derive(Debug)]
struct Steps<'a>(Vec<(&'a str, StepResult<'a>)>);

impl Serialize for Steps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(id, step)| (id, step)))
    }
}

impl<'a> ExecutionBody<'a> {
    /// An execution that was just made, with the warnings of its start: no step is decided yet.
    #[must_use]
    pub fn begun(execution: &'a Execution, warnings: &'a [String]) -> Self {
        let progress = execution.progress(|_| callboard_domain::execution::DispatchState::Pending);
        Self { warnings, ..Self::of(execution, progress) }
    }

    /// An execution as a list shows it.
    #[must_use]
    pub fn summary(Overview { execution, progress, held, .. }: &'a Overview) -> Self {
        let mut body = Self::of(execution, *progress);
        body.usage = UsageBody::from(execution.head.budget.usage() + *held);
        body
    }

    /// The same with what it waits for; `waiting` gives the obstacle of a pending task.
    #[must_use]
    pub fn listed(overview: &'a Overview, waiting: impl Fn(&Task) -> Waiting) -> Self {
        let mut body = Self::summary(overview);
        let execution = &overview.execution;
        if execution.head.state != State::Running {
            return body;
        }
        if let Some(task) = &overview.waits {
            let (reason, until) = waiting(task);
            body.waiting_for = reason;
            body.waiting_until = until.map(Iso);
            body.waiting_since = task.waiting_since().map(Iso);
        } else if execution.only_awaits() {
            let awaits = execution.steps().filter(|(_, row)| row.stage == Stage::Awaiting);
            let first = awaits.min_by_key(|(_, row)| row.started_at).map(|(_, row)| row);
            body.waiting_for = Some("signal");
            body.waiting_until = first.and_then(|row| row.until).map(Iso);
            body.waiting_since = first.and_then(|row| row.started_at).map(Iso);
        } else if execution.out().next().is_none()
            && execution.steps().any(|(number, _)| execution.waits_for_budget(number))
        {
            body.waiting_for = Some("budget");
        }
        body
    }

    /// An execution with its steps; `waiting` gives the obstacle of a pending task.
    #[must_use]
    pub fn whole(detail: &'a ExecutionDetail, waiting: impl Fn(&Task) -> Waiting) -> Self {
        let execution = &detail.overview.execution;
        let graph = execution.graph();
        let steps = execution
            .steps()
            .map(|(number, _)| (graph.name(number), StepResult::of(detail, number, &waiting)));
        let steps = Some(Steps(steps.collect()));
        let input = Some(&detail.input);
        Self { steps, input, ..Self::listed(&detail.overview, &waiting) }
    }

    /// An execution in an event: without its steps.
    #[must_use]
    pub fn in_event(head: &'a Head, progress: Option<Progress>) -> Self {
        let Head { spec, state, started_at, budget, error, erased_at, .. } = head;
        let ended_at = state.ended_at();
        let scheduled = if let State::Scheduled { at } = state { Some(Iso(*at)) } else { None };
        let template = spec.template.as_ref();
        Self {
            id: Text(spec.id),
            plan_id: Text(spec.plan),
            template_id: template.map(|template| template.id.as_str()),
            template_version: template.map(|template| template.version.as_str()),
            batch_id: spec.row_of.as_ref().map(|of| Text(of.batch)),
            key: spec.row_of.as_ref().map(|of| of.key.as_str()),
            status: state.status().as_str(),
            idempotency_key: spec.idempotency_key.as_deref(),
            tags: &spec.tags,
            callback_url: spec.callback_url.as_deref(),
            labels: LabelsBody::of(spec.labels.as_deref()),
            progress: progress.map(ProgressBody::from),
            input: None,
            steps: None,
            usage: UsageBody::from(budget.usage()),
            forked_from: spec.forked_from.as_deref().map(ForkedFromBody::from),
            start_at: spec.start_at.map(Iso),
            waiting_for: scheduled.map(|_| "schedule"),
            waiting_since: scheduled.map(|_| Iso(spec.created_at)),
            waiting_until: scheduled,
            started_at: head.has_begun().then_some(Iso(*started_at)),
            completed_at: ended_at.map(Iso),
            error: error.as_ref().filter(|_| ended_at.is_some()).map(ExecutionErrorBody::of),
            erased_at: erased_at.map(Iso),
            warnings: &[],
        }
    }

    fn of(execution: &'a Execution, progress: Progress) -> Self {
        let mut body = Self::in_event(&execution.head, Some(progress));
        let step = execution.head.error.as_ref().and_then(|cause| cause.step);
        if let Some(error) = &mut body.error {
            error.step_id = step.map(|step| execution.graph().name(step));
        }
        body
    }
}

impl<'a> ExecutionErrorBody<'a> {
    fn of(cause: &'a Cause) -> Self {
        let Ending { code, message } = &cause.ending;
        Self { code: code.as_str(), message, step_id: None }
    }
}

impl From<Progress> for ProgressBody {
    fn from(progress: Progress) -> Self {
        let Progress {
            total,
            completed,
            running,
            pending,
            failed,
            cancelled,
            skipped,
            awaiting_approval,
        } = progress;
        Self { total, completed, running, pending, failed, cancelled, skipped, awaiting_approval }
    }
}
