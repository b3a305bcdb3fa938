//! The rows of a batch, and its export.

use callboard_domain::approval::{Decision, Outcome};
use callboard_domain::batch::compare::value_of;
use callboard_domain::batch::{MAX_ROWS, RowDecision, RowOrder, RowStatus};
use callboard_domain::budget::Money;
use callboard_domain::id::{ExecutionId, TemplateBatchId};
use callboard_domain::query::Rows;
use callboard_domain::task::EndingCode;
use callboard_domain::{Error, Rule};
use callboard_runtime::read::batches::RowDetail;
use serde::Serialize;
use serde_json::{Value, json};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use super::batch_id;
use crate::common::{Iso, Text};
use crate::executions::StepResult;
use crate::read::rule::{self, Parse};
use crate::request;

/// The rows of a page if no number is given.
const PAGE: usize = 20;

request! {
    /// The rows of a batch to list.
    #[derive(Debug)]
    pub struct ListRows as "ListRows" {
        /// One of these statuses.
        status: Option<Vec<RowStatus>> = optional("status", row_statuses()),
        /// One of these codes of errors.
        error_code: Option<Vec<String>> = optional("errorCode", codes()),
        /// The step of decision, minConfidence, maxConfidence and orderBy=confidence; by default the last one.
        step: Option<String> = optional("step", step()),
        /// One of these decisions on the output of the step.
        decision: Option<Vec<RowDecision>> = optional("decision", decisions()),
        /// The lowest confidence in the output of the step.
        min_confidence: Option<f64> = optional("minConfidence", rule::number(0.0..=1.0)),
        /// The highest confidence in the output of the step.
        max_confidence: Option<f64> = optional("maxConfidence", rule::number(0.0..=1.0)),
        /// Only rows whose output differs from that of the row with the same key of this batch.
        differs_from: Option<TemplateBatchId> = optional("differsFrom", batch_id()),
        /// The order; by default that of the rows. Rows without the value come last.
        order_by: Option<RowOrder> =
            optional("orderBy", rule::one_of(&RowOrder::ALL, RowOrder::as_str)),
        /// asc (by default) or desc.
        descending: Option<bool> = optional("order", descending()),
        /// The most rows of the page; by default 20.
        limit: Option<usize> = optional("limit", page_size()),
        /// The `nextCursor` of the page before.
        cursor: Option<u32> = optional("cursor", rule::whole(1..=MAX_ROWS)),
    }
}

fn row_statuses() -> impl Parse<Vec<RowStatus>> {
    rule::commas(1..=RowStatus::ALL.len(), rule::one_of(&RowStatus::ALL, RowStatus::as_str))
}

fn decisions() -> impl Parse<Vec<RowDecision>> {
    rule::commas(1..=RowDecision::ALL.len(), rule::one_of(&RowDecision::ALL, RowDecision::as_str))
}

fn codes() -> impl Parse<Vec<String>> {
    rule::commas(1..=EndingCode::ALL.len() + 1, rule::text(rule::characters(1..=64)))
}

/// The id of a step.
pub(super) fn step() -> impl Parse<String> {
    rule::text(rule::characters(1..=200))
}

/// The number of items of a page.
pub(super) fn page_size() -> impl Parse<usize> {
    rule::whole(1..=100_u8).map(usize::from)
}

fn descending() -> impl Parse<bool> {
    const DIRECTIONS: [bool; 2] = [false, true];
    rule::one_of(&DIRECTIONS, |down| if down { "desc" } else { "asc" })
}

impl From<ListRows> for Rows {
    fn from(list: ListRows) -> Self {
        Self {
            statuses: list.status.unwrap_or_default(),
            codes: list.error_code.unwrap_or_default(),
            step: list.step,
            decisions: list.decision.unwrap_or_default(),
            min_confidence: list.min_confidence,
            max_confidence: list.max_confidence,
            differs_from: list.differs_from,
            order: list.order_by.unwrap_or(RowOrder::Row),
            descending: list.descending.unwrap_or_default(),
            // The cursor is the number of the last row, from 1.
            after: list.cursor.map(|row| row.saturating_sub(1)),
            limit: list.limit.unwrap_or(PAGE),
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

/// A row of a batch; a member that does not exist yet is left out.
#[skip_serializing_none]
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
    #[schema(value_type = Option<String>)]
    execution_id: Option<Text<ExecutionId>>,
    /// The output of the last step: an object or a list if it is JSON of one, else a text.
    #[schema(value_type = Value, required = false)]
    output: Option<Value>,
    /// The steps, by their ids, in the order of the plan.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_map")]
    #[schema(value_type = std::collections::HashMap<String, BatchStepBody>)]
    steps: Vec<(&'a str, BatchStepBody<'a>)>,
    /// The cost of all model calls, in USD, held outputs among it.
    cost: f64,
    /// True if every answer was taken over from another batch.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    reused: bool,
    /// The reason why the row did not end well, or never began.
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
#[skip_serializing_none]
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchStepBody<'a> {
    /// pending, running, completed, failed, cancelled, skipped or rejected.
    status: &'static str,
    /// The confidence in the output, 0 to 1.
    confidence: Option<f64>,
    /// The method by which the confidence was made.
    confidence_source: Option<&'a str>,
    /// The model that was called last.
    model: Option<&'a str>,
    /// The cost of its model calls, in USD.
    cost: f64,
    /// The reviewer's decision.
    decision: Option<BatchDecisionBody<'a>>,
}

/// The decision on an output.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchDecisionBody<'a> {
    /// The reviewer.
    by: &'a str,
    /// The instant.
    at: Iso,
    /// approved or rejected.
    verdict: &'static str,
    /// True if the reviewer's text replaces the output, or stands beside one that had passed.
    edited: bool,
    /// The text that stands beside an output that had passed: an object or a list if it is JSON of one, else a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    edit: Option<Value>,
}

impl<'a> BatchDecisionBody<'a> {
    fn of(decision: &'a Decision, edit: Option<&str>) -> Self {
        let (verdict, edited) = match decision.outcome {
            Outcome::Approved { edited } => ("approved", edited),
            Outcome::Rejected { .. } => ("rejected", false),
        };
        let edit = edit.map(value_of);
        Self { by: decision.by.name(), at: Iso(decision.at), verdict, edited, edit }
    }
}

impl<'a> BatchRowBody<'a> {
    /// A row with its execution.
    #[must_use]
    pub fn of(detail: &'a RowDetail) -> Self {
        Self::with_output_of(detail, None)
    }

    /// A row with the output of this step, or of the last one.
    pub(super) fn with_output_of(detail: &'a RowDetail, step: Option<u16>) -> Self {
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
            reused: false,
            error,
        };
        let Some((id, of)) = &detail.execution else { return body };
        let execution = &of.overview.execution;
        body.execution_id = Some(Text(*id));
        // What a task under way has spent is not counted to its execution yet.
        let live = of.tasks.values().map(|task| task.paid().total_cost).sum::<f64>();
        body.reused = execution.is_reused_row();
        body.cost = rounded(execution.usage().total_cost + live);
        if let Some(cause) =
            execution.head.error.as_ref().filter(|_| execution.head.state.ended_at().is_some())
        {
            let (code, message) = (cause.ending.code.as_str(), cause.ending.message.as_str());
            body.error = Some(BatchErrorBody { code, message });
        }
        let last = || execution.steps().last().map(|(number, _)| number);
        body.output = step.or_else(last).and_then(|last| of.outputs.get(&last)).map(value_of);
        let graph = execution.graph();
        body.steps = execution
            .steps()
            .map(|(number, row)| {
                let step = StepResult::of(of, number, |_| (None, None));
                let found = detail.tasks.get(&number);
                let task = found.map(|found| &found.task);
                let result = task.and_then(|task| task.result.as_ref());
                let live = of.tasks.values().filter(|live| Some(live.spec.id) == row.task);
                let live = live.map(|task| task.paid().total_cost).sum::<f64>();
                let decision = found
                    .and_then(|found| found.approval.as_ref())
                    .and_then(|approval| approval.counting());
                let step = BatchStepBody {
                    status: step.status(),
                    confidence: step.confidence(),
                    confidence_source: result.and_then(|it| it.confidence_source.as_deref()),
                    model: task.map(callboard_domain::task::Task::model),
                    cost: rounded(row.usage.total_cost + live),
                    decision: decision.map(|decision| {
                        let edit = found.and_then(|found| found.edit.as_deref());
                        BatchDecisionBody::of(decision, edit)
                    }),
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
                 output.NAME, input.NAME, or steps.ID.status, confidence, confidenceSource, model, cost, \
                 decision or edit; not {column:?}"
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
                            "edit" => step
                                .and_then(|step| step.decision.as_ref()?.edit.clone())
                                .unwrap_or_default(),
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

/// The columns of an export that names none: the declared members of the output, or the output as a whole; and the
/// decisions on the outputs of these steps, with the texts of reviewers beside them.
#[must_use]
pub fn usual_columns(outputs: &[String], reviewed: &[String]) -> Vec<String> {
    let mut columns: Vec<_> = ["key", "status"].map(str::to_owned).into();
    if outputs.is_empty() {
        columns.push("output".into());
    }
    columns.extend(outputs.iter().map(|name| format!("output.{name}")));
    for step in reviewed {
        columns.extend(["decision", "edit"].map(|of| format!("steps.{step}.{of}")));
    }
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

/// A sum of costs without the traces of binary fractions: a billionth of a dollar is the smallest part.
pub(super) fn rounded(usd: f64) -> f64 {
    Money::from_usd(usd).as_usd()
}

/// A page of rows.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BatchRowsBody<'a> {
    /// The rows, in the order that was asked for.
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
