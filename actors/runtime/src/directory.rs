//! How actors find each other, and how a message wakes one that is passive.
//!
//! ```text
//!   send ─▶ awake?    yes ─▶ its mailbox
//!           starting?  yes ─▶ waits here until it is awake
//!           otherwise      ─▶ waits here, and the supervisor is asked to start it
//! ```
//!
//! An actor that has nothing to do retires: the directory agrees only if the actor has handled
//! everything that was sent to it, so no message is lost between waking and sleeping. Deliberately
//! absent: who supervises (see [`crate::supervisor`]).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use ractor::{ActorRef, MessagingErr};

/// The actors of one kind, by address.
pub(crate) struct Directory<A, M> {
    seats: Mutex<HashMap<A, Seat<M>>>,
    start: OnceLock<Box<dyn Fn(A) + Send + Sync>>,
}

enum Seat<M> {
    /// Its supervisor was asked to start it; these messages wait for it.
    Starting(Vec<M>),
    /// It runs, and was sent so many messages.
    Awake { actor: ActorRef<M>, sent: u64 },
}

impl<M: ractor::Message> Seat<M> {
    fn take(&mut self, message: M) {
        match self {
            Self::Starting(waiting) => waiting.push(message),
            Self::Awake { actor, sent } => {
                *sent += 1;
                // It has just broken: its supervisor will start it again.
                if let Err(MessagingErr::SendErr(message)) = actor.cast(message) {
                    *self = Self::Starting(vec![message]);
                }
            }
        }
    }
}

impl<A: Ord + Hash + Clone + Debug, M: ractor::Message> Default for Directory<A, M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<A: Ord + Hash + Clone + Debug, M: ractor::Message> Directory<A, M> {
    /// An empty directory.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self { seats: Mutex::new(HashMap::new()), start: OnceLock::new() }
    }

    /// Names who is asked to start an actor. Called once, before the first message.
    pub(crate) fn on_start(&self, start: impl Fn(A) + Send + Sync + 'static) {
        let first = self.start.set(Box::new(start)).is_ok();
        debug_assert!(first, "a directory has one supervisor");
    }

    /// Sends `message` to the actor at `address`, waking it if need be. Messages of one sender to
    /// one address are handled in the order of sending.
    pub(crate) fn send(&self, address: A, message: M) {
        let mut seats = self.seats();
        match seats.entry(address) {
            Entry::Vacant(vacant) => {
                let address = vacant.key().clone();
                vacant.insert(Seat::Starting(vec![message]));
                drop(seats);
                self.ask_to_start(address);
            }
            Entry::Occupied(mut occupied) => occupied.get_mut().take(message),
        }
    }

    /// Sends `message` only if the actor is awake or starting.
    pub(crate) fn send_if_awake(&self, address: &A, message: M) {
        if let Some(seat) = self.seats().get_mut(address) {
            seat.take(message);
        }
    }

    /// Sends a message to every actor that is awake or starting, in the order of their addresses.
    pub(crate) fn send_to_all_awake(&self, message: impl Fn() -> M) {
        let mut awake: Vec<A> = self.seats().keys().cloned().collect();
        awake.sort_unstable();
        for address in awake {
            self.send_if_awake(&address, message());
        }
    }

    /// The actor is running: hands it what waited. Returns what could not be handed over because
    /// the actor is gone again.
    pub(crate) fn started(&self, address: &A, actor: ActorRef<M>) {
        let mut seats = self.seats();
        let waiting = match seats.remove(address) {
            Some(Seat::Starting(waiting)) => waiting,
            Some(Seat::Awake { .. }) | None => Vec::new(),
        };
        let mut sent = 0;
        let mut waiting = waiting.into_iter();
        for message in waiting.by_ref() {
            if let Err(MessagingErr::SendErr(message)) = actor.cast(message) {
                let rest = std::iter::once(message).chain(waiting).collect();
                seats.insert(address.clone(), Seat::Starting(rest));
                return;
            }
            sent += 1;
        }
        seats.insert(address.clone(), Seat::Awake { actor, sent });
    }

    /// The actor broke: messages wait until it is started again.
    pub(crate) fn broken(&self, address: &A) {
        let mut seats = self.seats();
        let seat = seats.entry(address.clone()).or_insert_with(|| Seat::Starting(Vec::new()));
        if let Seat::Awake { .. } = seat {
            *seat = Seat::Starting(Vec::new());
        }
    }

    /// The actor will not be started again: what waits for it is dropped, and with it the ends of
    /// the channels on which its senders wait.
    pub(crate) fn forget(&self, address: &A) {
        self.seats().remove(address);
    }

    /// Whether the actor may stop: it has handled everything that was sent to it, and is not
    /// listed any more.
    pub(crate) fn retire(&self, address: &A, handled: u64) -> bool {
        let mut seats = self.seats();
        let done = matches!(seats.get(address), Some(Seat::Awake { sent, .. }) if *sent == handled);
        if done {
            seats.remove(address);
        }
        done
    }

    /// What `then` says, unless the actor is awake or starting; nobody wakes it meanwhile.
    pub(crate) fn if_asleep<T>(&self, address: &A, then: impl FnOnce() -> Option<T>) -> Option<T> {
        let seats = self.seats();
        if seats.contains_key(address) { None } else { then() }
    }

    /// How many are awake or starting.
    #[must_use]
    pub(crate) fn awake(&self) -> usize {
        self.seats().len()
    }

    fn ask_to_start(&self, address: A) {
        let start = self.start.get().expect("the supervisor is named before the first message");
        start(address);
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<A, Seat<M>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A, M> Debug for Directory<A, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").finish_non_exhaustive()
    }
}
