//! Erasure of texts after the execution has ended: of a step's task, or of the whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Execution, Refusal, Stage, StepState};
use crate::Timestamp;
use crate::id::{SignalId, TaskId};
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

    /// The execution without its title, its key and the words that it and its steps quote; nothing can be
    /// retried any more. A second erasure keeps the time of the first.
    ///
    /// # Errors
    /// [`Refusal::Running`] before the end, [`Refusal::StillStopping`] while a task of the execution has not ended.
    pub fn erased(&self, now: Timestamp) -> Result<Step<Self>, Refusal> {
        if self.head.state.ended_at().is_none() {
            return Err(Refusal::Running);
        }
        if !self.is_finished() {
            return Err(Refusal::StillStopping);
        }
        let mut next = self.clone();
        next.head.version += 1;
        next.head.erased_at = self.head.erased_at.or(Some(now));
        next.head.spec = Arc::new(self.head.spec.without_texts());
        if let Some(cause) = &mut next.head.error {
            cause.ending = cause.ending.erased();
        }
        let has_texts = |(_, row): &(u16, &StepState)| {
            row.task.is_some() || row.signal.is_some() || row.error.is_some()
        };
        for (step, _) in self.rows.iter().filter(has_texts) {
            erase(next.rows.at(step), true);
        }
        for items in next.items.values_mut().map(Arc::make_mut) {
            let touched: Vec<_> =
                items.rows.iter().filter(has_texts).map(|(item, _)| item).collect();
            for item in touched {
                erase(items.rows.at(item), true);
            }
        }
        Ok(Step { next, facts: Vec::new(), effects: Vec::new() })
    }

    /// The tasks and the signals that the steps and their items name now.
    #[must_use]
    pub fn named(&self) -> (BTreeSet<TaskId>, BTreeSet<SignalId>) {
        let items = self.items.values().flat_map(|items| items.rows.iter());
        let rows: Vec<_> = self.steps().chain(items).map(|(_, row)| row).collect();
        let tasks = rows.iter().filter_map(|row| row.task).collect();
        let signals = rows.iter().filter_map(|row| row.signal.as_ref().map(|signal| signal.id));
        (tasks, signals.collect())
    }

    /// True if a step or an item had a task before the one that it names now.
    #[must_use]
    pub fn has_earlier_tasks(&self) -> bool {
        let mut items = self.items.values().flat_map(|items| items.rows.iter());
        let had = |(_, row): (u16, &StepState)| row.runs > 1;
        self.head.run > 1 || self.steps().any(had) || items.any(had)
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

    /// True if the texts of the whole or of a completed step were erased: later steps cannot be rendered.
    #[must_use]
    pub fn has_erased_output(&self) -> bool {
        let mut items = self.items.values().flat_map(|items| items.rows.iter());
        let is_lost = |row: &StepState| row.erased && row.stage == Stage::Completed;
        self.head.erased_at.is_some()
            || self.steps().any(|(_, row)| is_lost(row))
            || items.any(|(_, row)| is_lost(row))
    }
}

fn erase(row: &mut StepState, output: bool) {
    row.erased |= output;
    row.correction = None;
    row.error = row.error.as_ref().map(Ending::erased);
}
