//! Optional parameters that single models refuse, learned from the refusal and remembered.
//!
//! Reasoning models take no `logprobs` or `temperature` and want `max_completion_tokens`. A
//! provider names one such parameter per refusal, before it generates anything, so each is given up
//! at most once per call; the call that costs money is still one. Deliberately absent: a list of
//! model names, which would be out of date.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::failure::Words;

/// The parameters that are left out or sent differently for one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a parameter of its own")]
pub(super) struct Quirks {
    /// `logprobs` is not asked for.
    pub(super) without_logprobs: bool,
    /// `temperature` is not sent.
    pub(super) without_temperature: bool,
    /// `max_completion_tokens` is sent for `max_tokens`.
    pub(super) completion_tokens: bool,
    /// `service_tier` is not sent.
    pub(super) without_service_tier: bool,
    /// The form in which an output schema is sent.
    pub(super) shape: Shape,
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
}

impl Quirks {
    /// The known quirks with the one that a refusal shows. `None`: the refusal has another reason.
    pub(super) fn learn(self, status: u16, words: &Words) -> Option<Self> {
        if !matches!(status, 400 | 422) {
            return None;
        }
        let message = words.message.to_lowercase();
        let refused = |name: &str| {
            let named = words.param.as_deref() == Some(name) || message.contains(name);
            named && unsupported(words, &message)
        };
        if !self.completion_tokens
            && message.contains("max_completion_tokens")
            && message.contains("max_tokens")
        {
            Some(Self { completion_tokens: true, ..self })
        } else if !self.without_logprobs && refused("logprobs") {
            Some(Self { without_logprobs: true, ..self })
        } else if !self.without_temperature && refused("temperature") {
            Some(Self { without_temperature: true, ..self })
        } else if !self.without_service_tier && refused("service_tier") {
            Some(Self { without_service_tier: true, ..self })
        } else {
            None
        }
    }

    /// The next form of an output schema, if a refusal is about the form that was sent.
    pub(super) fn reshaped(self, status: u16, words: &Words) -> Option<Self> {
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
        self.shape.next().map(|shape| Self { shape, ..self })
    }
}

/// True if the refusal is about the parameter as such, rather than its value ("above the maximum").
fn unsupported(words: &Words, message: &str) -> bool {
    const SIGNS: [&str; 11] = [
        "unsupported",
        "not support",
        "n't support",
        "not permitted",
        "not allowed",
        "not available",
        "not enabled",
        "unknown name",
        "deprecated",
        "unrecognized",
        "extra inputs",
    ];
    words.kind.contains("unsupported") || SIGNS.iter().any(|sign| message.contains(sign))
}

/// The quirks of each model, while the worker runs.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<String, Quirks>>);

impl Memory {
    /// The quirks of this model.
    pub(super) fn of(&self, model: &str) -> Quirks {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(model).copied().unwrap_or_default()
    }

    /// Keeps the quirks with which a call worked. Models without quirks take no room.
    pub(super) fn keep(&self, model: &str, quirks: Quirks) {
        if quirks != self.of(model) {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(model.to_owned(), quirks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(message: &str, kind: &str, param: &str) -> Option<Quirks> {
        let param = (!param.is_empty()).then(|| param.to_owned());
        let (message, kind) = (message.into(), kind.into());
        let words = Words { message, kind, param, ..Words::default() };
        Quirks::default().learn(400, &words)
    }

    #[test]
    fn a_refused_parameter_is_given_up() {
        let logprobs = learn("logprobs are not supported with reasoning models.", "", "");
        assert!(logprobs.unwrap().without_logprobs);
        let value = "Unsupported value: 'temperature' does not support 0.2 with this model.";
        assert!(learn(value, "unsupported_value", "temperature").unwrap().without_temperature);
        let tokens = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        assert!(learn(tokens, "unsupported_parameter", "max_tokens").unwrap().completion_tokens);
    }

    #[test]
    fn a_refusal_of_a_value_or_of_something_else_teaches_nothing() {
        assert_eq!(
            learn(
                "Invalid 'temperature': decimal above maximum value.",
                "decimal_above_max_value",
                "temperature"
            ),
            None
        );
        assert_eq!(learn("the model is not supported", "", ""), None);
        let words = Words { message: "logprobs are not supported".into(), ..Words::default() };
        assert_eq!(Quirks::default().learn(500, &words), None);
    }

    #[test]
    fn what_was_given_up_already_teaches_nothing_more() {
        let words = Words { message: "logprobs are not supported".into(), ..Words::default() };
        let once = Quirks::default().learn(400, &words).unwrap();
        assert_eq!(once.learn(400, &words), None);
    }
}
