//! A queue's actor: brings ready tasks and workers with room together.
//!
//! Spawned by its supervisor at the first message; stops when nothing is ready and nobody serves it.
//! After a break it is filled again from the unfinished tasks. Deliberately absent: the order, which
//! [`callboard_domain::queue`] decides, and leases, which each task gives out itself.

use std::sync::Arc;

use callboard_domain::id::{Environment, TaskId};
use callboard_domain::queue::{Queue, Ready};
use callboard_domain::task::Task;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::node::Node;
use crate::seat::Seat;
use crate::supervisor::{Birth, Kind, Reason};
use crate::{shard, task};

/// A queue's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    /// Its name.
    pub(crate) queue: Arc<str>,
}

impl Address {
    pub(crate) fn of(environment: Environment, task: &Task) -> Self {
        Self { environment, queue: task.spec.queue.as_str().into() }
    }
}

/// What a queue is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// A task is ready.
    Push(Ready),
    /// A task is not ready any more.
    Remove(TaskId),
    /// A worker serves it.
    Serve(Arc<Seat>),
    /// There is room somewhere, or a worker left.
    Look,
}

/// Queues, for their supervisor.
#[derive(Debug)]
pub(crate) struct QueueKind(pub(crate) Arc<Node>);

impl Kind for QueueKind {
    type Address = Address;
    type Actor = QueueActor;
    const NAME: &'static str = "queue";

    fn actor(&self) -> QueueActor {
        QueueActor(Arc::clone(&self.0))
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct QueueActor(Arc<Node>);

/// What the actor remembers.
pub(crate) struct State {
    birth: Birth<QueueKind>,
    ready: Queue,
    seats: Vec<Arc<Seat>>,
    /// The seat that is asked first, so that all get their share.
    turn: usize,
    handled: u64,
}

impl QueueActor {
    /// Gives out tasks as long as there are tasks and places that fit.
    fn dispatch(&self, state: &mut State) {
        if self.0.is_draining() {
            return;
        }
        let count = state.seats.len();
        let mut idle = 0;
        while idle < count && !state.ready.is_empty() {
            let seat = Arc::clone(&state.seats[state.turn % count]);
            state.turn = (state.turn + 1) % count;
            idle = if self.give(state, &seat) { 0 } else { idle + 1 };
        }
    }

    fn give(&self, state: &mut State, seat: &Arc<Seat>) -> bool {
        let Some(place) = seat.take() else {
            return false;
        };
        let concurrency = &self.0.concurrency;
        let found =
            state.ready.take(|model| seat.runs(model), |account| concurrency.has_room(account));
        let Some((task, limited)) = found else {
            // Nothing here fits: the place is put back without calling anybody.
            place.put_back();
            return false;
        };
        let running = limited.map(|account| concurrency.start(account));
        let address = shard::Address { environment: state.birth.address.environment, task };
        self.0.send(address, task::Message::Lease { place, running });
        true
    }

    fn rest(myself: &ActorRef<Message>, state: &State) {
        let idle = state.ready.is_empty() && state.seats.is_empty();
        if idle {
            state.birth.directory.retire(&state.birth.address, state.handled, myself);
        }
    }
}

impl Actor for QueueActor {
    type Msg = Message;
    type State = State;
    type Arguments = Birth<QueueKind>;

    async fn pre_start(
        &self,
        _: ActorRef<Message>,
        birth: Birth<QueueKind>,
    ) -> Result<State, ActorProcessingErr> {
        let ready = Queue::new(self.0.settings.aging);
        Ok(State { birth, ready, seats: Vec::new(), turn: 0, handled: 0 })
    }

    async fn post_start(
        &self,
        _: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if state.birth.reason != Reason::Woken {
            let Address { environment, queue } = &state.birth.address;
            for ready in self.0.ready_in(*environment, queue).await? {
                state.ready.push(ready);
            }
            state.seats = self.0.workers.serving(*environment, queue);
            self.dispatch(state);
        }
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.handled += 1;
        match message {
            Message::Push(ready) => state.ready.push(ready),
            Message::Remove(task) => {
                state.ready.remove(task);
            }
            Message::Serve(seat) => {
                state.seats.retain(|other| other.worker() != seat.worker());
                state.seats.push(seat);
            }
            Message::Look => state.seats.retain(|seat| !seat.is_gone()),
        }
        self.dispatch(state);
        Self::rest(&myself, state);
        Ok(())
    }
}
