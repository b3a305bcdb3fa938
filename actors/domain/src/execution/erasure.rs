//! Erasure of the texts of a step's task, after the execution has ended.

use std::sync::Arc;

use super::{Execution, Refusal, Stage, StepState};
use crate::id::TaskId;
use crate::machine::{Machine, Step};
use crate::task::Ending;

impl Execution {
    /// The execution without the words that its steps and their items quote of `task`; a step that
    /// completed with the task cannot feed a retry any more.
    ///
    /// # Errors
    /// [`Refusal::Running`] while the execution may still use the output.
    pub fn without_texts_of(&self, task: TaskId) -> Result<Step<Self>, Refusal> {
        if !self.is_finished() {
            return Err(Refusal::Running);
        }
        let mut next = self.clone();
        if let Some((step, item)) = self.place_of(task) {
            next.head.version += 1;
            // The error of a step may quote that of its item.
            erase(next.rows.at(step), item.is_none());
            if let (Some(item), Some(items)) = (item, next.items.get_mut(&step)) {
                erase(Arc::make_mut(items).rows.at(item), true);
            }
            if let Some(cause) = next.head.error.as_mut().filter(|cause| cause.step == Some(step)) {
                cause.ending = cause.ending.erased();
            }
        }
        Ok(Step { next, facts: Vec::new(), effects: Vec::new() })
    }

    /// The step, and the item of its list, that has the task now.
    #[must_use]
    pub fn place_of(&self, task: TaskId) -> Option<(u16, Option<u16>)> {
        let is_its = |row: &StepState| row.task == Some(task);
        let step = self.steps().find(|(_, row)| is_its(row)).map(|(step, _)| (step, None));
        step.or_else(|| {
            let rows = self.items.iter().flat_map(|(step, items)| {
                items.rows.iter().map(move |(item, row)| (*step, item, row))
            });
            let mut its = rows.filter(|(.., row)| is_its(row));
            its.next().map(|(step, item, _)| (step, Some(item)))
        })
    }

    /// True if the texts of a completed step were erased: later steps cannot be rendered.
    #[must_use]
    pub fn has_erased_output(&self) -> bool {
        let mut items = self.items.values().flat_map(|items| items.rows.iter());
        let is_lost = |row: &StepState| row.erased && row.stage == Stage::Completed;
        self.steps().any(|(_, row)| is_lost(row)) || items.any(|(_, row)| is_lost(row))
    }
}

fn erase(row: &mut StepState, output: bool) {
    row.erased |= output;
    row.correction = None;
    row.error = row.error.as_ref().map(Ending::erased);
}
