//! Approvals: one for each held output, decided once, with a whole history.

use std::collections::BTreeMap;

use callboard_domain::approval::{Action, Approval, Entry, Outcome, State as Held};
use callboard_domain::id::TaskId;
use callboard_domain::machine::Machine;
use callboard_domain::query::Approvals;
use callboard_domain::task::{State, Status};

use super::super::moves::ALL;
use super::super::oracle::{Decided, Oracle};
use super::super::world::{LIVE, World};
use super::{Picture, must};
use crate::read::approvals::ApprovalDetail;

impl World {
    pub(super) async fn all_approvals(&self) -> Result<BTreeMap<TaskId, ApprovalDetail>, String> {
        let list = |statuses| Approvals { statuses, window: ALL, ..Approvals::default() };
        let page = self.handle.approvals(LIVE, &list(vec![])).await.map_err(|e| e.to_string())?;
        let total = page.total;
        let mut found = BTreeMap::new();
        for detail in page.items {
            let id = detail.approval.id();
            let told = self.handle.approval_history(LIVE, id).await.map_err(|e| e.to_string())?;
            let entries: Vec<_> = told.into_iter().map(|told| told.entry).collect();
            history(&detail.approval, &entries)?;
            found.insert(id, detail);
        }
        must(total == found.len() as u64, || {
            format!("the list says that there are {total} approvals and shows {}", found.len())
        })?;
        for state in Held::ALL {
            let said = self.handle.approvals(LIVE, &list(vec![state])).await;
            let said = said.map_err(|e| e.to_string())?.total;
            let counted = found.values().filter(|one| one.approval.state == state).count() as u64;
            must(said == counted, || {
                format!("{said} approvals are {state:?}, says the list: {counted}")
            })?;
        }
        Ok(found)
    }
}

/// The chain is whole, and records one end at most.
fn history(approval: &Approval, entries: &[Entry]) -> Result<(), String> {
    let id = approval.id();
    let whole = approval.chain.verify(id, entries);
    must(whole.is_ok(), || format!("the history of {id}: {whole:?}"))?;
    let count = |action: Action| entries.iter().filter(|entry| entry.action == action).count();
    let ends = count(Action::Approved) + count(Action::Rejected) + count(Action::Cancelled);
    must(ends == usize::from(approval.is_finished()), || format!("{id} ended {ends} times"))?;
    let once = [Action::Pending, Action::Assigned, Action::Expired, Action::Retried];
    must(once.iter().all(|action| count(*action) <= 1), || {
        format!("{id}: something is told twice: {entries:?}")
    })?;
    let retried = matches!(
        approval.decision.as_ref().map(|decision| decision.outcome),
        Some(Outcome::Rejected { retry: Some(_) })
    );
    must(count(Action::Retried) == usize::from(retried), || format!("{id}: retried: {retried}"))
}

pub(super) fn judge(oracle: &Oracle, picture: &Picture) -> Result<(), String> {
    for (id, detail) in &picture.tasks {
        let waits = matches!(detail.task.state, State::AwaitingApproval { .. });
        let open = picture.approvals.get(id).is_some_and(|one| !one.approval.is_finished());
        must(waits == open, || format!("{id} waits: {waits}, its approval is open: {open}"))?;
    }
    for (id, detail) in &picture.approvals {
        let Some(task) = picture.tasks.get(id) else {
            return Err(format!("an approval of {id}, which is not there"));
        };
        let approval = &detail.approval;
        let status = task.task.status();
        match approval.decision.as_ref().map(|decision| decision.outcome) {
            Some(Outcome::Approved { edited }) => {
                let shown = if edited { detail.edit.as_ref() } else { Some(&detail.output) };
                let fits = status == Status::Completed && task.output.as_ref() == shown;
                must(fits && edited == task.task.edited, || {
                    format!("{id} is {status:?} with {:?}, approved: {shown:?}", task.output)
                })?;
            }
            Some(Outcome::Rejected { retry }) => {
                must(status == Status::Rejected, || format!("{id} is {status:?}, rejected"))?;
                must(retry.is_none_or(|again| picture.tasks.contains_key(&again)), || {
                    format!("{id} is tried again as {retry:?}, which is not there")
                })?;
            }
            None => {}
        }
        let Some(known) = oracle.tasks.get(id) else { continue };
        if let Some((_, outputs)) = &known.output {
            let held = &detail.output;
            must(outputs.contains(held), || {
                format!("{id}: {held:?} is held, {outputs:?} acknowledged")
            })?;
        }
        let by = approval.decision.as_ref().map(|decision| decision.by.name().to_owned());
        must(known.decided_by.is_none() || known.decided_by == by, || {
            format!("{id} was decided by {:?}, now by {by:?}", known.decided_by)
        })?;
        if let Some(decided) = &known.decided {
            let stored = made(detail);
            must(stored.as_ref() == Some(decided), || {
                format!("{id}: {decided:?} was acknowledged, there is {stored:?}")
            })?;
        }
    }
    let lost = oracle.tasks.iter().find(|(id, known)| {
        (known.decided.is_some() || known.decided_by.is_some())
            && !picture.approvals.contains_key(id)
    });
    must(lost.is_none(), || format!("a decision is lost: {lost:?}"))
}

/// The decision as its maker heard of it.
fn made(detail: &ApprovalDetail) -> Option<Decided> {
    let decision = detail.approval.decision.as_ref()?;
    let edit = match decision.outcome {
        Outcome::Approved { .. } => Ok(detail.edit.clone()),
        Outcome::Rejected { retry } => Err(retry),
    };
    Some(Decided { by: decision.by.name().to_owned(), edit })
}
