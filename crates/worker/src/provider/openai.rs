//! The chat completions API: `OpenAI`, and every server that speaks it (vLLM, Ollama,
//! llama.cpp, Mistral and others).
//!
//! Confidence is exp(mean token log-probability) of the output's own tokens; hidden reasoning
//! doesn't count. Deliberately absent: the responses API, which compatible servers lack, and
//! `top_logprobs`, which nothing here reads.

use std::env;

use callboard_domain::confidence::{MeanLogprob, Source};
use callboard_domain::model_limits::Reported;
use callboard_domain::task::ServiceTier;
use callboard_domain::usage::{Tokens, estimate_tokens};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::http::{ConfigError, Endpoint, Events, Key, base_url, headers};
use super::quirks::{Memory, Quirks, Shape};
use super::schema::{Dialect, Reduced, instruction, reduced};
use super::{Completion, Deltas, Failure, OPENING, Output, Provider, Request};

/// The address of `OpenAI` itself.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// A client of one server.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    quirks: Memory,
    /// True for `OpenAI` itself, which takes schemas in its strict dialect alone.
    pub(super) is_strict: bool,
}

impl OpenAi {
    /// A client of the server whose API stands under `base`, such as
    /// `http://127.0.0.1:8080/v1`. Local servers need no key.
    ///
    /// # Errors
    /// The URL can't be used or the key can't be sent.
    pub fn new(base: &str, key: Option<String>) -> Result<Self, ConfigError> {
        let key = Key::new(key);
        let headers = match &key {
            Some(key) => headers([("authorization", key.header("Bearer ")?)]),
            None => headers([]),
        };
        let base = base_url(base)?;
        let host = base.host_str().unwrap_or_default();
        let is_strict = host == "api.openai.com" || host.ends_with(".openai.azure.com");
        let endpoint = Endpoint::new("openai", &base, "/chat/completions", key, headers)?;
        Ok(Self { endpoint, quirks: Memory::default(), is_strict })
    }

    /// A client with the key from `OPENAI_API_KEY`, if the variable is set.
    ///
    /// # Errors
    /// Those of [`OpenAi::new`].
    pub fn from_env(base: Option<&str>) -> Result<Self, ConfigError> {
        Self::new(base.unwrap_or(DEFAULT_BASE_URL), env::var("OPENAI_API_KEY").ok())
    }

    async fn call(&self, request: &Request, deltas: &Deltas) -> Result<Completion, Failure> {
        let mut events = self.ask(request).await?;
        let mut answer = Answer { limits: events.limits, ..Answer::default() };
        while let Some(event) = events.next().await? {
            if event.data == "[DONE]" {
                return Ok(answer.complete(request));
            }
            let chunk: Chunk = serde_json::from_str(&event.data).map_err(|_| {
                Failure::broken("the provider sent an event that is no JSON object")
            })?;
            if event.name == "error" || chunk.error.as_ref().is_some_and(|error| !error.is_null()) {
                return Err(self.endpoint.error_event(&event.data));
            }
            let piece = answer.take(chunk);
            answer.output.push(piece, deltas).await?;
        }
        if answer.finish_reason.is_some() {
            return Ok(answer.complete(request));
        }
        Err(Failure::broken("the provider's stream ended before the output did"))
    }

    /// Sends the request, and repeats it without a parameter that the model refuses: a refusal has
    /// generated nothing.
    async fn ask(&self, request: &Request) -> Result<Events, Failure> {
        let mut quirks = self.quirks.of(&request.model);
        if self.is_strict {
            quirks.shape = quirks.shape.max(Shape::Reduced);
        }
        loop {
            match self.endpoint.post(&body(request, quirks)).await {
                Ok(events) => {
                    self.quirks.keep(&request.model, quirks);
                    return Ok(events);
                }
                Err(refusal) => {
                    let learned = refusal.answer.and_then(|(status, words)| {
                        let reshaped = || quirks.reshaped(status, &words);
                        let shaped = || request.output_schema.as_ref().and_then(|_| reshaped());
                        quirks.learn(status, &words).or_else(shaped)
                    });
                    quirks = learned.ok_or(refusal.failure)?;
                    tracing::debug!(
                        model = request.model,
                        ?quirks,
                        "asking again without what the model refuses"
                    );
                }
            }
        }
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a Deltas,
    ) -> BoxFuture<'a, Result<Completion, Failure>> {
        self.call(request, deltas).boxed()
    }
}

fn body(request: &Request, quirks: Quirks) -> Value {
    let system = request
        .system_messages()
        .into_iter()
        .map(|text| json!({"role": "system", "content": text}));
    let format = request.output_schema.as_ref().and_then(|schema| format(schema, quirks.shape));
    let asked = request.output_schema.as_ref().filter(|_| quirks.shape >= Shape::Loose);
    let asked = asked.map(|schema| json!({"role": "system", "content": instruction(schema)}));
    let messages: Vec<Value> = system.chain(asked).chain(request.turns()).collect();
    let mut body = json!({
        "model": request.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if !quirks.without_logprobs && !request.without_logprobs {
        body["logprobs"] = json!(true);
    }
    if let (Some(temperature), false) = (request.temperature, quirks.without_temperature) {
        body["temperature"] = json!(temperature);
    }
    if let Some(max_tokens) = request.max_tokens {
        let name = if quirks.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body[name] = json!(max_tokens);
    }
    if let (Some(tier), false) = (request.service_tier, quirks.without_service_tier) {
        body["service_tier"] = json!(tier);
    }
    if let Some(format) = format {
        body["response_format"] = format;
    }
    body
}

/// `response_format`: `OpenAI`'s, which Gemini's compatible address, vLLM, Ollama and llama.cpp take
/// as well. A schema that `OpenAI` cannot enforce is sent as a hint, not strict.
fn format(schema: &Value, shape: Shape) -> Option<Value> {
    let named = |json_schema: Value| json!({"type": "json_schema", "json_schema": json_schema});
    match shape {
        Shape::Whole => Some(named(json!({"name": "answer", "schema": schema}))),
        Shape::Reduced => {
            let Reduced { schema, is_strict } = reduced(schema, Dialect::OpenAi);
            Some(named(json!({"name": "answer", "schema": schema, "strict": is_strict})))
        }
        Shape::Loose => Some(json!({"type": "json_object"})),
        Shape::Prompted => None,
    }
}

/// The answer so far.
#[derive(Default)]
struct Answer {
    output: Output,
    logprobs: MeanLogprob,
    opening: Vec<(String, f64)>,
    finish_reason: Option<String>,
    usage: Option<ChunkUsage>,
    service_tier: Option<ServiceTier>,
    limits: Reported,
}

impl Answer {
    /// Takes a chunk in, and returns the text that it adds.
    fn take(&mut self, chunk: Chunk) -> String {
        self.usage = chunk.usage.or(self.usage.take());
        self.service_tier = chunk.service_tier.as_deref().map(given).or(self.service_tier);
        // The request asks for one completion; some servers number their choices oddly.
        let Some(choice) = chunk.choices.into_iter().flatten().next() else {
            return String::new();
        };
        self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        let delta = choice.delta.unwrap_or_default();
        let text = delta.content.filter(|text| !text.is_empty());
        let hidden = text.is_none()
            && (is_text(delta.reasoning.as_ref()) || is_text(delta.reasoning_content.as_ref()));
        if !hidden {
            let tokens = choice.logprobs.and_then(|logprobs| logprobs.content).unwrap_or_default();
            for TokenLogprob { token, logprob } in tokens {
                // A token without a figure spoils the mean: NaN marks it.
                let logprob = logprob.unwrap_or(f64::NAN);
                self.logprobs.push(logprob);
                if self.opening.len() < OPENING {
                    self.opening.push((token.unwrap_or_default(), logprob));
                }
            }
        }
        // A refusal is the model's answer too, in a member of its own.
        text.or(delta.refusal).unwrap_or_default()
    }

    fn complete(self, request: &Request) -> Completion {
        let cut = matches!(self.finish_reason.as_deref(), Some("length" | "content_filter"));
        let confidence = self.logprobs.confidence().filter(|_| !cut);
        let usage = match self.usage {
            Some(usage) => Tokens {
                input: usage.prompt_tokens,
                output: usage.completion_tokens,
                cache_read: usage
                    .prompt_tokens_details
                    .and_then(|details| details.cached_tokens)
                    .unwrap_or(0),
                cache_write: 0,
            },
            None => Tokens {
                input: request.estimated_tokens(),
                output: estimate_tokens(&self.output.text).max(self.logprobs.tokens()),
                ..Tokens::default()
            },
        };
        Completion {
            output: self.output.text,
            usage,
            confidence,
            confidence_source: confidence.map_or(Source::None, |_| Source::Logprobs),
            finish_reason: self.finish_reason,
            service_tier: self.service_tier,
            limits: self.limits,
            opening: self.opening,
        }
    }
}

/// The service tier that an answer names; `default` and `scale` are the usual one.
fn given(name: &str) -> ServiceTier {
    ServiceTier::parse(name).unwrap_or(ServiceTier::Auto)
}

fn is_text(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_some_and(|text| !text.is_empty())
}

#[derive(Deserialize)]
struct Chunk {
    choices: Option<Vec<Choice>>,
    usage: Option<ChunkUsage>,
    service_tier: Option<String>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Delta>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
}

#[derive(Deserialize, Default)]
struct Delta {
    content: Option<String>,
    refusal: Option<String>,
    reasoning: Option<Value>,
    reasoning_content: Option<Value>,
}

#[derive(Deserialize)]
struct Logprobs {
    content: Option<Vec<TokenLogprob>>,
}

#[derive(Deserialize)]
struct TokenLogprob {
    token: Option<String>,
    logprob: Option<f64>,
}

#[derive(Deserialize)]
struct ChunkUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[cfg(test)]
mod tests;
