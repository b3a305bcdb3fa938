//! The ends of attempts and tasks, and their names on the wire.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::ServiceTier;
use crate::confidence::Source;
use crate::usage::Usage;

/// The status on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// No worker holds the task: it is ready, or waits for the next attempt or for a reviewer.
    Pending,
    /// A worker holds the task.
    Running,
    /// Final: the output is there.
    Completed,
    /// Final: the task failed for good.
    Failed,
    /// Final: the task was cancelled.
    Cancelled,
    /// Final: rejected by a reviewer.
    Rejected,
}

impl Status {
    /// Every status, in the order of the specification.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Rejected,
    ];

    /// The status's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Rejected => "rejected",
        }
    }
}

/// A model's answer, besides its text.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// The tokens and the cost.
    pub usage: Usage,
    /// The worker's confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// The method by which the confidence was made: logprobs, samples, judge, reported, none.
    pub confidence_source: Option<String>,
    /// The reason why the model stopped, in the provider's word.
    pub finish_reason: Option<String>,
    /// The service tier that the provider says it served.
    pub service_tier: Option<ServiceTier>,
    /// The part of the usage that a judge made. Boxed, because few answers have one.
    pub judge: Option<Box<JudgeUsage>>,
    /// The model's thinking before the output, which is no part of it: a text of its own, and not of the row.
    #[serde(skip)]
    pub thinking: Option<Thinking>,
}

/// A model's thinking, at most [`Self::MAX`] bytes of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Thinking(Box<str>);

impl Thinking {
    /// The most that is kept, in bytes.
    pub const MAX: usize = 32 * 1024;

    /// The thinking, cut to what is kept.
    #[must_use]
    pub fn of(mut text: String) -> Self {
        text.truncate(text.floor_char_boundary(Self::MAX));
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        &self.0
    }
}

/// The length alone: no log shows a model's text.
impl fmt::Debug for Thinking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Thinking").field(&self.0.len()).finish()
    }
}

impl Completion {
    /// The method that made the confidence.
    #[must_use]
    pub fn method(&self) -> Option<Source> {
        self.confidence_source.as_deref().and_then(Source::parse)
    }
}

/// The usage of the calls to another model that judged an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgeUsage {
    /// The judge's model.
    pub model: String,
    /// The tokens and the cost.
    pub usage: Usage,
}

/// The failure of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// The code and the worker's own words.
    pub ending: Ending,
    /// True if another attempt can help.
    pub retryable: bool,
    /// The wait that the provider asked for.
    pub retry_after: Option<Duration>,
    /// The least usage of the call, without its cost; `None` if the worker saw nothing of it.
    pub usage: Option<Usage>,
    /// True if the provider could not be reached, or is overloaded: the call says nothing about the task.
    pub is_outage: bool,
}

impl Failure {
    /// A failure whose provider asked for no wait.
    #[must_use]
    pub const fn new(ending: Ending, retryable: bool) -> Self {
        Self { ending, retryable, retry_after: None, usage: None, is_outage: false }
    }

    /// The failure that a worker reports. `PROVIDER_UNAVAILABLE` is the code of a provider that could not be reached,
    /// `PROVIDER_OVERLOADED` that of one without room for anybody.
    #[must_use]
    pub fn of_worker(code: &str, message: String, retryable: bool) -> Self {
        let is_outage = matches!(code, "PROVIDER_UNAVAILABLE" | "PROVIDER_OVERLOADED");
        let ending = Ending { code: EndingCode::of_worker(code), message };
        Self { is_outage: is_outage && retryable, ..Self::new(ending, retryable) }
    }
}

/// The reason that ended a task or an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The code.
    pub code: EndingCode,
    /// The reason, in words.
    pub message: String,
}

/// The codes that end a task or a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EndingCode {
    /// The attempt took longer than `timeoutMs`.
    TaskTimeout,
    /// The task lost its workers too often.
    WorkerLost,
    /// The provider refused or failed.
    ProviderError,
    /// The provider has too many requests.
    ProviderRateLimited,
    /// A placeholder of the prompt has no value.
    RenderFailed,
    /// The condition could not be evaluated, or is neither true nor false.
    ConditionFailed,
    /// The output does not match its schema.
    OutputInvalid,
    /// The output was cut at the token limit.
    OutputTruncated,
    /// A step that the step depends on did not end well.
    DependencyFailed,
    /// The execution took longer than `options.timeoutMs`.
    ExecutionTimeout,
    /// The task's worst case does not fit into the rest of the execution's budget.
    BudgetExceeded,
    /// A reviewer rejected the output.
    Rejected,
    /// A caller cancelled the task.
    Cancelled,
    /// A bug or an actor that broke too often ended the task or the step.
    InternalError,
}

impl EndingCode {
    /// Every code, in the order of declaration.
    pub const ALL: [Self; 14] = [
        Self::TaskTimeout,
        Self::WorkerLost,
        Self::ProviderError,
        Self::ProviderRateLimited,
        Self::RenderFailed,
        Self::ConditionFailed,
        Self::OutputInvalid,
        Self::OutputTruncated,
        Self::DependencyFailed,
        Self::ExecutionTimeout,
        Self::BudgetExceeded,
        Self::Rejected,
        Self::Cancelled,
        Self::InternalError,
    ];

    /// The code's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TaskTimeout => "TASK_TIMEOUT",
            Self::WorkerLost => "WORKER_LOST",
            Self::ProviderError => "PROVIDER_ERROR",
            Self::ProviderRateLimited => "PROVIDER_RATE_LIMITED",
            Self::RenderFailed => "RENDER_FAILED",
            Self::ConditionFailed => "CONDITION_FAILED",
            Self::OutputInvalid => "OUTPUT_INVALID",
            Self::OutputTruncated => "OUTPUT_TRUNCATED",
            Self::DependencyFailed => "DEPENDENCY_FAILED",
            Self::ExecutionTimeout => "EXECUTION_TIMEOUT",
            Self::BudgetExceeded => "BUDGET_EXCEEDED",
            Self::Rejected => "REJECTED",
            Self::Cancelled => "CANCELLED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// The code of a worker's report; any unknown code is a provider's error.
    fn of_worker(code: &str) -> Self {
        match code {
            "PROVIDER_RATE_LIMITED" | "PROVIDER_OVERLOADED" => Self::ProviderRateLimited,
            "TASK_TIMEOUT" => Self::TaskTimeout,
            "OUTPUT_INVALID" => Self::OutputInvalid,
            _ => Self::ProviderError,
        }
    }
}
