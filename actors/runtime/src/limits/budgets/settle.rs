//! The costs of results: what a result has spent stands in memory and in rows of its own batch.
//!
//! ```text
//!   result ─▶ settle: spent out of the task's reservation ─▶ commit ─▶ close: the rest is given back
//!                                                               └ failed ─▶ reopen: reserved as before
//! ```
//!
//! Until the batch is durable nothing of the reservation is free, so a commit that fails takes no room that
//! somebody else has by then.

use callboard_domain::Timestamp;
use callboard_domain::budget::Money;
use callboard_domain::event::EventName;
use callboard_domain::id::TaskId;
use callboard_domain::spending::{OnExceed, Passed};
use callboard_domain::task::{State, Task};
use callboard_domain::unit::{Change, Unit};
use callboard_store::Op;

use super::{BudgetShare, Budgets, MAX_BUDGETS, OF_ROW, PARTS, cost_so_far};
use crate::kernel::planted::{Fault, is_planted};
use crate::tables::log::{self, Kind};
use crate::tables::{BudgetEvent, SPENT, SpentRow};

/// The step of a task that a worker no longer has, on its way to the disk.
#[derive(Debug)]
pub(crate) struct Settlement {
    task: TaskId,
    /// True if the budgets that reject keep their reservation for the next attempt.
    keeps: bool,
    cost: Money,
    /// The part of each reservation that the cost has used up.
    of: Vec<BudgetShare>,
}

impl Budgets {
    /// The rows of a unit: the costs of results, and the events of thresholds that they passed. What was settled is
    /// closed or reopened with the unit's commit.
    pub(crate) fn settle(&self, unit: &Unit) -> (Vec<Op>, Vec<Settlement>) {
        let (mut ops, mut settled) = (Vec::new(), Vec::new());
        for change in &unit.changes {
            if let Change::Task(step, _) = change {
                settled.extend(self.settle_task(&step.next, unit.now, &mut ops));
            }
        }
        (ops, settled)
    }

    /// The steps are durable: what is left of their reservations is free.
    pub(crate) fn close(&self, settled: Vec<Settlement>) {
        let mut inner = self.inner();
        for Settlement { task, keeps, .. } in settled {
            let Some(held) = inner.held.remove(&task) else { continue };
            inner.release(&held.of);
            if keeps {
                let rejects = |(id, _): &BudgetShare| {
                    let ledger = inner.ledgers.get(id);
                    ledger.is_some_and(|ledger| ledger.budget.on_exceed == OnExceed::Reject)
                };
                let kept = held.of.into_iter().filter(rejects).collect();
                inner.reserve(task, kept);
            }
        }
    }

    /// The steps were not stored: nothing was spent, and the tasks have their reservations.
    pub(crate) fn reopen(&self, settled: Vec<Settlement>) {
        let mut inner = self.inner();
        for Settlement { task, cost, of, .. } in settled {
            for (index, (id, used)) in of.into_iter().enumerate() {
                if let Some(ledger) = inner.ledgers.get_mut(&id) {
                    ledger.spent -= cost;
                    ledger.reserved += used;
                }
                if let Some(held) = inner.held.get_mut(&task) {
                    held.of[index].1 += used;
                }
            }
        }
    }

    fn settle_task(&self, task: &Task, now: Timestamp, ops: &mut Vec<Op>) -> Option<Settlement> {
        let (waits, mut cost) = match task.state {
            State::Running { .. } => return None,
            State::Scheduled { .. } | State::Ready | State::Backoff { .. } => {
                (true, cost_so_far(task))
            }
            State::Completed { .. } | State::AwaitingApproval { .. } | State::Failed { .. } => {
                let usage = task.result.as_ref().map(|result| result.usage).unwrap_or_default();
                (false, Money::from_usd(usage.total_cost))
            }
            State::Cancelled { .. } | State::Rejected { .. } => (false, Money::ZERO),
        };
        let mut inner = self.inner();
        let inner = &mut *inner;
        let id = task.spec.id;
        if task.state != State::Ready {
            inner.leave(id);
        }
        let held = inner.held.get_mut(&id)?;
        // What was reserved is spent by an answer that did not count; another attempt reserves anew.
        let keeps = waits && cost.is_zero();
        cost -= held.charged;
        if !held.runs || cost.is_zero() {
            return Some(Settlement { task: id, keeps, cost: Money::ZERO, of: Vec::new() });
        }
        let mut used = Vec::with_capacity(held.of.len());
        for (budget, amount) in &mut held.of {
            let part = cost.min(*amount);
            *amount -= part;
            used.push((*budget, part));
            let Some(ledger) = inner.ledgers.get_mut(budget) else { continue };
            ledger.release(part);
            for passed in ledger.spend(cost, now) {
                let (event, share) = match passed {
                    Passed::Alert(share) => (EventName::BudgetAlert, Some(share)),
                    Passed::Exceeded => (EventName::BudgetExceeded, None),
                };
                let (budget, since) = ((*ledger.budget).clone(), ledger.since);
                let row = BudgetEvent { budget, since, spent: ledger.spent, share };
                let event = (event.as_str(), now);
                ops.push(log::append(self.environment, event, Kind::Budget, row));
            }
        }
        // Each charged answer has a version of its own, while an attempt may have several answers. The rows
        // are summed up each minute.
        let budgets: Vec<_> = used.iter().map(|(budget, _)| *budget).collect();
        let of_row = if is_planted(Fault::CostInOneRow) { MAX_BUDGETS } else { OF_ROW };
        for (part, budgets) in budgets.chunks(of_row).enumerate() {
            let part = u16::try_from(part).expect("MAX_BUDGETS are a few rows");
            let number = (task.version & 0xfff) as u16 * PARTS + part;
            let row = SpentRow { at: now, cost, budgets: budgets.to_vec() };
            let key = (id.as_u128(), number);
            ops.push(SPENT.put(self.environment.number(), &key, &row, None));
        }
        Some(Settlement { task: id, keeps, cost, of: used })
    }
}
