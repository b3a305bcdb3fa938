//! The limits on webhooks that are posted at once: one for all, one for each host.
//!
//! ```text
//!   take ─▶ free? ──▶ a permit, at once
//!             └ no: the delivery waits as an entry here, without an actor
//!   a permit is dropped ─▶ the next host in turn ─▶ its oldest delivery is sent a permit
//! ```
//!
//! Outputs that are posted take so much memory in all; a long one waits for its share without being read.
//!
//! A slow host holds its own permits and delays no other host, unless so many hosts are slow at once that they hold
//! all of them. A permit travels in the message that wakes the delivery; a drop anywhere frees it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::{HashMap, HashMapExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::kernel::address::DeliveryAddress;
use crate::kernel::directory::Directory;
use crate::messages::delivery::Message;

/// The most webhooks that are posted at once.
const IN_ALL: usize = 128;
/// The most webhooks that are posted at once to one host and port.
const PER_HOST: usize = 8;

/// The most KiB that the outputs that are posted may have in all.
const KIB: usize = 128 << 10;
/// The bytes up to which an output needs no share of them.
const SHORT: usize = 64 << 10;

/// The permits, and the deliveries that wait for one.
pub(crate) struct SendPermits {
    turns: Mutex<Turns<DeliveryAddress>>,
    memory: Arc<Semaphore>,
    /// The directories of deliveries, one for each shard.
    deliveries: Vec<Arc<Directory<DeliveryAddress, Message>>>,
}

/// A share of the memory of outputs that are posted.
pub(crate) type Share = OwnedSemaphorePermit;

fn kib(bytes: usize) -> u32 {
    let kib = if bytes > SHORT { bytes.div_ceil(1 << 10).min(KIB) } else { 0 };
    u32::try_from(kib).unwrap_or(u32::MAX)
}

/// The right to post one webhook to a host.
pub(crate) struct SendPermit {
    host: Arc<str>,
    permits: Arc<SendPermits>,
}

impl std::fmt::Debug for SendPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SendPermit").field(&self.host).finish()
    }
}

impl SendPermits {
    pub(crate) fn new(deliveries: Vec<Arc<Directory<DeliveryAddress, Message>>>) -> Arc<Self> {
        let turns = Mutex::new(Turns::new(IN_ALL, PER_HOST));
        Arc::new(Self { turns, memory: Arc::new(Semaphore::new(KIB)), deliveries })
    }

    /// The share of memory that an output of this length needs; `None` if the output has to wait.
    pub(crate) fn try_share(&self, bytes: usize) -> Option<Share> {
        Arc::clone(&self.memory).try_acquire_many_owned(kib(bytes)).ok()
    }

    /// The share of memory that an output of this length needs, once it is free.
    pub(crate) async fn share(&self, bytes: usize) -> Share {
        let share = Arc::clone(&self.memory).acquire_many_owned(kib(bytes)).await;
        share.expect("it is never closed")
    }

    /// A permit for `host`; if there is none, the delivery is sent one in its turn.
    pub(crate) fn take(
        self: &Arc<Self>,
        host: &str,
        delivery: DeliveryAddress,
    ) -> Option<SendPermit> {
        let host = self.turns().take(host, delivery)?;
        Some(SendPermit { host, permits: Arc::clone(self) })
    }

    fn turns(&self) -> MutexGuard<'_, Turns<DeliveryAddress>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        // The lock is free again before any waiter is notified.
        let next = self.permits.turns().give_back(&self.host);
        if let Some((host, address)) = next {
            let permit = Self { host, permits: Arc::clone(&self.permits) };
            let deliveries = &self.permits.deliveries;
            let shard = usize::from(address.delivery.partition()) % deliveries.len();
            deliveries[shard].send(address, Message::Permitted(permit));
        }
    }
}

/// The held permits, and the waiting deliveries by host, in the order of their arrival.
struct Turns<A> {
    free: usize,
    per_host: usize,
    hosts: HashMap<Arc<str>, Host<A>>,
    /// Hosts with room and with a waiting delivery, each once.
    next: VecDeque<Arc<str>>,
}

struct Host<A> {
    held: usize,
    waiting: VecDeque<A>,
}

impl<A> Turns<A> {
    fn new(in_all: usize, per_host: usize) -> Self {
        Self { free: in_all, per_host, hosts: HashMap::new(), next: VecDeque::new() }
    }

    /// The host's name if there is a permit; otherwise `who` waits.
    fn take(&mut self, host: &str, who: A) -> Option<Arc<str>> {
        let name = match self.hosts.get_key_value(host) {
            Some((name, _)) => Arc::clone(name),
            None => host.into(),
        };
        let entry = self.hosts.entry(Arc::clone(&name));
        let entry = entry.or_insert_with(|| Host { held: 0, waiting: VecDeque::new() });
        if self.free > 0 && entry.held < self.per_host && entry.waiting.is_empty() {
            self.free -= 1;
            entry.held += 1;
            return Some(name);
        }
        entry.waiting.push_back(who);
        if entry.held < self.per_host && entry.waiting.len() == 1 {
            self.next.push_back(name);
        }
        None
    }

    /// Takes a permit back; names the host and the delivery that it goes to.
    fn give_back(&mut self, host: &Arc<str>) -> Option<(Arc<str>, A)> {
        self.free += 1;
        if let Some(entry) = self.hosts.get_mut(host) {
            entry.held -= 1;
            if entry.waiting.is_empty() {
                if entry.held == 0 {
                    self.hosts.remove(host);
                }
            } else if entry.held + 1 == self.per_host {
                // The host had no room and so no place in the line.
                self.next.push_back(Arc::clone(host));
            }
        }
        let name = self.next.pop_front()?;
        let entry = self.hosts.get_mut(&name)?;
        let who = entry.waiting.pop_front()?;
        entry.held += 1;
        self.free -= 1;
        if entry.held < self.per_host && !entry.waiting.is_empty() {
            self.next.push_back(Arc::clone(&name));
        }
        Some((name, who))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_holds_no_more_than_its_share_and_no_other_waits_for_it() {
        let mut turns = Turns::new(4, 2);
        let slow: Vec<_> = (0..5).map(|who| turns.take("slow", who).is_some()).collect();
        assert_eq!(slow, [true, true, false, false, false]);
        let other = turns.take("other", 10).expect("there is room for it");
        assert_eq!(turns.give_back(&other), None, "the slow host holds its share");
        assert!(turns.take("other", 11).is_some());
        assert_eq!(turns.give_back(&"slow".into()), Some(("slow".into(), 2)));
    }

    #[test]
    fn hosts_take_turns_when_all_permits_are_held() {
        let mut turns = Turns::new(2, 2);
        let first = turns.take("a", 0).expect("the first");
        turns.take("a", 1).expect("the second");
        for (host, who) in [("b", 2), ("b", 3), ("c", 4)] {
            assert!(turns.take(host, who).is_none());
        }
        let order: Vec<_> =
            (0..2).map(|_| turns.give_back(&first).expect("somebody waits").1).collect();
        assert_eq!(order, [2, 4]);
        assert_eq!(turns.give_back(&"c".into()), Some(("b".into(), 3)));
    }

    #[test]
    fn any_order_of_takes_and_returns_keeps_the_limits_and_loses_nobody() {
        // A small generator: the order is what matters.
        let mut seed = 1_u64;
        let mut chance = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut turns = Turns::new(5, 2);
        let (mut held, mut sent, mut asked) = (Vec::new(), Vec::new(), 0);
        for _ in 0..20_000 {
            if chance(2) == 0 && asked < 5_000 {
                let host = format!("h{}", chance(4));
                if let Some(host) = turns.take(&host, asked) {
                    held.push(host);
                    sent.push(asked);
                }
                asked += 1;
            } else if !held.is_empty() {
                let at = usize::try_from(chance(held.len() as u64)).expect("small");
                let host = held.swap_remove(at);
                if let Some((host, who)) = turns.give_back(&host) {
                    held.push(host);
                    sent.push(who);
                }
            }
            assert!(held.len() <= 5);
            for host in ["h0", "h1", "h2", "h3"] {
                assert!(held.iter().filter(|held| &***held == host).count() <= 2);
            }
        }
        while let Some(host) = held.pop() {
            if let Some((host, who)) = turns.give_back(&host) {
                held.push(host);
                sent.push(who);
            }
        }
        sent.sort_unstable();
        assert_eq!(sent, (0..asked).collect::<Vec<_>>());
        assert!(turns.hosts.is_empty() && turns.next.is_empty() && turns.free == 5);
    }
}
