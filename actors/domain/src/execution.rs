//! The life of an execution (docs/reference/executions.md).
//!
//! ```text
//!   Scheduled ── TimePassed ──▶ Running,  CancelRequested ──▶ Cancelled
//!
//!            every step is completed or skipped
//!   Running ────────────────────────────────────────────▶ Completed
//!    ▲ ▲ │   a step did not end well and nothing is left to do,
//!    │ │ │   failFast, TimePassed, GivenUp
//!    │ │ ├────────────────────────────────────────────▶ Failed ────┐
//!    │ │ │   CancelRequested                                       │ RetryRequested
//!    │ │ └────────────────────────────────────────────▶ Cancelled ─┤
//!    │ └───────────────────────────────────────────────────────────┘
//!    └── Decided, StepCompleted, StepFailed, StepReopened, …: see `step.rs` for the life of one
//! ```
//!
//! A transition is small, and several make one commit: when a step ends, each step that became ready is
//! decided and joins in, until nothing is due.
//!
//! ```text
//!   StepCompleted(0) ─▶ due: 1, 2 ─▶ Decided(1, Skip) ─▶ due: 2, 3 ─▶ Decided(2, Run) ─▶ …
//!   └──────────────── one Step<Execution>, joined by `and_then` ───────────────────────┘
//! ```
//!
//! Deliberately absent: the texts, so also conditions, prompts and schemas, whose verdicts come in
//! as events; names of steps, but for messages; and the work of tasks until they end.

mod erasure;
mod event;
mod head;
mod items;
pub mod program;
mod progress;
mod rows;
pub mod signal;
mod step;
mod tally;
mod transition;
mod uses;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use event::{Effect, Event, Fact, ItemDecision, Refusal, Report, Retry, StepDecision};
pub use head::{Cause, ForkedFrom, Head, Spec, State, Status, Template};
pub use items::{
    Due, Expansion, ItemCounts, ItemOutputs, ItemStatus, MAX_ITEMS, MAX_OUTPUT, MapState,
    UnknownItem,
};
pub use progress::{DispatchState, Progress};
pub use signal::Signal;
pub(crate) use step::clipped;
pub use step::{MAX_MESSAGE, MAX_STOPPING, OutputSource, Stage, StepState};
pub use uses::{Use, UseKind};

use items::Items;
use rows::Rows;
use tally::Tally;
use transition::Transition;

use crate::Timestamp;
use crate::budget::{Budget, Fit};
use crate::graph::{Graph, STEP_WORDS, StepSet};
use crate::id::TaskId;
use crate::machine::{Machine, Step};
use crate::task::EndingCode;
use crate::usage::Usage;

/// An execution: its head row, the rows of its steps, and the graph that they share.
///
/// Steps are numbered as in the plan. The stored rows are [`Self::head`] and [`Self::changed_since`];
/// all else is made again by [`Self::loaded`].
#[derive(Debug, Clone, PartialEq)]
pub struct Execution {
    /// The head row.
    pub head: Head,
    graph: Arc<Graph>,
    rows: Rows,
    tally: Tally<STEP_WORDS>,
    /// The items of the `forEach` steps that have their list.
    items: BTreeMap<u16, Arc<Items>>,
}

/// Rows that are not those of the graph's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{rows} rows are stored for {steps} steps")]
pub struct Mismatch {
    /// The number of stored rows.
    pub rows: usize,
    /// The number of steps.
    pub steps: usize,
}

impl Execution {
    /// A new execution, whose first steps are to be decided, at once or at its `startAt`.
    #[must_use]
    pub fn started(spec: Spec, graph: Arc<Graph>, now: Timestamp) -> Step<Self> {
        let head = Head {
            spec: Arc::new(spec),
            state: State::Running,
            version: 0,
            run: 1,
            started_at: now,
            retried_at: None,
            deadline: None,
            budget: Budget::default(),
            error: None,
            erased_at: None,
        };
        let rows: Rows = graph.steps().iter().map(|_| StepState::default()).collect();
        let tally = Tally::of(&rows);
        let unborn = Self { head, graph, rows, tally, items: BTreeMap::new() };
        let mut transition = Transition::of(&unborn, now);
        match unborn.head.spec.start_at {
            Some(at) => transition.scheduled(at),
            None => transition.started(),
        }
        transition.done()
    }

    /// The execution of a head row and its steps' rows, in the order of the graph. An execution that is
    /// to change needs the rows of its items as well ([`Self::with_items`]).
    ///
    /// # Errors
    /// There is not one row for each step.
    pub fn loaded(
        mut head: Head,
        graph: Arc<Graph>,
        rows: impl IntoIterator<Item: Into<Arc<StepState>>>,
    ) -> Result<Self, Mismatch> {
        let rows: Rows = rows.into_iter().collect();
        let found = rows.iter().count();
        if found != graph.len() {
            return Err(Mismatch { rows: found, steps: graph.len() });
        }
        rows.iter().for_each(|(_, row)| head.budget.reserve(row.reserved));
        let fresh = |map: &MapState| Arc::new(Items::fresh(map.items));
        let items = rows.iter().filter_map(|(step, row)| Some((step, fresh(row.map.as_ref()?))));
        Ok(Self { head, graph, tally: Tally::of(&rows), items: items.collect(), rows })
    }

    /// The status on the wire.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.head.state.status()
    }

    /// True for a completed row of a batch that has taken over each of its answers from a row of another batch.
    #[must_use]
    pub fn is_reused_row(&self) -> bool {
        let spec = &self.head.spec;
        let is_taken = |row: &StepState| row.started_at.is_none() && row.stage != Stage::Failed;
        spec.row_of.is_some()
            && spec.forked_from.is_some()
            && self.status() == Status::Completed
            && self.usage() == Usage::default()
            && self.steps().any(|(_, row)| row.stage == Stage::Completed)
            && self.steps().all(|(_, row)| is_taken(row))
    }

    /// The usage of all tasks of the execution so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.head.budget.usage()
    }

    /// The graph.
    #[must_use]
    pub const fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// A step's row, if there is such a step.
    #[must_use]
    pub fn step(&self, step: u16) -> Option<&StepState> {
        self.rows.get(step)
    }

    /// All rows, as the first commit writes them.
    pub fn steps(&self) -> impl Iterator<Item = (u16, &StepState)> {
        self.rows.iter()
    }

    /// The rows of the first `count` steps: a copy that costs no more than pointers.
    #[must_use]
    pub fn first_steps(&self, count: usize) -> Vec<Arc<StepState>> {
        self.rows.shared().take(count).cloned().collect()
    }

    /// The rows that a commit has to write which leads here from `before`, however many
    /// transitions lie between.
    pub fn changed_since<'a>(
        &'a self,
        before: &'a Self,
    ) -> impl Iterator<Item = (u16, &'a StepState)> {
        self.rows.changed_since(&before.rows)
    }

    /// The ready steps that are to be decided now, and the steps of which an item is: all but those
    /// that wait for budget which others may still give back.
    #[must_use]
    pub fn due(&self) -> StepSet {
        let [steps, with_items] = self.due_and_with_due_items();
        steps.union(&with_items)
    }

    /// The ready steps that are due, and the steps of which an item is.
    fn due_and_with_due_items(&self) -> [StepSet; 2] {
        let waiting = self.tally.held.iter().filter(|step| self.waits_for_budget(*step)).collect();
        [self.tally.at(Stage::Ready).difference(&waiting), self.with_due_items()]
    }

    /// True if a step is due.
    #[must_use]
    pub fn has_due(&self) -> bool {
        self.head.state == State::Running && self.due().first().is_some()
    }

    /// True if the step is ready but its worst case does not fit beside the reservations of others.
    #[must_use]
    pub fn waits_for_budget(&self, step: u16) -> bool {
        let held = self.step(step).and_then(|row| row.held);
        held.is_some_and(|worst| {
            let fit = self.head.budget.fit(self.head.spec.max_cost, Some(worst));
            matches!(fit, Fit::Later(_))
        })
    }

    /// The tasks of dispatched steps and items, with their steps.
    pub fn out(&self) -> impl Iterator<Item = (u16, TaskId)> {
        self.steps_out().chain(self.items_out().map(|(step, _, task)| (step, task)))
    }

    /// The dispatched steps without items, and their tasks.
    pub fn steps_out(&self) -> impl Iterator<Item = (u16, TaskId)> {
        self.tally
            .at(Stage::Dispatched)
            .iter()
            .filter_map(|step| self.current(step).map(|task| (step, task)))
    }

    /// Tasks that were let go of and whose end is not known yet, with their steps.
    pub fn stopping(&self) -> impl Iterator<Item = (u16, TaskId)> {
        let of_steps = self.tally.stopping.iter().flat_map(|step| {
            let tasks = self.step(step).into_iter().flat_map(|row| row.stopping.iter());
            tasks.map(move |task| (step, *task))
        });
        of_steps.chain(self.items_stopping())
    }

    /// The number of steps with items that are under way.
    fn running_maps(&self) -> usize {
        let runs = |step: &&u16| self.tally.at(Stage::Dispatched).contains(**step);
        self.items.keys().filter(runs).count()
    }

    /// The task of a dispatched step.
    fn current(&self, step: u16) -> Option<TaskId> {
        self.step(step).filter(|row| row.stage == Stage::Dispatched).and_then(|row| row.task)
    }

    fn is_ready(&self, step: u16) -> bool {
        self.tally.at(Stage::Ready).contains(step)
    }

    /// True if the step, or the item of it, waits for the task.
    pub(crate) fn is_out(&self, step: u16, task: TaskId, item: Option<u16>) -> bool {
        let current = match item {
            Some(item) => self.current_item(step, item),
            None => self.current(step),
        };
        current == Some(task)
    }

    fn reports(&self, step: u16, report: &Report) -> bool {
        self.is_out(step, report.task, report.item)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.head.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// True if a step or an item has as many tasks being stopped as it may.
    fn is_clogged(&self) -> bool {
        let full = |step| self.step(step).is_some_and(|row| row.stopping.len() >= MAX_STOPPING);
        let full_item = |(_, row): (u16, &StepState)| row.stopping.len() >= MAX_STOPPING;
        let stopping = self.tally.stopping.intersection(&self.tally.badly());
        stopping.iter().any(|step| full(step) || self.items(step).any(full_item))
    }

    /// True if the step let go of the task.
    fn knows(&self, step: u16, report: &Report) -> bool {
        let row = match report.item {
            Some(item) => self.item(step, item),
            None => self.step(step),
        };
        row.is_some_and(|row| row.stopping.contains(&report.task))
    }

    fn reopen(&self, step: u16, task: TaskId, now: Timestamp) -> Result<Step<Self>, Refusal> {
        match self.head.state {
            State::Running if self.tally.stopping.contains(step) => Err(Refusal::StillStopping),
            State::Running if self.can_reopen(step, task) => {
                Ok(self.then(now, |it| it.reopened(step, task)))
            }
            State::Scheduled { .. }
            | State::Running
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled { .. } => Err(Refusal::NotReopened),
        }
    }

    fn then(&self, now: Timestamp, make: impl FnOnce(&mut Transition)) -> Step<Self> {
        let mut transition = Transition::of(self, now);
        make(&mut transition);
        transition.done()
    }
}

impl Step<Execution> {
    /// Goes on from here, for one commit: facts and effects add up, but the log hears of progress
    /// once, a step that was decided need not be decided, and only the last wake counts.
    ///
    /// # Errors
    /// The event does not apply; nothing changes.
    pub fn and_then(&mut self, event: Event, now: Timestamp) -> Result<(), Refusal> {
        let after = self.next.transition(event, now)?;
        let due = after.next.due();
        let rewoken = after.effects.iter().any(|effect| is_wake(*effect));
        let is_reported =
            after.facts.contains(&Fact::Progressed) || after.next.status() != Status::Running;
        self.facts.retain(|fact| !(is_reported && *fact == Fact::Progressed));
        self.effects.retain(|effect| match effect {
            Effect::Decide(step) => due.contains(*step),
            Effect::WakeAt(_) | Effect::ForgetWake => !rewoken,
            Effect::Watch { step, task } => after.next.current(*step) == Some(*task),
            Effect::WatchItem { step, item, task } => {
                after.next.current_item(*step, *item) == Some(*task)
            }
            Effect::CancelTask { .. } => true,
        });
        self.next = after.next;
        self.facts.extend(after.facts);
        self.effects.extend(after.effects);
        Ok(())
    }
}

impl Machine for Execution {
    type Event = Event;
    type Fact = Fact;
    type Effect = Effect;
    type Refusal = Refusal;

    fn transition(&self, event: Event, now: Timestamp) -> Result<Step<Self>, Refusal> {
        use Event as E;
        use State as S;
        match (&self.head.state, event) {
            (S::Running, E::Decided { step, decision }) if self.is_ready(step) => {
                Ok(self.then(now, |it| it.decided(step, decision)))
            }
            (S::Running, E::ItemDecided { step, item, decision })
                if self.is_item_open(step, item) =>
            {
                Ok(self.then(now, |it| it.item_decided(step, item, decision)))
            }
            (S::Scheduled { .. } | S::Running, E::Decided { .. } | E::ItemDecided { .. }) => {
                Err(Refusal::NotReady)
            }

            (S::Running, E::StepCompleted { step, report }) if self.reports(step, &report) => {
                Ok(self.then(now, |it| it.completed(step, &report)))
            }
            (S::Running, E::StepFailed { step, report, ending }) if self.reports(step, &report) => {
                Ok(self.then(now, |it| it.failed(step, &report, ending)))
            }
            (S::Running, E::StepRejected { step, report, ending, retried_as })
                if self.reports(step, &report) =>
            {
                Ok(self.then(now, |it| it.rejected(step, &report, ending, retried_as)))
            }
            (S::Running, E::StepCancelled { step, report }) if self.reports(step, &report) => {
                Ok(self.then(now, |it| it.cancelled_alone(step, &report)))
            }
            (S::Running, E::OutputMismatched { step, report, fault })
                if self.reports(step, &report) =>
            {
                Ok(self.then(now, |it| it.mismatched(step, &report, &fault)))
            }
            (_, E::StepRejected { step, report, retried_as, .. }) if self.knows(step, &report) => {
                Ok(self.then(now, |it| it.swept(step, &report, retried_as)))
            }
            (
                _,
                E::StepCompleted { step, report }
                | E::StepFailed { step, report, .. }
                | E::StepCancelled { step, report }
                | E::OutputMismatched { step, report, .. },
            ) if self.knows(step, &report) => {
                Ok(self.then(now, |it| it.swept(step, &report, None)))
            }
            (
                _,
                E::StepCompleted { .. }
                | E::StepFailed { .. }
                | E::StepRejected { .. }
                | E::StepCancelled { .. }
                | E::OutputMismatched { .. },
            ) => Err(Refusal::StaleTask),

            (_, E::StepReopened { step, task }) => self.reopen(step, task, now),

            (_, E::Signalled(sent)) => match self.refuses(&sent) {
                Some(refusal) => Err(refusal),
                None => Ok(self.then(now, |it| it.signalled(&sent))),
            },

            (S::Scheduled { at }, E::TimePassed) if *at <= now => {
                Ok(self.then(now, Transition::begun))
            }
            (S::Scheduled { .. } | S::Running, E::CancelRequested) => Ok(self.then(now, |it| {
                let why = "the execution was cancelled";
                it.called_off(EndingCode::Cancelled, why, S::Cancelled { at: now });
            })),
            (S::Running, E::TimePassed) if self.is_due(now) => Ok(self.then(now, |it| {
                let why = "the execution took longer than options.timeoutMs";
                it.called_off(EndingCode::ExecutionTimeout, why, S::Failed { at: now });
            })),
            (S::Running, E::TimePassed) if !self.overdue(now).is_empty() => {
                Ok(self.then(now, Transition::waits_over))
            }
            (S::Scheduled { .. } | S::Running, E::TimePassed) => Err(Refusal::NotDue),
            (S::Scheduled { .. } | S::Running, E::GivenUp) => Ok(self.then(now, |it| {
                let why = "internal error: the execution's actor failed repeatedly";
                it.called_off(EndingCode::InternalError, why, S::Failed { at: now });
            })),

            (S::Scheduled { .. } | S::Running, E::RetryRequested) => Err(Refusal::Running),
            (S::Failed { .. } | S::Cancelled { .. }, E::RetryRequested) if self.is_clogged() => {
                Err(Refusal::StillStopping)
            }
            (S::Failed { .. } | S::Cancelled { .. }, E::RetryRequested)
                if self.has_erased_output() =>
            {
                Err(Refusal::TextsErased)
            }
            (S::Failed { .. } | S::Cancelled { .. }, E::RetryRequested) => {
                Ok(self.then(now, Transition::retried))
            }
            (S::Completed { .. }, E::RetryRequested)
            | (
                S::Completed { .. } | S::Failed { .. } | S::Cancelled { .. },
                E::Decided { .. }
                | E::ItemDecided { .. }
                | E::CancelRequested
                | E::TimePassed
                | E::GivenUp,
            ) => Err(Refusal::Finished(self.status())),
        }
    }

    fn outstanding(&self) -> Vec<Effect> {
        let wake = self.wakes_at();
        let stopping = self.stopping().map(|(step, task)| Effect::CancelTask { step, task });
        let out = self.steps_out().map(|(step, task)| Effect::Watch { step, task });
        let items = self.items_out();
        let items = items.map(|(step, item, task)| Effect::WatchItem { step, item, task });
        let out = out.chain(items);
        let due = self.due().iter().map(Effect::Decide);
        wake.map(Effect::WakeAt).into_iter().chain(stopping).chain(out).chain(due).collect()
    }

    /// True if the execution and every task of it have ended: only a retry changes anything then.
    fn is_finished(&self) -> bool {
        self.head.state.ended_at().is_some() && self.tally.stopping.is_empty()
    }
}

const fn is_wake(effect: Effect) -> bool {
    match effect {
        Effect::WakeAt(_) | Effect::ForgetWake => true,
        Effect::Decide(_)
        | Effect::Watch { .. }
        | Effect::WatchItem { .. }
        | Effect::CancelTask { .. } => false,
    }
}
