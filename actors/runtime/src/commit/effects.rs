//! The consequences of a unit that is durable: its changes say them, and one flat match performs them.
//!
//! ```text
//!   Change ─▶ consequences: one Effect each ─▶ perform: a message, a timer, or a count in memory
//! ```
//!
//! A start uses the same match for what a crash left owed.

use callboard_domain::Timestamp;
use callboard_domain::approval::Effect as OfApproval;
use callboard_domain::approval::Record;
use callboard_domain::budget::Money;
use callboard_domain::delivery::Effect as OfDelivery;
use callboard_domain::execution::{Effect as OfExecution, Execution};
use callboard_domain::id::{Environment, ExecutionId, TaskId, TemplateBatchId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::schedule::Started;
use callboard_domain::task::{Effect as OfTask, LeaseToken, Spec, Task};
use callboard_domain::unit::Change;
use tokio::sync::oneshot;

use crate::kernel::address::{
    BatchAddress, DeliveryAddress, ExecutionAddress, QueueAddress, TaskAddress, WorkerAddress,
};
use crate::messages::{approval, batch, delivery, execution, queue, schedule, task, worker};
use crate::node::Node;
use crate::node::timers::TimerKey;

/// A consequence of a change.
#[derive(Clone, Copy)]
pub(crate) enum Effect<'c> {
    /// The change counts in the metrics.
    Count(&'c Change),
    /// A task that ended is traced.
    TraceTask(&'c Task),
    /// An execution that ended is traced.
    TraceExecution(&'c Execution),
    Task(&'c Task, OfTask),
    Approval(TaskId, OfApproval),
    Execution(ExecutionAddress, OfExecution),
    Delivery(DeliveryAddress, OfDelivery),
    /// Steps are due that the unit had no room for.
    Continue(ExecutionAddress),
    /// A run has ended, for which a schedule may wait.
    RunEnded(Started),
    /// A row of a batch is held or decided, and has a place to give or to take.
    RowMoves(TemplateBatchId),
    /// A row of a batch has taken answers over that had cost so much.
    RowSaved(TemplateBatchId, Money),
    /// A row of a batch has ended.
    RowEnded(TemplateBatchId, ExecutionId),
    /// A new task may leave no room for others with its concurrency key.
    CancelExcess(&'c Spec),
    /// The outcome of a gated output is on record.
    Reviewed(TaskId, Option<&'c Record>, &'c Record),
}

/// Calls `each` with the consequences of a change, in their order.
pub(crate) fn consequences<'c>(
    environment: Environment,
    change: &'c Change,
    mut each: impl FnMut(Effect<'c>),
) {
    each(Effect::Count(change));
    match change {
        Change::Task(step, _) => of_task(step, each),
        Change::NewTask(step, _) => {
            of_task(step, &mut each);
            if step.next.spec.flow.is_some() {
                each(Effect::CancelExcess(&step.next.spec));
            }
        }
        Change::Approval(step, _) => {
            let task = step.next.id();
            step.effects.iter().for_each(|effect| each(Effect::Approval(task, *effect)));
            step.next.task.origin.rows.into_iter().for_each(|batch| each(Effect::RowMoves(batch)));
        }
        Change::Execution(before, step) => {
            let (execution, is_over) = (step.next.head.spec.id, step.next.is_finished());
            let address = ExecutionAddress { environment, execution };
            if is_over && before.as_ref().is_none_or(|before| !before.is_finished()) {
                each(Effect::TraceExecution(&step.next));
            }
            step.effects.iter().for_each(|effect| each(Effect::Execution(address, *effect)));
            if let Some(of) = &step.next.head.spec.row_of {
                let before = before.as_ref().map_or(Money::ZERO, |it| it.head.budget.saved());
                let mut saved = step.next.head.budget.saved();
                saved -= before;
                if !saved.is_zero() {
                    each(Effect::RowSaved(of.batch, saved));
                }
            }
            if is_over {
                let row_of = step.next.head.spec.row_of.iter();
                row_of.for_each(|of| each(Effect::RowEnded(of.batch, execution)));
                each(Effect::RunEnded(Started::Execution(execution)));
            }
            if step.next.has_due() {
                each(Effect::Continue(address));
            }
        }
        Change::Delivery(step) => {
            let address = DeliveryAddress { environment, delivery: step.next.notification.id() };
            step.effects.iter().for_each(|effect| each(Effect::Delivery(address, *effect)));
        }
        // The signal's payload is a row, and nothing else.
        Change::Signal(..) => {}
        Change::Review(task, before, after) => {
            each(Effect::Reviewed(*task, before.as_ref(), after));
        }
    }
}

fn of_task<'c>(Step { next, effects, .. }: &'c Step<Task>, mut each: impl FnMut(Effect<'c>)) {
    let is_over = next.is_finished();
    if is_over {
        each(Effect::TraceTask(next));
    }
    for effect in effects {
        each(Effect::Task(next, *effect));
    }
    if is_over {
        each(Effect::RunEnded(Started::Task(next.spec.id)));
    }
}

/// Performs a consequence of a unit that was decided at `now`.
pub(crate) fn perform(node: &Node, environment: Environment, effect: Effect<'_>, now: Timestamp) {
    match effect {
        Effect::Count(change) => node.observers.count(environment, change, now),
        Effect::TraceTask(task) => node.kernel.ports.trace(|tracer| tracer.task_ended(task, now)),
        Effect::TraceExecution(run) => {
            node.kernel.ports.trace(|tracer| tracer.execution_ended(run, now));
        }
        Effect::Task(task, effect) => of_tasks(node, environment, task, effect),
        Effect::Approval(task, effect) => {
            of_approvals(node, TaskAddress { environment, task }, effect);
        }
        Effect::Execution(address, effect) => of_executions(node, address, effect),
        Effect::Delivery(address, effect) => of_deliveries(node, address, effect),
        Effect::Continue(address) => node.tell_execution(address, execution::Message::Continue),
        Effect::RunEnded(run) => {
            if let Some(address) = node.state.run_watch.ended((environment, run)) {
                let shard = node.shard(address.schedule.partition());
                shard.schedules.send(address, schedule::Message::RunEnded);
            }
        }
        Effect::RowMoves(batch) => tell_batch(node, environment, batch, batch::Message::Look),
        Effect::RowSaved(batch, saved) => node.state.batches.save((environment, batch), saved),
        Effect::RowEnded(batch, execution) => {
            let row = callboard_domain::batch::row(execution);
            tell_batch(node, environment, batch, batch::Message::Ended(row));
        }
        Effect::CancelExcess(spec) => {
            let excess = node.limits.flow.excess(environment, spec);
            cancel_excess(node, environment, &spec.account, excess);
        }
        Effect::Reviewed(task, before, after) => {
            node.observers.review_stats.changed(environment, task, before, after);
        }
    }
}

fn tell_batch(node: &Node, environment: Environment, batch: TemplateBatchId, of: batch::Message) {
    let address = BatchAddress { environment, batch };
    node.shard(batch.partition()).batches.send(address, of);
}

/// Performs an effect of a task; a start also uses this, for tasks without an actor.
pub(crate) fn of_tasks(node: &Node, environment: Environment, task: &Task, effect: OfTask) {
    let id = task.spec.id;
    let key = TimerKey::Task(TaskAddress { environment, task: id });
    match effect {
        OfTask::Enqueue => {
            let queue = QueueAddress::of(environment, task);
            node.actors.queues.send(queue, queue::Message::Push(node.ready(environment, task)));
        }
        OfTask::Dequeue => {
            let queue = QueueAddress::of(environment, task);
            node.actors.queues.send_if_awake(&queue, queue::Message::Remove(id));
        }
        OfTask::Watch { lease, worker } => {
            let lease = LeaseToken { task: id, lease };
            let worker = WorkerAddress { environment, worker };
            node.actors.workers.directory.send(worker, worker::Message::Watch(lease));
        }
        OfTask::Revoke { lease, worker, reason } => {
            let lease = LeaseToken { task: id, lease };
            let worker = WorkerAddress { environment, worker };
            node.actors
                .workers
                .directory
                .send_if_awake(&worker, worker::Message::Revoke(lease, reason));
        }
        OfTask::WakeAt(at) => node.shard(id.partition()).timers.set(key, at),
        OfTask::ForgetWake => node.shard(id.partition()).timers.forget(key),
        // The task's actor has the worker's slot, and hands it over.
        OfTask::Assign { .. } => {}
    }
}

/// Performs an effect of an approval; a start also uses this, for approvals without an actor.
pub(crate) fn of_approvals(node: &Node, address: TaskAddress, effect: OfApproval) {
    let (key, shard) = (TimerKey::Approval(address), node.shard(address.task.partition()));
    match effect {
        OfApproval::WakeAt(at) => shard.timers.set(key, at),
        OfApproval::ForgetWake => shard.timers.forget(key),
        OfApproval::Assign(user) => {
            node.limits.reviewers.assign(address, user);
            let slot = address.environment.slot();
            // Left while the unit was on its way to the disk, when the approval could not be told yet.
            if user.is_some_and(|user| node.state.accounts.role_in(slot, user).is_none()) {
                shard.approvals.send(address, approval::Message::AssigneeGone);
            }
        }
        // A delivery of the same unit.
        OfApproval::Notify(..) => {}
    }
}

/// Performs an effect of an execution that needs no actor.
pub(crate) fn of_executions(node: &Node, address: ExecutionAddress, effect: OfExecution) {
    let (key, shard) = (TimerKey::Execution(address), node.shard(address.execution.partition()));
    match effect {
        // A due step is decided in the unit that makes it due, or the actor receives a message to continue.
        // A new task is in its queue already; an ended one was looked up when this was loaded.
        OfExecution::Decide(_) | OfExecution::Watch { .. } | OfExecution::WatchItem { .. } => {}
        OfExecution::CancelTask { task, .. } => {
            node.send(TaskAddress { environment: address.environment, task }, task::Message::Stop);
        }
        OfExecution::WakeAt(at) => shard.timers.set(key, at),
        OfExecution::ForgetWake => shard.timers.forget(key),
    }
}

/// Performs an effect of a delivery that needs no actor; a start also uses this.
pub(crate) fn of_deliveries(node: &Node, address: DeliveryAddress, effect: OfDelivery) {
    let (key, shard) = (TimerKey::Delivery(address), node.shard(address.delivery.partition()));
    match effect {
        OfDelivery::Begin => shard.deliveries.send(address, delivery::Message::TimePassed),
        OfDelivery::WakeAt(at) => shard.timers.set(key, at),
        OfDelivery::ForgetWake => shard.timers.forget(key),
        // Only the delivery's actor can send.
        OfDelivery::Send => {}
    }
}

/// Cancels tasks for the account that submitted another one with their concurrency key.
pub(crate) fn cancel_excess(node: &Node, environment: Environment, by: &str, excess: Vec<TaskId>) {
    for task in excess {
        // The answer has no receiver.
        let (reply, _) = oneshot::channel();
        let message = task::Message::Cancel(by.to_owned(), reply);
        node.send(TaskAddress { environment, task }, message);
    }
}
