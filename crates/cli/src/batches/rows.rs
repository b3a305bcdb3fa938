//! `callboard batches rows` and `compare`: the rows of one batch, and of two side by side.

use std::fmt::Write as _;
use std::time::Duration;

use callboard_client::{Call, Client, Page};
use clap::Args;
use serde_json::{Value, json};

use super::super::access::Access;
use super::super::failure::Failure;
use super::super::input;
use super::super::output::{Column, details, escaped, status_line};

const ROWS: [Column; 7] = [
    ("ROW", "row"),
    ("KEY", "key"),
    ("STATUS", "status"),
    ("OUTPUT", "output"),
    ("COST", "cost"),
    ("ERROR", "error.code"),
    ("EXECUTION", "executionId"),
];

const FIGURES: [Column; 13] = [
    ("a", "a"),
    ("b", "b"),
    ("step", "step"),
    ("rows of both", "rows.both"),
    ("only in a", "rows.onlyA"),
    ("only in b", "rows.onlyB"),
    ("equal", "equal"),
    ("differs", "differs"),
    ("unfinished", "unfinished"),
    ("failed in a", "failed.a"),
    ("failed in b", "failed.b"),
    ("cost of a (USD)", "cost.a"),
    ("cost of b (USD)", "cost.b"),
];

/// The time between two looks at a comparison that goes on.
const LOOK: Duration = Duration::from_millis(500);

/// The rows to list.
#[derive(Debug, Clone, Args)]
pub struct Rows {
    /// The batch.
    #[arg(value_parser = input::id)]
    id: String,
    /// Statuses, separated by commas, such as failed or `awaiting_approval`.
    #[arg(long, value_delimiter = ',')]
    status: Vec<String>,
    /// Codes of errors, separated by commas.
    #[arg(long = "code", value_delimiter = ',', value_name = "CODE")]
    codes: Vec<String>,
    /// The step of the decision and the confidence; by default the last one.
    #[arg(long)]
    step: Option<String>,
    /// Decisions, separated by commas: approved, edited, rejected, none.
    #[arg(long, value_delimiter = ',')]
    decision: Vec<String>,
    /// The lowest confidence, 0 to 1.
    #[arg(long, value_name = "CONFIDENCE")]
    min_confidence: Option<f64>,
    /// The highest confidence, 0 to 1.
    #[arg(long, value_name = "CONFIDENCE")]
    max_confidence: Option<f64>,
    /// Only rows whose output differs from that of the same key in this batch.
    #[arg(long, value_name = "BATCH", value_parser = input::id)]
    differs_from: Option<String>,
    /// The order: row, key, confidence, cost or duration.
    #[arg(long)]
    order_by: Option<String>,
    /// The greatest value first.
    #[arg(long)]
    desc: bool,
    /// Rows to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// The cursor of the next page, from the end of the page before.
    #[arg(long)]
    cursor: Option<u64>,
}

impl Rows {
    pub(super) async fn run(&self, access: &Access, client: &Client) -> Result<(), Failure> {
        let path = ["batches", &self.id, "rows"];
        let call = Call::get(&path).commas("status", &self.status).commas("errorCode", &self.codes);
        let call = call.query("step", self.step.as_ref()).commas("decision", &self.decision);
        let call = call.query("minConfidence", self.min_confidence);
        let call = call.query("maxConfidence", self.max_confidence);
        let call = call.query("differsFrom", self.differs_from.as_ref());
        let call = call.query("orderBy", self.order_by.as_ref());
        let call = call.query("order", self.desc.then_some("desc"));
        let call = call.query("limit", self.limit).query("cursor", self.cursor);
        let mut found = client.data(call).await?;
        let next = found["nextCursor"].as_u64();
        let Value::Array(data) = found["rows"].take() else {
            return Err(Failure::Other("the server answers with no rows".into()));
        };
        let page = Page { data, pagination: json!({"nextCursor": next}) };
        access.output.list("rows", &page, &ROWS)?;
        if let Some(next) = next {
            status_line(&format!("more rows: --cursor {next}"));
        }
        Ok(())
    }
}

/// Two batches to compare.
#[derive(Debug, Clone, Args)]
pub struct Compare {
    /// The first batch.
    #[arg(value_parser = input::id)]
    a: String,
    /// The second batch.
    #[arg(value_parser = input::id)]
    b: String,
    /// The step whose outputs are compared; by default the last one.
    #[arg(long)]
    step: Option<String>,
    /// Members of the outputs, separated by commas: only these are compared.
    #[arg(long, value_delimiter = ',', value_name = "FIELD")]
    fields: Vec<String>,
    /// The rows to list, separated by commas: equal, differs (the default), unfinished, failed, onlyA, onlyB.
    #[arg(long, value_delimiter = ',')]
    outcome: Vec<String>,
    /// Rows to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// The cursor of the next page, from the end of the page before.
    #[arg(long)]
    cursor: Option<u64>,
}

impl Compare {
    /// Waits for the whole comparison, and shows it.
    pub(super) async fn run(&self, access: &Access, client: &Client) -> Result<(), Failure> {
        let path = ["batches", &self.a, "compare", &self.b];
        loop {
            let call = Call::get(&path).query("step", self.step.as_ref());
            let call = call.commas("fields", &self.fields).commas("outcome", &self.outcome);
            let call = call.query("limit", self.limit).query("cursor", self.cursor);
            let found = client.data(call).await?;
            if found["isComplete"] == false {
                status_line(&format!("{} rows are compared so far", found["compared"]));
                tokio::time::sleep(LOOK).await;
                continue;
            }
            access.output.item(&found, shown)?;
            if let Some(next) = found["nextCursor"].as_u64() {
                status_line(&format!("more rows: --cursor {next}"));
            }
            return Ok(());
        }
    }
}

/// A comparison in words: the figures, the fields, and the rows with the members that differ.
fn shown(found: &Value) -> String {
    let mut text = details(found, &FIGURES, &[]);
    for side in ["a", "b"] {
        let agreement = &found["agreement"][side];
        if agreement["decided"].as_u64().is_some_and(|decided| decided > 0) {
            let (agrees, decided) = (&agreement["agrees"], &agreement["decided"]);
            let _ = writeln!(text, "{side} is right in {agrees} of {decided} reviewed outputs");
        }
    }
    for field in found["byField"].as_array().into_iter().flatten() {
        let name = escaped(field["field"].as_str().unwrap_or_default());
        let _ = writeln!(text, "{name}: {} equal, {} differ", field["equal"], field["differs"]);
    }
    for item in found["items"].as_array().into_iter().flatten() {
        let of = |name: &str| escaped(item[name].as_str().unwrap_or_default());
        let _ = writeln!(text, "\n{}: {}", of("key"), of("outcome"));
        let fields: Vec<_> = item["fields"].as_array().into_iter().flatten().collect();
        for side in ["a", "b"] {
            let row = &item[side];
            if row.is_null() {
                continue;
            }
            let output = &row["output"];
            let differing = fields.iter().filter_map(|field| {
                let name = field.as_str()?;
                Some(format!("{}={}", escaped(name), plain(&output[name])))
            });
            let mut words: Vec<_> = differing.collect();
            if words.is_empty() {
                let status = row["status"].as_str().unwrap_or_default();
                words.push(if output.is_null() { status.to_owned() } else { plain(output) });
            }
            let _ = writeln!(text, "  {side}  {}", words.join("  "));
        }
    }
    text
}

/// A value on one line.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => escaped(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            escaped(&value.to_string())
        }
    }
}
