//! The limit on password attempts (docs/reference/accounts.md), such that no caller can lock an account for others.
//!
//! ```text
//!   5 failures a minute of one address at one account    that address waits out the minute there
//!   20 failures a minute of one address                  that address waits out the minute everywhere
//!   5 failures a minute at one account, from any         an address that is new to the account waits
//!   addresses, those aside that it is used from          1 s, doubling with each failure, up to 1 min
//! ```
//!
//! The first two limits refuse a right password as well. Under the third, the address comes back
//! after the announced wait and is admitted, independently of other callers: there is no turn
//! that an attacker could take. An address from which the account signed in lately is not new.
//!
//! Attempts run side by side and take a while, so attempts in flight count as failures: otherwise a
//! hundred sent at once would all be admitted before the first has failed. Attempts in flight must not
//! make the limit refuse a right password, so an attempt that depends on their ends has to wait.
//!
//! Deliberately absent: the waiting itself. The counts are kept in memory only: a restart forgets all
//! failures, and every address is new.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use super::Email;
use crate::Timestamp;
use crate::error::Error;
use crate::rate::{SlidingLog, network};

/// Failures per minute for one account, which need not exist.
pub const PER_ACCOUNT: u32 = 5;

/// Failures per minute from one address; an IPv6 network of 64 bits counts as one address.
pub const PER_ADDRESS: u32 = 20;

/// The longest wait of an address that is new to an account.
const MAX_DELAY: Duration = Duration::from_mins(1);

/// The failures at an account beyond which the wait does not grow.
const MAX_PRESSURE: u32 = PER_ACCOUNT + 6;

/// The time in which an account forgets one failure: five a minute.
const FORGETS_ONE: Duration = Duration::from_secs(12);

/// The time for which an address that waited may use the attempt that it waited for.
const USE_WITHIN: Duration = Duration::from_mins(10);

/// The time for which an address is not new to an account after a sign-in.
const KNOWN_FOR: Duration = Duration::from_hours(30 * 24);

/// The addresses that are remembered of one account, the latest.
const MAX_KNOWN: usize = 8;

/// The age at which a permit that was never released no longer counts.
const PERMIT_LIFETIME: Duration = Duration::from_mins(1);

/// The most accounts, addresses, and pairs of the two that are remembered; a further one displaces
/// half of them.
const MAX_ENTRIES: usize = 50_000;

/// The failures of the last minutes.
#[derive(Debug, Default)]
pub struct Throttle {
    pairs: HashMap<Pair, AtAccount>,
    addresses: HashMap<IpAddr, Attempts>,
    accounts: HashMap<String, Account>,
    evict_at: usize,
    evicted_at: Timestamp,
}

/// An account, by its e-mail, and an address.
type Pair = (String, IpAddr);

/// Permission for one attempt. Until [`Throttle::release`] the permit counts as a failure, for at most a
/// minute.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not released blocks other attempts for a minute"]
pub struct Permit {
    pair: Pair,
    acquired_at: Timestamp,
    /// The address was new to the account.
    is_new: bool,
}

/// The answer to a request for a permit.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// The attempt may start.
    Admitted(Permit),
    /// Ask again once another attempt for this account or address has ended.
    Wait,
    /// The limit is reached; [`Error::RateLimited`].
    Refused(Error),
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The password was right.
    Right,
    /// The password was never compared.
    Harmless,
    /// The password was wrong, or there is no such user.
    Failed,
}

/// The limit that a failure has just reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// The limit of one address at one account.
    Pair,
    /// The limit of one address.
    Address,
    /// The limit of one account, for addresses that are new to it.
    Account,
}

impl Throttle {
    /// Asks for a permit to try a password for this e-mail from this address.
    pub fn acquire(&mut self, email: &Email, address: IpAddr, now: Timestamp) -> Admission {
        self.evict(now);
        let pair = (email.key(), network(address));
        let at_account = self.pairs.get_mut(&pair).map(|pair| &mut pair.attempts);
        let at_account = capacity(at_account, PER_ACCOUNT, now);
        let from = capacity(self.addresses.get_mut(&pair.1), PER_ADDRESS, now);
        match (at_account, from) {
            (Capacity::Exceeded(one), Capacity::Exceeded(other)) => {
                return Admission::Refused(later(one, other));
            }
            (Capacity::Exceeded(error), _) | (_, Capacity::Exceeded(error)) => {
                return Admission::Refused(error);
            }
            (Capacity::InFlight, _) | (_, Capacity::InFlight) => return Admission::Wait,
            (Capacity::Free, Capacity::Free) => {}
        }
        let account = self.accounts.entry(pair.0.clone()).or_default();
        let is_new = !account.knows(pair.1, now);
        if is_new {
            let delay = account.delay(now);
            if delay.is_zero() {
                if account.has_room_in_flight(now) {
                    account.in_flight.push(now);
                } else {
                    return Admission::Wait;
                }
            } else if let Err(left) = self.pairs.entry(pair.clone()).or_default().waited(delay, now)
            {
                let retry_after = left.as_millis().div_ceil(1_000).try_into().unwrap_or(u64::MAX);
                return Admission::Refused(Error::RateLimited { limit: PER_ACCOUNT, retry_after });
            }
        }
        self.pairs.entry(pair.clone()).or_default().attempts.in_flight.push(now);
        self.addresses.entry(pair.1).or_default().in_flight.push(now);
        Admission::Admitted(Permit { pair, acquired_at: now, is_new })
    }

    /// Ends an attempt. A caller that had to wait may ask again. Returns the limit that the attempt
    /// reached, if it reached one.
    pub fn release(&mut self, permit: Permit, outcome: Outcome, now: Timestamp) -> Option<Reached> {
        let Permit { pair, acquired_at, is_new } = permit;
        let mut reached = None;
        if let Some(account) = self.accounts.get_mut(&pair.0) {
            take_one(&mut account.in_flight, acquired_at);
            match outcome {
                Outcome::Failed if is_new && account.failed(now) => {
                    reached = Some(Reached::Account);
                }
                Outcome::Right => account.remember(pair.1, now),
                Outcome::Failed | Outcome::Harmless => {}
            }
        }
        if let Some(at_account) = self.pairs.get_mut(&pair)
            && at_account.attempts.end(acquired_at, outcome, PER_ACCOUNT, now)
        {
            reached = Some(Reached::Pair);
        }
        if let Some(attempts) = self.addresses.get_mut(&pair.1)
            && attempts.end(acquired_at, outcome, PER_ADDRESS, now)
        {
            reached = Some(Reached::Address);
        }
        reached
    }

    /// Drops entries without a recent failure or an attempt in flight. All entries are looked at only
    /// once a minute, and when their number has doubled since the last time, so a call costs little on
    /// average.
    fn evict(&mut self, now: Timestamp) {
        let entries = |all: &Self| all.pairs.len() + all.addresses.len() + all.accounts.len();
        if entries(self) >= self.evict_at || now.since(self.evicted_at) >= PERMIT_LIFETIME {
            self.pairs.retain(|_, pair| !pair.is_idle(now));
            self.addresses.retain(|_, attempts| !attempts.is_idle(now));
            self.accounts.retain(|_, account| !account.is_idle(now));
            self.evict_at = 2 * entries(self) + 64;
            self.evicted_at = now;
        }
        make_room(&mut self.pairs, |_| false);
        make_room(&mut self.addresses, |_| false);
        make_room(&mut self.accounts, |account| !account.known.is_empty());
    }
}

/// Forgets every other entry if there are too many; accounts with sign-ins stay.
fn make_room<K: Eq + Hash, V>(entries: &mut HashMap<K, V>, stays: impl Fn(&V) -> bool) {
    if entries.len() >= MAX_ENTRIES {
        let mut turn = false;
        entries.retain(|_, entry| {
            turn = !turn;
            turn || stays(entry)
        });
    }
}

/// One account, as all addresses see it.
#[derive(Debug, Default)]
struct Account {
    /// Failures by addresses that were new, less one for each [`FORGETS_ONE`].
    pressure: u32,
    /// The instant from which on the next failure is being forgotten.
    forgotten_at: Timestamp,
    /// The times at which the permits of new addresses were acquired.
    in_flight: Vec<Timestamp>,
    /// The addresses of the account's sign-ins, with the times; the latest at the end.
    known: Vec<(IpAddr, Timestamp)>,
}

impl Account {
    fn knows(&self, address: IpAddr, now: Timestamp) -> bool {
        self.known.iter().any(|(known, at)| *known == address && now.since(*at) < KNOWN_FOR)
    }

    fn remember(&mut self, address: IpAddr, now: Timestamp) {
        self.known.retain(|(known, _)| *known != address);
        if self.known.len() >= MAX_KNOWN {
            self.known.remove(0);
        }
        self.known.push((address, now));
    }

    /// The failures that still count.
    fn pressure(&mut self, now: Timestamp) -> u32 {
        let step = FORGETS_ONE.as_millis();
        let passed = now.since(self.forgotten_at).as_millis() / step;
        let forgotten = u32::try_from(passed).unwrap_or(u32::MAX);
        self.pressure = self.pressure.saturating_sub(forgotten);
        if self.pressure == 0 || now < self.forgotten_at {
            self.forgotten_at = now;
        } else {
            self.forgotten_at = self.forgotten_at.after(FORGETS_ONE * forgotten);
        }
        self.pressure
    }

    /// The time that a new address has to wait.
    fn delay(&mut self, now: Timestamp) -> Duration {
        match self.pressure(now).checked_sub(PER_ACCOUNT) {
            None => Duration::ZERO,
            Some(more) => Duration::from_secs(1 << more).min(MAX_DELAY),
        }
    }

    /// True if another attempt of a new address may fail without more failures than are allowed.
    fn has_room_in_flight(&mut self, now: Timestamp) -> bool {
        let pressure = self.pressure(now) as usize;
        pressure + in_flight_at(&mut self.in_flight, now) < PER_ACCOUNT as usize
    }

    /// Counts a failure by a new address; true if new addresses wait from this failure on.
    fn failed(&mut self, now: Timestamp) -> bool {
        let before = self.pressure(now);
        self.pressure = (before + 1).min(MAX_PRESSURE);
        self.pressure == PER_ACCOUNT && before < PER_ACCOUNT
    }

    fn is_idle(&mut self, now: Timestamp) -> bool {
        self.known.retain(|(_, at)| now.since(*at) < KNOWN_FOR);
        self.known.is_empty()
            && self.pressure(now) == 0
            && in_flight_at(&mut self.in_flight, now) == 0
    }
}

/// One address at one account.
#[derive(Debug, Default)]
struct AtAccount {
    attempts: Attempts,
    /// The end of the wait; `None` if the address is not new to the account, or has waited.
    waits_until: Option<Timestamp>,
}

impl AtAccount {
    /// Passes if the address has waited, which is good for one attempt; otherwise returns the rest of the
    /// wait.
    fn waited(&mut self, delay: Duration, now: Timestamp) -> Result<(), Duration> {
        match self.waits_until {
            Some(until) if until <= now && now.since(until) < USE_WITHIN => {
                self.waits_until = None;
                Ok(())
            }
            // A clock that went back makes no wait longer.
            Some(until) if now < until && until.since(now) <= MAX_DELAY => Err(until.since(now)),
            Some(_) | None => {
                self.waits_until = Some(now.after(delay));
                Err(delay)
            }
        }
    }

    fn is_idle(&mut self, now: Timestamp) -> bool {
        self.waits_until.is_none_or(|until| now.since(until) >= USE_WITHIN)
            && self.attempts.is_idle(now)
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
        Ok(left) if in_flight_at(&mut attempts.in_flight, now) >= left.remaining as usize => {
            Capacity::InFlight
        }
        Ok(_) => Capacity::Free,
    }
}

/// The number of attempts in flight, without those whose permits were lost.
fn in_flight_at(in_flight: &mut Vec<Timestamp>, now: Timestamp) -> usize {
    in_flight.retain(|at| *at <= now && now.since(*at) < PERMIT_LIFETIME);
    in_flight.len()
}

fn take_one(in_flight: &mut Vec<Timestamp>, acquired_at: Timestamp) {
    if let Some(index) = in_flight.iter().position(|at| *at == acquired_at) {
        in_flight.swap_remove(index);
    }
}

impl Attempts {
    /// True if this failure was the last one that is allowed.
    fn end(
        &mut self,
        acquired_at: Timestamp,
        outcome: Outcome,
        limit: u32,
        now: Timestamp,
    ) -> bool {
        take_one(&mut self.in_flight, acquired_at);
        match outcome {
            Outcome::Right | Outcome::Harmless => false,
            // The log has room, unless a permit that counted as lost is released late; the log
            // is full then, which is all that the failure could have added.
            Outcome::Failed => {
                self.failed.admit(limit, now).is_ok_and(|status| status.remaining == 0)
            }
        }
    }

    fn is_idle(&mut self, now: Timestamp) -> bool {
        in_flight_at(&mut self.in_flight, now) == 0 && self.failed.is_idle(now)
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
