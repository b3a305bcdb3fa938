//! A dry run: every check and figure of an execution's start, with nothing stored.
//!
//! Deliberately absent: outputs; a placeholder for one stays in the prompt as written.

use super::{Estimate, PastRun, of_run, of_step, received};
use crate::names::names;
use crate::plan::{HitlSource, Plan, Step, gate_of};
use crate::render::{self, Scope};
use crate::task::Hold;
use crate::usage::Prices;

/// The most that the prompts of a dry run take together, in bytes (PROTOCOL.md 4).
pub const MAX_PROMPTS: usize = 2 << 20;

/// The most work of one dry run, as the weight of its texts ([`render::PromptTemplate::weight`]): the texts
/// of later steps stay as written, and count as cut.
const MAX_WEIGHT: usize = (1 << 30) + (64 << 20);

/// The weight of the texts of a brief dry run.
const BRIEF_WEIGHT: usize = 256 << 10;

/// The model and the queue of steps that name none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepDefaults<'a> {
    /// The name of the model.
    pub model: &'a str,
    /// The name of the queue.
    pub queue: &'a str,
}

/// The result of a dry run (PROTOCOL.md 4, `options.dryRun`).
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The steps, in the order of the document.
    pub steps: Vec<DryStep>,
    /// The ids of the steps on the critical path, first to last.
    pub critical_path: Vec<String>,
    /// The estimate of the whole run.
    pub estimate: Estimate,
}

/// A step of a dry run.
#[derive(Debug, Clone, PartialEq)]
pub struct DryStep {
    /// The step's id.
    pub id: String,
    /// The length of the longest chain of dependencies before the step.
    pub level: usize,
    /// The prompt, with all known values filled in; cut if all prompts exceed [`MAX_PROMPTS`].
    pub prompt: String,
    /// True if the prompt is cut.
    pub prompt_truncated: bool,
    /// The model, the default included.
    pub model: String,
    /// The queue, the default included.
    pub queue: String,
    /// The ids of the dependencies, in the order of the document.
    pub depends_on: Vec<String>,
    /// The condition under which the output would be held for a reviewer.
    pub gate: GateKind,
    /// The likely cost in USD.
    pub estimated_cost: f64,
}

names! {
    /// The condition under which an output is held for a reviewer.
    GateKind {
        /// In any case.
        Always = "always",
        /// Below a confidence.
        Threshold = "threshold",
        /// Never, or only as a sample.
        None = "none",
    }
}

/// True if a dry run takes about a millisecond.
#[must_use]
pub fn is_brief(plan: &Plan, scope: &impl Scope) -> bool {
    let texts = plan.steps().iter().flat_map(Step::texts);
    texts.map(|text| text.weight(scope)).fold(0, usize::saturating_add) <= BRIEF_WEIGHT
}

/// Dry-runs a plan. Each prompt gets an equal share of [`MAX_PROMPTS`] and of what the prompts before it
/// left. `past` returns the medians of a step's id and a model.
///
/// # Errors
/// The id of the first step whose prompt cannot be rendered with this input, and the reason.
pub fn dry_run(
    plan: &Plan,
    scope: &impl Scope,
    hitl: Option<&HitlSource>,
    defaults: StepDefaults<'_>,
    past: impl Fn(&str, &str) -> Option<PastRun>,
    prices: &Prices,
) -> Result<DryRun, (String, render::Error)> {
    let mut steps = Vec::with_capacity(plan.steps().len());
    let mut estimates = Vec::with_capacity(plan.steps().len());
    let (mut left, mut weight) = (MAX_PROMPTS, 0);
    for (index, step) in (0..).zip(plan.steps()) {
        let failed = |error| (step.id().to_owned(), error);
        weight = step.texts().map(|text| text.weight(scope)).fold(weight, usize::saturating_add);
        let is_rendered = weight <= MAX_WEIGHT;
        let mut prompt = if is_rendered {
            for text in step.texts().skip(1) {
                text.render_known(scope).map_err(failed)?;
            }
            step.prompt().render_known(scope).map_err(failed)?
        } else {
            step.prompt().source().to_owned()
        };
        let source = step.source();
        let model = source.first_model().unwrap_or(defaults.model);
        let past = past(step.id(), model);
        let estimate = of_step(step, model, &prompt, received(plan, step), past, prices);
        estimates.push(estimate);
        let share = left / (plan.steps().len() - steps.len());
        let is_long = prompt.len() > share;
        if is_long {
            prompt.truncate(prompt.floor_char_boundary(share));
            prompt.shrink_to_fit();
        }
        let prompt_truncated = is_long || !is_rendered;
        left -= prompt.len();
        steps.push(DryStep {
            id: step.id().to_owned(),
            level: plan.graph().level(index),
            prompt,
            prompt_truncated,
            model: model.to_owned(),
            queue: source.queue.as_deref().unwrap_or(defaults.queue).to_owned(),
            depends_on: ids(plan, plan.graph().dependencies(index)),
            gate: match gate_of(source, hitl, false).map(|gate| gate.hold) {
                Some(Hold::Always) => GateKind::Always,
                Some(Hold::Below) => GateKind::Threshold,
                Some(Hold::Never) | None => GateKind::None,
            },
            estimated_cost: estimate.cost,
        });
    }
    let path = plan.graph().critical_path(|step| estimates[usize::from(step)].duration_ms);
    Ok(DryRun { steps, critical_path: ids(plan, path.steps), estimate: of_run(plan, &estimates) })
}

fn ids(plan: &Plan, steps: impl IntoIterator<Item = u16>) -> Vec<String> {
    steps.into_iter().map(|step| plan.graph().name(step).to_owned()).collect()
}
