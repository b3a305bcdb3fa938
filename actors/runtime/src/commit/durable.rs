//! One commit for every unit of work: the one way by which an item changes.
//!
//! ```text
//!   Unit ─▶ rows ─▶ one batch ─▶ durable ─▶ effects ─▶ the owners take their next states
//!                                   └ failed: nothing is known about the disk, so the owner breaks
//!                                     and is started again from the store
//! ```
//!
//! Records that no machine stands for (accounts, templates, removals) are written by
//! [`Shard::commit`](crate::node::shard::Shard::commit) alone.

use std::time::Instant;

use callboard_domain::id::Environment;
use callboard_domain::unit::{Change, Unit};
use callboard_store::{Op, Outcome, Ticket};

use crate::commit::effects;
use crate::limits::admission::{Admission, Entered};
use crate::limits::reservation::Reservation;
use crate::node::Node;
use crate::tables;

/// A commit that failed, or whose fate is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the commit did not succeed: {0:?}")]
pub(crate) struct NotCommitted(pub(crate) Outcome);

/// A unit on its way to the disk.
#[must_use]
pub(crate) struct PendingCommit {
    environment: Environment,
    unit: Unit,
    entered: Entered,
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
    (copies, reserved): (Vec<Op>, Reservation),
) -> (Ticket, PendingCommit) {
    node.limits.holdings.store_unit(environment, &unit, &copies);
    let admission = Admission::of_work_that_goes_on(&node.limits, environment, reserved);
    submit_admitted(node, environment, partition, unit, (copies, admission))
}

/// Puts a unit in line to be committed, together with `records` that no machine stands for. New
/// tasks are handed to their first actors from now on: once the unit is durable a request may find one
/// and change it, and the handoff must never be older than that.
pub(crate) fn submit_admitted(
    node: &Node,
    environment: Environment,
    partition: u8,
    mut unit: Unit,
    (records, admission): (Vec<Op>, Admission),
) -> (Ticket, PendingCommit) {
    let begun = Instant::now();
    let mut rows = tables::rows(environment, &mut unit);
    node.limits.holdings.store_unit(environment, &unit, &rows);
    rows.extend(records);
    let entered = admission.enter(&unit, &mut rows);
    for change in &mut unit.changes {
        if let Change::NewTask(step, inputs) = change {
            node.hand_off(environment, step.next.clone(), std::mem::take(inputs));
        }
    }
    let ticket = node.shard(partition).commit(partition, rows);
    (ticket, PendingCommit { environment, unit, entered, begun })
}

impl PendingCommit {
    /// Performs the effects of a unit that is durable now.
    ///
    /// # Errors
    /// The commit failed: the owner must break.
    pub(crate) fn finish(self, node: &Node, outcome: Outcome) -> Result<Unit, NotCommitted> {
        match outcome {
            Outcome::Committed => {
                node.observers.metrics.committed(self.begun);
                Ok(self.act(node))
            }
            Outcome::Fenced
            | Outcome::Conflict(_)
            | Outcome::NotApplied(_)
            | Outcome::Unknown(_) => {
                if matches!(outcome, Outcome::Fenced | Outcome::Unknown(_)) {
                    node.kernel.lost.send_replace(true);
                }
                self.entered.undo(&node.limits);
                Err(NotCommitted(outcome))
            }
        }
    }

    fn act(self, node: &Node) -> Unit {
        let Self { environment, unit, entered, .. } = self;
        entered.keep(&node.limits, &unit);
        for change in &unit.changes {
            effects::consequences(environment, change, |effect| {
                effects::perform(node, environment, effect, unit.now);
            });
        }
        unit
    }
}
