//! A dry run: every check and figure of an execution's start, with nothing stored.
//!
//! Deliberately absent: outputs; a placeholder for one stays in the prompt as written.

use super::items::{self, DryItems};
use super::{Estimate, PastRun, of_run, of_step, received};
use crate::names::names;
use crate::plan::{HitlSource, ListError, Plan, Step, gate_of};
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
    /// The items of a step with a list.
    pub items: Option<DryItems>,
    /// The signal that a wait step waits for; its prompt, model and queue are empty.
    pub signal: Option<String>,
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
    // A list is the larger part of the work, and is not read to find that out.
    if plan.steps().iter().any(|step| step.for_each().is_some()) {
        return false;
    }
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
) -> Result<DryRun, (String, ListError)> {
    let mut steps = Vec::with_capacity(plan.steps().len());
    let mut estimates = Vec::with_capacity(plan.steps().len());
    let (mut left, mut weight) = (MAX_PROMPTS, 0);
    for (index, step) in (0..).zip(plan.steps()) {
        let failed = |error: render::Error| (step.id().to_owned(), ListError::Render(error));
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
        let past = past(step.id(), model).filter(|_| step.for_each().is_none());
        let waits = step.wait();
        let of = |prompt: &str| of_step(step, model, prompt, received(plan, step), past, prices);
        let (mut estimate, mut dry_items) = (of(&prompt), None);
        if let Some(each) = step.for_each() {
            let known = items::known(each, scope).map_err(|error| (step.id().to_owned(), error))?;
            let most = usize::from(each.max_items());
            let count = known.as_ref().map_or(most, Vec::len);
            let one = estimate;
            estimate = one.of_items(count);
            if let Some(list) = &known {
                weight = weight.saturating_add(items::weight(step, list, scope));
                if weight <= MAX_WEIGHT {
                    let sum = items::sum(step, list, scope, of).map_err(failed)?;
                    estimate = sum.unwrap_or_else(|| one.of_items(0));
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "at most a thousand")]
            let cost_each = if count == 0 { one.cost } else { estimate.cost / count as f64 };
            let (expected, most) = (known.as_ref().map(Vec::len), each.max_items());
            dry_items = Some(DryItems { expected, most, cost_each });
            estimate = estimate.in_parallel(count, each);
        }
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
            model: if waits.is_some() { "" } else { model }.to_owned(),
            queue: match waits {
                Some(_) => String::new(),
                None => source.queue.as_deref().unwrap_or(defaults.queue).to_owned(),
            },
            depends_on: ids(plan, plan.graph().dependencies(index)),
            gate: match gate_of(source, hitl, false).map(|gate| gate.hold) {
                Some(Hold::Always) => GateKind::Always,
                Some(Hold::Below) => GateKind::Threshold,
                Some(Hold::Never) | None => GateKind::None,
            },
            estimated_cost: estimate.cost,
            items: dry_items,
            signal: waits.map(|wait| wait.signal.clone()),
        });
    }
    let path = plan.graph().critical_path(|step| estimates[usize::from(step)].duration_ms);
    Ok(DryRun { steps, critical_path: ids(plan, path.steps), estimate: of_run(plan, &estimates) })
}

fn ids(plan: &Plan, steps: impl IntoIterator<Item = u16>) -> Vec<String> {
    steps.into_iter().map(|step| plan.graph().name(step).to_owned()).collect()
}
