//! A leased task as a worker's handlers see it, and the report of its result.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::function::{Functions, Working};
use super::model::{Models, handler_of};
use super::run_loop::{Assign, Handle, MAX_FRAME, Of, Report, Reporting, Text, gather};
use crate::{Call, Client};

/// The time before the end of an attempt at which it is cut, so that its report is in time.
const MARGIN: Duration = Duration::from_millis(250);
/// The pieces that may wait between a handler and the gathering.
const PIECES: usize = 64;
/// The highest cost of a call, in USD.
const MOST_COST: f64 = 1_000_000.0;

/// A task to run (docs/reference/workers.md).
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Task {
    /// The identifier.
    pub id: String,
    /// The model that the task names; `function:` and the name for a call of a function.
    pub model: String,
    /// The queue.
    pub queue: String,
    /// The rendered prompt; empty for a call of a function.
    #[serde(default)]
    pub prompt: String,
    /// The function to call.
    #[serde(default)]
    pub function: Option<String>,
    /// The args of the function.
    #[serde(default)]
    pub args: Option<Map<String, Value>>,
    /// The first system message.
    #[serde(default)]
    pub system_prompt: Option<String>,
    /// The second system message, in its own member order.
    #[serde(default)]
    pub context: Option<Map<String, Value>>,
    /// The earlier turns, between the system messages and the prompt.
    #[serde(default)]
    pub messages: Vec<Message>,
    /// The files that go with the prompt, or that the function reads.
    #[serde(default)]
    pub files: Vec<TaskFile>,
    /// The longest output, in tokens.
    #[serde(default)]
    pub max_tokens: Option<u64>,
    /// The temperature, 0 to 1.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// The JSON Schema of the output. The server checks the output in any case.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// The execution that the task is a step of.
    #[serde(default)]
    pub plan_execution_id: Option<String>,
    /// The step's identifier in its plan.
    #[serde(default)]
    pub step_id: Option<String>,
    /// The item of the step's list that the task is for, from 0.
    #[serde(default)]
    pub item: Option<u32>,
    /// The W3C trace context of the attempt: the parent of the worker's own spans.
    #[serde(default)]
    pub traceparent: Option<String>,
    /// The number of the attempt, from 1.
    #[serde(skip)]
    pub attempt: u32,
    /// The time of the attempt, from its begin on.
    #[serde(skip)]
    pub time: Duration,
    /// The further members, such as `topP`, `seed` and `stop`.
    #[serde(flatten)]
    pub further: Map<String, Value>,
    #[serde(skip)]
    cost: Arc<Mutex<f64>>,
}

/// An earlier turn of the conversation.
#[derive(Debug, Clone, Deserialize)]
pub struct Message {
    /// `user` or `assistant`.
    pub role: String,
    /// The text, or the parts.
    pub content: Content,
}

/// The content of an earlier turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A text alone.
    Text(String),
    /// Texts and files in their order.
    Parts(Vec<Part>),
}

/// A part of an earlier turn.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Part {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// The file.
        file: TaskFile,
    },
    /// A PDF, or a text.
    Document {
        /// The file.
        file: TaskFile,
    },
}

impl Content {
    /// The texts, without the files between them.
    #[must_use]
    pub fn text(&self) -> String {
        let parts = match self {
            Self::Text(text) => return text.clone(),
            Self::Parts(parts) => parts,
        };
        let text = |part: &Part| match part {
            Part::Text { text } => Some(text.clone()),
            Part::Image { .. } | Part::Document { .. } => None,
        };
        parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
    }

    fn files_mut(&mut self) -> impl Iterator<Item = &mut TaskFile> {
        let parts = match self {
            Self::Text(_) => None,
            Self::Parts(parts) => Some(parts),
        };
        parts.into_iter().flatten().filter_map(|part| match part {
            Part::Text { .. } => None,
            Part::Image { file } | Part::Document { file } => Some(file),
        })
    }
}

/// A turn for a chat model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatTurn {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

/// A file of a task.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct TaskFile {
    /// The identifier.
    pub id: String,
    /// The name.
    pub name: Option<String>,
    /// The media type, by the bytes where the server knows the format.
    pub content_type: String,
    /// The length.
    pub bytes: u64,
    /// The SHA-256 of the bytes, in hexadecimal; empty for a file that was deleted.
    pub sha256: String,
    #[serde(skip)]
    client: Option<Client>,
}

impl TaskFile {
    /// Reads the bytes from the server, with the worker's key.
    ///
    /// # Errors
    /// The file was deleted, which no other attempt mends; the server cannot be reached.
    pub async fn read(&self) -> Result<Vec<u8>, Failure> {
        let gone = || Failure::fatal(format!("file {} was deleted", self.id));
        let client = self.client.as_ref().filter(|_| !self.sha256.is_empty()).ok_or_else(gone)?;
        let call = Call::get(&["files", &self.id, "content"]).of_any_type();
        let response = match client.stream(&call).await {
            Err(crate::Error::Api(error)) if error.status == 404 => return Err(gone()),
            response => response?,
        };
        Ok(response.bytes().await?.to_vec())
    }
}

/// The tokens of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub input: u64,
    /// Tokens of the output.
    pub output: u64,
    /// Tokens of the prompt that the provider read from its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Tokens of the prompt that the provider wrote to its cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
}

/// The reason why a task has no result. Any error becomes one by `?`: a `PROVIDER_ERROR` that another attempt
/// may mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    code: &'static str,
    message: String,
    retryable: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    /// A `PROVIDER_ERROR` that another attempt may mend.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: "PROVIDER_ERROR", message: message.into(), retryable: true, retry_after: None }
    }

    /// A `PROVIDER_ERROR` that no other attempt mends.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self { retryable: false, ..Self::new(message) }
    }

    /// A `PROVIDER_RATE_LIMITED`: the provider asks for this pause.
    pub fn rate_limited(message: impl Into<String>, retry_after: Option<Duration>) -> Self {
        Self { code: "PROVIDER_RATE_LIMITED", retry_after, ..Self::new(message) }
    }

    fn report(self, lease: String) -> Report {
        let message: String = self.message.chars().take(1000).collect();
        let mut members = Map::new();
        members.insert("error".into(), json!({"code": self.code, "message": message}));
        members.insert("retryable".into(), self.retryable.into());
        if let Some(wait) = self.retry_after {
            let ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            members.insert("retryAfterMs".into(), ms.into());
        }
        Report { of: Of::Fail, lease, members }
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

impl Task {
    /// The turns for a chat model, in the order that the server promises: the system prompt, the context, the
    /// earlier turns without their files, the prompt.
    #[must_use]
    pub fn chat(&self) -> Vec<ChatTurn> {
        let turn = |role: &str, content: String| ChatTurn { role: role.to_owned(), content };
        let context = self.context.as_ref();
        let context = context.map(|it| format!("Context:\n{}", Value::Object(it.clone())));
        let system = self.system_prompt.clone().into_iter().chain(context);
        let system = system.filter(|text| !text.is_empty()).map(|text| turn("system", text));
        let prompt = turn("user", self.prompt.clone());
        let earlier = self.messages.iter().map(|it| turn(&it.role, it.content.text()));
        system.chain(earlier).chain([prompt]).collect()
    }

    /// Adds to the cost of a function's call, in USD. That of a model comes from the server's price table.
    ///
    /// # Errors
    /// The cost is not within 0 to 1,000,000.
    pub fn charge(&self, cost: f64) -> Result<(), Failure> {
        if !(0.0..=MOST_COST).contains(&cost) {
            return Err(Failure::fatal(format!("the cost {cost} is not within 0 to 1000000 USD")));
        }
        *self.cost.lock().unwrap_or_else(PoisonError::into_inner) += cost;
        Ok(())
    }

    pub(super) fn cost(&self) -> f64 {
        *self.cost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Task");
        shown.field("id", &self.id).field("model", &self.model).field("queue", &self.queue);
        shown.field("attempt", &self.attempt).finish_non_exhaustive()
    }
}

/// The handlers of a worker.
pub(super) struct Work {
    pub(super) models: Models,
    pub(super) functions: Functions,
    /// The reader of files.
    pub(super) client: Client,
}

impl Handle for Work {
    fn handle(&self, assign: Assign, time: Duration, text: mpsc::Sender<Text>) -> Reporting {
        let Assign { lease, attempt, task, .. } = assign;
        let Ok(task) = serde_json::from_value::<Task>(task) else {
            let failure = Failure::fatal("this version of the worker cannot read the task");
            return Box::pin(async { failure.report(lease) });
        };
        let mut task = Task { attempt, time, ..task };
        let shown = task.messages.iter_mut().flat_map(|message| message.content.files_mut());
        let files = task.files.iter_mut().chain(shown);
        files.for_each(|file| file.client = Some(self.client.clone()));
        let (sender, pieces) = mpsc::channel(PIECES);
        // The handler is called within the future, where its panic is caught.
        let work: Option<Working> = match &task.function {
            Some(name) => self.functions.get(name).map(|(_, called)| {
                let (called, task) = (Arc::clone(called), task.clone());
                Box::pin(async move { called.call(task).await }) as Working
            }),
            None => handler_of(&self.models, &task.model).map(|model| {
                let (model, task) = (Arc::clone(model), task.clone());
                Box::pin(async move { model.run(task, sender).await }) as Working
            }),
        };
        let Some(work) = work else {
            let failure = Failure::new(format!("the worker does not run {}", task.model));
            return Box::pin(async { failure.report(lease) });
        };
        Box::pin(async move {
            let caught = std::panic::AssertUnwindSafe(work).catch_unwind();
            let gathered = gather(&lease, caught, pieces, &text);
            let in_time =
                tokio::time::timeout(time.saturating_sub(MARGIN.min(time / 20)), gathered);
            let result = match in_time.await {
                Ok(Ok(result)) => result,
                // The panic's own text is not reported: it may hold parts of the prompt.
                Ok(Err(_panic)) => Err(Failure {
                    code: "INTERNAL_ERROR",
                    ..Failure::new("the worker failed while it ran the task")
                }),
                Err(_) => Err(Failure {
                    code: "TASK_TIMEOUT",
                    ..Failure::new("the attempt's deadline passed before the task had finished")
                }),
            };
            match result {
                Ok(members) => bounded(Report { of: Of::Complete, lease, members }),
                Err(failure) => failure.report(lease),
            }
        })
    }
}

/// The failure that takes the place of a result whose frame the server would refuse.
fn bounded(report: Report) -> Report {
    let length = serde_json::to_string(&report).map_or(usize::MAX, |text| text.len());
    if length <= MAX_FRAME {
        return report;
    }
    let why = format!(
        "the output takes {length} bytes as JSON, and a frame may have at most {MAX_FRAME}"
    );
    Failure::fatal(why).report(report.lease)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_in_parts_has_its_texts_and_its_files() {
        let file = json!({"id": "file_1", "contentType": "image/png", "bytes": 1, "sha256": "x"});
        let parts = json!([
            {"type": "text", "text": "look"}, {"type": "image", "file": file},
            {"type": "text", "text": "well"},
        ]);
        let task = json!({"id": "t", "model": "m", "queue": "q", "prompt": "now",
            "messages": [{"role": "user", "content": parts}]});
        let mut task: Task = serde_json::from_value(task).unwrap();
        let turn = |content: &str| ChatTurn { role: "user".into(), content: content.into() };
        assert_eq!(task.chat(), [turn("look\nwell"), turn("now")]);
        let files: Vec<_> = task.messages[0].content.files_mut().map(|it| it.id.clone()).collect();
        assert_eq!(files, ["file_1"]);
    }
}
