//! The steps of an execution, or the items of a step, by stage, as sets: kept up with each change, and
//! made anew from the rows.

use super::rows::Rows;
use super::step::Stage;
use crate::graph::Set;

/// The steps of an execution, or the items of a step, by stage; and those with something open besides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Tally<const WORDS: usize> {
    stages: [Set<WORDS>; Stage::ALL.len()],
    /// Steps that are ready, but whose worst case waits for budget.
    pub(super) held: Set<WORDS>,
    /// Steps with tasks that were let go of.
    pub(super) stopping: Set<WORDS>,
}

impl<const WORDS: usize> Tally<WORDS> {
    pub(super) fn of(rows: &Rows) -> Self {
        let mut tally = Self::default();
        for (step, row) in rows.iter() {
            tally.stages[row.stage as usize].insert(step);
            if row.held.is_some() {
                tally.held.insert(step);
            }
            if !row.stopping.is_empty() {
                tally.stopping.insert(step);
            }
        }
        tally
    }

    pub(super) fn at(&self, stage: Stage) -> &Set<WORDS> {
        &self.stages[stage as usize]
    }

    pub(super) fn moved(&mut self, step: u16, from: Stage, to: Stage) {
        self.stages[from as usize].remove(step);
        self.stages[to as usize].insert(step);
    }

    /// The steps that have not ended.
    pub(super) fn open(&self) -> Set<WORDS> {
        let begun = self.at(Stage::Dispatched).union(self.at(Stage::Awaiting));
        self.at(Stage::Waiting).union(self.at(Stage::Ready)).union(&begun)
    }

    /// The steps that ended so that their dependents may go on.
    pub(super) fn well(&self) -> Set<WORDS> {
        self.at(Stage::Completed).union(self.at(Stage::Skipped))
    }

    /// The steps that ended otherwise.
    pub(super) fn badly(&self) -> Set<WORDS> {
        self.at(Stage::Failed).union(self.at(Stage::Rejected)).union(self.at(Stage::Cancelled))
    }
}
