//! Executions: steps follow their dependencies, released tasks are remembered, and nothing runs
//! behind an end.

mod forks;
mod items;

use std::collections::BTreeMap;
use std::iter::successors;

use callboard_domain::execution::{Execution, Head, Stage, Status as Phase};
use callboard_domain::id::ExecutionId;
use callboard_domain::machine::Machine;
use callboard_domain::query::Executions;
use callboard_domain::task::{EndingCode, Status};

use super::super::asks;
use super::super::moves::ALL;
use super::super::oracle::{KnownExecution, Oracle, Planned};
use super::super::world::{LIVE, World};
use super::{Picture, must};
use crate::read::runs::ExecutionDetail;

impl World {
    pub(super) async fn all_executions(
        &self,
    ) -> Result<BTreeMap<ExecutionId, ExecutionDetail>, String> {
        let list = |statuses| Executions { statuses, window: ALL, ..Executions::default() };
        let page = self.handle.executions(LIVE, &list(vec![])).await.map_err(|e| e.to_string())?;
        let mut found = BTreeMap::new();
        for item in &page.items {
            let id = item.execution.head.spec.id;
            found.insert(id, self.handle.execution(LIVE, id).await.map_err(|e| e.to_string())?);
        }
        must(page.total == found.len() as u64, || {
            format!("the list says that there are {} executions: {}", page.total, found.len())
        })?;
        for status in Phase::ALL {
            let said = self.handle.executions(LIVE, &list(vec![status])).await;
            let said = said.map_err(|e| e.to_string())?.total;
            let is = |one: &&ExecutionDetail| one.overview.execution.status() == status;
            let counted = found.values().filter(is).count() as u64;
            must(said == counted, || {
                format!("{said} executions are {status:?}, says the list: {counted}")
            })?;
        }
        Ok(found)
    }
}

pub(super) fn judge(oracle: &mut Oracle, picture: &Picture) -> Result<(), String> {
    for id in oracle.executions.keys() {
        must(picture.executions.contains_key(id), || {
            format!("{id} was acknowledged and is not there")
        })?;
    }
    for (id, detail) in &picture.executions {
        let execution = &detail.overview.execution;
        let plan = execution.head.spec.plan;
        must(oracle.maybe_begun.contains(&plan), || format!("nobody asked for {id}"))?;
        let Some(plan) = oracle.plans.iter().find(|one| one.id == plan).cloned() else { continue };
        steps(picture, execution, &plan)?;
        prompts(picture, detail, &plan)?;
        ends(execution)?;
        forks::judge(oracle, picture, execution)?;
        signals(oracle, picture, detail)?;
        let went_back = oracle.went_back;
        fits(oracle.executions.entry(*id).or_default(), execution, went_back)?;
    }
    tasks_of_steps(picture)
}

/// Each step is as far as its dependencies and its task let it.
fn steps(picture: &Picture, execution: &Execution, plan: &Planned) -> Result<(), String> {
    let id = execution.head.spec.id;
    let stage = |step: &u16| execution.step(*step).map(|row| row.stage);
    let well = |step: &u16| matches!(stage(step), Some(Stage::Completed | Stage::Skipped));
    for (step, row) in execution.steps() {
        let begun = matches!(row.stage, Stage::Dispatched | Stage::Completed);
        let may = plan.depends_on[usize::from(step)].iter().all(well);
        must(!begun || may, || format!("{id}: step {step} ran before what it waits for"))?;
        must(!begun || plan.lists.contains(&step) == row.map.is_some(), || {
            format!("{id}: step {step} ran as if it had another definition")
        })?;
        if row.map.is_some() {
            items::judge(picture, execution, step)?;
            continue;
        }
        let task = row.task.and_then(|task| picture.tasks.get(&task)).map(|one| one.task.status());
        let fits = match row.stage {
            Stage::Dispatched => matches!(task, Some(Status::Pending | Status::Running)),
            Stage::Completed if row.signal.is_some() => row.task.is_none(),
            Stage::Completed => task == Some(Status::Completed),
            Stage::Rejected => task == Some(Status::Rejected),
            Stage::Awaiting => row.task.is_none() && row.signal.is_none(),
            Stage::Waiting | Stage::Ready | Stage::Skipped | Stage::Failed | Stage::Cancelled => {
                true
            }
        };
        must(fits, || format!("{id}: step {step} is {:?}, its task {task:?}", row.stage))?;
    }
    Ok(())
}

/// The prompt of a step is its template with its dependencies' outputs.
fn prompts(picture: &Picture, detail: &ExecutionDetail, plan: &Planned) -> Result<(), String> {
    let execution = &detail.overview.execution;
    for (step, row) in execution.steps() {
        if row.map.is_some() {
            items::prompts(picture, detail, plan, step)?;
        }
        let Some(task) = row.task.and_then(|task| picture.tasks.get(&task)) else { continue };
        if let (Stage::Completed, Some(output)) = (row.stage, detail.outputs.get(&step)) {
            let said = &task.output;
            must(said.as_deref() == Some(output), || {
                format!("step {step} of {} says {output:?}, its task {said:?}", plan.id)
            })?;
        }
        if task.task.spec.origin.retry_of.is_some() {
            continue;
        }
        let said = |on: &u16| detail.outputs.get(on).unwrap_or_default();
        let said: Vec<_> = plan.depends_on[usize::from(step)].iter().map(said).collect();
        let (asked, expected) = (&task.inputs.prompt, asks::prompt(step, &said));
        must(*asked == expected, || {
            format!("{}: step {step} asks {asked:?}, not {expected:?}", execution.head.spec.id)
        })?;
    }
    Ok(())
}

/// A signal that was acknowledged is kept, or is the output of the waits that used it. A fork may take over
/// the payload that was sent to its original.
fn signals(oracle: &Oracle, picture: &Picture, detail: &ExecutionDetail) -> Result<(), String> {
    let execution = &detail.overview.execution;
    let of = |id: &ExecutionId| oracle.executions.get(id);
    let original = |id: &ExecutionId| {
        let spec = &picture.executions.get(id)?.overview.execution.head.spec;
        Some(spec.forked_from.as_ref()?.execution)
    };
    let id = execution.head.spec.id;
    for (step, row) in execution.steps() {
        let Some(signal) = row.signal.as_deref().filter(|_| row.stage == Stage::Completed) else {
            continue;
        };
        let said = detail.outputs.get(&step);
        let is_sent = |sent: &String| Some(sent.as_str()) == said;
        let known = successors(Some(id), original)
            .any(|id| of(&id).is_some_and(|known| known.sent.iter().any(is_sent)));
        must(known, || format!("{id}: step {step} goes on with {signal:?}, which says {said:?}"))?;
    }
    let kept = |payload: &String| {
        detail.outputs.texts().values().any(|output| output == payload)
            || execution.steps().any(|(_, row)| row.signal.is_some())
    };
    for payload in of(&id).iter().flat_map(|known| known.signals.values()) {
        must(kept(payload), || format!("{id}: {payload} is lost"))?;
    }
    Ok(())
}

/// Behind an end nothing is open, and `failFast` ends at the first failure.
fn ends(execution: &Execution) -> Result<(), String> {
    let (id, status) = (execution.head.spec.id, execution.status());
    let stages: Vec<_> = execution.steps().map(|(_, row)| row.stage).collect();
    let open = |stage: &Stage| stage.is_open();
    let bad = |stage: &Stage| matches!(stage, Stage::Failed | Stage::Rejected | Stage::Cancelled);
    let (open, bad) = (stages.iter().any(open), stages.iter().any(bad));
    let fits = match status {
        Phase::Pending => stages.iter().all(|stage| *stage == Stage::Waiting),
        Phase::Running => open && !(bad && execution.head.spec.fail_fast),
        Phase::Completed => !open && !bad,
        Phase::Failed | Phase::Cancelled => !open,
    };
    must(fits, || format!("{id} is {status:?} with steps {stages:?}"))?;
    let has_ended = execution.head.state.ended_at().is_some();
    let forgotten = has_ended && !execution.is_finished();
    let stopping = execution.stopping().count();
    must(forgotten == (stopping > 0 && has_ended), || {
        format!("{id} is {status:?} and stops {stopping}")
    })?;
    let error = execution.head.error.as_ref();
    let broken = error.is_some_and(|why| why.ending.code == EndingCode::InternalError);
    must(!broken, || format!("{id} was given up: {error:?}"))
}

fn fits(known: &mut KnownExecution, execution: &Execution, went_back: bool) -> Result<(), String> {
    let (id, version) = (execution.head.spec.id, execution.head.version);
    must(known.version <= version, || format!("{id} went back: {} to {version}", known.version))?;
    known.version = version;
    let status = execution.status();
    must(!known.cancelled || status == Phase::Cancelled, || {
        format!("{id} is {status:?}, and its cancel was acknowledged")
    })?;
    must(!known.cancelled || execution.stopping().next().is_none(), || {
        format!("{id} still stops tasks, and its cancel was acknowledged")
    })?;
    let completed = (status == Phase::Completed).then(|| Box::new(execution.clone()));
    if let (Some(before), Some(now)) = (&known.completed, &completed) {
        // The cost of a released task may still come.
        must(before.status() == now.status() && before.head.run == now.head.run, || {
            format!("{id} was completed and has changed")
        })?;
    }
    let Head { spec, started_at, run, .. } = &execution.head;
    let is_late = spec.start_at.is_none_or(|at| at <= *started_at);
    must(went_back || is_late || *run > 1 || !execution.head.has_begun(), || {
        format!("{id} began at {started_at:?}, before {:?}", spec.start_at)
    })?;
    must(known.completed.is_none() || completed.is_some(), || {
        format!("{id} was completed and is {status:?}")
    })?;
    known.completed = completed;
    Ok(())
}

/// A task of a step that has not ended is its step's, or is being stopped.
fn tasks_of_steps(picture: &Picture) -> Result<(), String> {
    for (id, detail) in &picture.tasks {
        let Some((execution, step)) = &detail.task.spec.origin.step else { continue };
        if detail.task.is_finished() {
            continue;
        }
        let Some(of) = picture.executions.get(execution) else { continue };
        let execution = &of.overview.execution;
        let out = execution.out().any(|(_, task)| task == *id);
        let stopping = execution.stopping().any(|(_, task)| task == *id);
        must(out || stopping, || {
            format!("{id} runs for step {step}, and {} has forgotten it", execution.head.spec.id)
        })?;
    }
    Ok(())
}
