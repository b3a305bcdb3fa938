//! Decisions that are taken back, in the random world and in the reference.

use std::collections::{BTreeMap, BTreeSet};

use super::super::{Event, OutputSource, Stage};
use super::World;
use super::naive::{Naive, Own};
use crate::Timestamp;
use crate::id::TaskId;

/// The ends of steps.
#[derive(Debug, Clone, Default)]
pub(super) struct Ends {
    pub(super) now: Timestamp,
    pub(super) at: BTreeMap<u16, Timestamp>,
    /// The task with which each step ended.
    pub(super) by: BTreeMap<u16, TaskId>,
    pub(super) retried_at: Option<Timestamp>,
    /// Tasks that are held again and were paid before.
    pub(super) counted: BTreeSet<TaskId>,
}

impl Naive {
    /// True if nothing has used the end of the step; its task is held again then.
    pub(super) fn reopened(&mut self, step: u16, task: TaskId) -> bool {
        let own = |step: u16| self.own[usize::from(step)];
        let has_decision =
            matches!(own(step), Own::Well(Stage::Completed) | Own::Bad(Stage::Rejected, _));
        let is_its = self.ends.by.get(&step) == Some(&task) && !self.lists.contains_key(&step);
        let was_over = self.ends.retried_at.is_some_and(|at| Some(&at) >= self.ends.at.get(&step));
        let depends = |later: &u16| self.dependencies[usize::from(*later)].contains(&step);
        let mut later = (0..).take(self.own.len()).filter(depends);
        let is_used = later.any(|it| own(it) != Own::Nothing || self.corrected.contains(&it));
        let is_stopping = self.loose.iter().any(|(of, _)| *of == step);
        if !has_decision || !is_its || was_over || is_used || is_stopping {
            return false;
        }
        self.ends.counted.insert(task);
        self.worst.insert(task, 0);
        self.own[usize::from(step)] = Own::Out(task);
        if self.first.is_some_and(|(of, _)| of == step) {
            let bad = (0..).zip(&self.own).filter_map(|(step, own)| match own {
                Own::Bad(_, code) => Some((step, *code)),
                Own::Nothing | Own::Out(_) | Own::Items | Own::Awaits(_) | Own::Well(_) => None,
            });
            self.first = bad.min_by_key(|(step, _)| self.ends.at.get(step));
        }
        true
    }
}

impl World {
    /// Somebody takes the decision on any step back, and its task ends once more. Its messages come in their order, so
    /// none of its first end comes later.
    pub(super) fn reopen(&mut self) {
        let ended = self.tasks.iter().filter(|(_, fake)| fake.end.is_some() && fake.item.is_none());
        let ended: Vec<_> = ended.map(|(task, fake)| (fake.step, *task)).collect();
        let Some((step, task)) = self.chance.pick(ended) else { return };
        if !self.applies(&Event::StepReopened { step, task }) {
            return;
        }
        if let Some(fake) = self.tasks.get_mut(&task) {
            fake.end = None;
        }
        self.inbox.retain(|event| task_of(event) != Some(task));
        self.applied.remove(&(step, OutputSource::Task(task)));
        self.goes_on();
    }
}

fn task_of(event: &Event) -> Option<TaskId> {
    if let Event::StepCompleted { report, .. }
    | Event::StepFailed { report, .. }
    | Event::StepRejected { report, .. }
    | Event::StepCancelled { report, .. }
    | Event::OutputMismatched { report, .. } = event
    {
        return Some(report.task);
    }
    None
}
