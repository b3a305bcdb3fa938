//! The past answers of the steps of a template, for the estimate of a batch.

use std::collections::HashMap;

use callboard_domain::estimate::{PastAnswer, PastStep, PastSteps};
use callboard_domain::id::{Environment, ExecutionId};
use callboard_store::{Error, Filter, Order, Query};

use super::runs::whole;
use crate::node::Node;
use crate::tables::{self, ENDED_EXECUTIONS, execution_list, execution_term, term_of};

/// The number of past executions that are looked at, the newest.
const LOOKED_AT: usize = 40;

/// The means of the newest executions of a template, in any version, and their number.
pub(crate) async fn past(
    node: &Node,
    environment: Environment,
    template: &str,
) -> Result<(PastSteps, usize), Error> {
    let completed = Box::from(*b"completed");
    let filters = vec![
        Filter::AnyOf(execution_term::TEMPLATE, vec![term_of(template)]),
        Filter::AnyOf(execution_term::STATUS, vec![completed]),
        // It asked nothing.
        Filter::NoneOf(execution_term::ROW, vec![Box::from(execution_term::REUSED)]),
    ];
    let (list, order) = (execution_list(environment), Order::Document);
    let query = Query { list, filters, order, descending: true, offset: 0, limit: LOOKED_AT };
    let found = node.store().query(&query).await?.documents;
    let mut answers: HashMap<(String, String), Vec<PastAnswer>> = HashMap::new();
    let mut runs = 0;
    for id in found {
        let head = ENDED_EXECUTIONS.get(node.store(), environment.number(), &id).await?;
        let Some(head) = head else { continue };
        let id = ExecutionId::from_u128(id);
        let Some((execution, _, compiled)) = whole(node, environment, id, head).await? else {
            continue;
        };
        runs += 1;
        for (number, row) in execution.steps() {
            let Some(task) = row.task.filter(|_| row.started_at.is_some()) else { continue };
            let step = compiled.plan.steps()[usize::from(number)].source();
            let model = step.first_model();
            let model = model.as_deref().unwrap_or(&node.settings.task_defaults.model).to_owned();
            // The figures of a step with a list are those of all its items.
            let asked = match tables::task(node.store(), environment, task).await? {
                Some(mut found) if row.map.is_none() && found.task.erased_at.is_none() => {
                    found.inputs(node.store(), environment).await?.tokens()
                }
                Some(_) | None => 0,
            };
            let answer = PastAnswer { asked, usage: row.usage };
            answers.entry((step.id.clone(), model)).or_default().push(answer);
        }
    }
    let prices = node.limits.prices.get();
    let steps = answers.into_iter().filter_map(|(key, answers)| {
        let past = PastStep::of(&answers, runs, &key.1, &prices)?;
        Some((key, past))
    });
    Ok((steps.collect(), runs))
}
