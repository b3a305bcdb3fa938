//! Answers in the shapes of OpenAI's interface: a whole completion, the chunks of a stream, and the
//! list of models.

use callboard_domain::task::Task;
use callboard_domain::usage::Usage;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::common::Text;

/// A whole answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChatCompletionBody<'a> {
    /// The task's: `dt_task_…`
    #[schema(value_type = String)]
    id: Text<callboard_domain::id::TaskId>,
    /// chat.completion
    object: &'static str,
    /// The creation of the task, in seconds since 1970.
    created: u64,
    /// The model's name.
    model: &'a str,
    /// The one answer.
    choices: Vec<ChoiceBody<'a>>,
    /// Tokens read and made.
    usage: ChatUsageBody,
}

/// The one answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChoiceBody<'a> {
    /// 0
    index: u32,
    /// The answer.
    message: ChatAnswerBody<'a>,
    /// Always null.
    #[schema(value_type = Option<String>)]
    logprobs: (),
    /// stop, length or `content_filter`.
    finish_reason: &'static str,
}

/// The text of an answer.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChatAnswerBody<'a> {
    /// assistant
    role: &'static str,
    /// The text.
    content: &'a str,
    /// Always null.
    #[schema(value_type = Option<String>)]
    refusal: (),
}

/// The tokens of a completion.
#[expect(clippy::struct_field_names, reason = "they are OpenAI's names")]
#[derive(Debug, Clone, Copy, Default, Serialize, ToSchema)]
pub(super) struct ChatUsageBody {
    /// Tokens read.
    prompt_tokens: u64,
    /// Tokens made.
    completion_tokens: u64,
    /// Tokens read and made.
    total_tokens: u64,
}

impl From<Usage> for ChatUsageBody {
    fn from(usage: Usage) -> Self {
        Self {
            prompt_tokens: usage.input,
            completion_tokens: usage.output,
            total_tokens: usage.total(),
        }
    }
}

/// The usage of a completed task.
fn usage(task: &Task) -> ChatUsageBody {
    task.result.as_ref().map_or_else(ChatUsageBody::default, |result| result.usage.into())
}

/// The reason why the model stopped, in OpenAI's words.
fn finish_reason(task: &Task) -> &'static str {
    let said = task.result.as_ref().and_then(|result| result.finish_reason.as_deref());
    match said {
        Some("length" | "max_tokens") => "length",
        Some("content_filter" | "refusal") => "content_filter",
        Some(_) | None => "stop",
    }
}

fn created(task: &Task) -> u64 {
    task.spec.id.created_at().as_millis() / 1000
}

impl<'a> ChatCompletionBody<'a> {
    /// The answer of a completed task.
    #[must_use]
    pub fn of(task: &'a Task, output: &'a str) -> Self {
        let message = ChatAnswerBody { role: "assistant", content: output, refusal: () };
        let finish_reason = finish_reason(task);
        Self {
            id: Text(task.spec.id),
            object: "chat.completion",
            created: created(task),
            model: &task.spec.model,
            choices: vec![ChoiceBody { index: 0, message, logprobs: (), finish_reason }],
            usage: usage(task),
        }
    }
}

/// The chunks of a streamed answer, as JSON.
#[derive(Debug)]
pub struct Chunks {
    head: Value,
}

impl Chunks {
    /// The chunks of this task's answer; with `usage` each has the member.
    #[must_use]
    pub fn of(task: &Task, usage: bool) -> Self {
        let mut head = json!({
            "id": task.spec.id.to_string(),
            "object": "chat.completion.chunk",
            "created": created(task),
            "model": task.spec.model,
        });
        if usage {
            head["usage"] = Value::Null;
        }
        Self { head }
    }

    fn chunk(&self, delta: &Value, finish_reason: Option<&str>) -> String {
        let mut chunk = self.head.clone();
        chunk["choices"] = json!([
            {"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason},
        ]);
        chunk.to_string()
    }

    /// The first.
    #[must_use]
    pub fn first(&self) -> String {
        self.chunk(&json!({"role": "assistant", "content": "", "refusal": null}), None)
    }

    /// A piece of the text.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.chunk(&json!({"content": text}), None)
    }

    /// The last chunks of a completed task.
    #[must_use]
    pub fn last(&self, task: &Task) -> Vec<String> {
        let mut last = vec![self.chunk(&json!({}), Some(finish_reason(task)))];
        if self.head.get("usage").is_some() {
            let mut chunk = self.head.clone();
            chunk["choices"] = json!([]);
            chunk["usage"] = json!(usage(task));
            last.push(chunk.to_string());
        }
        last
    }
}

/// The models that a request may name.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelsBody {
    /// list
    object: &'static str,
    /// The models, by name.
    data: Vec<ModelBody>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelBody {
    /// The name.
    id: String,
    /// model
    object: &'static str,
    /// Not known: always 0.
    created: u64,
    /// callboard
    owned_by: &'static str,
}

impl ModelBody {
    /// The model of this name.
    #[must_use]
    pub const fn of(id: String) -> Self {
        Self { id, object: "model", created: 0, owned_by: "callboard" }
    }
}

impl ModelsBody {
    /// Models of these names.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = String>) -> Self {
        Self { object: "list", data: names.into_iter().map(ModelBody::of).collect() }
    }
}
