//! The source of a template: a client's document with the right types, unchecked; also the stored
//! form.
//!
//! Deliberately absent: the fields that the service adds (id, author, createdAt).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use crate::confidence::ask::Ask;
use crate::cost;
use crate::names::names;
use crate::plan::{HitlSource, StepSource, are_brief};
use crate::schema::is_brief_source;
use crate::task::FlowSource;
use crate::task::{Routing, Sampling};

/// The source of a template.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TemplateSource {
    /// The name for people, whose slug is part of the id.
    pub name: String,
    /// The description for people.
    pub description: Option<String>,
    /// The template of the titles of its executions.
    pub title: Option<String>,
    /// The version, major.minor.patch.
    pub version: String,
    /// The name of an [`Industry`].
    pub industry: String,
    /// Labels for filtering lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The name of a [`Visibility`].
    pub visibility: Option<String>,
    /// The JSON Schema of the input.
    pub input_schema: Value,
    /// The JSON Schema of the last step's output.
    pub output_schema: Option<Value>,
    /// The steps, in the order of the document.
    pub steps: Vec<StepSource>,
    /// The defaults of steps.
    pub defaults: Option<Defaults>,
    /// The review settings.
    pub hitl: Option<HitlSource>,
    /// Free form; `estimates` declares cost and duration.
    pub metadata: Option<Map<String, Value>>,
}

/// The values for steps that leave a field out.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Defaults {
    /// The name of the model.
    pub model: Option<String>,
    /// The name of the queue.
    pub queue: Option<String>,
    /// The time limit of one attempt, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The longest output, in tokens.
    pub max_tokens: Option<u64>,
    /// The sampling temperature, 0 to 1.
    pub temperature: Option<f64>,
    /// The seed, the share of the probability and the stop sequences.
    #[serde(default, skip_serializing_if = "Sampling::is_none")]
    pub sampling: Sampling,
    /// The models in place of `model`, and the service tier.
    #[serde(default, skip_serializing_if = "Routing::is_none")]
    pub routing: Routing,
    /// The flow control.
    #[serde(default, skip_serializing_if = "FlowSource::is_empty")]
    pub flow: FlowSource,
    /// The JSON Schema of the output.
    pub output_schema: Option<Value>,
    /// The method by which the confidence is to be made.
    pub confidence: Option<Ask>,
}

impl TemplateSource {
    /// True if the template is compiled in about a millisecond.
    #[must_use]
    pub fn is_brief(&self) -> bool {
        let of_defaults = self.defaults.as_ref().and_then(|it| it.output_schema.as_ref());
        let schemas = [Some(&self.input_schema), self.output_schema.as_ref(), of_defaults];
        are_brief(&self.steps) && schemas.into_iter().flatten().all(is_brief_source)
    }

    /// The size of the steps and the schemas, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let steps = self.steps.iter().map(StepSource::size).sum::<usize>();
        let schemas = [Some(&self.input_schema), self.output_schema.as_ref()];
        steps + schemas.into_iter().flatten().map(|schema| schema.to_string().len()).sum::<usize>()
    }

    /// The time that compiling it takes, roughly.
    #[must_use]
    pub fn takes(&self) -> Duration {
        cost::time(super::check::schemas(self))
    }

    /// The steps, with the defaults in the fields that they leave out.
    #[must_use]
    pub fn steps_with_defaults(&self) -> Vec<StepSource> {
        let Some(defaults) = &self.defaults else { return self.steps.clone() };
        let filled = |step: &StepSource| StepSource {
            model: step
                .model
                .clone()
                .or_else(|| defaults.model.clone().filter(|_| step.routing.models.is_empty())),
            routing: step.routing.or(&defaults.routing, step.model.is_some()),
            queue: step.queue.as_ref().or(defaults.queue.as_ref()).cloned(),
            timeout_ms: step.timeout_ms.or(defaults.timeout_ms),
            max_tokens: step.max_tokens.or(defaults.max_tokens),
            temperature: step.temperature.or(defaults.temperature),
            sampling: step.sampling.or(&defaults.sampling),
            flow: step.flow.or(&defaults.flow),
            output_schema: step.output_schema.as_ref().or(defaults.output_schema.as_ref()).cloned(),
            confidence: step.confidence.as_ref().or(defaults.confidence.as_ref()).cloned(),
            ..step.clone()
        };
        // A function has no model.
        let of_call = |step: &StepSource| StepSource {
            queue: step.queue.as_ref().or(defaults.queue.as_ref()).cloned(),
            timeout_ms: step.timeout_ms.or(defaults.timeout_ms),
            flow: step.flow.or(&defaults.flow),
            output_schema: step.output_schema.as_ref().or(defaults.output_schema.as_ref()).cloned(),
            ..step.clone()
        };
        // A wait calls no model, and without a timeoutMs of its own it waits as long as its execution.
        let filled = |step: &StepSource| match (&step.wait, &step.call) {
            (Some(_), _) => step.clone(),
            (None, Some(_)) => of_call(step),
            (None, None) => filled(step),
        };
        let mut steps: Vec<_> = self.steps.iter().map(filled).collect();
        // The template's own schema is the last step's.
        if let (Some(_), Some(last)) = (&self.output_schema, steps.last_mut()) {
            last.output_schema = None;
        }
        steps
    }

    /// A member of `metadata.estimates`.
    pub(super) fn estimate(&self, name: &str) -> Option<&Value> {
        self.metadata.as_ref()?.get("estimates")?.get(name)
    }
}

names! {
    /// The industry of a template.
    Industry {
        /// Law.
        Legal = "legal",
        /// Finance.
        Finance = "finance",
        /// Software operations.
        Devops = "devops",
        /// Marketing.
        Marketing = "marketing",
        /// Healthcare.
        Healthcare = "healthcare",
        /// Any other.
        Custom = "custom",
    }
}

names! {
    /// The visibility of a template.
    Visibility {
        /// The author and admins see the template.
        Private = "private",
        /// Every user sees the template.
        Organization = "organization",
        /// Every user sees the template, as with `organization`: a server has one organization.
        Public = "public",
    }
}
