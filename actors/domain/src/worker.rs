//! A worker as the server sees it: what it can run, what it has, whether it is heard of
//! (PROTOCOL.md 11).
//!
//! ```text
//!            heard of within silent_after     silent, leases still run     all leases ran out
//!   Active ─────────────────────────────────▶ gets no new work ──────────▶ Lost
//!     │ drain                                        │ speaks again
//!     ▼                                              ▼
//!   Draining: gets no new work, finishes           Active
//! ```
//!
//! Leases fence by comparison, never by time: a lease that ran out here is only a reason to tell its
//! task. Instants are of a monotonic clock, so that a jump of the wall clock loses no worker.
//! Deliberately absent: the socket, and durability (a restart rebuilds it from the running tasks).

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::WorkerId;
use crate::task::LeaseToken;

#[cfg(test)]
mod tests;

/// An instant of a monotonic clock: milliseconds since the process began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// This instant and `duration`.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// A name for people.
    pub name: String,
    /// Its program's version.
    pub version: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// The models it runs: exact names, prefixes such as `gpt-*`, or `*`.
    pub models: Vec<String>,
    /// How many leases it may hold at once.
    pub concurrency: usize,
}

impl Profile {
    /// Whether it announced `model`.
    #[must_use]
    pub fn runs(&self, model: &str) -> bool {
        self.models.iter().any(|known| match known.strip_suffix('*') {
            Some(prefix) => model.starts_with(prefix),
            None => known == model,
        })
    }
}

/// How long a lease lasts and how long silence is borne.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long a lease lasts unless it is renewed.
    pub lease: Duration,
    /// After how much silence a worker gets no new work.
    pub silent_after: Duration,
}

/// What a worker is called in lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It takes work, or will when it speaks again.
    Active,
    /// It finishes what it has.
    Draining,
    /// It was silent until its leases ran out.
    Lost,
}

impl Status {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Lost => "lost",
        }
    }
}

/// The answer to a heartbeat or a resumption: which leases are held on, which are over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leases {
    /// They have a full term again.
    pub renewed: Vec<LeaseToken>,
    /// They are over: whatever is done under them changes nothing.
    pub lost: Vec<LeaseToken>,
}

/// What a worker comes back to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resumed {
    /// What became of the leases that it named.
    pub leases: Leases,
    /// Its own, and it names them no longer: their tasks go to another, and it counts as lost.
    pub dropped: Vec<LeaseToken>,
    /// They were given out before a restart of the server, and it has never named them: what was to
    /// tell it of them went down with the server. Their tasks go to another, and nothing counts.
    pub undelivered: Vec<LeaseToken>,
}

/// A lease that a worker holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    expires: Moment,
    /// It was given out before a restart, and the worker has not named it since.
    unheard_of: bool,
}

/// One worker.
#[derive(Debug, Clone)]
pub struct Worker {
    /// Its identifier, kept over reconnections.
    pub id: WorkerId,
    /// What it says of itself; unknown between a restart of the server and its return.
    pub profile: Option<Profile>,
    terms: Terms,
    connected: bool,
    draining: bool,
    last_heard: Moment,
    leases: BTreeMap<LeaseToken, Held>,
}

impl Worker {
    /// A worker that has just connected, or, without a profile, one whose leases were found at a
    /// restart and that may come back.
    #[must_use]
    pub fn new(id: WorkerId, profile: Option<Profile>, terms: Terms, now: Moment) -> Self {
        let connected = profile.is_some();
        Self {
            id,
            profile,
            terms,
            connected,
            draining: false,
            last_heard: now,
            leases: BTreeMap::new(),
        }
    }

    /// It said something.
    pub fn heard(&mut self, now: Moment) {
        self.last_heard = self.last_heard.max(now);
    }

    /// A lease is its own from now on, for a full term.
    pub fn assign(&mut self, lease: LeaseToken, now: Moment) {
        let expires = now.after(self.terms.lease);
        self.leases.insert(lease, Held { expires, unheard_of: false });
    }

    /// A lease from before a restart is its own, for a full term from now on. Whether it knows of
    /// the lease shows when it comes back.
    pub fn watch(&mut self, lease: LeaseToken, now: Moment) {
        let expires = now.after(self.terms.lease);
        let held = self.leases.entry(lease).or_insert(Held { expires, unheard_of: true });
        held.expires = expires;
    }

    /// A lease is over; says whether it was held.
    pub fn release(&mut self, lease: LeaseToken) -> bool {
        self.leases.remove(&lease).is_some()
    }

    /// Whether the lease is its own.
    #[must_use]
    pub fn holds(&self, lease: LeaseToken) -> bool {
        self.leases.contains_key(&lease)
    }

    /// It says that it works on `named`: those that are its own get a full term, the others are
    /// lost. A lease that it does not name is not renewed: it does not know of it.
    pub fn renew(&mut self, named: &[LeaseToken], now: Moment) -> Leases {
        self.heard(now);
        let mut answer = Leases::default();
        for lease in named {
            if let Some(held) = self.leases.get_mut(lease) {
                *held = Held { expires: now.after(self.terms.lease), unheard_of: false };
                answer.renewed.push(*lease);
            } else {
                answer.lost.push(*lease);
            }
        }
        answer
    }

    /// It is back on a new connection and works on `named`. Leases that it does not name are its
    /// own no longer.
    pub fn resume(&mut self, profile: Profile, named: &[LeaseToken], now: Moment) -> Resumed {
        self.profile = Some(profile);
        self.connected = true;
        self.draining = false;
        let mut resumed = Resumed { leases: self.renew(named, now), ..Resumed::default() };
        self.leases.retain(|lease, held| {
            let named = resumed.leases.renewed.contains(lease);
            if !named {
                let over =
                    if held.unheard_of { &mut resumed.undelivered } else { &mut resumed.dropped };
                over.push(*lease);
            }
            named
        });
        resumed
    }

    /// Its connection ended. Its leases run on.
    pub fn disconnect(&mut self) {
        self.connected = false;
    }

    /// It takes nothing new from now on.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Takes away the leases that ran out.
    pub fn expire(&mut self, now: Moment) -> Vec<LeaseToken> {
        let over: Vec<_> = self
            .leases
            .iter()
            .filter(|(_, held)| held.expires <= now)
            .map(|(lease, _)| *lease)
            .collect();
        for lease in &over {
            self.leases.remove(lease);
        }
        over
    }

    /// How many more leases it may be given now.
    #[must_use]
    pub fn credit(&self, now: Moment) -> usize {
        if !self.is_reachable(now) || self.draining {
            return 0;
        }
        let concurrency = self.profile.as_ref().map_or(0, |profile| profile.concurrency);
        concurrency.saturating_sub(self.leases.len())
    }

    /// Whether it is connected and was heard of lately.
    #[must_use]
    pub fn is_reachable(&self, now: Moment) -> bool {
        self.connected && now < self.last_heard.after(self.terms.silent_after)
    }

    /// What it is called in lists.
    #[must_use]
    pub fn status(&self, now: Moment) -> Status {
        let silent_too_long = now >= self.last_heard.after(self.terms.lease);
        if silent_too_long && self.leases.is_empty() {
            Status::Lost
        } else if self.draining {
            Status::Draining
        } else {
            Status::Active
        }
    }

    /// Whether its connection stands.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.connected
    }

    /// Whether it takes nothing new.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// When it was heard of last.
    #[must_use]
    pub const fn last_heard(&self) -> Moment {
        self.last_heard
    }

    /// How many leases it holds.
    #[must_use]
    pub fn running(&self) -> usize {
        self.leases.len()
    }
}
