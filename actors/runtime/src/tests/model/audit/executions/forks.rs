//! Forks: an output that was taken over is the original's, and a step that asks the same is taken over.

use callboard_domain::execution::{Execution, Stage};
use callboard_domain::id::TaskId;
use callboard_domain::task::Status;

use super::super::super::oracle::Oracle;
use super::super::{Picture, must};
use crate::read::TaskDetail;

/// Every task of a fork, as a copy or as work of its own.
pub(super) fn judge(oracle: &Oracle, picture: &Picture, fork: &Execution) -> Result<(), String> {
    let id = fork.head.spec.id;
    let of_completed = oracle.executions.get(&id).is_some_and(|known| known.of_completed);
    let Some(from) = fork.head.spec.forked_from.as_deref() else {
        let is_copy = |task: &TaskId| copied(picture, *task).is_some();
        let copy = tasks_of(fork).find(|(_, _, task)| is_copy(task));
        return must(copy.is_none(), || format!("{id} is no fork and has copies: {copy:?}"));
    };
    let Some(original) = picture.executions.get(&from.execution) else {
        return Err(format!("{id} is a fork of {}, which is not there", from.execution));
    };
    let original = &original.overview.execution;
    for (step, item, task) in tasks_of(fork) {
        let anew = from.from_step.as_deref() == Some(fork.graph().name(step));
        let Some(of_fork) = picture.tasks.get(&task) else { continue };
        let place = || format!("{id}: step {step}, item {item:?}");
        if let Some(source) = copied(picture, task) {
            must(!anew, || format!("{} was to run anew and is a copy", place()))?;
            let there = tasks_of(original).any(|it| it == (step, item, source));
            let of_original = picture.tasks.get(&source).filter(|_| there);
            let of_original = of_original
                .ok_or_else(|| format!("{} is a copy of {source}, of nothing", place()))?;
            same(&place(), of_fork, of_original)?;
            let given = oracle.tasks.get(&task).and_then(|known| known.given.as_ref());
            must(given.is_none(), || format!("{} is a copy and was given to a worker", place()))?;
        } else if of_completed && !anew && item.is_none() && is_first(of_fork) {
            let row = original.step(step).filter(|row| row.stage == Stage::Completed);
            let before = row.and_then(|row| row.task).and_then(|task| picture.tasks.get(&task));
            let asked =
                |one: &TaskDetail| is_first(one) && one.inputs.prompt == of_fork.inputs.prompt;
            must(!before.is_some_and(asked), || format!("{} asks the same again", place()))?;
        }
    }
    Ok(())
}

/// The tasks of an execution by step and item.
fn tasks_of(execution: &Execution) -> impl Iterator<Item = (u16, Option<u16>, TaskId)> {
    execution.steps().flat_map(|(step, row)| {
        let own = row.task.map(|task| (step, None, task));
        let items = execution.items(step);
        let items = items.filter_map(move |(item, row)| Some((step, Some(item), row.task?)));
        own.into_iter().chain(items)
    })
}

fn copied(picture: &Picture, task: TaskId) -> Option<TaskId> {
    picture.tasks.get(&task)?.task.spec.origin.copy_of
}

/// It repeats no rejected task.
fn is_first(task: &TaskDetail) -> bool {
    task.task.spec.origin.retry_of.is_none()
}

/// A copy ends as its original did.
fn same(place: &str, copy: &TaskDetail, original: &TaskDetail) -> Result<(), String> {
    let statuses = (copy.task.status(), original.task.status());
    must(statuses == (Status::Completed, Status::Completed), || format!("{place}: {statuses:?}"))?;
    must(copy.output == original.output, || {
        format!("{place} says {:?}, its original {:?}", copy.output, original.output)
    })
}
