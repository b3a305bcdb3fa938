//! A rejected output is tried again: the task that does so.
//!
//! Deliberately absent: whether it fits into the budget of its execution, which that decides.

use callboard_domain::approval::prompt_again;
use callboard_domain::execution::Retry;
use callboard_domain::id::TaskId;
use callboard_domain::task::{Inputs, Origin, Spec, Task};
use callboard_store::Op;
use ractor::ActorProcessingErr;

use super::{ApprovalActor, State};
use crate::advance::Born;
use crate::durable::Persist;
use crate::tables;

/// What is asked when a rejected output is tried again; the reason follows.
#[derive(Debug)]
pub(crate) enum NextPrompt {
    /// What was asked before.
    AsBefore,
    /// The reviewer's own words.
    Given(String),
}

/// A task that tries again, its rows, and what its execution is told.
pub(super) struct Again {
    pub(super) born: Born,
    pub(super) rows: Vec<Op>,
    pub(super) retry: Retry,
}

impl ApprovalActor {
    /// The same task once more, with the reviewer's words in its prompt.
    pub(super) async fn again(
        &self,
        state: &State,
        prompt: &NextPrompt,
        reason: &str,
    ) -> Result<Again, ActorProcessingErr> {
        let approval = state.approval.as_ref().ok_or("there is no approval")?.state();
        let (environment, before) = (state.birth.address.environment, approval.id());
        let store = &*self.shard(state).store;
        let inputs = tables::inputs(store, environment, before).await?;
        let given = match prompt {
            NextPrompt::AsBefore => None,
            NextPrompt::Given(prompt) => Some(prompt.as_str()),
        };
        let prompt = prompt_again(&inputs.prompt, given, reason);
        let inputs = Inputs { prompt, ..inputs };
        let id = TaskId::from_u128(self.0.fresh_id(before.partition()));
        let spec = Spec {
            id,
            origin: Origin { retry_of: Some(before), ..approval.task.origin.clone() },
            ..Spec::clone(&approval.task)
        };
        let worst_cost = self.0.worst_cost(&spec.model, &inputs, spec.max_tokens);
        let step = Task::submitted(spec);
        let mut rows = tables::first_rows(environment, &step.next, &inputs);
        rows.extend(Task::rows(&step, environment, self.0.now(), None));
        let born = Born { environment, step, inputs };
        Ok(Again { born, rows, retry: Retry { task: id, worst_cost } })
    }
}
