//! Rate limits: a sliding log per account, or per address where there is no credential
//! (PROTOCOL.md 8).
//!
//! Deliberately absent: the log itself, which is [`callboard_domain::rate`], and who is counted how.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use callboard_domain::Timestamp;
use callboard_domain::access::Account;
use callboard_domain::rate::{Exceeded, Quotas, SlidingLog, Status, Tier};

/// Each with a lock of its own.
const PARTS: usize = 16;
/// How many may be remembered in a part before the idle ones are forgotten.
const TIDY_AT: usize = 4_096;

/// Whom requests are counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counted {
    /// All sessions of a user, or one key.
    Account(Account),
    /// Whoever asks from this address without a valid credential.
    Address(IpAddr),
}

/// Everybody's logs.
#[derive(Debug)]
pub struct Limiter {
    quotas: Quotas,
    default: Tier,
    parts: [Mutex<HashMap<Counted, SlidingLog>>; PARTS],
    hasher: RandomState,
}

impl Limiter {
    /// Nobody has asked for anything yet.
    #[must_use]
    pub fn new(quotas: Quotas, default: Tier) -> Self {
        let parts = std::array::from_fn(|_| Mutex::default());
        Self { quotas, default, parts, hasher: RandomState::new() }
    }

    /// How many tasks of a tier may run at once.
    #[must_use]
    pub fn concurrent(&self, tier: Option<Tier>) -> Option<u32> {
        self.quotas.of(tier.unwrap_or(self.default)).concurrent_tasks
    }

    /// Counts a request, or refuses it, which is not counted.
    ///
    /// # Errors
    /// [`Exceeded`].
    pub fn admit(
        &self,
        who: Counted,
        tier: Option<Tier>,
        now: Timestamp,
    ) -> Result<Status, Exceeded> {
        let limit = self.quotas.of(tier.unwrap_or(self.default)).requests;
        let part = usize::try_from(self.hasher.hash_one(who) % PARTS as u64).unwrap_or(0);
        let mut logs = self.parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        if logs.len() >= TIDY_AT && !logs.contains_key(&who) {
            logs.retain(|_, log| !log.is_idle(now));
        }
        logs.entry(who).or_default().admit(limit, now)
    }
}

/// Writes the three headers that every answer carries.
pub fn write(headers: &mut HeaderMap, status: Status) {
    const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
    const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
    const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
    headers.insert(LIMIT, HeaderValue::from(status.limit));
    headers.insert(REMAINING, HeaderValue::from(status.remaining));
    headers.insert(RESET, HeaderValue::from(status.reset));
}
