//! The comparison of two batches: one walk over the pairs of rows, whose outcomes are kept for a while.
//!
//! It has about 12 bytes for each pair; outputs are read for the pairs of a page alone.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use callboard_domain::approval;
use callboard_domain::batch::compare::{End, Figures, Judged, Outcome, Side, outcome, value_of};
use callboard_domain::batch::{Batch, RowStatus};
use callboard_domain::execution::Stage;
use callboard_domain::id::{Environment, TemplateBatchId};
use callboard_domain::machine::Machine;
use callboard_domain::{Error as Refusal, Rule};
use callboard_store::Error;

use super::super::together;
use super::Reader;
use super::rows::detail;
use super::survey::step_of;
use super::{BatchView, Keys, LOADED, RowDetail};
use crate::kernel::walks::{Walk, Walks, keep, stamp};
use crate::node::Node;
use crate::read::unreadable;
use crate::tables::{approvals, batches};

/// The time that a request waits for the end of a comparison, before it answers with the figures so far.
const WAIT: Duration = Duration::from_secs(5);
/// The time that a list of the rows that differ waits.
const WAIT_FOR_ALL: Duration = Duration::from_secs(20);

/// The request for a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    /// The step; the last one of each batch if `None`.
    pub step: Option<String>,
    /// The members of the outputs that count; all if empty.
    pub fields: Vec<String>,
    /// The outcomes of the pairs to list.
    pub outcomes: Vec<Outcome>,
    /// The number of the pair after which the page begins, from 0.
    pub after: Option<u32>,
    /// The most pairs of the page.
    pub limit: usize,
}

/// A comparison, and a page of its pairs.
#[derive(Debug)]
pub struct Comparison {
    /// The two batches.
    pub batches: [BatchView; 2],
    /// The figures.
    pub figures: Figures,
    /// True if they are those of all rows.
    pub is_complete: bool,
    /// The number of pairs in the figures.
    pub compared: u32,
    /// The pairs of the page.
    pub pairs: Vec<ComparedPair>,
    /// The pair after which the next page begins; `None` after the last page.
    pub next: Option<u32>,
}

/// Two rows with the same key, or one without a counterpart.
#[derive(Debug)]
pub struct ComparedPair {
    /// The outcome.
    pub outcome: Outcome,
    /// The members that differ.
    pub fields: Vec<String>,
    /// The rows, each with the number of the step that is compared.
    pub rows: [Option<(RowDetail, u16)>; 2],
}

/// The comparisons of this node: of batches with their stamps, steps, and fields.
pub(crate) type Comparisons =
    Walks<(Environment, [(TemplateBatchId, u64); 2], [u16; 2], Vec<String>), Compared>;

/// The figures so far, and the pairs.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    figures: Figures,
    pairs: Vec<Pair>,
    /// The number of pairs that were looked at.
    looked_at: usize,
}

/// The numbers of the rows of a pair; `None` if a batch has no such row.
#[derive(Debug, Clone, Copy)]
struct Pair {
    rows: [Option<u32>; 2],
    outcome: Outcome,
}

/// Compares two batches.
///
/// # Errors
/// [`Refusal::Invalid`] for a step that one of them does not have, [`Refusal::Unavailable`].
pub(crate) async fn page(
    reader: Reader<'_>,
    environment: Environment,
    views: [BatchView; 2],
    compare: &Compare,
) -> Result<Comparison, Refusal> {
    let node = reader.node;
    let own = [&views[0].batch, &views[1].batch];
    let walk = walk(reader, environment, own, (compare.step.as_deref(), &compare.fields)).await?;
    let (walk, steps) = walk;
    let is_complete = walk.wait(WAIT).await?;
    let (figures, compared, found, mut next) = {
        let so_far = walk.result();
        let first = compare.after.map_or(0, |after| after as usize + 1);
        let wanted = |(_, pair): &(usize, &Pair)| compare.outcomes.contains(&pair.outcome);
        let pairs = so_far.pairs.iter().take(so_far.looked_at).enumerate().skip(first);
        let mut found: Vec<_> =
            pairs.filter(wanted).map(|(at, pair)| (at, *pair)).take(compare.limit + 1).collect();
        let more = found.len() > compare.limit;
        found.truncate(compare.limit);
        let last = if more { found.last().map(|(at, _)| *at) } else { None };
        let rest = (!is_complete).then(|| so_far.looked_at.max(first).saturating_sub(1));
        (so_far.figures.clone(), so_far.looked_at, found, last.or(rest))
    };
    let read = async |(_, pair): &(usize, Pair)| {
        let pair = pair_of(node, environment, own, steps, (*pair, &compare.fields));
        Box::pin(pair).await.map(Some)
    };
    let pairs = together(LOADED, found.iter().map(read)).await;
    let mut pairs: Vec<ComparedPair> = pairs.map_err(|error| unreadable(&error))?;
    // A row may have gone on since it was compared.
    pairs.retain(|pair| compare.outcomes.contains(&pair.outcome));
    if compared == 0 && !is_complete {
        next = None;
    }
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let (compared, next) = (number(compared), next.map(number));
    Ok(Comparison { batches: views, figures, is_complete, compared, pairs, next })
}

/// The rows of a batch whose output differs from that of the row with the same key of another one.
pub(super) async fn differing(
    reader: Reader<'_>,
    environment: Environment,
    batch: &Batch,
    other: TemplateBatchId,
) -> Result<HashSet<u32>, Refusal> {
    let node = reader.node;
    let found = batches::batch(node.store(), environment, other).await;
    let found = found.map_err(|error| unreadable(&error))?;
    let found = found.filter(|it| it.status != callboard_domain::batch::Status::Deleting);
    let other = found.ok_or_else(|| {
        let says = format!("differsFrom must name a batch: {other} does not exist");
        Refusal::invalid("differsFrom", Rule::Unknown, says)
    })?;
    let (walk, _) = walk(reader, environment, [batch, &other], (None, &[])).await?;
    if !walk.wait(WAIT_FOR_ALL).await? {
        return Err(Refusal::Unavailable(
            "the batches are being compared: ask again in a few seconds",
        ));
    }
    let compared = walk.result();
    let differ = compared.pairs.iter().filter(|pair| pair.outcome == Outcome::Differs);
    Ok(differ.filter_map(|pair| pair.rows[0]).collect())
}

async fn walk(
    reader: Reader<'_>,
    environment: Environment,
    [a, b]: [&Batch; 2],
    (step, fields): (Option<&str>, &[String]),
) -> Result<(Arc<Walk<Compared>>, [u16; 2]), Refusal> {
    let node = reader.node;
    let steps =
        [step_of(node, environment, a, step).await?, step_of(node, environment, b, step).await?];
    let key = (environment, [(a.id, stamp(a)), (b.id, stamp(b))], steps, fields.to_vec());
    let (weak, own) = (Arc::downgrade(node), [a.clone(), b.clone()]);
    let empty = Compared { figures: Figures::of(fields), ..Compared::default() };
    let fields = fields.to_vec();
    let walk = reader.kept.comparisons.of(key, keep(&[a, b]), empty, |walk| {
        fill(weak, environment, own, steps, (fields, walk))
    })?;
    Ok((walk, steps))
}

/// The pairs of two lists of keys: in the order of the rows of the first, then those of the second alone.
fn pairs(a: &Keys, b: &Keys) -> Vec<Pair> {
    let both = a.iter().map(|(key, row)| match b.find(key) {
        Some(other) => Pair { rows: [Some(*row), Some(other)], outcome: Outcome::Unfinished },
        None => Pair { rows: [Some(*row), None], outcome: Outcome::OnlyA },
    });
    let rest = b.iter().filter(|(key, _)| a.find(key).is_none());
    let rest = rest.map(|(_, row)| Pair { rows: [None, Some(*row)], outcome: Outcome::OnlyB });
    let mut pairs: Vec<_> = both.chain(rest).collect();
    // None is less than any row.
    pairs.sort_unstable_by_key(|pair| (pair.rows[0].is_none(), pair.rows));
    pairs
}

async fn fill(
    node: Weak<Node>,
    environment: Environment,
    own: [Batch; 2],
    steps: [u16; 2],
    (fields, walk): (Vec<String>, Arc<Walk<Compared>>),
) -> Result<(), Error> {
    let all = {
        let node = node.upgrade().ok_or(Error::Stopped)?;
        let a = Keys::of(&node, environment, own[0].id).await?;
        pairs(&a, &Keys::of(&node, environment, own[1].id).await?)
    };
    walk.result().pairs.clone_from(&all);
    for (part, at) in all.chunks(LOADED).zip((0..).step_by(LOADED)) {
        let node = node.upgrade().ok_or(Error::Stopped)?;
        let read = async |pair: &Pair| {
            let [Some(_), Some(_)] = pair.rows else { return Ok(Some(None)) };
            let both = both(&node, environment, [&own[0], &own[1]], pair.rows);
            let [a, b] = Box::pin(both).await?;
            let Some((a, b)) = a.zip(b) else { return Ok(Some(None)) };
            let a = side(&node, environment, &a, steps[0]).await?;
            let b = side(&node, environment, &b, steps[1]).await?;
            Ok(Some(Some((a, b))))
        };
        let sides = together(LOADED, part.iter().map(read)).await?;
        {
            let mut compared = walk.result();
            let Compared { figures, pairs, looked_at } = &mut *compared;
            for ((pair, sides), at) in part.iter().zip(sides).zip(at..) {
                match sides {
                    Some((a, b)) => pairs[at].outcome = figures.add(&a, &b, &fields),
                    None => figures.add_single(pair.outcome),
                }
            }
            *looked_at = at + part.len();
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The rows of a pair with their executions.
async fn both(
    node: &Node,
    environment: Environment,
    own: [&Batch; 2],
    rows: [Option<u32>; 2],
) -> Result<[Option<RowDetail>; 2], Error> {
    let read = async |batch: &Batch, number: Option<u32>| {
        let Some(number) = number else { return Ok(None) };
        let row = batches::row(node.store(), environment, (batch.id, number)).await?;
        let Some(row) = row else { return Ok(None) };
        detail(node, environment, batch, number, row).await.map(Some)
    };
    Ok([read(own[0], rows[0]).await?, read(own[1], rows[1]).await?])
}

async fn pair_of(
    node: &Node,
    environment: Environment,
    own: [&Batch; 2],
    steps: [u16; 2],
    (pair, fields): (Pair, &[String]),
) -> Result<ComparedPair, Error> {
    let [a, b] = Box::pin(both(node, environment, own, pair.rows)).await?;
    let (mut result, mut differing) = (pair.outcome, Vec::new());
    if let (Some(a), Some(b)) = (&a, &b) {
        (result, differing) = outcome(&end(a, steps[0]), &end(b, steps[1]), fields);
    }
    let rows = [a.map(|row| (row, steps[0])), b.map(|row| (row, steps[1]))];
    Ok(ComparedPair { outcome: result, fields: differing, rows })
}

/// The end of a step of a row.
fn end(row: &RowDetail, step: u16) -> End {
    let Some((_, of)) = &row.execution else {
        return match row.status {
            RowStatus::Failed | RowStatus::Rejected | RowStatus::Cancelled | RowStatus::Invalid => {
                End::Failed
            }
            RowStatus::Pending
            | RowStatus::Running
            | RowStatus::AwaitingApproval
            | RowStatus::Completed
            | RowStatus::Removed => End::Open,
        };
    };
    let run = &of.overview.execution;
    let Some(state) = run.step(step) else { return End::Failed };
    match state.stage {
        // A text that was erased or is too long to be shown cannot be compared.
        Stage::Completed if of.outputs.is_cut(&step) => End::Open,
        Stage::Completed => {
            of.outputs.get(&step).map_or(End::Open, |output| End::Output(value_of(output)))
        }
        Stage::Skipped => End::Skipped,
        Stage::Failed | Stage::Rejected | Stage::Cancelled => End::Failed,
        Stage::Waiting | Stage::Awaiting | Stage::Ready | Stage::Dispatched => {
            if run.is_finished() { End::Failed } else { End::Open }
        }
    }
}

/// A row with the model's answer and the reviewer's decision.
async fn side(
    node: &Node,
    environment: Environment,
    row: &RowDetail,
    step: u16,
) -> Result<Side, Error> {
    let end = end(row, step);
    let output = match &end {
        End::Output(value) => Some(value.clone()),
        End::Open | End::Failed | End::Skipped => None,
    };
    let found = row.tasks.get(&step);
    let reviewed = found.and_then(|it| Some((it, it.approval.as_ref()?)));
    let decided = reviewed.and_then(|(it, approval)| Some((it, approval, approval.counting()?)));
    let Some((found, approval, decision)) = decided else {
        return Ok(Side { end, answer: output, judged: None });
    };
    let is_replaced = approval.effective().is_some_and(|effective| match effective.outcome {
        approval::Outcome::Approved { edited } => edited,
        approval::Outcome::Rejected { .. } => true,
    });
    let answer = if is_replaced {
        let original = approvals::original(node.store(), environment, found.reviewed).await?;
        original.as_deref().map(value_of)
    } else {
        output.clone()
    };
    let right = match decision.outcome {
        approval::Outcome::Rejected { .. } => None,
        approval::Outcome::Approved { edited: false } => answer.clone(),
        // The text of a reviewer whom nothing waited for stands beside the output, and else in its place.
        approval::Outcome::Approved { edited: true } => {
            found.edit.as_deref().map(value_of).or(output)
        }
    };
    let judged = match decision.outcome {
        approval::Outcome::Rejected { .. } => Some(Judged::Wrong),
        approval::Outcome::Approved { .. } => right.map(Judged::Right),
    };
    Ok(Side { end, answer, judged: judged.map(|judged| (decision.at, judged)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_paired_by_key_in_the_order_of_the_first_batch() {
        let keys = |keys: &[&str]| keys.iter().copied().zip(0..).collect();
        // The second row of a key is left out.
        let (a, b) = (keys(&["x", "y", "z", "x"]), keys(&["new", "z", "y", "also"]));
        let found: Vec<_> =
            pairs(&a, &b).into_iter().map(|pair| (pair.rows, pair.outcome)).collect();
        assert_eq!(
            found,
            [
                ([Some(0), None], Outcome::OnlyA),
                ([Some(1), Some(2)], Outcome::Unfinished),
                ([Some(2), Some(1)], Outcome::Unfinished),
                ([None, Some(0)], Outcome::OnlyB),
                ([None, Some(3)], Outcome::OnlyB),
            ]
        );
    }
}
