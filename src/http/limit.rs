//! Rate limits: a sliding log per account in a project, or per address where there is no credential
//! (docs/reference/limits.md).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Response};
use callboard_domain::access::{Account, Caller};
use callboard_domain::id::Slot;
use callboard_domain::rate::{Exceeded, Quotas, SlidingLog, Status, Tier, network};
use callboard_domain::{Error, Timestamp};

/// The parts of the map, each with a lock of its own.
const PARTS: usize = 16;
/// The most callers that a part remembers before it forgets the idle ones.
const TIDY_AT: usize = 4_096;

/// The account or address for which requests are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Counted {
    /// All sessions of a user in a project, or one key.
    Account(Slot, Account),
    /// A caller from this address without a valid credential.
    Address(IpAddr),
}

impl From<&Caller> for Counted {
    fn from(caller: &Caller) -> Self {
        Self::Account(caller.environment.slot(), caller.account)
    }
}

impl Counted {
    /// The project whose caller it is.
    pub(super) const fn project(self) -> Option<Slot> {
        match self {
            Self::Account(project, _) => Some(project),
            Self::Address(_) => None,
        }
    }

    /// The network of an address: the address itself, or the /64 of one of version 6.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        Self::Address(network(address))
    }
}

/// The logs of all callers.
#[derive(Debug)]
pub struct Limiter {
    quotas: RwLock<Quotas>,
    parts: [Mutex<HashMap<Counted, SlidingLog>>; PARTS],
    hasher: RandomState,
}

impl Limiter {
    /// Limits under which no request was counted yet.
    #[must_use]
    pub fn new(quotas: Quotas) -> Self {
        let parts = std::array::from_fn(|_| Mutex::default());
        Self { quotas: RwLock::new(quotas), parts, hasher: RandomState::new() }
    }

    /// The tiers have other quotas from now on.
    pub(crate) fn set_quotas(&self, quotas: Quotas) {
        *self.quotas.write().unwrap_or_else(PoisonError::into_inner) = quotas;
    }

    fn requests_of(&self, tier: Option<Tier>) -> u32 {
        self.quotas.read().unwrap_or_else(PoisonError::into_inner).of(tier).requests
    }

    /// Counts a request, or refuses it without counting.
    ///
    /// # Errors
    /// [`Exceeded`].
    pub fn admit(
        &self,
        who: Counted,
        tier: Option<Tier>,
        now: Timestamp,
    ) -> Result<Status, Exceeded> {
        let limit = self.requests_of(tier);
        self.with_log(who, now, |log| log.admit(limit, now))
    }

    /// The status of a caller without a credential; counts nothing.
    pub fn standing(&self, who: Counted, now: Timestamp) -> Status {
        let limit = self.requests_of(None);
        let standing = self.with_log(who, now, |log| log.peek(limit, now));
        standing.unwrap_or_else(|exceeded| exceeded.status)
    }

    fn with_log<T>(
        &self,
        who: Counted,
        now: Timestamp,
        ask: impl FnOnce(&mut SlidingLog) -> T,
    ) -> T {
        let part = usize::try_from(self.hasher.hash_one(who) % PARTS as u64).unwrap_or(0);
        let mut logs = self.parts[part].lock().unwrap_or_else(PoisonError::into_inner);
        if logs.len() >= TIDY_AT && !logs.contains_key(&who) {
            logs.retain(|_, log| !log.is_idle(now));
        }
        ask(logs.entry(who).or_default())
    }
}

/// The number of open streams or sockets of each account in a project, or of each address without one, up to a
/// limit.
#[derive(Debug, Clone)]
pub struct OpenLimit {
    what: &'static str,
    limit: Arc<AtomicU32>,
    open: Arc<Mutex<HashMap<Counted, u32>>>,
}

/// An open stream or socket; dropping the permit closes it.
#[derive(Debug)]
pub struct OpenPermit {
    limit: OpenLimit,
    who: Counted,
}

impl OpenLimit {
    /// A counter with nothing open.
    #[must_use]
    pub fn new(what: &'static str, limit: u32) -> Self {
        Self { what, limit: Arc::new(AtomicU32::new(limit)), open: Arc::default() }
    }

    /// Another limit counts from now on; nothing that is open is closed.
    pub(crate) fn set_limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// The number that all accounts and addresses have open.
    #[must_use]
    pub fn count(&self) -> u64 {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().copied().map(u64::from).sum()
    }

    /// Opens a stream or socket for an account or an address.
    ///
    /// # Errors
    /// [`Error::TooManyOpen`] at the limit of the account or address.
    pub fn open(&self, who: impl Into<Counted>) -> Result<OpenPermit, Error> {
        let who = who.into();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(who).or_default();
        let limit = self.limit.load(Ordering::Relaxed);
        if *count >= limit {
            return Err(Error::TooManyOpen { what: self.what, limit });
        }
        *count += 1;
        Ok(OpenPermit { limit: self.clone(), who })
    }
}

impl Drop for OpenPermit {
    fn drop(&mut self) {
        let mut open = self.limit.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.who);
            }
        }
    }
}

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The headers of an answer that [`write`] writes.
pub(super) fn written<T>(response: &Response<T>) -> HeaderMap {
    let headers = response.headers();
    let header = |name: HeaderName| headers.get(&name).map(|value| (name, value.clone()));
    [LIMIT, REMAINING, RESET].into_iter().filter_map(header).collect()
}

/// Writes the three headers that every answer carries.
pub fn write(headers: &mut HeaderMap, status: Status) {
    headers.insert(LIMIT, HeaderValue::from(status.limit));
    headers.insert(REMAINING, HeaderValue::from(status.remaining));
    headers.insert(RESET, HeaderValue::from(status.reset));
}
