//! A worker's actor: its leases, its connection and the messages on it (docs/reference/workers.md).
//!
//! The supervisor of workers spawns the actor when a worker registers, or at a start for the workers that running
//! tasks name; the actor outlives its connection, and stops when the worker is lost and was last heard of an hour ago.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use callboard_domain::task::{LeaseToken, Spec, Task};
use callboard_domain::worker::Status;
use foldhash::{HashMap, HashMapExt};
use tokio::sync::mpsc;

use crate::items::task;
use crate::kernel::address::TaskAddress;
pub(crate) use crate::kernel::address::WorkerAddress as Address;
use crate::kernel::item::{Activation, Done, Item};
use crate::kernel::supervisor::Reason;
use crate::messages::capacity::{SlotPermit, WorkerCapacity};
pub(crate) use crate::messages::worker::{
    AckResult, AckSender, Assignment, Called, Message, Of, Registration, WorkerCommand,
    WorkerMessage,
};
use crate::node::Node;
pub(crate) use crate::node::roster::View;
use crate::observers::events::{Delta, pieces};
use crate::observers::texts::{LiveText, Run};
use crate::tables::WorkerRow;

/// The pieces of a delta that are passed on in one go.
const PIECES_AT_ONCE: usize = 8;
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The time for which a lost worker is listed after it was last heard of.
const REMEMBERED: Duration = Duration::from_hours(1);

/// A worker in the memory of its actor.
pub(crate) struct WorkerItem {
    view: Arc<Mutex<View>>,
    link: Option<Link>,
    links: u64,
    /// The slots of the leases that the worker holds, and the text that it streams under each.
    slots: HashMap<LeaseToken, (SlotPermit, Option<Output>)>,
}

/// The output of an attempt that this connection saw from its beginning. Pieces may be lost with a
/// connection, so the rest of an attempt that goes on over another one is not streamed.
struct Output {
    task: Arc<Spec>,
    run: Run,
    /// The number of characters that came so far.
    length: u64,
    text: Option<Arc<LiveText>>,
}

impl Output {
    fn of(task: &Task) -> Self {
        let run = Run { version: task.version, attempt: task.attempt };
        Self { task: Arc::clone(&task.spec), run, length: 0, text: None }
    }
}

/// A connection.
struct Link {
    number: u64,
    outgoing: mpsc::UnboundedSender<WorkerCommand>,
    /// The queues that the worker's key is bound to, if it is.
    bound: Arc<[String]>,
    capacity: Arc<WorkerCapacity>,
}

impl Link {
    fn is_bound(&self) -> bool {
        !self.bound.is_empty()
    }
}

impl WorkerItem {
    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a command to the worker; drops it while the worker is away.
    fn send(&self, command: WorkerCommand) {
        if let Some(link) = &self.link {
            let _ = link.outgoing.send(command);
        }
    }

    fn release(&mut self, lease: LeaseToken) -> bool {
        self.slots.remove(&lease);
        self.view().worker.release(lease)
    }

    fn unlink(&mut self) {
        if let Some(link) = self.link.take() {
            link.capacity.withdraw();
            // Fails only when the connection has ended by itself.
            let _ = link.outgoing.send(WorkerCommand::Close);
        }
    }
}

impl Item for WorkerItem {
    const NAME: &'static str = "worker";
    type Address = Address;
    type Message = Message;
    type Shared = Node;

    fn new(node: &Arc<Node>, address: &Address) -> Self {
        let view = node.actors.workers.enter(*address, node);
        Self { view, link: None, links: 0, slots: HashMap::new() }
    }

    async fn start(held: &mut Activation<Self>, reason: Reason) -> Done {
        held.myself.tell_every(LOOK_EVERY, || Message::Look);
        if reason != Reason::Woken {
            let moment = held.node.kernel.ports.clock.moment();
            let running = held.node.running_on(held.address).await?;
            let mut view = held.item.view();
            for lease in running {
                view.worker.adopt(lease, moment);
            }
        }
        Ok(())
    }

    async fn handle(held: &mut Activation<Self>, message: Message) -> Done {
        let item = &mut held.item;
        match message {
            Message::Register(registration) => held.register(*registration),
            Message::Heard(link, said) => held.heard(link, *said).await,
            Message::Disconnected(link) => held.disconnected(link),
            Message::Assign(assignment, slot) => held.assign(assignment, slot),
            Message::Watch(lease) => {
                item.view().worker.adopt(lease, held.node.kernel.ports.clock.moment());
            }
            Message::Revoke(lease, reason) => {
                if item.release(lease) {
                    item.send(WorkerCommand::Cancel(lease, reason));
                }
            }
            Message::ResultHandled(lease, of, result) => {
                item.release(lease);
                item.send(WorkerCommand::Ack(lease, of, result));
            }
            Message::ResultLost => {
                let link = item.links;
                held.disconnected(link);
            }
            Message::Flush(said) => drop(said),
            Message::Drain => {
                held.drain();
                held.item.send(WorkerCommand::Drain(held.node.settings.drain_deadline));
            }
            Message::Close => item.unlink(),
            Message::Look => held.look(),
        }
        Ok(())
    }

    /// The clock decides: see [`Message::Look`].
    fn is_idle(&self) -> bool {
        false
    }
}

impl Activation<WorkerItem> {
    fn register(&mut self, registration: Registration) {
        let Registration { account, bound, profile, leases, outgoing, reply } = registration;
        self.item.unlink();
        let (moment, now) = (self.node.kernel.ports.clock.moment(), self.node.now());
        let resumed = {
            let mut view = self.item.view();
            view.account = Some(account);
            view.connected_at = Some(now);
            view.last_heard_at = now;
            view.worker.resume(profile.clone(), &leases, moment)
        };
        for lease in resumed.dropped {
            tracing::warn!(worker = %self.address.worker, task = %lease.task, "a lease was dropped");
            self.give_back(lease, task::Message::LeaseExpired(lease.lease));
        }
        for lease in resumed.undelivered {
            self.give_back(lease, task::Message::Undelivered(lease.lease));
        }
        let directory = Arc::clone(&self.node.actors.workers.directory);
        let capacity = WorkerCapacity::new(
            self.address,
            profile,
            directory,
            Arc::clone(&self.node.actors.queues),
        );
        let slot = |lease: &LeaseToken| (*lease, (capacity.occupy(), None));
        self.item.slots = resumed.leases.renewed.iter().map(slot).collect();
        self.item.links += 1;
        let (number, own) = (self.item.links, Arc::clone(&capacity));
        self.item.link = Some(Link { number, outgoing, bound, capacity: own });
        self.item.view().capacity = Some(Arc::clone(&capacity));
        self.node.actors.workers.changed();
        if reply.send((self.item.links, resumed.leases)).is_err() {
            self.disconnected(self.item.links);
            return;
        }
        tracing::info!(worker = %self.address.worker, "a worker connected");
        self.publish("worker.connected");
        capacity.offer();
    }

    /// Gives the worker a task; a slot of a former connection gives nothing, as its lease would be one
    /// too many for this one.
    fn assign(&mut self, assignment: Box<Assignment>, slot: SlotPermit) {
        let lease = assignment.lease;
        if self.item.link.as_ref().is_none_or(|link| !slot.is_at(&link.capacity)) {
            self.give_back(lease, task::Message::Undelivered(lease.lease));
            return;
        }
        self.item.view().worker.assign(lease, self.node.kernel.ports.clock.moment());
        self.item.slots.insert(lease, (slot, Some(Output::of(&assignment.task))));
        self.item.send(WorkerCommand::Assign(assignment));
    }

    fn disconnected(&mut self, link: u64) {
        if self.item.link.as_ref().is_some_and(|current| current.number == link) {
            self.item.unlink();
            self.item.view().worker.disconnect();
            self.node.actors.workers.changed();
            tracing::info!(worker = %self.address.worker, "a worker's connection ended");
            self.publish("worker.disconnected");
        }
    }

    async fn heard(&mut self, link: u64, said: WorkerMessage) {
        if self.item.link.as_ref().is_none_or(|current| current.number != link) {
            return;
        }
        {
            let mut view = self.item.view();
            view.last_heard_at = self.node.now();
            view.worker.heard(self.node.kernel.ports.clock.moment());
        }
        if let Some(link) = &self.item.link {
            link.capacity.set_open(!self.item.view().worker.is_draining());
        }
        match said {
            WorkerMessage::Heartbeat(leases, unreadable) => {
                let answer =
                    self.item.view().worker.renew(&leases, self.node.kernel.ports.clock.moment());
                self.item.send(WorkerCommand::Leases(answer, unreadable));
            }
            WorkerMessage::Delta(lease, text) => self.delta(lease, &text).await,
            WorkerMessage::Completed(lease, output, completion) => {
                self.forward_result(lease, Of::Complete, task::Answer::Output(output, completion));
            }
            WorkerMessage::Failed(lease, failure) => {
                self.forward_result(lease, Of::Fail, task::Answer::Failure(failure));
            }
            // A key that is bound to queues says nothing about what everybody shares.
            WorkerMessage::Reported(..) if self.item.link.as_ref().is_none_or(Link::is_bound) => {}
            WorkerMessage::Reported(lease, reported) => {
                let address =
                    TaskAddress { environment: self.address.environment, task: lease.task };
                self.node.send(address, task::Message::Reported(lease.lease, reported));
            }
            WorkerMessage::Called(lease, called) => {
                let address =
                    TaskAddress { environment: self.address.environment, task: lease.task };
                let message = task::Message::Called(lease.lease, called, self.bound());
                self.node.send(address, message);
            }
            WorkerMessage::Draining => self.drain(),
            WorkerMessage::Returned(leases) => self.returned(leases),
        }
    }

    /// The queues that the worker's key is bound to, if it is.
    fn bound(&self) -> Arc<[String]> {
        self.item.link.as_ref().map(|link| Arc::clone(&link.bound)).unwrap_or_default()
    }

    /// Streams a text in pieces, and lets others have the thread in between; drops a text of a lease that
    /// is not the worker's own.
    async fn delta(&mut self, lease: LeaseToken, text: &str) {
        if !self.item.view().worker.holds(lease) {
            return;
        }
        let Some((_, Some(output))) = self.item.slots.get_mut(&lease) else { return };
        let environment = self.address.environment;
        for (number, piece) in pieces(text).enumerate() {
            if number > 0 && number.is_multiple_of(PIECES_AT_ONCE) {
                tokio::task::yield_now().await;
            }
            let length = piece.chars().count() as u64;
            let offset = output.length;
            output.length += length;
            let so_far = output
                .text
                .get_or_insert_with(|| self.node.observers.texts.of(environment, lease.task));
            so_far.push(output.run, piece, length);
            let (task, version, at) = (&output.task, output.run.version, self.node.now());
            let delta =
                || Delta { task: Arc::clone(task), version, offset, text: piece.to_owned(), at };
            self.node.observers.events.delta(environment, delta);
        }
    }

    /// The task compares the lease: an answer under one that this worker lost may be a duplicate.
    fn forward_result(&self, lease: LeaseToken, of: Of, answer: task::Answer) {
        let worker = self.address;
        let ack =
            AckSender::new(Arc::clone(&self.node.actors.workers.directory), worker, lease, of);
        let address = TaskAddress { environment: worker.environment, task: lease.task };
        let bound = self.bound();
        self.node.send(
            address,
            task::Message::Result(Box::new(task::WorkerResult { lease, answer, bound, ack })),
        );
    }

    fn drain(&mut self) {
        self.item.view().worker.drain();
        if let Some(link) = &self.item.link {
            link.capacity.set_open(false);
        }
        self.publish("worker.draining");
    }

    /// Tasks of a worker that stops are no losses: they are in their queues again.
    fn returned(&mut self, leases: Vec<LeaseToken>) {
        for lease in leases {
            if self.item.view().worker.holds(lease) {
                tracing::info!(worker = %self.address.worker, task = %lease.task, "a task is given back");
                self.give_back(lease, task::Message::Undelivered(lease.lease));
            }
        }
    }

    /// Ends a lease and notifies its task.
    fn give_back(&mut self, lease: LeaseToken, why: task::Message) {
        self.item.release(lease);
        let address = TaskAddress { environment: self.address.environment, task: lease.task };
        self.node.send(address, why);
    }

    fn look(&mut self) {
        let moment = self.node.kernel.ports.clock.moment();
        let over = self.item.view().worker.expire(moment);
        for lease in over {
            tracing::warn!(worker = %self.address.worker, task = %lease.task, "a lease ran out");
            self.give_back(lease, task::Message::LeaseExpired(lease.lease));
        }
        let (reachable, status, heard) = {
            let view = self.item.view();
            (view.worker.is_reachable(moment), view.worker.status(moment), view.worker.last_heard())
        };
        if let (Some(link), false) = (&self.item.link, reachable) {
            link.capacity.set_open(false);
        }
        if status == Status::Lost && self.item.link.is_some() {
            let link = self.item.links;
            self.disconnected(link);
        }
        if status == Status::Lost && moment >= heard.after(REMEMBERED) && self.retire() {
            self.node.actors.workers.forget(self.address.worker, &self.item.view);
        }
    }

    fn publish(&self, event: &'static str) {
        let worker = WorkerRow::of(&self.item.view());
        self.node.append_event(self.address.environment, event, worker);
    }
}
