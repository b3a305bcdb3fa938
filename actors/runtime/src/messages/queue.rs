//! The messages of a queue's actor.

use std::sync::Arc;

use callboard_domain::id::TaskId;
use callboard_domain::queue::{QueueChange, QueueSettings, Ready};
use callboard_domain::rate::Place;
use tokio::sync::{mpsc, oneshot};

use crate::kernel::address::QueueAddress;
use crate::kernel::directory::Directory;
use crate::limits::Queues;
use crate::messages::capacity::WorkerCapacity;
use crate::observers::metrics::Depth;

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

/// The actors of queues.
pub(crate) type QueueDirectory = Directory<QueueAddress, Message>;

impl Queues for QueueDirectory {
    fn look(&self, queue: &QueueAddress) {
        self.send_if_awake(queue, Message::Look);
    }

    fn look_everywhere(&self) {
        self.send_to_all_awake(|| Message::Look);
    }

    fn not_leased(&self, queue: &QueueAddress, place: Place) {
        self.send_if_awake(queue, Message::NotLeased(place));
    }
}
