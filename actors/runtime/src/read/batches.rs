//! Reads of batches: the counts of rows, pages of rows, and the comparison of two batches.
//!
//! The executions of a batch are a range of identifiers, so each count is a query of the list of executions.

pub mod compare;
pub mod estimate;
mod keys;
pub(crate) mod reviews;
mod rows;
mod survey;

use std::collections::HashMap;
use std::sync::Arc;

use callboard_domain::approval::Approval;
use callboard_domain::batch::{
    self, Batch, Progress, Row, RowError, RowState, RowStatus, Spent, Status,
};
use callboard_domain::budget::Money;
use callboard_domain::execution;
use callboard_domain::id::{Environment, ExecutionId, TaskId, TemplateBatchId};
use callboard_domain::query::{OfBatch, Tasks, Window};
use callboard_domain::task::{EndingCode, Task};
use callboard_store::{Error, Filter, Order, Query, Store};

pub(crate) use keys::Keys;
pub(crate) use rows::page;

use super::runs::ExecutionDetail;
use super::together;
use crate::node::Node;
use crate::tables::{self, batches, execution_list, execution_term, executions, term_of};

/// Figures of rows that were read lately.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    surveys: survey::Surveys,
    comparisons: compare::Comparisons,
    estimates: estimate::Estimates,
}

/// A reader of all rows of batches, which keeps what it has read for a while.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'n> {
    pub(crate) node: &'n Arc<Node>,
    pub(crate) kept: &'n Kept,
}

/// The rows that are loaded side by side, each with its outputs for a moment.
const LOADED: usize = 16;
/// The number of rows that are read at a time.
const PAGE: usize = 500;

/// A batch with its figures as they are now.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchView {
    /// The batch.
    pub batch: Batch,
    /// The number of rows in each status.
    pub progress: Progress,
    /// The rows that end in a minute, over the last one; `None` while no row is started.
    pub rate: Option<f64>,
    /// The reason why rows are put off, or why the service paused the batch.
    pub reason: Option<String>,
}

/// A row with its execution.
#[derive(Debug, Clone)]
pub struct RowDetail {
    /// The number, from 0.
    pub number: u32,
    /// The row.
    pub row: Row,
    /// The status.
    pub status: RowStatus,
    /// The execution, if there is one.
    pub execution: Option<(ExecutionId, ExecutionDetail)>,
    /// The tasks of the execution's steps, by the number of the step.
    pub tasks: HashMap<u16, RowTask>,
}

/// The task of a step of a row.
#[derive(Debug, Clone)]
pub struct RowTask {
    /// The task.
    pub task: Task,
    /// The approval of its output, or of the output that it has taken over.
    pub approval: Option<Approval>,
    /// The text that a reviewer put beside an output that had passed.
    pub edit: Option<String>,
    /// The task of the approval.
    pub(crate) reviewed: TaskId,
}

impl RowDetail {
    /// The fault of a row without an execution.
    #[must_use]
    pub const fn error(&self) -> Option<&RowError> {
        match &self.row.state {
            RowState::Invalid(error) | RowState::Refused(error) => Some(error),
            RowState::Pending | RowState::Started | RowState::Again(_) => None,
        }
    }
}

/// A page of rows.
#[derive(Debug, Clone)]
pub struct RowPage {
    /// The rows, in their order.
    pub rows: Vec<RowDetail>,
    /// The row after which the next page begins; `None` after the last page.
    pub next: Option<u32>,
}

fn query(
    environment: Environment,
    batch: TemplateBatchId,
    statuses: &[execution::Status],
    codes: &[&str],
) -> Query {
    let (from, to) = batch::executions(batch);
    let mut filters = vec![Filter::Documents { from: Some(from), to: Some(to) }];
    if !statuses.is_empty() {
        let statuses = statuses.iter().map(|status| Box::from(status.as_str().as_bytes()));
        filters.push(Filter::AnyOf(execution_term::STATUS, statuses.collect()));
    }
    if !codes.is_empty() {
        let codes = codes.iter().map(|code| term_of(code)).collect();
        filters.push(Filter::AnyOf(execution_term::ERROR, codes));
    }
    let (list, order) = (execution_list(environment), Order::Document);
    Query { list, filters, order, descending: false, offset: 0, limit: 0 }
}

async fn count(store: &dyn Store, query: Query) -> Result<u64, Error> {
    Ok(store.query(&query).await?.total)
}

async fn documents(
    store: &dyn Store,
    query: Query,
    limit: usize,
) -> Result<Vec<ExecutionId>, Error> {
    let found = store.query(&Query { limit, ..query }).await?.documents;
    Ok(found.into_iter().map(ExecutionId::from_u128).collect())
}

const UNENDED: [execution::Status; 2] = [execution::Status::Pending, execution::Status::Running];

/// The number of executions of a batch that have not ended.
pub(crate) async fn unended(
    store: &dyn Store,
    environment: Environment,
    batch: TemplateBatchId,
) -> Result<u64, Error> {
    count(store, query(environment, batch, &UNENDED, &[])).await
}

/// The executions of a batch that have not ended.
pub(crate) async fn unended_rows(
    store: &dyn Store,
    environment: Environment,
    batch: TemplateBatchId,
) -> Result<Vec<ExecutionId>, Error> {
    documents(store, query(environment, batch, &UNENDED, &[]), usize::MAX).await
}

/// Some executions of a batch.
pub(crate) async fn some_executions(
    store: &dyn Store,
    environment: Environment,
    batch: TemplateBatchId,
    limit: usize,
) -> Result<Vec<ExecutionId>, Error> {
    documents(store, query(environment, batch, &[], &[]), limit).await
}

/// Some tasks of a batch.
pub(crate) async fn tasks(
    store: &dyn Store,
    environment: Environment,
    batch: TemplateBatchId,
    limit: usize,
) -> Result<Vec<TaskId>, Error> {
    let window = Window { limit, offset: 0 };
    let query = Tasks { batch: Some(OfBatch::Only(batch)), window, ..Tasks::default() };
    let found = store.query(&super::query(environment, &query)).await?.documents;
    Ok(found.into_iter().map(TaskId::from_u128).collect())
}

/// The rows whose executions have failed, or could not be started.
pub(crate) async fn failed(
    store: &dyn Store,
    environment: Environment,
    batch: TemplateBatchId,
) -> Result<Vec<u32>, Error> {
    let failed = query(environment, batch, &[execution::Status::Failed], &[]);
    let failed = documents(store, failed, usize::MAX).await?;
    let mut numbers: Vec<_> = failed.into_iter().map(batch::row).collect();
    let mut after = None;
    loop {
        let page = batches::rows(store, environment, batch, after, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        let refused = page.iter().filter(|(_, row)| matches!(row.state, RowState::Refused(_)));
        numbers.extend(refused.map(|(number, _)| *number));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number of outputs of a batch that wait for a reviewer.
pub(crate) async fn held(
    store: &dyn Store,
    environment: Environment,
    batch: TemplateBatchId,
) -> Result<u64, Error> {
    count(store, super::approvals::holding(environment, Some(batch), 0)).await
}

/// What the tasks of a batch have spent.
pub(crate) async fn recount(
    node: &Node,
    environment: Environment,
    batch: &Batch,
) -> Result<Spent, Error> {
    let store = node.store();
    let mut spent = Spent::default();
    let all = tasks(store, environment, batch.id, usize::MAX).await?;
    for ids in all.chunks(PAGE) {
        let read = async |id: &TaskId| tables::task(store, environment, *id).await;
        for found in together(super::TOGETHER, ids.iter().map(read)).await? {
            let usage = found.task.paid();
            let cost = Money::from_usd(usage.total_cost);
            let (input, output, price_unknown) = (usage.input, usage.output, usage.price_unknown);
            let saved = Money::ZERO;
            spent = spent.plus(Spent { cost, input, output, price_unknown, saved });
        }
    }
    if batch.takes_over() {
        let all = some_executions(store, environment, batch.id, usize::MAX).await?;
        for ids in all.chunks(PAGE) {
            let read = async |id: &ExecutionId| executions::head(store, environment, *id).await;
            for head in together(super::TOGETHER, ids.iter().map(read)).await? {
                spent.saved += head.saved();
            }
        }
    }
    Ok(spent)
}

/// The number of rows of a batch in each status.
pub(crate) async fn progress(
    store: &dyn Store,
    environment: Environment,
    batch: &Batch,
) -> Result<Progress, Error> {
    use execution::Status as S;
    let of = async |statuses: &[S], codes: &[&str]| {
        let found = count(store, query(environment, batch.id, statuses, codes)).await?;
        Ok::<_, Error>(u32::try_from(found).unwrap_or(u32::MAX))
    };
    let unended = of(&UNENDED, &[]).await?;
    let held = u32::try_from(held(store, environment, batch.id).await?).unwrap_or(u32::MAX);
    let awaiting_approval = held.min(unended);
    let rejected = of(&[S::Failed], &[EndingCode::Rejected.as_str()]).await?;
    let failed = of(&[S::Failed], &[]).await?.saturating_sub(rejected);
    let failed = failed + batch.refused.saturating_sub(batch.refused_rejected);
    let rejected = rejected + batch.refused_rejected;
    let reused = if batch.takes_over() {
        let mut reused = query(environment, batch.id, &[], &[]);
        let term = Box::from(execution_term::REUSED);
        reused.filters.push(Filter::AnyOf(execution_term::ROW, vec![term]));
        u32::try_from(count(store, reused).await?).unwrap_or(u32::MAX)
    } else {
        0
    };
    let (mut pending, mut cancelled) = (batch.pending, of(&[S::Cancelled], &[]).await?);
    if batch.status == Status::Cancelled {
        cancelled += std::mem::take(&mut pending);
    }
    let mut progress = Progress {
        total: batch.total,
        pending: 0,
        running: unended - awaiting_approval,
        awaiting_approval,
        completed: of(&[S::Completed], &[]).await?,
        failed,
        rejected,
        cancelled,
        invalid: batch.invalid,
        reused,
    };
    // A row that was started just now is in the list of executions before the batch knows it. A failed row that is to
    // run anew counts as failed until it does.
    let others = progress.ended() + progress.running + progress.awaiting_approval;
    progress.pending = pending.min(batch.total.saturating_sub(others));
    Ok(progress)
}

/// A batch with its figures.
pub(crate) async fn view(
    node: &Node,
    environment: Environment,
    mut batch: Batch,
) -> Result<BatchView, Error> {
    let key = (environment, batch.id);
    batch.spent = node.state.batches.spent(key, batch.spent);
    if !batch.is_over() {
        batch.pending = node.state.batches.pending(key).unwrap_or(batch.pending);
    }
    let progress = progress(node.store(), environment, &batch).await?;
    let rate = if batch.runs() {
        node.state.batches.rate(key, node.now(), progress.ended())
    } else {
        None
    };
    let put_off = node.state.batches.why_put_off(key).filter(|_| batch.runs());
    let reason = batch.reason.clone().or(put_off);
    Ok(BatchView { batch, progress, rate, reason })
}
