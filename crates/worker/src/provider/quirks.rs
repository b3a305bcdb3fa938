//! Optional members of requests that single models refuse, learned from the refusal and remembered.
//!
//! Reasoning models take no `logprobs`, `temperature` or `top_p` and want `max_completion_tokens`; some servers know
//! no `stream_options` or `service_tier`, or stream only for some accounts. A provider names one such
//! member per refusal, before it generates anything, so each is given up at most once per call; the call
//! that costs money is still one. A refused schema says nothing about other schemas, so the form that
//! worked is kept for the model and the schema.
//! Deliberately absent: a list of model names, which would be out of date.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::failure::{Failure, Words};
use super::http::Refusal;
use super::{Completion, Request};

/// The most models, and the most schemas of models, that are remembered; without room, all are forgotten.
const REMEMBERED: usize = 10_000;

/// A member that a request can do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Member {
    Logprobs,
    ServiceTier,
    StreamOptions,
    Stream,
    Temperature,
    TopP,
    Seed,
    FrequencyPenalty,
}

/// The members that are left out or sent differently for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Quirks {
    left_out: [bool; 8],
    /// `max_completion_tokens` is sent for `max_tokens`.
    pub(super) completion_tokens: bool,
    /// True for a model whose prompt opens the thinking, so that the output closes it alone.
    pub(super) opens_thinking: bool,
}

/// The ways to ask for an output schema; a provider that refuses one is asked in the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Shape {
    /// The whole schema, for the provider to enforce.
    #[default]
    Whole,
    /// The schema in the provider's strict dialect.
    Reduced,
    /// JSON of any kind, or a forced tool, with the schema beside it.
    Loose,
    /// The schema in a system message alone.
    Prompted,
}

impl Shape {
    const fn next(self) -> Option<Self> {
        match self {
            Self::Whole => Some(Self::Reduced),
            Self::Reduced => Some(Self::Loose),
            Self::Loose => Some(Self::Prompted),
            Self::Prompted => None,
        }
    }

    /// The next form of an output schema, if a refusal is about the form that was sent.
    fn after(self, status: u16, words: &Words) -> Option<Self> {
        const SIGNS: [&str; 9] = [
            "response_format",
            "response format",
            "json_schema",
            "json schema",
            "schema",
            "output_config",
            "tool_choice",
            "tools",
            "grammar",
        ];
        let message = words.message.to_lowercase();
        let param = words.param.as_deref().unwrap_or_default();
        let is_about_it =
            SIGNS.iter().any(|sign| param.starts_with(sign) || message.contains(sign));
        if !matches!(status, 400 | 404 | 422 | 500 | 501) || !is_about_it {
            return None;
        }
        self.next()
    }
}

impl Member {
    /// The members in the order in which they are given up: those that change no answer come first.
    const ALL: [Self; 8] = [
        Self::Logprobs,
        Self::ServiceTier,
        Self::StreamOptions,
        Self::Stream,
        Self::TopP,
        Self::Temperature,
        Self::Seed,
        Self::FrequencyPenalty,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Logprobs => "logprobs",
            Self::ServiceTier => "service_tier",
            Self::StreamOptions => "stream_options",
            Self::Stream => "stream",
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::Seed => "seed",
            Self::FrequencyPenalty => "frequency_penalty",
        }
    }

    /// True if a refusal in these words is about the member.
    fn is_refused(self, words: &Words, message: &str) -> bool {
        let name = self.name();
        let is_param = words.param.as_deref() == Some(name);
        let squeezed = |text: &str| text.replace(['_', ' ', '-'], "");
        match self {
            // Nothing but the member itself can be wrong about it.
            Self::Logprobs | Self::ServiceTier | Self::StreamOptions => {
                is_param || squeezed(message).contains(&squeezed(name))
            }
            Self::Stream => {
                let message = message.replace("stream_options", "");
                let mut parts = message.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                let is_named = parts.any(|word| matches!(word, "stream" | "streaming"));
                (is_param || is_named) && unsupported(words, &message)
            }
            // Some models take a temperature or a share, not both.
            Self::TopP if message.contains(name) && message.contains("cannot both") => true,
            Self::Temperature | Self::TopP | Self::Seed | Self::FrequencyPenalty => {
                (is_param || message.contains(name)) && unsupported(words, message)
            }
        }
    }
}

impl Quirks {
    /// True if the member is sent.
    pub(super) const fn sends(self, member: Member) -> bool {
        !self.left_out[member as usize]
    }

    /// The known quirks with the one that the refusal of a request shows. `None`: the refusal has another
    /// reason.
    fn after(self, status: u16, words: &Words, sent: &Value) -> Option<Self> {
        if !matches!(status, 400 | 403 | 404 | 422 | 501) {
            return None;
        }
        let message = words.message.to_lowercase();
        let is_sent = |name: &str| sent.get(name).is_some_and(|value| *value != false);
        let names_limit =
            message.contains("max_tokens") || words.param.as_deref() == Some("max_tokens");
        let other_limit = message.contains("max_completion_tokens") || unsupported(words, &message);
        if is_sent("max_tokens") && !self.completion_tokens && names_limit && other_limit {
            return Some(Self { completion_tokens: true, ..self });
        }
        let refused = |member: &Member| {
            self.sends(*member) && is_sent(member.name()) && member.is_refused(words, &message)
        };
        let member = Member::ALL.into_iter().find(refused)?;
        let mut left_out = self.left_out;
        left_out[member as usize] = true;
        Some(Self { left_out, ..self })
    }
}

/// True if the refusal is about the parameter as such, rather than its value ("above the maximum").
fn unsupported(words: &Words, message: &str) -> bool {
    const SIGNS: [&str; 18] = [
        "unsupported",
        "not support",
        "n't support",
        "not permitted",
        "not allowed",
        "not available",
        "not enabled",
        "not recognized",
        "unknown name",
        "unknown parameter",
        "unknown field",
        "unknown argument",
        "unexpected",
        "deprecated",
        "unrecognized",
        "extra inputs",
        "extra fields",
        "must be verified",
    ];
    let kinds = ["unsupported", "unknown_parameter", "extra_forbidden"];
    kinds.iter().any(|kind| words.kind.contains(kind))
        || SIGNS.iter().any(|sign| message.contains(sign))
}

/// The quirks of each model, and the forms of each model's schemas, while the worker runs.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: Mutex<Known>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Known {
    models: HashMap<String, Quirks>,
    /// By the hash of the model and the schema.
    shapes: HashMap<u64, Shape>,
}

/// One call as it is asked again without what the model refuses.
#[derive(Debug)]
pub(super) struct Asking<'m> {
    memory: &'m Memory,
    model: &'m str,
    schema: Option<u64>,
    quirks: Quirks,
    shape: Shape,
}

impl Memory {
    /// The call of this request, with what is known about its model and its schema. `least` is the first
    /// form of a schema that the provider takes.
    pub(super) fn asking<'m>(&'m self, request: &'m Request, least: Shape) -> Asking<'m> {
        let of = |schema: &Value| self.hasher.hash_one((&request.model, schema.to_string()));
        let schema = request.output_schema.as_ref().map(of);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let quirks = known.models.get(&request.model).copied().unwrap_or_default();
        let shape =
            schema.and_then(|schema| known.shapes.get(&schema).copied()).unwrap_or_default();
        Asking { memory: self, model: &request.model, schema, quirks, shape: shape.max(least) }
    }
}

impl Asking<'_> {
    /// Makes the call that `body` writes and `attempt` sends, and repeats it without a member that the
    /// model refuses: a refusal has generated nothing. `attempt` is told whether the model's prompt opens
    /// its thinking, and returns with the completion whether it did.
    ///
    /// # Errors
    /// The failure of the last attempt.
    pub(super) async fn made<F>(
        mut self,
        body: impl Fn(Quirks, Shape) -> Value,
        attempt: impl Fn(Arc<Value>, bool) -> F,
    ) -> Result<Completion, Failure>
    where
        F: Future<Output = Result<(Completion, bool), Refusal>>,
    {
        loop {
            let sent = Arc::new(body(self.quirks, self.shape));
            match attempt(Arc::clone(&sent), self.quirks.opens_thinking).await {
                Ok((completion, opens_thinking)) => {
                    self.quirks.opens_thinking |= opens_thinking;
                    self.keep();
                    return Ok(completion);
                }
                Err(refusal) => self.refused(refusal, &sent)?,
            }
        }
    }

    /// Learns from the refusal of a request, after which the call is made again.
    ///
    /// # Errors
    /// The failure of the call, if the refusal has another reason.
    fn refused(&mut self, refusal: Refusal, sent: &Value) -> Result<(), Failure> {
        let Refusal { failure, answer } = refusal;
        let learned = answer.and_then(|(status, words)| {
            if let Some(quirks) = self.quirks.after(status, &words, sent) {
                return Some((quirks, self.shape));
            }
            let shape = self.schema.and_then(|_| self.shape.after(status, &words))?;
            Some((self.quirks, shape))
        });
        let Some((quirks, shape)) = learned else {
            // A provider that is busy has taken the request.
            if failure.retryable {
                self.keep();
            }
            return Err(failure);
        };
        (self.quirks, self.shape) = (quirks, shape);
        tracing::debug!(
            model = self.model,
            ?quirks,
            ?shape,
            "asking again without what the model refuses"
        );
        Ok(())
    }

    /// Keeps what the call has learned. Models and schemas without quirks take no room.
    fn keep(&self) {
        let mut known = self.memory.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { models, shapes } = &mut *known;
        if models.get(self.model).copied().unwrap_or_default() != self.quirks {
            if models.len() >= REMEMBERED {
                models.clear();
            }
            models.insert(self.model.to_owned(), self.quirks);
        }
        if let Some(schema) = self.schema.filter(|_| self.shape != Shape::default()) {
            if shapes.len() >= REMEMBERED {
                shapes.clear();
            }
            shapes.insert(schema, self.shape);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent() -> Value {
        json!({
            "model": "m", "logprobs": true, "temperature": 0.2, "service_tier": "flex", "max_tokens": 7,
            "stream": true, "stream_options": {"include_usage": true}, "top_p": 0.5, "seed": 7,
            "frequency_penalty": 0.5,
        })
    }

    fn learn(status: u16, message: &str, kind: &str, param: &str) -> Option<Quirks> {
        let param = (!param.is_empty()).then(|| param.to_owned());
        let (message, kind) = (message.into(), kind.into());
        let words = Words { message, kind, param, ..Words::default() };
        Quirks::default().after(status, &words, &sent())
    }

    #[test]
    fn a_refused_member_is_given_up() {
        for (status, message, member) in [
            (400, "logprobs are not supported with reasoning models.", Member::Logprobs),
            (403, "You are not allowed to request logprobs from this model", Member::Logprobs),
            (400, "Unknown parameter: 'logprobs'.", Member::Logprobs),
            (
                422,
                r#"[{"type":"extra_forbidden","loc":["body","logprobs"],"msg":"Extra inputs are not permitted"}]"#,
                Member::Logprobs,
            ),
            (
                400,
                "Invalid JSON payload received. Unknown name \"logprobs\": Cannot find field.",
                Member::Logprobs,
            ),
            (400, "Unknown parameter: 'service_tier'.", Member::ServiceTier),
            (400, "Unrecognized request argument supplied: service_tier", Member::ServiceTier),
            (400, "Invalid service tier 'flex' for this account", Member::ServiceTier),
            (400, "Unrecognized request argument supplied: stream_options", Member::StreamOptions),
            (
                422,
                r#"[{"loc":["body","stream_options"],"msg":"extra fields not permitted"}]"#,
                Member::StreamOptions,
            ),
            (400, "Your organization must be verified to stream this model.", Member::Stream),
            (400, "Streaming is not supported for this model", Member::Stream),
            (
                400,
                "Unsupported value: 'temperature' does not support 0.2 with this model.",
                Member::Temperature,
            ),
            (400, "`temperature` is deprecated for this model.", Member::Temperature),
            (400, "Unsupported parameter: 'top_p' is not supported with this model.", Member::TopP),
            (
                400,
                "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
                Member::TopP,
            ),
            (422, "Extra inputs are not permitted: seed", Member::Seed),
            (
                400,
                "Unsupported parameter: 'frequency_penalty' is not supported with this model.",
                Member::FrequencyPenalty,
            ),
            (
                400,
                "Invalid JSON payload received. Unknown name \"seed\": Cannot find field.",
                Member::Seed,
            ),
        ] {
            let learned = learn(status, message, "", "").expect(message);
            let left_out = Member::ALL.into_iter().filter(|member| !learned.sends(*member));
            assert_eq!(left_out.collect::<Vec<_>>(), [member], "{message}");
        }
        for tokens in [
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "Unknown parameter: 'max_tokens'",
        ] {
            assert!(learn(400, tokens, "", "max_tokens").expect(tokens).completion_tokens);
        }
    }

    #[test]
    fn a_refusal_of_a_value_or_of_something_else_teaches_nothing() {
        for message in [
            "Invalid 'temperature': decimal above maximum value.",
            "Invalid 'top_p': decimal below minimum value.",
            "the model is not supported",
            "max_tokens is too large: 9. This model takes at most 4.",
            "the upstream does not support this",
        ] {
            assert_eq!(learn(400, message, "", ""), None, "{message}");
        }
        assert_eq!(learn(500, "logprobs are not supported", "", ""), None);
        let words = Words { message: "logprobs are not supported".into(), ..Words::default() };
        assert_eq!(Quirks::default().after(400, &words, &json!({})), None, "it was not sent");
    }

    #[test]
    fn what_was_given_up_already_teaches_nothing_more() {
        let words = Words { message: "logprobs are not supported".into(), ..Words::default() };
        let once = Quirks::default().after(400, &words, &sent()).expect("it was sent");
        assert_eq!(once.after(400, &words, &sent()), None);
    }
}
