//! The way by which actors find each other, and by which a message wakes one that is passive.
//!
//! ```text
//!   send ─▶ awake?    yes ─▶ its mailbox
//!           starting?  yes ─▶ waits here until it is awake
//!           one pooled? yes ─▶ receives its new address with the message
//!           otherwise      ─▶ waits here, and the supervisor is asked to start it
//! ```
//!
//! An actor that has nothing to do retires: the directory agrees only if the actor has handled everything that was
//! sent to it, so no message is lost between waking and sleeping. Where actors come and go by the thousand, some of
//! the retired are kept in a pool, which saves a start and a way by the supervisor.

use std::collections::{BTreeMap, hash_map};
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use callboard_domain::id::Slot;
use foldhash::HashMap;
use ractor::{ActorId, ActorRef, MessagingErr};

use crate::kernel::address::Address;

/// A message as an actor receives it.
#[derive(Debug)]
pub(crate) enum Mail<A, M> {
    /// By way of the directory.
    Sent(M),
    /// The same, to a pooled actor, which has this address from now on.
    Rebound(A, M),
    /// From the actor itself: the directory has not counted it.
    Own(M),
}

impl<A, M> Mail<A, M> {
    fn into_message(self) -> M {
        match self {
            Self::Sent(message) | Self::Rebound(_, message) | Self::Own(message) => message,
        }
    }
}

/// The way by which an actor sends messages to itself.
#[derive(Debug)]
pub(crate) struct Myself<A, M>(pub(crate) ActorRef<Mail<A, M>>);

impl<A, M> Clone for Myself<A, M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<A: Address, M: ractor::Message> Myself<A, M> {
    /// Sends a message; false if the actor has ended.
    pub(crate) fn tell(&self, message: M) -> bool {
        self.0.cast(Mail::Own(message)).is_ok()
    }

    /// Sends a message once the time has passed.
    pub(crate) fn tell_after(&self, time: Duration, message: fn() -> M) {
        self.0.send_after(time, move || Mail::Own(message()));
    }

    /// Sends a message again and again, as long as the actor lives.
    pub(crate) fn tell_every(&self, time: Duration, message: fn() -> M) {
        self.0.send_interval(time, move || Mail::Own(message()));
    }
}

/// The actors of one kind, by address.
pub(crate) struct Directory<A, M> {
    entries: Mutex<Entries<A, M>>,
    start: OnceLock<Box<dyn Fn(A) + Send + Sync>>,
    /// The most retired actors that are kept for another address.
    max_pooled: usize,
}

struct Entries<A, M> {
    by_address: HashMap<A, Entry<A, M>>,
    pooled: Vec<ActorRef<Mail<A, M>>>,
    /// The fewest pooled actors since the last thinning, which were therefore not needed.
    idle: usize,
    /// While the directory is closed: the actors that are to be started.
    closed: Option<Vec<A>>,
    /// The projects that stand still, or are gone.
    still: BTreeMap<Slot, Still<A>>,
}

/// A project whose actors are not started.
enum Still<A> {
    /// These are to be started once the project goes on.
    Shut(Vec<A>),
    /// The project is in another cell: messages to its actors are dropped.
    Gone,
}

enum Entry<A, M> {
    /// The supervisor was asked to start the actor, or hears of its break, if it was awake before; these
    /// messages wait for the actor.
    Starting { waiting: Vec<M>, broken: Option<ActorId> },
    /// The actor runs; `sent` is the number of its messages so far.
    Awake { actor: ActorRef<Mail<A, M>>, sent: u64 },
}

impl<A: Address, M: ractor::Message> Entry<A, M> {
    const fn starting(waiting: Vec<M>) -> Self {
        Self::Starting { waiting, broken: None }
    }

    fn take(&mut self, message: M) {
        match self {
            Self::Starting { waiting, .. } => waiting.push(message),
            Self::Awake { actor, sent } => {
                *sent += 1;
                // The actor has just broken: its supervisor will start it again.
                if let Err(MessagingErr::SendErr(mail)) = actor.cast(Mail::Sent(message)) {
                    let broken = Some(actor.get_id());
                    *self = Self::Starting { waiting: vec![mail.into_message()], broken };
                }
            }
        }
    }

    fn is_of(&self, who: ActorId) -> bool {
        match self {
            Self::Starting { broken, .. } => *broken == Some(who),
            Self::Awake { actor, .. } => actor.get_id() == who,
        }
    }
}

impl<A: Address, M: ractor::Message> Default for Directory<A, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Address, M: ractor::Message> Directory<A, M> {
    /// An empty directory, whose actors stop when they retire.
    #[must_use]
    pub(crate) fn new() -> Self {
        let by_address = HashMap::default();
        let (pooled, still) = (Vec::new(), BTreeMap::new());
        let entries = Entries { by_address, pooled, idle: 0, closed: None, still };
        Self { entries: Mutex::new(entries), start: OnceLock::new(), max_pooled: 0 }
    }

    /// An empty directory that keeps up to `max_pooled` of the retired for another address, which arrives with the
    /// first message to it.
    #[must_use]
    pub(crate) fn with_pool(max_pooled: usize) -> Self {
        Self { max_pooled, ..Self::new() }
    }

    /// Sets the supervisor that starts actors. Called once, before the first message.
    pub(crate) fn on_start(&self, start: impl Fn(A) + Send + Sync + 'static) {
        let first = self.start.set(Box::new(start)).is_ok();
        assert!(first, "a directory has one supervisor");
    }

    /// Starts no actor until [`Self::open`]: messages wait for theirs.
    pub(crate) fn close(&self) {
        self.entries().closed.get_or_insert_default();
    }

    /// Starts the actors that messages wait for.
    pub(crate) fn open(&self) {
        let closed = self.entries().closed.take();
        for address in closed.into_iter().flatten() {
            self.ask_to_start(address);
        }
    }

    /// Starts no actor of a project until [`Self::open_project`]: messages wait for theirs.
    pub(crate) fn shut_project(&self, project: Slot) {
        self.entries().still.entry(project).or_insert_with(|| Still::Shut(Vec::new()));
    }

    /// Starts the actors of a project that messages wait for.
    pub(crate) fn open_project(&self, project: Slot) {
        let still = self.entries().still.remove(&project);
        let Some(Still::Shut(waiting)) = still else { return };
        for address in waiting {
            self.ask_to_start(address);
        }
    }

    /// Ends the actors of a project, and drops all messages to them from now on.
    pub(crate) fn end_project(&self, project: Slot) {
        let mut entries = self.entries();
        entries.still.insert(project, Still::Gone);
        let ended: Vec<_> =
            entries.by_address.extract_if(|address, _| address.slot() == project).collect();
        // The lock is released first: a dropped message may send another one.
        drop(entries);
        for (_, entry) in ended {
            if let Entry::Awake { actor, .. } = entry {
                actor.kill();
            }
        }
    }

    /// Sends `message` to the actor at `address`, waking it if need be. Messages of one sender to
    /// one address are handled in the order of sending.
    pub(crate) fn send(&self, address: A, mut message: M) {
        let mut entries = self.entries();
        let Entries { by_address, pooled, idle, closed, still } = &mut *entries;
        let closed = match still.get_mut(&address.slot()) {
            Some(Still::Gone) => {
                drop(entries);
                drop(message);
                return;
            }
            Some(Still::Shut(waiting)) => Some(waiting),
            None => closed.as_mut(),
        };
        match by_address.entry(address) {
            hash_map::Entry::Vacant(vacant) => {
                let address = vacant.key().clone();
                while closed.is_none()
                    && let Some(actor) = pooled.pop()
                {
                    *idle = pooled.len().min(*idle);
                    let mail = Mail::Rebound(address.clone(), message);
                    let Err(MessagingErr::SendErr(unsent)) = actor.cast(mail) else {
                        vacant.insert(Entry::Awake { actor, sent: 1 });
                        return;
                    };
                    // It has just ended: the next one takes its place.
                    message = unsent.into_message();
                }
                vacant.insert(Entry::starting(vec![message]));
                if let Some(closed) = closed {
                    closed.push(address);
                    return;
                }
                drop(entries);
                self.ask_to_start(address);
            }
            hash_map::Entry::Occupied(mut occupied) => occupied.get_mut().take(message),
        }
    }

    /// Sends `message` only if the actor is awake or starting.
    pub(crate) fn send_if_awake(&self, address: &A, message: M) {
        if let Some(entry) = self.entries().by_address.get_mut(address) {
            entry.take(message);
        }
    }

    /// Sends a message to every actor that is awake or starting, in the order of their addresses.
    pub(crate) fn send_to_all_awake(&self, message: impl Fn() -> M) {
        let mut awake: Vec<A> = self.entries().by_address.keys().cloned().collect();
        awake.sort_unstable();
        for address in awake {
            self.send_if_awake(&address, message());
        }
    }

    /// The actor is running: sends it the waiting messages.
    pub(crate) fn started(&self, address: &A, actor: ActorRef<Mail<A, M>>) {
        let mut entries = self.entries();
        if matches!(entries.still.get(&address.slot()), Some(Still::Gone)) {
            actor.kill();
            return;
        }
        let waiting = match entries.by_address.remove(address) {
            Some(Entry::Starting { waiting, .. }) => waiting,
            Some(Entry::Awake { .. }) | None => Vec::new(),
        };
        let mut entry = Entry::Awake { actor, sent: 0 };
        for message in waiting {
            entry.take(message);
        }
        entries.by_address.insert(address.clone(), entry);
    }

    /// The number of messages that wait for an actor to be started.
    #[cfg(test)]
    pub(crate) fn waiting(&self, address: &A) -> usize {
        match self.entries().by_address.get(address) {
            Some(Entry::Starting { waiting, .. }) => waiting.len(),
            Some(Entry::Awake { .. }) | None => 0,
        }
    }

    /// The address whose actor has broken, if it was the actor of any.
    pub(crate) fn address_of(&self, who: ActorId) -> Option<A> {
        let entries = self.entries();
        let entry = entries.by_address.iter().find(|(_, entry)| entry.is_of(who));
        entry.map(|(address, _)| address.clone())
    }

    /// The actor broke: messages wait until it is started again.
    pub(crate) fn broken(&self, address: &A) {
        let entries = &mut self.entries().by_address;
        let entry = entries.entry(address.clone()).or_insert_with(|| Entry::starting(Vec::new()));
        if let Entry::Awake { .. } = entry {
            *entry = Entry::starting(Vec::new());
        }
    }

    /// The actor will not be started again: its waiting messages are dropped, and with it the ends of
    /// the channels on which its senders wait.
    pub(crate) fn forget(&self, address: &A) {
        let forgotten = self.entries().by_address.remove(address);
        // The lock is released first: a dropped message may send another one.
        drop(forgotten);
    }

    /// Retires the actor if it has handled everything that was sent to it: the directory lists it no
    /// more, and it stops or goes to the pool. Otherwise messages wait for it.
    pub(crate) fn retire(&self, address: &A, handled: u64, actor: &ActorRef<Mail<A, M>>) -> bool {
        let mut entries = self.entries();
        let entry = entries.by_address.get(address);
        let done = matches!(entry, Some(Entry::Awake { sent, .. }) if *sent == handled);
        if !done {
            return false;
        }
        entries.by_address.remove(address);
        if entries.pooled.len() < self.max_pooled {
            entries.pooled.push(actor.clone());
        } else {
            drop(entries);
            actor.stop(None);
        }
        true
    }

    /// Stops the pooled actors that were not needed since the last call.
    pub(crate) fn shrink_pool(&self) {
        let mut entries = self.entries();
        let left = entries.pooled.len() - entries.idle;
        let surplus = entries.pooled.split_off(left);
        entries.idle = left;
        drop(entries);
        for actor in surplus {
            actor.stop(None);
        }
    }

    /// The result of `then`, unless the actor is awake or starting; the lock keeps it asleep meanwhile.
    pub(crate) fn if_asleep<T>(&self, address: &A, then: impl FnOnce() -> Option<T>) -> Option<T> {
        let entries = self.entries();
        if entries.by_address.contains_key(address) { None } else { then() }
    }

    /// The number of actors that are awake or starting.
    #[must_use]
    pub(crate) fn awake(&self) -> usize {
        self.entries().by_address.len()
    }

    fn ask_to_start(&self, address: A) {
        let start = self.start.get().expect("the supervisor is named before the first message");
        start(address);
    }

    fn entries(&self) -> MutexGuard<'_, Entries<A, M>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A, M> Debug for Directory<A, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use ractor::{Actor, ActorProcessingErr};

    use super::*;

    struct Idle;

    impl Actor for Idle {
        type Msg = Mail<u8, u8>;
        type State = ();
        type Arguments = ();

        async fn pre_start(
            &self,
            _: ActorRef<Self::Msg>,
            (): (),
        ) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_closed_directory_starts_nobody_until_it_is_opened() {
        let directory = Directory::<u8, u8>::new();
        let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
        directory.on_start(move |address| starts.send(address).expect("the test listens"));
        directory.close();
        for address in [1, 2, 1] {
            directory.send(address, 0);
        }
        assert!(started.try_recv().is_err());
        directory.open();
        directory.send(3, 0);
        assert_eq!([1, 2, 3].map(|_| started.try_recv()), [Ok(1), Ok(2), Ok(3)]);
        assert_eq!([1, 2, 3].map(|address| directory.waiting(&address)), [2, 1, 1]);
    }

    #[tokio::test]
    async fn a_project_stands_still_alone_and_is_gone_alone() {
        let directory = Directory::<u8, u8>::with_pool(8);
        let (starts, mut started) = tokio::sync::mpsc::unbounded_channel();
        directory.on_start(move |address| starts.send(address).expect("the test listens"));
        let [here, other, awake] = [0x10, 0x20, 0x11];
        let (actor, running) = Actor::spawn(None, Idle, ()).await.expect("it starts");
        directory.started(&awake, actor);
        let project = here.slot();
        directory.shut_project(project);
        for address in [here, other, here, awake] {
            directory.send(address, 0);
        }
        assert_eq!([started.try_recv(), started.try_recv()].map(Result::ok), [Some(other), None]);
        directory.open_project(project);
        assert_eq!((started.try_recv(), directory.waiting(&here)), (Ok(here), 2));
        directory.end_project(project);
        running.await.expect("it ends");
        for address in [here, awake] {
            directory.send(address, 0);
        }
        assert_eq!((started.try_recv().ok(), directory.awake()), (None, 1), "the other one's");
    }

    #[tokio::test]
    async fn spares_that_nobody_needed_for_a_while_are_stopped() {
        let directory = Directory::<u8, u8>::with_pool(8);
        let mut running = Vec::new();
        for address in 0..3 {
            let (actor, handle) = Actor::spawn(None, Idle, ()).await.expect("it starts");
            directory.started(&address, actor.clone());
            assert!(directory.retire(&address, 0, &actor), "it has nothing to do");
            running.push(handle);
        }
        directory.shrink_pool();
        assert_eq!(directory.entries().pooled.len(), 3, "they have just come");
        directory.send(9, 0);
        directory.shrink_pool();
        // The two that were not needed; an actor that was used once stays for another while.
        for stopped in running.drain(..2) {
            stopped.await.expect("it stops in order");
        }
        directory.shrink_pool();
        assert!(!running[0].is_finished(), "it has an address");
        assert!(directory.entries().by_address.contains_key(&9));
    }

    #[tokio::test]
    async fn a_spare_that_has_ended_is_followed_by_the_next_one() {
        let directory = Directory::<u8, u8>::with_pool(8);
        directory.on_start(|address| panic!("{address} has a spare"));
        let mut running = Vec::new();
        for address in 0..2 {
            let (actor, handle) = Actor::spawn(None, Idle, ()).await.expect("it starts");
            directory.started(&address, actor.clone());
            assert!(directory.retire(&address, 0, &actor), "it has nothing to do");
            running.push((actor, handle));
        }
        // The one that retired last is taken first.
        let (actor, ended) = running.pop().expect("two");
        actor.kill();
        ended.await.expect("it ends");
        directory.send(9, 0);
        assert_eq!((directory.awake(), directory.waiting(&9)), (1, 0));
    }
}
