//! Batches on the wire (docs/reference/batches.md).

pub mod compare;
pub mod estimate;
pub mod reviews;
pub mod rows;

use callboard_domain::batch::{
    Batch, CONCURRENCY, MAX_CONCURRENCY, MAX_KEY, MAX_KEYS, MAX_NAME, Progress, Status,
};
use callboard_domain::budget::Money;
use callboard_domain::id::TemplateBatchId;
use callboard_domain::query::{Batches, OfBatch};
use callboard_domain::{Error, Rule, Timestamp};
use callboard_runtime::batch::Retry;
use callboard_runtime::handle::{BatchOrder, Reuse};
use callboard_runtime::read::batches::BatchView;
use serde::Serialize;
use serde_json::json;
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

pub use compare::{CompareBatches, ComparisonBody};
pub use estimate::BatchEstimateBody;
pub use reviews::{ReviewBatch, ReviewsAskedBody};
pub use rows::{
    BatchRowBody, BatchRowsBody, ExportFormat, ExportRows, ListRows, cell_text, usual_columns,
};

use super::common::{Iso, Paging, Text, tags};
use super::read::rule::{self, Parse};
use super::read::shape;
use super::tasks::UsageBody;
use super::templates::template_version;
use crate::request;

/// The highest cap, in USD.
const MAX_COST: f64 = 1e9;

/// The fate of an upload that has a row with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInvalid {
    /// The row is kept with its fault, and the others run.
    Keep,
    /// Nothing is kept.
    Reject,
}

impl OnInvalid {
    const ALL: [Self; 2] = [Self::Keep, Self::Reject];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Reject => "reject",
        }
    }
}

request! {
    /// The settings of a batch: parameters of the query, or members of a JSON body.
    #[derive(Debug, Clone)]
    pub struct CreateBatch as "CreateTemplateBatch" {
        /// The template; required.
        template_id: Option<String> = optional("templateId", rule::text(rule::characters(1..=200))),
        /// Another version of it than the highest.
        version: Option<String> = optional("version", template_version()),
        /// A name, for people.
        name: Option<String> = optional("name", rule::text(rule::characters(1..=MAX_NAME))),
        /// The tags of the executions.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// The cost in USD from which no further row is started.
        max_cost: Option<f64> = optional("maxCost", rule::number(0.0..=MAX_COST)),
        /// The most rows that run at a time; by default 100.
        concurrency: Option<u32> = optional("concurrency", rule::whole(1..=MAX_CONCURRENCY)),
        /// A batch (`bat_…`), or latest for the latest one of the template: a row whose key, rendered prompts, models and
        /// settings were answered there takes these answers over, which costs nothing.
        reuse: Option<Reuse> = optional("reuse", reuse()),
        /// true: rows that ask the same are answered and decided once; each keeps its key.
        dedupe: Option<bool> = optional("dedupe", rule::flag()),
        /// keep (by default): a row with a fault is kept as invalid; reject: nothing is kept.
        on_invalid: Option<OnInvalid> =
            optional("onInvalid", rule::one_of(&OnInvalid::ALL, OnInvalid::as_str)),
        /// true: rows are checked and their cost is estimated, and nothing is kept.
        dry_run: Option<bool> = optional("dryRun", rule::flag()),
        /// The column of a CSV file that has the keys; by default a row's key is its number.
        key_column: Option<String> = optional("keyColumn", rule::text(rule::characters(1..=200))),
    }
}

impl CreateBatch {
    /// The batch for the runtime.
    ///
    /// # Errors
    /// [`Error::Invalid`] without a template.
    pub fn order(&self) -> Result<BatchOrder, Error> {
        let missing = || Error::invalid("templateId", Rule::Required, "templateId is required");
        Ok(BatchOrder {
            template: self.template_id.clone().ok_or_else(missing)?,
            version: self.version.clone(),
            name: self.name.clone(),
            tags: self.tags.clone().unwrap_or_default(),
            max_cost: self.max_cost.map(Money::from_usd),
            reuse: self.reuse,
            concurrency: self.concurrency.unwrap_or(CONCURRENCY),
            dedupe: self.dedupe.unwrap_or_default(),
            tries: self.dry_run.unwrap_or_default(),
        })
    }
}

request! {
    /// The batches to list; the newest first.
    #[derive(Debug)]
    pub struct ListBatches as "ListBatches" {
        /// One of these statuses.
        status: Option<Vec<Status>> = optional("status", batch_statuses()),
        /// Only batches of this template.
        template_id: Option<String> = optional("templateId", rule::text(rule::characters(1..=200))),
        /// Only batches of this version of a template.
        version: Option<String> = optional("version", rule::text(rule::characters(1..=64))),
        /// Only batches with all of these tags.
        tags: Option<Vec<String>> = optional("tags", tags()),
        /// Created at this instant or later.
        from: Option<Timestamp> = optional("from", rule::instant()),
        /// Created before this instant.
        to: Option<Timestamp> = optional("to", rule::instant()),
        /// The page.
        page: Paging = flat(shape::<Paging>()),
    }
}

/// The statuses that a batch shows.
const STATUSES: [Status; 5] =
    [Status::Loading, Status::Running, Status::Paused, Status::Completed, Status::Cancelled];

fn batch_statuses() -> impl Parse<Vec<Status>> {
    rule::commas(1..=STATUSES.len(), rule::one_of(&STATUSES, Status::as_str))
}

impl From<ListBatches> for Batches {
    fn from(list: ListBatches) -> Self {
        Self {
            statuses: list.status.unwrap_or_default(),
            template: list.template_id,
            version: list.version,
            tags: list.tags.unwrap_or_default(),
            from: list.from,
            to: list.to,
            window: list.page.window(),
        }
    }
}

request! {
    /// The failed rows of a batch to run anew; every one that is not rejected if nothing is named.
    #[derive(Debug, Clone, Default)]
    pub struct RetryBatch as "RetryBatch" {
        /// Rows that failed with one of these codes, such as `PROVIDER_ERROR`; `REJECTED` only if named.
        codes: Option<Vec<String>> = optional("codes", rule::list(1..=32, rule::text(rule::characters(1..=64)))),
        /// Rows with one of these keys.
        keys: Option<Vec<String>> =
            optional("keys", rule::list(1..=MAX_KEYS, rule::text(rule::characters(1..=MAX_KEY)))),
    }
}

impl From<RetryBatch> for Retry {
    fn from(retry: RetryBatch) -> Self {
        Self { codes: retry.codes.unwrap_or_default(), keys: retry.keys.unwrap_or_default() }
    }
}

/// `latest`, or the id of a batch.
fn reuse() -> impl Parse<Reuse> {
    let read = |text: &str| match text {
        "latest" => Some(Reuse::Latest),
        id => id.parse().ok().map(Reuse::Batch),
    };
    rule::text(rule::characters(1..=64))
        .only(
            move |text: &String| read(text).is_some(),
            Rule::Format,
            "must be latest or the id of a batch: bat_…",
        )
        .with(move || json!({"pattern": "^(latest|bat_[0-9a-hjkmnp-tv-z]{26})$"}))
        .then(move |text| read(&text).ok_or(Error::Internal))
}

/// The id of a batch, or `none`, as a filter of lists.
pub(crate) fn of_batch() -> impl Parse<OfBatch> {
    let read = |text: &str| match text {
        "none" => Some(OfBatch::None),
        id => id.parse().ok().map(OfBatch::Only),
    };
    rule::text(rule::characters(1..=64))
        .only(
            move |text: &String| read(text).is_some(),
            Rule::Format,
            "must be none or the id of a batch: bat_…",
        )
        .with(move || json!({"pattern": "^(none|bat_[0-9a-hjkmnp-tv-z]{26})$"}))
        .then(move |text| read(&text).ok_or(Error::Internal))
}

/// The id of a batch, as a filter of other lists.
pub(crate) fn batch_id() -> impl Parse<TemplateBatchId> {
    let is_id = |text: &String| text.parse::<TemplateBatchId>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_id, Rule::Format, "must be the id of a batch: bat_…")
        .with(move || json!({"pattern": "^bat_[0-9a-hjkmnp-tv-z]{26}$"}))
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

/// A batch; a member that does not exist yet is left out.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TemplateBatch)]
pub struct BatchBody<'a> {
    /// `bat_…`
    #[schema(value_type = String)]
    id: Text<TemplateBatchId>,
    /// The name, for people.
    name: Option<&'a str>,
    /// The template.
    template_id: &'a str,
    /// The version of the template.
    version: &'a str,
    /// loading, running, paused, completed or cancelled.
    status: &'static str,
    /// The reason why the service paused the batch, or puts rows off.
    reason: Option<&'a str>,
    /// The number of rows.
    rows: u32,
    /// The number of rows in each status.
    progress: BatchProgressBody,
    /// The cost.
    cost: BatchCostBody,
    /// The usage of all model calls so far, held outputs among them.
    usage: UsageBody,
    /// The batch whose answers are taken over.
    #[schema(value_type = Option<String>)]
    reuse: Option<Text<TemplateBatchId>>,
    /// True if rows that ask the same are answered once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dedupe: bool,
    /// The most rows that run at a time.
    concurrency: u32,
    /// The tags of the executions.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    /// The rows that ended in a minute, over the last one.
    rate_per_minute: Option<f64>,
    /// The end at this rate.
    estimated_end: Option<Iso>,
    /// The account that created the batch.
    created_by: &'a str,
    /// The beginning of the upload.
    created_at: Iso,
    /// The instant at which all rows were durable.
    started_at: Option<Iso>,
    /// The end.
    completed_at: Option<Iso>,
    /// The rows that a retry runs anew; in its answer only.
    retried: Option<u32>,
    /// The steps that no connected worker takes: only in the answer to the creation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    warnings: Vec<String>,
}

/// The number of rows in each status; the sum without `total` and `reused` is `total`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchProgressBody {
    /// All rows.
    total: u32,
    /// Not started.
    pending: u32,
    /// Running, and not held.
    running: u32,
    /// Held for a reviewer.
    awaiting_approval: u32,
    /// Ended with an output that counts.
    completed: u32,
    /// Failed, or not startable.
    failed: u32,
    /// Rejected by a reviewer.
    rejected: u32,
    /// Cancelled, or never begun in a cancelled batch.
    cancelled: u32,
    /// With a fault.
    invalid: u32,
    /// Of the completed ones: those whose every answer was taken over from another row.
    reused: u32,
}

/// The cost of a batch, in USD.
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchCostBody {
    /// The cost of all results so far, held outputs among them.
    actual: f64,
    /// The expected cost in all: the estimate of the first 200 rows, and later the mean cost of the rows that have ended.
    estimated: Option<f64>,
    /// The cost of the answers that were taken over, where they were asked for.
    saved: f64,
    /// The cap, from which no further row is started.
    max: Option<f64>,
}

impl From<Progress> for BatchProgressBody {
    fn from(progress: Progress) -> Self {
        let Progress {
            total,
            pending,
            running,
            awaiting_approval,
            completed,
            failed,
            rejected,
            cancelled,
            invalid,
            reused,
        } = progress;
        Self {
            total,
            pending,
            running,
            awaiting_approval,
            completed,
            failed,
            rejected,
            cancelled,
            invalid,
            reused,
        }
    }
}

impl<'a> BatchBody<'a> {
    /// A batch in an event.
    #[must_use]
    pub fn in_event(batch: &'a Batch, progress: Progress) -> Self {
        let spent = batch.spent;
        let usage = callboard_domain::usage::Usage {
            input: spent.input,
            output: spent.output,
            total_cost: spent.cost.as_usd(),
            price_unknown: spent.price_unknown,
            ..callboard_domain::usage::Usage::default()
        };
        Self {
            id: Text(batch.id),
            name: batch.name.as_deref(),
            template_id: &batch.template,
            version: &batch.version,
            status: batch.status.as_str(),
            reason: batch.reason.as_deref(),
            rows: batch.total,
            progress: progress.into(),
            cost: BatchCostBody {
                actual: spent.cost.as_usd(),
                estimated: batch.expected(&progress).map(Money::as_usd),
                saved: spent.saved.as_usd(),
                max: batch.max_cost.map(Money::as_usd),
            },
            usage: UsageBody::from(usage),
            reuse: batch.reuse.map(Text),
            dedupe: batch.dedupe,
            concurrency: batch.concurrency,
            tags: &batch.tags,
            rate_per_minute: None,
            estimated_end: None,
            created_by: &batch.account,
            created_at: Iso(batch.id.created_at()),
            started_at: batch.started_at.map(Iso),
            completed_at: batch.ended_at.map(Iso),
            retried: None,
            warnings: Vec::new(),
        }
    }

    /// A batch with its figures at `now`.
    #[must_use]
    pub fn of(view: &'a BatchView, now: Timestamp) -> Self {
        let rate = view.rate.filter(|rate| *rate > 0.0);
        let left = view.progress.pending + view.progress.running;
        let end = rate.map(|rate| {
            let seconds = (f64::from(left) * 60.0 / rate).min(1e9);
            Iso(now.after(std::time::Duration::from_secs_f64(seconds)))
        });
        Self {
            reason: view.reason.as_deref(),
            rate_per_minute: view.rate.map(|rate| (rate * 10.0).round() / 10.0),
            estimated_end: end,
            ..Self::in_event(&view.batch, view.progress)
        }
    }

    /// This body with the warnings of its creation.
    #[must_use]
    pub fn warned(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    /// The answer to a retry of so many rows.
    #[must_use]
    pub fn retried(self, count: u32) -> Self {
        Self { retried: Some(count), ..self }
    }
}
