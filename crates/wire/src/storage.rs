//! The size of what is stored, on the wire.

use callboard_runtime::handle::Stored;
use serde::Serialize;
use utoipa::ToSchema;

use super::common::Iso;

/// The rows and bytes of each kind of data, of all projects together.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StorageBody {
    /// The time of the measurement; absent until a first one has read something.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured_at: Option<Iso>,
    /// False while the first measurement goes on: the figures are those of what it has read so far.
    complete: bool,
    /// True if the figures are estimated from a sample, as those of a large PostgreSQL database are.
    estimated: bool,
    /// The bytes of all kinds together.
    bytes: u64,
    /// The kinds, the largest first.
    kinds: Vec<StoredKindBody>,
}

/// A kind of data.
#[derive(Debug, Serialize, ToSchema)]
pub struct StoredKindBody {
    /// tasks, texts, executions, steps, approvals, reviews, histories, plans, templates, schedules, batches, files,
    /// deliveries, events, audit, accounts, budgets, idempotency or other.
    name: &'static str,
    /// The number of rows; of events, the number of events.
    rows: u64,
    /// The bytes of the rows as they are stored, without what the database adds to them.
    bytes: u64,
}

impl From<Stored> for StorageBody {
    fn from(Stored { measured_at, is_whole, is_sample, kinds }: Stored) -> Self {
        let bytes = kinds.values().map(|size| size.bytes).sum();
        let kind = |(name, size): (&'static str, callboard_store::Size)| StoredKindBody {
            name,
            rows: size.rows,
            bytes: size.bytes,
        };
        let mut kinds: Vec<_> = kinds.into_iter().map(kind).collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.bytes));
        let measured_at = measured_at.map(Iso);
        Self { measured_at, complete: is_whole, estimated: is_sample, bytes, kinds }
    }
}
