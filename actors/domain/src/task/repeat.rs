//! The retry of a single task: a new task with the same request.
//!
//! Deliberately absent: attempts, which one task makes by itself, and the retry of an execution.

use super::{Inputs, Request, Spec, State, Task};
use crate::error::Error;

impl Task {
    /// Passes if a new task may repeat this one: this one failed, was cancelled or was rejected, and is
    /// no step of an execution.
    ///
    /// # Errors
    /// [`Error::InvalidState`], which names the alternative.
    pub fn repeatable(&self) -> Result<(), Error> {
        let id = self.spec.id;
        if let Some((execution, step)) = &self.spec.origin.step {
            return Err(Error::InvalidState(format!(
                "task {id} is step {step} of an execution: retry that, at POST \
                 /api/plans/executions/{execution}/retry"
            )));
        }
        if let Some(at) = self.erased_at {
            return Err(Error::InvalidState(format!(
                "the texts of task {id} were erased at {at}: submit a new task"
            )));
        }
        match self.state {
            State::Failed { .. } | State::Cancelled { .. } | State::Rejected { .. } => Ok(()),
            State::Completed { .. } => Err(Error::InvalidState(format!(
                "task {id} is completed: submit it again for another output"
            ))),
            State::Scheduled { .. }
            | State::Ready
            | State::Backoff { .. }
            | State::Running { .. }
            | State::AwaitingApproval { .. } => Err(Error::InvalidState(format!(
                "task {id} has not ended: only a failed, cancelled or rejected task can be retried"
            ))),
        }
    }
}

impl Spec {
    /// The request that creates the same task again, with these texts, to run at once.
    #[must_use]
    pub fn request(&self, inputs: Inputs) -> Request {
        Request {
            model: self.model.clone(),
            queue: self.queue.clone(),
            priority: self.priority,
            timeout_ms: self.timeout_ms,
            tags: self.tags.clone(),
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            callback_url: self.callback_url.clone(),
            labels: self.labels.clone(),
            gate: self.gate,
            routing: self.routing.clone(),
            sampling: self.sampling.clone(),
            flow: self.flow.clone(),
            start_at: None,
            retry: self.retry,
            inputs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::id::{ExecutionId, TaskId};
    use crate::labels::Labels;
    use crate::machine::Machine;
    use crate::retry::Policy;
    use crate::task::{Event, Origin, Sampling};

    fn task(origin: Origin) -> Task {
        let request = Request {
            model: "m".into(),
            queue: "q".into(),
            priority: 9,
            timeout_ms: 7,
            tags: vec!["t".into()],
            max_tokens: Some(3),
            temperature: Some(0.5),
            callback_url: Some("https://example.com".into()),
            labels: Labels { title: Some("t".into()), ..Labels::default() }.boxed(),
            gate: None,
            routing: None,
            sampling: Some(Box::new(Sampling { seed: Some(7), ..Sampling::default() })),
            flow: None,
            start_at: None,
            retry: Policy { max_attempts: 9, ..Policy::default() },
            inputs: Inputs { prompt: "p".into(), ..Inputs::default() },
        };
        let (spec, inputs) =
            request.clone().accepted(TaskId::from_u128(1 << 10), "usr_1".into(), origin);
        assert_eq!(spec.request(inputs), request, "nothing of the request is lost");
        Task::submitted(spec).next
    }

    fn after(task: &Task, event: Event) -> Task {
        task.transition(event, Timestamp::from_millis(1)).expect("it is taken").next
    }

    #[test]
    fn only_a_task_that_ended_without_an_output_and_stands_alone_is_retried() {
        let ready = task(Origin::default());
        assert!(matches!(ready.repeatable(), Err(Error::InvalidState(_))));
        for event in [Event::CancelRequested, Event::GivenUp] {
            assert_eq!(after(&ready, event).repeatable(), Ok(()));
        }
        let completed = Task { state: State::Completed { at: Timestamp::from_millis(1) }, ..ready };
        assert!(matches!(completed.repeatable(), Err(Error::InvalidState(_))));
        let step = Some((ExecutionId::from_u128(1 << 10), "a".to_owned()));
        let step = after(&task(Origin { step, ..Origin::default() }), Event::GivenUp);
        let Err(Error::InvalidState(message)) = step.repeatable() else { panic!("a refusal") };
        assert!(message.contains("/retry"), "{message}");
    }
}
