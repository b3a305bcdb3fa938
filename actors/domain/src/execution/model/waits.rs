//! Waits in the random world: which steps wait for which signal, and signals that come at any time.

use std::time::Duration;

use super::super::signal::Sent;
use super::super::{Event, Signal, Stage, Status, StepDecision};
use super::chance::Chance;
use super::{World, ending};
use crate::graph::StepSet;
use crate::id::SignalId;
use crate::task::EndingCode;

/// For each step the number of the signal that it waits for, if it is a wait.
pub(super) fn draw(chance: &mut Chance, steps: usize) -> Vec<Option<u64>> {
    let share = if chance.percent(50) { 0 } else { chance.below(60) };
    (0..steps).map(|_| chance.percent(share).then(|| chance.below(3))).collect()
}

impl World {
    pub(super) fn is_wait(&self, step: u16) -> bool {
        self.waits.get(usize::from(step)).is_some_and(Option::is_some)
    }

    /// The decision about a wait.
    pub(super) fn about_wait(&mut self) -> StepDecision {
        match self.chance.below(100) {
            0..12 => StepDecision::Skip,
            12..16 => StepDecision::Fail(ending(EndingCode::ConditionFailed)),
            16..50 => StepDecision::Await { timeout_ms: Some(1 + self.chance.below(90_000)) },
            _ => StepDecision::Await { timeout_ms: None },
        }
    }

    /// Somebody sends a signal.
    pub(super) fn signal(&mut self) {
        let Some(name) = self.chance.pick(self.waits.iter().filter_map(|name| *name)) else {
            return;
        };
        let is_of = |(step, of): (u16, &Option<u64>)| (*of == Some(name)).then_some(step);
        let steps: StepSet = (0..).zip(&self.waits).filter_map(is_of).collect();
        self.last_task += 1;
        let signal = Signal { id: SignalId::from_u128(self.last_task << 10), at: self.now };
        let replace = self.chance.percent(30);
        self.happens(&Event::Signalled(Sent { steps, signal, replace }));
    }

    /// Nothing is under way but waits: a signal comes, or the time of a wait passes.
    pub(super) fn awake_a_wait(&mut self) -> bool {
        let awaiting = |(_, row): (u16, &super::StepState)| row.stage == Stage::Awaiting;
        let begins = self.committed.status() == Status::Pending;
        if !begins && !self.committed.steps().any(awaiting) {
            return false;
        }
        assert_eq!(self.alarm, self.committed.wakes_at(), "its alarm is lost");
        if self.chance.percent(50) && self.alarm.is_some() {
            self.now = self.alarm.take().unwrap_or(self.now);
            self.happens(&Event::TimePassed);
        } else {
            self.now = self.now.after(Duration::from_millis(1));
            self.signal();
        }
        true
    }
}
