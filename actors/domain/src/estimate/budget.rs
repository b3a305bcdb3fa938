//! A dry run under `options.maxCost`: the step at which the budget would end the run.
//!
//! Earlier steps are assumed to cost their likely amount, as real steps are charged their real cost.
//! Deliberately absent: retries, and the order of parallel steps, which changes nothing but the time.

use super::{ConditionState, DryRun};
use crate::budget::{Budget, Fit, Money};
use crate::usage::Usage;

/// A dry run under a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DryBudget {
    /// The most that the run may cost.
    pub max: Money,
    /// The end that the budget would put to the run; `None` if the run fits.
    pub over: Option<OverBudget>,
}

/// The end that a budget would put to a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverBudget {
    /// The id of the step that would not be dispatched.
    pub step: String,
    /// The reason, with the amounts.
    pub message: String,
}

impl DryRun {
    /// The run under the budget `max`.
    #[must_use]
    pub fn under(&self, max: Money) -> DryBudget {
        let mut steps: Vec<_> = self.steps.iter().collect();
        steps.sort_by_key(|step| step.level);
        let (mut budget, mut over) = (Budget::default(), None);
        for step in steps {
            if step.condition == Some(ConditionState::Skips) {
                continue;
            }
            let fits = step.signal.is_some()
                || matches!(budget.fit(Some(max), step.worst), Fit::Now(_) | Fit::Later(_));
            if fits {
                budget.charge(Usage { total_cost: step.estimated_cost, ..Usage::default() });
            } else if over.is_none() {
                let why = budget.refusal(Some(max), step.worst);
                let message = format!("step `{}` {why}", step.id);
                over = Some(OverBudget { step: step.id.clone(), message });
            }
        }
        DryBudget { max, over }
    }
}
