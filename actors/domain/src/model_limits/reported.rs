//! The limits in a provider's headers, and the use by others that follows from them.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::ModelLimits;
use super::window::Load;
use crate::rate::WINDOW_MS;
use crate::worker::Monotonic;

/// One limit as the provider reported it last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Allowance {
    /// The limit, for a minute.
    pub limit: u64,
    /// The rest of the limit.
    pub remaining: u64,
    /// The time until the whole limit is there again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_ms: Option<u64>,
}

/// The provider's own figures for a model, from the headers of an answer.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reported {
    /// Calls, in the provider's time.
    pub requests: Option<Allowance>,
    /// Input and output tokens together.
    pub tokens: Option<Allowance>,
    /// Input tokens.
    pub input_tokens: Option<Allowance>,
    /// Output tokens.
    pub output_tokens: Option<Allowance>,
}

impl Reported {
    /// True if nothing was reported.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// These figures, with the earlier ones in place of absent ones.
    pub(super) fn over(self, earlier: Self) -> Self {
        Self {
            requests: self.requests.or(earlier.requests),
            tokens: self.tokens.or(earlier.tokens),
            input_tokens: self.input_tokens.or(earlier.input_tokens),
            output_tokens: self.output_tokens.or(earlier.output_tokens),
        }
    }
}

/// The use of a model by others with the same credentials: an amount, and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ExternalUse {
    pub(super) requests: Option<(u64, Monotonic)>,
    pub(super) input: Option<(u64, Monotonic)>,
    pub(super) output: Option<(u64, Monotonic)>,
    pub(super) tokens: Option<(u64, Monotonic)>,
}

impl ExternalUse {
    /// The use by others: the amount by which the provider has less left than `own` use leaves.
    pub(super) fn of(reported: &Reported, limits: ModelLimits, own: Load, now: Monotonic) -> Self {
        let of = |allowance: Option<Allowance>, limit: Option<u64>, own: u64| {
            let Allowance { remaining, reset_ms, .. } = allowance?;
            // Anthropic rounds the remainder to whole thousands of tokens.
            let rounding = if remaining > 0 && remaining % 1_000 == 0 { 500 } else { 0 };
            let remaining = remaining.saturating_add(rounding);
            let others = limit?.saturating_sub(own).saturating_sub(remaining);
            let lasts = reset_ms.unwrap_or(WINDOW_MS).min(WINDOW_MS);
            (others > 0 && lasts > 0).then(|| (others, Monotonic(now.0.saturating_add(lasts))))
        };
        let both = own.input.saturating_add(own.output);
        Self {
            requests: of(reported.requests, limits.requests_per_minute, own.requests),
            input: of(reported.input_tokens, limits.input_tokens_per_minute, own.input),
            output: of(reported.output_tokens, limits.output_tokens_per_minute, own.output),
            tokens: of(reported.tokens, limits.tokens_per_minute, both),
        }
    }
}
