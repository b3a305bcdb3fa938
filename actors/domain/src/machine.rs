//! The one shape of every state machine: `state + event + time → next state, facts, effects`.
//!
//! Deliberately absent: the durability of steps and the performance of effects. Those are the
//! runtime's: `durable` for the machines that an actor holds, `accounts` for sessions.

use crate::Timestamp;

/// A state machine whose state is a snapshot that can be stored.
///
/// Laws, which the tests of each machine check: a refusal changes nothing; a finished state
/// refuses every event that would change it, but for the retry of an execution that failed or was
/// cancelled; performing [`Machine::outstanding`] after a crash
/// owes the same effects as the state before it.
pub trait Machine: Sized {
    /// A past event.
    type Event;
    /// A fact for the event log and its subscribers.
    type Fact;
    /// An order to the runtime; safe to carry out twice.
    type Effect;
    /// The reason why an event changes nothing.
    type Refusal;

    /// The step that `event` leads to.
    ///
    /// # Errors
    /// The event does not apply to this state; nothing changes.
    fn transition(&self, event: Self::Event, now: Timestamp) -> Result<Step<Self>, Self::Refusal>;

    /// The effects that are still owed in this state: performed after a restart in place of the effects
    /// that may have been lost.
    fn outstanding(&self) -> Vec<Self::Effect>;

    /// True if nothing more happens by itself, and nothing at all except that retry.
    fn is_finished(&self) -> bool;
}

/// The outcome of a transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step<M: Machine> {
    /// The state from now on.
    pub next: M,
    /// The facts for the event log, written in the same commit.
    pub facts: Vec<M::Fact>,
    /// The effects to perform once `next` is durable.
    pub effects: Vec<M::Effect>,
}

impl<M: Machine> Step<M> {
    /// A step to `next` without facts and effects.
    pub const fn to(next: M) -> Self {
        Self { next, facts: Vec::new(), effects: Vec::new() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn report(mut self, fact: M::Fact) -> Self {
        self.facts.push(fact);
        self
    }

    /// Adds an effect.
    #[must_use]
    pub fn order(mut self, effect: M::Effect) -> Self {
        self.effects.push(effect);
        self
    }
}
