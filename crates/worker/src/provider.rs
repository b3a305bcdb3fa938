//! Clients of model providers: one prompt goes out, text streams back, a completion ends it.
//!
//! A worker makes one call per lease and the server decides about another, so nothing here
//! retries. The one exception costs nothing: a provider that refuses an optional parameter is
//! asked again without it (`quirks`).
//!
//! ```text
//! worker ──Request──▶ Provider ──deltas──▶ worker
//!                        └──Completion | Failure──▶
//! ```
//!
//! Deliberately absent: tools, and any log of a prompt, an
//! output or a key. The types that hold them say so in their `Debug`.

pub mod anthropic;
mod deltas;
#[cfg(test)]
mod described;
#[cfg(test)]
mod dialects;
pub mod failure;
mod http;
mod lenient;
mod limits;
pub mod openai;
mod parts;
#[cfg(test)]
mod published;
mod quirks;
mod schema;
pub mod simulated;
#[cfg(test)]
mod testing;
mod thinking;

use std::fmt;

use callboard_domain::confidence::Source;
use callboard_domain::file::FILE_TOKENS;
use callboard_domain::model_limits::Reported;
use callboard_domain::task::{Message, Sampling, ServiceTier, Thinking};
use callboard_domain::usage::Tokens;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

pub use deltas::Deltas;
pub use failure::{Code, Failure};
pub use http::ConfigError;

use lenient::{Content, Joiner};
use parts::Form;
use thinking::Filter;

use crate::files::File;

/// The greatest output that is taken, in bytes. A longer one is a failure.
pub const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;

/// One way to run a prompt on a model.
pub trait Provider: fmt::Debug + Send + Sync {
    /// The provider's name in logs and on the command line.
    fn name(&self) -> &'static str;

    /// Makes one model call and sends the output's pieces to `deltas` as they come; joined,
    /// they are the completion's output, unless that ends with the discovery that it began with thinking.
    /// Dropping the future closes the provider's stream,
    /// which ends the generation there.
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a Deltas,
    ) -> BoxFuture<'a, Result<Completion, Failure>>;

    /// The names of the models that the provider lists; `None` if it answers and lists none. A success means that
    /// the provider can be reached and takes the key.
    fn models(&self) -> BoxFuture<'_, Result<Option<Vec<String>>, Failure>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A request to a model.
#[derive(Clone, PartialEq, Default)]
pub struct Request {
    /// The provider's name of the model.
    pub model: String,
    /// The first system message.
    pub system_prompt: Option<String>,
    /// The second system message, in its own member order.
    pub context: Option<Map<String, Value>>,
    /// The earlier turns, between the system messages and the prompt.
    pub messages: Vec<Message<File>>,
    /// The files before the prompt, in the same message.
    pub files: Vec<File>,
    /// The last user message, exactly as it is.
    pub prompt: String,
    /// The longest output, in tokens. `None` leaves it to the provider.
    pub max_tokens: Option<u64>,
    /// The temperature, 0 to 1. `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// The seed, the share of the probability and the stop sequences.
    pub sampling: Sampling,
    /// The service tier to ask for. `None` leaves it to the provider.
    pub service_tier: Option<ServiceTier>,
    /// The JSON Schema of the output. A provider enforces it as far as it can.
    pub output_schema: Option<Value>,
    /// True if no log-probabilities are wanted.
    pub without_logprobs: bool,
}

/// A whole answer.
#[derive(Clone, PartialEq)]
pub struct Completion {
    /// The text.
    pub output: String,
    /// The thinking before the text, which is no part of it; at most [`Thinking::MAX`].
    pub thinking: Option<String>,
    /// The provider's count, or an estimate where it doesn't count.
    pub usage: Tokens,
    /// The confidence, 0 to 1, when there is a signal.
    pub confidence: Option<f64>,
    /// The source of `confidence`.
    pub confidence_source: Source,
    /// `stop`, `length`, or the provider's own word.
    pub finish_reason: Option<String>,
    /// The service tier that the provider reports.
    pub service_tier: Option<ServiceTier>,
    /// The provider's own limits, from the headers of the answer.
    pub limits: Reported,
    /// The first tokens of the output with their natural log-probabilities, where there are any.
    pub opening: Vec<(String, f64)>,
}

/// The most tokens of an output whose log-probabilities are kept one by one.
const OPENING: usize = 8;

impl Request {
    /// The system messages in their order: the system prompt, then the context as compact
    /// JSON.
    #[must_use]
    pub fn system_messages(&self) -> Vec<String> {
        let context = self
            .context
            .as_ref()
            .map(|context| format!("Context:\n{}", Value::Object(context.clone())));
        self.system_prompt.iter().cloned().chain(context).collect()
    }

    /// The files of the prompt and of the earlier turns.
    fn all_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().chain(Message::files(&self.messages).map(|(_, _, file)| file))
    }

    /// The earlier turns and the prompt with its files, as the user's last, in the form of a provider.
    fn turns(&self, form: Form) -> impl Iterator<Item = Value> {
        let turn = move |Message { role, content }: &Message<File>| json!({"role": role, "content": parts::of(form, content)});
        let earlier = self.messages.iter().map(turn);
        let content = parts::content(form, &self.files, &self.prompt);
        earlier.chain([json!({"role": "user", "content": content})])
    }

    /// The prompt's tokens where the provider doesn't count them.
    fn estimated_tokens(&self) -> u64 {
        use callboard_domain::usage::estimate_tokens;
        let system = self.system_messages();
        let earlier = self.messages.iter().flat_map(|message| message.content.texts());
        let texts = system.iter().chain(earlier).chain([&self.prompt]);
        let files = FILE_TOKENS * self.all_files().count() as u64;
        texts.map(|text| estimate_tokens(text)).sum::<u64>() + files
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("model", &self.model)
            .field("max_tokens", &self.max_tokens)
            .field("temperature", &self.temperature)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("usage", &self.usage)
            .field("confidence", &self.confidence)
            .field("confidence_source", &self.confidence_source)
            .field("finish_reason", &self.finish_reason)
            .finish_non_exhaustive()
    }
}

/// The output as it grows: the same text goes to the deltas and into the completion.
#[derive(Default)]
struct Output {
    text: String,
    /// The filter of the thinking at the beginning of a model's text.
    filter: Option<Filter>,
    /// The bytes of text so far, thinking included.
    taken: usize,
    /// The thinking that came apart from the text.
    thought: String,
    halves: (Joiner, Joiner),
}

/// An output that is whole.
struct Finished {
    text: String,
    thinking: Option<String>,
    /// True if the model's prompt opened the thinking.
    opens_thinking: bool,
}

impl Output {
    /// The output of a model, whose thinking is taken off.
    fn of_model(opens_thinking: bool) -> Self {
        Self { filter: Some(Filter::new(opens_thinking)), ..Self::default() }
    }

    /// True if neither text nor thinking has come.
    const fn is_empty(&self) -> bool {
        self.taken == 0 && self.thought.is_empty()
    }

    /// True while the text is thinking.
    fn is_thinking(&self) -> bool {
        self.filter.as_ref().is_some_and(Filter::is_thinking)
    }

    async fn push(&mut self, piece: String, deltas: &Deltas) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        if self.text.len() + piece.len() > MAX_OUTPUT_BYTES {
            return Err(Self::too_long());
        }
        self.text.push_str(&piece);
        // A closed receiver changes nothing: the completion still counts.
        let _ = deltas.send(piece).await;
        Ok(())
    }

    /// Takes a piece of a model's answer. True if its text was thinking, or stood at its end.
    async fn take(
        &mut self,
        content: Content,
        has_halves: bool,
        deltas: &Deltas,
    ) -> Result<bool, Failure> {
        let thought = self.halves.1.join(content.thought, has_halves);
        deltas.saw(&thought);
        let room = Thinking::MAX - self.thought.len();
        self.thought.push_str(&thought[..thought.floor_char_boundary(room)]);
        let piece = self.halves.0.join(content.text, has_halves);
        self.taken += piece.len();
        if self.taken > MAX_OUTPUT_BYTES {
            return Err(Self::too_long());
        }
        let (shown, is_thought) = match &mut self.filter {
            Some(filter) => {
                let (ended, is_text) = (filter.ended(), !piece.is_empty());
                let raw = filter.is_thinking().then(|| piece.clone());
                let shown = filter.push(piece);
                if let Some(raw) = raw.filter(|_| shown.is_empty()) {
                    deltas.saw(&raw);
                }
                // White space after thinking is none of the answer.
                let is_hidden = is_text && shown.is_empty() && ended > 0;
                (shown, is_hidden || filter.is_thinking() || filter.ended() > ended)
            }
            None => (piece, false),
        };
        self.push(shown, deltas).await?;
        Ok(is_thought)
    }

    /// The whole output. `is_cut` is true if it ended at its limit.
    async fn finish(mut self, is_cut: bool, deltas: &Deltas) -> Result<Finished, Failure> {
        let rest = Content { text: self.halves.0.rest(), thought: self.halves.1.rest() };
        self.take(rest, false, deltas).await?;
        if let Some(filter) = self.filter.take() {
            let (rest, thought) = filter.finish(is_cut);
            self.push(rest, deltas).await?;
            self.thought.push_str(&thought);
        }
        let unopened = thinking::unopened(&self.text);
        let opens_thinking = unopened.is_some();
        let text = match unopened {
            Some((thought, text)) => {
                self.thought.push_str(thought);
                text.to_owned()
            }
            None => self.text,
        };
        self.thought.truncate(self.thought.floor_char_boundary(Thinking::MAX));
        let thought = self.thought.trim();
        let thinking = (!thought.is_empty()).then(|| thought.to_owned());
        Ok(Finished { text, thinking, opens_thinking })
    }

    fn too_long() -> Failure {
        Failure::refused(format!("the output is longer than {MAX_OUTPUT_BYTES} bytes"))
    }
}

impl Finished {
    /// Checks that there is an answer; `unanswered` makes the failure that another try may mend. An answer
    /// that must match a schema and was cut before it began is one: the server gives the next more room.
    ///
    /// # Errors
    /// There is no text.
    fn check(
        &self,
        finish_reason: Option<&str>,
        request: &Request,
        unanswered: impl FnOnce() -> Failure,
    ) -> Result<(), Failure> {
        match finish_reason {
            _ if !self.text.is_empty() => Ok(()),
            Some("length") if request.output_schema.is_some() => Ok(()),
            Some("length") => Err(Failure::refused(
                "the model stopped at its token limit before it answered: raise maxTokens",
            )),
            Some(reason @ ("content_filter" | "refusal")) => {
                Err(Failure::refused(format!("the provider withheld the answer: {reason}")))
            }
            Some(_) | None if self.thinking.is_some() => {
                Err(Failure::broken("the model sent its reasoning and no answer"))
            }
            Some(_) | None => Err(unanswered()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_prompt_comes_before_the_context_which_keeps_its_member_order() {
        let request = Request {
            system_prompt: Some("Be brief.".into()),
            context: serde_json::from_str(r#"{"z": 1, "a": [true, "ü"]}"#).unwrap(),
            ..Request::default()
        };
        let expected = ["Be brief.", "Context:\n{\"z\":1,\"a\":[true,\"ü\"]}"];
        assert_eq!(request.system_messages(), expected);
        assert!(Request::default().system_messages().is_empty());
    }

    #[test]
    fn neither_prompt_nor_output_is_in_what_a_log_would_show() {
        let request = Request {
            prompt: "secret".into(),
            system_prompt: Some("secret".into()),
            ..Request::default()
        };
        let completion = Completion {
            output: "secret".into(),
            thinking: Some("secret".into()),
            usage: Tokens::default(),
            confidence: None,
            confidence_source: Source::None,
            finish_reason: None,
            service_tier: None,
            limits: Reported::default(),
            opening: vec![("secret".into(), -0.1)],
        };
        assert!(!format!("{request:?} {completion:?}").contains("secret"));
    }
}
