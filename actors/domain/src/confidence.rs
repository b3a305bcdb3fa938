//! Confidence: the degree to which a model was sure of its output, from 0 to 1.
//!
//! ```text
//!   log-probabilities ─▶ MeanLogprob     samples ─▶ agreement     a judge's tokens ─▶ verdict
//! ```
//!
//! A confidence from log-probabilities is exp(mean) over the tokens of the output. Without a signal there is no
//! confidence: `None`, never 1.0.

pub mod agreement;
pub mod ask;
pub mod verdict;

use crate::names::names;

names! {
    /// The method that a confidence comes from.
    Source {
        /// The log-probabilities of the output's tokens.
        Logprobs = "logprobs",
        /// The agreement of several samples.
        Samples = "samples",
        /// The judgement of another model.
        Judge = "judge",
        /// A method that the worker does not name.
        Reported = "reported",
        /// No method, and so no confidence.
        None = "none",
    }
}

/// The running mean of token log-probabilities, in constant memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MeanLogprob {
    sum: f64,
    tokens: u64,
}

impl MeanLogprob {
    /// Counts one token of the output, with its natural log-probability.
    pub fn push(&mut self, logprob: f64) {
        self.sum += logprob;
        self.tokens += 1;
    }

    /// The number of tokens counted.
    #[must_use]
    pub const fn tokens(&self) -> u64 {
        self.tokens
    }

    /// exp(mean), from 0 to 1. `None` without a token, or if any log-probability was NaN.
    ///
    /// One impossible token (minus infinity) makes the confidence 0. Providers round, so a mean
    /// slightly above 0 counts as 0: a confidence of 1.
    #[must_use]
    pub fn confidence(&self) -> Option<f64> {
        if self.tokens == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "no output has 2^53 tokens")]
        let mean = self.sum / self.tokens as f64;
        clamped(mean.min(0.0).exp()).filter(|_| !mean.is_nan())
    }
}

impl Extend<f64> for MeanLogprob {
    fn extend<I: IntoIterator<Item = f64>>(&mut self, logprobs: I) {
        for logprob in logprobs {
            self.push(logprob);
        }
    }
}

/// A reported confidence, clamped to 0 to 1; `None` for NaN.
#[must_use]
pub fn clamped(figure: f64) -> Option<f64> {
    (!figure.is_nan()).then(|| figure.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from_logprobs(logprobs: impl IntoIterator<Item = f64>) -> Option<f64> {
        let mut mean = MeanLogprob::default();
        mean.extend(logprobs);
        mean.confidence()
    }

    #[test]
    fn confidence_is_the_geometric_mean_of_the_tokens_probabilities() {
        let found = from_logprobs([0.9_f64.ln(), 0.4_f64.ln()]).unwrap();
        assert!((found - 0.6).abs() < 1e-12, "{found}");
    }

    #[test]
    fn no_token_is_no_confidence() {
        assert_eq!(from_logprobs([]), None);
    }

    #[test]
    fn nan_is_no_confidence() {
        assert_eq!(from_logprobs([-0.1, f64::NAN]), None);
        assert_eq!(from_logprobs([f64::INFINITY, f64::NEG_INFINITY]), None);
        assert_eq!(clamped(f64::NAN), None);
    }

    #[test]
    fn an_impossible_token_makes_it_zero_and_rounding_never_passes_one() {
        assert_eq!(from_logprobs([-0.1, f64::NEG_INFINITY]), Some(0.0));
        assert_eq!(from_logprobs([1e-9]), Some(1.0));
        assert_eq!(clamped(1.5), Some(1.0));
        assert_eq!(clamped(f64::NEG_INFINITY), Some(0.0));
    }

    proptest! {
        #[test]
        fn confidence_lies_between_the_least_and_the_most_likely_token(
            logprobs in prop::collection::vec(-20.0_f64..0.0, 1..50)
        ) {
            let least = logprobs.iter().copied().fold(f64::INFINITY, f64::min).exp();
            let most = logprobs.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp();
            let found = from_logprobs(logprobs).unwrap();
            prop_assert!(found >= least - 1e-9 && found <= most + 1e-9);
        }

        #[test]
        fn a_confidence_is_in_range_for_any_log_probabilities(
            logprobs in prop::collection::vec(any::<f64>(), 0..20)
        ) {
            if let Some(found) = from_logprobs(logprobs) {
                prop_assert!((0.0..=1.0).contains(&found));
            }
        }
    }
}
