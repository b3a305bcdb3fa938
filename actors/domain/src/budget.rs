//! Money, and what an execution may still spend (PROTOCOL.md 4, `options.maxCost`).
//!
//! ```text
//!   maxCost ├── spent ──┼── reserved ──┼── free ──┤
//!                ▲            │   ▲        │
//!      real cost └────────────┘   └────────┘ worst case, before a dispatch
//!      of a task that ended
//! ```
//!
//! Inside it is counted in billionths of a dollar: sums of `f64` depend on their order and leave
//! crumbs when a reservation is taken back, so that a cap is missed by a hair.
//!
//! Deliberately absent: prices, which `usage` has, and what happens to a step that does not fit.

use std::ops::{Add, AddAssign, SubAssign};

use serde::{Deserialize, Serialize};

use crate::usage::Usage;

const NANOS_PER_USD: f64 = 1e9;

/// An amount of money in billionths of a US dollar, never negative.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many billionths of a dollar.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// In billionths of a dollar.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The amount nearest to `usd`; what is negative or no number counts as nothing.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the conversion saturates, which is what is wanted"
    )]
    pub fn from_usd(usd: f64) -> Self {
        Self((usd * NANOS_PER_USD).round() as u64)
    }

    /// In US dollars, as it goes over the wire.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact up to nine million dollars")]
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / NANOS_PER_USD
    }

    /// Whether it is nothing.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl Add for Money {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Money {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Money {
    fn sub_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_sub(other.0);
    }
}

/// What was used and what is set aside.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    input: u64,
    output: u64,
    spent: Money,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    price_unknown: bool,
    /// The sum over the steps, whose rows have each its own share.
    #[serde(skip)]
    reserved: Money,
}

/// Whether a dispatch fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It does, with this much set aside.
    Now(Money),
    /// It may, once what is set aside for others turns out to cost less.
    Later(Money),
    /// It can't any more.
    Never,
    /// Nobody knows: there is a cap, and the model has no price.
    Unpriced,
}

impl Budget {
    /// Whether a dispatch that costs `worst` at most fits under `max`. Without a cap everything
    /// fits and nothing is set aside. With one, a model without a price never fits: a cap that
    /// might not hold is none.
    #[must_use]
    pub fn fit(&self, max: Option<Money>, worst: Option<Money>) -> Fit {
        match (max, worst) {
            (None, _) => Fit::Now(Money::ZERO),
            (Some(_), None) => Fit::Unpriced,
            (Some(max), Some(worst)) if self.spent + self.reserved + worst <= max => {
                Fit::Now(worst)
            }
            (Some(max), Some(worst)) if self.spent + worst <= max => Fit::Later(worst),
            (Some(_), Some(_)) => Fit::Never,
        }
    }

    /// Sets an amount aside.
    pub fn reserve(&mut self, amount: Money) {
        self.reserved += amount;
    }

    /// Takes back what was set aside.
    pub fn release(&mut self, amount: Money) {
        self.reserved -= amount;
    }

    /// Counts what a task really used.
    pub fn charge(&mut self, usage: Usage) {
        self.input = self.input.saturating_add(usage.input);
        self.output = self.output.saturating_add(usage.output);
        self.spent += Money::from_usd(usage.total_cost);
        self.price_unknown |= usage.price_unknown;
    }

    /// What was used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.input,
            output: self.output,
            total_cost: self.spent.as_usd(),
            price_unknown: self.price_unknown,
        }
    }

    /// The cost so far.
    #[must_use]
    pub const fn spent(&self) -> Money {
        self.spent
    }

    /// What is set aside for the tasks that are out.
    #[must_use]
    pub const fn reserved(&self) -> Money {
        self.reserved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CENT: Money = Money::from_nanos(10_000_000);

    fn costing(total_cost: f64) -> Usage {
        Usage { input: 3, output: 2, total_cost, price_unknown: false }
    }

    #[test]
    fn a_hundred_thousand_small_costs_add_up_exactly() {
        let mut budget = Budget::default();
        (0..100_000).for_each(|_| budget.charge(costing(0.000_001)));
        assert_eq!(budget.spent(), Money::from_usd(0.1));
        assert!((0..100_000).map(|_| 0.000_001).sum::<f64>() > 0.1, "as f64 it would not");
    }

    #[test]
    fn what_is_no_price_costs_nothing_and_what_is_endless_is_never_paid() {
        assert_eq!(Money::from_usd(f64::NAN), Money::ZERO);
        assert_eq!(Money::from_usd(-1.0), Money::ZERO);
        assert_eq!(Money::from_usd(f64::INFINITY) + CENT, Money::from_nanos(u64::MAX));
    }

    #[test]
    fn what_others_have_set_aside_may_come_free_and_what_is_spent_does_not() {
        let mut budget = Budget::default();
        budget.reserve(CENT);
        assert_eq!(budget.fit(Some(CENT), Some(CENT)), Fit::Later(CENT));
        budget.release(CENT);
        assert_eq!(budget.fit(Some(CENT), Some(CENT)), Fit::Now(CENT));
        budget.charge(costing(0.000_000_001));
        assert_eq!(budget.fit(Some(CENT), Some(CENT)), Fit::Never);
    }

    #[test]
    fn a_model_without_a_price_fits_only_where_there_is_no_cap() {
        let budget = Budget::default();
        assert_eq!(budget.fit(Some(CENT), None), Fit::Unpriced);
        assert_eq!(budget.fit(None, None), Fit::Now(Money::ZERO));
    }
}
