//! The pieces of an output on their way, and what is known of the usage of a call that has not ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::usage::{Tokens, estimate_tokens_of};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;

use super::Request;

/// The channel of the output's pieces as they come. A closed receiver is no error.
#[derive(Debug, Clone)]
pub struct Deltas {
    pieces: mpsc::Sender<String>,
    seen: Arc<Mutex<Seen>>,
}

/// The part of a call that was seen.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// The characters of the answer and of its thinking.
    characters: u64,
    /// The provider's own counts.
    counted: Counts,
}

/// The counts of a provider so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// All tokens of the prompt, cached or not.
    pub(super) input: Option<u64>,
    /// Tokens that the model generated.
    pub(super) output: Option<u64>,
    /// Tokens of the prompt read from the provider's cache.
    pub(super) cache_read: Option<u64>,
    /// Tokens of the prompt written to the provider's cache.
    pub(super) cache_write: Option<u64>,
}

impl From<mpsc::Sender<String>> for Deltas {
    fn from(pieces: mpsc::Sender<String>) -> Self {
        Self { pieces, seen: Arc::default() }
    }
}

impl Deltas {
    /// Sends a piece on.
    ///
    /// # Errors
    /// Nobody receives pieces.
    pub async fn send(&self, piece: String) -> Result<(), SendError<String>> {
        self.saw(&piece);
        self.pieces.send(piece).await
    }

    /// Notes text that is not sent on.
    pub(super) fn saw(&self, text: &str) {
        let characters = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        let mut seen = self.seen();
        seen.characters = seen.characters.saturating_add(characters);
    }

    /// Notes the provider's counts so far.
    pub(super) fn counted(&self, counted: Counts) {
        self.seen().counted = counted;
    }

    /// The least usage of the call, as far as it was seen: the provider's counts, else an estimate by
    /// the texts. `None` if the provider has neither counted nor answered.
    #[must_use]
    pub fn used(&self, request: &Request) -> Option<Tokens> {
        let Seen { characters, counted } = *self.seen();
        if characters == 0 && counted == Counts::default() {
            return None;
        }
        let some = |count: Option<u64>| count.filter(|count| *count > 0);
        let streamed = estimate_tokens_of(characters);
        Some(Tokens {
            input: some(counted.input).unwrap_or_else(|| request.estimated_tokens()),
            // A count from the beginning of a stream is below its texts.
            output: counted.output.unwrap_or(0).max(streamed),
            cache_read: counted.cache_read.unwrap_or(0),
            cache_write: counted.cache_write.unwrap_or(0),
        })
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_least_usage_is_counted_by_the_provider_or_estimated_by_the_texts() {
        let (sender, mut receiver) = mpsc::channel(1);
        let deltas = Deltas::from(sender);
        let request = Request { prompt: "p".repeat(40), ..Request::default() };
        assert_eq!(deltas.used(&request), None);
        deltas.send("häß!x".to_owned()).await.expect("it is received");
        assert_eq!(receiver.recv().await.as_deref(), Some("häß!x"));
        deltas.saw("hm");
        let estimated = Tokens { input: 10, output: 2, ..Tokens::default() };
        assert_eq!(deltas.used(&request), Some(estimated));
        let counts =
            Counts { input: Some(12), output: Some(1), cache_read: Some(8), cache_write: None };
        deltas.clone().counted(counts);
        let counted = Tokens { input: 12, output: 2, cache_read: 8, cache_write: 0 };
        assert_eq!(deltas.used(&request), Some(counted));
        drop(receiver);
        assert!(deltas.send("more".to_owned()).await.is_err());
        deltas.counted(Counts { output: Some(70), ..counts });
        assert_eq!(deltas.used(&request).map(|used| used.output), Some(70));
    }
}
