//! Budgets of many tasks: a cap on the cost in a period, by tag, account, template or model.
//!
//! ```text
//!   limit ├── spent ──┼── reserved ──┼── free ──┤        spent begins anew with each period
//!              ▲           │   ▲
//!    real cost └───────────┘   └ worst case, before a lease (wait) or at the submission (reject)
//! ```

use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp as Instant, ToSpan};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::Timestamp;
use crate::budget::Money;
use crate::error::{Error, Rule};
use crate::id::BudgetId;
use crate::names::names;
use crate::task::Spec;

/// The most budgets.
pub const MAX_BUDGETS: usize = 1_000;
/// The highest limit, in USD.
pub const MAX_LIMIT: f64 = 1e9;
/// The most thresholds of alerts.
pub const MAX_ALERTS: usize = 8;
/// The longest name of a time zone, in characters.
pub const MAX_ZONE: usize = 64;

names! {
    /// The time after which a budget begins anew.
    Period {
        /// A day, from midnight to midnight.
        Day = "day",
        /// A week, from Monday to Sunday.
        Week = "week",
        /// A month, from the first of a month.
        Month = "month",
        /// All time: the budget never begins anew.
        Total = "total",
    }
}

names! {
    /// The fate of a task that does not fit.
    OnExceed {
        /// The task waits until it fits.
        Wait = "wait",
        /// The task is refused; the step of an execution fails.
        Reject = "reject",
        /// The task runs all the same; only events report it.
        Alert = "alert",
    }
}

/// The tasks that a budget is for; a task matches if it has every named property.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Match {
    /// All of these tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The account that submitted the task.
    pub account: Option<String>,
    /// The template that the task's execution was deployed from.
    pub template: Option<String>,
    /// The model.
    pub model: Option<String>,
}

/// The properties of a task that budgets match.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The tags.
    pub tags: &'a [String],
    /// The account.
    pub account: &'a str,
    /// The template.
    pub template: Option<&'a str>,
    /// The model.
    pub model: &'a str,
}

impl<'a> From<&'a Spec> for Subject<'a> {
    fn from(spec: &'a Spec) -> Self {
        Self {
            tags: &spec.tags,
            account: &spec.account,
            template: spec.origin.template.as_deref(),
            model: &spec.model,
        }
    }
}

impl Match {
    /// True for a task that the budget is for.
    #[must_use]
    pub fn matches(&self, subject: Subject<'_>) -> bool {
        self.tags.iter().all(|tag| subject.tags.contains(tag))
            && self.account.as_ref().is_none_or(|account| account == subject.account)
            && self.template.as_deref().is_none_or(|id| subject.template == Some(id))
            && self.model.as_ref().is_none_or(|model| model == subject.model)
    }
}

/// A budget, as its owner set it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// The identifier.
    pub id: BudgetId,
    /// The tasks that the budget is for.
    pub matches: Match,
    /// The cap of a period.
    pub limit: Money,
    /// The time after which the budget begins anew.
    pub period: Period,
    /// The IANA name of the zone whose midnights count.
    pub timezone: String,
    /// The shares of the limit at which an event is sent, ascending, above 0 and below 1.
    pub alert_at: Vec<f64>,
    /// The fate of a task that does not fit.
    pub on_exceed: OnExceed,
}

/// A change of a budget; `None` leaves a member as it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BudgetChange {
    /// The cap of a period.
    pub limit: Option<Money>,
    /// The shares of the limit at which an event is sent.
    pub alert_at: Option<Vec<f64>>,
    /// The fate of a task that does not fit.
    pub on_exceed: Option<OnExceed>,
}

/// Passes for the name of a time zone.
///
/// # Errors
/// [`Error::Invalid`], rule `format`.
pub fn check_zone(name: &str) -> Result<(), Error> {
    zone(name).map(drop).ok_or_else(|| {
        let says = "timezone must be a name of the IANA database, such as Europe/Berlin or UTC";
        Error::invalid("timezone", Rule::Format, says)
    })
}

/// The day of an instant in a time zone, such as 2026-11-28; in UTC if there is no zone of that name.
#[must_use]
pub fn day_of(instant: Timestamp, zone_name: &str) -> String {
    let zone = zone(zone_name).unwrap_or(TimeZone::UTC);
    let millis = i64::try_from(instant.as_millis()).unwrap_or(i64::MAX);
    let instant = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    instant.to_zoned(zone).date().to_string()
}

fn zone(name: &str) -> Option<TimeZone> {
    TimeZone::get(name).ok()
}

impl Budget {
    /// The budget after a change.
    #[must_use]
    pub fn with(self, change: BudgetChange) -> Self {
        Self {
            limit: change.limit.unwrap_or(self.limit),
            alert_at: change.alert_at.unwrap_or(self.alert_at),
            on_exceed: change.on_exceed.unwrap_or(self.on_exceed),
            ..self
        }
    }

    /// The beginning of the period of `now`, and its end if it has one. A midnight that daylight saving
    /// skips is the first instant after it.
    #[must_use]
    pub fn period(&self, now: Timestamp) -> (Timestamp, Option<Timestamp>) {
        let total = (Timestamp::from_millis(0), None);
        let zone = zone(&self.timezone).unwrap_or(TimeZone::UTC);
        let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let Ok(instant) = Instant::from_millisecond(millis) else { return total };
        let today = instant.to_zoned(zone.clone()).date();
        let (first, next) = match self.period {
            Period::Day => (Some(today), today.tomorrow().ok()),
            Period::Week => {
                let since_monday = i64::from(today.weekday().to_monday_zero_offset());
                let monday = today.checked_sub(since_monday.days()).ok();
                (monday, monday.and_then(|monday| monday.checked_add(7.days()).ok()))
            }
            Period::Month => {
                let first = today.first_of_month();
                (Some(first), first.checked_add(1.month()).ok())
            }
            Period::Total => return total,
        };
        let midnight = |date: Date| {
            let midnight = date.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond();
            Some(Timestamp::from_millis(u64::try_from(midnight).unwrap_or(0)))
        };
        let start = first.and_then(midnight).unwrap_or(Timestamp::from_millis(0));
        (start, next.and_then(midnight))
    }
}

/// The room for a task in a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The task fits.
    Now,
    /// The task does not fit now.
    Exceeds,
    /// The task's model has no price, so that its cost cannot be bounded.
    Unpriced,
}

/// A threshold that a cost passed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Passed {
    /// The cost reached this share of the limit.
    Alert(f64),
    /// The limit is spent.
    Exceeded,
}

/// A budget with its spent and reserved amounts.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    /// The budget. Shared with its views.
    pub budget: Arc<Budget>,
    /// The beginning of the period that the sums are of.
    pub since: Timestamp,
    /// The end of that period.
    pub until: Option<Timestamp>,
    /// The costs in the period.
    pub spent: Money,
    /// The worst cases of the tasks that have not ended.
    pub reserved: Money,
}

impl Ledger {
    /// A budget with the amount spent since `since`, the beginning of a period.
    #[must_use]
    pub fn new(budget: Budget, since: Timestamp, spent: Money, now: Timestamp) -> Self {
        let (start, until) = budget.period(now);
        let spent = if since < start { Money::ZERO } else { spent };
        let budget = Arc::new(budget);
        Self { budget, since: start.max(since), until, spent, reserved: Money::ZERO }
    }

    /// Begins anew if the period is over; true if it did. A clock that goes back changes nothing.
    pub fn roll(&mut self, now: Timestamp) -> bool {
        if self.until.is_none_or(|until| now < until) {
            return false;
        }
        (self.since, self.until) = self.budget.period(now);
        self.spent = Money::ZERO;
        true
    }

    /// True if a task of this worst case fits beside the reserved and `promised` amounts.
    #[must_use]
    pub fn fit(&self, worst: Option<Money>, promised: Money) -> Fit {
        match worst {
            None => Fit::Unpriced,
            Some(_) if self.budget.on_exceed == OnExceed::Alert => Fit::Now,
            Some(worst) if self.spent + self.reserved + promised + worst <= self.budget.limit => {
                Fit::Now
            }
            Some(_) => Fit::Exceeds,
        }
    }

    /// Adds a cost; returns the thresholds that it passed, in order.
    pub fn spend(&mut self, cost: Money, now: Timestamp) -> Vec<Passed> {
        self.roll(now);
        let before = self.spent;
        self.spent += cost;
        let limit = self.budget.limit;
        let crosses = |at: Money| before < at && self.spent >= at;
        let share = |share: f64| Money::from_usd(limit.as_usd() * share);
        let alerts = self.budget.alert_at.iter().copied().filter(|at| crosses(share(*at)));
        let mut passed: Vec<_> = alerts.map(Passed::Alert).collect();
        if crosses(limit) {
            passed.push(Passed::Exceeded);
        }
        passed
    }

    /// Gives back a reservation.
    pub fn release(&mut self, amount: Money) {
        self.reserved -= amount;
    }
}

#[cfg(test)]
mod tests;
