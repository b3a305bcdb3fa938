//! The answers that did not count: another attempt with an amended request, and the usage of them all.

use super::{
    Amendment, Completion, Correction, FailureKind, Inputs, LeaseId, OutputFault, Route, Task,
};
use crate::Timestamp;
use crate::machine::Step;
use crate::usage::Usage;

impl Task {
    pub(super) fn output_invalid(
        &self,
        lease: LeaseId,
        completion: Completion,
        fault: &OutputFault,
        now: Timestamp,
    ) -> Step<Self> {
        let answer = self.with_earlier(completion);
        let mut step = if let Some(route) = self.fallback_on(FailureKind::OutputInvalid) {
            let mut step = self.again();
            step.next.route = route;
            step.next.error = Some(fault.ending());
            let amendment = self.correction.as_ref().map(|it| it.amendment.clone());
            let amendment = amendment.unwrap_or_default();
            step.next.correction = Some(Box::new(Correction { amendment, answer }));
            step
        } else if let Some(amendment) = self.amendment_after(fault) {
            let mut step = self.again();
            step.next.retries += 1;
            step.next.route = Route::default();
            step.next.error = Some(fault.ending());
            step.next.correction = Some(Box::new(Correction { amendment, answer }));
            step
        } else {
            let mut step = self.failed(fault.ending(), now);
            step.next.correction = None;
            step.next.result = Some(Box::new(answer));
            step
        };
        step.next.last_result_lease = Some(lease);
        step
    }

    /// The changes to another attempt after this fault; `None` if the task has no other attempt. The
    /// execution of a step makes another task instead, for which it needs budget.
    pub(super) fn amendment_after(&self, fault: &OutputFault) -> Option<Amendment> {
        if self.spec.origin.step.is_some() {
            return None;
        }
        let so_far = self.correction.as_ref().map(|correction| correction.amendment.clone());
        so_far.unwrap_or_default().after(fault)
    }

    /// The token limit of the next or current attempt.
    #[must_use]
    pub fn max_tokens(&self) -> Option<u64> {
        let amended = self.correction.as_ref().and_then(|it| it.amendment.max_tokens);
        amended.or(self.spec.max_tokens)
    }

    /// The token limit of a call of the current model. The limit is chosen for a whole list of models;
    /// each of them gets at most its own `longest` output.
    #[must_use]
    pub fn max_tokens_of_call(&self, longest: impl FnOnce(&str) -> Option<u64>) -> Option<u64> {
        let asked = self.max_tokens()?;
        let is_listed = self.spec.routing.as_deref().is_some_and(|it| !it.models.is_empty());
        let longest = if is_listed { longest(self.model()) } else { None };
        Some(longest.map_or(asked, |longest| asked.min(longest)))
    }

    /// The longest output of another attempt, which begins with the first model; a later one counts if
    /// the attempt goes on to it after a truncated output. `None` if one of them has no known limit.
    #[must_use]
    pub fn longest_of_attempt(&self, longest: impl Fn(&str) -> Option<u64>) -> Option<u64> {
        let routing = self.spec.routing.as_deref();
        let routing = routing.filter(|it| it.falls_back_on(FailureKind::OutputInvalid));
        let later = routing.map_or(&[][..], |it| it.models.get(1..).unwrap_or_default());
        let first = longest(&self.spec.model)?;
        later.iter().try_fold(first, |most, model| Some(most.max(longest(model)?)))
    }

    /// The texts of the next or current attempt.
    #[must_use]
    pub fn amended(&self, mut inputs: Inputs) -> Inputs {
        if let Some(correction) = &self.correction {
            correction.amendment.amend(&mut inputs);
        }
        inputs
    }

    /// The usage of all answers so far, of those that did not count too.
    #[must_use]
    pub fn paid(&self) -> Usage {
        let answer = self.result.as_deref();
        let answer = answer.or(self.correction.as_deref().map(|it| &it.answer));
        answer.map(|answer| answer.usage).unwrap_or_default()
    }

    /// An answer with the usage of the earlier ones, which did not count.
    pub(super) fn with_earlier(&self, mut completion: Completion) -> Completion {
        if let Some(correction) = &self.correction {
            completion.usage += correction.answer.usage;
        }
        completion
    }

    /// The task with the usage of a call that failed.
    pub(super) fn having_paid(&self, usage: Usage) -> Self {
        let answer = self.with_earlier(Completion {
            usage,
            confidence: None,
            confidence_source: None,
            finish_reason: None,
            service_tier: None,
            judge: None,
            thinking: None,
        });
        let amendment = self.correction.as_ref().map(|it| it.amendment.clone());
        let amendment = amendment.unwrap_or_default();
        Self { correction: Some(Box::new(Correction { amendment, answer })), ..self.clone() }
    }

    /// Keeps an answer that did not count, but was paid for: it is shown if no other came.
    pub(super) fn keep_paid_answer(&mut self) {
        if let Some(correction) = self.correction.take() {
            self.result.get_or_insert_with(|| Box::new(correction.answer));
        }
    }
}
