//! Batches on the wire (docs/reference/batches.md).

use callboard_domain::approval::{Decision, Outcome};
use callboard_domain::batch::{
    Batch, CONCURRENCY, MAX_CONCURRENCY, MAX_KEY, MAX_KEYS, MAX_NAME, MAX_ROWS, Progress,
    RowStatus, Status,
};
use callboard_domain::budget::Money;
use callboard_domain::id::{ExecutionId, TemplateBatchId};
use callboard_domain::query::{Batches, Rows};
use callboard_domain::schema::structured_output;
use callboard_domain::task::EndingCode;
use callboard_domain::{Error, Rule, Timestamp};
use callboard_runtime::batch::Retry;
use callboard_runtime::handle::BatchOrder;
use callboard_runtime::read::batches::{BatchView, RowDetail};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::common::{Iso, Paging, Text, tags};
use super::executions::StepResult;
use super::read::rule::{self, Parse};
use super::read::shape;
use super::tasks::UsageBody;
use super::templates::template_version;
use crate::request;

/// The most rows of a page.
const MAX_PAGE: usize = 100;
/// The rows of a page if no number is given.
const PAGE: usize = 20;
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
        /// keep (by default): a row with a fault is kept as invalid; reject: nothing is kept.
        on_invalid: Option<OnInvalid> =
            optional("onInvalid", rule::one_of(&OnInvalid::ALL, OnInvalid::as_str)),
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
            concurrency: self.concurrency.unwrap_or(CONCURRENCY),
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
    /// The rows of a batch to list, in their order.
    #[derive(Debug)]
    pub struct ListRows as "ListRows" {
        /// One of these statuses.
        status: Option<Vec<RowStatus>> = optional("status", row_statuses()),
        /// One of these codes of errors.
        error_code: Option<Vec<String>> = optional("errorCode", codes()),
        /// The most rows of the page; by default 20.
        limit: Option<usize> = optional("limit", rule::whole(1..=100_u8).map(usize::from)),
        /// The `nextCursor` of the page before.
        cursor: Option<u32> = optional("cursor", rule::whole(1..=MAX_ROWS)),
    }
}

fn row_statuses() -> impl Parse<Vec<RowStatus>> {
    rule::commas(1..=RowStatus::ALL.len(), rule::one_of(&RowStatus::ALL, RowStatus::as_str))
}

fn codes() -> impl Parse<Vec<String>> {
    rule::commas(1..=EndingCode::ALL.len() + 1, rule::text(rule::characters(1..=64)))
}

impl From<ListRows> for Rows {
    fn from(list: ListRows) -> Self {
        Self {
            statuses: list.status.unwrap_or_default(),
            codes: list.error_code.unwrap_or_default(),
            // The cursor is the number of the last row, from 1.
            after: list.cursor.map(|row| row.saturating_sub(1)),
            limit: list.limit.unwrap_or(PAGE).min(MAX_PAGE),
        }
    }
}

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// A line of cells for each row, after a header.
    Csv,
    /// A JSON object for each row.
    Jsonl,
}

impl ExportFormat {
    const ALL: [Self; 2] = [Self::Csv, Self::Jsonl];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
        }
    }
}

request! {
    /// The export of a batch.
    #[derive(Debug)]
    pub struct ExportRows as "ExportRows" {
        /// csv (by default) or jsonl.
        format: Option<ExportFormat> =
            optional("format", rule::one_of(&ExportFormat::ALL, ExportFormat::as_str)),
        /// The columns, such as key, status, output.category or input.subject.
        columns: Option<Vec<String>> =
            optional("columns", rule::commas(1..=200, rule::text(rule::characters(1..=200)))),
        /// Only rows with one of these statuses.
        status: Option<Vec<RowStatus>> = optional("status", row_statuses()),
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

/// The id of a batch, as a filter of other lists.
pub(crate) fn batch_id() -> impl Parse<TemplateBatchId> {
    let is_id = |text: &String| text.parse::<TemplateBatchId>().is_ok();
    rule::text(rule::characters(1..=64))
        .only(is_id, Rule::Format, "must be the id of a batch: bat_…")
        .with(move || json!({"pattern": "^bat_[0-9a-hjkmnp-tv-z]{26}$"}))
        .then(|text| text.parse().map_err(|_| Error::Internal))
}

/// A batch; a member that does not exist yet is left out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TemplateBatch)]
pub struct BatchBody<'a> {
    /// `bat_…`
    #[schema(value_type = String)]
    id: Text<TemplateBatchId>,
    /// The name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// The template.
    template_id: &'a str,
    /// The version of the template.
    version: &'a str,
    /// loading, running, paused, completed or cancelled.
    status: &'static str,
    /// The reason why the service paused the batch, or puts rows off.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The number of rows.
    rows: u32,
    /// The number of rows in each status.
    progress: BatchProgressBody,
    /// The cost.
    cost: BatchCostBody,
    /// The usage of all model calls so far, held outputs among them.
    usage: UsageBody,
    /// The most rows that run at a time.
    concurrency: u32,
    /// The tags of the executions.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    /// The rows that ended in a minute, over the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_per_minute: Option<f64>,
    /// The end at this rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    estimated_end: Option<Iso>,
    /// The account that created the batch.
    created_by: &'a str,
    /// The beginning of the upload.
    #[schema(value_type = String, format = DateTime)]
    created_at: Iso,
    /// The instant at which all rows were durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    started_at: Option<Iso>,
    /// The end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    completed_at: Option<Iso>,
    /// The rows that a retry runs anew; in its answer only.
    #[serde(skip_serializing_if = "Option::is_none")]
    retried: Option<u32>,
}

/// The number of rows in each status; the sum without `total` is `total`.
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
    /// Completed.
    completed: u32,
    /// Failed, or not startable.
    failed: u32,
    /// Rejected by a reviewer.
    rejected: u32,
    /// Cancelled, or never begun in a cancelled batch.
    cancelled: u32,
    /// With a fault.
    invalid: u32,
}

/// The cost of a batch, in USD.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchCostBody {
    /// The cost of all results so far, held outputs among them.
    actual: f64,
    /// The cap, from which no further row is started.
    #[serde(skip_serializing_if = "Option::is_none")]
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
                max: batch.max_cost.map(Money::as_usd),
            },
            usage: UsageBody::from(usage),
            concurrency: batch.concurrency,
            tags: &batch.tags,
            rate_per_minute: None,
            estimated_end: None,
            created_by: &batch.account,
            created_at: Iso(batch.id.created_at()),
            started_at: batch.started_at.map(Iso),
            completed_at: batch.ended_at.map(Iso),
            retried: None,
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

    /// The answer to a retry of so many rows.
    #[must_use]
    pub fn retried(self, count: u32) -> Self {
        Self { retried: Some(count), ..self }
    }
}

/// A row of a batch; a member that does not exist yet is left out.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchRowBody<'a> {
    /// The number of the row, from 1.
    row: u32,
    /// The key, unique in the batch.
    key: &'a str,
    /// pending, running, `awaiting_approval`, completed, failed, rejected, cancelled, invalid, or removed once its
    /// execution is no longer kept.
    status: &'static str,
    /// `dt_exec_…`
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    execution_id: Option<Text<ExecutionId>>,
    /// The output of the last step: an object or a list if it is JSON of one, else a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<Value>,
    /// The steps, by their ids, in the order of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    #[schema(value_type = std::collections::HashMap<String, BatchStepBody>)]
    steps: Vec<(&'a str, BatchStepBody<'a>)>,
    /// The cost of all model calls, in USD, held outputs among it.
    cost: f64,
    /// The reason why the row did not end well, or never began.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<BatchErrorBody<'a>>,
}

fn as_map<S: serde::Serializer, T: Serialize>(
    steps: &[(&str, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(steps.iter().map(|(id, step)| (id, step)))
}

/// The error of a row.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchErrorBody<'a> {
    /// The code.
    code: &'a str,
    /// The text for people.
    message: &'a str,
}

/// A step of a row.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchStepBody<'a> {
    /// pending, running, completed, failed, cancelled, skipped or rejected.
    status: &'static str,
    /// The confidence in the output, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    /// The method by which the confidence was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence_source: Option<&'a str>,
    /// The model that was called last.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    /// The cost of its model calls, in USD.
    cost: f64,
    /// The reviewer's decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<BatchDecisionBody<'a>>,
}

/// The decision on an output.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchDecisionBody<'a> {
    /// The reviewer.
    by: &'a str,
    /// The instant.
    #[schema(value_type = String, format = DateTime)]
    at: Iso,
    /// approved or rejected.
    verdict: &'static str,
    /// True if the reviewer's text replaces the output.
    edited: bool,
}

impl<'a> From<&'a Decision> for BatchDecisionBody<'a> {
    fn from(decision: &'a Decision) -> Self {
        let (verdict, edited) = match decision.outcome {
            Outcome::Approved { edited } => ("approved", edited),
            Outcome::Rejected { .. } => ("rejected", false),
        };
        Self { by: decision.by.name(), at: Iso(decision.at), verdict, edited }
    }
}

impl<'a> BatchRowBody<'a> {
    /// A row with its execution.
    #[must_use]
    pub fn of(detail: &'a RowDetail) -> Self {
        let error = detail.error();
        let error =
            error.map(|error| BatchErrorBody { code: &error.code, message: &error.message });
        let mut body = Self {
            row: detail.number + 1,
            key: &detail.row.key,
            status: detail.status.as_str(),
            execution_id: None,
            output: None,
            steps: Vec::new(),
            cost: 0.0,
            error,
        };
        let Some((id, of)) = &detail.execution else { return body };
        let execution = &of.overview.execution;
        body.execution_id = Some(Text(*id));
        // What a task under way has spent is not counted to its execution yet.
        let live = of.tasks.values().map(|task| task.paid().total_cost).sum::<f64>();
        body.cost = rounded(execution.usage().total_cost + live);
        if let Some(cause) =
            execution.head.error.as_ref().filter(|_| execution.head.state.ended_at().is_some())
        {
            let (code, message) = (cause.ending.code.as_str(), cause.ending.message.as_str());
            body.error = Some(BatchErrorBody { code, message });
        }
        let last = execution.steps().last().map(|(number, _)| number);
        body.output = last.and_then(|last| of.outputs.get(&last)).map(value_of);
        let graph = execution.graph();
        body.steps = execution
            .steps()
            .map(|(number, row)| {
                let step = StepResult::of(of, number, |_| (None, None));
                let found = detail.tasks.get(&number);
                let task = found.map(|(task, _)| task);
                let result = task.and_then(|task| task.result.as_ref());
                let live = of.tasks.values().filter(|live| Some(live.spec.id) == row.task);
                let live = live.map(|task| task.paid().total_cost).sum::<f64>();
                let decision = found
                    .and_then(|(_, approval)| approval.as_ref())
                    .and_then(|approval| approval.decision.as_ref());
                let step = BatchStepBody {
                    status: step.status(),
                    confidence: step.confidence(),
                    confidence_source: result.and_then(|it| it.confidence_source.as_deref()),
                    model: task.map(callboard_domain::task::Task::model),
                    cost: rounded(row.usage.total_cost + live),
                    decision: decision.map(BatchDecisionBody::from),
                };
                (graph.name(number), step)
            })
            .collect();
        body
    }

    /// The cell of a column of an export; `None` if the row has none.
    ///
    /// # Errors
    /// There is no such column.
    pub fn cell(
        &self,
        column: &str,
        input: Option<&serde_json::Map<String, Value>>,
    ) -> Result<Value, Error> {
        let unknown = || {
            let says = format!(
                "columns must name row, key, status, executionId, cost, error.code, error.message, output, \
                 output.NAME, input.NAME, or steps.ID.status, confidence, confidenceSource, model, cost or \
                 decision; not {column:?}"
            );
            Error::invalid("columns", Rule::Enum, says)
        };
        let found = match column {
            "row" => json!(self.row),
            "key" => json!(self.key),
            "status" => json!(self.status),
            "executionId" => json!(self.execution_id.map(|id| id.0.to_string())),
            "cost" => json!(self.cost),
            "error.code" => json!(self.error.as_ref().map(|error| error.code)),
            "error.message" => json!(self.error.as_ref().map(|error| error.message)),
            "output" => self.output.clone().unwrap_or_default(),
            _ => {
                let (of, rest) = column.split_once('.').ok_or_else(unknown)?;
                match of {
                    "output" => self
                        .output
                        .as_ref()
                        .and_then(|it| it.get(rest))
                        .cloned()
                        .unwrap_or_default(),
                    "input" => input.and_then(|it| it.get(rest)).cloned().unwrap_or_default(),
                    "steps" => {
                        let (id, member) = rest.rsplit_once('.').ok_or_else(unknown)?;
                        let step =
                            self.steps.iter().find(|(of, _)| *of == id).map(|(_, step)| step);
                        match member {
                            "status" => json!(step.map(|step| step.status)),
                            "confidence" => json!(step.and_then(|step| step.confidence)),
                            "confidenceSource" => {
                                json!(step.and_then(|step| step.confidence_source))
                            }
                            "model" => json!(step.and_then(|step| step.model)),
                            "cost" => json!(step.map(|step| step.cost)),
                            "decision" => json!(
                                step.and_then(|step| step.decision.as_ref()).map(|it| it.verdict)
                            ),
                            _ => return Err(unknown()),
                        }
                    }
                    _ => return Err(unknown()),
                }
            }
        };
        Ok(found)
    }
}

/// The columns of an export that names none: the declared members of the output, or the output as a whole.
#[must_use]
pub fn usual_columns(outputs: &[String]) -> Vec<String> {
    let mut columns: Vec<_> = ["key", "status"].map(str::to_owned).into();
    if outputs.is_empty() {
        columns.push("output".into());
    }
    columns.extend(outputs.iter().map(|name| format!("output.{name}")));
    columns.extend(["cost", "error.code", "executionId"].map(str::to_owned));
    columns
}

/// The text of a cell: a text as it is, anything else as JSON, and nothing for null.
#[must_use]
pub fn cell_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

fn value_of(output: &str) -> Value {
    let structure = structured_output(output);
    let parsed = structure.and_then(|text| serde_json::from_str(&text).ok());
    parsed.unwrap_or_else(|| Value::String(output.to_owned()))
}

/// A sum of costs without the traces of binary fractions: a billionth of a dollar is the smallest part.
fn rounded(usd: f64) -> f64 {
    Money::from_usd(usd).as_usd()
}

/// A page of rows.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchRowsBody<'a> {
    /// The rows, in their order.
    rows: Vec<BatchRowBody<'a>>,
    /// The `cursor` of the next page; left out on the last one. A page may be short, or empty, and have a next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<u32>,
}

impl<'a> BatchRowsBody<'a> {
    /// A page of rows.
    #[must_use]
    pub fn of(page: &'a callboard_runtime::read::batches::RowPage) -> Self {
        let rows = page.rows.iter().map(BatchRowBody::of).collect();
        Self { rows, next_cursor: page.next.map(|row| row + 1) }
    }
}
