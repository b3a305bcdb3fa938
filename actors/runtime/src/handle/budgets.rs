//! Budgets of many tasks, and usage.

use callboard_domain::Error;
use callboard_domain::id::{BudgetId, Environment};
use callboard_domain::query::{Page, Window};
use callboard_domain::spending::{Budget, BudgetChange, Ledger, MAX_BUDGETS};

use super::Handle;
use crate::read::unreadable;
use crate::read::usage::{self, Usages};

impl Handle {
    /// A fresh identifier of a budget.
    #[must_use]
    pub fn fresh_budget_id(&self) -> BudgetId {
        BudgetId::from_u128(self.node.fresh_id(self.node.now(), 0))
    }

    /// Creates a budget of a project. After `Ok` the budget survives a power cut, and every lease and
    /// submission goes by it.
    ///
    /// # Errors
    /// [`Error::InvalidState`] if there are too many, [`Error::Unavailable`].
    pub async fn create_budget(
        &self,
        environment: Environment,
        budget: Budget,
    ) -> Result<Ledger, Error> {
        let _counting = self.node.limits.counting.lock().await;
        if self.node.limits.budgets_of(environment).all(self.node.now()).len() >= MAX_BUDGETS {
            let says = format!("there are {MAX_BUDGETS} budgets, which is the limit: delete one");
            return Err(Error::InvalidState(says));
        }
        let id = budget.id;
        let written = self.node.limits.budgets_of(environment).create(&self.node, budget).await;
        written.map_err(|error| unreadable(&error))?;
        self.budget(environment, id)
    }

    /// Changes a budget; the spent and reserved amounts stay.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn change_budget(
        &self,
        environment: Environment,
        id: BudgetId,
        change: BudgetChange,
    ) -> Result<Ledger, Error> {
        let budgets = self.node.limits.budgets_of(environment);
        let changed = budgets.change(&self.node, id, change).await;
        if !changed.map_err(|error| unreadable(&error))? {
            return Err(Error::not_found("budget", id));
        }
        self.budget(environment, id)
    }

    /// Deletes a budget; tasks that wait for it go on.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Unavailable`].
    pub async fn delete_budget(
        &self,
        environment: Environment,
        id: BudgetId,
    ) -> Result<Ledger, Error> {
        let ledger = self.budget(environment, id)?;
        let deleted = self.node.limits.budgets_of(environment).delete(&self.node, id).await;
        deleted.map_err(|error| unreadable(&error))?;
        Ok(ledger)
    }

    /// A budget as it stands.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn budget(&self, environment: Environment, id: BudgetId) -> Result<Ledger, Error> {
        let found = self.node.limits.budgets_of(environment).get(id, self.node.now());
        found.ok_or_else(|| Error::not_found("budget", id))
    }

    /// The budgets, newest first.
    #[must_use]
    pub fn budgets(&self, environment: Environment, window: Window) -> Page<Ledger> {
        let mut all = self.node.limits.budgets_of(environment).all(self.node.now());
        all.reverse();
        let total = all.len() as u64;
        Page { items: all.into_iter().skip(window.offset).take(window.limit).collect(), total }
    }

    /// True if budgets cost nothing.
    #[cfg(test)]
    pub(crate) fn is_without_budgets(&self) -> bool {
        self.node.limits.budgets(Environment::LIVE).is_none()
    }

    /// Sums up the costs of budgets at once.
    #[cfg(test)]
    pub(crate) async fn fold_budgets(&self) {
        self.node
            .limits
            .budgets_of(Environment::LIVE)
            .fold(&self.node)
            .await
            .expect("the store can be written");
    }

    /// The usage of the tasks whose results came within the asked time.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there are too many, [`Error::Unavailable`].
    pub async fn usage(
        &self,
        environment: Environment,
        asked: &usage::Asked,
    ) -> Result<Usages, Error> {
        usage::of(self.node.store(), environment, asked).await
    }
}
