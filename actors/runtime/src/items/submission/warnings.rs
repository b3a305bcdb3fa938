//! The warnings about submitted work that no connected worker takes. They stop nothing: a worker may connect later.
//!
//! Deliberately absent: the sandbox, whose worker connects when there is work.

use std::borrow::Cow;

use callboard_domain::id::Environment;
use callboard_domain::task::Request;

use super::NewWork;
use crate::node::Node;

/// The most pairs of a model and a queue that one submission is warned about.
const MAX_WARNINGS: usize = 10;

/// The warnings about the work, one for each model and queue.
pub(crate) fn warnings(node: &Node, environment: Environment, work: &NewWork) -> Vec<String> {
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
    let mut needs = needs(work, &node.settings.task_defaults.model);
    needs.retain(|(model, queue)| !is_served(model, queue));
    let reason = |(model, queue): &(Cow<'_, str>, &str)| {
        node.actors.workers.unserved(environment, (model, queue), moment)
    };
    let mut warnings: Vec<_> = needs.iter().filter_map(reason).collect();
    // Without any worker, all say the same.
    warnings.dedup();
    warnings
}

/// The models and queues of the work, without repetitions. A task or step counts with the model that is called
/// first: the others follow only after a failure.
fn needs<'w>(work: &'w NewWork, default_model: &'w str) -> Vec<(Cow<'w, str>, &'w str)> {
    let mut needs: Vec<(Cow<'_, str>, &str)> = Vec::new();
    let mut add = |model: Cow<'w, str>, queue: &'w str| {
        let need = (model, queue);
        if !needs.contains(&need) && needs.len() < MAX_WARNINGS {
            needs.push(need);
        }
    };
    match work {
        NewWork::Tasks(requests, _) => {
            for request in requests {
                add(Cow::Borrowed(&request.model), &request.queue);
            }
        }
        NewWork::Retry(request, _) => add(Cow::Borrowed(&request.model), &request.queue),
        NewWork::Plan(..) => {}
        NewWork::Execution(begin) => {
            for step in begin.compiled.plan.steps().iter().filter(|step| step.wait().is_none()) {
                let source = step.source();
                let model = source.first_model().unwrap_or(Cow::Borrowed(default_model));
                add(model, source.queue.as_deref().unwrap_or(Request::DEFAULT_QUEUE));
            }
        }
    }
    needs
}
