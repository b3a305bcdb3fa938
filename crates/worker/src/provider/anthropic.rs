//! Anthropic's messages API, streamed.
//!
//! The API gives no log-probabilities, so there is no confidence. Stop reasons are reported in the
//! words of the rest of the field (`stop`, `length`). A long system prompt that comes again is
//! marked for the provider's cache (`caching`). Thinking is not asked for, and kept apart where a server
//! sends it. Deliberately absent: tools other than the one that shapes an answer.

mod answer;
mod caching;

use std::env;
use std::sync::Arc;

use callboard_domain::task::ServiceTier;
use callboard_domain::usage::Prices;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use answer::Answer;
use caching::Prompts;

use super::failure::is_error;
use super::http::{ConfigError, Endpoint, Key, Refusal, base_url, headers};
use super::parts::{self, Form};
use super::quirks::{Member, Memory, Quirks, Shape};
use super::schema::{Dialect, inlined, instruction, is_any_object, reduced};
use super::{Completion, Deltas, Failure, Provider, Request, lenient};

/// The address of Anthropic itself.
pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// The longest output, in tokens, of a model that the price table doesn't know.
const DEFAULT_MAX_TOKENS: u64 = 4096;

/// The name of the tool whose input is the answer.
const TOOL: &str = "answer";

const VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// A client of one server.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    memory: Memory,
    prices: Arc<Prices>,
    prompts: Prompts,
}

impl Anthropic {
    /// A client of the server under `base`, with or without its `/v1`. The API needs a greatest
    /// output with every call; where a request has none, `prices` gives the model's.
    ///
    /// # Errors
    /// The URL can't be used or the key can't be sent.
    pub fn new(base: &str, key: Option<String>, prices: Arc<Prices>) -> Result<Self, ConfigError> {
        let key = Key::new(key);
        let mut sent: HeaderMap = headers([("anthropic-version", VERSION)]);
        if let Some(key) = &key {
            sent.extend(headers([("x-api-key", key.header("")?)]));
        }
        let base = base_url(base)?;
        let path = if base.path().ends_with("/v1") { "/messages" } else { "/v1/messages" };
        let endpoint = Endpoint::new("anthropic", &base, path, key, sent)?;
        Ok(Self { endpoint, memory: Memory::default(), prices, prompts: Prompts::default() })
    }

    /// A client with the key from `ANTHROPIC_API_KEY`, if the variable is set.
    ///
    /// # Errors
    /// Those of [`Anthropic::new`].
    pub fn from_env(base: Option<&str>, prices: Arc<Prices>) -> Result<Self, ConfigError> {
        let key = env::var("ANTHROPIC_API_KEY").ok();
        Self::new(base.unwrap_or(DEFAULT_BASE_URL), key, prices)
    }

    /// Makes the call, and repeats it without a member that the model refuses: a refusal has generated
    /// nothing.
    async fn call(&self, request: &Request, deltas: &Deltas) -> Result<Completion, Failure> {
        let is_cached = self.prompts.comes_again(&request.model, &request.system_messages());
        // The API has one dialect, to which the whole schema is reduced.
        let asking = self.memory.asking(request, Shape::Reduced);
        let body = |quirks, shape| self.body(request, quirks, shape, is_cached);
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
        while !answer.has_ended
            && let Some(event) = events.next().await?
        {
            let values = lenient::values(&event.data).ok_or_else(|| {
                Failure::broken("the provider sent an event that is not a JSON object")
            })?;
            if event.name == "error" || values.iter().any(|json| is_error("", &json.value)) {
                let refusal = self.endpoint.error_event(&event.data, &events);
                // Once a text has come, the call has cost something and is not made again.
                let said = refusal.answer.filter(|_| answer.output.is_empty());
                return Err(Refusal { answer: said, ..refusal });
            }
            for json in values {
                answer.take(json, deltas).await?;
            }
            answer.has_ended |= lenient::is_done(&event.data);
        }
        if !answer.has_ended && !answer.output.is_empty() {
            return Err(Failure::broken("the provider's stream ended before the output did").into());
        }
        let limits = events.limits();
        let unanswered = || self.endpoint.unanswered(&events);
        Ok(answer.complete(request, limits, deltas, unanswered).await?)
    }

    fn body(&self, request: &Request, quirks: Quirks, form: Shape, is_cached: bool) -> Value {
        let known = self.prices.get(&request.model).and_then(|price| price.max_output_tokens);
        let mut body = json!({
            "model": request.model,
            "max_tokens": request.max_tokens.or(known).unwrap_or(DEFAULT_MAX_TOKENS),
            "messages": request.turns(Form::Anthropic).collect::<Vec<_>>(),
        });
        if quirks.sends(Member::Stream) {
            body["stream"] = json!(true);
        }
        let asked = request
            .output_schema
            .as_ref()
            .and_then(|schema| shape(schema, form, &mut body).then(|| instruction(schema)));
        let system = request.system_messages().into_iter().chain(asked);
        let system = system.map(|text| json!({"type": "text", "text": text}));
        let mut system: Vec<Value> = system.collect();
        if let (Some(last), true) = (system.last_mut(), is_cached) {
            last["cache_control"] = json!({"type": "ephemeral"});
        }
        if !system.is_empty() {
            body["system"] = Value::Array(system);
        }
        if let (Some(temperature), true) = (request.temperature, quirks.sends(Member::Temperature))
        {
            body["temperature"] = json!(temperature);
        }
        // The API has no seed.
        if let (Some(share), true) = (request.sampling.top_p, quirks.sends(Member::TopP)) {
            body["top_p"] = json!(share);
        }
        if !request.sampling.stop.is_empty() {
            body["stop_sequences"] = json!(request.sampling.stop);
        }
        // The API has no cheaper tier, and `auto` is the one that priority comes with.
        let wants_auto =
            matches!(request.service_tier, Some(ServiceTier::Auto | ServiceTier::Priority));
        if wants_auto && quirks.sends(Member::ServiceTier) {
            body["service_tier"] = json!("auto");
        }
        body
    }
}

impl Provider for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
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

/// Asks for the schema in `body`; true if a system message has to ask instead.
///
/// `output_config.format` takes closed objects alone. Where it cannot be used, a tool whose input is
/// the answer is forced; the input of a tool is an object.
fn shape(schema: &Value, shape: Shape, body: &mut Value) -> bool {
    let native = reduced(&inlined(schema), Dialect::Anthropic);
    if shape <= Shape::Reduced && native.is_strict {
        let format = json!({"type": "json_schema", "schema": native.schema});
        body["output_config"] = json!({"format": format});
    } else if shape <= Shape::Loose
        && schema.get("type") == Some(&json!("object"))
        && !is_any_object(schema)
    {
        let says = "Gives the answer.";
        body["tools"] = json!([{"name": TOOL, "description": says, "input_schema": schema}]);
        body["tool_choice"] = json!({"type": "tool", "name": TOOL});
    } else {
        return true;
    }
    false
}

#[cfg(test)]
mod tests;
