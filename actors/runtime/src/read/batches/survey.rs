//! The survey of a batch: the figures of each of its rows, by which rows are chosen and put in order.
//!
//! It has about 50 bytes for each row. Deliberately absent: inputs and outputs.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use callboard_domain::Error as Refusal;
use callboard_domain::approval::Outcome;
use callboard_domain::batch::{self, Batch, Row, RowDecision, RowState, RowStatus};
use callboard_domain::budget::Money;
use callboard_domain::execution::Stage;
use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_store::Error;

use super::super::{runs, together};
use super::Reader;
use super::rows::{detail, review_of, status_of, status_without_execution, unknown_step};
use super::{LOADED, PAGE, RowDetail};
use crate::kernel::walks::{Walk, Walks, keep, stamp};
use crate::node::Node;
use crate::read::unreadable;
use crate::tables::{batches, executions};

/// The time that a request waits for a survey.
const WAIT: Duration = Duration::from_secs(20);
/// The most codes of errors that are told apart.
const MAX_CODES: usize = 256;

/// The surveys of this node, by batch, its stamp, and step.
pub(crate) type Surveys = Walks<(Environment, TemplateBatchId, u64, u16), Survey>;

/// The figures of the rows of a batch, in their order.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) rows: Vec<RowFigures>,
    /// The codes of errors, which rows name by their number.
    pub(crate) codes: Vec<String>,
}

/// The figures of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowFigures {
    pub(crate) number: u32,
    pub(crate) status: RowStatus,
    pub(crate) decision: RowDecision,
    /// The number of the error's code.
    pub(crate) code: Option<u16>,
    pub(crate) confidence: Option<f64>,
    /// `None` for a row without an execution.
    pub(crate) cost: Option<Money>,
    pub(crate) duration_ms: Option<u64>,
    /// The place of the row in the order of the keys.
    pub(crate) key_rank: u32,
    /// True if the output of the step has passed, and no review of it was asked for.
    pub(crate) is_unreviewed: bool,
}

impl Survey {
    /// The figures of the row of this number.
    pub(crate) fn row(&self, number: u32) -> Option<&RowFigures> {
        let at = self.rows.binary_search_by_key(&number, |row| row.number).ok()?;
        self.rows.get(at)
    }

    fn add(&mut self, mut row: RowFigures, code: Option<String>) {
        row.code = code.and_then(|code| {
            let known = self.codes.iter().position(|known| *known == code);
            let place = known.or_else(|| {
                (self.codes.len() < MAX_CODES).then(|| {
                    self.codes.push(code);
                    self.codes.len() - 1
                })
            });
            place.and_then(|place| u16::try_from(place).ok())
        });
        self.rows.push(row);
    }
}

/// The number of a step of a batch's plan; of the last one if none is named.
pub(super) async fn step_of(
    node: &Node,
    environment: Environment,
    batch: &Batch,
    step: Option<&str>,
) -> Result<u16, Refusal> {
    let known = node.plan(environment, batch.plan).await.map_err(|error| unreadable(&error))?;
    let known = known.ok_or(Refusal::Internal)?;
    let steps = known.compiled.plan.steps();
    let position = match step {
        None => steps.len().saturating_sub(1),
        Some(step) => known.compiled.plan.position(step).ok_or_else(|| {
            let steps: Vec<_> = steps.iter().map(callboard_domain::plan::Step::id).collect();
            unknown_step(batch, step, &steps)
        })?,
    };
    u16::try_from(position).map_err(|_| Refusal::Internal)
}

/// The survey of a batch, complete.
///
/// # Errors
/// [`Refusal::Unavailable`] if it is not ready after some seconds; it goes on then.
pub(super) async fn of(
    reader: Reader<'_>,
    environment: Environment,
    batch: &Batch,
    step: u16,
) -> Result<Arc<Walk<Survey>>, Refusal> {
    let node = reader.node;
    let key = (environment, batch.id, stamp(batch), step);
    let (weak, own) = (Arc::downgrade(node), batch.clone());
    let walk = reader.kept.surveys.of(key, keep(&[batch]), Survey::default(), |walk| {
        fill(weak, environment, own, step, walk)
    })?;
    if walk.wait(WAIT).await? {
        return Ok(walk);
    }
    Err(Refusal::Unavailable("the rows are being read: ask again in a few seconds"))
}

async fn fill(
    node: Weak<Node>,
    environment: Environment,
    batch: Batch,
    step: u16,
    walk: Arc<Walk<Survey>>,
) -> Result<(), Error> {
    let (mut after, mut keys) = (None, Vec::new());
    loop {
        let node = node.upgrade().ok_or(Error::Stopped)?;
        let page = batches::rows(node.store(), environment, batch.id, after, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for rows in page.chunks(LOADED) {
            let read = async |(number, row): &(u32, Row)| {
                figures(&node, environment, &batch, step, (*number, row)).await.map(Some)
            };
            let read = together(LOADED, rows.iter().map(read)).await?;
            {
                let mut survey = walk.result();
                for (row, code) in read {
                    survey.add(row, code);
                }
            }
            tokio::task::yield_now().await;
        }
        keys.extend(page.into_iter().map(|(number, row)| (row.key.into_boxed_str(), number)));
    }
    let sorted = tokio::task::spawn_blocking(move || {
        keys.sort_unstable();
        keys.into_iter().zip(0..).map(|((_, number), rank)| (number, rank)).collect()
    });
    let ranks: HashMap<u32, u32> = sorted.await.map_err(|_| Error::Stopped)?;
    for row in &mut walk.result().rows {
        row.key_rank = ranks.get(&row.number).copied().unwrap_or(u32::MAX);
    }
    Ok(())
}

const fn decision_of(outcome: Option<Outcome>) -> RowDecision {
    match outcome {
        Some(Outcome::Approved { edited: true }) => RowDecision::Edited,
        Some(Outcome::Approved { edited: false }) => RowDecision::Approved,
        Some(Outcome::Rejected { .. }) => RowDecision::Rejected,
        None => RowDecision::None,
    }
}

async fn figures(
    node: &Node,
    environment: Environment,
    batch: &Batch,
    step: u16,
    (number, row): (u32, &Row),
) -> Result<(RowFigures, Option<String>), Error> {
    let bare = |status| RowFigures {
        number,
        status,
        decision: RowDecision::None,
        code: None,
        confidence: None,
        cost: None,
        duration_ms: None,
        key_rank: 0,
        is_unreviewed: false,
    };
    if let Some(status) = status_without_execution(batch, row) {
        let code = match &row.state {
            RowState::Invalid(error) | RowState::Refused(error) => Some(error.code.clone()),
            RowState::Pending | RowState::Started | RowState::Again(_) => None,
        };
        return Ok((bare(status), code));
    }
    let (id, store) = (batch::execution(batch.id, number), node.store());
    let Some(head) = executions::head(store, environment, id).await? else {
        return Ok((bare(RowStatus::Removed), None));
    };
    if head.ended_at().is_none() {
        let detail = detail(node, environment, batch, number, row.clone()).await?;
        return Ok((of_detail(&detail, step, bare(detail.status)), None));
    }
    let Some((run, ..)) = runs::whole(node, environment, id, head).await? else {
        return Ok((bare(RowStatus::Removed), None));
    };
    let at = run.step(step);
    let is_fork = run.head.spec.forked_from.is_some();
    let approval = match at.and_then(|row| row.task) {
        Some(task) => review_of(store, environment, task, is_fork).await?.1,
        None => None,
    };
    let ended = run.head.state.ended_at();
    let took = ended.map(|ended| ended.since(run.head.started_at).as_millis());
    let has_passed = at.is_some_and(|row| row.stage == Stage::Completed && row.task.is_some());
    let figures = RowFigures {
        is_unreviewed: has_passed && approval.is_none(),
        decision: decision_of(approval.and_then(|row| row.outcome())),
        confidence: at.and_then(|row| row.confidence),
        cost: Some(Money::from_usd(run.usage().total_cost)),
        duration_ms: took.and_then(|took| u64::try_from(took).ok()),
        ..bare(status_of(&run, false))
    };
    let code = run.head.error.as_ref().map(|cause| cause.ending.code.as_str().to_owned());
    Ok((figures, code))
}

/// The figures of a row that runs.
fn of_detail(detail: &RowDetail, step: u16, bare: RowFigures) -> RowFigures {
    let Some((_, of)) = &detail.execution else { return bare };
    let run = &of.overview.execution;
    let live = of.tasks.values().map(|task| task.paid().total_cost).sum::<f64>();
    let found = detail.tasks.get(&step);
    let decision = found.and_then(|it| it.approval.as_ref()).and_then(|it| it.decision.as_ref());
    let row = run.step(step);
    let is_out = row.is_some_and(|row| row.stage == Stage::Dispatched);
    let result = found.filter(|_| is_out).and_then(|it| it.task.result.as_ref());
    let confidence = result.and_then(|it| it.confidence).or(row.and_then(|row| row.confidence));
    RowFigures {
        decision: decision_of(decision.map(|decision| decision.outcome)),
        confidence,
        cost: Some(Money::from_usd(run.usage().total_cost + live)),
        is_unreviewed: row.is_some_and(|row| row.stage == Stage::Completed)
            && found.is_some_and(|it| it.approval.is_none()),
        ..bare
    }
}
