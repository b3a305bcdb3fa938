//! A dry run: every check and figure of an execution's start, with nothing stored.
//!
//! Deliberately absent: outputs; a placeholder for one stays in the prompt as written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::items::{self, DryItems};
use super::rows::{self, float};
use super::{DryBudget, Estimate, KnownFork, PastSteps, Texts, of_run, of_step, received};
use crate::budget::Money;
use crate::condition;
use crate::execution::program::CompiledPlan;
use crate::fuel::Fuel;
use crate::names::names;
use crate::plan::{HitlSource, ListError, Plan, Step, gate_of};
use crate::render::{self, Meta, Output, Scope};
use crate::task::Hold;
use crate::usage::{Prices, estimate_tokens};

/// The most that the prompts of a dry run take together, in bytes.
pub const MAX_PROMPTS: usize = 2 << 20;

/// The most work of one dry run, as the weight of its texts ([`render::PromptTemplate::weight`]): the texts
/// of later steps stay as written, and count as cut.
const MAX_WEIGHT: usize = (1 << 30) + (64 << 20);

/// The fuel of all conditions of a dry run: those beyond it are unknown.
const MAX_CONDITIONS: u64 = 4 * condition::FUEL;

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

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRun {
    /// The steps, in the order of the document.
    pub steps: Vec<DryStep>,
    /// The ids of the steps on the critical path, first to last.
    pub critical_path: Vec<String>,
    /// The estimate of the whole run.
    pub estimate: Estimate,
    /// The run under a budget, if [`DryRun::under`] was asked.
    pub budget: Option<DryBudget>,
}

/// A step of a dry run.
#[derive(Debug, Clone, PartialEq)]
pub struct DryStep {
    /// The step's id.
    pub id: String,
    /// The length of the longest chain of dependencies before the step.
    pub level: usize,
    /// The prompt, or the args of a function as JSON, with all known values filled in; cut if all
    /// prompts exceed [`MAX_PROMPTS`].
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
    /// True if the model has no price, so that the cost counts as 0.
    pub price_unknown: bool,
    /// The highest cost; `None` if a model has no price.
    pub worst: Option<Money>,
    /// The state of the condition; `None` without one.
    pub condition: Option<ConditionState>,
    /// The items of a step with a list.
    pub items: Option<DryItems>,
    /// The signal that a wait step waits for; such a step has no prompt, model or queue.
    pub signal: Option<String>,
    /// True if a fork takes over the step's output, which costs nothing.
    pub reused: bool,
}

names! {
    /// The state of a step's condition before the run.
    ConditionState {
        /// The condition is true.
        Runs = "runs",
        /// The condition is false.
        Skips = "skips",
        /// The condition cannot be evaluated with this input.
        Fails = "fails",
        /// The condition needs an output.
        Unknown = "unknown",
    }
}

names! {
    /// The condition under which an output is held for a reviewer.
    GateKind {
        /// Every output is held.
        Always = "always",
        /// Outputs with a confidence below the threshold are held.
        Threshold = "threshold",
        /// No output is held, except as a sample.
        None = "none",
    }
}

/// True if a dry run takes about a millisecond.
#[must_use]
pub fn is_brief(plan: &Plan, scope: &impl Scope) -> bool {
    // A list is the larger part of the work, and is not read to find that out; nor is a condition evaluated.
    let takes_time = |step: &Step| step.for_each().is_some() || step.condition().is_some();
    if plan.steps().iter().any(takes_time) {
        return false;
    }
    let texts = plan.steps().iter().flat_map(Step::texts);
    texts.map(|text| text.weight(scope)).fold(0, usize::saturating_add) <= BRIEF_WEIGHT
}

/// Dry-runs a plan. Each prompt gets an equal share of [`MAX_PROMPTS`] and of the bytes that earlier
/// prompts left.
///
/// # Errors
/// The id of the first step whose prompt cannot be rendered with this input, and the reason.
pub fn dry_run(
    compiled: &CompiledPlan,
    scope: &impl Scope,
    hitl: Option<&HitlSource>,
    defaults: StepDefaults<'_>,
    past: &PastSteps,
    prices: &Prices,
    fork: &KnownFork,
) -> Result<DryRun, (String, ListError)> {
    let plan = &compiled.plan;
    let mut steps = Vec::with_capacity(plan.steps().len());
    let mut estimates = Vec::with_capacity(plan.steps().len());
    let (mut left, mut weight) = (MAX_PROMPTS, 0);
    let conditions = conditions(plan, scope);
    let skipped = conditions.iter().filter(|(_, state)| **state == ConditionState::Skips);
    let skipped: BTreeSet<_> = skipped.map(|(step, _)| *step).collect();
    let scope = &WithSkipped { scope, skipped: &skipped };
    for (index, step) in (0..).zip(plan.steps()) {
        let failed = |error: render::Error| (step.id().to_owned(), ListError::Render(error));
        weight = step.texts().map(|text| text.weight(scope)).fold(weight, usize::saturating_add);
        let is_rendered = weight <= MAX_WEIGHT;
        let texts = if is_rendered { known_text(step, scope) } else { Ok(written_text(step)) };
        let (mut prompt, others) = texts.map_err(failed)?;
        let source = step.source();
        let own = source.first_model();
        let model = own.as_deref().unwrap_or(defaults.model);
        let known = past.get(&(step.id().to_owned(), model.to_owned()));
        let waits = step.wait();
        let asked = fork.asked.get(step.id()).copied().filter(|_| step.for_each().is_none());
        let schema = compiled.schema_of(index);
        let outputs = received(plan, step);
        let likely = rows::received(plan, step, (defaults.model, past));
        let of = |prompt: &str| {
            let (written, received, likely) = match asked {
                Some(asked) => (asked, 0, 0.0),
                None => (others.saturating_add(estimate_tokens(prompt)), outputs, likely),
            };
            let likely = is_rendered.then(|| float(written) + likely);
            of_step(step, model, Texts { written, likely, received, schema }, known, prices)
        };
        let is_skipped = skipped.contains(step.id());
        let known = if is_skipped { Estimate::NOTHING } else { of(&prompt) };
        let (mut estimate, mut dry_items) = (known, None);
        if let Some(each) = step.for_each().filter(|_| !is_skipped) {
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
        let is_reused = fork.reused.contains(step.id());
        if is_reused {
            estimate = Estimate::NOTHING;
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
            price_unknown: estimate.price_unknown,
            worst: (!estimate.unbounded).then(|| Money::from_usd(estimate.cost_high)),
            condition: conditions.get(step.id()).copied(),
            items: dry_items,
            signal: waits.map(|wait| wait.signal.clone()),
            reused: is_reused,
        });
    }
    let path = plan.graph().critical_path(|step| estimates[usize::from(step)].duration_ms);
    Ok(DryRun {
        steps,
        critical_path: ids(plan, path.steps),
        estimate: of_run(plan, &estimates),
        budget: None,
    })
}

/// The prompt of a step, or the args of its function as JSON, with all known values filled in; and the tokens of the
/// step's other texts.
fn known_text(step: &Step, scope: &impl Scope) -> Result<(String, u64), render::Error> {
    if let Some(args) = step.args() {
        return Ok((Value::Object(args.render_known(scope)?).to_string(), 0));
    }
    let mut others = 0;
    for text in step.texts().skip(1) {
        others += estimate_tokens(&text.render_known(scope)?);
    }
    Ok((step.prompt().render_known(scope)?, others))
}

/// The same as written in the plan.
fn written_text(step: &Step) -> (String, u64) {
    let args = step.source().call.as_ref().map(|call| json!(call.args).to_string());
    let others = step.texts().skip(1).map(|text| estimate_tokens(text.source())).sum();
    (args.unwrap_or_else(|| step.prompt().source().to_owned()), others)
}

/// The states of the conditions, by step: a step that is skipped may decide others.
fn conditions<'p>(plan: &'p Plan, scope: &impl Scope) -> BTreeMap<&'p str, ConditionState> {
    let mut order: Vec<_> = (0..).zip(plan.steps()).collect();
    order.sort_by_key(|(index, _)| plan.graph().level(*index));
    let (mut states, mut skipped) = (BTreeMap::new(), BTreeSet::new());
    let mut fuel = Fuel::new(MAX_CONDITIONS);
    for (_, step) in order {
        let Some(condition) = step.condition() else { continue };
        let scope = WithSkipped { scope, skipped: &skipped };
        let state = match condition.evaluate(&scope, &mut fuel) {
            Ok(true) => ConditionState::Runs,
            Ok(false) => ConditionState::Skips,
            Err(condition::Error::Unfinished(_) | condition::Error::OutOfFuel) => {
                ConditionState::Unknown
            }
            Err(condition::Error::Failed(_) | condition::Error::NotBoolean) => {
                ConditionState::Fails
            }
        };
        if state == ConditionState::Skips {
            skipped.insert(step.id());
        }
        states.insert(step.id(), state);
    }
    states
}

/// The values of a start, and the steps that are known to be skipped.
struct WithSkipped<'a, S> {
    scope: &'a S,
    skipped: &'a BTreeSet<&'a str>,
}

impl<S: Scope> Scope for WithSkipped<'_, S> {
    fn input(&self) -> &Map<String, Value> {
        self.scope.input()
    }

    fn output(&self, step: &str) -> Output<'_> {
        if self.skipped.contains(step) { Output::Skipped } else { self.scope.output(step) }
    }

    fn env(&self, name: &str) -> Option<&str> {
        self.scope.env(name)
    }

    fn meta(&self, meta: Meta) -> Option<&str> {
        self.scope.meta(meta)
    }
}

fn ids(plan: &Plan, steps: impl IntoIterator<Item = u16>) -> Vec<String> {
    steps.into_iter().map(|step| plan.graph().name(step).to_owned()).collect()
}
