//! Batches: one template over many rows, each of which becomes an execution.
//!
//! ```text
//!   upload ─▶ rows, durable ─▶ running ⇄ paused ─▶ completed
//!   loading                       └──────┴───────▶ cancelled
//!
//!   row: pending ─▶ started: an execution, whose number follows from the batch and the row
//!        invalid    └ retry ─▶ again ─▶ started
//! ```
//!
//! The identifiers of the executions of a batch follow each other, so a range of identifiers is a batch.

pub mod compare;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use sha2::{Digest, Sha256};

use crate::Timestamp;
use crate::budget::Money;
use crate::id::{ExecutionId, PlanId, TemplateBatchId, created_at};
use crate::names::names;
use crate::plan::{Plan, Step};
use crate::task::EndingCode;

/// The most rows of a batch.
pub const MAX_ROWS: u32 = 100_000;
/// The most bytes of an upload.
pub const MAX_UPLOAD: u64 = 1 << 30;
/// The longest key of a row, in characters.
pub const MAX_KEY: usize = 200;
/// The most bytes of the input of a row, as it is uploaded.
pub const MAX_INPUT: usize = 2 << 20;
/// The longest name, in characters.
pub const MAX_NAME: usize = 200;
/// The most rows that run at a time, and the number if none is given.
pub const MAX_CONCURRENCY: u32 = 1_000;
/// The rows that run at a time if no number is given.
pub const CONCURRENCY: u32 = 100;
/// The most reviews that one request asks for.
pub const MAX_REVIEWS: u32 = 1_000;
/// The most keys that one retry names.
pub const MAX_KEYS: usize = 1_000;

/// The bits of a row's number within the identifier of its execution: `MAX_ROWS` fit.
pub(crate) const ROW_BITS: u32 = 20;
/// The bits below a row's number, which are the partition's.
pub(crate) const PARTITION_BITS: u32 = 10;

names! {
    /// The status of a batch.
    Status {
        /// The rows arrive.
        Loading = "loading",
        /// Rows are started.
        Running = "running",
        /// No further row is started.
        Paused = "paused",
        /// Every row has ended.
        Completed = "completed",
        /// A caller cancelled the batch.
        Cancelled = "cancelled",
        /// The batch is gone for every reader, and its rows are being removed.
        Deleting = "deleting",
    }
}

names! {
    /// The status of a row.
    RowStatus {
        /// The row is not started, or waits to be run anew.
        Pending = "pending",
        /// The execution runs.
        Running = "running",
        /// The execution waits for a reviewer.
        AwaitingApproval = "awaiting_approval",
        /// The execution has completed.
        Completed = "completed",
        /// The execution has failed, or could not be started.
        Failed = "failed",
        /// A reviewer rejected an output.
        Rejected = "rejected",
        /// The execution was cancelled, or the batch was before it began.
        Cancelled = "cancelled",
        /// The row has a fault and never runs.
        Invalid = "invalid",
        /// The execution is no longer kept.
        Removed = "removed",
    }
}

names! {
    /// The decision on the output of a step of a row.
    RowDecision {
        /// A reviewer approved the output as it is.
        Approved = "approved",
        /// A reviewer approved another text in its place.
        Edited = "edited",
        /// A reviewer rejected the output.
        Rejected = "rejected",
        /// No reviewer has decided.
        None = "none",
    }
}

names! {
    /// The order of rows.
    RowOrder {
        /// By the number of the row.
        Row = "row",
        /// By the key, letter by letter.
        Key = "key",
        /// By the confidence of a step.
        Confidence = "confidence",
        /// By the cost.
        Cost = "cost",
        /// By the time from the start to the end.
        Duration = "duration",
    }
}

names! {
    /// The order in which outputs that have passed are reviewed.
    ReviewOrder {
        /// The least sure ones first; those without a confidence last.
        Confidence = "confidence",
        /// By chance.
        Random = "random",
    }
}

/// Rows in an order that follows from the seed.
#[must_use]
pub fn shuffled(mut rows: Vec<u32>, seed: u128) -> Vec<u32> {
    rows.sort_by_cached_key(|row| {
        Sha256::new().chain_update(seed.to_be_bytes()).chain_update(row.to_be_bytes()).finalize()
    });
    rows
}

/// The usage of the tasks of a batch so far, held outputs among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// The cost.
    pub cost: Money,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// The cost of the answers that were taken over.
    #[serde(default, skip_serializing_if = "Money::is_zero")]
    pub saved: Money,
    /// True if a model had no price: its costs are missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub price_unknown: bool,
}

impl Spent {
    /// The sum with another one.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        self.cost += other.cost;
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.saved += other.saved;
        self.price_unknown |= other.price_unknown;
        self
    }
}

/// A batch as it is stored; its counts of executions come from the list of executions.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The identifier.
    pub id: TemplateBatchId,
    /// The name, for people.
    pub name: Option<String>,
    /// The template.
    pub template: String,
    /// The version of the template.
    pub version: String,
    /// The plan that the deploy of the template made.
    pub plan: PlanId,
    /// The account that created the batch, and that its executions belong to.
    pub account: String,
    /// The tags of the executions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The most rows that run at a time; held ones do not count.
    pub concurrency: u32,
    /// The cost from which no further row is started.
    pub max_cost: Option<Money>,
    /// The batch whose answers are taken over by rows with the same key that ask the same.
    pub reuse: Option<TemplateBatchId>,
    /// True if rows that ask the same are answered once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dedupe: bool,
    /// The status.
    pub status: Status,
    /// The reason why the service paused the batch.
    pub reason: Option<String>,
    /// All rows.
    pub total: u32,
    /// The rows with a fault.
    pub invalid: u32,
    /// The rows that wait to be started, when the row was written; of a cancelled batch, those that never were.
    #[serde(default)]
    pub pending: u32,
    /// The rows whose execution could not be started, or whose question had failed before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u32,
    /// Of these, the rows whose answer a reviewer had rejected before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused_rejected: u32,
    /// The cost that was expected of all rows when they were uploaded; `None` if nothing was known.
    pub estimated: Option<Money>,
    /// The usage when the row was written.
    #[serde(default)]
    pub spent: Spent,
    /// The idempotency key and the body of the upload, as digests.
    pub key: Option<(String, String)>,
    /// The instant at which the rows were durable.
    pub started_at: Option<Timestamp>,
    /// The end.
    pub ended_at: Option<Timestamp>,
    /// The number of changes so far.
    #[serde(default)]
    pub revision: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A row as it is stored; its input stands in a text until it is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The key, unique in the batch.
    #[serde(rename = "k")]
    pub key: String,
    /// The state.
    #[serde(rename = "s")]
    pub state: RowState,
    /// An earlier row that asks the same, whose answer this one takes over.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub like: Option<u32>,
}

/// The state of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowState {
    /// The row waits to be started.
    #[serde(rename = "p")]
    Pending,
    /// The execution exists.
    #[serde(rename = "s")]
    Started,
    /// The execution is to run anew, if it still has this number of runs.
    #[serde(rename = "a")]
    Again(u32),
    /// The row has a fault.
    #[serde(rename = "i")]
    Invalid(RowError),
    /// The execution could not be started.
    #[serde(rename = "r")]
    Refused(RowError),
}

/// The reason why a row has no execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowError {
    /// The code of the refusal.
    pub code: String,
    /// The text for people.
    pub message: String,
}

/// The longest message of a row, in characters: the row has room for it.
const MAX_MESSAGE: usize = 500;

impl RowError {
    /// True if a reviewer had rejected the answer to the same question.
    #[must_use]
    pub fn is_rejection(&self) -> bool {
        self.code == EndingCode::Rejected.as_str()
    }

    /// An error whose message is cut to the room of a row.
    #[must_use]
    pub fn new(code: &str, message: &str) -> Self {
        Self { code: code.to_owned(), message: message.chars().take(MAX_MESSAGE).collect() }
    }
}

/// The batch and the row of an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowOf {
    /// The batch.
    pub batch: TemplateBatchId,
    /// The key of the row.
    pub key: String,
}

/// The ended rows whose mean cost says more than the estimate at the upload.
const TELLING: u32 = 20;

impl Batch {
    /// The expected cost in all: what is spent, and the mean cost of the rows so far for those that are left; while few
    /// have ended, the estimate of the upload.
    #[must_use]
    pub fn expected(&self, progress: &Progress) -> Option<Money> {
        let left = u64::from(progress.pending + progress.running);
        let asked = progress.ended() - progress.cancelled - progress.invalid;
        let asked = u64::from(asked + progress.awaiting_approval);
        if left == 0 {
            return Some(self.spent.cost);
        }
        if asked < left.min(u64::from(TELLING)) {
            return self.estimated.map(|estimated| estimated.max(self.spent.cost));
        }
        let all = u128::from(self.spent.cost.as_nanos()) * u128::from(asked + left);
        let all = all.checked_div(u128::from(asked))?;
        Some(Money::from_nanos(u64::try_from(all).unwrap_or(u64::MAX)))
    }

    /// True if rows take over answers of other rows.
    #[must_use]
    pub const fn takes_over(&self) -> bool {
        self.reuse.is_some() || self.dedupe
    }

    /// True if rows may be started.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.status == Status::Running
    }

    /// True if nothing happens any more without a call.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.status, Status::Completed | Status::Cancelled)
    }

    /// The batch with another status, from now on.
    #[must_use]
    pub fn with(&self, status: Status, reason: Option<String>, now: Timestamp) -> Self {
        let is_over = matches!(status, Status::Completed | Status::Cancelled);
        Self {
            status,
            reason,
            ended_at: is_over.then_some(now),
            revision: self.revision + 1,
            ..self.clone()
        }
    }
}

/// The digest of the part of an input on which the questions of a plan depend: rows with the same one ask the same.
#[must_use]
pub fn question(plan: &Plan, input: &Map<String, Value>) -> [u8; 16] {
    let fields: BTreeSet<_> = plan.steps().iter().flat_map(Step::asked_fields).collect();
    let mut digest = Sha256::new();
    for (field, value) in fields.into_iter().filter_map(|field| input.get_key_value(field)) {
        let value = value.to_string();
        for text in [field.as_str(), value.as_str()] {
            digest.update(text.len().to_be_bytes());
            digest.update(text);
        }
    }
    let mut first = [0; 16];
    first.copy_from_slice(&digest.finalize()[..16]);
    first
}

/// The part of the identifiers of a batch's executions, or tasks, above the row's number.
pub(crate) fn head(batch: u128) -> u128 {
    let digest: [u8; 32] = Sha256::digest(batch.to_be_bytes()).into();
    let (chance, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
    let below = 80 - ROW_BITS - PARTITION_BITS;
    let chance = u128::from_be_bytes(*chance) >> (128 - below);
    (u128::from(created_at(batch).as_millis()) << below | chance) << (ROW_BITS + PARTITION_BITS)
}

/// The execution of a row: the same whenever it is made.
#[must_use]
pub fn execution(batch: TemplateBatchId, row: u32) -> ExecutionId {
    let row = u128::from(row) << PARTITION_BITS;
    ExecutionId::from_u128(head(batch.as_u128()) | row | u128::from(batch.partition()))
}

/// The row of an execution of a batch.
#[must_use]
pub fn row(execution: ExecutionId) -> u32 {
    ((execution.as_u128() >> PARTITION_BITS) & ((1 << ROW_BITS) - 1)) as u32
}

/// The identifiers of a batch's executions: the first number, and the one behind the last.
#[must_use]
pub fn executions(batch: TemplateBatchId) -> (u128, u128) {
    let first = head(batch.as_u128());
    (first, first + (1 << (ROW_BITS + PARTITION_BITS)))
}

/// The number of rows in each status. `awaiting_approval` are a part of no other; the sum is the total, unless
/// executions are no longer kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// All rows.
    pub total: u32,
    /// Not started.
    pub pending: u32,
    /// Running.
    pub running: u32,
    /// With an output that waits for a reviewer.
    pub awaiting_approval: u32,
    /// Ended with an output that counts.
    pub completed: u32,
    /// Failed.
    pub failed: u32,
    /// Rejected by a reviewer.
    pub rejected: u32,
    /// Cancelled.
    pub cancelled: u32,
    /// With a fault.
    pub invalid: u32,
    /// Of the completed ones: those whose every answer was taken over from another batch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reused: u32,
}

impl Progress {
    /// The rows that have ended.
    #[must_use]
    pub const fn ended(&self) -> u32 {
        self.completed + self.failed + self.rejected + self.cancelled + self.invalid
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_executions_of_a_batch_are_a_range_in_the_order_of_its_rows(
            number in any::<u128>(), a in 0..MAX_ROWS, b in 0..MAX_ROWS,
        ) {
            let batch = TemplateBatchId::from_u128(number & !0x300);
            let (first, end) = executions(batch);
            let (of_a, of_b) = (execution(batch, a), execution(batch, b));
            prop_assert_eq!((row(of_a), row(of_b)), (a, b));
            prop_assert_eq!(a.cmp(&b), of_a.cmp(&of_b));
            prop_assert!((first..end).contains(&of_a.as_u128()));
            prop_assert_eq!(of_a.partition(), batch.partition());
            prop_assert_eq!(of_a.created_at(), batch.created_at());
        }
    }

    proptest! {
        #[test]
        fn shuffled_rows_are_the_same_rows_in_an_order_of_the_seed(
            count in 0..200_u32, seed in any::<u128>(),
        ) {
            let rows: Vec<_> = (0..count).collect();
            let mut found = shuffled(rows.clone(), seed);
            prop_assert_eq!(&found, &shuffled(rows.clone(), seed));
            prop_assert!(count < 20 || found != rows);
            found.sort_unstable();
            prop_assert_eq!(found, rows);
        }
    }

    #[test]
    fn the_expected_cost_is_the_estimate_and_then_the_mean_of_the_rows() {
        let cents = |cents: u64| Money::from_nanos(cents * 10_000_000);
        let batch = |spent| Batch {
            spent: Spent { cost: cents(spent), ..Spent::default() },
            estimated: Some(cents(500)),
            ..serde_json::from_value(serde_json::json!({
                "id": TemplateBatchId::from_u128(1 << 10), "template": "t", "version": "1.0.0",
                "plan": PlanId::from_u128(1 << 10), "account": "usr_1", "concurrency": 1,
                "status": "running", "total": 100, "invalid": 0,
            }))
            .expect("it is a batch")
        };
        let of =
            |pending, completed| Progress { total: 100, pending, completed, ..Progress::default() };
        assert_eq!(batch(0).expected(&of(100, 0)), Some(cents(500)));
        assert_eq!(batch(600).expected(&of(81, 19)), Some(cents(600)));
        assert_eq!(batch(40).expected(&of(80, 20)), Some(cents(200)));
        assert_eq!(batch(300).expected(&of(0, 100)), Some(cents(300)));
        let nothing = Batch { estimated: None, ..batch(10) };
        assert_eq!(nothing.expected(&of(99, 1)), None);
        assert_eq!(nothing.expected(&of(1, 5)), Some(cents(12)));
    }

    #[test]
    fn a_message_has_room_in_a_row() {
        let error = RowError::new("INVALID_REQUEST", &"ü".repeat(10_000));
        assert_eq!(error.message.chars().count(), MAX_MESSAGE);
    }
}
