//! The tokens that a call will use, learned from the calls before it.

use super::window::Load;

/// The assumed output of a model that has not answered yet, in tokens.
const UNKNOWN_OUTPUT: u64 = 1_000;
/// The results after which the output is estimated from them, not from `maxTokens`.
const ENOUGH: u32 = 5;
/// The weight of a new result in the averages.
const WEIGHT: f64 = 0.125;
/// The deviations above the average that are reserved.
const DEVIATIONS: f64 = 1.5;

/// The tokens that the calls of an attempt are expected to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// The calls beyond the first.
    pub further: u64,
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the output.
    pub output: u64,
    /// The tokens of the prompt before any correction: characters ÷ 4.
    pub(super) plain: u64,
}

impl Demand {
    pub(super) const fn quarter(self) -> Self {
        Self { further: 0, input: self.input / 4, output: self.output / 4, plain: 0 }
    }

    pub(super) const fn requests(self) -> u64 {
        self.further.saturating_add(1)
    }

    /// The demand of so many calls like this one.
    #[must_use]
    pub const fn times(self, calls: u64) -> Self {
        Self {
            further: calls.saturating_sub(1),
            input: self.input.saturating_mul(calls),
            output: self.output.saturating_mul(calls),
            plain: self.plain,
        }
    }

    pub(super) const fn load(self) -> Load {
        Load { requests: self.requests(), input: self.input, output: self.output }
    }
}

/// Expectations about the next call, from a model's results.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimator {
    /// Real tokens of a prompt for each estimated one.
    ratio: f64,
    input: f64,
    output: f64,
    deviation: f64,
    results: u32,
}

impl Default for Estimator {
    fn default() -> Self {
        Self { ratio: 1.0, input: 0.0, output: 0.0, deviation: 0.0, results: 0 }
    }
}

impl Estimator {
    /// The demand of a call of which nothing is known.
    pub(super) fn usual(&self) -> Demand {
        if self.results == 0 {
            return Demand::default();
        }
        Demand { further: 0, input: whole(self.input), output: self.expected_output(), plain: 0 }
    }

    /// The demand of a call whose texts have about `plain` tokens.
    pub(super) fn demand(&self, plain: u64, max_tokens: Option<u64>) -> Demand {
        let output = if self.results < ENOUGH {
            max_tokens.unwrap_or(UNKNOWN_OUTPUT)
        } else {
            self.expected_output().min(max_tokens.unwrap_or(u64::MAX))
        };
        Demand { further: 0, input: whole(number(plain) * self.ratio), output, plain }
    }

    fn expected_output(&self) -> u64 {
        whole(self.output + DEVIATIONS * self.deviation)
    }

    pub(super) fn learn(&mut self, demand: Demand, input: u64, output: u64) {
        let calls = number(demand.requests());
        let (input, output) = (number(input) / calls, number(output) / calls);
        if self.results == 0 {
            (self.input, self.output, self.deviation) = (input, output, output / 2.0);
        } else {
            self.input += WEIGHT * (input - self.input);
            self.deviation += WEIGHT * ((output - self.output).abs() - self.deviation);
            self.output += WEIGHT * (output - self.output);
        }
        if demand.plain > 0 {
            let ratio = (input / number(demand.plain)).clamp(0.1, 10.0);
            let weight = if self.results == 0 { 1.0 } else { WEIGHT };
            self.ratio += weight * (ratio - self.ratio);
        }
        self.results = self.results.saturating_add(1);
    }
}

#[expect(clippy::cast_precision_loss, reason = "no call has 2^53 tokens")]
const fn number(tokens: u64) -> f64 {
    tokens as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, as intended"
)]
fn whole(tokens: f64) -> u64 {
    tokens.ceil() as u64
}
