//! A queue's actor: brings ready tasks and workers with room together.
//!
//! The supervisor of queues spawns the actor at the first message; the actor stops when no task is
//! ready and no worker serves the queue. After a break the unfinished tasks fill it again. Deliberately
//! absent: the order, which [`callboard_domain::queue`] decides, and leases, which each task gives out
//! itself.

mod control;

use std::sync::Arc;
use std::time::Duration;

use callboard_domain::id::{Environment, TaskId};
use callboard_domain::queue::{Dequeued, Queue, QueueChange, QueueSettings, Ready, Throttle};
use callboard_domain::rate::Place;
use callboard_domain::task::Task;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::capacity::WorkerCapacity;
use crate::events::QueueDepth;
use crate::item::{Done, Held, Item, ItemKind};
use crate::metrics::Depth;
use crate::models::Blocked;
use crate::node::Node;
use crate::permits::Permits;
use crate::shard::TaskAddress;
use crate::supervisor::Reason;
use crate::task;

/// A queue's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    /// The queue's name.
    pub(crate) queue: Arc<str>,
}

/// The queue that the sandbox's worker serves: it holds the sandbox's tasks of every name.
pub const SANDBOX_QUEUE: &str = "*";

impl Address {
    /// The queue of a task. The sandbox has one for all names, because its one worker serves them all.
    pub(crate) fn of(environment: Environment, task: &Task) -> Self {
        let queue = match environment {
            Environment::Live => task.spec.queue.as_str(),
            Environment::Test => SANDBOX_QUEUE,
        };
        Self { environment, queue: queue.into() }
    }
}

/// A message to a queue.
#[derive(Debug)]
pub(crate) enum Message {
    /// A task is ready.
    Push(Ready),
    /// A task is not ready any more.
    Remove(TaskId),
    /// A worker serves the queue.
    Serve(Arc<WorkerCapacity>),
    /// A worker has room, or a worker left.
    Look,
    /// Report the depth of a production queue.
    Measure(mpsc::UnboundedSender<Option<Depth>>),
    /// The queue's length may be published again.
    PublishDepth,
    /// A model may have room again, by the clock.
    LookAgain,
    /// An operator changes the queue's settings.
    Change(QueueChange, oneshot::Sender<QueueSettings>),
    /// The rate of leases may have room again.
    RateFrees,
    /// A lease that was counted was not given out.
    NotLeased(Place),
}

/// Queues, for their supervisor.
pub(crate) type QueueKind = ItemKind<QueueItem>;

/// A queue in the memory of its actor.
pub(crate) struct QueueItem {
    ready: Queue,
    capacities: Vec<Arc<WorkerCapacity>>,
    /// The capacity that is asked first, so that all get their share.
    turn: usize,
    published: PublishedDepth,
    /// The models that had no room when the queue looked last.
    blocked: Blocked,
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

    fn new(node: &Arc<Node>, address: &Address) -> Self {
        let (ready, published) = (Queue::new(node.settings.aging), PublishedDepth::default());
        let settings = node.flow.settings(address.environment, &address.queue);
        let throttle = (!settings.is_default()).then(|| Box::new(Throttle::new(settings)));
        let capacities = Vec::new();
        Self {
            ready,
            capacities,
            turn: 0,
            published,
            blocked: Blocked::default(),
            throttle,
            waits_for_rate: false,
        }
    }

    async fn start(held: &mut Held<Self>, reason: Reason) -> Done {
        let Address { environment, queue } = &held.address;
        if *environment == Environment::Test {
            held.node.sandbox_used.notify_one();
        }
        if reason != Reason::Woken {
            for ready in held.node.ready_in(&held.address).await? {
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
                held.node.models.pass_over(held.address.environment, |next| next == task);
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

    /// The clock decides: see [`Message::PublishDepth`] and [`Message::RateFrees`].
    fn is_counted(message: &Message) -> bool {
        !matches!(message, Message::PublishDepth | Message::LookAgain | Message::RateFrees)
    }
}

impl Held<QueueItem> {
    /// The depth of the queue; nothing for a queue of the sandbox.
    fn depth(&self) -> Option<Depth> {
        let Address { environment, queue } = &self.address;
        let ready = &self.item.ready;
        let depth = Depth { queue: Arc::clone(queue), ready: ready.len(), oldest: ready.oldest() };
        (*environment == Environment::Live).then_some(depth)
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
        self.node.models.pass_over(self.address.environment, |task| ready.contains(task));
    }

    /// Publishes the queue's length if it changed, at once or when the pause is over.
    fn publish_depth(&mut self) {
        let Address { environment, queue } = &self.address;
        let (depth, published) = (self.item.ready.len(), &mut self.item.published);
        if published.again
            || depth == published.depth
            || !self.node.events.wants_depths(*environment)
        {
            return;
        }
        let pause = published.at.map(|at| PUBLISH_INTERVAL.saturating_sub(at.elapsed()));
        if let Some(pause) = pause.filter(|pause| !pause.is_zero()) {
            published.again = true;
            self.myself.send_after(pause, || Message::PublishDepth);
            return;
        }
        (published.depth, published.at) = (depth, Some(Instant::now()));
        let (queue, at) = (Arc::clone(queue), self.node.now());
        self.node.events.depth(*environment, QueueDepth { queue, depth, at });
    }

    /// Looks again once a model that has no room may have some, by the clock.
    fn await_models(&mut self) {
        let now = self.node.ports.clock.moment();
        if let Some(pause) = self.item.blocked.pause(now) {
            self.myself.send_after(pause, || Message::LookAgain);
        }
    }

    fn give(&mut self, capacity: &Arc<WorkerCapacity>) -> bool {
        let Some(slot) = capacity.take(&self.address) else {
            return false;
        };
        let (concurrency, limits) = (&self.node.concurrency, &self.node.flow);
        let environment = self.address.environment;
        let (models, blocked) = (&self.node.models, &self.item.blocked);
        let queue = &*self.address.queue;
        let found = self.item.ready.take_flow(
            |model| capacity.runs(model) && models.has_room(environment, (model, queue), blocked),
            |account| concurrency.has_room(account),
            |key, limit| limits.has_room(environment, key, limit),
        );
        let Some(Dequeued { task, model, account, flow }) = found else {
            // No task here fits: the slot is put back without a call to all queues.
            slot.release_quietly(&self.address);
            return false;
        };
        let running = Some(concurrency.start(account));
        let call = models.begin(environment, &model, queue);
        let address = TaskAddress { environment, task };
        let (shares, rate) = self.leases(flow.as_deref());
        let permits = Permits { running, call, shares, rate };
        self.node.send(address, task::Message::Lease(slot, permits));
        true
    }
}
