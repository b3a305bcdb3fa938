//! One commit for every unit of work: the one way by which an item changes.
//!
//! ```text
//!   Unit ─▶ rows ─▶ one batch ─▶ durable ─▶ effects ─▶ the owners take their next states
//!                                   └ failed: nothing is known about the disk, so the owner breaks
//!                                     and is started again from the store
//! ```
//!
//! Records that no machine stands for (accounts, templates, removals) are written by
//! [`commit_rows`] alone. Deliberately absent: the decision, which is [`callboard_domain::unit`]'s.

use std::time::Instant;

use callboard_domain::Timestamp;
use callboard_domain::id::{Environment, TaskId, TemplateBatchId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::schedule::Started;
use callboard_domain::task::State;
use callboard_domain::unit::{Change, Unit};
use callboard_store::{Batch, BatchId, Op, Outcome, Ticket};
use tokio::sync::oneshot;

use crate::budgets::{Reservation, Settlement};
use crate::node::Node;
use crate::planted::{Fault, is_planted};
use crate::ports::Tracer;
use crate::shard::{Shard, TaskAddress};
use crate::{approval, batch, delivery, execution, schedule, tables, task};

/// A commit that failed, or whose fate is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the commit did not succeed: {0:?}")]
pub(crate) struct NotCommitted(pub(crate) Outcome);

/// A unit on its way to the disk.
#[must_use]
pub(crate) struct PendingCommit {
    environment: Environment,
    unit: Unit,
    settled: Vec<Settlement>,
    begun: Instant,
}

/// Commits a unit in `partition`, for which `reserved` was taken, and performs its effects; returns the unit, for
/// its owners.
///
/// # Errors
/// The commit failed: the owner must break.
pub(crate) async fn commit(
    node: &Node,
    environment: Environment,
    partition: u8,
    unit: Unit,
    reserved: Reservation,
) -> Result<Unit, NotCommitted> {
    let (ticket, pending) = submit(node, environment, partition, unit, (Vec::new(), reserved));
    if pending.unit.ahead {
        drop(ticket);
        return Ok(pending.act(node));
    }
    pending.finish(node, ticket.await)
}

/// Puts a unit of work that goes on in line to be committed: its new tasks count for their account,
/// and are never refused. With it go the copies that it takes over from another execution, and what its decisions
/// have reserved.
pub(crate) fn submit(
    node: &Node,
    environment: Environment,
    partition: u8,
    unit: Unit,
    taken: (Vec<Op>, Reservation),
) -> (Ticket, PendingCommit) {
    node.holdings.begin(&unit);
    node.holdings.store_unit(&unit, &taken.0);
    submit_admitted(node, environment, partition, unit, taken)
}

/// Puts a unit in line to be committed, together with `records` that no machine stands for, and what is reserved for
/// its tasks. New
/// tasks are handed to their first actors from now on: once the unit is durable a request may find one
/// and change it, and the handoff must never be older than that.
pub(crate) fn submit_admitted(
    node: &Node,
    environment: Environment,
    partition: u8,
    mut unit: Unit,
    (records, mut reserved): (Vec<Op>, Reservation),
) -> (Ticket, PendingCommit) {
    let begun = Instant::now();
    let mut rows = tables::rows(environment, &mut unit);
    node.holdings.store_unit(&unit, &rows);
    rows.extend(records);
    let budgets = (!node.budgets.is_idle(environment)).then_some(&node.budgets);
    let (costs, settled) = budgets.map(|budgets| budgets.settle(&unit)).unwrap_or_default();
    rows.extend(costs);
    for change in &mut unit.changes {
        if let Change::NewTask(step, inputs) = change {
            node.flow.enter(environment, &step.next.spec);
            if let Some(budgets) = budgets {
                let spec = &step.next.spec;
                let worst = node.worst_cost(spec.called().once(), inputs, spec.max_tokens);
                budgets.enter(&step.next, worst, &mut reserved);
            }
            node.hand_off(environment, step.next.clone(), std::mem::take(inputs));
        }
    }
    let ticket = commit_rows(node.shard(partition), partition, rows);
    (ticket, PendingCommit { environment, unit, settled, begun })
}

impl PendingCommit {
    /// Performs the effects of a unit that is durable now.
    ///
    /// # Errors
    /// The commit failed: the owner must break.
    pub(crate) fn finish(self, node: &Node, outcome: Outcome) -> Result<Unit, NotCommitted> {
        match outcome {
            Outcome::Committed => {
                node.metrics.committed(self.begun);
                Ok(self.act(node))
            }
            Outcome::Fenced
            | Outcome::Conflict(_)
            | Outcome::NotApplied(_)
            | Outcome::Unknown(_) => {
                if matches!(outcome, Outcome::Fenced | Outcome::Unknown(_)) {
                    node.lost.send_replace(true);
                }
                self.undo(node);
                Err(NotCommitted(outcome))
            }
        }
    }

    /// Takes the new tasks, which do not exist, off every limit; what was spent was not.
    fn undo(self, node: &Node) {
        if is_planted(Fault::FailedCommitStands) {
            return;
        }
        node.holdings.undo(&self.unit);
        if !self.settled.is_empty() {
            node.budgets.reopen(self.settled);
        }
        for change in &self.unit.changes {
            if let Change::NewTask(step, _) = change {
                node.flow.leave(self.environment, &step.next.spec);
                node.budgets.forget(step.next.spec.id);
            }
        }
    }

    fn act(self, node: &Node) -> Unit {
        let Self { environment, unit, settled, .. } = self;
        node.holdings.end(&unit);
        if !settled.is_empty() {
            node.budgets.close(settled);
        }
        for change in &unit.changes {
            if environment == Environment::Live {
                node.metrics.count(change, unit.now);
            }
            if let Some(tracer) = &node.ports.tracer {
                trace(&**tracer, change, unit.now);
            }
            match change {
                Change::Task(step, _) | Change::NewTask(step, _) => {
                    let address = TaskAddress { environment, task: step.next.spec.id };
                    for effect in &step.effects {
                        task::perform(node, address, &step.next, *effect);
                    }
                    if step.next.is_finished() {
                        run_ended(node, environment, Started::Task(step.next.spec.id));
                    }
                    if step.next.spec.flow.is_some() {
                        keep_concurrency(node, environment, change);
                    }
                }
                Change::Approval(step, _) => {
                    let address = TaskAddress { environment, task: step.next.id() };
                    approval::perform(node, address, &step.effects);
                    tell_batch(node, environment, step.next.task.origin.rows);
                }
                Change::Execution(_, step) => {
                    let execution = step.next.head.spec.id;
                    let address = execution::Address { environment, execution };
                    step.effects
                        .iter()
                        .for_each(|effect| execution::perform(node, address, *effect));
                    if step.next.is_finished() {
                        let row_of = step.next.head.spec.row_of.as_ref();
                        tell_batch(node, environment, row_of.map(|of| of.batch));
                        run_ended(node, environment, Started::Execution(execution));
                    }
                    if step.next.has_due() {
                        let shard = node.shard(execution.partition());
                        shard.executions.send(address, execution::Message::Continue);
                    }
                }
                Change::Delivery(step) => {
                    let delivery = step.next.cargo.id();
                    let address = delivery::Address { environment, delivery };
                    step.effects
                        .iter()
                        .for_each(|effect| delivery::perform(node, address, *effect));
                }
                // The signal's payload is a row, and nothing else.
                Change::Signal(..) => {}
                Change::Review(task, before, after) => {
                    node.review_stats.changed(environment, *task, before.as_ref(), after);
                }
            }
        }
        unit
    }
}

/// Tells the batch of an execution that one of its rows runs no more, or has a place to give or to take.
fn tell_batch(node: &Node, environment: Environment, batch: Option<TemplateBatchId>) {
    if let Some(batch) = batch {
        let address = batch::Address { environment, batch };
        node.shard(batch.partition()).batches.send(address, batch::Message::Look);
    }
}

/// Tells the schedule that waits for a run that the run has ended.
fn run_ended(node: &Node, environment: Environment, run: Started) {
    if let Some(address) = node.run_watch.ended((environment, run)) {
        let shard = node.shard(address.schedule.partition());
        shard.schedules.send(address, schedule::Message::RunEnded);
    }
}

/// Keeps the list of a concurrency key, and cancels the tasks that a new one leaves no room for.
fn keep_concurrency(node: &Node, environment: Environment, change: &Change) {
    let Some(Step { next, .. }) = change.task() else { return };
    if next.is_finished() || matches!(next.state, State::AwaitingApproval { .. }) {
        node.flow.leave(environment, &next.spec);
    }
    if let Change::NewTask(..) = change {
        let excess = node.flow.excess(environment, &next.spec);
        cancel_excess(node, environment, &next.spec.account, excess);
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

/// Tells the tracer of an item that the change ends.
fn trace(tracer: &dyn Tracer, change: &Change, now: Timestamp) {
    match change {
        Change::Task(step, _) if step.next.is_finished() => tracer.task_ended(&step.next, now),
        Change::Execution(Some(before), step)
            if step.next.is_finished() && !before.is_finished() =>
        {
            tracer.execution_ended(&step.next, now);
        }
        Change::Execution(None, step) if step.next.is_finished() => {
            tracer.execution_ended(&step.next, now);
        }
        Change::Task(..)
        | Change::NewTask(..)
        | Change::Approval(..)
        | Change::Execution(..)
        | Change::Signal(..)
        | Change::Delivery(_)
        | Change::Review(..) => {}
    }
}

/// Puts rows of one partition in line to be committed.
pub(crate) fn commit_rows(shard: &Shard, partition: u8, ops: Vec<Op>) -> Ticket {
    let Some(guard) = shard.guard(partition) else { return Ticket::answered(Outcome::Fenced) };
    let id = BatchId(shard.ports.entropy.bits());
    shard.store.commit(Batch { id, guards: vec![guard], ops })
}
