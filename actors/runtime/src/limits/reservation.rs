//! The reservation for the tasks of a unit that is not stored yet.

use std::sync::Arc;

use callboard_domain::budget::Money;
use callboard_domain::id::BudgetId;

/// A share of a budget for a task.
pub(crate) type BudgetShare = (BudgetId, Money);

/// The giver of shares of budgets, which takes them back.
pub(crate) trait Giver: std::fmt::Debug + Send + Sync {
    fn take_back(&self, shares: &[BudgetShare]);
}

/// Shares of budgets, and other places in limits; dropped, all of it is given back.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    giver: Option<Arc<dyn Giver>>,
    of: Vec<BudgetShare>,
    places: Vec<Box<dyn Place>>,
    /// True if nothing comes of the unit: the reservation counts for its own tasks alone.
    is_dry: bool,
}

/// A place in a limit, which is given back when it is dropped.
pub(crate) trait Place: std::fmt::Debug + Send + Sync {}

impl Reservation {
    /// The reservation of a unit that is only played.
    pub(crate) fn dry() -> Self {
        let mut made = Self::default();
        made.is_dry = true;
        made
    }

    pub(crate) const fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// Keeps a place until the reservation is dropped.
    pub(crate) fn hold(&mut self, place: impl Place + 'static) {
        self.places.push(Box::new(place));
    }

    /// Names who takes the shares back.
    pub(crate) fn set_giver<G: Giver + 'static>(&mut self, giver: &Arc<G>) {
        if self.giver.is_none() {
            self.giver = Some(Arc::clone(giver) as Arc<dyn Giver>);
        }
    }

    /// Adds shares.
    pub(crate) fn add(&mut self, shares: Vec<BudgetShare>) {
        self.of.extend(shares);
    }

    /// The reserved amount that the ledger of the budget does not have.
    pub(crate) fn beside_ledger(&self, budget: BudgetId) -> Money {
        let own = self.of.iter().filter(|(id, _)| self.is_dry && *id == budget);
        own.fold(Money::ZERO, |sum, (_, amount)| sum + *amount)
    }

    /// Takes a share out of the reservation, for its task.
    pub(crate) fn take(&mut self, share: &BudgetShare) -> Option<BudgetShare> {
        let index = self.of.iter().position(|own| own == share)?;
        Some(self.of.swap_remove(index))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let (Some(giver), false) = (&self.giver, self.of.is_empty()) {
            giver.take_back(&self.of);
        }
    }
}
