//! An answer that does not count as a task's output, and its correction by another attempt.
//!
//! ```text
//!   misses the schema ─▶ once more, with the fault in the prompt       ─▶ OUTPUT_INVALID
//!   cut at the limit  ─▶ once more, with twice as many tokens, if it can ─▶ OUTPUT_TRUNCATED
//! ```

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Completion, Ending, EndingCode, Inputs};
use crate::execution::clipped;

/// The words between a prompt and the mismatch of the last output.
pub(super) const CORRECTION: &str =
    "\n\nYour previous answer did not have the required structure: ";

/// The fault of an answer whose output must match a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputFault {
    /// The output does not match the schema; the text is for the model to read.
    Mismatch(String),
    /// The model stopped at the token limit, so the output is not whole, though it may look so.
    Truncated {
        /// The limit of another attempt; `None` if no other limit would help.
        max_tokens: Option<u64>,
    },
}

/// The changes that the faults of earlier answers make to the next attempt.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Amendment {
    /// The mismatch of the last output, which follows the prompt.
    pub mismatch: Option<String>,
    /// The token limit in place of the one that was asked for.
    pub max_tokens: Option<u64>,
}

/// The rest of answers that did not count, while the task is tried again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    /// The changes to the next attempt.
    #[serde(flatten)]
    pub amendment: Amendment,
    /// The usage of all answers so far, with the reason why the last one stopped.
    pub answer: Completion,
}

impl OutputFault {
    /// The fault of an answer that stopped at its limit of `max_tokens`; `longest` is the most that
    /// the model can answer with, if that is known.
    #[must_use]
    pub fn truncated(max_tokens: Option<u64>, longest: Option<u64>) -> Self {
        let doubled = |limit: u64| limit.saturating_mul(2).min(longest.unwrap_or(u64::MAX));
        let next = max_tokens.and_then(|limit| Some(doubled(limit)).filter(|next| *next > limit));
        Self::Truncated { max_tokens: next }
    }

    /// The reason that ends the task if the fault is final.
    #[must_use]
    pub fn ending(&self) -> Ending {
        match self {
            Self::Mismatch(message) => {
                let message = format!("the output does not match the output schema: {message}");
                Ending { code: EndingCode::OutputInvalid, message }
            }
            Self::Truncated { .. } => Ending {
                code: EndingCode::OutputTruncated,
                message: "the model stopped at its token limit, so the output is not whole: \
                          raise maxTokens"
                    .into(),
            },
        }
    }
}

/// True if the provider's reason to stop says that the output was cut at the token limit.
#[must_use]
pub fn is_cut(finish_reason: Option<&str>) -> bool {
    finish_reason == Some("length")
}

impl Amendment {
    /// The amendment of the attempt after an answer with this fault; `None` if the fault is final,
    /// because each kind of fault allows one more attempt.
    #[must_use]
    pub fn after(&self, fault: &OutputFault) -> Option<Self> {
        match fault {
            OutputFault::Mismatch(message) if self.mismatch.is_none() => {
                Some(Self { mismatch: Some(clipped(message.clone())), ..self.clone() })
            }
            OutputFault::Truncated { max_tokens: Some(next) } if self.max_tokens.is_none() => {
                Some(Self { max_tokens: Some(*next), ..self.clone() })
            }
            OutputFault::Mismatch(_) | OutputFault::Truncated { .. } => None,
        }
    }

    /// Adds the mismatch of the last output to the prompt. A function is called again with the same args.
    pub fn amend(&self, inputs: &mut Inputs) {
        if let (Some(mismatch), None) = (&self.mismatch, &inputs.args) {
            let prompt = &mut inputs.prompt;
            prompt.push_str(CORRECTION);
            prompt.push_str(mismatch);
            prompt.push_str("\nAnswer again, with nothing but the corrected answer.");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mismatch() -> OutputFault {
        OutputFault::Mismatch("output.a is required".into())
    }

    #[test]
    fn each_kind_of_fault_allows_one_more_attempt() {
        let first = Amendment::default().after(&mismatch()).expect("once");
        assert_eq!(first.mismatch.as_deref(), Some("output.a is required"));
        assert_eq!(first.after(&mismatch()), None);
        let cut = OutputFault::truncated(Some(100), None);
        let second = first.after(&cut).expect("another kind");
        assert_eq!((second.max_tokens, second.mismatch.is_some()), (Some(200), true));
        assert_eq!(second.after(&OutputFault::truncated(Some(200), None)), None);
        assert_eq!(second.after(&mismatch()), None);
    }

    #[test]
    fn twice_the_tokens_are_asked_for_where_the_model_allows_them() {
        let next = |limit, longest| match OutputFault::truncated(limit, longest) {
            OutputFault::Truncated { max_tokens } => max_tokens,
            OutputFault::Mismatch(_) => None,
        };
        assert_eq!(next(Some(100), None), Some(200));
        assert_eq!(next(Some(100), Some(150)), Some(150));
        assert_eq!(next(Some(100), Some(100)), None);
        assert_eq!(next(Some(200), Some(100)), None);
        assert_eq!(next(None, Some(100)), None);
        assert_eq!(next(Some(u64::MAX), None), None);
    }

    #[test]
    fn a_long_mismatch_is_clipped_for_its_row() {
        let long = OutputFault::Mismatch("\u{1}".repeat(10_000));
        let kept = Amendment::default().after(&long).and_then(|next| next.mismatch);
        assert!(kept.is_some_and(|kept| kept.len() * 6 <= crate::execution::MAX_MESSAGE));
    }
}
