//! Tasks on the wire (docs/reference/tasks.md).

use std::sync::Arc;

use callboard_domain::confidence::ask::Ask;
use callboard_domain::function::{Call, RESERVED, reserved};
use callboard_domain::grammar::Kind;
use callboard_domain::id::FileId;
use callboard_domain::labels::{CallbackEvent, Labels};
use callboard_domain::plan::{
    FOREIGN, MAX_TAG, MAX_TAGS, MAX_TIMEOUT_MS, RetrySource, call_faults,
};
use callboard_domain::render::MAX_PROMPT;
use callboard_domain::retry::Policy;
use callboard_domain::schema::Schema;
use callboard_domain::task::{
    Asks, Channels, FilePlace, FlowSource, Gate, Inputs, MAX_TARGET, Message, Request, Routing,
    Sampling,
};
use callboard_domain::{Rule, Timestamp};
use serde_json::{Map, Value, json};

use super::files::file_ids;
use super::hitl;
use super::labels;
use super::messages::{self, messages};
use super::read::rule::{self, Parse};
use super::read::{Fields, Refused, shape};
use super::routing::checked;
use crate::request;

mod answers;
mod erasure;
mod list;
mod loads;

pub use answers::{
    BatchBody, BatchItem, BatchStatusBody, Cancelled, TaskBody, TaskErrorBody, UsageBody,
};
pub use erasure::{EraseBody, Erased};
pub use list::{Direction, ListTasks};
pub use loads::LoadLine;

const MAX_CONTEXT: usize = 256 << 10;
/// The most tasks of a batch.
const MAX_BATCH: usize = 100;

request! {
    /// The request for a task.
    #[derive(Debug, Clone, Default)]
    pub struct CreateTask as "CreateTask" {
        /// The task.
        task: NewTask = flat(shape::<NewTask>()),
        /// Prevents duplicates; kept for 24 hours.
        idempotency_key: Option<String> =
            optional("idempotencyKey", rule::text(rule::characters(1..=255))),
    }
}

request! {
    /// A task to be created, in a batch or alone.
    #[derive(Debug, Clone, Default)]
    pub struct NewTask as "NewTask" {
        /// The prompt: at most 1 MiB; required unless function is given.
        prompt: String = required_unless("prompt", rule::text(rule::bytes(1..=MAX_PROMPT)), &[("function", None)]),
        /// The function that a worker calls in place of a prompt.
        call: Option<Call> = flat(shape::<Option<Call>>()),
        /// The model; by default `[models] default`.
        model: Option<String> = optional("model", model()),
        /// The queue; by default `default`.
        queue: Option<String> = optional("queue", queue()),
        /// System instructions: at most 1 MiB.
        system_prompt: Option<String> = optional("systemPrompt", rule::text(rule::bytes(0..=MAX_PROMPT))),
        /// Key-value pairs for the model: at most 256 KiB as compact JSON.
        context: Option<Map<String, Value>> = optional("context", rule::free(MAX_CONTEXT)),
        /// Earlier turns, between the system messages and the prompt: at most 1 MiB of content in all.
        messages: Vec<Message<String>> = or_default("messages", messages()),
        /// The ids of files that the model sees with the prompt, or that the function reads; at most 20.
        files: Vec<FileId> = or_default("files", file_ids()),
        /// 10 is leased first; by default 5.
        priority: Option<u8> = optional("priority", rule::whole(1..=10)),
        /// The time limit of one attempt, in milliseconds; by default 300000.
        timeout_ms: Option<u64> = optional("timeoutMs", rule::whole(1..=MAX_TIMEOUT_MS)),
        /// The tags, for filtering.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// The most tokens of the output.
        max_tokens: Option<u64> = optional("maxTokens", rule::whole(1..=u64::MAX)),
        /// The sampling temperature.
        temperature: Option<f64> = optional("temperature", rule::number(0.0..=1.0)),
        /// The seed, the share of the probability and the stop sequences.
        sampling: Sampling = flat(shape::<Sampling>()),
        /// The JSON Schema (2020-12) of the output.
        output_schema: Option<Value> = optional("outputSchema", output_schema()),
        /// The source of the confidence; by default auto.
        confidence: Option<Ask> = optional("confidence", rule::object::<Ask>()),
        /// The address to which webhooks about the task are sent.
        callback_url: Option<String> = optional("callbackUrl", rule::url()),
        /// The title, and what the webhook announces.
        labels: Labels = flat(shape::<Labels>()),
        /// The conditions under which a reviewer must approve the output.
        hitl: Option<Hitl> = optional("hitl", rule::object::<Hitl>()),
        /// The instant before which no worker is given the task; by default it may run at once.
        start_at: Option<Timestamp> = optional("startAt", rule::instant()),
        /// The attempts and the waits between them.
        retry: Option<RetrySource> = optional("retry", rule::object::<RetrySource>()),
        /// The models that may be called, and the service tier.
        routing: Routing = flat(shape::<Routing>()),
        /// The keys by which tasks run together or take turns.
        flow: FlowSource = flat(shape::<FlowSource>()),
    }
    check members_fit
}

fn members_fit(task: NewTask, fields: &Fields<'_>) -> Result<NewTask, Refused> {
    if let Some(call) = &task.call {
        for (name, rule, says) in call_faults(call) {
            fields.refuse(name, rule, says);
        }
        for name in foreign(&task) {
            fields.refuse(name, Rule::Unknown, FOREIGN);
        }
    }
    let listed = task.routing.models.iter().enumerate();
    let reserved = |(index, model): (usize, &String)| Some((index, reserved(model)?));
    for (index, says) in listed.filter_map(reserved) {
        fields.refuse(&format!("models[{index}]"), Rule::Reserved, says);
    }
    messages::fit(&task.messages, task.files.len(), fields);
    if let Some((field, says)) = task.flow.missing().first() {
        return Err(fields.refuse(field, Rule::Required, says));
    }
    labels::fit(&task.labels, task.callback_url.is_some(), &CallbackEvent::ALL, fields)?;
    let routing = task.routing.clone();
    let has_model = task.model.is_some();
    checked(task, (&routing, has_model), fields)
}

/// The members that a task with a call has no use for.
fn foreign(task: &NewTask) -> impl Iterator<Item = &'static str> + use<> {
    let given = [
        ("prompt", !task.prompt.is_empty()),
        ("model", task.model.is_some()),
        ("models", !task.routing.models.is_empty()),
        ("fallbackOn", task.routing.fallback_on.is_some()),
        ("serviceTier", task.routing.service_tier.is_some()),
        ("systemPrompt", task.system_prompt.is_some()),
        ("context", task.context.is_some()),
        ("messages", !task.messages.is_empty()),
        ("maxTokens", task.max_tokens.is_some()),
        ("temperature", task.temperature.is_some()),
        ("confidence", task.confidence.is_some()),
    ];
    let sampling: Vec<_> = task.sampling.given().collect();
    let given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name);
    given.chain(sampling)
}

request! {
    /// The conditions under which the output of a task waits for a reviewer.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Hitl as "TaskHitl" {
        /// True if every output is held.
        required: Option<bool> = optional("required", rule::flag()),
        /// Below this confidence; by default 0.85.
        confidence_threshold: Option<f64> = optional("confidenceThreshold", rule::number(0.0..=1.0)),
        /// The time of the reviewer, in milliseconds; by default 3600000.
        timeout_ms: Option<u64> = optional("timeoutMs", hitl::review_time()),
        /// The share of the other outputs that is held as well; by default 0.
        sample_rate: Option<f64> = optional("sampleRate", hitl::sample_rate()),
        /// The channels that notify reviewers.
        notify_channels: Option<Channels> = optional("notifyChannels", hitl::channels()),
    }
}

request! {
    /// Tasks that are created together, all or none.
    #[derive(Debug, Clone)]
    pub struct CreateBatch as "CreateBatch" {
        /// The tasks.
        tasks: Vec<NewTask> = required("tasks", rule::list(1..=MAX_BATCH, rule::object::<NewTask>())),
    }
}

/// The name of a model or a queue, of which items are looked for: it may be an old one.
pub(super) fn name() -> impl Parse<String> {
    rule::text(rule::characters(1..=MAX_TARGET))
}

/// The name of a model, which stands for no function.
pub(super) fn model() -> impl Parse<String> {
    let is_model = |name: &String| reserved(name).is_none();
    rule::name(Kind::Model, name()).only(is_model, Rule::Reserved, RESERVED)
}

/// The name of a queue.
pub(super) fn queue() -> impl Parse<String> {
    rule::name(Kind::Queue, name())
}

/// `outputSchema` in a body; the rest of its faults are found when the task is submitted.
fn output_schema() -> impl Parse<Value> {
    let is_object = |schema: &Value| schema.is_object();
    rule::any().only(is_object, Rule::Type, "must be an object").with(|| json!({"type": "object"}))
}

/// `tags` of a new task or execution.
pub(super) fn tags() -> impl Parse<Vec<String>> {
    rule::list(0..=MAX_TAGS, rule::name(Kind::Tag, rule::text(rule::characters(1..=MAX_TAG))))
}

/// The defaults of a task's optional members.
#[derive(Debug, Clone)]
pub struct Defaults {
    /// The model of a task that names none.
    pub model: String,
    /// True if an output without a confidence passes a gate.
    pub pass_unknown_confidence: bool,
}

impl NewTask {
    /// The requested task, with `defaults` filled in.
    #[must_use]
    pub fn into_request(self, defaults: &Defaults) -> Request {
        let gate = self.hitl.and_then(|hitl| {
            let asks = Asks {
                required: hitl.required,
                threshold: hitl.confidence_threshold,
                timeout_ms: hitl.timeout_ms,
                sample_rate: hitl.sample_rate,
                notify: hitl.notify_channels.unwrap_or_default(),
            };
            Gate::of_task(asks, defaults.pass_unknown_confidence)
        });
        let model = match &self.call {
            Some(call) => call.model(),
            None => Request::first_model(self.model, &self.routing, &defaults.model),
        };
        let mut files = self.files;
        // The files of messages were found to be identifiers.
        let mut place = |file: &String| {
            files.push(file.parse().ok()?);
            FilePlace::try_from(files.len() - 1).ok()
        };
        let messages = self.messages.iter().map(|it| it.with_files(&mut place)).collect();
        Request {
            model,
            queue: self.queue.unwrap_or_else(|| Request::DEFAULT_QUEUE.into()),
            priority: self.priority.unwrap_or(Request::DEFAULT_PRIORITY),
            timeout_ms: self.timeout_ms.unwrap_or(Request::DEFAULT_TIMEOUT_MS),
            tags: self.tags.unwrap_or_default(),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            callback_url: self.callback_url,
            labels: self.labels.boxed(),
            gate,
            routing: (!self.routing.is_none()).then(|| Box::new(self.routing)),
            sampling: self.sampling.boxed(),
            flow: self.flow.flow().map(Arc::new),
            start_at: self.start_at,
            retry: self.retry.map_or_else(Policy::default, RetrySource::policy),
            inputs: Inputs {
                prompt: self.prompt,
                system_prompt: self.system_prompt,
                context: self.context,
                messages,
                files,
                output_schema: self.output_schema.as_ref().map(Schema::checked_before),
                confidence: self.confidence.map(Box::new),
                args: self.call.map(|call| Box::new(call.args)),
                shown: Vec::new(),
            },
        }
    }
}
