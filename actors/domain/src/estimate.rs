//! Estimates of cost and duration before a run (docs/reference/executions.md).
//!
//! ```text
//! per step: past answers by the length of the texts, else (prompt characters / 4 + maxTokens) × price
//!    ├── cost: the sum; costHigh: the worst case of each step's one call, with all outputs it reads
//!    └── durationMs: along the critical path
//! ```
//!
//! Every step counts, also one with a condition, unless the condition is known to be false. Deliberately absent: retries, time in queues and
//! reviews, which cannot be predicted, and the record of past runs.

mod budget;
mod dry_run;
mod fork;
mod items;
mod rows;

use crate::confidence::ask::Expected;
use crate::names::names;
use crate::plan::{Plan, Step};
use crate::render::Reference;
use crate::schema::Schema;
use crate::task::Called;
use crate::usage::{Prices, Tokens, estimate_tokens};

pub use fork::KnownFork;
pub use items::DryItems;
pub use rows::{PastAnswer, PastStep, PastSteps, RowsEstimate};

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

/// The texts of a step that its estimate is made of.
#[derive(Debug, Clone, Copy)]
struct Texts<'a> {
    /// The tokens of the prompt, rendered as far as its values are known, and of the other texts.
    written: u64,
    /// The likely tokens of all texts, with the outputs of other steps; `None` if they are not known.
    likely: Option<f64>,
    /// The tokens that outputs of other steps may still add at most.
    received: u64,
    /// The schema that the output must match.
    schema: Option<&'a Schema>,
}

/// The estimate of one step, or of one of its items.
fn of_step(
    step: &Step,
    model: &str,
    Texts { written, likely, received, schema }: Texts<'_>,
    past: Option<&PastStep>,
    prices: &Prices,
) -> Estimate {
    if step.wait().is_some() {
        // The time that a signal takes cannot be predicted, and a signal costs nothing.
        return Estimate::NOTHING;
    }
    let known = past.map(|past| (past.cost(model, likely, prices), past.took_ms()));
    if step.args().is_some() {
        // The cost of a function is what its worker reports.
        let of = |(cost, duration_ms)| Estimate {
            cost,
            cost_high: cost,
            duration_ms,
            ..Estimate::NOTHING
        };
        return known.map_or(Estimate::NOTHING, of);
    }
    let max_tokens = step.source().max_tokens;
    let output = max_tokens.unwrap_or(USUAL_OUTPUT_TOKENS);
    let usage = prices.usage(model, Tokens { input: written, output, ..Tokens::default() });
    let by_time = output.saturating_mul(MS_PER_TOKEN);
    let (cost, duration_ms) = known.unwrap_or((usage.total_cost, by_time));
    // As the task will be: see `Sources::worst_cost`.
    let source = step.source();
    let called = Called::by(model, Some(&source.routing));
    let called = if schema.is_some() { called } else { called.once() };
    let schema = schema.map_or(0, |schema| schema.length() as u64 / 4);
    let prompt = written.saturating_add(received).saturating_add(schema);
    let call = Expected { prompt, max_tokens };
    let worst = called.worst_case(call, source.confidence.as_ref(), prices);
    Estimate {
        cost,
        cost_high: worst.unwrap_or(0.0).max(cost),
        duration_ms,
        basis: if past.is_some() { Basis::History } else { Basis::Prices },
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
pub fn of_plan(plan: &Plan, model: &str, past: &PastSteps, prices: &Prices) -> Estimate {
    let of = |step: &Step| {
        let own = step.source().first_model();
        let model = own.as_deref().unwrap_or(model);
        let (received, schema) = (received(plan, step), step.output_schema());
        let past = past.get(&(step.id().to_owned(), model.to_owned()));
        let written = step.texts().map(|text| estimate_tokens(text.source())).sum();
        let texts = Texts { written, likely: None, received, schema };
        let one = of_step(step, model, texts, past, prices);
        // The length of the list is not known before the run.
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
