//! Executions on the wire (docs/reference/executions.md).

use callboard_domain::execution::{Cause, Execution, Head, Progress, State};
use callboard_domain::id::{ExecutionId, PlanId, TemplateBatchId};
use callboard_domain::task::{Ending, Task};
use callboard_runtime::read::runs::{ExecutionDetail, Overview};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::common::{Iso, Text};
use super::labels::LabelsBody;
use super::tasks::UsageBody;

mod dry_run;
mod fork;
mod items;
mod list;
mod start;
mod step;

pub use dry_run::{DryBudgetBody, DryItemsBody, DryRunBody, DryStepBody, EstimateBody};
pub use fork::{ForkExecution, ForkedFromBody};
pub use items::{ItemBody, ItemCountsBody, ListItems};
pub use list::ListExecutions;
pub use start::{ExecutePlan, RunOptions};
pub use step::{StepResult, StepSummary, Waiting};

/// An execution; a member that does not exist yet is left out.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    template_id: Option<&'a str>,
    /// The version that was deployed.
    #[serde(skip_serializing_if = "Option::is_none")]
    template_version: Option<&'a str>,
    /// The batch that it is a row of: `bat_…`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    batch_id: Option<Text<TemplateBatchId>>,
    /// The key of that row.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// pending, running, completed, failed or cancelled.
    status: &'static str,
    /// The tags of the plan and of the request.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    /// The receiver of webhooks.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<&'a str>,
    /// The title, and what the webhooks announce.
    #[serde(flatten)]
    labels: LabelsBody<'a>,
    /// The number of steps in each state; in an event, at the time of reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressBody>,
    /// The state of each step, by its id; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<std::collections::HashMap<String, StepResult>>)]
    steps: Option<Steps<'a>>,
    /// The input, defaults filled in; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    input: Option<&'a Map<String, Value>>,
    /// The usage of all its model calls.
    usage: UsageBody,
    /// The instant before which it does not begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    start_at: Option<Iso>,
    /// `schedule` while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting_for: Option<&'static str>,
    /// The time of the start, while the execution is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    waiting_until: Option<Iso>,
    /// The execution that it is a fork of.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkedFromBody<'a>>,
    /// The time of the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Iso>,
    /// The time of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    completed_at: Option<Iso>,
    /// The error, once it has failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ExecutionErrorBody<'a>>,
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
    /// An execution that was just made: no step is decided yet.
    #[must_use]
    pub fn begun(execution: &'a Execution) -> Self {
        let progress = execution.progress(|_| callboard_domain::execution::DispatchState::Pending);
        Self::of(execution, progress)
    }

    /// An execution as a list shows it.
    #[must_use]
    pub fn summary(Overview { execution, progress }: &'a Overview) -> Self {
        Self::of(execution, *progress)
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
        Self { steps, input, ..Self::summary(&detail.overview) }
    }

    /// An execution in an event: without its steps.
    #[must_use]
    pub fn in_event(head: &'a Head, progress: Option<Progress>) -> Self {
        let Head { spec, state, started_at, budget, error, .. } = head;
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
            waiting_until: scheduled,
            started_at: head.has_begun().then_some(Iso(*started_at)),
            completed_at: ended_at.map(Iso),
            error: error.as_ref().filter(|_| ended_at.is_some()).map(ExecutionErrorBody::of),
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
