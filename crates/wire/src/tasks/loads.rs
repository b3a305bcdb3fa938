//! The lines of a load: bodies of `POST /api/tasks`, and lines of `OpenAI`'s batch format.

use callboard_domain::labels::MAX_TITLE;
use callboard_domain::{Error, Rule};
use serde_json::Value;

use super::CreateTask;
use crate::chat::{CreateChatCompletion, GivenFile, give_files};
use crate::read::rule::{self, Parse};
use crate::read::{Reading, reading};
use crate::request;

/// The one address to which a line of the batch format may be sent.
const URL: &str = "/v1/chat/completions";

request! {
    /// A line of `OpenAI`'s batch format.
    #[derive(Debug)]
    pub struct ChatLine as "ChatLine" {
        /// The idempotency key, and the title of the task.
        custom_id: String = required("custom_id", rule::text(rule::characters(1..=MAX_TITLE))),
        /// POST.
        method: Option<String> = optional("method", fixed("POST", "must be POST")),
        /// `/v1/chat/completions`.
        url: Option<String> = optional("url", fixed(URL, "must be /v1/chat/completions")),
        /// The body of the chat completion.
        body: CreateChatCompletion = required("body", rule::object::<CreateChatCompletion>()),
    }
}

fn fixed(only: &'static str, says: &'static str) -> impl Parse<String> {
    let text = rule::text(rule::characters(1..=64));
    text.only(move |text: &String| text == only, Rule::Enum, says)
}

impl ChatLine {
    /// The request for the task.
    ///
    /// # Errors
    /// Those of [`CreateChatCompletion::into_task`].
    pub fn into_create(self) -> Result<CreateTask, Error> {
        let (mut task, files) = self.body.into_task()?;
        let mut kept = Vec::with_capacity(files.len());
        for file in files {
            let GivenFile::Kept(id) = file else {
                let says = "body.messages has the bytes of a file, which a line may not have: upload it at POST \
                     /api/files, and name it by file_id";
                return Err(Error::invalid("body.messages", Rule::Unknown, says));
            };
            kept.push(id);
        }
        give_files(&mut task, kept);
        task.labels.title = Some(self.custom_id.clone());
        Ok(CreateTask { task, idempotency_key: Some(self.custom_id) })
    }
}

/// A line that was read.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub enum LoadLine {
    /// A body of `POST /api/tasks`.
    Task(Reading<CreateTask>),
    /// A line of the batch format: it has a `custom_id`, which no task has.
    Chat(Reading<ChatLine>),
}

impl LoadLine {
    /// Reads a parsed line, and every fault of it.
    #[must_use]
    pub fn of(line: Value) -> Self {
        if line.get("custom_id").is_some() {
            Self::Chat(reading(line))
        } else {
            Self::Task(reading(line))
        }
    }
}
