//! One shard: its store, and the actors and caches of its partitions.
//!
//! Everything that belongs to one execution shares a partition, and a batch never leaves it. Only
//! this module may assume that there is one shard.

use std::sync::{Arc, OnceLock};

use callboard_domain::execution::Execution;
use callboard_domain::execution::program::Program;
use callboard_domain::id::Slot;
use callboard_store::{Batch, BatchId, Epoch, Op, Outcome, Partition, Store, Ticket};
use ractor::ActorRef;

use crate::kernel::address::{
    BatchAddress, DeliveryAddress, ExecutionAddress, ScheduleAddress, TaskAddress,
};
use crate::kernel::directory::Directory;
use crate::kernel::handoff::HandoffCache;
use crate::kernel::ports::Ports;
use crate::kernel::removal_locks::RemovalLocks;
use crate::kernel::standstill::Standstill;
use crate::limits::permits::Permits;
use crate::messages::{approval, batch, delivery, execution, schedule, submission, task};
use crate::node::timers::{TimerKey, Timers};
use crate::tables::LoadedTask;

/// The number of pooled task actors, 9 KB each.
const POOLED_TASKS: usize = 128;
/// The number of pooled execution actors.
const POOLED_EXECUTIONS: usize = 64;

/// One shard.
pub(crate) struct Shard {
    pub(crate) store: Arc<dyn Store>,
    /// The epochs of the partitions that the node owned when the shard was made: the store fences the
    /// writes of a shard of an earlier active period.
    epochs: Box<[Option<Epoch>]>,
    standstill: Arc<Standstill>,
    pub(crate) ports: Ports,
    pub(crate) tasks: Arc<Directory<TaskAddress, task::Message>>,
    pub(crate) executions: Arc<Directory<ExecutionAddress, execution::Message>>,
    pub(crate) approvals: Arc<Directory<TaskAddress, approval::Message>>,
    pub(crate) deliveries: Arc<Directory<DeliveryAddress, delivery::Message>>,
    pub(crate) schedules: Arc<Directory<ScheduleAddress, schedule::Message>>,
    pub(crate) batches: Arc<Directory<BatchAddress, batch::Message>>,
    pub(crate) handoff: HandoffCache<TaskAddress, LoadedTask>,
    /// The permits of running tasks whose actors broke, until they are started again.
    pub(crate) permits: HandoffCache<TaskAddress, Permits>,
    pub(crate) new_executions: HandoffCache<ExecutionAddress, (Execution, Arc<Program>)>,
    /// Executions that are being removed, and must not be woken.
    pub(crate) leaving: RemovalLocks<ExecutionAddress>,
    /// The approvals of tasks whose texts are being erased.
    pub(crate) leaving_approvals: RemovalLocks<TaskAddress>,
    pub(crate) timers: Timers,
    pub(crate) submissions: OnceLock<ActorRef<submission::Message>>,
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").finish_non_exhaustive()
    }
}

impl Shard {
    pub(crate) fn new(store: Arc<dyn Store>, ports: Ports, standstill: Arc<Standstill>) -> Self {
        let epochs = (0..=u8::MAX).map(|at| store.epoch(Partition(at))).collect();
        let timers = Timers::new(Arc::clone(&ports.clock));
        Self {
            store,
            epochs,
            standstill,
            ports,
            tasks: Arc::new(Directory::with_pool(POOLED_TASKS)),
            executions: Arc::new(Directory::with_pool(POOLED_EXECUTIONS)),
            approvals: Arc::default(),
            deliveries: Arc::default(),
            schedules: Arc::default(),
            batches: Arc::default(),
            handoff: HandoffCache::default(),
            permits: HandoffCache::default(),
            new_executions: HandoffCache::default(),
            leaving: RemovalLocks::default(),
            leaving_approvals: RemovalLocks::default(),
            timers,
            submissions: OnceLock::new(),
        }
    }

    /// The guard of a batch of `partition`; `None` if the partition had another owner when the shard was
    /// made.
    pub(crate) fn guard(&self, partition: u8) -> Option<(Partition, Epoch)> {
        Some((Partition(partition), self.epochs[usize::from(partition)]?))
    }

    /// Puts rows of one partition in line to be committed. Those of a project that stands still wait until it goes on.
    pub(crate) fn commit(&self, partition: u8, ops: Vec<Op>) -> Ticket {
        let commit = |batch| self.standstill.commit(&*self.store, batch, true);
        self.batch(partition, ops).map_or_else(Ticket::answered, commit)
    }

    /// The same for a writer that serves several projects: it does not wait for one that stands still.
    pub(crate) fn commit_or_refuse(&self, partition: u8, ops: Vec<Op>) -> Ticket {
        let commit = |batch| self.standstill.commit(&*self.store, batch, false);
        self.batch(partition, ops).map_or_else(Ticket::answered, commit)
    }

    /// The same for a project that stands still or is gone.
    pub(crate) fn commit_anyway(&self, partition: u8, ops: Vec<Op>) -> Ticket {
        let commit = |batch| self.store.commit(batch);
        self.batch(partition, ops).map_or_else(Ticket::answered, commit)
    }

    /// Waits until the store has room, so that other writers need not: for one who writes much.
    pub(crate) async fn room(&self) {
        self.store.room().await;
    }

    fn batch(&self, partition: u8, ops: Vec<Op>) -> Result<Batch, Outcome> {
        let guard = self.guard(partition).ok_or(Outcome::Fenced)?;
        Ok(Batch { id: BatchId(self.ports.entropy.bits()), guards: vec![guard], ops })
    }

    /// Starts no actor, and wakes none by time, until [`Self::open`].
    pub(crate) fn close(&self) {
        self.tasks.close();
        self.executions.close();
        self.approvals.close();
        self.deliveries.close();
        self.schedules.close();
        self.batches.close();
    }

    pub(crate) fn open(&self) {
        self.tasks.open();
        self.executions.open();
        self.approvals.open();
        self.deliveries.open();
        self.schedules.open();
        self.batches.open();
        self.timers.begin();
    }

    /// Starts no actor of a project until [`Self::open_project`].
    pub(crate) fn shut_project(&self, project: Slot) {
        self.tasks.shut_project(project);
        self.executions.shut_project(project);
        self.approvals.shut_project(project);
        self.deliveries.shut_project(project);
        self.schedules.shut_project(project);
        self.batches.shut_project(project);
    }

    pub(crate) fn open_project(&self, project: Slot) {
        self.tasks.open_project(project);
        self.executions.open_project(project);
        self.approvals.open_project(project);
        self.deliveries.open_project(project);
        self.schedules.open_project(project);
        self.batches.open_project(project);
    }

    /// Ends the actors of a project that is gone.
    pub(crate) fn end_project(&self, project: Slot) {
        self.tasks.end_project(project);
        self.executions.end_project(project);
        self.approvals.end_project(project);
        self.deliveries.end_project(project);
        self.schedules.end_project(project);
        self.batches.end_project(project);
    }

    /// Gives up unused memory: the handoff cache of new tasks and executions, and
    /// pooled actors.
    pub(crate) fn slim(&self) {
        self.handoff.age();
        self.permits.age();
        self.new_executions.age();
        self.tasks.shrink_pool();
        self.executions.shrink_pool();
    }

    /// Wakes the items at their instants, for good.
    pub(crate) async fn wake_in_time(&self) {
        loop {
            self.timers.next_look().await;
            while let Some(key) = self.timers.due() {
                match key {
                    TimerKey::Task(task) => self.tasks.send(task, task::Message::TimePassed),
                    TimerKey::Execution(execution) => {
                        self.executions.send(execution, execution::Message::TimePassed);
                    }
                    TimerKey::Approval(approval) => {
                        self.approvals.send(approval, approval::Message::TimePassed);
                    }
                    TimerKey::Delivery(delivery) => {
                        self.deliveries.send(delivery, delivery::Message::TimePassed);
                    }
                    TimerKey::Schedule(schedule) => {
                        self.schedules.send(schedule, schedule::Message::TimePassed);
                    }
                }
            }
        }
    }
}
