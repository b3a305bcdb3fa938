//! Batches in the shapes of `OpenAI`'s interface. Deliberately absent: their lines.

use std::collections::BTreeMap;

use callboard_domain::chat_batch::{ChatBatch, Counts, LineFault, Order, Status, WINDOW};
use callboard_domain::id::{ChatBatchId, FileId};
use callboard_domain::query::{Keyset, Page};
use callboard_domain::{Error, Rule};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::files::seconds;
use super::fixed::nulls_are_absent;
use super::parts::file_id;
use crate::common::Text;
use crate::read::rule::{self, Parse};
use crate::request;

/// The one address to which a line may be sent.
pub(super) const ENDPOINT: &str = "/v1/chat/completions";
/// The most pairs of metadata, and the most characters of a name and of a value.
const METADATA: (usize, usize, usize) = (16, 64, 512);

request! {
    /// A batch to be created.
    #[derive(Debug)]
    pub struct CreateOpenAiBatch as "CreateOpenAiBatch" {
        /// The file with the requests, a line each, uploaded with the purpose batch.
        input_file_id: FileId = required("input_file_id", file_id()),
        /// `/v1/chat/completions`.
        endpoint: () = required("endpoint", endpoint()),
        /// The time after which tasks that have not ended are cancelled: `24h`, or 1h to 720h.
        completion_window: (u64, String) = required("completion_window", window()),
        /// Pairs that the batch keeps.
        metadata: Vec<(String, String)> = or_default("metadata", metadata()),
    }
    check nulls_are_absent
}

fn endpoint() -> impl Parse<()> {
    let says = "must be /v1/chat/completions: no other is supported";
    rule::text(rule::characters(1..=64))
        .only(|text: &String| text == ENDPOINT, Rule::Unknown, says)
        .with(|| json!({"enum": [ENDPOINT]}))
        .map(drop)
}

fn window() -> impl Parse<(u64, String)> {
    fn hours(text: &str) -> Option<u64> {
        let hours = text.strip_suffix('h').and_then(|hours| hours.parse().ok());
        hours.filter(|hours| WINDOW.contains(hours))
    }
    rule::text(rule::characters(1..=8))
        .only(|text: &String| hours(text).is_some(), Rule::Range, "must be 24h, or 1h to 720h")
        .with(|| json!({"pattern": "^[1-9][0-9]{0,2}h$"}))
        .then(|text| hours(&text).map(|hours| (hours, text)).ok_or(Error::Internal))
}

fn metadata() -> impl Parse<Vec<(String, String)>> {
    let (pairs, name, value) = METADATA;
    rule::map(0..=pairs, rule::text(rule::characters(0..=value))).only(
        move |pairs: &Vec<(String, String)>| {
            pairs.iter().all(|(key, _)| (1..=name).contains(&key.chars().count()))
        },
        Rule::Length,
        "must have names of 1 to 64 characters",
    )
}

impl CreateOpenAiBatch {
    /// The settings of the batch.
    #[must_use]
    pub fn into_order(self, queue: Option<String>, priority: Option<u8>) -> Order {
        let (hours, window) = self.completion_window;
        let metadata = self.metadata.into_iter().collect();
        Order { input: self.input_file_id, hours, window, metadata, queue, priority }
    }
}

request! {
    /// The batches to list, the newest first.
    #[derive(Debug)]
    pub struct ListOpenAiBatches as "ListOpenAiBatches" {
        /// The most batches of the page, 1 to 100; by default 20.
        limit: Option<usize> = optional("limit", rule::whole(1..=100_u8).map(usize::from)),
        /// The last batch of the page before.
        after: Option<ChatBatchId> = optional("after", batch_id()),
    }
}

fn batch_id() -> impl Parse<ChatBatchId> {
    rule::text(rule::characters(1..=64))
        .only(
            |text| text.parse::<ChatBatchId>().is_ok(),
            Rule::Format,
            "must be the id of a batch: batch_…",
        )
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

impl ListOpenAiBatches {
    /// The page.
    #[must_use]
    pub fn keyset(&self) -> Keyset {
        let after = self.after.map(ChatBatchId::as_u128);
        Keyset { after, ascending: false, limit: self.limit.unwrap_or(20) }
    }
}

/// A batch.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiBatchBody<'a> {
    /// `batch_…`
    #[schema(value_type = String)]
    id: Text<ChatBatchId>,
    /// batch
    object: &'static str,
    /// `/v1/chat/completions`
    endpoint: &'static str,
    /// The faults of the input file, or the reason for which the server cancelled the batch; null without any.
    #[schema(value_type = serde_json::Value)]
    errors: Option<FaultsBody<'a>>,
    /// The file with the requests.
    #[schema(value_type = String)]
    input_file_id: Text<FileId>,
    /// The time for the tasks, as it was given.
    completion_window: &'a str,
    /// validating, failed, `in_progress`, finalizing, completed, expired, cancelling or cancelled.
    status: &'static str,
    /// The file with the outputs, once they are written; null without any.
    #[schema(value_type = serde_json::Value)]
    output_file_id: Option<Text<FileId>>,
    /// The file with the errors, once they are written; null without any.
    #[schema(value_type = serde_json::Value)]
    error_file_id: Option<Text<FileId>>,
    /// The creation, in seconds since 1970, as all instants.
    created_at: u64,
    /// The end of the check of the file, or null.
    #[schema(value_type = serde_json::Value)]
    in_progress_at: Option<u64>,
    /// The end of the time for the tasks.
    expires_at: u64,
    /// The instant from which the answers were written, or null.
    #[schema(value_type = serde_json::Value)]
    finalizing_at: Option<u64>,
    /// The end, or null.
    #[schema(value_type = serde_json::Value)]
    completed_at: Option<u64>,
    /// The end of a batch whose file has faults, or null.
    #[schema(value_type = serde_json::Value)]
    failed_at: Option<u64>,
    /// The end of a batch whose time was over, or null.
    #[schema(value_type = serde_json::Value)]
    expired_at: Option<u64>,
    /// The beginning of the cancellation, or null.
    #[schema(value_type = serde_json::Value)]
    cancelling_at: Option<u64>,
    /// The end of a batch that was cancelled, or null.
    #[schema(value_type = serde_json::Value)]
    cancelled_at: Option<u64>,
    /// The lines by their outcome.
    request_counts: RequestCountsBody,
    /// The pairs that were given; null without any.
    #[schema(value_type = serde_json::Value)]
    metadata: Option<&'a BTreeMap<String, String>>,
}

/// The faults of an input file.
#[derive(Debug, Serialize)]
struct FaultsBody<'a> {
    object: &'static str,
    data: Vec<FaultBody<'a>>,
}

#[derive(Debug, Serialize)]
struct FaultBody<'a> {
    code: &'a str,
    line: Option<u64>,
    message: &'a str,
    param: Option<&'a str>,
}

/// The lines of a batch by their outcome.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OpenAiRequestCounts)]
pub(super) struct RequestCountsBody {
    /// All lines that are not blank; 0 until the file is checked.
    total: u32,
    /// Lines with an output.
    completed: u32,
    /// Lines that ended without one.
    failed: u32,
}

impl<'a> OpenAiBatchBody<'a> {
    /// The batch as the wire shows it.
    #[must_use]
    pub fn of(batch: &'a ChatBatch, Counts { completed, failed }: Counts) -> Self {
        let at = |status| batch.at(status).map(seconds);
        let fault = |fault: &'a LineFault| FaultBody {
            code: &fault.code,
            line: fault.line,
            message: &fault.message,
            param: fault.param.as_deref(),
        };
        let data: Vec<_> = batch.faults.iter().map(fault).collect();
        let metadata = &batch.order.metadata;
        Self {
            id: Text(batch.id),
            object: "batch",
            endpoint: ENDPOINT,
            errors: (!data.is_empty()).then_some(FaultsBody { object: "list", data }),
            input_file_id: Text(batch.order.input),
            completion_window: &batch.order.window,
            status: batch.status.as_str(),
            output_file_id: batch.answers.output.map(Text),
            error_file_id: batch.answers.errors.map(Text),
            created_at: seconds(batch.id.created_at()),
            in_progress_at: at(Status::InProgress),
            expires_at: seconds(batch.expires_at()),
            finalizing_at: at(Status::Finalizing),
            completed_at: at(Status::Completed),
            failed_at: at(Status::Failed),
            expired_at: at(Status::Expired),
            cancelling_at: at(Status::Cancelling),
            cancelled_at: at(Status::Cancelled),
            request_counts: RequestCountsBody { total: batch.total, completed, failed },
            metadata: (!metadata.is_empty()).then_some(metadata),
        }
    }
}

/// A page of batches.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiBatchesBody<'a> {
    /// list
    object: &'static str,
    /// The batches.
    data: Vec<OpenAiBatchBody<'a>>,
    /// The first one's id; null without any.
    #[schema(value_type = serde_json::Value)]
    first_id: Option<Text<ChatBatchId>>,
    /// The last one's id, from which the next page goes on; null without any.
    #[schema(value_type = serde_json::Value)]
    last_id: Option<Text<ChatBatchId>>,
    /// True if there are more.
    has_more: bool,
}

impl<'a> OpenAiBatchesBody<'a> {
    /// A page; its total is the number of batches from its first one on.
    #[must_use]
    pub fn of(page: &'a Page<(ChatBatch, Counts)>) -> Self {
        Self {
            object: "list",
            data: page.items.iter().map(|(it, counts)| OpenAiBatchBody::of(it, *counts)).collect(),
            first_id: page.items.first().map(|(batch, _)| Text(batch.id)),
            last_id: page.items.last().map(|(batch, _)| Text(batch.id)),
            has_more: page.total > page.items.len() as u64,
        }
    }
}
