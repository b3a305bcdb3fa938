//! Money, and the budget of an execution (docs/reference/executions.md).
//!
//! ```text
//!   maxCost ├── spent ──┼── reserved ──┼── free ──┤
//!                ▲            │   ▲        │
//!      real cost └────────────┘   └────────┘ worst case, before a dispatch
//!      of a task that ended
//! ```
//!
//! Amounts are integers, in billionths of a dollar: sums of `f64` depend on their order and do not
//! return to zero when a reservation is released, so a cap would be missed by a rounding error.

use std::fmt;
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
    /// Zero dollars.
    pub const ZERO: Self = Self(0);

    /// The amount of `nanos` billionths of a dollar.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The amount in billionths of a dollar.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The amount nearest to `usd`; a negative value or NaN counts as zero, infinity as the maximum.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, as intended"
    )]
    pub fn from_usd(usd: f64) -> Self {
        Self((usd * NANOS_PER_USD).round() as u64)
    }

    /// The amount in US dollars, as on the wire.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact up to nine million dollars")]
    pub fn as_usd(self) -> f64 {
        self.0 as f64 / NANOS_PER_USD
    }

    /// The amount, `count` times.
    #[must_use]
    pub const fn times(self, count: u16) -> Self {
        Self(self.0.saturating_mul(count as u64))
    }

    /// True for zero.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} USD", self.as_usd())
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

/// The usage of an execution so far, and the sum of its reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    input: u64,
    output: u64,
    spent: Money,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    price_unknown: bool,
    /// The cost of the answers that were taken over.
    #[serde(default, skip_serializing_if = "Money::is_zero")]
    saved: Money,
    /// The sum of the reservations, each of which is stored in the row of its step.
    #[serde(skip)]
    reserved: Money,
}

/// The room that a dispatch has in the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The dispatch fits and reserves this amount.
    Now(Money),
    /// The dispatch of this worst case may fit once other tasks end and release reservations.
    Later(Money),
    /// The worst case exceeds the cap even without the reservations of others.
    Never,
    /// The execution has a cap, and the model has no price.
    Unpriced,
}

impl Budget {
    /// The cost of the answers that were taken over instead of asked for.
    #[must_use]
    pub const fn saved(&self) -> Money {
        self.saved
    }

    /// Adds the cost of an answer that was taken over.
    pub fn save(&mut self, cost: Money) {
        self.saved += cost;
    }

    /// Decides if a dispatch with the worst-case cost `worst` fits under the cap `max`. Without
    /// a cap every dispatch fits and reserves nothing. A model without a price never fits under a
    /// cap, because the cap could not be kept. What costs nothing always fits, also when a task that
    /// was dearer than expected has broken the cap.
    #[must_use]
    pub fn fit(&self, max: Option<Money>, worst: Option<Money>) -> Fit {
        match (max, worst) {
            (None, _) | (Some(_), Some(Money::ZERO)) => Fit::Now(Money::ZERO),
            (Some(_), None) => Fit::Unpriced,
            (Some(max), Some(worst)) if self.spent + self.reserved + worst <= max => {
                Fit::Now(worst)
            }
            (Some(max), Some(worst)) if self.spent + worst <= max => Fit::Later(worst),
            (Some(_), Some(_)) => Fit::Never,
        }
    }

    /// The reason why a dispatch of this worst case does not fit under the cap `max`; the text follows the
    /// name of the step.
    #[must_use]
    pub fn refusal(&self, max: Option<Money>, worst: Option<Money>) -> String {
        match (max, worst) {
            (Some(max), Some(worst)) => {
                let left = Money(max.0.saturating_sub(self.spent.0));
                format!("may cost {worst}, and {left} is left of maxCost {max}")
            }
            (_, _) => "has a model without a price, so that maxCost cannot be kept".to_owned(),
        }
    }

    /// Reserves an amount for a dispatched task.
    pub fn reserve(&mut self, amount: Money) {
        self.reserved += amount;
    }

    /// Releases the reservation of a task that ended.
    pub fn release(&mut self, amount: Money) {
        self.reserved -= amount;
    }

    /// Adds the real usage of a task.
    pub fn charge(&mut self, usage: Usage) {
        self.input = self.input.saturating_add(usage.input);
        self.output = self.output.saturating_add(usage.output);
        self.spent += Money::from_usd(usage.total_cost);
        self.price_unknown |= usage.price_unknown;
    }

    /// The usage so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        Usage {
            input: self.input,
            output: self.output,
            total_cost: self.spent.as_usd(),
            price_unknown: self.price_unknown,
            ..Usage::default()
        }
    }

    /// The cost so far.
    #[must_use]
    pub const fn spent(&self) -> Money {
        self.spent
    }

    /// The reservations for the dispatched tasks.
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
        Usage { input: 3, output: 2, total_cost, ..Usage::default() }
    }

    #[test]
    fn what_costs_nothing_fits_a_cap_that_is_broken() {
        let mut budget = Budget::default();
        budget.charge(costing(0.03));
        let fit = |worst| budget.fit(Some(CENT), Some(worst));
        assert_eq!(
            (fit(Money::ZERO), fit(Money::from_nanos(1))),
            (Fit::Now(Money::ZERO), Fit::Never)
        );
        assert_eq!(budget.fit(Some(CENT), None), Fit::Unpriced);
    }

    #[test]
    fn a_hundred_thousand_small_costs_add_up_exactly() {
        let mut budget = Budget::default();
        (0..100_000).for_each(|_| budget.charge(costing(0.000_001)));
        assert_eq!(budget.spent(), Money::from_usd(0.1));
        assert!((0..100_000).map(|_| 0.000_001).sum::<f64>() > 0.1, "as f64 it would not");
    }

    #[test]
    fn nan_and_negative_prices_cost_nothing_and_infinity_saturates() {
        assert_eq!(Money::from_usd(f64::NAN), Money::ZERO);
        assert_eq!(Money::from_usd(-1.0), Money::ZERO);
        assert_eq!(Money::from_usd(f64::INFINITY) + CENT, Money::from_nanos(u64::MAX));
    }

    #[test]
    fn a_refusal_has_the_amounts() {
        let mut budget = Budget::default();
        budget.charge(costing(0.004));
        assert_eq!(
            budget.refusal(Some(CENT), Some(Money::from_usd(0.015))),
            "may cost 0.015 USD, and 0.006 USD is left of maxCost 0.01 USD"
        );
        assert!(budget.refusal(Some(CENT), None).starts_with("has a model without a price"));
    }

    #[test]
    fn a_reservation_may_be_released_and_spent_money_is_not() {
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
