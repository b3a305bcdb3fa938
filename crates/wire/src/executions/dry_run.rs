//! The dry run of an execution (docs/reference/executions.md).

use callboard_domain::estimate::{ConditionState, DryBudget, DryRun, DryStep, Estimate};
use callboard_domain::function::Work;
use callboard_domain::id::{ExecutionId, PlanId};
use serde::Serialize;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::common::Text;

/// The dry run of an execution; nothing is stored or started.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DryRunBody<'a> {
    /// `dry_run`.
    status: &'static str,
    /// The plan, where one is executed.
    #[schema(value_type = Option<String>)]
    plan_id: Option<Text<PlanId>>,
    /// The template, where one is deployed.
    template_id: Option<&'a str>,
    /// The execution, where one is forked.
    #[schema(value_type = Option<String>)]
    fork_of: Option<Text<ExecutionId>>,
    /// The steps, in the order of the document.
    steps: Vec<DryStepBody<'a>>,
    /// The ids of the steps that the run cannot be shorter than, first to last.
    critical_path: &'a [String],
    /// The estimated usage.
    estimate: EstimateBody,
    /// The run under `options.maxCost`, if that is given.
    budget: Option<DryBudgetBody<'a>>,
}

/// A run under `options.maxCost`, if each step has its likely cost.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DryBudgetBody<'a> {
    /// The most that the run may cost, in USD.
    max_cost: f64,
    /// True if every step fits.
    fits: bool,
    /// The first step that would not be dispatched.
    step_id: Option<&'a str>,
    /// The reason, with the amounts.
    message: Option<&'a str>,
}

/// A step as it would run.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DryStepBody<'a> {
    /// The step's id.
    id: &'a str,
    /// The number of steps that run before it, one after the other; from 0.
    level: usize,
    /// `wait` for a step that waits for a signal; else left out.
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    /// The signal that a wait waits for.
    signal: Option<&'a str>,
    /// The function that the step calls; `prompt` is then its args as JSON.
    function: Option<&'a str>,
    /// The prompt, rendered; a reference to an output stays as it was written. Empty for a wait.
    prompt: &'a str,
    /// True if the prompt was cut: a dry run shows at most 2 MiB of prompts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prompt_truncated: bool,
    /// The model that it would run on; empty for a wait.
    model: &'a str,
    /// The queue that it would wait in; empty for a wait.
    queue: &'a str,
    /// The ids of the steps that must complete first.
    depends_on: &'a [String],
    /// The review of the output: always, threshold or none.
    gate: &'static str,
    /// The estimated cost, in USD.
    estimated_cost: f64,
    /// True if the model has no price, which counts as 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    price_unknown: bool,
    /// The state of its condition with this input: runs, skips, fails, or unknown if it needs an output.
    /// Left out without a condition.
    condition: Option<&'static str>,
    /// True if the fork takes the step's output over.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reused: bool,
    /// The items of a step with forEach.
    items: Option<DryItemsBody>,
}

/// The items of a step as it would run.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DryItemsBody {
    /// The length of the list; left out where it comes from an output, and `estimatedCost` is for
    /// maxItems.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<usize>,
    /// The longest list.
    max_items: u16,
    /// The average cost of an item, in USD.
    estimated_cost: f64,
}

/// The estimated usage of a run.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EstimateBody {
    /// The likely cost, in USD.
    cost: f64,
    /// The worst case, in USD.
    cost_high: f64,
    /// The duration, in milliseconds, without reviews and queues.
    duration_ms: u64,
    /// The basis of the estimate: history or prices.
    basis: &'static str,
    /// True if a model has no price, which counts as 0.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    price_unknown: bool,
}

impl<'a> DryRunBody<'a> {
    /// The dry run of a plan.
    #[must_use]
    pub fn of_plan(plan: PlanId, run: &'a DryRun) -> Self {
        Self { plan_id: Some(Text(plan)), ..Self::of(run) }
    }

    /// The dry run of a template.
    #[must_use]
    pub fn of_template(template: &'a str, run: &'a DryRun) -> Self {
        Self { template_id: Some(template), ..Self::of(run) }
    }

    /// The dry run of a fork.
    #[must_use]
    pub fn of_fork(execution: ExecutionId, run: &'a DryRun) -> Self {
        Self { fork_of: Some(Text(execution)), ..Self::of(run) }
    }

    fn of(DryRun { steps, critical_path, estimate, budget }: &'a DryRun) -> Self {
        Self {
            status: "dry_run",
            plan_id: None,
            template_id: None,
            fork_of: None,
            steps: steps.iter().map(DryStepBody::of).collect(),
            critical_path,
            estimate: EstimateBody::of(estimate),
            budget: budget.as_ref().map(DryBudgetBody::of),
        }
    }
}

impl<'a> DryBudgetBody<'a> {
    fn of(DryBudget { max, over }: &'a DryBudget) -> Self {
        let over = over.as_ref();
        Self {
            max_cost: max.as_usd(),
            fits: over.is_none(),
            step_id: over.map(|over| over.step.as_str()),
            message: over.map(|over| over.message.as_str()),
        }
    }
}

impl<'a> DryStepBody<'a> {
    fn of(step: &'a DryStep) -> Self {
        Self {
            id: &step.id,
            level: step.level,
            kind: step.signal.as_ref().map(|_| "wait"),
            signal: step.signal.as_deref(),
            function: Work::of(&step.model).function(),
            prompt: &step.prompt,
            prompt_truncated: step.prompt_truncated,
            model: &step.model,
            queue: &step.queue,
            depends_on: &step.depends_on,
            gate: step.gate.as_str(),
            estimated_cost: step.estimated_cost,
            price_unknown: step.price_unknown,
            condition: step.condition.map(ConditionState::as_str),
            reused: step.reused,
            items: step.items.map(|items| DryItemsBody {
                expected: items.expected,
                max_items: items.most,
                estimated_cost: items.cost_each,
            }),
        }
    }
}

impl EstimateBody {
    const fn of(estimate: &Estimate) -> Self {
        let Estimate { cost, cost_high, duration_ms, basis, price_unknown, .. } = *estimate;
        Self { cost, cost_high, duration_ms, basis: basis.as_str(), price_unknown }
    }
}
