//! Pages of rows.
//!
//! ```text
//!   in the order of the rows ─▶ rows after the cursor, each with its execution
//!   in another order, or by confidence, decision, difference ─▶ the survey of the batch ─▶ the rows of the page
//! ```
//!
//! A page looks at a bounded number of rows.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use callboard_domain::approval::Outcome;
use callboard_domain::batch::{self, Batch, Row, RowOrder, RowState, RowStatus, Status};
use callboard_domain::execution::{self, Execution};
use callboard_domain::id::{Environment, TaskId};
use callboard_domain::query::Rows;
use callboard_domain::task::EndingCode;
use callboard_domain::{Error as Refusal, Rule};
use callboard_store::{Error, Store};

use super::super::runs;
use super::super::{TOGETHER, together};
use super::Reader;
use super::survey::{self, RowFigures, Survey};
use super::{LOADED, PAGE, RowDetail, RowPage, RowTask, UNENDED, compare, documents, query};
use crate::node::Node;
use crate::read::unreadable;
use crate::tables::approvals::{self, ApprovalRow};
use crate::tables::{self, batches};

/// The most rows that a filter looks at for one page; the page may then be short, and has a cursor.
const LOOKED_AT: usize = 20_000;

/// A page of the rows of a batch.
///
/// # Errors
/// [`Refusal::Invalid`] for an unknown step; [`Refusal::Unavailable`] while the rows are read for the first time.
pub(crate) async fn page(
    reader: Reader<'_>,
    environment: Environment,
    batch: &Batch,
    rows: &Rows,
) -> Result<RowPage, Refusal> {
    let node = reader.node;
    if rows.is_plain() {
        let page = in_order(node, environment, batch, rows).await;
        return page.map_err(|error| unreadable(&error));
    }
    let step = survey::step_of(node, environment, batch, rows.step.as_deref()).await?;
    let survey = survey::of(reader, environment, batch, step).await?;
    let differing = match rows.differs_from {
        Some(other) => Some(compare::differing(reader, environment, batch, other).await?),
        None => None,
    };
    let (numbers, more) = {
        let survey = survey.result();
        chosen(&survey, rows, differing.as_ref())
    };
    let read = async |number: &u32| {
        let row = batches::row(node.store(), environment, (batch.id, *number)).await?;
        let Some(row) = row else { return Ok(None) };
        detail(node, environment, batch, *number, row).await.map(Some)
    };
    let found = together(LOADED, numbers.iter().map(read)).await;
    let found = found.map_err(|error| unreadable(&error))?;
    let next = numbers.last().copied().filter(|_| more);
    Ok(RowPage { rows: found, next })
}

/// The numbers of the rows of a page, and true if there are more.
fn chosen(survey: &Survey, rows: &Rows, differing: Option<&HashSet<u32>>) -> (Vec<u32>, bool) {
    let mut found: Vec<&RowFigures> = survey
        .rows
        .iter()
        .filter(|row| matches(survey, row, rows))
        .filter(|row| differing.is_none_or(|differing| differing.contains(&row.number)))
        .collect();
    let order = |a: &RowFigures, b: &RowFigures| compared(a, b, rows);
    found.sort_by(|a, b| order(a, b));
    let first = match rows.after.and_then(|after| survey.row(after)) {
        Some(after) => found.partition_point(|row| order(row, after) != Ordering::Greater),
        None => 0,
    };
    let rest = &found[first..];
    let numbers = rest.iter().take(rows.limit).map(|row| row.number).collect();
    (numbers, rest.len() > rows.limit)
}

fn matches(survey: &Survey, row: &RowFigures, rows: &Rows) -> bool {
    let code = || row.code.and_then(|code| survey.codes.get(usize::from(code)));
    let confidence = |keep: &dyn Fn(f64) -> bool| row.confidence.is_some_and(keep);
    (rows.statuses.is_empty() || rows.statuses.contains(&row.status))
        && (rows.codes.is_empty() || code().is_some_and(|code| rows.codes.contains(code)))
        && (rows.decisions.is_empty() || rows.decisions.contains(&row.decision))
        && rows.min_confidence.is_none_or(|least| confidence(&|it| it >= least))
        && rows.max_confidence.is_none_or(|most| confidence(&|it| it <= most))
}

/// The order of two rows; those without the value come last in both directions.
fn compared(a: &RowFigures, b: &RowFigures, rows: &Rows) -> Ordering {
    fn by<V>(a: Option<V>, b: Option<V>, of: impl Fn(&V, &V) -> Ordering, down: bool) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) if down => of(&b, &a),
            (Some(a), Some(b)) => of(&a, &b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
    }
    let down = rows.descending;
    let order = match rows.order {
        RowOrder::Row => by(Some(a.number), Some(b.number), u32::cmp, down),
        RowOrder::Key => by(Some(a.key_rank), Some(b.key_rank), u32::cmp, down),
        RowOrder::Confidence => by(a.confidence, b.confidence, f64::total_cmp, down),
        RowOrder::Cost => by(a.cost, b.cost, Ord::cmp, down),
        RowOrder::Duration => by(a.duration_ms, b.duration_ms, u64::cmp, down),
    };
    order.then(a.number.cmp(&b.number))
}

/// A page in the order of the rows, by status and code.
async fn in_order(
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
                RowStatus::Rejected => {
                    statuses.push(S::Failed);
                    others |= batch.refused_rejected > 0;
                }
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
        together(TOGETHER, next.map(read)).await
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

/// The status of a row without an execution; `None` if it has one.
pub(super) fn status_without_execution(batch: &Batch, row: &Row) -> Option<RowStatus> {
    match &row.state {
        RowState::Pending if batch.status == Status::Cancelled => Some(RowStatus::Cancelled),
        RowState::Pending => Some(RowStatus::Pending),
        RowState::Invalid(_) => Some(RowStatus::Invalid),
        RowState::Refused(error) if error.is_rejection() => Some(RowStatus::Rejected),
        RowState::Refused(_) => Some(RowStatus::Failed),
        RowState::Started | RowState::Again(_) => None,
    }
}

/// The status of a row by its execution.
pub(super) fn status_of(run: &Execution, is_held: bool) -> RowStatus {
    let code = run.head.error.as_ref().map(|cause| cause.ending.code);
    match run.status() {
        execution::Status::Completed => RowStatus::Completed,
        execution::Status::Failed if code == Some(EndingCode::Rejected) => RowStatus::Rejected,
        execution::Status::Failed => RowStatus::Failed,
        execution::Status::Cancelled => RowStatus::Cancelled,
        execution::Status::Pending | execution::Status::Running if is_held => {
            RowStatus::AwaitingApproval
        }
        execution::Status::Pending | execution::Status::Running => RowStatus::Running,
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
    if let Some(status) = status_without_execution(batch, &row) {
        return Ok(without(row, status));
    }
    let id = batch::execution(batch.id, number);
    let Some(detail) = runs::execution(node, environment, id).await? else {
        return Ok(without(row, RowStatus::Removed));
    };
    let run = &detail.overview.execution;
    let status = status_of(run, detail.overview.progress.awaiting_approval > 0);
    let mut tasks = HashMap::new();
    for (step, task) in run.steps().filter_map(|(step, row)| Some((step, row.task?))) {
        if let Some(found) = tables::task(node.store(), environment, task).await? {
            let is_fork = run.head.spec.forked_from.is_some();
            let (reviewed, approval) = review_of(node.store(), environment, task, is_fork).await?;
            let edited = Some(Outcome::Approved { edited: true });
            let is_beside = |row: &ApprovalRow| row.is_unawaited() && row.outcome() == edited;
            let edit = match &approval {
                Some(row) if is_beside(row) => {
                    let round = row.round();
                    approvals::written(node.store(), environment, reviewed, round).await?.edit
                }
                Some(_) | None => None,
            };
            let approval = approval.map(|row| row.of(Arc::clone(&found.task.spec)));
            tasks.insert(step, RowTask { task: found.task, approval, edit, reviewed });
        }
    }
    Ok(RowDetail { number, row, status, execution: Some((id, detail)), tasks })
}

/// The most takeovers between an output and the one that was reviewed.
const MOST_COPIES: usize = 16;

/// The approval of the output of a task, or of the output that the task has taken over.
pub(super) async fn review_of(
    store: &dyn Store,
    environment: Environment,
    task: TaskId,
    may_be_copy: bool,
) -> Result<(TaskId, Option<ApprovalRow>), Error> {
    let mut reviewed = task;
    for _ in 0..MOST_COPIES {
        let found = approvals::row(store, environment, reviewed).await?;
        if found.is_some() || !may_be_copy {
            return Ok((reviewed, found));
        }
        let made = tables::made(store, environment, reviewed).await?;
        let Some(before) = made.and_then(|made| made.spec.origin.copy_of) else { break };
        reviewed = before;
    }
    Ok((task, None))
}

/// The refusal of a field that the schema of a step does not declare.
pub(super) fn unknown_field(field: &str, declared: &[&str]) -> Refusal {
    let declared = declared.join(", ");
    let says =
        format!("field must name a member of the output, which has {declared}; not {field:?}");
    Refusal::invalid("field", Rule::Enum, says)
}

/// The refusal of a step that the plan of a batch does not have.
pub(super) fn unknown_step(batch: &Batch, step: &str, steps: &[&str]) -> Refusal {
    let (id, steps) = (batch.id, steps.join(", "));
    let says = format!("step must name a step of {id}, which has {steps}; not {step:?}");
    Refusal::invalid("step", Rule::Enum, says)
}
