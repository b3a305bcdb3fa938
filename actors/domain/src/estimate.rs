//! What a run will cost and how long it will take, before it runs (PROTOCOL.md 4 and 5).
//!
//! ```text
//! per step: median of past runs, else (prompt characters / 4 + maxTokens) × price
//!    ├── cost: the sum; costHigh: the worst case of each step's one call, with all that it reads
//!    └── durationMs: along the critical path
//! ```
//!
//! Every step counts, conditions or not. Deliberately absent: retries, waiting in queues and
//! reviewers, which nobody knows, and the keeping of history.

mod dry_run;

use crate::plan::{Plan, Step};
use crate::render::Reference;
use crate::usage::{Prices, Tokens, estimate_tokens};

pub use dry_run::{DryRun, DryStep, GateKind, Targets, dry_run};

/// How much a model is thought to write if nobody limits it, in tokens.
const USUAL_OUTPUT_TOKENS: u64 = 1_000;

/// The longest output that another step's prompt is thought to receive, in tokens, if nobody
/// limits it.
const LONG_OUTPUT_TOKENS: u64 = 4_096;

/// How long a model is thought to take for a token without history, in milliseconds.
const MS_PER_TOKEN: u64 = 20;

/// The medians of past runs of a step with a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Past {
    /// In USD.
    pub cost: f64,
    /// In milliseconds.
    pub duration_ms: u64,
}

/// What an estimate rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Past runs of every step.
    History,
    /// Prices, for one step at least.
    Prices,
}

impl Basis {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::History => "history",
            Self::Prices => "prices",
        }
    }
}

/// What a step or a run will use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The likely cost in USD.
    pub cost: f64,
    /// The worst case, in USD; never below the likely cost.
    pub cost_high: f64,
    /// How long it takes.
    pub duration_ms: u64,
    /// What it rests on.
    pub basis: Basis,
    /// A model without a price is in it, which counts as 0.
    pub price_unknown: bool,
}

/// The estimate of one step: `prompt` as far as it is rendered, `received` the tokens that it may
/// still receive from other steps.
#[must_use]
pub fn of_step(
    step: &Step,
    model: &str,
    prompt: &str,
    received: u64,
    past: Option<Past>,
    prices: &Prices,
) -> Estimate {
    let system = step.system_prompt().map_or(0, |text| estimate_tokens(text.source()));
    let input = estimate_tokens(prompt).saturating_add(system);
    let max_tokens = step.source().max_tokens;
    let output = max_tokens.unwrap_or(USUAL_OUTPUT_TOKENS);
    let usage = prices.usage(model, Tokens { input, output, ..Tokens::default() });
    let by_time = output.saturating_mul(MS_PER_TOKEN);
    let (cost, duration_ms, basis) = match past {
        Some(past) => (past.cost, past.duration_ms, Basis::History),
        None => (usage.total_cost, by_time, Basis::Prices),
    };
    let worst = prices.worst_case(model, input.saturating_add(received), max_tokens);
    Estimate {
        cost,
        cost_high: worst.unwrap_or(0.0).max(cost),
        duration_ms,
        basis,
        price_unknown: usage.price_unknown && past.is_none(),
    }
}

/// The estimate of a run, of one for each step: costs add up, time passes along the critical path.
#[must_use]
pub fn of_run(plan: &Plan, steps: &[Estimate]) -> Estimate {
    let all_past = steps.iter().all(|step| step.basis == Basis::History);
    Estimate {
        cost: steps.iter().map(|step| step.cost).sum(),
        cost_high: steps.iter().map(|step| step.cost_high).sum(),
        duration_ms: plan.graph().critical_path(|step| steps[step].duration_ms).duration_ms,
        basis: if all_past { Basis::History } else { Basis::Prices },
        price_unknown: steps.iter().any(|step| step.price_unknown),
    }
}

/// The estimate of a run of which only the plan is known, not the input: a template in a list.
/// `model` is that of steps that name none.
#[must_use]
pub fn of_plan(
    plan: &Plan,
    model: &str,
    past: impl Fn(&str, &str) -> Option<Past>,
    prices: &Prices,
) -> Estimate {
    let of = |step: &Step| {
        let model = step.source().model.as_deref().unwrap_or(model);
        let received = received(plan, step);
        of_step(step, model, step.prompt().source(), received, past(step.id(), model), prices)
    };
    let steps: Vec<_> = plan.steps().iter().map(of).collect();
    of_run(plan, &steps)
}

/// The most tokens that a step's prompt can still receive from the outputs that it names.
fn received(plan: &Plan, step: &Step) -> u64 {
    let of = |reference: &Reference| match reference {
        Reference::Output { step, .. } => {
            let named = plan.position(step).map(|index| plan.steps()[index].source());
            named.and_then(|named| named.max_tokens).unwrap_or(LONG_OUTPUT_TOKENS)
        }
        Reference::Input { .. } | Reference::Env(_) | Reference::Meta(_) => 0,
    };
    step.references().map(of).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
