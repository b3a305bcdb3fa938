//! Anthropic's messages API, streamed.
//!
//! The API gives no log-probabilities, so there is no confidence. Stop reasons are reported in the
//! words of the rest of the field (`stop`, `length`). A long system prompt that comes again is
//! marked for the provider's cache (`caching`). Deliberately absent: extended thinking, and tools
//! other than the one that shapes an answer.

mod caching;

use std::env;
use std::sync::Arc;

use callboard_domain::confidence::Source;
use callboard_domain::model_limits::Reported;
use callboard_domain::task::ServiceTier;
use callboard_domain::usage::{Prices, Tokens};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::header::{HeaderMap, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use caching::Prompts;

use super::http::{ConfigError, Endpoint, Events, Key, base_url, headers};
use super::quirks::{Memory, Quirks, Shape};
use super::schema::{Dialect, instruction, reduced};
use super::{Completion, Deltas, Failure, Output, Provider, Request};

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
    quirks: Memory,
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
        Ok(Self { endpoint, quirks: Memory::default(), prices, prompts: Prompts::default() })
    }

    /// A client with the key from `ANTHROPIC_API_KEY`, if the variable is set.
    ///
    /// # Errors
    /// Those of [`Anthropic::new`].
    pub fn from_env(base: Option<&str>, prices: Arc<Prices>) -> Result<Self, ConfigError> {
        let key = env::var("ANTHROPIC_API_KEY").ok();
        Self::new(base.unwrap_or(DEFAULT_BASE_URL), key, prices)
    }

    async fn call(&self, request: &Request, deltas: &Deltas) -> Result<Completion, Failure> {
        let mut events = self.ask(request).await?;
        let mut output = Output::default();
        let mut usage = Usage::default();
        let mut stop_reason = None;
        let limits = events.limits;
        while let Some(event) = events.next().await? {
            if event.name == "error" {
                return Err(self.endpoint.error_event(&event.data));
            }
            let message: Message = serde_json::from_str(&event.data).map_err(|_| {
                Failure::broken("the provider sent an event that is no JSON object")
            })?;
            match message {
                Message::Start { message } => usage.merge(&message.usage),
                Message::BlockDelta { delta } => {
                    let text = delta.text.or(delta.partial_json);
                    output.push(text.unwrap_or_default(), deltas).await?;
                }
                Message::Delta { delta, usage: counted } => {
                    stop_reason = delta.stop_reason.or(stop_reason);
                    usage.merge(&counted.unwrap_or_default());
                }
                Message::Stop => return Ok(completion(output, &usage, stop_reason, limits)),
                Message::Error => return Err(self.endpoint.error_event(&event.data)),
                Message::Other => {}
            }
        }
        Err(Failure::broken("the provider's stream ended before the output did"))
    }

    /// Sends the request, and repeats it without a parameter that the model refuses: a refusal has
    /// generated nothing.
    async fn ask(&self, request: &Request) -> Result<Events, Failure> {
        let mut quirks = self.quirks.of(&request.model);
        let is_cached = self.prompts.comes_again(&request.model, &request.system_messages());
        // The API has one dialect, to which the whole schema is reduced.
        quirks.shape = quirks.shape.max(Shape::Reduced);
        loop {
            match self.endpoint.post(&self.body(request, quirks, is_cached)).await {
                Ok(events) => {
                    self.quirks.keep(&request.model, quirks);
                    return Ok(events);
                }
                Err(refusal) => {
                    let learned = refusal.answer.and_then(|(status, words)| {
                        let known = |learned: &Quirks| {
                            learned.without_temperature != quirks.without_temperature
                                || learned.without_service_tier != quirks.without_service_tier
                        };
                        let reshaped = || quirks.reshaped(status, &words);
                        let shaped = || request.output_schema.as_ref().and_then(|_| reshaped());
                        quirks.learn(status, &words).filter(known).or_else(shaped)
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

    fn body(&self, request: &Request, quirks: Quirks, is_cached: bool) -> Value {
        let known = self.prices.get(&request.model).and_then(|price| price.max_output_tokens);
        let mut body = json!({
            "model": request.model,
            "max_tokens": request.max_tokens.or(known).unwrap_or(DEFAULT_MAX_TOKENS),
            "messages": request.turns().collect::<Vec<_>>(),
            "stream": true,
        });
        let asked = request
            .output_schema
            .as_ref()
            .and_then(|schema| shape(schema, quirks.shape, &mut body).then(|| instruction(schema)));
        let system = request.system_messages().into_iter().chain(asked);
        let system = system.map(|text| json!({"type": "text", "text": text}));
        let mut system: Vec<Value> = system.collect();
        if let (Some(last), true) = (system.last_mut(), is_cached) {
            last["cache_control"] = json!({"type": "ephemeral"});
        }
        if !system.is_empty() {
            body["system"] = Value::Array(system);
        }
        if let (Some(temperature), false) = (request.temperature, quirks.without_temperature) {
            body["temperature"] = json!(temperature);
        }
        // The API has no cheaper tier, and `auto` is the one that priority comes with.
        let wants_auto =
            matches!(request.service_tier, Some(ServiceTier::Auto | ServiceTier::Priority));
        if wants_auto && !quirks.without_service_tier {
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
        self.call(request, deltas).boxed()
    }
}

/// Asks for the schema in `body`; true if a system message has to ask instead.
///
/// `output_config.format` takes closed objects alone. Where it cannot be used, a tool whose input is
/// the answer is forced; the input of a tool is an object.
fn shape(schema: &Value, shape: Shape, body: &mut Value) -> bool {
    let native = reduced(schema, Dialect::Anthropic);
    if shape <= Shape::Reduced && native.is_strict {
        let format = json!({"type": "json_schema", "schema": native.schema});
        body["output_config"] = json!({"format": format});
    } else if shape <= Shape::Loose && schema.get("type") == Some(&json!("object")) {
        let says = "Gives the answer.";
        body["tools"] = json!([{"name": TOOL, "description": says, "input_schema": schema}]);
        body["tool_choice"] = json!({"type": "tool", "name": TOOL});
    } else {
        return true;
    }
    false
}

fn completion(
    output: Output,
    usage: &Usage,
    stop_reason: Option<String>,
    limits: Reported,
) -> Completion {
    let finish_reason = stop_reason.map(|reason| match reason.as_str() {
        // The one tool is the answer.
        "end_turn" | "stop_sequence" | "tool_use" => "stop".to_owned(),
        "max_tokens" | "model_context_window_exceeded" => "length".to_owned(),
        _ => reason,
    });
    Completion {
        output: output.text,
        usage: usage.tokens(),
        confidence: None,
        confidence_source: Source::None,
        finish_reason,
        service_tier: usage.service_tier.as_deref().map(given),
        limits,
        opening: Vec::new(),
    }
}

/// The service tier that an answer names; `standard` is the usual one.
fn given(name: &str) -> ServiceTier {
    ServiceTier::parse(name).unwrap_or(ServiceTier::Auto)
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Message {
    #[serde(rename = "message_start")]
    Start { message: Started },
    #[serde(rename = "content_block_delta")]
    BlockDelta { delta: BlockDelta },
    #[serde(rename = "message_delta")]
    Delta { delta: MessageDelta, usage: Option<Usage> },
    #[serde(rename = "message_stop")]
    Stop,
    #[serde(rename = "error")]
    Error,
    /// A ping, the bounds of a block, or a kind that came later.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Started {
    #[serde(default)]
    usage: Usage,
}

/// Text, or the input of the one tool; thinking has other members.
#[derive(Deserialize)]
struct BlockDelta {
    text: Option<String>,
    partial_json: Option<String>,
}

#[derive(Deserialize)]
struct MessageDelta {
    stop_reason: Option<String>,
}

/// The counts so far: later ones replace earlier ones. `input_tokens` leaves out the cached tokens.
#[derive(Deserialize, Default)]
struct Usage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    service_tier: Option<String>,
}

impl Usage {
    fn merge(&mut self, later: &Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.cache_read_input_tokens =
            later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.service_tier = later.service_tier.clone().or(self.service_tier.take());
    }

    fn tokens(&self) -> Tokens {
        let cache_read = self.cache_read_input_tokens.unwrap_or(0);
        let cache_write = self.cache_creation_input_tokens.unwrap_or(0);
        Tokens {
            input: self
                .input_tokens
                .unwrap_or(0)
                .saturating_add(cache_read)
                .saturating_add(cache_write),
            output: self.output_tokens.unwrap_or(0),
            cache_read,
            cache_write,
        }
    }
}

#[cfg(test)]
mod tests;
