//! What a client gave, with the right types but unchecked; also what is stored.
//!
//! Deliberately absent: defaults. A source says only what was said.

use serde::{Deserialize, Serialize};

use crate::retry::Policy;

/// A plan as it was given (SPEC.md, Plan).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlanSource {
    /// For people.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its steps, in their order.
    pub steps: Vec<StepSource>,
    /// For filtering.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// A step as it was given (SPEC.md, Template).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StepSource {
    /// Unique in the plan.
    pub id: String,
    /// The prompt, with `{{…}}`.
    pub prompt: String,
    /// The model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The queue's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The ids of the steps that must complete first. One named twice counts once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Whether a reviewer must see its output.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_approval: bool,
    /// Whether it runs, in CEL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// How long one attempt may take, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How often it is tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetrySource>,
    /// The most tokens to answer with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The first system message, with `{{…}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
}

/// How often a step is tried, as it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RetrySource {
    /// Attempts in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The wait after the first failure, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
}

impl RetrySource {
    /// With the defaults filled in (SPEC.md, Limits).
    #[must_use]
    pub fn policy(self) -> Policy {
        let usual = Policy::default();
        Policy {
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            backoff_ms: self.backoff_ms.unwrap_or(usual.backoff_ms),
        }
    }
}
