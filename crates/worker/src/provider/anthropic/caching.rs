//! The choice of the system prompts that are worth the provider's cache.
//!
//! Writing a prompt to the cache costs a quarter more than reading it plainly, reading it from
//! there a tenth. So a prompt is marked from its second use within the five minutes that the cache
//! keeps it: a prompt that comes once costs nothing extra, and one that comes three times pays off.
//! Deliberately absent: the prompts themselves, of which only a hash is kept.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use callboard_domain::usage::estimate_tokens;
use tokio::time::Instant;

/// The fewest tokens that any of the models caches.
const FEWEST_TOKENS: u64 = 1_024;
/// The time that the provider keeps a prompt after its last use.
const KEPT: Duration = Duration::from_mins(5);
/// The most prompts that are remembered; without room, the expired ones are forgotten.
const REMEMBERED: usize = 10_000;

/// The system prompts of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Prompts {
    seen: Mutex<HashMap<u64, Instant>>,
    hasher: RandomState,
}

impl Prompts {
    /// True if these system messages are long enough for the cache, and came before while the cache
    /// keeps them. Remembers them.
    pub(super) fn comes_again(&self, model: &str, system: &[String]) -> bool {
        let tokens: u64 = system.iter().map(|text| estimate_tokens(text)).sum();
        if tokens < FEWEST_TOKENS {
            return false;
        }
        let (hash, now) = (self.hasher.hash_one((model, system)), Instant::now());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED {
            seen.retain(|_, at| now.duration_since(*at) < KEPT);
        }
        if seen.len() >= REMEMBERED {
            seen.clear();
        }
        seen.insert(hash, now).is_some_and(|before| now.duration_since(before) < KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_long_prompt_is_cached_from_its_second_time_within_five_minutes() {
        let prompts = Prompts::default();
        let (long, short) = (vec!["word ".repeat(1_000)], vec!["word".to_owned()]);
        assert!(!prompts.comes_again("m", &long));
        assert!(prompts.comes_again("m", &long));
        assert!(!prompts.comes_again("other", &long));
        assert!(!prompts.comes_again("m", &short));
        assert!(!prompts.comes_again("m", &short));
        tokio::time::advance(KEPT.saturating_sub(Duration::from_secs(1))).await;
        assert!(prompts.comes_again("m", &long));
        tokio::time::advance(KEPT).await;
        assert!(!prompts.comes_again("m", &long));
    }
}
