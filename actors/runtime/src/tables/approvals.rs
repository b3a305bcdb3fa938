//! The rows of an approval: its changing part, its history, and the reviewers' texts.
//!
//! An approval stands beside its task, under the same identifier. The approval's row holds nothing that the task's
//! rows hold.

use std::sync::Arc;

use callboard_domain::approval::{
    Action, Approval, Chain, Claim, Corrected, Decision, Effect, Entry, InvalidSalt, Outcome,
    ReviewRequest, Salt, State,
};
use callboard_domain::event::EventName;
use callboard_domain::id::{Environment, TaskId, UserId};
use callboard_domain::machine::{Machine, Step};
use callboard_domain::unit::ReviewTexts;
use callboard_domain::{Timestamp, task};
use callboard_store::{Entry as Listed, Error, Op, Store};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::log::{self, Kind};
use super::{
    ENDED_APPROVALS, HISTORY, LIVE_APPROVALS, TEXTS, approval_list, approval_term as term,
    tag_terms, tasks, term_of, text, word_terms,
};

/// The stored part of an approval that is not its task's.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ApprovalRow {
    #[serde(rename = "o")]
    opening: ReviewRequest,
    #[serde(rename = "s")]
    state: State,
    #[serde(rename = "v")]
    version: u64,
    #[serde(rename = "a")]
    assignee: Option<UserId>,
    #[serde(rename = "c")]
    claim: Option<Claim>,
    #[serde(rename = "e")]
    escalated_at: Option<Timestamp>,
    #[serde(rename = "d")]
    decision: Option<Decision>,
    #[serde(rename = "x", default, skip_serializing_if = "is_none")]
    extensions: u8,
    #[serde(rename = "r", default, skip_serializing_if = "is_none")]
    reopened: u8,
    #[serde(rename = "b")]
    corrects: Option<Box<Corrected>>,
    #[serde(rename = "h")]
    chain: Chain,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_none(times: &u8) -> bool {
    *times == 0
}

impl From<&Approval> for ApprovalRow {
    fn from(approval: &Approval) -> Self {
        Self {
            opening: approval.opening.clone(),
            state: approval.state,
            version: approval.version,
            assignee: approval.assignee,
            claim: approval.claim.clone(),
            escalated_at: approval.escalated_at,
            decision: approval.decision.clone(),
            extensions: approval.extensions,
            reopened: approval.reopened,
            corrects: approval.corrects.clone(),
            chain: approval.chain,
        }
    }
}

impl ApprovalRow {
    /// The time of the hold.
    pub(crate) const fn held_at(&self) -> Timestamp {
        self.opening.since
    }

    /// True if nothing waits for the decision.
    pub(crate) fn is_unawaited(&self) -> bool {
        self.opening.is_requested() || self.corrects.is_some()
    }

    /// The decision that counts.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let before = || self.corrects.as_ref().map(|before| &before.decision);
        self.decision.as_ref().or_else(before).map(|decision| decision.outcome)
    }

    /// The decision that stands beside the one which others have gone by.
    pub(crate) fn correction(&self) -> Option<&Decision> {
        self.decision.as_ref().filter(|_| self.corrects.is_some())
    }

    /// The number of times that the output was opened again before the decision.
    pub(crate) const fn round(&self) -> u8 {
        self.reopened
    }

    /// The effects still owed to the approval.
    pub(crate) fn outstanding(&self) -> Vec<Effect> {
        self.state.outstanding(&self.opening, self.assignee)
    }

    /// The approval of this task, without its salt: a caller can show it, and not decide it.
    pub(crate) fn of(self, task: Arc<task::Spec>) -> Approval {
        Approval {
            task,
            opening: self.opening,
            state: self.state,
            version: self.version,
            assignee: self.assignee,
            claim: self.claim,
            escalated_at: self.escalated_at,
            decision: self.decision,
            extensions: self.extensions,
            reopened: self.reopened,
            corrects: self.corrects,
            chain: self.chain,
            salt: None,
        }
    }
}

/// The rows of a step of an approval: its state, its history, its events, and the reviewer's texts.
pub(super) fn rows(
    environment: Environment,
    now: Timestamp,
    Step { next, facts, .. }: &Step<Approval>,
    ReviewTexts { edit, comment, extension }: ReviewTexts,
) -> Vec<Op> {
    let (number, id) = (environment.number(), next.id().as_u128());
    let (row, entry) = (ApprovalRow::from(next), Some(listed(environment, next)));
    let mut ops = Vec::with_capacity(6);
    if let (1, Some(salt)) = (next.version, next.salt) {
        ops.extend(TEXTS.put(number, id, text::SALT, &salt.to_string()));
    }
    if let Some(first) = facts.first() {
        // The machine lets no history grow so long.
        let place = u16::try_from(first.number).unwrap_or(u16::MAX);
        ops.push(HISTORY.put(number, &(id, place), facts, None));
    }
    let round = next.reopened;
    for (field, written) in [(text::edit(round), edit), (text::comment(round), comment)] {
        ops.extend(written.into_iter().flat_map(|text| TEXTS.put(number, id, field, &text)));
    }
    if let Some((time, reason)) = extension {
        ops.extend(TEXTS.put(number, id, text::EXTENSION + time, &reason));
    }
    let name = |fact: &Entry| {
        let decides = matches!(fact.action, Action::Approved | Action::Rejected);
        let corrected = (decides && next.corrects.is_some()).then_some(EventName::HitlCorrected);
        corrected.or_else(|| fact.action.event())
    };
    let names: Vec<_> = facts.iter().filter_map(name).map(EventName::as_str).collect();
    if !names.is_empty() {
        ops.push(log::append(environment, ("", now), Kind::Approval, (next.id(), &row, names)));
    }
    if next.is_finished() {
        ops.push(LIVE_APPROVALS.delete(number, &id));
        ops.push(ENDED_APPROVALS.put(number, &id, &row, entry));
    } else {
        if facts.iter().any(|fact| fact.action == Action::Reopened) {
            ops.push(ENDED_APPROVALS.delete(number, &id));
        }
        ops.push(LIVE_APPROVALS.put(number, &id, &row, entry));
    }
    ops
}

/// The row of a decided approval, listed under the words that its task has now; none if its output was never held.
pub(super) async fn relisted(
    store: &dyn Store,
    environment: Environment,
    task: &Arc<task::Spec>,
) -> Result<Option<Op>, Error> {
    let (number, id) = (environment.number(), task.id.as_u128());
    let row = ENDED_APPROVALS.get(store, number, &id).await?;
    Ok(row.map(|row| {
        let entry = listed(environment, &row.clone().of(Arc::clone(task)));
        ENDED_APPROVALS.put(number, &id, &row, Some(entry))
    }))
}

fn listed(environment: Environment, approval: &Approval) -> Listed {
    let task = &approval.task;
    let mut terms = Vec::with_capacity(3 + task.tags.len());
    terms.push((term::STATUS, approval.state.as_str().as_bytes().into()));
    terms.push((term::QUEUE, term_of(&task.queue)));
    terms.extend(tag_terms(term::TAG, &task.tags));
    terms.extend(word_terms(task.words()));
    let decided = approval.decision.as_ref().map(|decision| decision.by.name().to_owned());
    let reviewer = decided.or_else(|| approval.assignee.map(|user| user.to_string()));
    terms.extend(reviewer.map(|reviewer| (term::REVIEWER, term_of(&reviewer))));
    terms.extend(super::batch_terms(term::BATCH, task.origin.rows));
    if approval.is_unawaited() {
        terms.push((term::REQUESTED, term::REQUESTED_TERM.into()));
        let step = task.origin.step.iter().map(|(_, step)| (term::REQUESTED, requested_term(step)));
        terms.extend(step);
    }
    let since = Some(approval.opening.since.as_millis());
    let decided_at = approval.decision.as_ref().map(|decision| decision.at.as_millis());
    Listed { list: approval_list(environment), terms, sort: [since, decided_at] }
}

/// The term of requested reviews of outputs of a step.
pub(crate) fn requested_term(step: &str) -> Box<[u8]> {
    term_of(&format!("step {step}"))
}

/// The part of an approval that is not its task's, from either table.
pub(crate) async fn row(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<ApprovalRow>, Error> {
    let (number, id) = (environment.number(), task.as_u128());
    // The third look is for one that was made, not moved, between the first two.
    for table in [LIVE_APPROVALS, ENDED_APPROVALS, LIVE_APPROVALS] {
        if let Some(row) = table.get(store, number, &id).await? {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The approval of a task, if its output was ever held.
pub(crate) async fn approval(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<Approval>, Error> {
    let Some(row) = row(store, environment, task).await? else { return Ok(None) };
    let Some(made) = tasks::made(store, environment, task).await? else { return Ok(None) };
    let salt = salt(store, environment, task).await?;
    Ok(Some(Approval { salt, ..row.of(made.spec) }))
}

/// The salt of an approval's commitments; `None` if the approval has none, or has lost it.
pub(crate) async fn salt(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<Salt>, Error> {
    let text = TEXTS.get(store, environment.number(), task.as_u128(), text::SALT).await?;
    let damaged = |error: InvalidSalt| Error::Corrupt {
        path: format!("the salt of {task}"),
        reason: error.to_string(),
    };
    text.map(|text| text.parse().map_err(damaged)).transpose()
}

/// The history of an approval, oldest first.
pub(crate) async fn history(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Vec<Entry>, Error> {
    let (first, last) = ((task.as_u128(), 0), (task.as_u128(), u16::MAX));
    let rows = HISTORY.range(store, environment.number(), &first, &last).await?;
    Ok(rows.into_iter().flat_map(|(_, entries)| entries).collect())
}

/// The texts of the decision that came after so many openings again.
pub(crate) async fn written(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
    round: u8,
) -> Result<ReviewTexts, Error> {
    let (number, id) = (environment.number(), task.as_u128());
    let (edit, comment) = tokio::try_join!(
        TEXTS.get(store, number, id, text::edit(round)),
        TEXTS.get(store, number, id, text::comment(round)),
    )?;
    Ok(ReviewTexts { edit, comment, extension: None })
}

/// The reasons why the reviewers were given more time, in order; none where there was none.
pub(crate) async fn extensions(
    store: &dyn Store,
    environment: Environment,
    approval: &Approval,
) -> Result<Vec<Option<String>>, Error> {
    let mut reasons = Vec::new();
    for time in 1..=approval.extensions {
        let field = text::EXTENSION + time;
        let id = approval.id().as_u128();
        reasons.push(TEXTS.get(store, environment.number(), id, field).await?);
    }
    Ok(reasons)
}

/// The model's output, also if a reviewer replaced it.
pub(crate) async fn original(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<String>, Error> {
    TEXTS.get(store, environment.number(), task.as_u128(), text::OUTPUT).await
}
