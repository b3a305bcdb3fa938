//! What a lease holds of the limits: dropped, all of it is given back.
//!
//! A queue takes the permits before the task is asked, and the task may refuse: it was cancelled, or a budget has no
//! room. Whatever counts only leases that were given out is kept by [`Permits::given`].

use std::sync::{Arc, Weak};

use callboard_domain::id::Environment;
use callboard_domain::rate::Place;
use callboard_domain::task::Task;

use crate::concurrency::Running;
use crate::flow::Share;
use crate::models::CallPermit;
use crate::node::Node;
use crate::planted::{Fault, is_planted};
use crate::queue::{self, QueueKind};
use crate::supervisor::DirectoryOf;

/// The permits of one lease.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    /// The share of the account's concurrent tasks.
    pub(crate) running: Option<Running>,
    /// The call of a metered model.
    pub(crate) call: Option<CallPermit>,
    /// The shares of the limits of queues and concurrency keys.
    pub(crate) shares: Vec<Share>,
    /// The place in the rate of the queue; boxed, because every lease would pay for what few queues have.
    pub(crate) rate: Option<Box<RatePermit>>,
}

impl Permits {
    /// The permits of a task that runs, and whose lease was given out before a restart.
    pub(crate) fn of_running(node: &Node, environment: Environment, task: &Task) -> Self {
        let account = node.concurrency.account(&node.accounts, &task.spec.account);
        let age = task.leased_at().map(|at| node.now().since(at));
        Self {
            running: Some(node.concurrency.start(account)),
            call: age.and_then(|age| node.models.adopt(environment, task.model(), age)),
            shares: node.flow.resume(environment, &task.spec),
            rate: None,
        }
    }

    /// The task has the lease.
    pub(crate) fn given(self) -> Self {
        if let Some(rate) = self.rate {
            rate.keep();
        }
        Self { call: self.call.map(CallPermit::given), rate: None, ..self }
    }
}

/// A lease that a queue's rate has counted.
#[derive(Debug)]
pub(crate) struct RatePermit {
    queue: queue::Address,
    place: Place,
    queues: Weak<DirectoryOf<QueueKind>>,
}

impl RatePermit {
    pub(crate) fn new(node: &Node, queue: &queue::Address, place: Place) -> Self {
        Self { queue: queue.clone(), place, queues: Arc::downgrade(&node.queues) }
    }

    /// The lease was given out, and counts for a minute.
    fn keep(mut self) {
        self.queues = Weak::new();
    }
}

impl Drop for RatePermit {
    fn drop(&mut self) {
        if is_planted(Fault::RateCountsParked) {
            return;
        }
        if let Some(queues) = self.queues.upgrade() {
            queues.send_if_awake(&self.queue, queue::Message::NotLeased(self.place));
        }
    }
}
