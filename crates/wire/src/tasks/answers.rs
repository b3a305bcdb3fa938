//! Tasks in answers.

use callboard_domain::Timestamp;
use callboard_domain::budget::Money;
use callboard_domain::function::Work;
use callboard_domain::id::{BatchId, ExecutionId, FileId, TaskId, WorkerId};
use callboard_domain::schema::Schema;
use callboard_domain::task::{Ending, FailureKind, FlowSource, Message, State, Status, Task};
use callboard_domain::usage::Usage;
use callboard_runtime::read::TaskDetail;
use serde::Serialize;
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::approvals::DecisionBody;
use crate::common::{Iso, Text};
use crate::confidence::ConfidenceBody;
use crate::definitions::{self, RetryBody};
use crate::flow::FlowBody;
use crate::labels::LabelsBody;
use crate::messages::{self, TurnBody};
use crate::routing::RoutingBody;
use crate::sampling::SamplingBody;

/// A task; a member that does not exist yet is left out.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskBody<'a> {
    /// `dt_task_…`
    #[schema(value_type = String)]
    id: Text<TaskId>,
    /// pending, running, completed, failed, cancelled or rejected.
    status: &'static str,
    /// The model's name; `function:` and the name of the function for a call of one.
    model: &'a str,
    /// The queue's name.
    queue: &'a str,
    /// 1 to 10.
    priority: u8,
    /// The prompt; not in lists.
    prompt: Option<&'a str>,
    /// The function that a worker calls in place of a prompt.
    function: Option<&'a str>,
    /// The args of the function; not in lists.
    #[schema(value_type = Option<Object>)]
    args: Option<&'a Map<String, Value>>,
    /// System instructions; not in lists.
    system_prompt: Option<&'a str>,
    /// Extra key-value pairs; not in lists.
    #[schema(value_type = Option<Object>)]
    context: Option<&'a Map<String, Value>>,
    /// Earlier turns; not in lists.
    #[schema(value_type = Option<Vec<TurnBody>>)]
    messages: Option<Vec<Message<Text<FileId>, &'a str>>>,
    /// The ids of files that the model sees with the prompt; not in lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    files: Vec<Text<FileId>>,
    /// The idempotency key of the request that made it alone.
    idempotency_key: Option<&'a str>,
    /// The tags, for filtering.
    tags: &'a [String],
    /// The time of creation.
    created_at: Iso,
    /// The time of the first run.
    started_at: Option<Iso>,
    /// The time of an end with an output, a failure or a rejection.
    completed_at: Option<Iso>,
    /// The time of the cancellation.
    cancelled_at: Option<Iso>,
    /// The latest end of the running attempt.
    deadline_at: Option<Iso>,
    /// The model's answer, or the JSON of a function's value; not in lists.
    output: Option<&'a str>,
    /// The model's thinking before the answer, at most 32 KiB; not in lists.
    thinking: Option<&'a str>,
    /// The reason why the model stopped, in the provider's word.
    finish_reason: Option<&'a str>,
    /// The usage of the model call.
    usage: Option<UsageBody>,
    /// The worker that runs the task, or ran it last.
    #[schema(value_type = Option<String>)]
    worker_id: Option<Text<WorkerId>>,
    /// The number of returns to the queue after a failed attempt.
    retry_count: u32,
    /// The number of the current or last attempt; 0 before the first.
    attempt: u32,
    /// The workers that were lost while they had the task, which uses up no attempt; absent if none was. After five
    /// the task fails.
    workers_lost: Option<u32>,
    /// The failure of the task, or of its last attempt.
    error: Option<TaskErrorBody<'a>>,
    /// The time at which the texts were erased.
    erased_at: Option<Iso>,
    /// The worker's confidence in the output, 0 to 1.
    confidence: Option<f64>,
    /// The source of the confidence.
    confidence_source: Option<&'a str>,
    /// True if its output is held for review.
    awaiting_approval: bool,
    /// The instant before which it does not run.
    start_at: Option<Iso>,
    /// The reason that it waits while it is pending: schedule, worker, approval, backoff, limit, paused, `queue_paused`, budget.
    waiting_for: Option<&'static str>,
    /// The instant since which it waits; absent after an attempt that failed.
    waiting_since: Option<Iso>,
    /// The earliest end of the wait, if it is known.
    waiting_until: Option<Iso>,
    /// The model that was called last.
    model_used: Option<&'a str>,
    /// The failure after which the task went on to this model.
    fallback_reason: Option<&'static str>,
    /// `models`, `fallbackOn` and `serviceTier` as they were given.
    #[serde(flatten)]
    routing: RoutingBody<'a>,
    /// The batch that it was created in.
    #[schema(value_type = Option<String>)]
    batch_id: Option<Text<BatchId>>,
    /// The execution that it belongs to.
    #[schema(value_type = Option<String>)]
    plan_execution_id: Option<Text<ExecutionId>>,
    /// The step that the task is.
    step_id: Option<&'a str>,
    /// The item of the step's list that it is for, from 0.
    item: Option<u16>,
    /// The task that it tries again: a rejected one, or one that was retried.
    #[schema(value_type = Option<String>)]
    retry_of: Option<Text<TaskId>>,
    /// The task of the forked execution whose output it is a copy of.
    #[schema(value_type = Option<String>)]
    reused_from: Option<Text<TaskId>>,
    /// The time limit of one attempt.
    timeout_ms: u64,
    /// The most tokens to answer with.
    max_tokens: Option<u64>,
    /// 0 to 1.
    temperature: Option<f64>,
    /// The other members that steer the choice of tokens, as they were given.
    #[serde(flatten)]
    sampling: SamplingBody<'a>,
    /// The attempts and the waits between them, unless they are the default.
    retry: Option<RetryBody<'a>>,
    /// The JSON Schema of the output; not in lists.
    #[schema(value_type = Option<Object>)]
    output_schema: Option<&'a Value>,
    /// The requested source of the confidence; not in lists.
    confidence_request: Option<ConfidenceBody<'a>>,
    /// The receiver of webhooks.
    callback_url: Option<&'a str>,
    /// The title, and what the webhook announces.
    #[serde(flatten)]
    labels: LabelsBody<'a>,
    /// Keys that bound the task, or take turns.
    #[serde(flatten)]
    flow: FlowBody<'a>,
    /// The second decision on the output, beside the one that others have gone by; not in lists.
    correction: Option<DecisionBody<'a>>,
    /// Work that no connected worker takes now; only in the answer to a submission.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
}

/// Tokens and money.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageBody {
    /// Tokens read.
    input: u64,
    /// Tokens made.
    output: u64,
    /// Tokens read and made.
    total: u64,
    /// USD.
    total_cost: f64,
    /// True if the model has no price, which counts as 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    price_unknown: bool,
    /// Tokens read from the provider's cache; part of `input`.
    #[serde(skip_serializing_if = "is_zero")]
    cache_read: u64,
    /// Tokens written to the provider's cache; part of `input`.
    #[serde(skip_serializing_if = "is_zero")]
    cache_write: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl From<Usage> for UsageBody {
    fn from(usage: Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
            total: usage.total(),
            // A sum without the traces of binary fractions: a billionth of a dollar is the smallest part.
            total_cost: Money::from_usd(usage.total_cost).as_usd(),
            price_unknown: usage.price_unknown,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
        }
    }
}

/// The error that ended a task or an attempt.
#[derive(Debug, Serialize, ToSchema)]
pub struct TaskErrorBody<'a> {
    /// The code.
    code: &'static str,
    /// The text for people.
    message: &'a str,
}

impl<'a> From<&'a Ending> for TaskErrorBody<'a> {
    fn from(ending: &'a Ending) -> Self {
        Self { code: ending.code.as_str(), message: &ending.message }
    }
}

impl<'a> TaskBody<'a> {
    /// A task as a list shows it.
    #[must_use]
    pub fn summary(task: &'a Task, waiting_for: Option<&'static str>) -> Self {
        let (spec, result) = (&*task.spec, task.result.as_ref());
        let step = spec.origin.step.as_ref();
        let (deadline_at, cancelled_at) = match task.state {
            State::Running { deadline, .. } => (Some(Iso(deadline)), None),
            State::Cancelled { at } => (None, Some(Iso(at))),
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::AwaitingApproval { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Rejected { .. } => (None, None),
        };
        Self {
            id: Text(spec.id),
            status: task.status().as_str(),
            model: &spec.model,
            queue: &spec.queue,
            priority: task.priority(),
            prompt: None,
            function: Work::of(&spec.model).function(),
            args: None,
            system_prompt: None,
            context: None,
            messages: None,
            files: Vec::new(),
            idempotency_key: spec.origin.idempotency_key.as_deref(),
            tags: &spec.tags,
            created_at: Iso(spec.id.created_at()),
            started_at: task.started_at.map(Iso),
            completed_at: task.completed_at().map(Iso),
            cancelled_at,
            deadline_at,
            output: None,
            thinking: None,
            finish_reason: result.and_then(|result| result.finish_reason.as_deref()),
            usage: result.map(|result| UsageBody::from(result.usage)),
            worker_id: task.worker.map(Text),
            retry_count: task.retries,
            attempt: task.attempt,
            workers_lost: Some(task.losses).filter(|losses| *losses > 0),
            error: task.error.as_ref().map(TaskErrorBody::from),
            erased_at: task.erased_at.map(Iso),
            confidence: result.and_then(|result| result.confidence),
            confidence_source: result.and_then(|result| result.confidence_source.as_deref()),
            awaiting_approval: matches!(task.state, State::AwaitingApproval { .. }),
            start_at: spec.start_at.map(Iso),
            waiting_for,
            waiting_since: task.waiting_since().map(Iso),
            waiting_until: None,
            model_used: task.model_used(),
            fallback_reason: task.fallback_reason().map(FailureKind::as_str),
            routing: RoutingBody::of(spec.routing.as_deref()),
            batch_id: spec.origin.batch.map(Text),
            plan_execution_id: step.map(|(execution, _)| Text(*execution)),
            step_id: step.map(|(_, step)| step.as_str()),
            item: spec.origin.item,
            retry_of: spec.origin.retry_of.map(Text),
            reused_from: spec.origin.copy_of.map(Text),
            timeout_ms: spec.timeout_ms,
            max_tokens: spec.max_tokens,
            temperature: spec.temperature,
            sampling: SamplingBody::of(spec.sampling.as_deref()),
            retry: definitions::retry(spec.retry),
            output_schema: None,
            confidence_request: None,
            callback_url: spec.callback_url.as_deref(),
            labels: LabelsBody::of(spec.labels.as_deref()),
            flow: spec
                .flow
                .as_deref()
                .map(|flow| FlowBody::made(FlowSource::from(flow)))
                .unwrap_or_default(),
            correction: None,
            warnings: &[],
        }
    }

    /// This body with the instant until which the task waits.
    #[must_use]
    pub fn until(self, until: Option<Timestamp>) -> Self {
        Self { waiting_until: until.map(Iso), ..self }
    }

    /// This body with the warnings of its submission.
    #[must_use]
    pub fn warned(self, warnings: &'a [String]) -> Self {
        Self { warnings, ..self }
    }

    /// A task with its texts.
    #[must_use]
    pub fn whole(detail: &'a TaskDetail, waiting_for: Option<&'static str>) -> Self {
        Self {
            prompt: (detail.task.erased_at.is_none() && detail.inputs.args.is_none())
                .then_some(&*detail.inputs.prompt),
            args: detail.inputs.args.as_deref(),
            system_prompt: detail.inputs.system_prompt.as_deref(),
            context: detail.inputs.context.as_ref(),
            messages: messages::of_task(&detail.inputs),
            files: detail.inputs.own_files().iter().copied().map(Text).collect(),
            output: detail.output.as_deref(),
            thinking: detail.thinking.as_deref(),
            correction: detail.correction.as_deref().map(DecisionBody::from),
            output_schema: detail.inputs.output_schema.as_ref().map(Schema::source),
            confidence_request: detail.inputs.confidence.as_deref().map(ConfidenceBody::from),
            ..Self::summary(&detail.task, waiting_for)
        }
    }
}

/// A cancelled task.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cancelled {
    /// The id of the task.
    #[schema(value_type = String)]
    pub id: Text<TaskId>,
    /// cancelled.
    pub status: &'static str,
    /// The time of the cancellation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancelled_at: Option<Iso>,
}

impl Cancelled {
    /// The answer to a cancellation.
    #[must_use]
    pub fn of(task: &Task) -> Self {
        let body = TaskBody::summary(task, None);
        Self { id: Text(task.spec.id), status: body.status, cancelled_at: body.cancelled_at }
    }
}

/// A batch as it was created.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchBody {
    /// `dt_batch_…`
    #[schema(value_type = String)]
    pub batch_id: Text<BatchId>,
    /// The tasks, in the order of the request.
    pub tasks: Vec<BatchItem>,
    /// The number.
    pub total: usize,
    /// Work that no connected worker takes now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// One task of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchItem {
    /// `dt_task_…`
    #[schema(value_type = String)]
    pub id: Text<TaskId>,
    /// pending.
    pub status: &'static str,
}

/// A batch as it is.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchStatusBody {
    /// `dt_batch_…`
    #[schema(value_type = String)]
    pub batch_id: Text<BatchId>,
    /// The time of creation.
    pub created_at: Iso,
    /// The tasks that are still stored, in the order of the request.
    pub tasks: Vec<BatchItem>,
    /// The number.
    pub total: usize,
    /// The number in each status.
    #[schema(value_type = std::collections::HashMap<String, u64>)]
    pub counts: Map<String, Value>,
}

impl BatchStatusBody {
    /// The batch of these tasks.
    #[must_use]
    pub fn of(id: BatchId, tasks: &[Task]) -> Self {
        let count = |status: Status| tasks.iter().filter(|task| task.status() == status).count();
        let counts = Status::ALL.map(|status| (status.as_str().to_owned(), count(status).into()));
        let item =
            |task: &Task| BatchItem { id: Text(task.spec.id), status: task.status().as_str() };
        Self {
            batch_id: Text(id),
            created_at: Iso(id.created_at()),
            tasks: tasks.iter().map(item).collect(),
            total: tasks.len(),
            counts: Map::from_iter(counts),
        }
    }
}
