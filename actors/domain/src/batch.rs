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

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Timestamp;
use crate::budget::Money;
use crate::id::{ExecutionId, PlanId, TemplateBatchId};
use crate::names::names;

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
/// The most keys that one retry names.
pub const MAX_KEYS: usize = 1_000;

/// The bits of a row's number within the identifier of its execution: `MAX_ROWS` fit.
const ROW_BITS: u32 = 20;
/// The bits below a row's number, which are the partition's.
const PARTITION_BITS: u32 = 10;

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

/// The usage of the tasks of a batch so far, held outputs among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spent {
    /// The cost.
    pub cost: Money,
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
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
        self.price_unknown |= other.price_unknown;
        self
    }
}

/// A batch as it is stored; its counts of executions come from the list of executions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// The identifier.
    pub id: TemplateBatchId,
    /// The name, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Money>,
    /// The batch whose answers are taken over by rows with the same key that ask the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<TemplateBatchId>,
    /// The status.
    pub status: Status,
    /// The reason why the service paused the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// All rows.
    pub total: u32,
    /// The rows with a fault.
    pub invalid: u32,
    /// The rows that wait to be started, when the row was written; of a cancelled batch, those that never were.
    #[serde(default)]
    pub pending: u32,
    /// The rows whose execution could not be started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub refused: u32,
    /// The usage when the row was written.
    #[serde(default)]
    pub spent: Spent,
    /// The idempotency key and the body of the upload, as digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<(String, String)>,
    /// The instant at which the rows were durable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// The end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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

impl Batch {
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

/// The part of the identifiers of a batch's executions above the row's number.
fn head(batch: TemplateBatchId) -> u128 {
    let digest: [u8; 32] = Sha256::digest(batch.as_u128().to_be_bytes()).into();
    let (chance, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
    let below = 80 - ROW_BITS - PARTITION_BITS;
    let chance = u128::from_be_bytes(*chance) >> (128 - below);
    (u128::from(batch.created_at().as_millis()) << below | chance) << (ROW_BITS + PARTITION_BITS)
}

/// The execution of a row: the same whenever it is made.
#[must_use]
pub fn execution(batch: TemplateBatchId, row: u32) -> ExecutionId {
    let row = u128::from(row) << PARTITION_BITS;
    ExecutionId::from_u128(head(batch) | row | u128::from(batch.partition()))
}

/// The row of an execution of a batch.
#[must_use]
pub fn row(execution: ExecutionId) -> u32 {
    ((execution.as_u128() >> PARTITION_BITS) & ((1 << ROW_BITS) - 1)) as u32
}

/// The identifiers of a batch's executions: the first number, and the one behind the last.
#[must_use]
pub fn executions(batch: TemplateBatchId) -> (u128, u128) {
    let first = head(batch);
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
    /// Completed.
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

    #[test]
    fn a_message_has_room_in_a_row() {
        let error = RowError::new("INVALID_REQUEST", &"ü".repeat(10_000));
        assert_eq!(error.message.chars().count(), MAX_MESSAGE);
    }
}
