//! The places of a unit in the limits: counted before the unit is stored, and given back if it is not.
//!
//! ```text
//!   admit (or refuse) ─▶ Admission, which undoes itself when it is dropped
//!                          └▶ enter: the unit goes to the disk ─▶ Entered ─┬─ keep: durable
//!                                                                          └─ undo: not stored
//! ```
//!
//! Nothing is undone while the disk's answer is awaited: a unit whose owner stops meanwhile may become durable.

use std::sync::Arc;

use callboard_domain::Error;
use callboard_domain::id::Environment;
use callboard_domain::machine::Step;
use callboard_domain::task::Spec;
use callboard_domain::unit::{Change, Unit};
use callboard_store::Op;

use crate::kernel::planted::{Fault, is_planted};
use crate::limits::Limits;
use crate::limits::budgets::Settlement;
use crate::limits::limit::NewTask;
use crate::limits::reservation::Reservation;

/// The place of a unit's new tasks in the limits; dropped, it is given back.
#[must_use]
pub(crate) struct Admission {
    limits: Arc<Limits>,
    environment: Environment,
    /// The account, and the number of tasks that its holdings count already.
    counted: Option<(String, usize)>,
    reserved: Reservation,
}

/// The place of the tasks of a unit that is on its way to the disk.
#[must_use]
pub(crate) struct Entered {
    environment: Environment,
    new: Vec<Arc<Spec>>,
    settled: Vec<Settlement>,
}

impl Admission {
    /// The place of a unit of work that goes on, which is never refused.
    pub(crate) fn of_work_that_goes_on(
        limits: &Arc<Limits>,
        environment: Environment,
        reserved: Reservation,
    ) -> Self {
        let limits = Arc::clone(limits);
        Self { limits, environment, counted: None, reserved }
    }

    /// Finds room for the items of a submission.
    ///
    /// # Errors
    /// [`Error::InvalidState`] for a concurrency key that rejects, [`Error::BudgetExceeded`], [`Error::Invalid`] for a
    /// model without a price, [`Error::TooManyUnfinished`], [`Error::QuotaExceeded`].
    pub(crate) fn of_submission(
        limits: &Arc<Limits>,
        environment: Environment,
        account: &str,
        unit: &Unit,
        reserved: Reservation,
    ) -> Result<Self, Error> {
        let mut admission = Self::of_work_that_goes_on(limits, environment, reserved);
        let new = unit.changes.iter().filter_map(|change| {
            let Change::NewTask(step, _) = change else { return None };
            Some(&step.next.spec)
        });
        let mut tasks = 0;
        for spec in new {
            tasks += 1;
            if spec.flow.is_some() {
                limits.flow.admit_task(environment, spec, &mut admission.reserved)?;
            }
        }
        if let Some(budgets) = limits.budgets(environment) {
            budgets.admit(&limits.prices, unit, &mut admission.reserved)?;
        }
        limits.holdings.admit(environment, account, tasks)?;
        admission.counted = Some((account.to_owned(), tasks));
        Ok(admission)
    }

    /// Counts the tasks of the unit, and what its steps cost; the rows say the costs.
    pub(crate) fn enter(mut self, unit: &Unit, rows: &mut Vec<Op>) -> Entered {
        let (limits, environment) = (Arc::clone(&self.limits), self.environment);
        let is_admitted = self.counted.take().is_some();
        let mut settled = Vec::new();
        if let Some(budgets) = limits.budgets(environment) {
            let (costs, of) = budgets.settle(unit);
            rows.extend(costs);
            settled = of;
        }
        let mut new = Vec::new();
        for change in &unit.changes {
            let Change::NewTask(Step { next: task, .. }, inputs) = change else { continue };
            let prices = &limits.prices;
            let entering = NewTask { environment, task, inputs, prices, is_admitted };
            for limit in limits.on_tasks(environment) {
                limit.enter(&entering, &mut self.reserved);
            }
            new.push(Arc::clone(&task.spec));
        }
        Entered { environment, new, settled }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if let Some((account, tasks)) = self.counted.take() {
            self.limits.holdings.give_back(self.environment, &account, tasks);
        }
    }
}

impl Entered {
    /// The unit is durable.
    pub(crate) fn keep(self, limits: &Limits, unit: &Unit) {
        for change in &unit.changes {
            let (Change::Task(step, _) | Change::NewTask(step, _)) = change else { continue };
            for limit in limits.on_tasks(self.environment) {
                limit.stepped(self.environment, step);
            }
        }
        if !self.settled.is_empty() {
            limits.budgets_of(self.environment).close(self.settled);
        }
    }

    /// The unit was not stored: its new tasks do not exist, and nothing was spent.
    pub(crate) fn undo(self, limits: &Limits) {
        if is_planted(Fault::FailedCommitStands) {
            return;
        }
        if !self.settled.is_empty() {
            limits.budgets_of(self.environment).reopen(self.settled);
        }
        for spec in &self.new {
            for limit in limits.on_tasks(self.environment) {
                limit.undo(self.environment, spec);
            }
        }
    }
}
