//! Estimates of cost and duration before a run (PROTOCOL.md 4 and 5).
//!
//! ```text
//! per step: median of past runs, else (prompt characters / 4 + maxTokens) × price
//!    ├── cost: the sum; costHigh: the worst case of each step's one call, with all outputs it reads
//!    └── durationMs: along the critical path
//! ```
//!
//! Every step counts, also one with a condition, unless the condition is known to be false. Deliberately absent: retries, time in queues and
//! reviews, which cannot be predicted, and the record of past runs.

mod budget;
mod dry_run;
mod items;

use crate::confidence::ask::Expected;
use crate::names::names;
use crate::plan::{Plan, Step};
use crate::render::Reference;
use crate::usage::{Prices, Tokens, estimate_tokens};

pub use items::DryItems;

pub use budget::{DryBudget, OverBudget};
pub use dry_run::{
    ConditionState, DryRun, DryStep, GateKind, MAX_PROMPTS, StepDefaults, dry_run, is_brief,
};

/// The assumed output of a step without `maxTokens`, in tokens.
const USUAL_OUTPUT_TOKENS: u64 = 1_000;

/// The assumed longest output of a step without `maxTokens` where another step's prompt contains it,
/// in tokens.
const LONG_OUTPUT_TOKENS: u64 = 4_096;

/// The assumed time per output token without past runs, in milliseconds.
const MS_PER_TOKEN: u64 = 20;

/// A past run of a step with a model, or the medians of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PastRun {
    /// The cost in USD.
    pub cost: f64,
    /// The duration in milliseconds.
    pub duration_ms: u64,
}

names! {
    /// The source of an estimate.
    Basis {
        /// Past runs of every step.
        History = "history",
        /// Prices, for at least one step.
        Prices = "prices",
    }
}

/// The estimate of a step or a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The likely cost in USD.
    pub cost: f64,
    /// The worst case, in USD; never below the likely cost.
    pub cost_high: f64,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// Past runs or prices.
    pub basis: Basis,
    /// A model without a price takes part and counts as 0.
    pub price_unknown: bool,
    /// A model without a price takes part, so that there is no worst case.
    pub unbounded: bool,
}

impl Estimate {
    /// Nothing runs, or nothing that costs.
    const NOTHING: Self = Self {
        cost: 0.0,
        cost_high: 0.0,
        duration_ms: 0,
        basis: Basis::History,
        price_unknown: false,
        unbounded: false,
    };
}

/// The estimate of one step: `prompt` is rendered as far as its values are known, `received` is the
/// number of tokens that outputs of other steps may still add.
#[must_use]
pub fn of_step(
    step: &Step,
    model: &str,
    prompt: &str,
    received: u64,
    past: Option<PastRun>,
    prices: &Prices,
) -> Estimate {
    if step.wait().is_some() {
        // How long a signal takes cannot be predicted, and it costs nothing.
        return Estimate::NOTHING;
    }
    let others = step.texts().skip(1).map(|text| estimate_tokens(text.source()));
    let input = others.fold(estimate_tokens(prompt), u64::saturating_add);
    let max_tokens = step.source().max_tokens;
    let output = max_tokens.unwrap_or(USUAL_OUTPUT_TOKENS);
    let usage = prices.usage(model, Tokens { input, output, ..Tokens::default() });
    let by_time = output.saturating_mul(MS_PER_TOKEN);
    let (cost, duration_ms, basis) = match past {
        Some(past) => (past.cost, past.duration_ms, Basis::History),
        None => (usage.total_cost, by_time, Basis::Prices),
    };
    let call = Expected { prompt: input.saturating_add(received), max_tokens };
    let ask = step.source().confidence.clone().unwrap_or_default();
    let further = ask.worst_case(model, call, prices).unwrap_or(0.0);
    let worst = prices.worst_case(model, call.prompt, max_tokens).map(|worst| worst + further);
    Estimate {
        cost,
        cost_high: worst.unwrap_or(0.0).max(cost),
        duration_ms,
        basis,
        price_unknown: usage.price_unknown && past.is_none(),
        unbounded: worst.is_none(),
    }
}

/// The estimate of a run from the estimates of its steps: costs add up, durations along the critical
/// path.
#[must_use]
pub fn of_run(plan: &Plan, steps: &[Estimate]) -> Estimate {
    let all_past = steps.iter().all(|step| step.basis == Basis::History);
    Estimate {
        cost: steps.iter().map(|step| step.cost).sum(),
        cost_high: steps.iter().map(|step| step.cost_high).sum(),
        duration_ms: plan
            .graph()
            .critical_path(|step| steps[usize::from(step)].duration_ms)
            .duration_ms,
        basis: if all_past { Basis::History } else { Basis::Prices },
        price_unknown: steps.iter().any(|step| step.price_unknown),
        unbounded: steps.iter().any(|step| step.unbounded),
    }
}

/// The estimate of a run without its input, for templates in lists. `model` is the model of steps
/// that name none.
#[must_use]
pub fn of_plan(
    plan: &Plan,
    model: &str,
    past: impl Fn(&str, &str) -> Option<PastRun>,
    prices: &Prices,
) -> Estimate {
    let of = |step: &Step| {
        let model = step.source().first_model().unwrap_or(model);
        let received = received(plan, step);
        let past = past(step.id(), model).filter(|_| step.for_each().is_none());
        let one = of_step(step, model, step.prompt().source(), received, past, prices);
        // Nobody knows how long the list will be.
        step.for_each().map_or(one, |each| {
            let most = usize::from(each.max_items());
            one.of_items(most).in_parallel(most, each)
        })
    };
    let steps: Vec<_> = plan.steps().iter().map(of).collect();
    of_run(plan, &steps)
}

/// The most tokens that the outputs in a step's prompt can add.
fn received(plan: &Plan, step: &Step) -> u64 {
    let of = |reference: &Reference| match reference {
        Reference::Output { step, .. } => {
            let named = plan.position(step).map(|index| plan.steps()[index].source());
            named.and_then(|named| named.max_tokens).unwrap_or(LONG_OUTPUT_TOKENS)
        }
        Reference::Input { .. }
        | Reference::Env(_)
        | Reference::Meta(_)
        | Reference::Item { .. } => 0,
    };
    step.references().map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
