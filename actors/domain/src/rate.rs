//! Request quotas: the requests that an account may make in 60 seconds, and the number of its tasks that
//! may run at once (docs/reference/limits.md).
//!
//! A sliding log: every admitted request counts for 60 seconds, so no span of 60 seconds ever holds
//! more requests than the limit, which fixed windows do not achieve. Requests of one millisecond
//! share an entry, so a log has at most 60,000 entries however high the limit.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

use crate::Timestamp;
use crate::error::Error;
use crate::names::names;

/// The age at which a request no longer counts, in milliseconds.
pub const WINDOW_MS: u64 = 60_000;

names! {
    /// The billing tier of an account; `plan` on the wire and in the settings.
    Tier {
        /// 60 requests a minute, 5 tasks at once.
        Free = "free",
        /// 300 requests a minute, 50 tasks at once.
        Pro = "pro",
        /// 1000 requests a minute, any number of tasks at once.
        Enterprise = "enterprise",
    }
}

/// The rights of each account of a tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests in any 60 seconds.
    pub requests: u32,
    /// Tasks that run at the same time; `None` means any number.
    pub concurrent_tasks: Option<u32>,
}

/// The quota of each tier; the default is the table of docs/reference/limits.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// The quota of [`Tier::Free`].
    pub free: Quota,
    /// The quota of [`Tier::Pro`].
    pub pro: Quota,
    /// The quota of [`Tier::Enterprise`].
    pub enterprise: Quota,
    /// The tier of an account that has none of its own.
    pub default: Tier,
}

impl Default for Quotas {
    fn default() -> Self {
        let quota = |requests, concurrent_tasks| Quota { requests, concurrent_tasks };
        let (free, pro) = (quota(60, Some(5)), quota(300, Some(50)));
        Self { free, pro, enterprise: quota(1000, None), default: Tier::Enterprise }
    }
}

impl Quotas {
    /// The quota of an account of this tier.
    #[must_use]
    pub fn of(&self, tier: Option<Tier>) -> Quota {
        match tier.unwrap_or(self.default) {
            Tier::Free => self.free,
            Tier::Pro => self.pro,
            Tier::Enterprise => self.enterprise,
        }
    }
}

/// The values of the `X-RateLimit-` headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Requests in any 60 seconds.
    pub limit: u32,
    /// The number of further requests that would be admitted now.
    pub remaining: u32,
    /// The time at which the oldest counted request stops counting, in seconds of Unix time, rounded
    /// up; now if no request counts.
    pub reset: u64,
}

/// A refused request; the log does not count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The header values; `remaining` is 0.
    pub status: Status,
    /// The wait until a request is admitted again, in whole seconds, 1 to 60.
    pub retry_after: u64,
}

impl From<Exceeded> for Error {
    fn from(exceeded: Exceeded) -> Self {
        Self::RateLimited { limit: exceeded.status.limit, retry_after: exceeded.retry_after }
    }
}

/// The part of an address that counts: all of an IPv4 address, also one mapped into IPv6, and the
/// first 64 bits of an IPv6 address, because the owner of one address has its whole network.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let bits = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    }
}

/// The admitted requests of one account within the last 60 seconds.
///
/// If the clock goes back, counted requests keep their age: no request is admitted early, and none
/// is refused for longer than 60 seconds.
#[derive(Debug, Clone, Default)]
pub struct SlidingLog {
    /// Oldest first, by the log's own time, which never goes back.
    entries: VecDeque<Entry>,
    /// The sum of the entries' requests.
    counted: u64,
    /// The milliseconds by which the log's own time is ahead of the clock.
    ahead: u64,
}

/// The place of a request in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u64);

/// The requests of one millisecond.
#[derive(Debug, Clone, Copy)]
struct Entry {
    at: u64,
    requests: u32,
}

impl SlidingLog {
    /// Admits and counts a request at `now`, if fewer than `limit` requests count; returns the
    /// status after the request. The limit may differ from call to call.
    ///
    /// # Errors
    /// [`Exceeded`]; nothing is counted.
    pub fn admit(&mut self, limit: u32, now: Timestamp) -> Result<Status, Exceeded> {
        self.peek(limit, now)?;
        let at = self.own_time(now);
        match self.entries.back_mut() {
            Some(entry) if entry.at == at => entry.requests += 1,
            Some(_) | None => self.entries.push_back(Entry { at, requests: 1 }),
        }
        self.counted += 1;
        Ok(self.status(limit, at))
    }

    /// Counts a request under any limit; returns its place in the log, for [`Self::withdraw`].
    pub fn count(&mut self, now: Timestamp) -> Place {
        // No log has so many requests in a minute.
        let _ = self.admit(u32::MAX, now);
        Place(self.entries.back().map_or(0, |newest| newest.at))
    }

    /// Takes back a request that came to nothing, unless it counts no more.
    pub fn withdraw(&mut self, Place(at): Place) {
        let Ok(index) = self.entries.binary_search_by_key(&at, |entry| entry.at) else { return };
        self.counted -= 1;
        self.entries[index].requests -= 1;
        if self.entries[index].requests == 0 {
            self.entries.remove(index);
        }
    }

    /// The status at `now`; counts nothing.
    ///
    /// # Errors
    /// [`Exceeded`], if [`Self::admit`] would refuse a request.
    pub fn peek(&mut self, limit: u32, now: Timestamp) -> Result<Status, Exceeded> {
        let at = self.own_time(now);
        self.evict(at);
        let status = self.status(limit, at);
        if status.remaining > 0 {
            return Ok(status);
        }
        let wait = self.free_at(limit).map_or(WINDOW_MS, |free| free - at);
        Err(Exceeded { status, retry_after: wait.div_ceil(1000).max(1) })
    }

    /// True if no request counts at `now`, so that the log can be dropped.
    #[must_use]
    pub fn is_idle(&self, now: Timestamp) -> bool {
        let at = now.as_millis().saturating_add(self.ahead);
        self.entries.back().is_none_or(|newest| newest.at + WINDOW_MS <= at)
    }

    /// The log's own time at `now`: the clock, unless the clock went back behind the newest entry;
    /// then the log's time stands still at that entry and runs on from there.
    fn own_time(&mut self, now: Timestamp) -> u64 {
        let now = now.as_millis();
        let newest = self.entries.back().map_or(0, |entry| entry.at);
        if self.entries.is_empty() {
            self.ahead = 0;
        } else if now + self.ahead < newest {
            self.ahead = newest - now;
        }
        now + self.ahead
    }

    fn evict(&mut self, at: u64) {
        while let Some(oldest) = self.entries.front()
            && oldest.at + WINDOW_MS <= at
        {
            self.counted -= u64::from(oldest.requests);
            self.entries.pop_front();
        }
    }

    fn status(&self, limit: u32, at: u64) -> Status {
        let left = u64::from(limit).saturating_sub(self.counted);
        let free = self.entries.front().map_or(at, |oldest| oldest.at + WINDOW_MS);
        Status {
            limit,
            remaining: u32::try_from(left).expect("not above the limit"),
            reset: (free - self.ahead).div_ceil(1000),
        }
    }

    /// The time at which fewer than `limit` requests count, if none is added; `None` at a limit of 0.
    fn free_at(&self, limit: u32) -> Option<u64> {
        let mut left = self.counted;
        self.entries.iter().find_map(|entry| {
            left -= u64::from(entry.requests);
            (left < u64::from(limit)).then_some(entry.at + WINDOW_MS)
        })
    }
}

#[cfg(test)]
mod tests;
