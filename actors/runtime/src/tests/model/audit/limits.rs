//! Limits: at any moment nothing is beyond one, and at rest nothing is held.

use std::collections::BTreeMap;

use callboard_domain::budget::Money;
use callboard_domain::id::Environment;
use callboard_domain::machine::Machine;
use callboard_domain::spending::{Ledger, OnExceed};

use super::super::limits::Planned;
use super::super::moves::ALL;
use super::super::world::World;
use super::{Picture, must};

impl World {
    /// Compares what is spent, reserved and running with the limits.
    ///
    /// # Errors
    /// One is passed.
    pub(in super::super) fn judge_limits(&mut self) -> Result<(), String> {
        for Ledger { budget, spent, reserved, .. } in
            self.handle.budgets(Environment::LIVE, ALL).items
        {
            let fits = budget.on_exceed == OnExceed::Alert || spent + reserved <= budget.limit;
            must(fits, || {
                format!("{}: {spent} and {reserved} are more than {}", budget.id, budget.limit)
            })?;
        }
        // An actor that broke over its commit takes its place again, which somebody else may have by then.
        let strict = self.shared().is_innocent();
        let Some(Planned { id, bound, running }) = &mut self.limits.planned else { return Ok(()) };
        let runs = self.handle.running_of(&id.to_string());
        // Those that ran under a larger plan go on.
        let most = bound.filter(|_| strict).map(|bound| bound.max(*running));
        *running = runs;
        must(most.is_none_or(|most| runs <= most), || format!("{id} runs {runs}, beyond {most:?}"))
    }

    /// Each account counts at least the unfinished tasks that are stored: one counts before it is stored, until its
    /// end is.
    ///
    /// # Errors
    /// It counts fewer.
    pub(super) fn judge_counts(&self, picture: &Picture) -> Result<(), String> {
        // A dead process does not know what was stored.
        if self.is_over() {
            return Ok(());
        }
        let mut stored: BTreeMap<&str, u64> = BTreeMap::new();
        for detail in picture.tasks.values().filter(|detail| !detail.task.is_finished()) {
            *stored.entry(&detail.task.spec.account).or_default() += 1;
        }
        for (account, stored) in stored {
            let (counted, _) = self.handle.holdings(account).unfinished();
            must(counted >= stored, || format!("{account} has {stored} and counts {counted}"))?;
        }
        Ok(())
    }

    /// At rest nothing is reserved, counted or listed, and each budget has spent what its tasks cost.
    ///
    /// # Errors
    /// Something is held, or a sum is another.
    pub(super) fn judge_limits_at_rest(&self, picture: &Picture) -> Result<(), String> {
        let held = self.handle.held_by_limits();
        must(held.is_empty(), || format!("held at rest: {held:?}"))?;
        for (id, model) in &self.limits.budgets {
            let cost = picture.tasks.values().filter_map(|detail| {
                let task = &detail.task;
                let counts = task.spec.model == *model && task.spec.origin.copy_of.is_none();
                task.result.as_ref().filter(|_| counts).map(|result| result.usage.total_cost)
            });
            let cost = cost.fold(Money::ZERO, |sum, cost| sum + Money::from_usd(cost));
            let spent = self
                .handle
                .budget(Environment::LIVE, *id)
                .map_err(|error| error.to_string())?
                .spent;
            must(spent == cost, || format!("{id} has spent {spent}, and its tasks cost {cost}"))?;
        }
        Ok(())
    }
}
