//! A task's request, checked and with its defaults filled in.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{FailureKind, Flow, Gate, Message, Routing, Sampling, ServiceTier};
use crate::Timestamp;
use crate::confidence::ask::{Ask, Expected};
use crate::file::{FILE_TOKENS, Kind};
use crate::function::{Work, json_length};
use crate::id::{BatchId, ExecutionId, FileId, TaskId, TemplateBatchId};
use crate::labels::Labels;
use crate::retry::Policy;
use crate::schema::Schema;
use crate::trace::TraceContext;
use crate::usage::{Prices, estimate_tokens};

/// The longest name of a model or a queue, in characters: of a task, of a step and of a worker.
pub const MAX_TARGET: usize = 128;

/// Everything but the texts that a task was created with; never changes.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// The task's identifier.
    pub id: TaskId,
    /// The account (user or key) that submitted the task.
    pub account: String,
    /// The model's name, or `function:` and the name of the function ([`Work`]).
    pub model: String,
    /// The queue's name.
    pub queue: String,
    /// 1 to 10, 10 first.
    pub priority: u8,
    /// The time limit of one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Labels for filtering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The most tokens to answer with.
    pub max_tokens: Option<u64>,
    /// 0 to 1.
    pub temperature: Option<f64>,
    /// The URL that receives a webhook at the end.
    pub callback_url: Option<String>,
    /// The title, and what the webhook announces. Boxed, because few tasks have them.
    pub labels: Option<Box<Labels>>,
    /// The gate for the output; `None` if no reviewer needs to see the output.
    pub gate: Option<Gate>,
    /// The retry policy.
    #[serde(default, skip_serializing_if = "Policy::is_default")]
    pub retry: Policy,
    /// The origin.
    #[serde(default, skip_serializing_if = "Origin::is_alone")]
    pub origin: Origin,
    /// True if the output must match a schema: that in its inputs, or that of its step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked: bool,
    /// The models after the first, and the service tier. Boxed, because few tasks have them.
    pub routing: Option<Box<Routing>>,
    /// The seed, the share of the probability and the stop sequences. Boxed, because few tasks have them.
    pub sampling: Option<Box<Sampling>>,
    /// Keys that bound the task, or take turns. Shared with its place in the queue; few tasks have any.
    pub flow: Option<Arc<Flow>>,
    /// The instant before which the task does not run.
    pub start_at: Option<Timestamp>,
}

impl Spec {
    /// The work: a prompt, or the call of a function.
    #[must_use]
    pub fn work(&self) -> Work<'_> {
        Work::of(&self.model)
    }

    /// The models that the task may call.
    #[must_use]
    pub fn called(&self) -> Called<'_> {
        Called::by(&self.model, self.routing.as_deref())
    }

    /// The accounts whose words the task carries: the submitter, and the one whose rejected task it tries
    /// again with another prompt.
    pub fn submitters(&self) -> impl Iterator<Item = &str> {
        [self.account.as_str()].into_iter().chain(self.origin.first_account.as_deref())
    }

    /// The title, for people.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.labels.as_ref().and_then(|labels| labels.title.as_deref())
    }

    /// The texts by which the task is found: title, tags and keys.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let concurrency = self.flow.as_ref().and_then(|flow| flow.concurrency.as_ref());
        let fairness = self.flow.as_ref().and_then(|flow| flow.fairness.as_ref());
        let keys = [
            self.origin.idempotency_key.as_deref(),
            concurrency.map(|it| it.key.as_str()),
            fairness.map(|it| it.key.as_str()),
        ];
        let title = self.title().into_iter();
        title.chain(keys.into_iter().flatten()).chain(self.tags.iter().map(String::as_str))
    }

    /// The service tier that is asked of the provider, if one is.
    #[must_use]
    pub fn service_tier(&self) -> Option<ServiceTier> {
        self.routing.as_ref().and_then(|routing| routing.service_tier)
    }
}

/// The models that a task may call, and the service tier.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    model: &'a str,
    listed: &'a [String],
    tier: Option<ServiceTier>,
    /// True if an answer with a fault goes on to the next model, so that each of them may be paid for.
    all_answer: bool,
}

impl<'a> Called<'a> {
    /// The models and the tier that a task with this model and routing calls.
    #[must_use]
    pub fn by(model: &'a str, routing: Option<&'a Routing>) -> Self {
        let listed = routing.map_or(&[][..], |routing| &routing.models);
        let tier = routing.and_then(|routing| routing.service_tier);
        let all_answer = routing.is_some_and(|it| it.falls_back_on(FailureKind::OutputInvalid));
        Self { model, listed, tier, all_answer }
    }

    /// One call of this model.
    #[must_use]
    pub const fn one(model: &'a str, tier: Option<ServiceTier>) -> Self {
        Self { model, listed: &[], tier, all_answer: false }
    }

    /// The same for one call, of any of the models.
    #[must_use]
    pub const fn once(self) -> Self {
        Self { all_answer: false, ..self }
    }

    /// A model without a price among those that an attempt may call, the one that judges its confidence
    /// included.
    #[must_use]
    pub fn unpriced(self, ask: Option<&'a Ask>, prices: &Prices) -> Option<&'a str> {
        let alone = self.listed.is_empty().then_some(self.model);
        let mut models = self.listed.iter().map(String::as_str).chain(alone);
        let is_unpriced = |model: &&str| prices.worst_case_in(model, self.tier, 0, None).is_none();
        let judge = ask.and_then(Ask::judge);
        models
            .find(is_unpriced)
            .or_else(|| judge.filter(|it| prices.worst_case(it, 0, None).is_none()))
    }

    /// The highest cost of an attempt with the further calls for its confidence, in USD: that of the
    /// dearest model, or of all of them if each may answer. `None` if a model has no price.
    #[must_use]
    pub fn worst_case(self, call: Expected, ask: Option<&Ask>, prices: &Prices) -> Option<f64> {
        let of = |model: &str| {
            let answer = prices.worst_case_in(model, self.tier, call.prompt, call.max_tokens)?;
            let further = ask.map_or(Some(0.0), |ask| ask.worst_case(model, call, prices))?;
            Some(answer + further)
        };
        let alone = self.listed.is_empty().then_some(self.model);
        let costs = self.listed.iter().map(String::as_str).chain(alone).map(of);
        let costs = costs.collect::<Option<Vec<f64>>>()?;
        let dearest = || costs.iter().copied().fold(0.0, f64::max);
        Some(if self.all_answer { costs.iter().sum() } else { dearest() })
    }
}

/// A task as it was asked for: checked, and with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The model's name.
    pub model: String,
    /// The queue's name.
    pub queue: String,
    /// 1 to 10, 10 first.
    pub priority: u8,
    /// The time limit of one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// Labels for filtering.
    pub tags: Vec<String>,
    /// The most tokens to answer with.
    pub max_tokens: Option<u64>,
    /// 0 to 1.
    pub temperature: Option<f64>,
    /// The URL that receives a webhook at the end.
    pub callback_url: Option<String>,
    /// The title, and what the webhook announces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Box<Labels>>,
    /// The gate for the output; `None` if no reviewer needs to see the output.
    pub gate: Option<Gate>,
    /// The models after the first, and the service tier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routing: Option<Box<Routing>>,
    /// The seed, the share of the probability and the stop sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Box<Sampling>>,
    /// Keys that bound the task, or take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Arc<Flow>>,
    /// The instant before which the task does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Timestamp>,
    /// The retry policy.
    #[serde(default, skip_serializing_if = "Policy::is_default")]
    pub retry: Policy,
    /// The texts.
    pub inputs: Inputs,
}

impl Request {
    /// The queue of a task that names none.
    pub const DEFAULT_QUEUE: &str = "default";
    /// The priority of a task that names none.
    pub const DEFAULT_PRIORITY: u8 = 5;
    /// The time limit of an attempt if the task sets none, in milliseconds.
    pub const DEFAULT_TIMEOUT_MS: u64 = 300_000;

    /// The model that a list of models begins with, or else the one model.
    #[must_use]
    pub fn first_model(model: Option<String>, routing: &Routing, default: &str) -> String {
        model.or_else(|| routing.models.first().cloned()).unwrap_or_else(|| default.to_owned())
    }

    /// The task's unchanging part, and its texts.
    #[must_use]
    pub fn accepted(self, id: TaskId, account: String, origin: Origin) -> (Spec, Inputs) {
        let spec = Spec {
            id,
            account,
            model: self.model,
            queue: self.queue,
            priority: self.priority,
            timeout_ms: self.timeout_ms,
            tags: self.tags,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            callback_url: self.callback_url,
            labels: self.labels,
            gate: self.gate,
            retry: self.retry,
            origin,
            checked: self.inputs.output_schema.is_some(),
            routing: self.routing,
            sampling: self.sampling,
            flow: self.flow,
            start_at: self.start_at,
        };
        (spec, self.inputs)
    }
}

/// The texts that a task was created with: written once, beside the snapshot.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inputs {
    /// The prompt; the last user message. Empty for a call of a function.
    pub prompt: String,
    /// The first system message.
    pub system_prompt: Option<String>,
    /// The second system message, an object.
    pub context: Option<serde_json::Map<String, serde_json::Value>>,
    /// The earlier turns, between the system messages and the prompt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// The files: first those of the last user message, or of a call of a function, then those of `messages`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileId>,
    /// The JSON Schema that the output must match.
    pub output_schema: Option<Schema>,
    /// The method by which the confidence is to be made. Boxed, because few tasks have one.
    pub confidence: Option<Box<Ask>>,
    /// The args of a call of a function; `None` for a prompt. Boxed, because most tasks have none.
    pub args: Option<Box<serde_json::Map<String, serde_json::Value>>>,
    /// The texts that a reviewer sees beside the output; no model sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<String>,
}

impl Inputs {
    /// The prompt, the system prompt and the contents of the messages.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let messages = self.messages.iter().flat_map(|message| message.content.texts());
        let messages = messages.map(String::as_str);
        [self.prompt.as_str()].into_iter().chain(self.system_prompt.as_deref()).chain(messages)
    }

    /// The files of the last user message, or of a call of a function.
    #[must_use]
    pub fn own_files(&self) -> &[FileId] {
        let of_messages = Message::files(&self.messages).count();
        &self.files[..self.files.len().saturating_sub(of_messages)]
    }

    /// The files, with the place of each in the request and the kind that the request says.
    pub fn placed_files(&self) -> impl Iterator<Item = (String, Option<Kind>, FileId)> {
        let own = self.own_files().iter().enumerate();
        let own = own.map(|(number, id)| (format!("files[{number}]"), None, *id));
        own.chain(Message::files(&self.messages).filter_map(|(place, kind, at)| {
            Some((place, Some(kind), *self.files.get(usize::from(*at))?))
        }))
    }

    /// The estimated tokens of all texts, the context included, and of the files.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let context = self.context.as_ref().and_then(|it| serde_json::to_string(it).ok());
        let texts = self.texts().chain(context.as_deref());
        let files = FILE_TOKENS * self.files.len() as u64;
        texts.map(estimate_tokens).fold(files, u64::saturating_add)
    }

    /// The approximate bytes of the inputs, without the context.
    #[must_use]
    pub fn length(&self) -> usize {
        let system_prompt = self.system_prompt.as_ref().map_or(0, String::len);
        let schema = self.output_schema.as_ref().map_or(0, Schema::length);
        let args = self.args.as_ref().map_or(0, json_length);
        let shown = self.shown.iter().map(String::len).sum::<usize>();
        let files = self.files.len() * FileId::LENGTH;
        let texts = self.prompt.len() + system_prompt + Message::weight(&self.messages);
        texts + schema + args + shown + files
    }
}

/// The origin of a task.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Origin {
    /// The batch that the task was submitted in.
    pub batch: Option<BatchId>,
    /// The execution and the step that the task is of.
    pub step: Option<(ExecutionId, String)>,
    /// The item of the step's list that the task is for, from 0.
    pub item: Option<u16>,
    /// The batch that the execution is a row of.
    pub rows: Option<TemplateBatchId>,
    /// The template that the execution was deployed from.
    pub template: Option<String>,
    /// The rejected task that this one tries again.
    pub retry_of: Option<TaskId>,
    /// The account that submitted the rejected task, if a reviewer wrote the prompt of this one and so
    /// submitted it.
    pub first_account: Option<String>,
    /// The task of another execution whose output this one copies, in a fork of that execution.
    pub copy_of: Option<TaskId>,
    /// The idempotency key of the request that made this task alone.
    #[serde(rename = "key")]
    pub idempotency_key: Option<Box<str>>,
    /// The request, in the trace of its caller. Boxed, because few tasks have one.
    #[serde(rename = "traceparent")]
    pub trace: Option<Box<TraceContext>>,
}

impl Origin {
    /// True if the task was submitted by itself.
    #[must_use]
    pub const fn is_alone(&self) -> bool {
        let Self {
            batch,
            step,
            item: _,
            rows: _,
            template: _,
            retry_of,
            first_account: _,
            copy_of: _,
            idempotency_key,
            trace,
        } = self;
        let made = batch.is_none() && step.is_none() && retry_of.is_none();
        made && idempotency_key.is_none() && trace.is_none()
    }
}
