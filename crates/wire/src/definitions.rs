//! The common parts of plans and templates in requests: steps and `hitl` (docs/reference/errors.md).
//!
//! Reading knows types, ranges and names; the domain knows the rest.

mod faults;
mod wait;

use std::ops::RangeInclusive;

use callboard_domain::condition;
use callboard_domain::confidence::ask::Ask;
use callboard_domain::execution::MAX_ITEMS;
use callboard_domain::function::Call;
use callboard_domain::grammar::Kind;
use callboard_domain::labels::MAX_TITLE_SOURCE;
use callboard_domain::plan::{
    HitlSource, ListSource, MAX_ATTEMPTS, MAX_BACKOFF_MS, MAX_ID, MAX_ITEM_NAME, MAX_LISTS,
    MAX_SHOWN, MAX_SHOWN_SOURCE, MAX_STEPS, MAX_TAG, MAX_TAGS, MAX_TIMEOUT_MS, MapSource,
    OnItemError, RetrySource, ReviewSource, StepSource, WaitSource,
};
use callboard_domain::render::MAX_PROMPT;
use callboard_domain::retry::Policy;
use callboard_domain::task::{FlowSource, MAX_TARGET, Routing, Sampling};
use serde_json::{Value, json};

pub use self::faults::Definition;
pub(super) use self::faults::read;
use super::answer::Given;
use super::files::file_texts;
use super::hitl;
use super::messages::turns;
use super::read::rule::{self, Parse};
use super::read::{Components, Field, Refused, shape};
use crate::request;

/// A string whose length the domain checks.
pub(super) fn text(limits: RangeInclusive<usize>) -> impl Parse<String> {
    rule::text(rule::bytes(0..=usize::MAX))
        .with(move || json!({"minLength": limits.start(), "maxLength": limits.end()}))
}

/// The name of a model.
pub(super) fn model() -> impl Parse<String> {
    rule::name(Kind::Model, text(1..=MAX_TARGET))
}

/// The name of a queue.
pub(super) fn queue() -> impl Parse<String> {
    rule::name(Kind::Queue, text(1..=MAX_TARGET))
}

/// Strings whose number the domain checks.
pub(super) fn texts(most: usize, of: impl Parse<String>) -> impl Parse<Vec<String>> {
    rule::list(0..=usize::MAX, of).with(move || json!({"maxItems": most}))
}

/// The tags of a definition.
pub(super) fn tags() -> impl Parse<Vec<String>> {
    texts(MAX_TAGS, rule::name(Kind::Tag, text(1..=MAX_TAG)))
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
    impl StepSource as "StepRequest", answered as "Step" {
        /// Unique in its plan; not input, env or meta.
        id = required_or_default("id", step_id()),
        /// The title of its tasks, with placeholders; by default that of the execution. Not for a wait.
        title = optional("title", text(1..=MAX_TITLE_SOURCE)),
        /// The prompt, with placeholders: at most 1 MiB; not for a wait, and not beside function.
        prompt = required_unless("prompt", text(1..=MAX_PROMPT), &[("type", Some(wait::WAIT)), ("function", None)]),
        /// The function that the step calls in place of a model.
        call = flat(shape::<Option<Call>>()),
        /// System instructions, with placeholders: at most 1 MiB.
        system_prompt = optional("systemPrompt", text(1..=MAX_PROMPT)),
        /// Earlier turns, with placeholders: at most 1 MiB of content in all.
        messages = or_default("messages", turns()),
        /// The files of the prompt, or of the call: ids, or placeholders of ids and of lists of ids; at most 20.
        files = or_default("files", file_texts()),
        /// The model; by default `[models] default`.
        model = optional("model", model()),
        /// The queue; by default `default`.
        queue = optional("queue", queue()),
        /// The ids of the steps that must complete first.
        depends_on = default_shown("dependsOn", step_ids()),
        /// True holds its output for review; by default false.
        requires_approval = default_shown("requiresApproval", rule::flag()),
        /// The condition of the step, in CEL; without one it runs.
        condition = optional("condition", text(1..=condition::MAX_LENGTH)),
        /// The texts that a reviewer of its output sees beside it. Not for a wait.
        review = optional("review", rule::object::<ReviewSource>()),
        /// The time limit of one attempt, in milliseconds, by default 300000; or of a wait, by default none.
        timeout_ms = optional("timeoutMs", timeout()),
        /// The number of attempts.
        retry = optional("retry", rule::object::<RetrySource>()),
        /// The most tokens of the output.
        max_tokens = optional("maxTokens", rule::whole(1..=u64::MAX)),
        /// The sampling temperature.
        temperature = optional("temperature", rule::number(0.0..=1.0)),
        /// The seed, the share of the probability and the stop sequences.
        sampling = flat(shape::<Sampling>()),
        /// The list for whose items the step runs.
        map = flat(shape::<MapSource>()),
        /// The event that a wait step awaits.
        wait = flat(shape::<Option<WaitSource>>()),
        /// The models that may be called, and the service tier.
        routing = flat(shape::<Routing>()),
        /// The keys by which tasks run together or take turns.
        flow = flat(shape::<FlowSource>()),
        /// The JSON Schema (2020-12) of the output.
        output_schema = optional("outputSchema", schema()),
        /// The source of its confidence.
        confidence = optional("confidence", rule::object::<Ask>()),
    }
}

/// A step as it was given.
pub type StepBody<'a> = Given<'a, StepSource>;

request! {
    impl ReviewSource as "StepReviewRequest", answered as "StepReview" {
        /// Texts with placeholders, such as `{{input.letter}}`. They are rendered with the step, 256 KiB in all (what
        /// is longer is cut), and reach no model. One without the value of a placeholder is left out.
        show = default_shown("show", texts(MAX_SHOWN, text(1..=MAX_SHOWN_SOURCE))),
    }
}

request! {
    impl MapSource as "MapRequest", answered as "Map" {
        /// The placeholder of a list, an input or an output in JSON: one task for each of its items. Or several
        /// lists of one length that are walked together, by the names of the variables of their items.
        for_each = optional("forEach", Lists),
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

/// The members of a step that lists of plans leave out.
const TEXTS: [&str; 5] = ["prompt", "args", "systemPrompt", "messages", "outputSchema"];

/// A step without its texts, as lists show it.
#[must_use]
pub fn summary(step: &StepSource) -> StepBody<'_> {
    Given::from(step).without(&TEXTS)
}

/// The attempts of a task, unless they are the default.
pub(super) fn retry(policy: Policy) -> Option<RetryBody<'static>> {
    let Policy { max_attempts, backoff_ms, max_backoff_ms } = policy;
    (!policy.is_default()).then(|| {
        Given::made(RetrySource {
            max_attempts: Some(max_attempts),
            backoff_ms: Some(backoff_ms),
            max_backoff_ms: Some(max_backoff_ms),
        })
    })
}

/// A list, or lists by the names of their variables.
struct Lists;

impl Parse<ListSource> for Lists {
    fn parse(&self, field: Field<'_>) -> Result<ListSource, Refused> {
        if field.value.is_object() {
            let lists = lists().parse(field)?;
            return Ok(ListSource::Together(lists.into_iter().collect()));
        }
        list().parse(field).map(ListSource::One)
    }

    fn schema(&self, components: &mut Components) -> Value {
        components.named_in_answers(
            "Lists",
            |components| json!({"oneOf": [list().schema(components), lists().schema(components)]}),
        )
    }
}

fn list() -> impl Parse<String> {
    text(5..=MAX_PROMPT)
}

fn lists() -> impl Parse<Vec<(String, String)>> {
    rule::map(1..=MAX_LISTS, list())
}

fn item_name() -> impl Parse<String> {
    text(1..=MAX_ITEM_NAME).with(|| json!({"pattern": "^[a-z][a-zA-Z0-9_-]*$"}))
}

request! {
    impl RetrySource as "RetryRequest", answered as "Retry" {
        /// The attempts in all; by default 3.
        max_attempts = optional("maxAttempts", rule::whole(1..=MAX_ATTEMPTS)),
        /// The wait after the first failure, in milliseconds; by default 1000.
        backoff_ms = optional("backoffMs", rule::whole(0..=MAX_BACKOFF_MS)),
        /// The longest wait between two attempts, in milliseconds; by default 300000.
        max_backoff_ms = optional("maxBackoffMs", rule::whole(0..=MAX_BACKOFF_MS)),
    }
}

/// The attempts of a step or a task.
pub type RetryBody<'a> = Given<'a, RetrySource>;

request! {
    impl HitlSource as "HitlRequest", answered as "Hitl" {
        /// The ids of the steps whose outputs are always held.
        required_for = optional("requiredFor", step_ids()),
        /// Minimum confidence to skip review.
        confidence_threshold = optional("confidenceThreshold", rule::number(0.0..=1.0)),
        /// The time of the reviewer, in milliseconds; by default 3600000.
        timeout_ms = optional("timeoutMs", hitl::review_time()),
        /// The share of the other outputs that is held as well; by default 0.
        sample_rate = optional("sampleRate", hitl::sample_rate()),
        /// The channels that notify reviewers.
        notify = optional("notifyChannels", hitl::channels()),
    }
}

/// `hitl` of a template.
pub type HitlBody<'a> = Given<'a, HitlSource>;
