//! The check of prices before work begins: a cap or a budget cannot be kept with a model that has no price.
//!
//! The check covers every model that any step may call: the model of the step or the default, those after it, and the
//! judge of its confidence.

use callboard_domain::budget::Money;
use callboard_domain::execution::program::Program;
use callboard_domain::id::Environment;
use callboard_domain::spending::Subject;
use callboard_domain::task::{Called, Request};
use callboard_domain::{Error, Rule};

use crate::node::Node;

/// The account and the template of new work.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    pub(crate) environment: Environment,
    pub(crate) account: &'a str,
    pub(crate) template: Option<&'a str>,
}

/// Passes unless an open step may call a model without a price, and the execution has a cap or a budget is for
/// the step.
///
/// # Errors
/// [`Error::BudgetExceeded`], which names the step and the model.
pub(crate) fn check(
    node: &Node,
    asker: Asker<'_>,
    (program, max_cost): (&Program, Option<Money>),
    is_open: impl Fn(u16) -> bool,
) -> Result<(), Error> {
    let budgets = node.limits.budgets(asker.environment);
    if max_cost.is_none() && budgets.is_none() {
        return Ok(());
    }
    let Asker { account, template, .. } = asker;
    for (number, step) in (0..).zip(program.compiled.plan.steps()) {
        let Some(request) = program.outline(number).filter(|_| is_open(number)) else { continue };
        let Some(model) = unpriced(node, &request) else { continue };
        if max_cost.is_some() {
            return Err(Error::BudgetExceeded(format!(
                "step {} may call model {model}, which has no price, so that maxCost cannot be kept: name a \
                 model that has one, or leave maxCost out",
                step.id()
            )));
        }
        let subject = Subject { tags: &request.tags, account, template, model: &request.model };
        if let Some(says) = budgets.and_then(|budgets| budgets.unbounded(subject, model)) {
            return Err(Error::BudgetExceeded(format!("step {}: {says}", step.id())));
        }
    }
    Ok(())
}

/// Passes unless a budget is for a task of this request, and one of its models has no price.
///
/// # Errors
/// [`Error::Invalid`] of the field `model`.
pub(crate) fn check_task(node: &Node, asker: Asker<'_>, request: &Request) -> Result<(), Error> {
    let Asker { environment, account, template } = asker;
    let subject = Subject { tags: &request.tags, account, template, model: &request.model };
    let Some(budgets) = node.limits.budgets(environment) else { return Ok(()) };
    let says = unpriced(node, request).and_then(|model| budgets.unbounded(subject, model));
    says.map_or(Ok(()), |says| Err(Error::invalid("model", Rule::Enum, says)))
}

/// A model without a price that a task of this request may call.
fn unpriced<'r>(node: &Node, request: &'r Request) -> Option<&'r str> {
    let called = Called::by(&request.model, request.routing.as_deref());
    called.unpriced(request.inputs.confidence.as_deref(), &node.limits.prices.get())
}
