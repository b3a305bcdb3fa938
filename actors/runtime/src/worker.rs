//! A worker's actor: its leases, its connection and what is said on it (PROTOCOL.md 11).
//!
//! Spawned when a worker registers, or at a start for the workers that running tasks name; it outlives
//! its connection, and stops when the worker is lost and was last heard of an hour ago. Deliberately
//! absent: the socket, which the edge holds, and the rules, which [`callboard_domain::worker`] decides.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::id::{Environment, WorkerId};
use callboard_domain::task::LeaseToken;
use callboard_domain::worker::Status;
use foldhash::{HashMap, HashMapExt};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;

use crate::node::Node;
use crate::seat::{Seat, Taken};
use crate::supervisor::{Birth, Kind, Reason};
use crate::tables::WorkerRow;
use crate::{shard, task};

mod message;
mod roster;

pub use message::{Assignment, Of, Registration, Said, Settled, Told};
pub(crate) use message::{Message, Verdict};
pub use roster::View;
pub(crate) use roster::Workers;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a lost worker is listed after it was last heard of.
const REMEMBERED: Duration = Duration::from_hours(1);

/// A worker's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Production or sandbox.
    pub environment: Environment,
    /// The worker.
    pub worker: WorkerId,
}

/// Workers, for their supervisor.
#[derive(Debug)]
pub(crate) struct WorkerKind(pub(crate) Arc<Node>);

impl Kind for WorkerKind {
    type Address = Address;
    type Actor = WorkerActor;
    const NAME: &'static str = "worker";

    fn actor(&self) -> WorkerActor {
        WorkerActor(Arc::clone(&self.0))
    }
}

/// The actor.
#[derive(Debug)]
pub(crate) struct WorkerActor(Arc<Node>);

/// What the actor remembers.
pub(crate) struct State {
    birth: Birth<WorkerKind>,
    view: Arc<Mutex<View>>,
    link: Option<Link>,
    links: u64,
    /// The places of the leases that it holds.
    places: HashMap<LeaseToken, Taken>,
    /// How much of each output was streamed, in characters.
    streamed: HashMap<LeaseToken, u64>,
    handled: u64,
}

/// A connection.
struct Link {
    number: u64,
    outgoing: mpsc::UnboundedSender<Told>,
    seat: Arc<Seat>,
}

impl State {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the worker something; while it is away there is nobody to tell.
    fn tell(&self, told: Told) {
        if let Some(link) = &self.link {
            let _ = link.outgoing.send(told);
        }
    }

    fn release(&mut self, lease: LeaseToken) -> bool {
        self.places.remove(&lease);
        self.streamed.remove(&lease);
        self.view().worker.release(lease)
    }

    fn unlink(&mut self) {
        if let Some(link) = self.link.take() {
            link.seat.withdraw();
            // Fails only when the connection has ended by itself.
            let _ = link.outgoing.send(Told::Close);
        }
    }
}

impl WorkerActor {
    fn register(&self, state: &mut State, registration: Registration) {
        let Registration { account, profile, leases, outgoing, reply } = registration;
        state.unlink();
        let (moment, now) = (self.0.ports.clock.moment(), self.0.now());
        let resumed = {
            let mut view = state.view();
            view.account = Some(account);
            view.connected_at = Some(now);
            view.last_heard_at = now;
            view.worker.resume(profile.clone(), &leases, moment)
        };
        for lease in resumed.dropped {
            tracing::warn!(worker = %state.birth.address.worker, task = %lease.task, "a lease was dropped");
            self.give_back(state, lease, task::Message::LeaseExpired(lease.lease));
        }
        for lease in resumed.undelivered {
            self.give_back(state, lease, task::Message::Undelivered(lease.lease));
        }
        let directory = Arc::clone(&self.0.workers.directory);
        let seat = Seat::new(state.birth.address, profile, directory, Arc::clone(&self.0.queues));
        state.places = resumed.leases.renewed.iter().map(|lease| (*lease, seat.occupy())).collect();
        state.links += 1;
        state.link = Some(Link { number: state.links, outgoing, seat: Arc::clone(&seat) });
        state.view().seat = Some(Arc::clone(&seat));
        if reply.send((state.links, resumed.leases)).is_err() {
            self.disconnected(state, state.links);
            return;
        }
        tracing::info!(worker = %state.birth.address.worker, "a worker connected");
        self.publish(state, "worker.connected");
        seat.offer();
    }

    fn disconnected(&self, state: &mut State, link: u64) {
        if state.link.as_ref().is_some_and(|current| current.number == link) {
            state.unlink();
            state.view().worker.disconnect();
            tracing::info!(worker = %state.birth.address.worker, "a worker's connection ended");
            self.publish(state, "worker.disconnected");
        }
    }

    fn heard(&self, state: &mut State, link: u64, said: Said) {
        if state.link.as_ref().is_none_or(|current| current.number != link) {
            return;
        }
        {
            let mut view = state.view();
            view.last_heard_at = self.0.now();
            view.worker.heard(self.0.ports.clock.moment());
        }
        if let Some(link) = &state.link {
            link.seat.set_open(!state.view().worker.is_draining());
        }
        match said {
            Said::Heartbeat(leases) => {
                let answer = state.view().worker.renew(&leases, self.0.ports.clock.moment());
                state.tell(Told::Leases(answer));
            }
            Said::Delta(lease, text) => self.delta(state, lease, text),
            Said::Completed(lease, output, completion) => {
                self.settle(state, lease, Of::Complete, task::Answer::Output(output, completion));
            }
            Said::Failed(lease, failure) => {
                self.settle(state, lease, Of::Fail, task::Answer::Failure(failure));
            }
            Said::Draining => self.drain(state),
        }
    }

    /// A piece of output of a lease that is not its own is nobody's.
    fn delta(&self, state: &mut State, lease: LeaseToken, text: String) {
        if !state.view().worker.holds(lease) {
            return;
        }
        let length = text.chars().count() as u64;
        let streamed = state.streamed.entry(lease).or_default();
        let offset = *streamed;
        *streamed += length;
        self.0.events.delta(state.birth.address.environment, lease.task, offset, text);
    }

    /// The task compares the lease: an answer under one that this worker lost may be a duplicate.
    fn settle(&self, state: &State, lease: LeaseToken, of: Of, answer: task::Answer) {
        let worker = state.birth.address;
        let verdict = Verdict::new(Arc::clone(&self.0), worker, lease, of);
        let address = shard::Address { environment: worker.environment, task: lease.task };
        self.0.send(
            address,
            task::Message::Settle(Box::new(task::Settlement { lease, answer, verdict })),
        );
    }

    fn drain(&self, state: &mut State) {
        state.view().worker.drain();
        if let Some(link) = &state.link {
            link.seat.set_open(false);
        }
        self.publish(state, "worker.draining");
    }

    /// A lease is over, which its task is told.
    fn give_back(&self, state: &mut State, lease: LeaseToken, why: task::Message) {
        state.release(lease);
        let address =
            shard::Address { environment: state.birth.address.environment, task: lease.task };
        self.0.send(address, why);
    }

    fn look(&self, state: &mut State, myself: &ActorRef<Message>) {
        let moment = self.0.ports.clock.moment();
        let over = state.view().worker.expire(moment);
        for lease in over {
            tracing::warn!(worker = %state.birth.address.worker, task = %lease.task, "a lease ran out");
            self.give_back(state, lease, task::Message::LeaseExpired(lease.lease));
        }
        let (reachable, status, heard) = {
            let view = state.view();
            (view.worker.is_reachable(moment), view.worker.status(moment), view.worker.last_heard())
        };
        if let (Some(link), false) = (&state.link, reachable) {
            link.seat.set_open(false);
        }
        if status == Status::Lost && state.link.is_some() {
            let link = state.links;
            self.disconnected(state, link);
        }
        if status == Status::Lost
            && moment >= heard.after(REMEMBERED)
            && state.birth.directory.retire(&state.birth.address, state.handled, myself)
        {
            self.0.workers.forget(state.birth.address.worker);
        }
    }

    fn publish(&self, state: &State, event: &'static str) {
        let worker = WorkerRow::of(&state.view());
        self.0.append_event(state.birth.address.environment, event, worker);
    }
}

impl Actor for WorkerActor {
    type Msg = Message;
    type State = State;
    type Arguments = Birth<WorkerKind>;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        birth: Birth<WorkerKind>,
    ) -> Result<State, ActorProcessingErr> {
        let view = self.0.workers.enter(birth.address, &self.0);
        myself.send_interval(LOOK_EVERY, || Message::Look);
        let (places, streamed) = (HashMap::new(), HashMap::new());
        Ok(State { birth, view, link: None, links: 0, places, streamed, handled: 0 })
    }

    async fn post_start(
        &self,
        _: ActorRef<Message>,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        if state.birth.reason != Reason::Woken {
            let moment = self.0.ports.clock.moment();
            let running = self.0.running_on(state.birth.address).await?;
            let mut view = state.view();
            for lease in running {
                view.worker.watch(lease, moment);
            }
        }
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        state.handled += u64::from(!matches!(message, Message::Look));
        match message {
            Message::Register(registration) => self.register(state, *registration),
            Message::Heard(link, said) => self.heard(state, link, said),
            Message::Disconnected(link) => self.disconnected(state, link),
            Message::Assign(assignment, place) => {
                let lease = assignment.lease;
                state.view().worker.assign(lease, self.0.ports.clock.moment());
                state.places.insert(lease, place);
                state.tell(Told::Assign(assignment));
            }
            Message::Watch(lease) => {
                state.view().worker.watch(lease, self.0.ports.clock.moment());
            }
            Message::Revoke(lease, reason) => {
                if state.release(lease) {
                    state.tell(Told::Cancel(lease, reason));
                }
            }
            Message::Settled(lease, of, settled) => {
                state.release(lease);
                state.tell(Told::Ack(lease, of, settled));
            }
            Message::Unsettled => {
                let link = state.links;
                self.disconnected(state, link);
            }
            Message::Flush(said) => drop(said),
            Message::Drain => {
                self.drain(state);
                state.tell(Told::Drain(self.0.settings.drain_deadline));
            }
            Message::Close => state.unlink(),
            Message::Look => self.look(state, &myself),
        }
        Ok(())
    }
}
