//! Definitions in answers: a step, its retries, and the settings for reviews.

use std::collections::BTreeMap;

use callboard_domain::plan::{HitlSource, ListSource, OnItemError, RetrySource, StepSource};
use callboard_domain::retry::Policy;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::wait;
use crate::confidence::ConfidenceBody;
use crate::flow::FlowBody;
use crate::hitl::Channel;
use crate::messages::MessageBody;
use crate::routing::RoutingBody;
use crate::sampling::SamplingBody;

/// A step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepBody<'a> {
    /// `^[a-z][a-z0-9-]*$`, at most 64 characters, unique; not input, env or meta.
    id: &'a str,
    /// `wait` for a step that waits for a signal; else left out.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// The signal that a wait waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<&'a str>,
    /// The schema of its payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    schema: Option<&'a Value>,
    /// The title of its tasks, with `{{…}}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    /// The prompt, with `{{…}}`: 1 byte to 1 MiB; not in lists of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    /// The function that the step calls in place of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<&'a str>,
    /// Its args, with `{{…}}` in their strings; not in lists of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    args: Option<&'a Map<String, Value>>,
    /// The first system message, with `{{…}}`; not in lists of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<&'a str>,
    /// Earlier turns, with `{{…}}`; not in lists of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<MessageBody<'a>>>,
    /// The files of the prompt, or of the call, with `{{…}}`.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    files: &'a [String],
    /// The model; by default `[models] default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    /// The queue; by default `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<&'a str>,
    /// The ids of the steps that must complete first.
    depends_on: &'a [String],
    /// True holds its output for review; by default false.
    requires_approval: bool,
    /// The texts that a reviewer of its output sees beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    review: Option<StepReviewBody<'a>>,
    /// The condition, in CEL.
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<&'a str>,
    /// The time limit of one attempt, in milliseconds; by default 300000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400_000)]
    timeout_ms: Option<u64>,
    /// The number of attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryBody>,
    /// The most tokens to answer with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    max_tokens: Option<u64>,
    /// 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0)]
    temperature: Option<f64>,
    /// The other members that steer the choice of tokens.
    #[serde(flatten)]
    sampling: SamplingBody<'a>,
    /// The placeholder of the list for each of whose items it runs, or lists that are walked together.
    #[serde(skip_serializing_if = "Option::is_none")]
    for_each: Option<ListsBody<'a>>,
    /// The name of the variable of an item; by default `item`.
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<&'a str>,
    /// The longest list, 1 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_items: Option<u16>,
    /// The most tasks at once, 1 to 1000; by default one for each item.
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency: Option<u16>,
    /// fail or skip; by default fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_item_error: Option<&'static str>,
    /// The share of the items that must complete, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    min_success: Option<f64>,
    /// `models`, `fallbackOn` and `serviceTier`.
    #[serde(flatten)]
    routing: RoutingBody<'a>,
    /// Keys that bound the step's tasks, or take turns.
    #[serde(flatten)]
    flow: FlowBody<'a>,
    /// The JSON Schema of its output; not in lists of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    output_schema: Option<&'a Value>,
    /// The source of its confidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<ConfidenceBody<'a>>,
}

/// The texts that a reviewer of a step's output sees.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StepReviewBody<'a> {
    /// Texts beside the output, with `{{…}}`.
    show: &'a [String],
}

/// The attempts of a step.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetryBody {
    /// Attempts in all, 1 to 20; by default 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    /// The wait after the first failure, in milliseconds, 0 to 300000; by default 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    /// The longest wait between two attempts, in milliseconds, 0 to 300000; by default 300000.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_backoff_ms: Option<u64>,
}

impl From<RetrySource> for RetryBody {
    fn from(RetrySource { max_attempts, backoff_ms, max_backoff_ms }: RetrySource) -> Self {
        Self { max_attempts, backoff_ms, max_backoff_ms }
    }
}

impl RetryBody {
    /// The policy of a task, unless it is the default.
    pub(crate) fn of(policy: Policy) -> Option<Self> {
        let Policy { max_attempts, backoff_ms, max_backoff_ms } = policy;
        (!policy.is_default()).then_some(Self {
            max_attempts: Some(max_attempts),
            backoff_ms: Some(backoff_ms),
            max_backoff_ms: Some(max_backoff_ms),
        })
    }
}

impl<'a> StepBody<'a> {
    /// A step as it was given.
    #[must_use]
    pub fn whole(step: &'a StepSource) -> Self {
        let retry = step.retry.map(RetryBody::from);
        Self {
            id: &step.id,
            kind: step.wait.as_ref().map(|_| wait::WAIT),
            signal: step.wait.as_ref().map(|wait| wait.signal.as_str()),
            schema: step.wait.as_ref().and_then(|wait| wait.schema.as_ref()),
            title: step.title.as_deref(),
            prompt: Some(step.prompt.as_str())
                .filter(|_| step.wait.is_none() && step.call.is_none()),
            function: step.call.as_ref().map(|call| call.function.as_str()),
            args: step.call.as_ref().map(|call| &call.args),
            system_prompt: step.system_prompt.as_deref(),
            messages: MessageBody::of_source(&step.messages),
            files: &step.files,
            model: step.model.as_deref(),
            queue: step.queue.as_deref(),
            depends_on: &step.depends_on,
            requires_approval: step.requires_approval,
            review: step.review.as_ref().map(|review| StepReviewBody { show: &review.show }),
            condition: step.condition.as_deref(),
            timeout_ms: step.timeout_ms,
            retry,
            max_tokens: step.max_tokens,
            temperature: step.temperature,
            sampling: SamplingBody::from(&step.sampling),
            for_each: step.map.for_each.as_ref().map(ListsBody::from),
            item: step.map.item.as_deref(),
            max_items: step.map.max_items,
            concurrency: step.map.concurrency,
            on_item_error: step.map.on_item_error.map(OnItemError::as_str),
            min_success: step.map.min_success,
            routing: RoutingBody::from(&step.routing),
            flow: FlowBody::given(&step.flow),
            output_schema: step.output_schema.as_ref(),
            confidence: step.confidence.as_ref().map(ConfidenceBody::from),
        }
    }

    /// A step without its texts, as lists show it.
    #[must_use]
    pub fn summary(step: &'a StepSource) -> Self {
        Self {
            prompt: None,
            args: None,
            system_prompt: None,
            messages: None,
            output_schema: None,
            ..Self::whole(step)
        }
    }
}

/// `hitl` of a template.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HitlBody<'a> {
    /// The ids of the steps whose outputs are always held.
    #[serde(skip_serializing_if = "Option::is_none")]
    required_for: Option<&'a [String]>,
    /// Minimum confidence to skip review, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0)]
    confidence_threshold: Option<f64>,
    /// The time for the review, in milliseconds, at most 30 days; by default 3600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
    /// The share of the outputs that nothing else holds which is held all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0.0, maximum = 1.0)]
    sample_rate: Option<f64>,
    /// The channels that notify reviewers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Channel>>)]
    notify_channels: Option<Vec<&'static str>>,
}

impl<'a> From<&'a HitlSource> for HitlBody<'a> {
    fn from(hitl: &'a HitlSource) -> Self {
        Self {
            required_for: hitl.required_for.as_deref(),
            confidence_threshold: hitl.confidence_threshold,
            timeout_ms: hitl.timeout_ms,
            sample_rate: hitl.sample_rate,
            notify_channels: hitl.notify.map(|channels| channels.names().collect()),
        }
    }
}

/// One list, or lists that are walked together, by the names of the variables of their items.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ListsBody<'a> {
    One(&'a str),
    Together(&'a BTreeMap<String, String>),
}

impl<'a> From<&'a ListSource> for ListsBody<'a> {
    fn from(lists: &'a ListSource) -> Self {
        match lists {
            ListSource::One(list) => Self::One(list),
            ListSource::Together(lists) => Self::Together(lists),
        }
    }
}
