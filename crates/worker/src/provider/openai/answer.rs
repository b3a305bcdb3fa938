//! The answer of a chat completion, read chunk by chunk; a whole completion is one chunk.
//!
//! Deliberately absent: errors among the chunks, which the client looks for first.

use callboard_domain::confidence::{MeanLogprob, Source};
use callboard_domain::model_limits::Reported;
use callboard_domain::task::ServiceTier;
use callboard_domain::usage::{Tokens, estimate_tokens};
use serde_json::Value;

use crate::provider::deltas::Counts;
use crate::provider::lenient::{Content, Json, count, string};
use crate::provider::{Completion, Deltas, Failure, Finished, OPENING, Output, Request};

/// The words of a server for an answer that it broke off.
const BROKEN: [&str; 5] =
    ["error", "abort", "aborted", "insufficient_system_resource", "network_error"];

/// The answer so far.
pub(super) struct Answer {
    output: Output,
    logprobs: MeanLogprob,
    opening: Vec<(String, f64)>,
    finish_reason: Option<String>,
    usage: Counted,
    /// The counts of llama.cpp, for an answer without `usage`.
    timings: Counted,
    service_tier: Option<ServiceTier>,
    /// True once a whole message has come.
    is_whole: bool,
}

/// The counts so far; later ones replace earlier ones.
#[derive(Default)]
struct Counted {
    input: Option<u64>,
    output: Option<u64>,
    total: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

impl Answer {
    pub(super) fn new(opens_thinking: bool) -> Self {
        Self {
            output: Output::of_model(opens_thinking),
            logprobs: MeanLogprob::default(),
            opening: Vec::new(),
            finish_reason: None,
            usage: Counted::default(),
            timings: Counted::default(),
            service_tier: None,
            is_whole: false,
        }
    }

    /// True while the model has said nothing.
    pub(super) const fn is_empty(&self) -> bool {
        self.output.is_empty()
    }

    /// True once the model has said why it stopped.
    pub(super) const fn is_finished(&self) -> bool {
        self.finish_reason.is_some() || self.is_whole
    }

    /// Takes a chunk in, and sends the text that it adds.
    pub(super) async fn take(&mut self, json: Json, deltas: &Deltas) -> Result<(), Failure> {
        let Json { value: chunk, has_halves } = json;
        self.service_tier = string(chunk.get("service_tier")).map(given).or(self.service_tier);
        self.usage.merge(chunk.get("usage"));
        self.usage.merge(chunk.pointer("/x_groq/usage"));
        self.timings.time(chunk.get("timings"));
        let taken = self.take_choice(&chunk, has_halves, deltas).await;
        deltas.counted(self.usage.or(&self.timings).so_far());
        taken
    }

    /// Takes the choice of a chunk in, and sends the text that it adds.
    async fn take_choice(
        &mut self,
        chunk: &Value,
        has_halves: bool,
        deltas: &Deltas,
    ) -> Result<(), Failure> {
        // The request asks for one completion; some servers number their choices oddly.
        let choices = chunk.get("choices");
        let Some(choice) = choices.and_then(|choices| choices.get(0).or(Some(choices))) else {
            return Ok(());
        };
        self.usage.merge(choice.get("usage"));
        let mut content = Content::default();
        match (choice.get("delta"), choice.get("message")) {
            (Some(delta @ Value::Object(_)), _) => content.take_message(delta),
            // The end of some streams repeats the whole message.
            (_, Some(message)) if self.is_empty() => {
                content.take_message(message);
                self.is_whole = true;
            }
            (_, _) => choice.get("text").into_iter().for_each(|text| content.take(text)),
        }
        let reason = choice.get("finish_reason");
        let reason = string(reason).or_else(|| string(reason?.get("type")));
        self.finish_reason = reason.map(finish_reason).or(self.finish_reason.take());
        let is_hidden = content.text.is_empty() && !content.thought.is_empty();
        let is_thought = self.output.take(content, has_halves, deltas).await?;
        if self.output.is_thinking() {
            // The tokens before were those of the opening tag.
            (self.logprobs, self.opening) = (MeanLogprob::default(), Vec::new());
        } else if !is_hidden && !is_thought {
            self.count_tokens(choice);
        }
        Ok(())
    }

    fn count_tokens(&mut self, choice: &Value) {
        let tokens = choice.pointer("/logprobs/content").and_then(Value::as_array);
        for token in tokens.into_iter().flatten() {
            // A token without a figure spoils the mean: NaN marks it.
            let logprob = token.get("logprob").and_then(Value::as_f64).unwrap_or(f64::NAN);
            self.logprobs.push(logprob);
            if self.opening.len() < OPENING {
                let text = string(token.get("token")).unwrap_or_default();
                self.opening.push((text.to_owned(), logprob));
            }
        }
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
        let reason = self.finish_reason;
        if let Some(reason) = reason.as_deref().filter(|reason| BROKEN.contains(reason)) {
            return Err(Failure::broken(format!("the provider broke the answer off: {reason}")));
        }
        let finished = self.output.finish(reason.as_deref() == Some("length"), deltas).await?;
        finished.check(reason.as_deref(), request, unanswered)?;
        let cut = matches!(reason.as_deref(), Some("length" | "content_filter"));
        let confidence = self.logprobs.confidence().filter(|_| !cut);
        let usage = self.usage.or(&self.timings).tokens(request, &finished, self.logprobs.tokens());
        let Finished { text, thinking, opens_thinking } = finished;
        let completion = Completion {
            output: text,
            thinking,
            usage,
            confidence,
            confidence_source: confidence.map_or(Source::None, |_| Source::Logprobs),
            finish_reason: reason,
            service_tier: self.service_tier,
            limits,
            opening: self.opening,
        };
        Ok((completion, opens_thinking))
    }
}

impl Counted {
    /// Takes in the counts of a chunk, in the names of `OpenAI` and of those that follow Anthropic.
    fn merge(&mut self, usage: Option<&Value>) {
        let Some(usage) = usage.filter(|usage| usage.is_object()) else { return };
        let of = |paths: &[&str]| paths.iter().find_map(|path| count(usage.pointer(path)));
        let renewed = |known: &mut Option<u64>, paths: &[&str]| *known = of(paths).or(*known);
        renewed(&mut self.input, &["/prompt_tokens", "/input_tokens"]);
        renewed(&mut self.output, &["/completion_tokens", "/output_tokens"]);
        renewed(&mut self.total, &["/total_tokens"]);
        renewed(
            &mut self.cache_read,
            &[
                "/prompt_tokens_details/cached_tokens",
                "/prompt_cache_hit_tokens",
                "/cache_read_input_tokens",
                "/num_cached_tokens",
            ],
        );
        renewed(
            &mut self.cache_write,
            &["/prompt_tokens_details/cache_write_tokens", "/cache_creation_input_tokens"],
        );
    }

    /// Takes in llama.cpp's `timings`, whose tokens of the prompt leave out the cached ones.
    fn time(&mut self, timings: Option<&Value>) {
        let of = |name: &str| count(timings?.get(name));
        self.cache_read = of("cache_n").or(self.cache_read);
        let cached = self.cache_read.unwrap_or(0);
        self.input = of("prompt_n").map(|read| read.saturating_add(cached)).or(self.input);
        self.output = of("predicted_n").or(self.output);
    }

    /// These counts, or the others where these are missing.
    fn or(&self, other: &Self) -> Self {
        Self {
            input: self.input.or(other.input),
            output: self.output.or(other.output),
            total: self.total.or(other.total),
            cache_read: self.cache_read.or(other.cache_read),
            cache_write: self.cache_write.or(other.cache_write),
        }
    }

    /// The counts as they are, of a call that may not end well.
    const fn so_far(&self) -> Counts {
        let Self { input, output, cache_read, cache_write, total: _ } = *self;
        Counts { input, output, cache_read, cache_write }
    }

    /// The tokens of the answer. A count that is missing, or is nothing for a text, is estimated.
    fn tokens(&self, request: &Request, finished: &Finished, counted: u64) -> Tokens {
        let some = |count: Option<u64>| count.filter(|count| *count > 0);
        let thinking = finished.thinking.as_deref().unwrap_or_default();
        let estimated = estimate_tokens(&finished.text).saturating_add(estimate_tokens(thinking));
        let said = some(self.output).unwrap_or_else(|| estimated.max(counted));
        // Some servers leave hidden reasoning out of the output, and count it in the total.
        let beyond = self.total.zip(self.input).map(|(total, input)| total.saturating_sub(input));
        Tokens {
            input: some(self.input).unwrap_or_else(|| request.estimated_tokens()),
            output: said.max(beyond.unwrap_or(0)),
            cache_read: self.cache_read.unwrap_or(0),
            cache_write: self.cache_write.unwrap_or(0),
        }
    }
}

/// The reason in the words of `OpenAI`, where a server has another for it.
fn finish_reason(said: &str) -> String {
    let lower = said.to_lowercase();
    match lower.as_str() {
        "eos" | "eos_token" | "end_turn" | "stop_sequence" | "stop" => "stop".to_owned(),
        "length" | "max_tokens" | "model_length" | "max_output_tokens" => "length".to_owned(),
        "content_filter" | "safety" | "prohibited_content" | "blocklist" => {
            "content_filter".to_owned()
        }
        _ if BROKEN.contains(&lower.as_str()) => lower,
        _ => said.to_owned(),
    }
}

/// The service tier that an answer names; `default` and `scale` are the usual one.
fn given(name: &str) -> ServiceTier {
    ServiceTier::parse(name).unwrap_or(ServiceTier::Auto)
}

/// True if the chunk is an error, or its choice holds one.
pub(super) fn is_error(chunk: &Value) -> bool {
    let of_choice = chunk.pointer("/choices/0/error").is_some_and(Value::is_object);
    of_choice || crate::provider::failure::is_error("", chunk)
}
