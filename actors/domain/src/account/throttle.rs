//! The limit on password attempts: 5 failures a minute per account and 20 per address; past it
//! every attempt is refused for the rest of the minute, a right password too (PROTOCOL.md 7).
//!
//! Attempts run side by side and take a while, so attempts in flight count as failures: otherwise a
//! hundred sent at once would all be admitted before the first has failed. A right password must not
//! be refused because of them, so an attempt that depends on how others end has to wait.
//!
//! Deliberately absent: the waiting itself. Kept in memory only: a restart forgets all failures.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use super::Email;
use crate::Timestamp;
use crate::error::Error;
use crate::rate::{SlidingLog, network};

/// Failures per minute for one account, whether it exists or not.
pub const PER_ACCOUNT: u32 = 5;

/// Failures per minute from one address; an IPv6 network of 64 bits counts as one address.
pub const PER_ADDRESS: u32 = 20;

/// The age at which a permit that was never released no longer counts.
const PERMIT_LIFETIME: Duration = Duration::from_mins(1);

/// The failures of the last minute, per account and per address.
#[derive(Debug, Default)]
pub struct Throttle {
    accounts: HashMap<String, Attempts>,
    addresses: HashMap<IpAddr, Attempts>,
    evict_at: usize,
}

/// Permission for one attempt. Until [`Throttle::release`] it counts as a failure, for at most a
/// minute: a client may leave in the middle of an attempt.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not released blocks other attempts for a minute"]
pub struct Permit {
    account: String,
    address: IpAddr,
    acquired_at: Timestamp,
}

/// The answer to a request for a permit.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// The attempt may start.
    Admitted(Permit),
    /// Ask again once another attempt for this account or address has ended.
    Wait,
    /// Too many failures; [`Error::RateLimited`].
    Refused(Error),
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The password was right, or was never compared.
    Harmless,
    /// The password was wrong, or there is no such user.
    Failed,
}

impl Throttle {
    /// Asks for a permit to try a password for this e-mail from this address.
    pub fn acquire(&mut self, email: &Email, address: IpAddr, now: Timestamp) -> Admission {
        self.evict_idle(now);
        let permit = Permit { account: email.key(), address: network(address), acquired_at: now };
        let account = capacity(self.accounts.get_mut(&permit.account), PER_ACCOUNT, now);
        let from = capacity(self.addresses.get_mut(&permit.address), PER_ADDRESS, now);
        match (account, from) {
            (Capacity::Exceeded(one), Capacity::Exceeded(other)) => {
                Admission::Refused(later(one, other))
            }
            (Capacity::Exceeded(error), _) | (_, Capacity::Exceeded(error)) => {
                Admission::Refused(error)
            }
            (Capacity::InFlight, _) | (_, Capacity::InFlight) => Admission::Wait,
            (Capacity::Free, Capacity::Free) => {
                let account = self.accounts.entry(permit.account.clone()).or_default();
                account.in_flight.push(now);
                let from = self.addresses.entry(permit.address).or_default();
                from.in_flight.push(now);
                Admission::Admitted(permit)
            }
        }
    }

    /// Ends an attempt. A caller that had to wait may ask again.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is good for one attempt")]
    pub fn release(&mut self, permit: Permit, outcome: Outcome, now: Timestamp) {
        if let Some(attempts) = self.accounts.get_mut(&permit.account) {
            attempts.end(&permit, outcome, PER_ACCOUNT, now);
        }
        if let Some(attempts) = self.addresses.get_mut(&permit.address) {
            attempts.end(&permit, outcome, PER_ADDRESS, now);
        }
    }

    /// Drops accounts and addresses without a recent failure or an attempt in flight. All are looked
    /// at only when their number has doubled since the last time, so a call costs little on average.
    fn evict_idle(&mut self, now: Timestamp) {
        if self.accounts.len() + self.addresses.len() < self.evict_at {
            return;
        }
        self.accounts.retain(|_, attempts| !attempts.is_idle(now));
        self.addresses.retain(|_, attempts| !attempts.is_idle(now));
        self.evict_at = 2 * (self.accounts.len() + self.addresses.len()) + 64;
    }
}

#[derive(Debug, Default)]
struct Attempts {
    failed: SlidingLog,
    /// The times at which the permits of the attempts in flight were acquired.
    in_flight: Vec<Timestamp>,
}

/// The capacity of one account or address for another attempt.
enum Capacity {
    Free,
    /// None is left if the attempts in flight fail.
    InFlight,
    Exceeded(Error),
}

fn capacity(attempts: Option<&mut Attempts>, limit: u32, now: Timestamp) -> Capacity {
    let Some(attempts) = attempts else {
        return Capacity::Free;
    };
    match attempts.failed.peek(limit, now) {
        Err(exceeded) => Capacity::Exceeded(exceeded.into()),
        Ok(left) if attempts.in_flight_at(now) >= left.remaining as usize => Capacity::InFlight,
        Ok(_) => Capacity::Free,
    }
}

impl Attempts {
    /// The number of attempts in flight, without those whose permits were lost.
    fn in_flight_at(&mut self, now: Timestamp) -> usize {
        self.in_flight.retain(|at| *at <= now && now.since(*at) < PERMIT_LIFETIME);
        self.in_flight.len()
    }

    fn end(&mut self, permit: &Permit, outcome: Outcome, limit: u32, now: Timestamp) {
        if let Some(index) = self.in_flight.iter().position(|at| *at == permit.acquired_at) {
            self.in_flight.swap_remove(index);
        }
        match outcome {
            Outcome::Harmless => {}
            Outcome::Failed => {
                // The log has room, unless a permit that counted as lost is released late; the log
                // is full then, which is all that the failure could have added.
                let _ = self.failed.admit(limit, now);
            }
        }
    }

    fn is_idle(&mut self, now: Timestamp) -> bool {
        self.in_flight_at(now) == 0 && self.failed.is_idle(now)
    }
}

/// The refusal with the longer wait.
fn later(one: Error, other: Error) -> Error {
    match (&one, &other) {
        (Error::RateLimited { retry_after: a, .. }, Error::RateLimited { retry_after: b, .. })
            if b > a =>
        {
            other
        }
        _ => one,
    }
}

#[cfg(test)]
mod tests;
