//! The common parts of plans and templates on the wire: steps, `hitl`, and every fault of a
//! definition in one answer (PROTOCOL.md 2).
//!
//! Reading knows types, ranges and names; the domain knows the rest. Deliberately absent: lengths
//! and patterns of texts, which the domain checks.

mod wait;

use std::collections::HashSet;
use std::ops::RangeInclusive;

use callboard_domain::condition;
use callboard_domain::confidence::ask::Ask;
use callboard_domain::execution::MAX_ITEMS;
use callboard_domain::plan::{
    HitlSource, MAX_ATTEMPTS, MAX_BACKOFF_MS, MAX_ID, MAX_ITEM_NAME, MAX_STEPS, MAX_TAG, MAX_TAGS,
    MAX_TIMEOUT_MS, MapSource, OnItemError, RetrySource, StepSource, WaitSource,
};
use callboard_domain::problem::{Problem, Problems};
use callboard_domain::render::MAX_PROMPT;
use callboard_domain::task::{FlowSource, MAX_TARGET, Routing};
use callboard_domain::{Error, Fault};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::confidence::ConfidenceBody;
use super::flow::FlowBody;
use super::hitl::{self, Channel};
use super::messages::{MessageBody, turns};
use super::read::rule::{self, Parse};
use super::read::{self, Read, shape};
use super::routing::RoutingBody;
use crate::request;

/// A string whose length the domain checks.
pub(super) fn text(limits: RangeInclusive<usize>) -> impl Parse<String> {
    rule::text(rule::bytes(0..=usize::MAX))
        .with(move || json!({"minLength": limits.start(), "maxLength": limits.end()}))
}

/// The name of a model or of a queue.
pub(super) fn target() -> impl Parse<String> {
    text(1..=MAX_TARGET)
}

/// Strings whose number the domain checks.
pub(super) fn texts(most: usize, of: impl Parse<String>) -> impl Parse<Vec<String>> {
    rule::list(0..=usize::MAX, of).with(move || json!({"maxItems": most}))
}

/// The tags of a definition.
pub(super) fn tags() -> impl Parse<Vec<String>> {
    texts(MAX_TAGS, text(1..=MAX_TAG))
}

fn step_id() -> impl Parse<String> {
    text(1..=MAX_ID).with(move || json!({"pattern": "^[a-z][a-z0-9-]*$"}))
}

/// The ids of steps.
pub(super) fn step_ids() -> impl Parse<Vec<String>> {
    texts(MAX_STEPS, text(0..=MAX_ID))
}

/// The steps of a definition.
pub(super) fn steps() -> impl Parse<Vec<StepSource>> {
    rule::list(0..=usize::MAX, rule::object::<StepSource>())
        .with(|| json!({"minItems": 1, "maxItems": MAX_STEPS}))
}

/// A JSON Schema, which the domain checks.
pub(super) fn schema() -> impl Parse<Value> {
    rule::any().with(move || json!({"type": "object"}))
}

/// A time limit in milliseconds.
pub(super) fn timeout() -> impl Parse<u64> {
    rule::whole(1..=MAX_TIMEOUT_MS)
}

request! {
    impl StepSource as "StepRequest" {
        /// Unique in its plan; not input, env or meta.
        id = required_or_default("id", step_id()),
        /// The prompt, with placeholders: at most 1 MiB; not for a wait.
        prompt = required_unless("prompt", text(1..=MAX_PROMPT), "type", wait::WAIT),
        /// System instructions, with placeholders: at most 1 MiB.
        system_prompt = optional("systemPrompt", text(1..=MAX_PROMPT)),
        /// Earlier turns, with placeholders: at most 1 MiB of content in all.
        messages = or_default("messages", turns()),
        /// The model; by default `[models] default`.
        model = optional("model", target()),
        /// The queue; by default `default`.
        queue = optional("queue", target()),
        /// The ids of the steps that must complete first.
        depends_on = or_default("dependsOn", step_ids()),
        /// The condition of the step, in CEL; without one it runs.
        condition = optional("condition", text(1..=condition::MAX_LENGTH)),
        /// True holds its output for review; by default false.
        requires_approval = or_default("requiresApproval", rule::flag()),
        /// The time limit of one attempt, in milliseconds, by default 300000; or of a wait, by default none.
        timeout_ms = optional("timeoutMs", timeout()),
        /// The number of attempts.
        retry = optional("retry", rule::object::<RetrySource>()),
        /// The most tokens of the output.
        max_tokens = optional("maxTokens", rule::whole(1..=u64::MAX)),
        /// The sampling temperature.
        temperature = optional("temperature", rule::number(0.0..=1.0)),
        /// The list for each of whose items it runs.
        map = flat(shape::<MapSource>()),
        /// The event that a wait step awaits.
        wait = flat(shape::<Option<WaitSource>>()),
        /// The models that may be called, and the service tier.
        routing = flat(shape::<Routing>()),
        /// Which tasks run together, and which take turns.
        flow = flat(shape::<FlowSource>()),
        /// The JSON Schema (2020-12) of the output.
        output_schema = optional("outputSchema", schema()),
        /// The source of its confidence.
        confidence = optional("confidence", rule::object::<Ask>()),
    }
}

request! {
    impl MapSource as "MapRequest" {
        /// The placeholder of a list, an input or an output in JSON: one task for each of its items.
        for_each = optional("forEach", text(5..=MAX_PROMPT)),
        /// The name of the variable of an item; by default `item`.
        item = optional("item", item_name()),
        /// The longest list, required beside forEach; a longer one fails the step.
        max_items = optional("maxItems", rule::whole(1..=MAX_ITEMS)),
        /// The most tasks at once; by default one for each item.
        concurrency = optional("concurrency", rule::whole(1..=MAX_ITEMS)),
        /// The rule for a failed item: fail the step, or leave null in its output; by default fail.
        on_item_error = optional("onItemError", rule::one_of(&OnItemError::ALL, OnItemError::as_str)),
        /// The share of the items that must complete where onItemError is skip; by default 0.
        min_success = optional("minSuccess", rule::number(0.0..=1.0)),
    }
}

fn item_name() -> impl Parse<String> {
    text(1..=MAX_ITEM_NAME).with(|| json!({"pattern": "^[a-z][a-zA-Z0-9_-]*$"}))
}

request! {
    impl RetrySource as "RetryRequest" {
        /// The attempts in all; by default 3.
        max_attempts = optional("maxAttempts", rule::whole(1..=MAX_ATTEMPTS)),
        /// The wait after the first failure, in milliseconds; by default 1000.
        backoff_ms = optional("backoffMs", rule::whole(0..=MAX_BACKOFF_MS)),
    }
}

request! {
    impl HitlSource as "HitlRequest" {
        /// The ids of the steps whose outputs are always held.
        required_for = optional("requiredFor", step_ids()),
        /// Minimum confidence to skip review.
        confidence_threshold = optional("confidenceThreshold", rule::number(0.0..=1.0)),
        /// The time of the reviewer, in milliseconds; by default 3600000.
        timeout_ms = optional("timeoutMs", timeout()),
        /// The share of the other outputs that is held as well; by default 0.
        sample_rate = optional("sampleRate", hitl::sample_rate()),
        /// The channels that notify reviewers.
        notify = optional("notifyChannels", hitl::channels()),
    }
}

/// Reads a definition. If a field cannot be read, the faults that `check` finds in the rest are
/// reported as well.
///
/// # Errors
/// [`Error::InvalidDefinition`] with every fault, in the order of their places. Faults that `check` alone
/// finds are not reported here: the catalog checks the definition when it takes it.
pub(super) fn read<T: Read>(
    value: Value,
    check: impl FnOnce(T) -> Vec<Problem>,
) -> Result<T, Error> {
    let (source, faults) = read::every_fault::<T>(value);
    match source {
        Some(source) if faults.is_empty() => Ok(source),
        source => {
            let found = source.map(check).unwrap_or_default();
            Problems::none_of(joined(faults, found))?;
            Err(Error::Internal)
        }
    }
}

/// All of them by place; faults in a field that could not be read are left out.
fn joined(faults: Vec<Fault>, found: Vec<Problem>) -> Vec<Problem> {
    let unread: HashSet<String> = faults.iter().map(|fault| fault.field.clone()).collect();
    let is_unread = |field: &str| {
        let ends = field.char_indices().filter(|(_, end)| matches!(end, '.' | '['));
        let mut within = ends.map(|(end, _)| &field[..end]);
        unread.contains(field) || within.any(|field| unread.contains(field))
    };
    let mut all: Vec<_> = faults.into_iter().map(Problem::from).collect();
    all.extend(found.into_iter().filter(|problem| !is_unread(&problem.field)));
    all.sort_by_cached_key(|problem| place(&problem.field));
    all
}

/// The members of definitions, in the order of their faults.
const ORDER: [&str; 44] = [
    "name",
    "description",
    "version",
    "industry",
    "tags",
    "visibility",
    "inputSchema",
    "outputSchema",
    "steps",
    "defaults",
    "hitl",
    "metadata",
    "id",
    "type",
    "signal",
    "schema",
    "prompt",
    "systemPrompt",
    "messages",
    "role",
    "content",
    "model",
    "models",
    "fallbackOn",
    "serviceTier",
    "queue",
    "dependsOn",
    "condition",
    "requiresApproval",
    "timeoutMs",
    "retry",
    "maxTokens",
    "temperature",
    "forEach",
    "item",
    "maxItems",
    "concurrency",
    "onItemError",
    "minSuccess",
    "concurrencyKey",
    "concurrencyLimit",
    "onConflict",
    "fairnessKey",
    "weight",
];

/// Where a field stands, so that places can be ordered: members as in [`ORDER`], items by number.
fn place(field: &str) -> Vec<(usize, String)> {
    let parts = field.split(['.', '[']).map(|part| part.trim_end_matches(']'));
    let rank = |part: &str| {
        if let Ok(index) = part.parse() {
            return (index, String::new());
        }
        let known = ORDER.iter().position(|name| *name == part);
        (known.unwrap_or(ORDER.len()), part.to_owned())
    };
    parts.map(rank).collect()
}

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
    /// With `{{…}}`: 1 byte to 1 MiB; not in lists of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<&'a str>,
    /// The first system message, with `{{…}}`; not in lists of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    system_prompt: Option<&'a str>,
    /// Earlier turns, with `{{…}}`; not in lists of plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<Vec<MessageBody<'a>>>,
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
    /// The placeholder of the list for each of whose items it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    for_each: Option<&'a str>,
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
    /// Keys that bound its tasks, or take turns.
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
}

impl<'a> StepBody<'a> {
    /// A step as it was given.
    #[must_use]
    pub fn whole(step: &'a StepSource) -> Self {
        let retry = step.retry.map(|retry| RetryBody {
            max_attempts: retry.max_attempts,
            backoff_ms: retry.backoff_ms,
        });
        Self {
            id: &step.id,
            kind: step.wait.as_ref().map(|_| wait::WAIT),
            signal: step.wait.as_ref().map(|wait| wait.signal.as_str()),
            schema: step.wait.as_ref().and_then(|wait| wait.schema.as_ref()),
            prompt: Some(step.prompt.as_str()).filter(|_| step.wait.is_none()),
            system_prompt: step.system_prompt.as_deref(),
            messages: MessageBody::all(&step.messages),
            model: step.model.as_deref(),
            queue: step.queue.as_deref(),
            depends_on: &step.depends_on,
            requires_approval: step.requires_approval,
            condition: step.condition.as_deref(),
            timeout_ms: step.timeout_ms,
            retry,
            max_tokens: step.max_tokens,
            temperature: step.temperature,
            for_each: step.map.for_each.as_deref(),
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
    /// The time for the review, in milliseconds; by default 3600000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 86_400_000)]
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

#[cfg(test)]
mod tests {
    use callboard_domain::plan::{Plan, PlanSource};
    use serde_json::json;

    use super::*;

    fn faults(plan: Value) -> Vec<(String, String)> {
        let check = |source| match Plan::compile(source, &[]) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.all().to_vec(),
        };
        match read::<PlanSource>(plan, check) {
            Err(Error::InvalidDefinition(problems)) => {
                let of = |problem: &Problem| {
                    let rule = problem.code.rule().map_or(problem.code.as_str(), |it| it.as_str());
                    (problem.field.clone(), rule.to_owned())
                };
                problems.all().iter().map(of).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_read_and_what_makes_no_sense_is_told_together_by_place() {
        let plan = json!({
            "steps": [
                {"id": "a", "prompt": "{{b.output}}", "timeoutMs": 0},
                {"id": "a", "prompt": 5, "dependsOn": ["x", 7], "temperature": 2, "later": 1},
                {"id": "c", "prompt": "{{", "dependsOn": ["c"]},
                "d",
            ],
            "surprise": 1,
            "tags": [""],
        });
        let expected = [
            ("name", "required"),
            ("tags[0]", "length"),
            ("steps[0].prompt", "MISSING_DEPENDENCY"),
            ("steps[0].timeoutMs", "range"),
            ("steps[1].id", "DUPLICATE_STEP_ID"),
            ("steps[1].prompt", "type"),
            ("steps[1].dependsOn[0]", "MISSING_DEPENDENCY"),
            ("steps[1].dependsOn[1]", "type"),
            ("steps[1].temperature", "range"),
            ("steps[1].later", "unknown"),
            ("steps[2].prompt", "placeholder"),
            ("steps[2].dependsOn", "CIRCULAR_DEPENDENCY"),
            ("steps[3]", "type"),
            ("surprise", "unknown"),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(field, rule)| ((*field).into(), (*rule).into())).collect();
        assert_eq!(faults(plan), expected);
    }

    #[test]
    fn items_are_ordered_by_number() {
        let mut steps = vec![json!({"id": "a"}); 12];
        steps.truncate(12);
        let found = faults(json!({"name": "n", "steps": steps}));
        let prompts = found.iter().filter(|(_, rule)| rule == "required");
        let fields: Vec<_> = prompts.map(|(field, _)| field.as_str()).collect();
        assert_eq!(
            (fields.len(), fields[2], fields[11]),
            (12, "steps[2].prompt", "steps[11].prompt")
        );
    }
}
