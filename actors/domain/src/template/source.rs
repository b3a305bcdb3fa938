//! What a client gave, with the right types but unchecked; also what is stored.
//!
//! Deliberately absent: defaults, and what the service adds (id, author, createdAt).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::plan::{HitlSource, StepSource};

/// A template as it was given (SPEC.md, Template).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TemplateSource {
    /// For people; makes the id.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// major.minor.patch.
    pub version: String,
    /// One of [`Industry`].
    pub industry: String,
    /// For filtering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// One of [`Visibility`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<String>,
    /// What an input must be.
    pub input_schema: Value,
    /// What the last step's output must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Its steps, in their order.
    pub steps: Vec<StepSource>,
    /// What holds for every step that says nothing itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Defaults>,
    /// What is held for a reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitl: Option<HitlSource>,
    /// Anything; `estimates` declares cost and duration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// What holds for every step that says nothing itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Defaults {
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The queue's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// How long one attempt may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The most tokens to answer with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

impl TemplateSource {
    /// The steps with the template's defaults in what they leave open.
    #[must_use]
    pub fn steps_with_defaults(&self) -> Vec<StepSource> {
        let Some(defaults) = &self.defaults else { return self.steps.clone() };
        let filled = |step: &StepSource| StepSource {
            model: step.model.as_ref().or(defaults.model.as_ref()).cloned(),
            queue: step.queue.as_ref().or(defaults.queue.as_ref()).cloned(),
            timeout_ms: step.timeout_ms.or(defaults.timeout_ms),
            max_tokens: step.max_tokens.or(defaults.max_tokens),
            temperature: step.temperature.or(defaults.temperature),
            ..step.clone()
        };
        self.steps.iter().map(filled).collect()
    }

    /// What `metadata.estimates` says of this.
    pub(super) fn estimate(&self, name: &str) -> Option<&Value> {
        self.metadata.as_ref()?.get("estimates")?.get(name)
    }
}

/// Makes an enum of names, and the list of all.
macro_rules! names {
    ($(#[$outer:meta])* $kind:ident { $($(#[$doc:meta])* $name:ident = $text:literal,)* }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $kind {
            $($(#[$doc])* $name,)*
        }

        impl $kind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// The one of this name.
            #[must_use]
            pub fn of(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == name)
            }
        }
    };
}

names! {
    /// What a template is for.
    Industry {
        /// Law.
        Legal = "legal",
        /// Finance.
        Finance = "finance",
        /// Running software.
        Devops = "devops",
        /// Marketing.
        Marketing = "marketing",
        /// Healthcare.
        Healthcare = "healthcare",
        /// Anything else.
        Custom = "custom",
    }
}

names! {
    /// Who may see a template.
    Visibility {
        /// Its author and admins.
        Private = "private",
        /// Every user.
        Organization = "organization",
        /// Every user.
        Public = "public",
    }
}
