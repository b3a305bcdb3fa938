//! The source of a plan: a client's document with the right types, unchecked; also the stored form.
//!
//! Deliberately absent: defaults. A source holds only the fields that the client set.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::map::MapSource;
use super::wait::WaitSource;
use crate::confidence::ask::Ask;
use crate::cost;
use crate::function::{Call, json_length};
use crate::retry::Policy;
use crate::schema::is_brief_source;
use crate::task::{FlowSource, Message, Routing, Sampling};

/// The source of a plan.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlanSource {
    /// The name for people.
    pub name: String,
    /// The description for people.
    pub description: Option<String>,
    /// The template of the titles of the plan's executions.
    pub title: Option<String>,
    /// The steps, in the order of the document.
    pub steps: Vec<StepSource>,
    /// Labels for filtering lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// The source of a step.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepSource {
    /// The id, unique in the plan.
    pub id: String,
    /// The template of the titles of the step's tasks.
    pub title: Option<String>,
    /// The prompt template.
    pub prompt: String,
    /// The name of the model.
    pub model: Option<String>,
    /// The name of the queue.
    pub queue: Option<String>,
    /// The ids of the steps that must complete first; duplicates count once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// True if the output is held for a reviewer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_approval: bool,
    /// The texts that a reviewer of the output sees.
    pub review: Option<ReviewSource>,
    /// The condition under which the step runs, in CEL.
    pub condition: Option<String>,
    /// The time limit of one attempt, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The retry policy.
    pub retry: Option<RetrySource>,
    /// The longest output, in tokens.
    pub max_tokens: Option<u64>,
    /// The sampling temperature, 0 to 1.
    pub temperature: Option<f64>,
    /// The seed, the share of the probability and the stop sequences.
    #[serde(default, skip_serializing_if = "Sampling::is_none")]
    pub sampling: Sampling,
    /// The template of the system message.
    pub system_prompt: Option<String>,
    /// The earlier turns, with templates as texts and files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message<String>>,
    /// The files of the prompt, or of the call: templates of identifiers, or of lists of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The list for each of whose items the step runs, and the settings for the items.
    #[serde(default, skip_serializing_if = "MapSource::is_none")]
    pub map: MapSource,
    /// The signal that a step of the type `wait` waits for.
    pub wait: Option<WaitSource>,
    /// The function that the step calls in place of a model, with templates in its args.
    pub call: Option<Call>,
    /// The models in place of `model`, and the service tier.
    #[serde(default, skip_serializing_if = "Routing::is_none")]
    pub routing: Routing,
    /// The flow control of the step's tasks.
    #[serde(default, skip_serializing_if = "FlowSource::is_empty")]
    pub flow: FlowSource,
    /// The JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// The method by which the confidence is to be made.
    pub confidence: Option<Ask>,
}

/// The texts that a reviewer of a step's output sees.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReviewSource {
    /// The templates of the texts beside the output.
    pub show: Vec<String>,
}

/// The source of a retry policy.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RetrySource {
    /// The number of attempts, the first included.
    pub max_attempts: Option<u32>,
    /// The wait after the first failure, in milliseconds.
    pub backoff_ms: Option<u64>,
    /// The longest of the waits, in milliseconds.
    pub max_backoff_ms: Option<u64>,
}

impl PlanSource {
    /// The size, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.steps.iter().map(StepSource::size).sum()
    }

    /// The time that compiling it takes, roughly.
    #[must_use]
    pub fn takes(&self) -> Duration {
        cost::time(schemas(&self.steps))
    }

    /// True if the plan is compiled in about a millisecond.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        are_brief(&self.steps)
    }
}

/// The schemas of steps, with their fields.
pub(crate) fn schemas(steps: &[StepSource]) -> impl Iterator<Item = (String, &Value)> {
    steps.iter().enumerate().flat_map(|(index, step)| {
        let of_wait = step.wait.as_ref().and_then(|wait| wait.schema.as_ref());
        let both = [("schema", of_wait), ("outputSchema", step.output_schema.as_ref())];
        both.into_iter()
            .filter_map(move |(name, schema)| Some((format!("steps[{index}].{name}"), schema?)))
    })
}

/// The most text of steps that is checked in about a millisecond, in bytes.
const BRIEF_STEPS: usize = 64 * 1024;

/// The most text of conditions that is parsed in about a millisecond, in bytes.
const BRIEF_CONDITIONS: usize = 256;

/// The most schemas of steps that are compiled in a few milliseconds.
const BRIEF_SCHEMAS: usize = 4;

/// True if the steps are compiled in about a millisecond.
pub(crate) fn are_brief(steps: &[StepSource]) -> bool {
    let condition = |step: &StepSource| step.condition.as_ref().map_or(0, String::len);
    // A pattern takes longer than its length tells.
    let matches =
        |step: &StepSource| step.condition.as_ref().is_some_and(|it| it.contains("matches"));
    steps.iter().map(StepSource::size).sum::<usize>() <= BRIEF_STEPS
        && steps.iter().map(condition).sum::<usize>() <= BRIEF_CONDITIONS
        && !steps.iter().any(matches)
        && steps.iter().filter_map(|step| step.output_schema.as_ref()).all(is_brief_source)
        && steps.iter().filter(|step| step.output_schema.is_some()).count() <= BRIEF_SCHEMAS
}

impl StepSource {
    /// The model that is called first, or the name of the function among models; `None` if the step names none.
    #[must_use]
    pub fn first_model(&self) -> Option<Cow<'_, str>> {
        if let Some(call) = &self.call {
            return Some(Cow::Owned(call.model()));
        }
        let model = self.model.as_deref();
        model.or_else(|| self.routing.models.first().map(String::as_str)).map(Cow::Borrowed)
    }

    /// The size, in bytes.
    pub(crate) fn size(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let wait = self.wait.as_ref().map_or(0, WaitSource::size);
        let depends_on = self.depends_on.iter().map(String::len).sum::<usize>();
        let texts =
            self.prompt.len() + of(&self.system_prompt) + of(&self.condition) + of(&self.title);
        let call = self.call.as_ref().map_or(0, |call| json_length(&call.args));
        let texts = texts + self.map.size() + call;
        let schema = self.output_schema.as_ref().map_or(0, |schema| schema.to_string().len());
        let shown = self.review.iter().flat_map(|review| &review.show).map(String::len);
        let of_messages = Message::files(&self.messages).map(|(_, _, file)| file);
        let files = self.files.iter().chain(of_messages).map(String::len);
        let texts = texts + shown.sum::<usize>() + files.sum::<usize>();
        let texts = texts + self.sampling.stop.iter().map(String::len).sum::<usize>();
        let texts = texts + self.confidence.as_ref().map_or(0, |ask| of(&ask.rubric));
        size_of::<Self>() + texts + Message::weight(&self.messages) + depends_on + wait + schema
    }
}

impl RetrySource {
    /// The policy, with the defaults filled in.
    #[must_use]
    pub fn policy(self) -> Policy {
        let default = Policy::default();
        Policy {
            max_attempts: self.max_attempts.unwrap_or(default.max_attempts),
            backoff_ms: self.backoff_ms.unwrap_or(default.backoff_ms),
            max_backoff_ms: self.max_backoff_ms.unwrap_or(default.max_backoff_ms),
        }
    }
}
