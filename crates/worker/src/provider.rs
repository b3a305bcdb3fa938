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
//! Deliberately absent: tools, images, and any log of a prompt, an
//! output or a key. The types that hold them say so in their `Debug`.

pub mod anthropic;
#[cfg(test)]
mod described;
pub mod failure;
mod http;
mod limits;
pub mod openai;
#[cfg(test)]
mod published;
mod quirks;
mod schema;
pub mod simulated;
#[cfg(test)]
mod testing;

use std::fmt;

use callboard_domain::confidence::Source;
use callboard_domain::model_limits::Reported;
use callboard_domain::task::{Message, ServiceTier};
use callboard_domain::usage::Tokens;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

pub use failure::{Code, Failure};
pub use http::ConfigError;

/// The greatest output that is taken, in bytes. A longer one is a failure.
pub const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;

/// The channel of the output's pieces as they come. A closed receiver is no error.
pub type Deltas = mpsc::Sender<String>;

/// One way to run a prompt on a model.
pub trait Provider: fmt::Debug + Send + Sync {
    /// The provider's name in logs and on the command line.
    fn name(&self) -> &'static str;

    /// Makes one model call and sends the output's pieces to `deltas` as they come; joined,
    /// they are the completion's output. Dropping the future closes the provider's stream,
    /// which ends the generation there.
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a Deltas,
    ) -> BoxFuture<'a, Result<Completion, Failure>>;
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
    pub messages: Vec<Message>,
    /// The last user message, exactly as it is.
    pub prompt: String,
    /// The longest output, in tokens. `None` leaves it to the provider.
    pub max_tokens: Option<u64>,
    /// The temperature, 0 to 1. `None` leaves it to the provider.
    pub temperature: Option<f64>,
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
    /// JSON (PROTOCOL, section 3).
    #[must_use]
    pub fn system_messages(&self) -> Vec<String> {
        let context = self
            .context
            .as_ref()
            .map(|context| format!("Context:\n{}", Value::Object(context.clone())));
        self.system_prompt.iter().cloned().chain(context).collect()
    }

    /// The earlier turns and the prompt, as the user's last, in the form that providers share.
    fn turns(&self) -> impl Iterator<Item = Value> {
        let earlier = self
            .messages
            .iter()
            .map(|Message { role, content }| json!({"role": role, "content": content}));
        earlier.chain([json!({"role": "user", "content": self.prompt})])
    }

    /// The prompt's tokens where the provider doesn't count them.
    fn estimated_tokens(&self) -> u64 {
        use callboard_domain::usage::estimate_tokens;
        let system = self.system_messages();
        let earlier = self.messages.iter().map(|message| &message.content);
        let texts = system.iter().chain(earlier).chain([&self.prompt]);
        texts.map(|text| estimate_tokens(text)).sum()
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
}

impl Output {
    async fn push(&mut self, piece: String, deltas: &Deltas) -> Result<(), Failure> {
        if piece.is_empty() {
            return Ok(());
        }
        if self.text.len() + piece.len() > MAX_OUTPUT_BYTES {
            return Err(Failure::refused(format!(
                "the output is longer than {MAX_OUTPUT_BYTES} bytes"
            )));
        }
        self.text.push_str(&piece);
        // A closed receiver changes nothing: the completion still counts.
        let _ = deltas.send(piece).await;
        Ok(())
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
