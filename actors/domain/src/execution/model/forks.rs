//! Forks in the random world: what a fork takes over is complete in the commit of its decision, costs
//! nothing and goes to no worker.

use super::super::signal::Sent;
use super::super::{Event, ItemDecision, Report, Signal, StepDecision};
use super::chance::Chance;
use super::naive::Own;
use super::{Fake, World};
use crate::budget::Money;
use crate::graph::StepSet;
use crate::id::SignalId;
use crate::usage::Usage;

/// How often the original has what is needed, in percent; 0 for an execution that is no fork.
pub(super) fn draw(chance: &mut Chance) -> u64 {
    if chance.percent(70) { 0 } else { 20 + chance.below(80) }
}

impl World {
    pub(super) fn original_has_it(&mut self) -> bool {
        self.original_has > 0 && self.chance.percent(self.original_has)
    }

    /// The step or item is complete with a copy of the original's task.
    pub(super) fn takes_over(&mut self, step: u16, item: Option<u16>) {
        let (task, worst_cost) = (self.new_task(), Some(Money::ZERO));
        let decided = match item {
            Some(item) => {
                let decision = ItemDecision::Run { task, worst_cost };
                Event::ItemDecided { step, item, decision }
            }
            None => Event::Decided { step, decision: StepDecision::Run { task, worst_cost } },
        };
        let report = Report {
            task,
            item,
            started_at: Some(self.now),
            attempt: 1,
            usage: Usage::default(),
            confidence: None,
            finish_reason: None,
            fallback: None,
        };
        let completed = Event::StepCompleted { step, report };
        let spent = self.naive.spent();
        // A step that is not due, or the wrong item, is refused.
        if self.applies(&decided) {
            assert!(self.applies(&completed), "a copy did not fit: {:#?}", self.open.next);
            assert_eq!(self.naive.spent(), spent, "a copy costs nothing");
            self.tasks.insert(task, Fake { step, item, end: Some(completed) });
            self.goes_on();
        }
    }

    /// The wait goes on with the payload of the original's, unless another one came before.
    pub(super) fn takes_over_payload(&mut self, step: u16, decided: &Event) {
        if !self.applies(decided) {
            return;
        }
        self.last_task += 1;
        let name = self.waits[usize::from(step)];
        let is_of = |(step, of): (u16, &Option<u64>)| (*of == name).then_some(step);
        let steps: StepSet = (0..).zip(&self.waits).filter_map(is_of).collect();
        let id = SignalId::from_u128(self.last_task << 10);
        let signal = Signal { id, at: self.now };
        let is_taken = self.applies(&Event::Signalled(Sent { steps, signal, replace: false }));
        let is_complete = matches!(self.naive.own[usize::from(step)], Own::Well(_));
        assert!(is_complete || !is_taken, "the wait has a payload: {:#?}", self.open.next);
        self.goes_on();
    }
}
