//! The frames between a worker and the server (docs/reference/workers.md).
//!
//! ```text
//! worker ─register─▶ server      worker ─heartbeat─▶ server     worker ─complete | fail─▶ server
//!        ◀registered─                   ◀──leases───                   ◀──────ack───────
//!        ◀──assign───            worker ─delta, drain▶          worker ◀─cancel, drain, error─
//! ```
//!
//! One JSON object per text frame, distinguished by `type`. A worker takes members that it doesn't
//! know, so that an older worker survives a newer server; a server refuses them, so that the
//! author of a worker hears of a misspelt one. Deliberately absent: the effects of frames. `Debug`
//! shows no prompt, no context and no output.

use std::fmt;

use callboard_domain::confidence::Source;
use callboard_domain::confidence::ask::Ask;
use callboard_domain::function::Output;
use callboard_domain::model_limits::{Limited, Reported};
use callboard_domain::task::{Message, Sampling, ServiceTier};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

/// The bytes of the longest frame: an output, and the JSON around it.
pub const MAX_FRAME: usize = 32 << 20;

/// The name of [`Complete::thinking`] among the members that a server takes.
pub const TAKES_THINKING: &str = "thinking";
/// The name of [`Usage::calls`] among these members.
pub const TAKES_CALLS: &str = "calls";
/// The name of [`Complete::limited`] among these members.
pub const TAKES_LIMITED: &str = "limited";
/// The name of [`Fail::usage`] among these members.
pub const TAKES_USAGE: &str = "usage";
/// The frame `return`.
pub const TAKES_RETURN: &str = "return";
/// The members that this server takes and earlier ones refused.
pub const TAKES: [&str; 5] =
    [TAKES_THINKING, TAKES_CALLS, TAKES_LIMITED, TAKES_USAGE, TAKES_RETURN];

/// A frame from a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", deny_unknown_fields)]
pub enum FromWorker {
    /// The first frame of every connection.
    Register(Register),
    /// The worker lives and holds these leases, results not yet acknowledged included.
    Heartbeat {
        /// The leases that the worker holds.
        leases: Vec<String>,
    },
    /// The next piece of an output.
    Delta(Delta),
    /// The result of a lease.
    Complete(Complete),
    /// The lease has no result.
    Fail(Fail),
    /// The worker takes no new lease and leaves when it has finished.
    Drain {},
    /// The worker stops before these leases have a result: others may have the tasks at once.
    Return {
        /// The leases that it gives back.
        leases: Vec<String>,
    },
}

/// The worker's identity and the tasks that it takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The worker's name, for people.
    pub name: String,
    /// The version of the worker's program.
    pub version: String,
    /// The queues from which the worker takes tasks.
    pub queues: Vec<String>,
    /// The models that the worker runs: exact names, `gpt-*`, or `*`. None if it runs functions alone.
    #[serde(default)]
    pub models: Vec<String>,
    /// The functions that the worker runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<Function>,
    /// The greatest number of leases at once.
    pub concurrency: u32,
    /// The leases that the worker held before its connection broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
}

/// A function that a worker runs.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Function {
    /// The name: `^[a-z][a-z0-9_.-]{0,63}$`.
    pub name: String,
    /// The description, for people.
    pub description: Option<String>,
    /// The JSON Schema of the args, for people: the worker checks the args.
    pub input_schema: Option<Value>,
    /// The JSON Schema of the output, for people.
    pub output_schema: Option<Value>,
}

/// The leases that a worker held before its connection broke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resume {
    /// The worker's earlier identifier.
    pub worker_id: String,
    /// The worker's leases, results not yet acknowledged included.
    pub leases: Vec<String>,
}

/// A piece of an output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delta {
    /// The lease.
    pub lease: String,
    /// The next piece of the text.
    pub text: String,
}

/// The result of a lease.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Complete {
    /// The lease.
    pub lease: String,
    /// The whole output: the text of a model, or any value of a function.
    pub output: Output,
    /// The usage of the call; a function has none.
    #[serde(default)]
    pub usage: Usage,
    /// The cost of a function's call, in USD; that of a model comes from the price table.
    pub cost: Option<f64>,
    /// The confidence, 0 to 1.
    pub confidence: Option<f64>,
    /// The source of the confidence.
    pub confidence_source: Option<ConfidenceSource>,
    /// `stop`, `length`, or the provider's own word.
    pub finish_reason: Option<String>,
    /// The service tier that the provider reports.
    pub service_tier: Option<ServiceTier>,
    /// The provider's own limits, from the headers of its answer.
    pub limits: Option<Box<Reported>>,
    /// The usage of a judge, which `usage` leaves out: its price is another.
    pub judge: Option<Box<JudgeUsage>>,
    /// The thinking before the output, which is no part of it. Sent to servers that take it alone
    /// ([`Registered::takes`]).
    pub thinking: Option<String>,
    /// The further call, of a sample or of the judge, that the provider refused with 429 or 529. Sent to
    /// servers that take it alone.
    pub limited: Option<Box<Limited>>,
}

/// The usage of a judge's calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeUsage {
    /// The judge's model.
    pub model: String,
    /// The tokens of all the judge's calls.
    pub usage: Usage,
}

/// Tokens of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub input: u64,
    /// Tokens of the output.
    pub output: u64,
    /// Tokens of the prompt that the provider read from its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Tokens of the prompt that the provider wrote to its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    /// The requests that the tokens were used in; 0 if that is not known. Sent to servers that take it
    /// alone.
    #[serde(default, skip_serializing_if = "is_none")]
    pub calls: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_none(calls: &u32) -> bool {
    *calls == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// The source of a confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfidenceSource {
    /// The log-probabilities of the output's tokens.
    Logprobs,
    /// The agreement of several samples.
    Samples,
    /// The verdicts of another model.
    Judge,
    /// The worker's own figure, of an unnamed method.
    Reported,
    /// No confidence.
    None,
}

/// The reason why a lease has no result.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fail {
    /// The lease.
    pub lease: String,
    /// The failure.
    pub error: ErrorBody,
    /// True if another attempt may succeed.
    pub retryable: bool,
    /// The wait that the provider asks for, in milliseconds.
    pub retry_after_ms: Option<u64>,
    /// The provider's own limits, from the headers of its answer.
    pub limits: Option<Box<Reported>>,
    /// The least usage of the call, as far as the worker saw it. Sent to servers that take it alone.
    pub usage: Option<Usage>,
}

/// A code for programs and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The code, such as `PROVIDER_ERROR`.
    pub code: String,
    /// The worker's or the server's own text.
    pub message: String,
}

/// A frame from the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ToWorker {
    /// The answer to the registration.
    Registered(Registered),
    /// Run this task, which uses one unit of the worker's concurrency.
    Assign(Box<Assign>),
    /// The answer to a heartbeat.
    Leases {
        /// Leases that run on.
        #[serde(default)]
        renewed: Vec<String>,
        /// Leases that are no longer the worker's.
        #[serde(default)]
        lost: Vec<String>,
    },
    /// The server took a result in, durably, or never will.
    Ack(Ack),
    /// Stop working on this lease; no result is wanted.
    Cancel {
        /// The lease.
        lease: String,
        /// The reason, such as `cancelled` or `timeout`.
        #[serde(default)]
        reason: String,
    },
    /// Take no new lease, and leave.
    #[serde(rename_all = "camelCase")]
    Drain {
        /// The time that running leases have, in milliseconds.
        deadline_ms: u64,
    },
    /// A frame could not be taken.
    Error {
        /// The fault of the frame.
        error: ErrorBody,
    },
}

/// The terms of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registered {
    /// The worker's identifier.
    pub worker_id: String,
    /// The time that a lease lives without a heartbeat, in milliseconds.
    pub lease_ms: u64,
    /// The time between two heartbeats, in milliseconds.
    pub heartbeat_ms: u64,
    /// Resumed leases that are still the worker's.
    #[serde(default)]
    pub kept: Vec<String>,
    /// Resumed leases that are not the worker's any more.
    #[serde(default)]
    pub lost: Vec<String>,
    /// The members of frames that this server takes and earlier ones refused: [`TAKES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub takes: Vec<String>,
}

/// A task, leased.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Assign {
    /// The lease, which every frame about this attempt names.
    pub lease: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The end of the attempt's time by the server's clock: ISO 8601, UTC.
    pub deadline_at: String,
    /// The time of the attempt, from this frame on, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The task to run.
    pub task: Task,
}

/// A file of a task, whose bytes the worker reads at `GET /api/files/:id/content` with its key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileRef {
    /// The identifier.
    pub id: String,
    /// The name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The media type, by the bytes where the server knows the format.
    pub content_type: String,
    /// The length.
    pub bytes: u64,
    /// The SHA-256 of the bytes, in hexadecimal.
    pub sha256: String,
}

/// The task to run.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The task's identifier.
    pub id: String,
    /// The model that the task names; `function:` and the name for a call of a function.
    pub model: String,
    /// The queue of the task.
    pub queue: String,
    /// The rendered prompt; empty for a call of a function.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prompt: String,
    /// The function to call, with `args`, in place of a prompt.
    pub function: Option<String>,
    /// The rendered args of the function.
    pub args: Option<Map<String, Value>>,
    /// The first system message.
    pub system_prompt: Option<String>,
    /// The second system message, in its own member order.
    pub context: Option<Map<String, Value>>,
    /// The earlier turns, between the system messages and the prompt, with their files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message<FileRef>>,
    /// The files that go with the prompt, or that the function reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    /// The longest output, in tokens.
    pub max_tokens: Option<u64>,
    /// The temperature, 0 to 1.
    pub temperature: Option<f64>,
    /// The other members that steer the choice of tokens.
    #[serde(flatten)]
    pub sampling: Sampling,
    /// The service tier to ask the provider for.
    pub service_tier: Option<ServiceTier>,
    /// The JSON Schema of the output. The server checks the output in any case.
    pub output_schema: Option<Value>,
    /// The method by which to make the confidence, in the same lease.
    pub confidence: Option<Box<Ask>>,
    /// False if nothing reads the log-probabilities of the answer: the task has no gate and asks for no
    /// confidence.
    #[serde(default = "wanted", skip_serializing_if = "is_wanted")]
    pub logprobs: bool,
    /// The execution that the task is a step of.
    pub plan_execution_id: Option<String>,
    /// The step's identifier in its plan.
    pub step_id: Option<String>,
    /// The item of the step's list that the task is for, from 0.
    pub item: Option<u16>,
    /// The W3C trace context of the attempt: the parent of the worker's own spans.
    pub traceparent: Option<String>,
}

/// The value of a task without the member, as earlier servers send it.
const fn wanted() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_wanted(wanted: &bool) -> bool {
    *wanted
}

/// The acknowledgement of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    /// The lease.
    pub lease: String,
    /// The frame that the acknowledgement answers.
    pub of: Of,
    /// The effect of the frame.
    pub result: Outcome,
}

/// The frame that an acknowledgement answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// `complete`.
    Complete,
    /// `fail`.
    Fail,
}

/// The effect of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The result counts.
    Applied,
    /// The result counted already.
    Duplicate,
    /// The result came too late and changed nothing.
    Stale,
}

impl ConfidenceSource {
    /// The outcome's name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Logprobs => "logprobs",
            Self::Samples => "samples",
            Self::Judge => "judge",
            Self::Reported => "reported",
            Self::None => "none",
        }
    }
}

impl From<Source> for ConfidenceSource {
    fn from(source: Source) -> Self {
        match source {
            Source::Logprobs => Self::Logprobs,
            Source::Samples => Self::Samples,
            Source::Judge => Self::Judge,
            Source::Reported => Self::Reported,
            Source::None => Self::None,
        }
    }
}

impl From<ConfidenceSource> for Source {
    fn from(source: ConfidenceSource) -> Self {
        match source {
            ConfidenceSource::Logprobs => Self::Logprobs,
            ConfidenceSource::Samples => Self::Samples,
            ConfidenceSource::Judge => Self::Judge,
            ConfidenceSource::Reported => Self::Reported,
            ConfidenceSource::None => Self::None,
        }
    }
}

impl fmt::Debug for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Delta");
        shown.field("lease", &self.lease).field("bytes", &self.text.len()).finish()
    }
}

impl fmt::Debug for Complete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Complete")
            .field("lease", &self.lease)
            .field("usage", &self.usage)
            .field("confidence", &self.confidence)
            .field("finish_reason", &self.finish_reason)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.id)
            .field("model", &self.model)
            .field("queue", &self.queue)
            .field("max_tokens", &self.max_tokens)
            .field("temperature", &self.temperature)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
