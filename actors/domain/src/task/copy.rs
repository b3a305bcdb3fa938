//! The copy of a completed task, in a fork of its execution.
//!
//! Deliberately absent: the search for the task, and its texts.

use super::answer::CORRECTION;
use super::{Completion, Fact, Inputs, Request, Spec, State, Task};
use crate::Timestamp;
use crate::machine::Step;
use crate::usage::Usage;

impl Task {
    /// A task that is completed from the beginning, with the answer of `of`. The copy costs nothing.
    ///
    /// A reviewer's text is the output of the copy, which knows of no edit.
    #[must_use]
    pub fn copied(spec: Spec, of: &Self, now: Timestamp) -> Step<Self> {
        let free = |result: &Completion| Completion {
            usage: Usage::default(),
            judge: None,
            ..result.clone()
        };
        let task = Self {
            state: State::Completed { at: now },
            attempt: of.attempt,
            result: of.result.as_deref().map(free).map(Box::new),
            route: of.route,
            ..Self::submitted(spec).next
        };
        Step::to(task).report(Fact::Created).report(Fact::Completed)
    }
}

impl Request {
    /// True if a task with this spec and these inputs was asked the same of the same model, under the
    /// same gate. A correction after an output that did not match its schema is no difference.
    #[must_use]
    pub fn asks_the_same(&self, spec: &Spec, inputs: &Inputs) -> bool {
        let further = inputs.prompt.strip_prefix(&self.inputs.prompt);
        let is_same_prompt = further.is_some_and(|it| it.is_empty() || it.starts_with(CORRECTION));
        let Inputs {
            prompt: _,
            system_prompt,
            context,
            messages,
            files,
            output_schema,
            confidence,
            args,
            shown: _,
        } = inputs;
        is_same_prompt
            && self.inputs.system_prompt == *system_prompt
            && self.inputs.context == *context
            && self.inputs.messages == *messages
            && self.inputs.files == *files
            && self.inputs.output_schema == *output_schema
            && self.inputs.confidence == *confidence
            && self.inputs.args == *args
            && self.model == spec.model
            && self.routing == spec.routing
            && self.max_tokens == spec.max_tokens
            && self.temperature == spec.temperature
            && self.sampling == spec.sampling
            && self.gate == spec.gate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TaskId;
    use crate::retry::Policy;
    use crate::task::{Gate, Origin, Status};

    const NOW: Timestamp = Timestamp::from_millis(7);

    fn request(prompt: &str) -> Request {
        Request {
            model: "m".into(),
            queue: "q".into(),
            priority: 5,
            timeout_ms: 1_000,
            tags: Vec::new(),
            max_tokens: Some(10),
            temperature: None,
            callback_url: None,
            labels: None,
            gate: None,
            routing: None,
            sampling: None,
            flow: None,
            start_at: None,
            retry: Policy::default(),
            inputs: Inputs { prompt: prompt.into(), ..Inputs::default() },
        }
    }

    fn asked(request: Request) -> (Spec, Inputs) {
        request.accepted(TaskId::from_u128(1 << 10), "usr_1".into(), Origin::default())
    }

    #[test]
    fn prompt_model_settings_and_gate_make_the_difference_and_where_it_runs_does_not() {
        let (spec, inputs) = asked(request("p"));
        assert!(request("p").asks_the_same(&spec, &inputs));
        let elsewhere =
            Request { queue: "other".into(), priority: 9, tags: vec!["t".into()], ..request("p") };
        assert!(elsewhere.asks_the_same(&spec, &inputs));
        let with_system = Inputs { system_prompt: Some("s".into()), ..request("p").inputs };
        for other in [
            request("p and more"),
            request("other"),
            Request { model: "n".into(), ..request("p") },
            Request { max_tokens: None, ..request("p") },
            Request { temperature: Some(0.1), ..request("p") },
            Request { gate: Some(Gate::ALWAYS), ..request("p") },
            Request { inputs: with_system, ..request("p") },
        ] {
            assert!(!other.asks_the_same(&spec, &inputs), "{other:?}");
        }
    }

    #[test]
    fn a_correction_is_no_difference_and_any_other_addition_is() {
        let (spec, mut inputs) = asked(request("p"));
        let amendment = crate::task::Amendment { mismatch: Some("x".into()), max_tokens: None };
        amendment.amend(&mut inputs);
        assert!(request("p").asks_the_same(&spec, &inputs));
        inputs.prompt = "p\n\nFeedback:\nshorter".into();
        assert!(!request("p").asks_the_same(&spec, &inputs));
    }

    #[test]
    fn a_copy_is_completed_and_costs_nothing() {
        let (spec, _) = asked(request("p"));
        let result = Completion {
            usage: Usage { input: 5, output: 6, total_cost: 1.0, ..Usage::default() },
            confidence: Some(0.5),
            confidence_source: None,
            finish_reason: Some("stop".into()),
            service_tier: None,
            judge: None,
            thinking: None,
        };
        let of = Task {
            attempt: 2,
            edited: true,
            result: Some(Box::new(result)),
            ..Task::submitted(spec.clone()).next
        };
        let copy = Task::copied(spec, &of, NOW);
        assert!(copy.effects.is_empty());
        let copy = copy.next;
        assert_eq!((copy.status(), copy.attempt, copy.edited), (Status::Completed, 2, false));
        let result = copy.result.expect("an answer");
        assert_eq!((result.usage, result.confidence), (Usage::default(), Some(0.5)));
    }
}
