//! Reads of approvals and their history.

use std::sync::Arc;

use callboard_domain::Timestamp;
use callboard_domain::approval::{Action, Approval, Decision, Entry, Salt, State};
use callboard_domain::execution::program::CompiledPlan;
use callboard_domain::id::{Environment, ExecutionId, TaskId, TemplateBatchId};
use callboard_domain::machine::Machine;
use callboard_domain::query::{ApprovalOrder, Approvals, OfBatch, Page, Window};
use callboard_domain::task::{Completion, Inputs};
use callboard_domain::unit::ReviewTexts;
use callboard_store::{Error, Filter, Order, Query, Store};
use serde_json::Value;

use super::together;
use crate::node::Node;
use crate::tables::{
    self, ENDED_APPROVALS, approval_list, approval_term as term, approvals, executions,
    instants_filter, term_of,
};

/// The orders of the lists: by the instant of the hold, and of the decision.
pub(super) const SINCE: usize = 0;
const DECIDED: usize = 1;

/// The characters of a text that a list shows. The list reads one more, to see if there are more.
pub const LISTED: usize = 2_000;

/// The approvals that a list reads side by side, each with its whole texts for a moment.
const WHOLE: usize = 4;

/// An approval with all that a reviewer needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ApprovalDetail {
    /// The approval.
    pub approval: Approval,
    /// The task's result as the worker sent it, which has no text.
    pub result: Option<Box<Completion>>,
    /// True if reviewers decided too few outputs of the same origin to test the confidence.
    pub untested: bool,
    /// The prompt.
    pub inputs: Inputs,
    /// The output.
    pub output: String,
    /// The text that replaces the output.
    pub edit: Option<String>,
    /// The comment, or the reason of a rejection.
    pub comment: Option<String>,
    /// The texts of the decision that this one corrects.
    pub corrected: ReviewTexts,
    /// The instant at which the texts were erased.
    pub erased_at: Option<Timestamp>,
}

impl ApprovalDetail {
    /// The same for a list, which holds a hundred of these: only the beginning of long texts.
    fn listed(mut self) -> Self {
        let prompt = match self.inputs.args.take() {
            Some(args) => Value::Object(*args).to_string(),
            None => std::mem::take(&mut self.inputs.prompt),
        };
        self.inputs = Inputs { prompt, ..Inputs::default() };
        let texts = [&mut self.inputs.prompt, &mut self.output].into_iter();
        let texts = texts.chain(&mut self.edit).chain(&mut self.corrected.edit);
        for text in texts {
            if let Some((end, _)) = text.char_indices().nth(LISTED + 1) {
                text.truncate(end);
                text.shrink_to_fit();
            }
        }
        self
    }
}

/// An entry of a history with its texts, as long as the task is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// The entry.
    pub entry: Entry,
    /// The text that replaces the output.
    pub edit: Option<String>,
    /// The comment, or the reason of a rejection.
    pub comment: Option<String>,
    /// The salt of the approval's commitments, if it has any.
    pub salt: Option<Salt>,
}

pub(crate) async fn approval(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<ApprovalDetail>, Error> {
    let Some(row) = approvals::row(store, environment, task).await? else { return Ok(None) };
    let (found, salt) = tokio::try_join!(
        tables::task(store, environment, task),
        approvals::salt(store, environment, task),
    )?;
    let Some(mut found) = found else { return Ok(None) };
    let approval = Approval { salt, ..row.of(Arc::clone(&found.task.spec)) };
    let read = async {
        // A short output that has passed stands in the row of its task.
        let passed = if approval.opening.is_requested() && found.task.erased_at.is_none() {
            found.output(store, environment).await?
        } else {
            None
        };
        let (inputs, ReviewTexts { edit, comment, .. }, corrected, original) = tokio::try_join!(
            found.inputs(store, environment),
            written(store, environment, &approval),
            corrected(store, environment, &approval),
            approvals::original(store, environment, task),
        )?;
        Ok((inputs, edit, comment, corrected, passed.or(original).unwrap_or_default()))
    };
    let read = read.await;
    // The approval's texts may have gone while they were read.
    if approval.is_finished() && approvals::row(store, environment, task).await?.is_none() {
        return Ok(None);
    }
    let (inputs, edit, comment, corrected, mut output) = read?;
    if approval.is_hidden() {
        output = approval.opening.way.shown(&output);
    }
    let erased_at = found.task.erased_at;
    let result = found.task.result;
    let untested = false;
    Ok(Some(ApprovalDetail {
        approval,
        result,
        untested,
        inputs,
        output,
        edit,
        comment,
        corrected,
        erased_at,
    }))
}

async fn written(
    store: &dyn Store,
    environment: Environment,
    approval: &Approval,
) -> Result<ReviewTexts, Error> {
    match approval.decision {
        Some(_) => approvals::written(store, environment, approval.id(), approval.reopened).await,
        None => Ok(ReviewTexts::default()),
    }
}

async fn corrected(
    store: &dyn Store,
    environment: Environment,
    approval: &Approval,
) -> Result<ReviewTexts, Error> {
    match &approval.corrects {
        Some(before) => approvals::written(store, environment, approval.id(), before.round).await,
        None => Ok(ReviewTexts::default()),
    }
}

/// A second decision on an output, beside the one that others have gone by.
#[derive(Debug, Clone, PartialEq)]
pub struct Correction {
    /// The decision.
    pub decision: Decision,
    /// The reviewer's own text.
    pub edit: Option<String>,
    /// The comment, or the reason of a rejection.
    pub comment: Option<String>,
}

/// The correction of a task's output, if there is one.
pub(crate) async fn correction(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<Correction>, Error> {
    let row = ENDED_APPROVALS.get(store, environment.number(), &task.as_u128()).await?;
    let Some((row, decision)) = row.as_ref().and_then(|row| Some((row, row.correction()?))) else {
        return Ok(None);
    };
    let written = approvals::written(store, environment, task, row.round()).await?;
    let ReviewTexts { edit, comment, .. } = written;
    Ok(Some(Correction { decision: decision.clone(), edit, comment }))
}

pub(crate) async fn approvals(
    store: &dyn Store,
    environment: Environment,
    query: &Approvals,
) -> Result<Page<ApprovalDetail>, Error> {
    let page = store.query(&asked(environment, query)).await?;
    let read = async |document| {
        let item = approval(store, environment, TaskId::from_u128(document)).await?;
        Ok(item.map(ApprovalDetail::listed))
    };
    let items = together(WHOLE, page.documents.into_iter().map(read)).await?;
    Ok(Page { items, total: page.total })
}

/// The number of undecided approvals of all projects' production, expired ones too.
pub(crate) async fn count_undecided(
    store: &dyn Store,
    environments: &[Environment],
) -> Result<u64, Error> {
    let mut count = 0;
    for environment in environments.iter().filter(|environment| environment.is_live()) {
        count += store.query(&open(*environment, 0)).await?.total;
    }
    Ok(count)
}

/// The tasks whose output is held and undecided, expired approvals too.
pub(crate) async fn undecided(
    store: &dyn Store,
    environment: Environment,
) -> Result<Vec<TaskId>, Error> {
    let found = store.query(&holding(environment, None, usize::MAX)).await?.documents;
    Ok(found.into_iter().map(TaskId::from_u128).collect())
}

const OPEN: [State; 4] = [State::Pending, State::Assigned, State::Escalated, State::Expired];

fn open(environment: Environment, limit: usize) -> Query {
    let (statuses, window) = (OPEN.to_vec(), Window { limit, offset: 0 });
    asked(environment, &Approvals { statuses, window, ..Approvals::default() })
}

/// The query for undecided outputs whose tasks wait for the decision, of a batch or of all.
pub(crate) fn holding(
    environment: Environment,
    batch: Option<TemplateBatchId>,
    limit: usize,
) -> Query {
    let (statuses, window) = (OPEN.to_vec(), Window { limit, offset: 0 });
    let batch = batch.map(OfBatch::Only);
    let mut query =
        asked(environment, &Approvals { statuses, window, batch, ..Approvals::default() });
    query.filters.push(Filter::NoneOf(term::REQUESTED, vec![term::REQUESTED_TERM.into()]));
    query
}

/// True if reviews of outputs of a batch were requested, of this step or of any.
pub(crate) async fn has_requested(
    store: &dyn Store,
    environment: Environment,
    batch: TemplateBatchId,
    step: Option<&str>,
) -> Result<bool, Error> {
    let batch = Some(OfBatch::Only(batch));
    let mut query = asked(environment, &Approvals { batch, ..Approvals::default() });
    let requested = step.map_or_else(|| term::REQUESTED_TERM.into(), approvals::requested_term);
    query.filters.push(Filter::AnyOf(term::REQUESTED, vec![requested]));
    Ok(store.query(&Query { limit: 0, ..query }).await?.total > 0)
}

fn asked(environment: Environment, query: &Approvals) -> Query {
    let text = |text: &String| term_of(text);
    let mut filters = Vec::new();
    if !query.statuses.is_empty() {
        let statuses = query.statuses.iter().map(|state| state.as_str().as_bytes().into());
        filters.push(Filter::AnyOf(term::STATUS, statuses.collect()));
    }
    filters.extend(query.queue.as_ref().map(|queue| Filter::AnyOf(term::QUEUE, vec![text(queue)])));
    if !query.tags.is_empty() {
        filters.push(Filter::AllOf(term::TAG, query.tags.iter().map(text).collect()));
    }
    let reviewer = query.reviewer.as_ref();
    filters.extend(reviewer.map(|who| Filter::AnyOf(term::REVIEWER, vec![text(who)])));
    filters.extend(tables::batch_filter(term::BATCH, query.batch));
    let id = query.search.as_ref().and_then(|text| text.parse().ok()).map(TaskId::as_u128);
    filters.extend(tables::search_filters(query.search.as_deref(), id));
    filters.extend(instants_filter(SINCE, query.held));
    Query {
        list: approval_list(environment),
        filters,
        order: Order::Sort(match query.order {
            ApprovalOrder::HeldAt => SINCE,
            ApprovalOrder::DecidedAt => DECIDED,
        }),
        descending: true,
        offset: query.window.offset,
        limit: query.window.limit,
    }
}

pub(crate) async fn history(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
) -> Result<Option<Vec<HistoryEntry>>, Error> {
    let approval = approvals::approval(store, environment, task).await?;
    let (mut decisions, mut extensions) = (Vec::new(), Vec::new());
    if let Some(approval) = &approval {
        extensions = approvals::extensions(store, environment, approval).await?;
        for round in 0..=approval.reopened {
            decisions.push(approvals::written(store, environment, task, round).await?);
        }
    }
    let mut decisions = decisions.into_iter();
    let mut texts = decisions.next().unwrap_or_default();
    let mut extensions = extensions.into_iter();
    let salt = approval.as_ref().and_then(|approval| approval.salt);
    let entries = approvals::history(store, environment, task).await?;
    // A history outlives its task.
    if approval.is_none() && entries.is_empty() {
        return Ok(None);
    }
    let mut whole = |entry: Entry| {
        let decides = matches!(entry.action, Action::Approved | Action::Rejected);
        if entry.action == Action::Reopened {
            texts = decisions.next().unwrap_or_default();
        }
        let ReviewTexts { edit, mut comment, .. } =
            if decides { std::mem::take(&mut texts) } else { ReviewTexts::default() };
        if entry.action == Action::Extended {
            comment = extensions.next().flatten();
        }
        let is_salted = decides || entry.details.comment.is_some();
        let salt = salt.filter(|_| is_salted || entry.action == Action::Pending);
        HistoryEntry { entry, edit, comment, salt }
    };
    Ok(Some(entries.into_iter().map(&mut whole).collect()))
}

/// The plan that an execution runs.
pub(crate) async fn plan_of(
    node: &Node,
    environment: Environment,
    execution: ExecutionId,
) -> Result<Option<Arc<CompiledPlan>>, Error> {
    let begun = executions::begun(node.store(), environment, execution).await?;
    match begun {
        Some(begun) => {
            let plan = node.plan(environment, begun.spec.plan).await?;
            Ok(plan.map(|plan| Arc::clone(&plan.compiled)))
        }
        None => Ok(None),
    }
}
