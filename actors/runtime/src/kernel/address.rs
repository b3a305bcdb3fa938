//! The addresses of items, which name their actors.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use callboard_domain::id::{
    DeliveryId, Environment, ExecutionId, Mode, ScheduleId, Slot, TaskId, TemplateBatchId, WorkerId,
};
use callboard_domain::task::Task;

/// The address of an actor, which is within a project.
pub(crate) trait Address: Ord + Hash + Clone + Debug + Send + Sync + 'static {
    /// The place of the project.
    fn slot(&self) -> Slot;
}

macro_rules! in_projects {
    ($($address:ty),*) => {$(
        impl Address for $address {
            fn slot(&self) -> Slot {
                self.environment.slot()
            }
        }
    )*};
}

in_projects!(
    TaskAddress,
    ExecutionAddress,
    DeliveryAddress,
    ScheduleAddress,
    BatchAddress,
    WorkerAddress,
    QueueAddress
);

#[cfg(test)]
impl Address for u8 {
    fn slot(&self) -> Slot {
        Slot::new(self >> 4).expect("a place")
    }
}

/// A task's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TaskAddress {
    /// Production or sandbox.
    pub environment: Environment,
    /// The task.
    pub task: TaskId,
}

/// An execution's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ExecutionAddress {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    pub(crate) execution: ExecutionId,
}

/// A delivery's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DeliveryAddress {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    pub(crate) delivery: DeliveryId,
}

/// A schedule's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ScheduleAddress {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    pub(crate) schedule: ScheduleId,
}

/// A batch's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct BatchAddress {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    pub(crate) batch: TemplateBatchId,
}

/// A worker's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WorkerAddress {
    /// Production or sandbox.
    pub environment: Environment,
    /// The worker.
    pub worker: WorkerId,
}

/// A queue's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct QueueAddress {
    /// Production or sandbox.
    pub(crate) environment: Environment,
    /// The queue's name.
    pub(crate) queue: Arc<str>,
}

/// The queue that the sandbox's worker serves: it holds the sandbox's tasks of every name.
pub const SANDBOX_QUEUE: &str = "*";

impl QueueAddress {
    /// The queue of a task. The sandbox has one for all names, because its one worker serves them all.
    pub(crate) fn of(environment: Environment, task: &Task) -> Self {
        let queue = match environment.mode() {
            Mode::Live => task.spec.queue.as_str(),
            Mode::Test => SANDBOX_QUEUE,
        };
        Self { environment, queue: queue.into() }
    }
}
