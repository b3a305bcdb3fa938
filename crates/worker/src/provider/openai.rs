//! The chat completions API: `OpenAI`, and every server that speaks it (vLLM, Ollama,
//! llama.cpp, Mistral and others).
//!
//! Confidence is exp(mean token log-probability) of the output's own tokens; hidden reasoning
//! doesn't count. Deliberately absent: the responses API, which compatible servers lack, and
//! `top_logprobs`, which nothing here reads.

mod answer;

use std::env;
use std::sync::Arc;

use callboard_domain::task::Sampling;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use answer::Answer;

use super::http::{ConfigError, Endpoint, Key, Refusal, base_url, headers};
use super::parts::{self, Form};
use super::quirks::{Member, Memory, Quirks, Shape};
use super::schema::{Dialect, Reduced, inlined, instruction, is_any_object, reduced};
use super::{Completion, Deltas, Failure, Provider, Request, lenient};

/// The address of `OpenAI` itself.
pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// A client of one server.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    memory: Memory,
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
        Ok(Self { endpoint, memory: Memory::default(), is_strict })
    }

    /// A client with the key from `OPENAI_API_KEY`, if the variable is set.
    ///
    /// # Errors
    /// Those of [`OpenAi::new`].
    pub fn from_env(base: Option<&str>) -> Result<Self, ConfigError> {
        Self::new(base.unwrap_or(DEFAULT_BASE_URL), env::var("OPENAI_API_KEY").ok())
    }

    /// Makes the call, and repeats it without a member that the model refuses: a refusal has generated
    /// nothing.
    async fn call(&self, request: &Request, deltas: &Deltas) -> Result<Completion, Failure> {
        let least = match &request.output_schema {
            Some(schema) if self.is_strict && is_any_object(schema) => Shape::Loose,
            _ if self.is_strict => Shape::Reduced,
            _ => Shape::default(),
        };
        let asking = self.memory.asking(request, least);
        let body = |quirks, shape| body(request, quirks, shape);
        let attempt = |body: Arc<Value>, is_open| async move {
            self.attempt(&body, (request, is_open), deltas).await
        };
        asking.made(body, attempt).await
    }

    /// Makes the call once. The completion comes with true if the model's prompt opened its thinking.
    async fn attempt(
        &self,
        body: &Value,
        (request, opens_thinking): (&Request, bool),
        deltas: &Deltas,
    ) -> Result<(Completion, bool), Refusal> {
        let mut events = self.endpoint.post(body).await?;
        let mut answer = Answer::new(opens_thinking);
        let mut is_done = false;
        while !is_done && let Some(event) = events.next().await? {
            is_done = lenient::is_done(&event.data);
            let values = lenient::values(&event.data).ok_or_else(|| {
                Failure::broken("the provider sent an event that is not a JSON object")
            })?;
            if event.name == "error" || values.iter().any(|json| answer::is_error(&json.value)) {
                let refusal = self.endpoint.error_event(&event.data, &events);
                // Once a text has come, the call has cost something and is not made again.
                let answer = refusal.answer.filter(|_| answer.is_empty());
                return Err(Refusal { answer, ..refusal });
            }
            for json in values {
                answer.take(json, deltas).await?;
            }
        }
        if !is_done && !answer.is_finished() {
            return Err(if answer.is_empty() {
                self.endpoint.unanswered(&events).into()
            } else {
                Failure::broken("the provider's stream ended before the output did").into()
            });
        }
        let limits = events.limits();
        let unanswered = || self.endpoint.unanswered(&events);
        Ok(answer.complete(request, limits, deltas, unanswered).await?)
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
        parts::answered(request, self.call(request, deltas)).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Option<Vec<String>>, Failure>> {
        self.endpoint.models().boxed()
    }
}

fn body(request: &Request, quirks: Quirks, shape: Shape) -> Value {
    let system = request
        .system_messages()
        .into_iter()
        .map(|text| json!({"role": "system", "content": text}));
    let format = request.output_schema.as_ref().and_then(|schema| format(schema, shape));
    let asked = request.output_schema.as_ref().filter(|_| shape >= Shape::Loose);
    let asked = asked.map(|schema| json!({"role": "system", "content": instruction(schema)}));
    let messages: Vec<Value> = system.chain(asked).chain(request.turns(Form::OpenAi)).collect();
    let mut body = json!({
        "model": request.model,
        "messages": messages,
    });
    if quirks.sends(Member::Stream) {
        body["stream"] = json!(true);
        if quirks.sends(Member::StreamOptions) {
            body["stream_options"] = json!({"include_usage": true});
        }
    }
    if quirks.sends(Member::Logprobs) && !request.without_logprobs {
        body["logprobs"] = json!(true);
    }
    if let (Some(temperature), true) = (request.temperature, quirks.sends(Member::Temperature)) {
        body["temperature"] = json!(temperature);
    }
    let Sampling { seed, top_p, stop, frequency_penalty } = &request.sampling;
    if let (Some(seed), true) = (seed, quirks.sends(Member::Seed)) {
        body["seed"] = json!(seed);
    }
    if let (Some(share), true) = (top_p, quirks.sends(Member::TopP)) {
        body["top_p"] = json!(share);
    }
    if let (Some(penalty), true) = (frequency_penalty, quirks.sends(Member::FrequencyPenalty)) {
        body["frequency_penalty"] = json!(penalty);
    }
    if !stop.is_empty() {
        body["stop"] = json!(stop);
    }
    if let Some(max_tokens) = request.max_tokens {
        let name = if quirks.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
        body[name] = json!(max_tokens);
    }
    if let (Some(tier), true) = (request.service_tier, quirks.sends(Member::ServiceTier)) {
        body["service_tier"] = json!(tier);
    }
    if let Some(format) = format {
        body["response_format"] = format;
    }
    body
}

/// `response_format`: `OpenAI`'s, which Gemini's compatible address, vLLM, Ollama and llama.cpp take
/// as well. A schema that `OpenAI` cannot enforce is sent as a hint, not strict. Several of them refuse a
/// reference beside other keywords.
fn format(schema: &Value, shape: Shape) -> Option<Value> {
    let named = |json_schema: Value| json!({"type": "json_schema", "json_schema": json_schema});
    match shape {
        Shape::Whole => Some(named(json!({"name": "answer", "schema": inlined(schema)}))),
        Shape::Reduced => {
            let Reduced { schema, is_strict } = reduced(&inlined(schema), Dialect::OpenAi);
            Some(named(json!({"name": "answer", "schema": schema, "strict": is_strict})))
        }
        Shape::Loose => Some(json!({"type": "json_object"})),
        Shape::Prompted => None,
    }
}

#[cfg(test)]
mod tests;
