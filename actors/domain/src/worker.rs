//! A worker as the server sees it: its announced models, its leases, its status (docs/reference/workers.md).
//!
//! ```text
//!            heard from within silent_after   silent, leases still run     all leases ran out
//!   Active ─────────────────────────────────▶ gets no new work ──────────▶ Lost
//!     │ drain                                        │ heard from again
//!     ▼                                              ▼
//!   Draining: gets no new work, finishes           Active
//! ```
//!
//! Leases fence by comparison, never by time: a lease that ran out here is only a reason to notify its
//! task. Instants are of a monotonic clock, so that a jump of the wall clock loses no worker.
//! Deliberately absent: the socket, and durability (after a restart the runtime adopts the leases of
//! the running tasks).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::access::Caller;
use crate::function::{Announced, Work};
use crate::id::{TaskId, WorkerId};
use crate::names::names;
use crate::task::LeaseToken;

#[cfg(test)]
mod tests;
mod unserved;

pub use unserved::unserved;

/// An instant of a monotonic clock, in milliseconds since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// The instant `duration` later, in whole milliseconds.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time since the clock began.
    #[must_use]
    pub const fn elapsed(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

/// The content of a worker's `register` frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// A name for people.
    pub name: String,
    /// The version of the worker program.
    pub version: String,
    /// The queues that the worker serves.
    pub queues: Vec<String>,
    /// The models that the worker runs: exact names, prefixes such as `gpt-*`, or `*`.
    pub models: Vec<String>,
    /// The functions that the worker runs. Shared, because their schemas may be long.
    pub functions: Arc<[Announced]>,
    /// The most leases that the worker may hold at once.
    pub concurrency: usize,
}

impl Profile {
    /// True if the worker announced the work of this model: the model by name or by prefix, or the function.
    #[must_use]
    pub fn runs(&self, model: &str) -> bool {
        if let Work::Function(name) = Work::of(model) {
            return self.functions.iter().any(|known| known.is_of(name));
        }
        self.models.iter().any(|known| match known.strip_suffix('*') {
            Some(prefix) => model.starts_with(prefix),
            None => known == model,
        })
    }

    /// True if the worker runs this model and serves this queue.
    #[must_use]
    pub fn takes(&self, model: &str, queue: &str) -> bool {
        self.queues.iter().any(|known| known == queue) && self.runs(model)
    }
}

/// The most queues or models that one worker may name, and the most queues of a key.
pub const MAX_NAMES: usize = 256;

/// The workers whose confidence may pass a gate (`[worker] trust_confidence`). The confidence of any
/// other counts as missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfidenceTrust {
    /// Every worker.
    All,
    /// No worker.
    None,
    /// The workers whose key has one of these names or ids.
    Only(Vec<String>),
}

impl ConfidenceTrust {
    /// True if the confidence of a worker with this key counts; a user is known by e-mail or id.
    #[must_use]
    pub fn includes(&self, caller: &Caller) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Only(keys) => {
                let id = caller.account.to_string();
                keys.iter().any(|key| *key == caller.name || *key == id)
            }
        }
    }
}

/// The time limits of leases and of silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasePolicy {
    /// The duration of a lease, unless a heartbeat renews it.
    pub lease: Duration,
    /// The silence after which a worker gets no new work.
    pub silent_after: Duration,
}

names! {
    /// The status of a worker in lists.
    Status {
        /// The worker gets work, or will once the server hears from it again.
        Active = "active",
        /// The worker finishes its leases and gets no new ones.
        Draining = "draining",
        /// The worker was silent until its last lease ran out.
        Lost = "lost",
    }
}

/// The answer to a heartbeat or a resumption.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leases {
    /// Leases that have their full duration again.
    pub renewed: Vec<LeaseToken>,
    /// Leases that are over: a result under one of them changes nothing.
    pub lost: Vec<LeaseToken>,
}

/// The leases of a worker that reconnected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resumed {
    /// The answer for the leases that the worker named.
    pub leases: Leases,
    /// Leases that the worker held and no longer names: their tasks are queued again, and each
    /// counts as a loss.
    pub dropped: Vec<LeaseToken>,
    /// Leases given out before a restart of the server that the worker has never named: the
    /// assignment was lost with the server. The tasks are queued again, and no loss counts.
    pub undelivered: Vec<LeaseToken>,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    expires: Monotonic,
    /// True for a lease given out before a restart, and not named by the worker since.
    unconfirmed: bool,
}

/// A worker and its leases.
#[derive(Debug, Clone)]
pub struct Worker {
    /// The identifier, kept over reconnections.
    pub id: WorkerId,
    /// The worker's own description; `None` between a restart of the server and its return.
    pub profile: Option<Profile>,
    policy: LeasePolicy,
    connected: bool,
    draining: bool,
    last_heard: Monotonic,
    leases: BTreeMap<LeaseToken, Lease>,
}

impl Worker {
    /// A worker that has just connected; without a profile, a worker whose leases were found at a
    /// restart and that may reconnect.
    #[must_use]
    pub fn new(
        id: WorkerId,
        profile: Option<Profile>,
        policy: LeasePolicy,
        now: Monotonic,
    ) -> Self {
        let connected = profile.is_some();
        Self {
            id,
            profile,
            policy,
            connected,
            draining: false,
            last_heard: now,
            leases: BTreeMap::new(),
        }
    }

    /// Notes a frame of any kind from the worker.
    pub fn heard(&mut self, now: Monotonic) {
        self.last_heard = self.last_heard.max(now);
    }

    /// Gives the worker a new lease for the full duration.
    pub fn assign(&mut self, lease: LeaseToken, now: Monotonic) {
        let expires = now.after(self.policy.lease);
        self.leases.insert(lease, Lease { expires, unconfirmed: false });
    }

    /// Takes over a lease from before a restart, for the full duration from now on. The lease stays
    /// unconfirmed until the worker names it.
    pub fn adopt(&mut self, lease: LeaseToken, now: Monotonic) {
        let expires = now.after(self.policy.lease);
        let held = self.leases.entry(lease).or_insert(Lease { expires, unconfirmed: true });
        held.expires = expires;
    }

    /// Ends a lease; true if the worker held it.
    pub fn release(&mut self, lease: LeaseToken) -> bool {
        self.leases.remove(&lease).is_some()
    }

    /// True if the worker holds the lease.
    #[must_use]
    pub fn holds(&self, lease: LeaseToken) -> bool {
        self.leases.contains_key(&lease)
    }

    /// The tasks whose leases the worker holds.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.leases.keys().map(|lease| lease.task)
    }

    /// Answers a heartbeat that names the leases that the worker works on: a lease that it holds is
    /// renewed, any other is lost. A lease that it does not name is not renewed.
    pub fn renew(&mut self, named: &[LeaseToken], now: Monotonic) -> Leases {
        self.heard(now);
        let mut answer = Leases::default();
        for lease in named {
            if let Some(held) = self.leases.get_mut(lease) {
                *held = Lease { expires: now.after(self.policy.lease), unconfirmed: false };
                answer.renewed.push(*lease);
            } else {
                answer.lost.push(*lease);
            }
        }
        answer
    }

    /// Answers a registration on a new connection that names the leases that the worker works on.
    /// The worker loses the leases that it does not name.
    pub fn resume(&mut self, profile: Profile, named: &[LeaseToken], now: Monotonic) -> Resumed {
        self.profile = Some(profile);
        self.connected = true;
        self.draining = false;
        let mut resumed = Resumed { leases: self.renew(named, now), ..Resumed::default() };
        self.leases.retain(|lease, held| {
            let named = resumed.leases.renewed.contains(lease);
            if !named {
                let over =
                    if held.unconfirmed { &mut resumed.undelivered } else { &mut resumed.dropped };
                over.push(*lease);
            }
            named
        });
        resumed
    }

    /// Notes the end of the connection. The leases run on.
    pub fn disconnect(&mut self) {
        self.connected = false;
    }

    /// Stops new leases until the worker registers again.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// Removes and returns the leases that have run out.
    pub fn expire(&mut self, now: Monotonic) -> Vec<LeaseToken> {
        let mut expired = Vec::new();
        self.leases.retain(|token, lease| {
            let runs = lease.expires > now;
            if !runs {
                expired.push(*token);
            }
            runs
        });
        expired
    }

    /// True if the worker is connected and was heard from within `silent_after`.
    #[must_use]
    pub fn is_reachable(&self, now: Monotonic) -> bool {
        self.connected && now < self.last_heard.after(self.policy.silent_after)
    }

    /// The status in lists.
    #[must_use]
    pub fn status(&self, now: Monotonic) -> Status {
        let silent_too_long = now >= self.last_heard.after(self.policy.lease);
        if silent_too_long && self.leases.is_empty() {
            Status::Lost
        } else if self.draining {
            Status::Draining
        } else {
            Status::Active
        }
    }

    /// True from [`Self::drain`] until the worker registers again.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// The arrival of the worker's last frame.
    #[must_use]
    pub const fn last_heard(&self) -> Monotonic {
        self.last_heard
    }

    /// The number of leases that the worker holds.
    #[must_use]
    pub fn running(&self) -> usize {
        self.leases.len()
    }
}
