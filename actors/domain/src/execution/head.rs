//! An execution's head row: the request and the state of the whole.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::batch::RowOf;
use crate::budget::{Budget, Money};
use crate::id::{ExecutionId, PlanId};
use crate::labels::Labels;
use crate::schedule::Occurrence;
use crate::task::Ending;
use crate::trace::TraceContext;

/// Everything but the texts that an execution was started with; never changes.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The execution's identifier.
    pub id: ExecutionId,
    /// The plan that the execution runs.
    pub plan: PlanId,
    /// The template that the execution was deployed from.
    pub template: Option<Template>,
    /// The account (user or key) that started the execution.
    pub account: String,
    /// The tags of its tasks, beside those of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The URL that receives webhooks.
    pub callback_url: Option<String>,
    /// The title, and what the webhooks announce.
    pub labels: Option<Box<Labels>>,
    /// True if the first failure cancels all other work.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fail_fast: bool,
    /// The time limit of each run, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The cap on the cost of all runs together.
    pub max_cost: Option<Money>,
    /// The step whose output is checked against the output schema.
    pub output_checked: Option<u16>,
    /// The instant before which the execution does not begin.
    pub start_at: Option<Timestamp>,
    /// The execution that this one is a fork of. Boxed, because few executions are forks.
    pub forked_from: Option<Box<ForkedFrom>>,
    /// The occurrence of the schedule that started this, or the execution that this one is a fork of.
    pub occurrence: Option<Box<Occurrence>>,
    /// The batch and the row that the execution is of. Boxed, because few executions are of a batch.
    pub row_of: Option<Box<RowOf>>,
    /// The idempotency key of the request.
    #[serde(rename = "key")]
    pub idempotency_key: Option<Box<str>>,
    /// The instant of the request.
    pub created_at: Timestamp,
    /// The request, in the trace of its caller. Boxed, because few executions have one.
    #[serde(rename = "traceparent")]
    pub trace: Option<Box<TraceContext>>,
}

impl Spec {
    /// The title, for people.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.labels.as_ref().and_then(|labels| labels.title.as_deref())
    }
}

impl Spec {
    /// The request without its title and its idempotency key, which may quote a text.
    #[must_use]
    pub fn without_texts(&self) -> Self {
        let labels = self.labels.as_deref().cloned().unwrap_or_default();
        let labels = Labels { title: None, ..labels }.boxed();
        Self { labels, idempotency_key: None, ..self.clone() }
    }

    /// The texts by which the execution is found: title, tags and key.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let first = [self.title(), self.idempotency_key.as_deref()].into_iter().flatten();
        first.chain(self.tags.iter().map(String::as_str))
    }
}

/// The origin of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkedFrom {
    /// The execution whose completed steps the fork takes over.
    pub execution: ExecutionId,
    /// The step that runs anew in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_step: Option<String>,
}

/// A version of a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    /// The template's identifier.
    pub id: String,
    /// The version that was deployed.
    pub version: String,
}

/// The head row.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The request; never changes.
    pub spec: Arc<Spec>,
    /// The state.
    pub state: State,
    /// Transitions since creation: the version of the resource in events.
    pub version: u64,
    /// 1, and one more with each retry.
    pub run: u32,
    /// The instant of the first start; before that, the instant of the request.
    pub started_at: Timestamp,
    /// The start of the current run, if it is a retry.
    pub retried_at: Option<Timestamp>,
    /// The deadline of the current run.
    pub deadline: Option<Timestamp>,
    /// The usage.
    pub budget: Budget,
    /// The reason of the failure: the first failure of the run, or the reason that ended the whole.
    pub error: Option<Cause>,
    /// The time of the first erasure of the execution's texts.
    pub erased_at: Option<Timestamp>,
}

impl Head {
    /// False before the execution begins, and for one that was cancelled before.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let is_due = self.spec.start_at.is_none_or(|at| at <= self.started_at);
        !matches!(self.state, State::Scheduled { .. }) && (is_due || self.run > 1)
    }
}

/// The reason why an execution fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The code and the message.
    pub ending: Ending,
    /// The step that the error happened to; none if it happened to the whole execution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u16>,
}

/// The state of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The execution waits for the instant at which it begins.
    Scheduled {
        /// The instant, `startAt`.
        at: Timestamp,
    },
    /// Steps are open.
    Running,
    /// All steps ended well.
    Completed {
        /// The instant of the end.
        at: Timestamp,
    },
    /// A step did not end well, or time or the server failed it.
    Failed {
        /// The instant of the end.
        at: Timestamp,
    },
    /// A caller cancelled the execution.
    Cancelled {
        /// The instant of the end.
        at: Timestamp,
    },
}

/// The status on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// The execution has not begun.
    Pending,
    /// Steps are open.
    Running,
    /// All steps ended well.
    Completed,
    /// The execution failed.
    Failed,
    /// The execution was cancelled.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::Cancelled];

    /// The status's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl State {
    /// The status on the wire.
    #[must_use]
    pub const fn status(self) -> Status {
        match self {
            Self::Scheduled { .. } => Status::Pending,
            Self::Running => Status::Running,
            Self::Completed { .. } => Status::Completed,
            Self::Failed { .. } => Status::Failed,
            Self::Cancelled { .. } => Status::Cancelled,
        }
    }

    /// The instant of the end (`completedAt`).
    #[must_use]
    pub const fn ended_at(self) -> Option<Timestamp> {
        match self {
            Self::Scheduled { .. } | Self::Running => None,
            Self::Completed { at } | Self::Failed { at } | Self::Cancelled { at } => Some(at),
        }
    }
}
