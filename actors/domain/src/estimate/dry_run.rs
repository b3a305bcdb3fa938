//! A dry run: everything that an execution would check and know at its start, and nothing stored.
//!
//! Deliberately absent: outputs; where a prompt needs one it stays as it was written.

use super::{Estimate, Past, of_run, of_step, received};
use crate::plan::{HitlSource, Plan, gate_of};
use crate::render::{self, Scope};
use crate::task::Hold;
use crate::usage::Prices;

/// The model and the queue of steps that name none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Targets<'a> {
    /// The model's name.
    pub model: &'a str,
    /// The queue's name.
    pub queue: &'a str,
}

/// What would run (PROTOCOL.md 4, `options.dryRun`).
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// Its steps, in the order of the document.
    pub steps: Vec<DryStep>,
    /// The ids of the steps that the run cannot be shorter than, first to last.
    pub critical_path: Vec<String>,
    /// What it uses.
    pub estimate: Estimate,
}

/// One step of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DryStep {
    /// Its id.
    pub id: String,
    /// How many steps run before it, one after the other.
    pub level: usize,
    /// Its prompt, with all filled in that is known.
    pub prompt: String,
    /// The model that it would run on.
    pub model: String,
    /// The queue that it would wait in.
    pub queue: String,
    /// What it waits for, in the order of the document.
    pub depends_on: Vec<String>,
    /// When its output would be held.
    pub gate: GateKind,
    /// What it would cost, in USD.
    pub estimated_cost: f64,
}

/// When an output is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateKind {
    /// In any case.
    Always,
    /// Below a confidence.
    Threshold,
    /// Never.
    None,
}

impl GateKind {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Threshold => "threshold",
            Self::None => "none",
        }
    }
}

/// What an execution of the plan would do. `past` gives the medians of a step and a model.
///
/// # Errors
/// The id of the first step whose prompt cannot be rendered with this input, and why.
pub fn dry_run(
    plan: &Plan,
    scope: &impl Scope,
    hitl: Option<&HitlSource>,
    targets: Targets<'_>,
    past: impl Fn(&str, &str) -> Option<Past>,
    prices: &Prices,
) -> Result<DryRun, (String, render::Error)> {
    let mut steps = Vec::with_capacity(plan.steps().len());
    let mut estimates = Vec::with_capacity(plan.steps().len());
    for (index, step) in plan.steps().iter().enumerate() {
        let failed = |error| (step.id().to_owned(), error);
        let prompt = step.prompt().render_known(scope).map_err(failed)?;
        if let Some(text) = step.system_prompt() {
            text.render_known(scope).map_err(failed)?;
        }
        let source = step.source();
        let model = source.model.as_deref().unwrap_or(targets.model);
        let past = past(step.id(), model);
        let estimate = of_step(step, model, &prompt, received(plan, step), past, prices);
        estimates.push(estimate);
        steps.push(DryStep {
            id: step.id().to_owned(),
            level: plan.graph().level(index),
            prompt,
            model: model.to_owned(),
            queue: source.queue.as_deref().unwrap_or(targets.queue).to_owned(),
            depends_on: ids(plan, plan.graph().dependencies(index)),
            gate: match gate_of(source, hitl, false).map(|gate| gate.hold) {
                Some(Hold::Always) => GateKind::Always,
                Some(Hold::Below) => GateKind::Threshold,
                Some(Hold::Never) | None => GateKind::None,
            },
            estimated_cost: estimate.cost,
        });
    }
    let path = plan.graph().critical_path(|step| estimates[step].duration_ms);
    Ok(DryRun { steps, critical_path: ids(plan, &path.steps), estimate: of_run(plan, &estimates) })
}

fn ids(plan: &Plan, steps: &[usize]) -> Vec<String> {
    steps.iter().map(|&step| plan.steps()[step].id().to_owned()).collect()
}
