//! The warnings about submitted work that no connected worker takes. They stop nothing: a worker may connect later.
//!
//! Deliberately absent: the sandbox, whose worker connects when there is work.

use std::borrow::Cow;

use callboard_domain::id::Environment;
use callboard_domain::plan::Plan;
use callboard_domain::task::Request;

use super::NewWork;
use crate::node::Node;

/// The most pairs of a model and a queue that one submission is warned about.
const MAX_WARNINGS: usize = 10;

/// The warnings about the work, one for each model and queue.
pub(crate) fn warnings(node: &Node, environment: Environment, work: &NewWork) -> Vec<String> {
    unserved(node, environment, needs(work, &node.settings.task_defaults.model))
}

/// The warnings about the steps of a plan.
pub(crate) fn of_plan(node: &Node, environment: Environment, plan: &Plan) -> Vec<String> {
    let mut needs = Needs::default();
    needs.add_plan(plan, &node.settings.task_defaults.model);
    unserved(node, environment, needs)
}

fn unserved(node: &Node, environment: Environment, Needs(mut needs): Needs<'_>) -> Vec<String> {
    if environment.is_test() {
        return Vec::new();
    }
    let moment = node.kernel.ports.clock.moment();
    let is_served = |model: &str, queue: &str| {
        node.actors.workers.any(environment, |worker| {
            let profile = worker.profile.as_ref().filter(|_| worker.is_reachable(moment));
            profile.is_some_and(|profile| profile.takes(model, queue))
        })
    };
    needs.retain(|(model, queue)| !is_served(model, queue));
    let reason = |(model, queue): &(Cow<'_, str>, &str)| {
        node.actors.workers.unserved(environment, (model, queue), moment)
    };
    let mut warnings: Vec<_> = needs.iter().filter_map(reason).collect();
    // Without any worker, all say the same.
    warnings.dedup();
    warnings
}

/// Models with queues, without repetitions. A task or step counts with the model that is called first: the others follow
/// only after a failure.
#[derive(Default)]
struct Needs<'w>(Vec<(Cow<'w, str>, &'w str)>);

impl<'w> Needs<'w> {
    fn add(&mut self, model: Cow<'w, str>, queue: &'w str) {
        let need = (model, queue);
        if !self.0.contains(&need) && self.0.len() < MAX_WARNINGS {
            self.0.push(need);
        }
    }

    fn add_plan(&mut self, plan: &'w Plan, default_model: &'w str) {
        for step in plan.steps().iter().filter(|step| step.wait().is_none()) {
            let source = step.source();
            let model = source.first_model().unwrap_or(Cow::Borrowed(default_model));
            self.add(model, source.queue.as_deref().unwrap_or(Request::DEFAULT_QUEUE));
        }
    }
}

fn needs<'w>(work: &'w NewWork, default_model: &'w str) -> Needs<'w> {
    let mut needs = Needs::default();
    match work {
        NewWork::Tasks(requests, _) => {
            for request in requests {
                needs.add(Cow::Borrowed(&request.model), &request.queue);
            }
        }
        NewWork::Retry(request, _) => needs.add(Cow::Borrowed(&request.model), &request.queue),
        NewWork::Plan(..) => {}
        NewWork::Execution(begin) => needs.add_plan(&begin.compiled.plan, default_model),
    }
    needs
}
