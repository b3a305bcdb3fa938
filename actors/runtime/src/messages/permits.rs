//! The limits on webhooks that are posted at once: one for all, and one for each host of a project.
//!
//! ```text
//!   take ─▶ room? ──▶ a permit, at once
//!             └ no: the delivery waits as an entry here, without an actor
//!   a permit is dropped ─▶ the next project in turn that has room ─▶ its next host in turn ─▶ the oldest
//!                          delivery to it is sent a permit
//! ```
//!
//! Outputs that are posted take so much memory in all; a long one waits for its share without being read.
//!
//! A slow host holds its own permits and delays no other host, unless so many hosts are slow at once that they hold
//! all that their project may. Other projects have room even then ([`Room`]). A permit travels in the message that wakes
//! the delivery; a drop anywhere frees it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use callboard_domain::id::Slot;
use callboard_domain::share::Room;
use foldhash::{HashMap, HashMapExt};

use crate::kernel::address::DeliveryAddress;
use crate::kernel::directory::Directory;
use crate::kernel::environments::Environments;
use crate::kernel::project_pool::{PoolPermit, ProjectPool};
use crate::messages::delivery::Message;

/// The most webhooks that are posted at once.
const IN_ALL: usize = 128;
/// The most webhooks of a project that are posted at once to one host and port.
const PER_HOST: usize = 8;

/// The most bytes that the outputs that are posted may have in all.
const MEMORY: usize = 128 << 20;
/// The bytes up to which an output needs no share of them.
const SHORT: usize = 64 << 10;

/// The permits, and the deliveries that wait for one.
pub(crate) struct SendPermits {
    turns: Mutex<FairQueue<DeliveryAddress>>,
    environments: Arc<Environments>,
    memory: Arc<ProjectPool>,
    /// The directories of deliveries, one for each shard.
    deliveries: Vec<Arc<Directory<DeliveryAddress, Message>>>,
}

const fn needed(bytes: usize) -> usize {
    if bytes > SHORT { bytes } else { 0 }
}

/// The right to post one webhook to a host.
pub(crate) struct SendPermit {
    project: Slot,
    host: Arc<str>,
    permits: Arc<SendPermits>,
}

impl std::fmt::Debug for SendPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SendPermit").field(&self.host).finish()
    }
}

impl SendPermits {
    pub(crate) fn new(
        deliveries: Vec<Arc<Directory<DeliveryAddress, Message>>>,
        environments: Arc<Environments>,
    ) -> Arc<Self> {
        let turns = Mutex::new(FairQueue::new(IN_ALL, PER_HOST));
        let memory = ProjectPool::new(MEMORY, Arc::clone(&environments));
        Arc::new(Self { turns, environments, memory, deliveries })
    }

    /// The share of memory that an output of this length needs; `None` if the output has to wait.
    pub(crate) fn try_share(&self, project: Slot, bytes: usize) -> Option<PoolPermit> {
        self.memory.try_take(project, needed(bytes))
    }

    /// The share of memory that an output of this length needs, once it is free.
    pub(crate) async fn share(&self, project: Slot, bytes: usize) -> PoolPermit {
        self.memory.take(project, needed(bytes)).await
    }

    /// A permit for `host`; if there is none, the delivery is sent one in its turn.
    pub(crate) fn take(
        self: &Arc<Self>,
        host: &str,
        delivery: DeliveryAddress,
    ) -> Option<SendPermit> {
        let project = delivery.environment.slot();
        let host = self.turns().take(self.rooms(), (project, host), delivery)?;
        Some(SendPermit { project, host, permits: Arc::clone(self) })
    }

    fn rooms(&self) -> impl Fn(Slot, usize) -> Room {
        |project, free| self.environments.room(project, free)
    }

    fn turns(&self) -> MutexGuard<'_, FairQueue<DeliveryAddress>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SendPermit {
    fn drop(&mut self) {
        // The lock is free again before any waiter is notified.
        let next = self.permits.turns().give_back(self.permits.rooms(), self.project, &self.host);
        for (project, host, address) in next {
            let permit = Self { project, host, permits: Arc::clone(&self.permits) };
            let deliveries = &self.permits.deliveries;
            let shard = usize::from(address.delivery.partition()) % deliveries.len();
            deliveries[shard].send(address, Message::Permitted(permit));
        }
    }
}

/// The held permits, and the waiting deliveries by project and host, in the order of their arrival.
struct FairQueue<A> {
    free: usize,
    per_host: usize,
    projects: HashMap<Slot, Project<A>>,
    /// Projects with such hosts, each once.
    next: VecDeque<Slot>,
}

struct Project<A> {
    held: usize,
    hosts: HashMap<Arc<str>, Host<A>>,
    /// Hosts with room and with a waiting delivery, each once.
    next: VecDeque<Arc<str>>,
}

struct Host<A> {
    held: usize,
    waiting: VecDeque<A>,
}

impl<A> FairQueue<A> {
    fn new(in_all: usize, per_host: usize) -> Self {
        Self { free: in_all, per_host, projects: HashMap::new(), next: VecDeque::new() }
    }

    /// The host's name if there is a permit; otherwise `who` waits. `room` is a project's among so many.
    fn take(
        &mut self,
        room: impl Fn(Slot, usize) -> Room,
        (slot, host): (Slot, &str),
        who: A,
    ) -> Option<Arc<str>> {
        let room = room(slot, self.free);
        let project = self.projects.entry(slot).or_insert_with(Project::new);
        let name = match project.hosts.get_key_value(host) {
            Some((name, _)) => Arc::clone(name),
            None => host.into(),
        };
        let entry = project.hosts.entry(Arc::clone(&name));
        let entry = entry.or_insert_with(|| Host { held: 0, waiting: VecDeque::new() });
        let has_host_room = entry.held < self.per_host;
        if has_host_room && entry.waiting.is_empty() && room.fits(project.held, 1) {
            self.free -= 1;
            project.held += 1;
            entry.held += 1;
            return Some(name);
        }
        entry.waiting.push_back(who);
        if has_host_room && entry.waiting.len() == 1 {
            project.next.push_back(name);
            if project.next.len() == 1 {
                self.next.push_back(slot);
            }
        }
        None
    }

    /// Takes a permit back; names the hosts and the deliveries that permits go to now.
    fn give_back(
        &mut self,
        room: impl Fn(Slot, usize) -> Room,
        slot: Slot,
        host: &Arc<str>,
    ) -> Vec<(Slot, Arc<str>, A)> {
        self.free += 1;
        if let Some(project) = self.projects.get_mut(&slot) {
            let was_waiting = !project.next.is_empty();
            project.give_back(host, self.per_host);
            if !was_waiting && !project.next.is_empty() {
                self.next.push_back(slot);
            }
            if project.hosts.is_empty() {
                self.projects.remove(&slot);
            }
        }
        self.grant(room)
    }

    /// Gives the permits that are free to those who wait.
    fn grant(&mut self, room: impl Fn(Slot, usize) -> Room) -> Vec<(Slot, Arc<str>, A)> {
        let (mut granted, mut without_room) = (Vec::new(), 0);
        while without_room < self.next.len() {
            let Some(slot) = self.next.pop_front() else { break };
            let Some(project) = self.projects.get_mut(&slot) else { continue };
            if !room(slot, self.free).fits(project.held, 1) {
                self.next.push_back(slot);
                without_room += 1;
                continue;
            }
            without_room = 0;
            if let Some((host, who)) = project.grant(self.per_host) {
                self.free -= 1;
                granted.push((slot, host, who));
            }
            if !project.next.is_empty() {
                self.next.push_back(slot);
            }
        }
        granted
    }
}

impl<A> Project<A> {
    fn new() -> Self {
        Self { held: 0, hosts: HashMap::new(), next: VecDeque::new() }
    }

    fn give_back(&mut self, host: &Arc<str>, per_host: usize) {
        self.held -= 1;
        let Some(entry) = self.hosts.get_mut(host) else { return };
        entry.held -= 1;
        if entry.waiting.is_empty() {
            if entry.held == 0 {
                self.hosts.remove(host);
            }
        } else if entry.held + 1 == per_host {
            // The host had no room and so no place in the line.
            self.next.push_back(Arc::clone(host));
        }
    }

    /// Gives a permit to the next host's oldest delivery.
    fn grant(&mut self, per_host: usize) -> Option<(Arc<str>, A)> {
        let name = self.next.pop_front()?;
        let entry = self.hosts.get_mut(&name)?;
        let who = entry.waiting.pop_front()?;
        entry.held += 1;
        self.held += 1;
        if entry.held < per_host && !entry.waiting.is_empty() {
            self.next.push_back(Arc::clone(&name));
        }
        Some((name, who))
    }
}

#[cfg(test)]
mod tests {
    use callboard_domain::share::ProjectWeight;

    use super::*;

    const A: Slot = Slot::DEFAULT;
    const B: Slot = Slot::new(1).expect("a slot");

    /// The room among so many projects of the usual weight.
    fn among(projects: usize) -> impl Fn(Slot, usize) -> Room {
        move |_, free| Room { projects, free, weight: ProjectWeight::default() }
    }

    /// The turns of a server with one project, whose permits are those of hosts.
    struct OfOne(FairQueue<i32>);

    impl OfOne {
        fn take(&mut self, host: &str, who: i32) -> Option<Arc<str>> {
            self.0.take(among(1), (A, host), who)
        }

        fn give_back(&mut self, host: &Arc<str>) -> Option<(Arc<str>, i32)> {
            let mut granted = self.0.give_back(among(1), A, host);
            assert!(granted.len() < 2, "one permit goes to one");
            granted.pop().map(|(_, host, who)| (host, who))
        }
    }

    #[test]
    fn a_host_holds_no_more_than_its_share_and_no_other_waits_for_it() {
        let mut turns = OfOne(FairQueue::new(4, 2));
        let slow: Vec<_> = (0..5).map(|who| turns.take("slow", who).is_some()).collect();
        assert_eq!(slow, [true, true, false, false, false]);
        let other = turns.take("other", 10).expect("there is room for it");
        assert_eq!(turns.give_back(&other), None, "the slow host holds its share");
        assert!(turns.take("other", 11).is_some());
        assert_eq!(turns.give_back(&"slow".into()), Some(("slow".into(), 2)));
    }

    #[test]
    fn hosts_take_turns_when_all_permits_are_held() {
        let mut turns = OfOne(FairQueue::new(2, 2));
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
        let mut turns = OfOne(FairQueue::new(5, 2));
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
        let turns = turns.0;
        assert!(turns.projects.is_empty() && turns.next.is_empty() && turns.free == 5);
    }

    #[test]
    fn a_project_with_many_slow_hosts_leaves_permits_for_another_one() {
        let mut turns = FairQueue::new(128, 8);
        let flood: Vec<_> = (0..10_000)
            .filter_map(|who| turns.take(among(2), (A, &format!("h{who}")), who))
            .collect();
        assert_eq!(flood.len(), 96);
        let of_b: Vec<_> = (0..8).filter_map(|who| turns.take(among(2), (B, "h0"), who)).collect();
        assert_eq!(of_b.len(), 8, "the host of another project is not slow");
        assert!(turns.take(among(2), (B, "h0"), 8).is_none());
        let next = turns.give_back(among(2), A, &flood[0]);
        assert_eq!(next, [], "A holds more than its share now");
        assert_eq!(turns.give_back(among(2), B, &of_b[0]), [(B, "h0".into(), 8)]);
    }

    #[test]
    fn what_a_project_with_more_than_its_share_gives_back_goes_to_the_other() {
        let mut turns = FairQueue::new(128, 128);
        let mut of_a: Vec<_> =
            (0..200).filter_map(|who| turns.take(among(2), (A, "a"), who)).collect();
        let of_b: Vec<_> = (0..200).filter_map(|who| turns.take(among(2), (B, "b"), who)).collect();
        assert_eq!((of_a.len(), of_b.len(), turns.free), (96, 24, 8));
        let granted: Vec<_> =
            of_a.drain(..50).flat_map(|host| turns.give_back(among(2), A, &host)).collect();
        let (to_a, to_b) = granted.iter().partition::<Vec<_>, _>(|(slot, ..)| *slot == A);
        let (a, b) = (96 - 50 + to_a.len(), 24 + to_b.len());
        assert!(a.abs_diff(b) <= 2 && a + b + turns.free == 128, "equal shares: {a}, {b}");
    }
}
