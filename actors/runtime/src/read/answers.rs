//! The past answers of the steps of a template or a plan, for estimates.

use std::collections::HashMap;

use callboard_domain::estimate::{PastAnswer, PastStep, PastSteps};
use callboard_domain::execution::{StepState, Template};
use callboard_domain::id::{Environment, ExecutionId, PlanId};
use callboard_domain::usage::Usage;
use callboard_store::{Error, Filter, Order, Query};

use super::runs::whole;
use crate::node::Node;
use crate::tables::{self, ENDED_EXECUTIONS, execution_list, execution_term, term_of};

/// The number of past executions that are looked at, the newest.
const LOOKED_AT: usize = 40;
/// The number of their steps after which no further one is looked at.
const STEPS: usize = 500;

/// The executions that are looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Of<'a> {
    /// Those of a template, in any version.
    Template(&'a str),
    /// Those of a plan.
    Plan(PlanId),
}

impl<'a> Of<'a> {
    /// Those like a run of a plan that may be a template's.
    pub(crate) fn run(plan: Option<PlanId>, template: Option<&'a Template>) -> Option<Self> {
        template.map(|template| Self::Template(&template.id)).or(plan.map(Self::Plan))
    }
}

/// The treatment of the texts that were asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// They are read and counted, for the estimate of texts of another length.
    Counted,
    /// They are not read: the means count.
    Unread,
}

/// The means of the newest executions, and their number.
pub(crate) async fn past(
    node: &Node,
    environment: Environment,
    of: Of<'_>,
    lengths: Lengths,
) -> Result<(PastSteps, usize), Error> {
    let completed = Box::from(*b"completed");
    let filters = vec![
        match of {
            Of::Template(id) => Filter::AnyOf(execution_term::TEMPLATE, vec![term_of(id)]),
            Of::Plan(id) => {
                Filter::AnyOf(execution_term::PLAN, vec![Box::from(id.as_u128().to_be_bytes())])
            }
        },
        Filter::AnyOf(execution_term::STATUS, vec![completed]),
        // It asked nothing.
        Filter::NoneOf(execution_term::ROW, vec![Box::from(execution_term::REUSED)]),
    ];
    let (list, order) = (execution_list(environment), Order::Document);
    let query = Query { list, filters, order, descending: true, offset: 0, limit: LOOKED_AT };
    let found = node.store().query(&query).await?.documents;
    let mut answers: HashMap<(String, String), Vec<PastAnswer>> = HashMap::new();
    let (mut runs, mut looked_at) = (0, 0);
    for id in found {
        if looked_at >= STEPS {
            break;
        }
        let head = ENDED_EXECUTIONS.get(node.store(), environment.number(), &id).await?;
        let Some(head) = head else { continue };
        let id = ExecutionId::from_u128(id);
        let Some((execution, _, compiled)) = whole(node, environment, id, head).await? else {
            continue;
        };
        runs += 1;
        let is_fork = execution.head.spec.forked_from.is_some();
        for (number, row) in execution.steps() {
            let Some(task) = row.task.filter(|_| row.started_at.is_some()) else { continue };
            // What a fork took over did not run.
            if is_fork && (row.usage.input, row.usage.output) == (0, 0) {
                continue;
            }
            looked_at += 1;
            let step = compiled.plan.steps()[usize::from(number)].source();
            let model = step.first_model();
            let model = model.as_deref().unwrap_or(&node.settings.task_defaults.model).to_owned();
            let is_counted = lengths == Lengths::Counted && row.map.is_none();
            let found = if is_counted {
                tables::task(node.store(), environment, task).await?
            } else {
                None
            };
            let asked = match found {
                Some(mut found) if found.task.erased_at.is_none() => {
                    found.inputs(node.store(), environment).await?.tokens()
                }
                Some(_) | None => 0,
            };
            answers.entry((step.id.clone(), model)).or_default().push(answer(row, asked));
        }
    }
    let prices = node.limits.prices.get();
    let steps = answers.into_iter().filter_map(|(key, answers)| {
        let past = PastStep::of(&answers, runs, &key.1, &prices)?;
        Some((key, past))
    });
    Ok((steps.collect(), runs))
}

/// The answer of a step; of one with a list, that of an item on average.
fn answer(row: &StepState, asked: u64) -> PastAnswer {
    let took = row.started_at.zip(row.completed_at).map(|(from, to)| to.since(from));
    let took_ms = took.map_or(0, |took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let Some(map) = &row.map else { return PastAnswer { asked, usage: row.usage, took_ms } };
    let items = map.dispatched.max(1);
    let rounds = items.div_ceil(map.concurrency.unwrap_or(items).max(1));
    let usage = Usage {
        input: row.usage.input / u64::from(items),
        output: row.usage.output / u64::from(items),
        total_cost: row.usage.total_cost / f64::from(items),
        ..row.usage
    };
    PastAnswer { asked: 0, usage, took_ms: took_ms / u64::from(rounds) }
}
