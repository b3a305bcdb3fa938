//! The parts of a request that are stored: the options of an execution, its names, the work of a schedule.

use callboard_domain::budget::Money;
use callboard_domain::id::PlanId;
use callboard_domain::labels::Labels;
use callboard_domain::plan::HitlSource;
use callboard_domain::task::Request;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The members of a start by which its execution is found and announced.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    /// The tags of its tasks, beside those of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The URL that receives webhooks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The title, and what the webhooks announce.
    #[serde(default, skip_serializing_if = "Labels::is_none")]
    pub labels: Labels,
}

impl Named {
    /// True if no member was given.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The options of an execution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The time limit of the execution, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The cap on the execution's cost.
    pub max_cost: Option<Money>,
    /// True if the first failure cancels all other work.
    pub fail_fast: bool,
}

/// The work of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A task.
    Task(Box<Request>),
    /// An execution of a plan.
    Plan(PlanId, Start),
    /// A deployment of a template, by its id.
    Template(String, Option<String>, Start),
}

/// The request for an execution of a schedule.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Start {
    /// The values of `{{input.*}}`.
    #[serde(default)]
    pub input: Map<String, Value>,
    /// The review settings, which say which outputs are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hitl: Option<HitlSource>,
    /// The options.
    #[serde(default)]
    pub options: Options,
    /// The tags, the title and the callback.
    #[serde(default, skip_serializing_if = "Named::is_none")]
    pub named: Named,
}
