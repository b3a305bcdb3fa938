//! Reads of batches: the counts of rows, pages of rows, and the comparison of two batches.
//!
//! The executions of a batch are a range of identifiers, so each count is a query of the list of executions.

use std::collections::HashMap;
use std::sync::Arc;

use callboard_domain::approval::Approval;
use callboard_domain::batch::{
    self, Batch, Progress, Row, RowError, RowState, RowStatus, Spent, Status,
};
use callboard_domain::budget::Money;
use callboard_domain::execution;
use callboard_domain::id::{Environment, ExecutionId, TaskId, TemplateBatchId};
use callboard_domain::query::{Rows, Tasks, Window};
use callboard_domain::task::{EndingCode, Task};
use callboard_store::{Error, Filter, Order, Query, Store};

use super::runs::{self, ExecutionDetail};
use super::together;
use crate::node::Node;
use crate::tables::{self, approvals, batches, execution_list, execution_term, term_of};

/// The rows that a page loads side by side, each with its outputs for a moment.
const LOADED: usize = 16;
/// The number of rows that are read at a time.
const PAGE: usize = 500;
/// The most rows that a filter looks at for one page; the page may then be short, and has a cursor.
const LOOKED_AT: usize = 20_000;

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
    /// The tasks of the execution's steps, and the approvals of these, by the number of the step.
    pub tasks: HashMap<u16, (Task, Option<Approval>)>,
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
    let query = Tasks { batch: Some(batch), window, ..Tasks::default() };
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
    let open = super::approvals::open(environment, Some(batch), 0);
    count(store, open).await
}

/// What the tasks of a batch have spent.
pub(crate) async fn recount(
    node: &Node,
    environment: Environment,
    batch: TemplateBatchId,
) -> Result<Spent, Error> {
    let store = node.store();
    let mut spent = Spent::default();
    let all = tasks(store, environment, batch, usize::MAX).await?;
    for ids in all.chunks(PAGE) {
        let read = async |id: &TaskId| tables::task(store, environment, *id).await;
        for found in together(super::TOGETHER, ids.iter().map(read)).await? {
            let usage = found.task.paid();
            let cost = Money::from_usd(usage.total_cost);
            let (input, output, price_unknown) = (usage.input, usage.output, usage.price_unknown);
            spent = spent.plus(Spent { cost, input, output, price_unknown });
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
    let failed = of(&[S::Failed], &[]).await?.saturating_sub(rejected) + batch.refused;
    let (mut pending, mut cancelled) = (batch.pending, of(&[S::Cancelled], &[]).await?);
    if batch.status == Status::Cancelled {
        cancelled += std::mem::take(&mut pending);
    }
    Ok(Progress {
        total: batch.total,
        pending,
        running: unended - awaiting_approval,
        awaiting_approval,
        completed: of(&[S::Completed], &[]).await?,
        failed,
        rejected,
        cancelled,
        invalid: batch.invalid,
    })
}

/// A batch with its figures.
pub(crate) async fn view(
    node: &Node,
    environment: Environment,
    mut batch: Batch,
) -> Result<BatchView, Error> {
    let key = (environment, batch.id);
    batch.spent = node.batches.spent(key, batch.spent);
    if !batch.is_over() {
        batch.pending = node.batches.pending(key).unwrap_or(batch.pending);
    }
    let progress = progress(node.store(), environment, &batch).await?;
    let rate =
        if batch.runs() { node.batches.rate(key, node.now(), progress.ended()) } else { None };
    let put_off = node.batches.why_put_off(key).filter(|_| batch.runs());
    let reason = batch.reason.clone().or(put_off);
    Ok(BatchView { batch, progress, rate, reason })
}

/// A page of the rows of a batch.
pub(crate) async fn page(
    node: &Node,
    environment: Environment,
    batch: &Batch,
    rows: &Rows,
) -> Result<RowPage, Error> {
    let store = node.store();
    let candidates = Candidates::of(store, environment, batch, rows).await?;
    let (mut found, mut after, mut looked_at) = (Vec::new(), rows.after, 0);
    loop {
        let numbers = candidates.after(store, environment, batch, after, PAGE).await?;
        let Some((last, _)) = numbers.last().cloned() else {
            return Ok(RowPage { rows: found, next: None });
        };
        looked_at += numbers.len();
        let wanted: Vec<_> = numbers
            .into_iter()
            .filter(|(number, row)| candidates.may_match(*number, row))
            .collect();
        for part in wanted.chunks(LOADED) {
            let read = async |(number, row): &(u32, Row)| {
                detail(node, environment, batch, *number, row.clone()).await.map(Some)
            };
            for detail in together(LOADED, part.iter().map(read)).await? {
                if rows.statuses.is_empty() || rows.statuses.contains(&detail.status) {
                    after = Some(detail.number);
                    found.push(detail);
                    if found.len() == rows.limit {
                        return Ok(RowPage { rows: found, next: after });
                    }
                }
            }
        }
        after = Some(last);
        if looked_at >= LOOKED_AT {
            return Ok(RowPage { rows: found, next: after });
        }
    }
}

/// The rows that may match a filter.
struct Candidates {
    /// The rows whose executions match; `None` if every row may.
    executions: Option<Vec<u32>>,
    /// True if rows without an execution may match.
    others: bool,
    codes: Vec<String>,
}

impl Candidates {
    async fn of(
        store: &dyn Store,
        environment: Environment,
        batch: &Batch,
        rows: &Rows,
    ) -> Result<Self, Error> {
        use execution::Status as S;
        let codes = rows.codes.clone();
        if rows.statuses.is_empty() && codes.is_empty() {
            return Ok(Self { executions: None, others: true, codes });
        }
        let mut statuses = Vec::new();
        let mut others = rows.statuses.is_empty();
        for status in &rows.statuses {
            match status {
                RowStatus::Running | RowStatus::AwaitingApproval => statuses.extend(UNENDED),
                RowStatus::Completed => statuses.push(S::Completed),
                RowStatus::Failed => {
                    statuses.push(S::Failed);
                    others |= batch.refused > 0;
                }
                RowStatus::Rejected => statuses.push(S::Failed),
                RowStatus::Cancelled => {
                    statuses.push(S::Cancelled);
                    others |= batch.status == Status::Cancelled;
                }
                RowStatus::Pending | RowStatus::Invalid | RowStatus::Removed => others = true,
            }
        }
        let named: Vec<_> = codes.iter().map(String::as_str).collect();
        let executions = if statuses.is_empty() && !rows.statuses.is_empty() {
            Vec::new()
        } else {
            documents(store, query(environment, batch.id, &statuses, &named), usize::MAX).await?
        };
        let executions = Some(executions.into_iter().map(batch::row).collect());
        Ok(Self { executions, others, codes })
    }

    /// The next rows to look at.
    async fn after(
        &self,
        store: &dyn Store,
        environment: Environment,
        batch: &Batch,
        after: Option<u32>,
        limit: usize,
    ) -> Result<Vec<(u32, Row)>, Error> {
        let Some(numbers) = self.executions.as_ref().filter(|_| !self.others) else {
            return batches::rows(store, environment, batch.id, after, limit).await;
        };
        let from = after.map_or(0, |after| numbers.partition_point(|number| *number <= after));
        let next = numbers[from..].iter().take(limit);
        let read = async |number: &u32| {
            let row = batches::row(store, environment, (batch.id, *number)).await?;
            Ok(row.map(|row| (*number, row)))
        };
        together(super::TOGETHER, next.map(read)).await
    }

    fn may_match(&self, number: u32, row: &Row) -> bool {
        let Some(executions) = &self.executions else { return true };
        match &row.state {
            RowState::Started | RowState::Again(_) => executions.binary_search(&number).is_ok(),
            RowState::Invalid(error) | RowState::Refused(error) => {
                self.codes.is_empty() || self.codes.contains(&error.code)
            }
            RowState::Pending => self.codes.is_empty(),
        }
    }
}

/// A row with its execution.
pub(crate) async fn detail(
    node: &Node,
    environment: Environment,
    batch: &Batch,
    number: u32,
    row: Row,
) -> Result<RowDetail, Error> {
    let without = |row: Row, status| RowDetail {
        number,
        row,
        status,
        execution: None,
        tasks: HashMap::new(),
    };
    match &row.state {
        RowState::Pending if batch.status == Status::Cancelled => {
            return Ok(without(row, RowStatus::Cancelled));
        }
        RowState::Pending => return Ok(without(row, RowStatus::Pending)),
        RowState::Invalid(_) => return Ok(without(row, RowStatus::Invalid)),
        RowState::Refused(_) => return Ok(without(row, RowStatus::Failed)),
        RowState::Started | RowState::Again(_) => {}
    }
    let id = batch::execution(batch.id, number);
    let Some(detail) = runs::execution(node, environment, id).await? else {
        return Ok(without(row, RowStatus::Removed));
    };
    let run = &detail.overview.execution;
    let code = run.head.error.as_ref().map(|cause| cause.ending.code);
    let status = match run.status() {
        execution::Status::Completed => RowStatus::Completed,
        execution::Status::Failed if code == Some(EndingCode::Rejected) => RowStatus::Rejected,
        execution::Status::Failed => RowStatus::Failed,
        execution::Status::Cancelled => RowStatus::Cancelled,
        execution::Status::Pending | execution::Status::Running
            if detail.overview.progress.awaiting_approval > 0 =>
        {
            RowStatus::AwaitingApproval
        }
        execution::Status::Pending | execution::Status::Running => RowStatus::Running,
    };
    let mut tasks = HashMap::new();
    for (step, task) in run.steps().filter_map(|(step, row)| Some((step, row.task?))) {
        if let Some(found) = tables::task(node.store(), environment, task).await? {
            let approval = approvals::row(node.store(), environment, task).await?;
            let approval = approval.map(|row| row.of(Arc::clone(&found.task.spec)));
            tasks.insert(step, (found.task, approval));
        }
    }
    Ok(RowDetail { number, row, status, execution: Some((id, detail)), tasks })
}
