//! Tasks: every acknowledged task is stored, every stored task was requested, and an end is final.

use std::collections::{BTreeMap, BTreeSet};

use callboard_domain::approval::Outcome;
use callboard_domain::id::TaskId;
use callboard_domain::machine::Machine;
use callboard_domain::query::Tasks;
use callboard_domain::retry::MAX_LOSSES;
use callboard_domain::task::{EndingCode, State, Status};

use super::super::clients::REASON;
use super::super::moves::ALL;
use super::super::oracle::{Known, Oracle};
use super::super::world::{LIVE, World};
use super::{Picture, must};
use crate::read::TaskDetail;

impl World {
    pub(super) async fn all_tasks(&self) -> Result<BTreeMap<TaskId, TaskDetail>, String> {
        let list = |statuses| Tasks { statuses, window: ALL, ..Tasks::default() };
        let page = self.handle.tasks(LIVE, &list(vec![])).await.map_err(|e| e.to_string())?;
        let mut found = BTreeMap::new();
        for task in &page.items {
            let detail = self.handle.task(LIVE, task.spec.id).await.map_err(|e| e.to_string())?;
            must(detail.task == *task, || format!("{}: the list says otherwise", task.spec.id))?;
            found.insert(task.spec.id, detail);
        }
        must(page.total == found.len() as u64, || {
            format!("the list says that there are {} tasks and shows {}", page.total, found.len())
        })?;
        for status in Status::ALL {
            let said = self.handle.tasks(LIVE, &list(vec![status])).await;
            let said = said.map_err(|e| e.to_string())?.total;
            let counted = found.values().filter(|one| one.task.status() == status).count() as u64;
            must(said == counted, || {
                format!("{said} tasks are {status:?}, says the list: {counted}")
            })?;
        }
        Ok(found)
    }
}

pub(super) fn judge(oracle: &mut Oracle, picture: &Picture) -> Result<(), String> {
    for id in oracle.tasks.keys() {
        must(picture.tasks.contains_key(id), || format!("{id} was acknowledged and is not there"))?;
    }
    let mut keyed = BTreeSet::new();
    for (id, detail) in &picture.tasks {
        explained(oracle, picture, *id, detail)?;
        let origin = &detail.task.spec.origin;
        let prompt = &detail.inputs.prompt;
        let is_keyed = prompt.starts_with("key ") && origin.retry_of.is_none();
        must(!is_keyed || keyed.insert(prompt.split(" body").next().map(str::to_owned)), || {
            format!("{id}: one key made two tasks: {prompt}")
        })?;
        let known = oracle.tasks.entry(*id).or_default();
        fits(known, *id, detail)?;
        moved_on(known, *id, detail)?;
    }
    Ok(())
}

/// Somebody asked for it.
fn explained(
    oracle: &Oracle,
    picture: &Picture,
    id: TaskId,
    detail: &TaskDetail,
) -> Result<(), String> {
    let (origin, prompt) = (&detail.task.spec.origin, &detail.inputs.prompt);
    if let Some(before) = origin.retry_of {
        let rejected = picture.approvals.get(&before).and_then(|a| a.approval.decision.as_ref());
        let verdict = rejected.map(|decision| decision.outcome);
        must(verdict == Some(Outcome::Rejected { retry: Some(id) }), || {
            format!("{id} tries {before} again, which was not rejected for it: {verdict:?}")
        })?;
        let asked = picture.tasks.get(&before).map(|before| before.inputs.prompt.clone());
        let expected = asked.map(|asked| format!("{asked}\n\nFeedback:\n{REASON}"));
        return must(expected.as_ref() == Some(prompt), || {
            format!("{id} tries {before} again and asks {prompt:?}, not {expected:?}")
        });
    }
    if let Some((execution, _)) = &origin.step {
        return must(picture.executions.contains_key(execution), || {
            format!("{id} is of {execution}, which is not there")
        });
    }
    must(oracle.maybe.contains(prompt), || format!("nobody asked for {id}: {prompt:?}"))
}

/// It is as it was acknowledged.
fn fits(known: &Known, id: TaskId, detail: &TaskDetail) -> Result<(), String> {
    let (task, status) = (&detail.task, detail.task.status());
    for prompt in [&known.prompt, &known.given].into_iter().flatten() {
        let stored = &detail.inputs.prompt;
        must(prompt == stored, || format!("{id} was told as {prompt:?} and is {stored:?}"))?;
    }
    must(!known.cancelled || status == Status::Cancelled, || {
        format!("{id} is {status:?}, and its cancel was acknowledged")
    })?;
    must(!known.failed || status == Status::Failed, || {
        format!("{id} is {status:?}, and a failure for good was acknowledged")
    })?;
    must(task.retries >= known.failures.min(task.spec.retry.max_attempts - 1), || {
        format!("{id} failed {} times, which was acknowledged: {}", known.failures, task.retries)
    })?;
    if let Some((lease, outputs)) = &known.output {
        let held = matches!(task.state, State::AwaitingApproval { .. });
        let decided = known.decided.is_some() || known.decided_by.is_some() || known.cancelled;
        let reviewed = task.spec.gate.is_some() && (held || decided || task.is_finished());
        must(status == Status::Completed || reviewed, || {
            format!("{id} is {status:?}, and its output was acknowledged")
        })?;
        must(known.leases.last() == Some(lease), || {
            format!("{id} was given out after its output")
        })?;
        must(
            task.edited
                || status != Status::Completed
                || outputs.iter().any(|one| detail.output.as_ref() == Some(one)),
            || format!("{id} says {:?}, and {outputs:?} was acknowledged", detail.output),
        )?;
    }
    must(task.attempt <= task.spec.retry.max_attempts && task.losses <= MAX_LOSSES, || {
        format!("{id} was tried {} times and lost {} times", task.attempt, task.losses)
    })?;
    let broken = task.error.as_ref().is_some_and(|why| why.code == EndingCode::InternalError);
    must(!broken, || format!("{id} was given up: {:?}", task.error))
}

/// Nothing goes back, and an ended task stays.
fn moved_on(known: &mut Known, id: TaskId, detail: &TaskDetail) -> Result<(), String> {
    let version = detail.task.version;
    must(known.version <= version, || format!("{id} went back: {} to {version}", known.version))?;
    known.version = version;
    let ended = detail.task.is_finished().then(|| (detail.task.clone(), detail.output.clone()));
    must(known.ended.is_none() || known.ended == ended, || {
        format!("{id} had ended as {:?} and is {ended:?}", known.ended)
    })?;
    known.ended = ended;
    Ok(())
}
