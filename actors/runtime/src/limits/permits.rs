//! What a lease holds of the limits: dropped, all of it is given back.
//!
//! A queue takes the permits before the task is asked, and the task may refuse: it was cancelled, or a budget has no
//! room. Whatever counts only leases that were given out is kept by [`Permits::given`].

use std::sync::Weak;

use callboard_domain::rate::Place;

use crate::kernel::address::QueueAddress;
use crate::kernel::planted::{Fault, is_planted};
use crate::limits::Queues;
use crate::limits::concurrency::Running;
use crate::limits::flow::{KeyLease, QueueLease};
use crate::limits::models::CallPermit;

/// The permits of one lease.
#[derive(Debug, Default)]
pub(crate) struct Permits {
    /// The share of the account's concurrent tasks.
    pub(crate) running: Option<Running>,
    /// The call of a metered model.
    pub(crate) call: Option<CallPermit>,
    /// The lease of the queue.
    pub(crate) queue: Option<QueueLease>,
    /// That of the concurrency key.
    #[expect(dead_code, reason = "the task holds it, and gives it back by dropping it")]
    pub(crate) key: Option<KeyLease>,
    /// The place in the rate of the queue; boxed, because every lease would pay for what few queues have.
    pub(crate) rate: Option<Box<RatePermit>>,
}

impl Permits {
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
    queue: QueueAddress,
    place: Place,
    queues: Option<Weak<dyn Queues>>,
}

impl RatePermit {
    pub(crate) fn new(queues: Weak<dyn Queues>, queue: &QueueAddress, place: Place) -> Self {
        Self { queue: queue.clone(), place, queues: Some(queues) }
    }

    /// The lease was given out, and counts for a minute.
    fn keep(mut self) {
        self.queues = None;
    }
}

impl Drop for RatePermit {
    fn drop(&mut self) {
        if is_planted(Fault::RateCountsParked) {
            return;
        }
        if let Some(queues) = self.queues.as_ref().and_then(Weak::upgrade) {
            queues.not_leased(&self.queue, self.place);
        }
    }
}
