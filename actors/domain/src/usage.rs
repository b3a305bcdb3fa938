//! Usage: the tokens of a model call and their cost.
//!
//! Prices come from a table with the member names of `LiteLLM`'s price file, in USD per token.
//! Deliberately absent: reading the file, budgets, which compare costs computed here, and tokenizers:
//! before the call, the tokens of a prompt are an estimate.
//!
//! ```text
//! Tokens (counted by the provider) ──Prices──▶ Usage (tokens and USD), summed per execution
//! ```

mod prices;

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

pub use prices::{Price, Prices, PricesError, Rates};

/// The tokens of one call. Cached tokens are part of `input`, also for providers that count them
/// apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tokens {
    /// All tokens of the prompt, cached or not.
    pub input: u64,
    /// Tokens that the model generated, hidden reasoning included.
    pub output: u64,
    /// Tokens of the prompt read from the provider's cache.
    pub cache_read: u64,
    /// Tokens of the prompt written to the provider's cache.
    pub cache_write: u64,
}

/// The usage of a call, a task or an execution.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// The cost in USD.
    pub total_cost: f64,
    /// A model without a price took part; its calls count as 0 in `total_cost`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub price_unknown: bool,
    /// Input tokens that the provider read from its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Input tokens that the provider wrote to its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

impl Usage {
    /// The tokens of a call, as its provider counted them.
    #[must_use]
    pub const fn tokens(&self) -> Tokens {
        let Self { input, output, cache_read, cache_write, .. } = *self;
        Tokens { input, output, cache_read, cache_write }
    }

    /// Input and output tokens.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            total_cost: self.total_cost + other.total_cost,
            price_unknown: self.price_unknown || other.price_unknown,
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), Add::add)
    }
}

/// An estimate of the tokens of a text: characters ÷ 4, rounded up.
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    estimate_tokens_of(u64::try_from(text.chars().count()).unwrap_or(u64::MAX))
}

/// An estimate of the tokens of a text of so many characters.
#[must_use]
pub const fn estimate_tokens_of(characters: u64) -> u64 {
    characters.div_ceil(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usages_add_up_and_an_unknown_price_stays_visible() {
        let known =
            Usage { input: 10, output: 5, total_cost: 0.25, cache_read: 4, ..Usage::default() };
        let unknown = Usage { input: 1, output: 2, price_unknown: true, ..Usage::default() };
        let sum: Usage = [known, unknown].into_iter().sum();
        assert_eq!(sum, Usage { input: 11, output: 7, price_unknown: true, ..known });
        assert_eq!(sum.total(), 18);
    }

    #[test]
    fn an_estimate_counts_characters_and_rounds_up() {
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("äöüß"), 1);
        assert_eq!(estimate_tokens("hello"), 2);
    }
}
