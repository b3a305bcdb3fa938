//! Items of steps with a list: each is as far as its task, and the step as far as its items.

use callboard_domain::execution::{Execution, ItemStatus, Stage};
use callboard_domain::task::Status;
use serde_json::{Value, json};

use super::super::super::asks;
use super::super::super::oracle::Planned;
use super::super::{Picture, must};
use crate::read::runs::ExecutionDetail;

/// Each item is as far as its task lets it, the step as far as its items, and the row counts them.
pub(super) fn judge(picture: &Picture, execution: &Execution, step: u16) -> Result<(), String> {
    let id = execution.head.spec.id;
    let row = execution.step(step).ok_or("no such step")?;
    let map = row.map.as_deref().ok_or("no list")?;
    let (mut completed, mut bad, mut out) = (0, 0, 0);
    for (item, of_item) in execution.items(step) {
        let task = of_item.task.and_then(|task| picture.tasks.get(&task));
        let origin = task.map(|one| one.task.spec.origin.item);
        must(origin.is_none_or(|origin| origin == Some(item)), || {
            format!("{id}: the task of item {item} of step {step} says {origin:?}")
        })?;
        let status = task.map(|one| one.task.status());
        let fits = match of_item.stage {
            Stage::Dispatched => matches!(status, Some(Status::Pending | Status::Running)),
            Stage::Completed => status == Some(Status::Completed),
            Stage::Rejected => status == Some(Status::Rejected),
            Stage::Waiting | Stage::Failed | Stage::Cancelled => true,
            Stage::Ready | Stage::Skipped | Stage::Awaiting => false,
        };
        must(fits, || {
            format!("{id}: item {item} of step {step} is {:?}, its task {status:?}", of_item.stage)
        })?;
        completed += u16::from(of_item.stage == Stage::Completed);
        out += u16::from(of_item.stage == Stage::Dispatched);
        let is_bad = matches!(of_item.stage, Stage::Failed | Stage::Rejected | Stage::Cancelled);
        bad += u16::from(is_bad);
    }
    let counted = (map.completed, map.failed + map.rejected + map.cancelled, map.dispatched);
    must(counted == (completed, bad, out), || {
        format!("{id}: step {step} counts {counted:?}, and there are {completed}, {bad}, {out}")
    })?;
    must(map.concurrency.is_none_or(|most| out <= most), || {
        format!("{id}: {out} items of step {step} are out at once")
    })?;
    let enough = map.items - bad >= map.min_success;
    let fits = match row.stage {
        Stage::Dispatched => enough && completed + bad < map.items,
        Stage::Completed => enough && completed + bad == map.items,
        Stage::Failed | Stage::Rejected | Stage::Cancelled => out == 0,
        Stage::Waiting | Stage::Ready | Stage::Skipped | Stage::Awaiting => false,
    };
    must(fits, || {
        format!("{id}: step {step} is {:?} with {completed}, {bad}, {out} of {map:?}", row.stage)
    })
}

/// Each item asks for its own value of the list, and the step's output holds theirs, in order.
pub(super) fn prompts(
    picture: &Picture,
    detail: &ExecutionDetail,
    plan: &Planned,
    step: u16,
) -> Result<(), String> {
    let execution = &detail.overview.execution;
    let id = execution.head.spec.id;
    let length = detail.input.get("items").and_then(Value::as_array).map(Vec::len);
    let items: Vec<_> = execution.items(step).collect();
    must(length == Some(items.len()), || format!("{id}: step {step} has {} items", items.len()))?;
    let mut outputs = Vec::new();
    for (item, row) in items {
        let task = row.task.and_then(|task| picture.tasks.get(&task));
        let status = ItemStatus::of(row, true, None);
        let said = task.filter(|_| status == ItemStatus::Completed);
        outputs.push(said.map_or(Value::Null, |task| json!(task.output)));
        let Some(task) = task.filter(|task| task.task.spec.origin.retry_of.is_none()) else {
            continue;
        };
        let said = |on: &u16| detail.outputs.get(on).unwrap_or_default();
        let said: Vec<_> = plan.depends_on[usize::from(step)].iter().map(said).collect();
        let expected = asks::prompt(step, &said) + &asks::of_item(item);
        must(task.inputs.prompt == expected, || {
            format!(
                "{id}: item {item} of step {step} asks {:?}, not {expected:?}",
                task.inputs.prompt
            )
        })?;
    }
    let expected = Value::Array(outputs).to_string();
    let said = detail.outputs.get(&step);
    must(said.is_none_or(|said| said == expected), || {
        format!("{id}: step {step} says {said:?}, its items {expected}")
    })
}
