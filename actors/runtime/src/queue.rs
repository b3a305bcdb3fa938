//! A queue's actor: brings ready tasks and workers with room together.
//!
//! Spawned by its supervisor at the first message; stops when nothing is ready and nobody serves it.
//! After a break it is filled again from the unfinished tasks. Deliberately absent: the order, which
//! [`callboard_domain::queue`] decides, and leases, which each task gives out itself.

use std::sync::Arc;

use callboard_domain::id::{Environment, TaskId};
use callboard_domain::queue::{Queue, Ready};
use callboard_domain::task::Task;

use crate::capacity::WorkerCapacity;
use crate::item::{Done, Held, Item, ItemKind};
use crate::node::Node;
use crate::shard::TaskAddress;
use crate::supervisor::Reason;
use crate::task;

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
    Serve(Arc<WorkerCapacity>),
    /// There is room somewhere, or a worker left.
    Look,
}

/// Queues, for their supervisor.
pub(crate) type QueueKind = ItemKind<QueueItem>;

/// A queue in the memory of its actor.
pub(crate) struct QueueItem {
    ready: Queue,
    capacities: Vec<Arc<WorkerCapacity>>,
    /// The capacity that is asked first, so that all get their share.
    turn: usize,
}

impl Item for QueueItem {
    const NAME: &'static str = "queue";
    type Address = Address;
    type Message = Message;

    fn new(node: &Arc<Node>, _: &Address) -> Self {
        Self { ready: Queue::new(node.settings.aging), capacities: Vec::new(), turn: 0 }
    }

    async fn start(held: &mut Held<Self>, reason: Reason) -> Done {
        if reason != Reason::Woken {
            let Address { environment, queue } = &held.address;
            for ready in held.node.ready_in(*environment, queue).await? {
                held.item.ready.push(ready);
            }
            held.item.capacities = held.node.workers.serving(*environment, queue);
            held.dispatch();
        }
        Ok(())
    }

    async fn handle(held: &mut Held<Self>, message: Message) -> Done {
        let item = &mut held.item;
        match message {
            Message::Push(ready) => item.ready.push(ready),
            Message::Remove(task) => {
                item.ready.remove(task);
            }
            Message::Serve(capacity) => {
                item.capacities.retain(|other| other.worker() != capacity.worker());
                item.capacities.push(capacity);
            }
            Message::Look => item.capacities.retain(|capacity| !capacity.is_gone()),
        }
        held.dispatch();
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.capacities.is_empty()
    }
}

impl Held<QueueItem> {
    /// Gives out tasks as long as there are tasks and slots that fit.
    fn dispatch(&mut self) {
        if self.node.is_draining() {
            return;
        }
        let count = self.item.capacities.len();
        let mut idle = 0;
        while idle < count && !self.item.ready.is_empty() {
            let capacity = Arc::clone(&self.item.capacities[self.item.turn % count]);
            self.item.turn = (self.item.turn + 1) % count;
            idle = if self.give(&capacity) { 0 } else { idle + 1 };
        }
    }

    fn give(&mut self, capacity: &Arc<WorkerCapacity>) -> bool {
        let Some(slot) = capacity.take() else {
            return false;
        };
        let concurrency = &self.node.concurrency;
        let ready = &mut self.item.ready;
        let found =
            ready.take(|model| capacity.runs(model), |account| concurrency.has_room(account));
        let Some((task, limited)) = found else {
            // No task here fits: the slot is put back without a call to the other queues.
            slot.release_quietly();
            return false;
        };
        let running = limited.map(|account| concurrency.start(account));
        let address = TaskAddress { environment: self.address.environment, task };
        self.node.send(address, task::Message::Lease { slot, running });
        true
    }
}
