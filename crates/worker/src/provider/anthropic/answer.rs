//! The answer of a messages call, read event by event; a whole message is one event.
//!
//! Deliberately absent: errors among the events, which the client looks for first.

use callboard_domain::confidence::Source;
use callboard_domain::model_limits::Reported;
use callboard_domain::task::ServiceTier;
use callboard_domain::usage::{Tokens, estimate_tokens};
use serde_json::Value;

use crate::provider::deltas::Counts;
use crate::provider::lenient::{Content, Json, count, string};
use crate::provider::{Completion, Deltas, Failure, Finished, Output, Request};

/// The answer so far.
pub(super) struct Answer {
    pub(super) output: Output,
    stop_reason: Option<String>,
    /// True within a block of a tool that the provider runs by itself.
    is_apart: bool,
    /// True once the last event has come.
    pub(super) has_ended: bool,
    usage: Counted,
    service_tier: Option<ServiceTier>,
}

/// The counts so far: later ones replace earlier ones. `input_tokens` leaves out the cached tokens.
#[derive(Default)]
struct Counted {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

impl Answer {
    pub(super) fn new(opens_thinking: bool) -> Self {
        Self {
            output: Output::of_model(opens_thinking),
            stop_reason: None,
            is_apart: false,
            has_ended: false,
            usage: Counted::default(),
            service_tier: None,
        }
    }

    /// Takes an event in, and sends the text that it adds.
    pub(super) async fn take(&mut self, json: Json, deltas: &Deltas) -> Result<(), Failure> {
        let Json { value: event, has_halves } = json;
        let mut content = Content::default();
        match string(event.get("type")).unwrap_or_default() {
            "message_start" => self.usage(event.pointer("/message/usage")),
            // Some servers put the beginning of a text here.
            "content_block_start" => {
                let kind = string(event.pointer("/content_block/type")).unwrap_or_default();
                self.is_apart = kind.ends_with("_tool_use");
                event.get("content_block").into_iter().for_each(|of| content.take(of));
            }
            "content_block_delta" if !self.is_apart => {
                let Some(delta) = event.get("delta") else { return Ok(()) };
                match string(delta.get("partial_json")) {
                    Some(part) => content.text.push_str(part),
                    None => content.take(delta),
                }
            }
            "message_delta" => {
                self.stop(event.pointer("/delta/stop_reason"));
                self.usage(event.get("usage"));
            }
            "message_stop" => self.has_ended = true,
            "message" => {
                let parts = event.get("content").and_then(Value::as_array);
                parts.into_iter().flatten().for_each(|part| take_part(part, &mut content));
                self.stop(event.get("stop_reason"));
                self.usage(event.get("usage"));
                self.has_ended = true;
            }
            // A ping, the end of a block, a tool of the provider, or a kind that came later.
            _ => {}
        }
        deltas.counted(self.usage.so_far());
        self.output.take(content, has_halves, deltas).await.map(drop)
    }

    fn stop(&mut self, reason: Option<&Value>) {
        self.stop_reason = string(reason).map(str::to_owned).or(self.stop_reason.take());
    }

    fn usage(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage else { return };
        let renewed = |known: &mut Option<u64>, name| *known = count(usage.get(name)).or(*known);
        renewed(&mut self.usage.input, "input_tokens");
        renewed(&mut self.usage.output, "output_tokens");
        renewed(&mut self.usage.cache_write, "cache_creation_input_tokens");
        renewed(&mut self.usage.cache_read, "cache_read_input_tokens");
        self.service_tier = string(usage.get("service_tier")).map(given).or(self.service_tier);
    }

    /// The completion, and true if the model's prompt opened its thinking. `unanswered` makes the failure
    /// of an answer without a text.
    pub(super) async fn complete(
        self,
        request: &Request,
        limits: Reported,
        deltas: &Deltas,
        unanswered: impl FnOnce() -> Failure,
    ) -> Result<(Completion, bool), Failure> {
        let reason = self.stop_reason.map(finish_reason);
        let finished = self.output.finish(reason.as_deref() == Some("length"), deltas).await?;
        finished.check(reason.as_deref(), request, unanswered)?;
        let usage = self.usage.tokens(request, &finished);
        let Finished { text, thinking, opens_thinking } = finished;
        let completion = Completion {
            output: text,
            thinking,
            usage,
            confidence: None,
            confidence_source: Source::None,
            finish_reason: reason,
            service_tier: self.service_tier,
            limits,
            opening: Vec::new(),
        };
        Ok((completion, opens_thinking))
    }
}

impl Counted {
    /// All tokens of the prompt.
    fn input(&self) -> u64 {
        let counts = [self.input, self.cache_read, self.cache_write];
        counts.into_iter().flatten().fold(0, u64::saturating_add)
    }

    /// The counts as they are, of a call that may not end well.
    fn so_far(&self) -> Counts {
        let &Self { output, cache_read, cache_write, .. } = self;
        Counts { input: self.input.map(|_| self.input()), output, cache_read, cache_write }
    }

    /// The tokens of the answer. A count that is missing, or is nothing for a text, is estimated.
    fn tokens(&self, request: &Request, finished: &Finished) -> Tokens {
        let cache_read = self.cache_read.unwrap_or(0);
        let cache_write = self.cache_write.unwrap_or(0);
        let input = self.input();
        let thinking = finished.thinking.as_deref().unwrap_or_default();
        let estimated =
            || estimate_tokens(&finished.text).saturating_add(estimate_tokens(thinking));
        Tokens {
            input: if input > 0 { input } else { request.estimated_tokens() },
            output: self.output.filter(|count| *count > 0).unwrap_or_else(estimated),
            cache_read,
            cache_write,
        }
    }
}

/// Adds a part of a whole message; the input of the one tool is the answer.
fn take_part(part: &Value, content: &mut Content) {
    match part.get("input") {
        Some(input) if part.get("type").is_some_and(|kind| kind == "tool_use") => {
            content.text.push_str(&input.to_string());
        }
        Some(_) | None => content.take(part),
    }
}

/// The reason in the words of the rest of the field.
fn finish_reason(said: String) -> String {
    match said.as_str() {
        // The one tool is the answer.
        "end_turn" | "stop_sequence" | "tool_use" => "stop".to_owned(),
        "max_tokens" | "model_context_window_exceeded" => "length".to_owned(),
        _ => said,
    }
}

/// The service tier that an answer names; `standard` is the usual one.
fn given(name: &str) -> ServiceTier {
    ServiceTier::parse(name).unwrap_or(ServiceTier::Auto)
}
