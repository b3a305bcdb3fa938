//! A queue's actor: brings ready tasks and workers with room together.
//!
//! The supervisor of queues spawns the actor at the first message; the actor stops when no task is
//! ready and no worker serves the queue. After a break the unfinished tasks fill it again. Deliberately
//! absent: the order, which [`callboard_domain::queue`] decides, and leases, which each task gives out
//! itself.

mod control;

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::queue::{Dequeued, Queue, Throttle};
use tokio::time::Instant;

use crate::items::task;
pub(crate) use crate::kernel::address::QueueAddress as Address;
use crate::kernel::address::TaskAddress;
use crate::kernel::item::{Activation, Done, Item};
use crate::kernel::supervisor::Reason;
use crate::limits::flow::QueueLeases;
use crate::limits::models::{Blocked, Models};
use crate::limits::permits::Permits;
use crate::messages::capacity::WorkerCapacity;
pub(crate) use crate::messages::queue::Message;
use crate::node::Node;
use crate::observers::events::QueueDepth;
use crate::observers::metrics::Depth;

/// A queue in the memory of its actor.
pub(crate) struct QueueItem {
    ready: Queue,
    capacities: Vec<Arc<WorkerCapacity>>,
    /// The capacity that is asked first, so that all get their share.
    turn: usize,
    published: PublishedDepth,
    /// The models that had no room when the queue looked last.
    blocked: Blocked,
    leases: Arc<QueueLeases>,
    /// The bounds on the queue's leases, if it has settings.
    throttle: Option<Box<Throttle>>,
    /// True while the queue waits for its rate, until [`Message::RateFrees`].
    waits_for_rate: bool,
}

/// The length that was published last, and the instant.
#[derive(Default)]
struct PublishedDepth {
    depth: usize,
    at: Option<Instant>,
    /// True if a timer runs that will publish the length again.
    again: bool,
}

/// The shortest time between two published lengths of a queue.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);

impl Item for QueueItem {
    const NAME: &'static str = "queue";
    type Address = Address;
    type Message = Message;
    type Shared = Node;

    fn new(node: &Arc<Node>, address: &Address) -> Self {
        let (ready, published) = (Queue::new(node.settings.aging), PublishedDepth::default());
        let settings = node.limits.flow.settings(address);
        let throttle = (!settings.is_default()).then(|| Box::new(Throttle::new(settings)));
        let capacities = Vec::new();
        Self {
            ready,
            capacities,
            turn: 0,
            published,
            blocked: Blocked::default(),
            leases: node.limits.flow.leases(address),
            throttle,
            waits_for_rate: false,
        }
    }

    async fn start(held: &mut Activation<Self>, reason: Reason) -> Done {
        let Address { environment, queue } = &held.address;
        if environment.is_test() {
            held.node.actors.sandboxes.used(*environment);
        }
        if reason != Reason::Woken {
            for ready in held.node.ready_in(&held.address).await? {
                held.item.ready.push(ready);
            }
            held.item.capacities = held.node.actors.workers.serving(*environment, queue);
            held.dispatch();
        }
        Ok(())
    }

    async fn handle(held: &mut Activation<Self>, message: Message) -> Done {
        let item = &mut held.item;
        match message {
            Message::Push(ready) => item.ready.push(ready),
            Message::Remove(task) => {
                item.ready.remove(task);
                if let Some(models) = held.node.limits.models(held.address.environment) {
                    models.pass_over(|next| next == task);
                }
            }
            Message::Serve(capacity) => {
                item.capacities.retain(|other| other.worker() != capacity.worker());
                item.capacities.push(capacity);
            }
            Message::Measure(reply) => {
                // The send fails only if the asker has left.
                let _ = reply.send(held.depth());
                return Ok(());
            }
            Message::Look => item.capacities.retain(|capacity| !capacity.is_gone()),
            Message::PublishDepth => item.published.again = false,
            Message::LookAgain => item.blocked.looks_again(),
            Message::Change(change, reply) => Box::pin(held.change(change, reply)).await?,
            Message::RateFrees => item.waits_for_rate = false,
            Message::NotLeased(place) => {
                if let Some(throttle) = &mut item.throttle {
                    throttle.withdraw(place);
                }
            }
        }
        held.dispatch();
        held.publish_depth();
        Ok(())
    }

    fn is_idle(&self) -> bool {
        let waits = self.published.again || self.waits_for_rate;
        self.ready.is_empty() && self.capacities.is_empty() && !waits && !self.blocked.is_awaited()
    }
}

impl Activation<QueueItem> {
    /// The depth of the queue; nothing for a queue of the sandbox.
    fn depth(&self) -> Option<Depth> {
        let Address { environment, queue } = &self.address;
        let ready = &self.item.ready;
        let (environment, queue) = (*environment, Arc::clone(queue));
        let depth = Depth { environment, queue, ready: ready.len(), oldest: ready.oldest() };
        (environment.is_live()).then_some(depth)
    }

    /// Gives out tasks as long as there are tasks and slots that fit.
    fn dispatch(&mut self) {
        if self.node.is_draining() {
            return;
        }
        if self.node.is_paused() {
            self.pass_over();
            return;
        }
        let count = self.item.capacities.len();
        let mut idle = 0;
        if count == 0 {
            self.pass_over();
        }
        while idle < count && !self.item.ready.is_empty() {
            if !self.may_lease() {
                self.pass_over();
                break;
            }
            let capacity = Arc::clone(&self.item.capacities[self.item.turn % count]);
            self.item.turn = (self.item.turn + 1) % count;
            idle = if self.give(&capacity) { 0 } else { idle + 1 };
        }
        self.await_models();
    }

    /// Keeps no room of a model for tasks that the queue does not give out now.
    fn pass_over(&self) {
        let ready = &self.item.ready;
        if let Some(models) = self.node.limits.models(self.address.environment) {
            models.pass_over(|task| ready.contains(task));
        }
    }

    /// Publishes the queue's length if it changed, at once or when the pause is over.
    fn publish_depth(&mut self) {
        let Address { environment, queue } = &self.address;
        let (depth, published) = (self.item.ready.len(), &mut self.item.published);
        if published.again
            || depth == published.depth
            || !self.node.observers.events.wants_depths(*environment)
        {
            return;
        }
        let pause = published.at.map(|at| PUBLISH_INTERVAL.saturating_sub(at.elapsed()));
        if let Some(pause) = pause.filter(|pause| !pause.is_zero()) {
            published.again = true;
            self.myself.tell_after(pause, || Message::PublishDepth);
            return;
        }
        (published.depth, published.at) = (depth, Some(Instant::now()));
        let (queue, at) = (Arc::clone(queue), self.node.now());
        self.node.observers.events.depth(*environment, QueueDepth { queue, depth, at });
    }

    /// Looks again once a model that has no room may have some, by the clock.
    fn await_models(&mut self) {
        let now = self.node.kernel.ports.clock.moment();
        if let Some(pause) = self.item.blocked.pause(now) {
            self.myself.tell_after(pause, || Message::LookAgain);
        }
    }

    fn give(&mut self, capacity: &Arc<WorkerCapacity>) -> bool {
        let Some(slot) = capacity.take(&self.address) else {
            return false;
        };
        let node = Arc::clone(&self.node);
        let (concurrency, limits) = (&node.limits.concurrency, &node.limits.flow);
        let environment = self.address.environment;
        let (models, blocked) = (node.limits.models(environment), &self.item.blocked);
        let queue = &*self.address.queue;
        let leasing = node.limits.leasing(environment);
        let found = self.item.ready.take_flow(
            |model| {
                let has_room = |models: &Models| models.has_room((model, queue), blocked);
                capacity.runs(model) && models.is_none_or(has_room)
            },
            |account| concurrency.has_room(environment, account),
            |key, limit| limits.has_room(environment, key, limit),
        );
        let Some(Dequeued { task, model, account, flow }) = found else {
            // No task here fits: the slot is put back without a call to all queues.
            slot.release_quietly(&self.address);
            return false;
        };
        let running = Some(concurrency.start(environment, account));
        let call = models.and_then(|models| models.begin(&model, queue));
        let address = TaskAddress { environment, task };
        let queue = Some(self.item.leases.start());
        let key = limits.start(environment, flow.as_deref());
        drop(leasing);
        let rate = self.place_in_rate();
        let permits = Permits { running, call, queue, key, rate };
        self.node.send(address, task::Message::Lease(slot, permits));
        true
    }
}
