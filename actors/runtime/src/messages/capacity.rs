//! The slots of workers: they tell a queue, without a question, that a worker has room.
//!
//! A capacity is a worker's side of one connection: the number of leases that it still takes. A queue takes a slot and
//! sends it along with the task; a drop on the way, by a refusal or a crash, gives the slot back.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use callboard_domain::id::{Environment, WorkerId};
use callboard_domain::worker::Profile;

use crate::kernel::address::{QueueAddress, WorkerAddress};
use crate::messages::queue::{self, QueueDirectory};
use crate::messages::worker::{self, Assignment, WorkerDirectory};

/// One worker's room for leases.
pub(crate) struct WorkerCapacity {
    address: WorkerAddress,
    profile: Profile,
    workers: Arc<WorkerDirectory>,
    queues: Arc<QueueDirectory>,
    free: AtomicI64,
    open: AtomicBool,
    gone: AtomicBool,
    /// The queues that found no slot since one was given back, perhaps because another queue only tried it.
    missed: Mutex<Vec<QueueAddress>>,
}

impl std::fmt::Debug for WorkerCapacity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "capacity of {}, {} free", self.address.worker, self.free.load(Ordering::Relaxed))
    }
}

impl WorkerCapacity {
    /// The room of a worker that has just connected.
    pub(crate) fn new(
        address: WorkerAddress,
        profile: Profile,
        workers: Arc<WorkerDirectory>,
        queues: Arc<QueueDirectory>,
    ) -> Arc<Self> {
        let free = AtomicI64::new(i64::try_from(profile.concurrency).unwrap_or(i64::MAX));
        let (open, gone) = (AtomicBool::new(true), AtomicBool::new(false));
        let missed = Mutex::default();
        Arc::new(Self { address, profile, workers, queues, free, open, gone, missed })
    }

    /// The worker that has the slots.
    pub(crate) const fn worker(&self) -> WorkerId {
        self.address.worker
    }

    /// True if the worker serves the queue.
    pub(crate) fn serves(&self, environment: Environment, queue: &str) -> bool {
        self.address.environment == environment && self.profile.queues.iter().any(|q| q == queue)
    }

    /// True if the worker runs `model`.
    pub(crate) fn runs(&self, model: &str) -> bool {
        self.profile.runs(model)
    }

    /// A slot for this queue, if there is one.
    pub(crate) fn take(self: &Arc<Self>, queue: &QueueAddress) -> Option<SlotPermit> {
        if !self.open.load(Ordering::Acquire) {
            return None;
        }
        self.take_free().or_else(|| {
            let mut missed = self.missed();
            if !missed.contains(queue) {
                missed.push(queue.clone());
            }
            // A slot that came back before this was noted.
            self.take_free()
        })
    }

    fn take_free(self: &Arc<Self>) -> Option<SlotPermit> {
        let taken = self
            .free
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |free| (free > 0).then(|| free - 1));
        taken.ok().map(|_| SlotPermit(Some(Arc::clone(self))))
    }

    fn missed(&self) -> std::sync::MutexGuard<'_, Vec<QueueAddress>> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a lease that the worker has already.
    pub(crate) fn occupy(self: &Arc<Self>) -> SlotPermit {
        self.free.fetch_sub(1, Ordering::AcqRel);
        SlotPermit(Some(Arc::clone(self)))
    }

    /// Gives slots out, or no more.
    pub(crate) fn set_open(&self, open: bool) {
        if self.open.swap(open, Ordering::AcqRel) != open && open {
            self.call();
        }
    }

    /// Tells the worker's queues that there is room.
    pub(crate) fn call(&self) {
        self.missed().clear();
        for queue in self.queue_addresses() {
            self.queues.send_if_awake(&queue, queue::Message::Look);
        }
    }

    /// Offers the capacity to the worker's queues.
    pub(crate) fn offer(self: &Arc<Self>) {
        for queue in self.queue_addresses() {
            self.queues.send(queue, queue::Message::Serve(Arc::clone(self)));
        }
    }

    /// Takes the capacity away from the worker's queues: the connection is over.
    pub(crate) fn withdraw(&self) {
        self.open.store(false, Ordering::Release);
        self.gone.store(true, Ordering::Release);
        self.call();
    }

    /// True if the worker's connection is over.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn queue_addresses(&self) -> impl Iterator<Item = QueueAddress> {
        let environment = self.address.environment;
        self.profile
            .queues
            .iter()
            .map(move |queue| QueueAddress { environment, queue: queue.as_str().into() })
    }
}

/// A slot at a worker, given back when dropped.
#[derive(Debug)]
pub(crate) struct SlotPermit(Option<Arc<WorkerCapacity>>);

impl SlotPermit {
    /// The worker of the slot.
    pub(crate) fn worker(&self) -> WorkerId {
        self.capacity().address.worker
    }

    /// True if the slot is one of this capacity.
    pub(crate) fn is_at(&self, capacity: &Arc<WorkerCapacity>) -> bool {
        Arc::ptr_eq(self.capacity(), capacity)
    }

    /// Gives the worker a task, and the slot with it.
    pub(crate) fn assign(self, assignment: Assignment) {
        let (address, workers) = (self.capacity().address, Arc::clone(&self.capacity().workers));
        workers.send(address, worker::Message::Assign(Box::new(assignment), self));
    }

    /// Gives the slot back: no task of the queue fits. Only the other queues that missed it look again.
    pub(crate) fn release_quietly(mut self, queue: &QueueAddress) {
        if let Some(capacity) = self.0.take() {
            capacity.free.fetch_add(1, Ordering::SeqCst);
            let missed = std::mem::take(&mut *capacity.missed());
            for other in missed.iter().filter(|other| *other != queue) {
                capacity.queues.send_if_awake(other, queue::Message::Look);
            }
        }
    }

    fn capacity(&self) -> &Arc<WorkerCapacity> {
        self.0.as_ref().expect("a slot is at a capacity until it is dropped")
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        if let Some(capacity) = self.0.take() {
            capacity.free.fetch_add(1, Ordering::AcqRel);
            capacity.call();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_misses_a_slot_which_another_one_gives_back_is_told() {
        let of = |name: &str| QueueAddress { environment: Environment::LIVE, queue: name.into() };
        let profile = Profile {
            name: "w".into(),
            version: "1".into(),
            queues: vec!["a".into(), "b".into()],
            models: vec!["*".into()],
            functions: [].into(),
            concurrency: 1,
        };
        let worker =
            WorkerAddress { environment: Environment::LIVE, worker: WorkerId::from_u128(1) };
        let queues: Arc<QueueDirectory> = Arc::default();
        let (a, b) = (of("a"), of("b"));
        // Their messages wait here, as those of actors that are being started.
        queues.broken(&a);
        queues.broken(&b);
        let told = || (queues.waiting(&a), queues.waiting(&b));
        let capacity = WorkerCapacity::new(worker, profile, Arc::default(), Arc::clone(&queues));
        let tried = capacity.take(&a).expect("it is free");
        assert!(capacity.take(&b).is_none());
        assert!(capacity.take(&a).is_none());
        tried.release_quietly(&a);
        assert_eq!(told(), (0, 1), "the one that missed it, not the one that tried it");
        capacity.take(&a).expect("it is free again").release_quietly(&a);
        assert_eq!(told(), (0, 1), "nobody has missed it since");
        let taken = capacity.take(&b).expect("it is free again");
        assert!(capacity.take(&a).is_none());
        drop(taken);
        assert_eq!(told(), (1, 2), "all are told that a lease is over");
        capacity.take(&b).expect("it is free again").release_quietly(&b);
        assert_eq!(told(), (1, 2));
    }
}
