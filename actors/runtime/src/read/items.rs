//! Reads of the items of a `forEach` step.

use std::collections::HashMap;

use callboard_domain::excerpts::Excerpts;
use callboard_domain::execution::program::OutputLocation;
use callboard_domain::execution::{
    DispatchState, Execution, ItemOutputs, ItemStatus, Stage, StepState,
};
use callboard_domain::id::{Environment, ExecutionId, TaskId};
use callboard_domain::query::{Items, Window};
use callboard_domain::render::Output;
use callboard_domain::task::Task;
use callboard_store::{Error, Store};

use super::runs::{MAX_OUTPUTS, whole};
use super::{TOGETHER, together};
use crate::node::Node;
use crate::tables::executions::{self, how_far};
use crate::tables::{self, items};

/// An item of a step.
#[derive(Debug, Clone)]
pub struct ItemDetail {
    /// The item's number in the list, from 0.
    pub number: u16,
    /// The state.
    pub status: ItemStatus,
    /// The item's row.
    pub row: StepState,
    /// The item's task, while it has not ended.
    pub task: Option<Task>,
}

/// Items of a step, and their outputs.
#[derive(Debug, Clone)]
pub struct ItemPage {
    /// The items of the page.
    pub items: Vec<ItemDetail>,
    /// The outputs of completed items, by number, within [`MAX_OUTPUTS`].
    pub outputs: Excerpts<u16>,
    /// The number of matching items.
    pub total: u64,
}

/// The output of a completed step, from the task or the tasks that made it; `None` if the task is gone.
/// `known` has the outputs of items that are not durable yet.
pub(crate) async fn output<'k>(
    store: &dyn Store,
    environment: Environment,
    made: &OutputLocation,
    known: impl Fn(TaskId) -> Option<Output<'k>>,
) -> Result<Option<String>, Error> {
    match made {
        OutputLocation::One(source) => tables::output(store, environment, *source).await,
        OutputLocation::Items(tasks) => {
            let mut outputs = ItemOutputs::default();
            for task in tasks {
                let fresh = task.and_then(&known);
                let stored = match task {
                    Some(task) if fresh.is_none() => of_task(store, environment, *task).await?,
                    Some(_) | None => None,
                };
                let stored = stored.as_ref().map(|(is_value, output)| {
                    if *is_value { Output::Json(output) } else { Output::Completed(output) }
                });
                let is_whole = match fresh.or(stored) {
                    Some(Output::Completed(text)) => outputs.push(Some(text)),
                    Some(Output::Json(json)) => outputs.push_json(json),
                    Some(Output::Unknown | Output::Skipped) | None => outputs.push(None),
                };
                if !is_whole {
                    break;
                }
            }
            Ok(Some(outputs.done()))
        }
    }
}

/// The output of a task, with true if it is the JSON of a function's value.
async fn of_task(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<(bool, String)>, Error> {
    let Some(mut found) = tables::task(store, environment, task).await? else { return Ok(None) };
    let output = found.output(store, environment).await?;
    let is_value = output.is_some() && found.task.spec.work().function().is_some();
    Ok(Some((is_value, output.unwrap_or_default())))
}

/// The tasks of dispatched items that have not ended.
pub(crate) async fn live(
    store: &dyn Store,
    environment: Environment,
    execution: &Execution,
    step: u16,
) -> Result<HashMap<TaskId, DispatchState>, Error> {
    let dispatched = execution.items(step).filter(|(_, row)| row.stage == Stage::Dispatched);
    states(store, environment, dispatched.filter_map(|(_, row)| row.task)).await
}

/// The dispatch states of those tasks that have not ended.
pub(super) async fn states(
    store: &dyn Store,
    environment: Environment,
    tasks: impl Iterator<Item = TaskId>,
) -> Result<HashMap<TaskId, DispatchState>, Error> {
    let read = async |task| {
        let state = tables::unfinished_state(store, environment, task).await?;
        Ok(state.map(|state| (task, how_far(&state))))
    };
    Ok(together(TOGETHER, tasks.map(read)).await?.into_iter().collect())
}

/// The execution with its items. The rows of the items are of a later instant than those of the steps: the
/// items of a step that has begun meanwhile are not read.
pub(crate) async fn with_items(
    store: &dyn Store,
    environment: Environment,
    execution: Execution,
) -> Result<Execution, Error> {
    if !execution.has_items() {
        return Ok(execution);
    }
    let id = execution.head.spec.id;
    let mut rows = items::all(store, environment, id).await?;
    rows.retain(|(step, ..)| execution.items(*step).next().is_some());
    items::whole(execution, rows)
}

/// A page of the items of a step, in the order of the list; `None` if there is no such execution or
/// step, or the step has no list.
pub(crate) async fn page(
    node: &Node,
    environment: Environment,
    id: ExecutionId,
    step: &str,
    query: &Items,
) -> Result<Option<ItemPage>, Error> {
    let store = node.store();
    let Some(head) = executions::head(store, environment, id).await? else { return Ok(None) };
    let Some((execution, _, compiled)) = whole(node, environment, id, head).await? else {
        return Ok(None);
    };
    let position =
        compiled.plan.position(step).filter(|at| compiled.plan.steps()[*at].for_each().is_some());
    let Some(number) = position.and_then(|at| u16::try_from(at).ok()) else { return Ok(None) };
    let execution = with_items(store, environment, execution).await?;
    let live = live(store, environment, &execution, number).await?;
    let has_ended = execution.step(number).is_some_and(|row| row.stage != Stage::Dispatched);
    let status = |row: &StepState| {
        ItemStatus::of(row, has_ended, row.task.and_then(|task| live.get(&task).copied()))
    };
    let found = execution.items(number).map(|(item, row)| (item, status(row), row));
    let wanted = |status: &ItemStatus| query.statuses.is_empty() || query.statuses.contains(status);
    let found: Vec<_> = found.filter(|(_, status, _)| wanted(status)).collect();
    let total = found.len() as u64;
    let (mut shown, mut outputs) = (Vec::new(), Excerpts::within(MAX_OUTPUTS));
    let Window { offset, limit } = query.window;
    for (item, status, row) in found.into_iter().skip(offset).take(limit) {
        let mut task = None;
        if let (Stage::Dispatched, Some(id)) = (row.stage, row.task) {
            task = tables::task(store, environment, id).await?.map(|found| found.task);
        }
        if let (Stage::Completed, Some(id), false) = (row.stage, row.task, row.erased)
            && let Some((_, output)) = of_task(store, environment, id).await?
        {
            outputs.insert(item, output);
        }
        shown.push(ItemDetail { number: item, status, row: row.clone(), task });
    }
    Ok(Some(ItemPage { items: shown, outputs, total }))
}
