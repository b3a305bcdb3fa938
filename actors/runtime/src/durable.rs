//! Persist, become, act: the one place for a machine that an actor holds.
//!
//! ```text
//!   event ─▶ transition ─▶ commit next ─▶ replace the state ─▶ effects ─▶ reply
//!                │               │
//!                └ refused:      └ failed: nothing is known about the disk, so the actor breaks
//!                  nothing         and is started again from what is durable
//!                  changes
//! ```
//!
//! What is no such machine is committed by [`commit_rows`] alone: what was not there before
//! (`intake`), users, keys and sessions (`accounts`, which holds them all), templates (`catalog`),
//! events of workers (`node`), and what is removed (`retention`, `housekeeping`). Deliberately absent:
//! what effects do. The actor performs them.

use callboard_domain::Timestamp;
use callboard_domain::id::Environment;
use callboard_domain::machine::{Machine, Step};
use callboard_store::{Batch, BatchId, Op, Outcome, Partition, Ticket};

use crate::shard::Shard;

/// A machine whose snapshot can be stored.
pub(crate) trait Persist: Machine {
    /// What comes along with a step and is no part of the state, such as an output.
    type Texts: Default + Send;

    /// The partition that all its rows live in.
    fn partition(&self) -> u8;

    /// The rows of a step: its state, its facts, what its effects need, and the texts that came with
    /// it.
    fn rows(
        step: &Step<Self>,
        environment: Environment,
        now: Timestamp,
        texts: Self::Texts,
    ) -> Vec<Op>;
}

/// A state that is changed only by way of the disk.
pub(crate) struct Durable<M: Machine> {
    environment: Environment,
    state: M,
    /// On its way to the disk.
    proposed: Option<Step<M>>,
}

/// Why a state did not change.
#[derive(Debug)]
pub(crate) enum Unchanged<R> {
    /// The machine refused the event.
    Refused(R),
    /// The store failed: the actor must break.
    Broken(NotCommitted),
}

/// A commit that failed, or whose fate is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the commit did not succeed: {0:?}")]
pub(crate) struct NotCommitted(pub(crate) Outcome);

impl<M: Machine> Durable<M> {
    /// A state that was read from the store.
    pub(crate) const fn loaded(environment: Environment, state: M) -> Self {
        Self { environment, state, proposed: None }
    }

    /// The state.
    pub(crate) const fn state(&self) -> &M {
        &self.state
    }

    /// Puts a step in line to be committed with these rows, its own among them. The state stays as
    /// it is until [`Self::settle`]; there is no other step before that.
    pub(crate) fn propose(
        &mut self,
        shard: &Shard,
        partition: u8,
        step: Step<M>,
        rows: Vec<Op>,
    ) -> Ticket {
        debug_assert!(self.proposed.is_none(), "one step at a time");
        self.proposed = Some(step);
        commit_rows(shard, partition, rows)
    }

    /// Becomes what was proposed, and returns the effects to perform.
    ///
    /// # Errors
    /// The commit failed: the actor must break.
    pub(crate) fn settle(&mut self, outcome: Outcome) -> Result<Vec<M::Effect>, NotCommitted> {
        let Some(step) = self.proposed.take() else { return Ok(Vec::new()) };
        if !matches!(outcome, Outcome::Committed) {
            return Err(NotCommitted(outcome));
        }
        self.state = step.next;
        Ok(step.effects)
    }

    /// Becomes what somebody else has committed on behalf of this machine, in a batch of its own.
    pub(crate) fn follow(&mut self, next: M) {
        self.state = next;
    }
}

impl<M: Persist> Durable<M> {
    /// Takes the step that `event` leads to, together with the texts that come with it, and returns
    /// the effects to perform once all of it is durable.
    pub(crate) async fn take(
        &mut self,
        shard: &Shard,
        event: M::Event,
        now: Timestamp,
        texts: M::Texts,
    ) -> Result<Vec<M::Effect>, Unchanged<M::Refusal>> {
        let step = self.state.transition(event, now).map_err(Unchanged::Refused)?;
        let rows = M::rows(&step, self.environment, now, texts);
        let partition = step.next.partition();
        let ticket = self.propose(shard, partition, step, rows);
        self.settle(ticket.await).map_err(Unchanged::Broken)
    }

    /// As [`Self::take`], but the effects may be performed before the step is durable. Only for a
    /// step whose loss does no harm: a lease that is lost in a crash is fenced, and given anew.
    pub(crate) fn take_ahead(
        &mut self,
        shard: &Shard,
        event: M::Event,
        now: Timestamp,
    ) -> Result<Vec<M::Effect>, M::Refusal> {
        let step = self.state.transition(event, now)?;
        let rows = M::rows(&step, self.environment, now, M::Texts::default());
        drop(commit_rows(shard, step.next.partition(), rows));
        self.state = step.next;
        Ok(step.effects)
    }
}

/// Puts rows of one partition in line to be committed.
pub(crate) fn commit_rows(shard: &Shard, partition: u8, ops: Vec<Op>) -> Ticket {
    let guards = vec![(Partition(partition), shard.epoch)];
    let id = BatchId(shard.ports.entropy.bits());
    shard.store.commit(Batch { id, guards, ops })
}
