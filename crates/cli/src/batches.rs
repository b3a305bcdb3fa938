//! `callboard batches`: one template over the rows of a file.

mod rows;

use std::io::{IsTerminal as _, Write as _, stderr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_client::{Call, Client};
use clap::{Args, Subcommand};
use serde_json::Value;

use rows::{Compare, Rows};

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input::{self, Body, Window};
use super::output::{Column, Format, details, print, print_json, status_line, warn};
use super::wait::continues;

const COLUMNS: [Column; 9] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("TEMPLATE", "templateId"),
    ("VERSION", "version"),
    ("STATUS", "status"),
    ("ROWS", "rows"),
    ("COMPLETED", "progress.completed"),
    ("FAILED", "progress.failed"),
    ("CREATED", "createdAt"),
];

const FIELDS: [Column; 25] = [
    ("id", "id"),
    ("name", "name"),
    ("template", "templateId"),
    ("version", "version"),
    ("status", "status"),
    ("reason", "reason"),
    ("rows", "rows"),
    ("pending", "progress.pending"),
    ("running", "progress.running"),
    ("awaiting approval", "progress.awaitingApproval"),
    ("completed", "progress.completed"),
    ("failed", "progress.failed"),
    ("rejected", "progress.rejected"),
    ("cancelled", "progress.cancelled"),
    ("invalid", "progress.invalid"),
    ("reuses", "reuse"),
    ("reused", "progress.reused"),
    ("cost (USD)", "cost.actual"),
    ("expected in all (USD)", "cost.estimated"),
    ("saved (USD)", "cost.saved"),
    ("rows a minute", "ratePerMinute"),
    ("estimated end", "estimatedEnd"),
    ("retried", "retried"),
    ("created", "createdAt"),
    ("ended", "completedAt"),
];

const ESTIMATE: [Column; 12] = [
    ("rows", "rows"),
    ("invalid", "invalid"),
    ("reused", "reused"),
    ("not renderable", "unrenderable"),
    ("expected cost (USD)", "cost.expected"),
    ("at least", "cost.low"),
    ("at most", "cost.high"),
    ("each row", "costPerRow"),
    ("spent so far", "spent"),
    ("basis", "basis"),
    ("past runs", "pastRuns"),
    ("faults", "faults"),
];

const REVIEWS: [Column; 2] = [("asked", "asked"), ("not reviewed", "left")];

/// The time between two looks at a batch that is watched.
const LOOK: Duration = Duration::from_secs(1);

/// The commands on batches.
#[derive(Debug, Clone, Subcommand)]
pub enum Batches {
    /// Upload a file of rows (CSV, or lines of JSON): each row becomes an execution of the template.
    Create(Create),
    /// List batches, the newest first.
    List {
        /// Statuses, separated by commas: loading, running, paused, completed, cancelled.
        #[arg(long, value_delimiter = ',')]
        status: Vec<String>,
        /// The template.
        #[arg(long)]
        template: Option<String>,
        /// Tags, separated by commas; a batch must have all of them.
        #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
        tags: Vec<String>,
        #[command(flatten)]
        window: Window,
    },
    /// Show a batch with its progress and its cost.
    Show(Named),
    /// Show the progress of a batch until it has ended.
    Watch(Named),
    /// List rows with their outputs.
    Rows(Rows),
    /// Compare the outputs of two batches, row by row.
    Compare(Compare),
    /// Write all rows to standard output, as CSV or with -o jsonl as lines of JSON.
    Export {
        #[command(flatten)]
        named: Named,
        /// Columns, separated by commas, such as key,output.category,input.subject.
        #[arg(long, value_delimiter = ',')]
        columns: Vec<String>,
        /// Only rows with one of these statuses, separated by commas.
        #[arg(long, value_delimiter = ',')]
        status: Vec<String>,
    },
    /// Estimate the cost of the rows that wait to be started.
    Estimate(Named),
    /// Pause a batch: no further row starts.
    Pause(Named),
    /// Resume a batch: rows start again.
    Resume(Named),
    /// Cancel a batch, and the rows that run.
    Cancel(Named),
    /// Run failed rows again; completed steps are kept.
    Retry {
        #[command(flatten)]
        named: Named,
        /// Only rows that failed with one of these codes, separated by commas; REJECTED only if named.
        #[arg(long = "code", value_delimiter = ',', value_name = "CODE")]
        codes: Vec<String>,
        /// Only rows with one of these keys, separated by commas.
        #[arg(long = "key", value_delimiter = ',', value_name = "KEY")]
        keys: Vec<String>,
        /// Show the progress until the batch has ended.
        #[arg(long)]
        watch: bool,
    },
    /// Ask for reviews of outputs that have passed; nothing waits for the decisions.
    Review(Review),
    /// Delete a batch that has ended, with its executions and their texts.
    Delete(Named),
}

/// Reviews of outputs that have passed.
#[derive(Debug, Clone, Args)]
pub struct Review {
    #[command(flatten)]
    named: Named,
    /// Maximum number of reviews, 1 to 1,000.
    #[arg(long, value_name = "NUMBER")]
    top: u32,
    /// The step; by default the last one.
    #[arg(long)]
    step: Option<String>,
    /// Order: confidence (by default, the least sure outputs first) or random.
    #[arg(long, value_name = "ORDER")]
    order_by: Option<String>,
    /// The member of the output that reviewers judge; by default the whole.
    #[arg(long)]
    field: Option<String>,
    /// Hide the output or its field from the reviewers, who give their own answer.
    #[arg(long)]
    blind: bool,
}

/// A batch.
#[derive(Debug, Clone, Args)]
pub struct Named {
    /// The batch.
    #[arg(value_parser = input::id)]
    id: String,
}

/// A new batch.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub struct Create {
    /// The rows: CSV with a header, or lines {"key": …, "input": {…}}; - for standard input.
    file: PathBuf,
    /// The template, or ID@VERSION.
    #[arg(long, value_name = "ID[@VERSION]")]
    template: String,
    /// The column of a CSV file that has the keys; by default the number of the row.
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,
    /// A name, for people.
    #[arg(long)]
    name: Option<String>,
    /// Tags of the executions, separated by commas.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Cost in USD at which the batch pauses.
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Reuse the answers of a batch, or of the template's latest one, for rows that ask the same.
    #[arg(long, value_name = "BATCH|latest")]
    reuse: Option<String>,
    /// Run rows that ask the same only once.
    #[arg(long)]
    dedupe: bool,
    /// Rows that run at a time; by default 100.
    #[arg(long, value_name = "ROWS")]
    concurrency: Option<u32>,
    /// Keep nothing if a row has a fault.
    #[arg(long)]
    reject_invalid: bool,
    /// Key that prevents a second batch, so that the command is safe to repeat.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Check the rows and estimate their cost, and keep nothing.
    #[arg(long, conflicts_with_all = ["watch", "idempotency_key"])]
    dry_run: bool,
    /// Show the progress until the batch has ended.
    #[arg(long)]
    watch: bool,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Batches>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Batches::Create(create) => {
            let batch = create.run(&client).await?;
            if create.dry_run {
                return access.output.item(&batch, |found| details(found, &ESTIMATE, &[]));
            }
            end_of(&access, &client, batch, create.watch).await
        }
        Batches::List { status, template, tags, window } => {
            let call = window.of(Call::get(&["batches"])).commas("status", &status);
            let call = call.query("templateId", template).commas("tags", &tags);
            access.output.list("batches", &client.page(call).await?, &COLUMNS)
        }
        Batches::Show(Named { id }) => {
            access.output.item(&client.data(Call::get(&["batches", &id])).await?, shown)
        }
        Batches::Watch(Named { id }) => {
            let batch = client.data(Call::get(&["batches", &id])).await?;
            end_of(&access, &client, batch, true).await
        }
        Batches::Rows(rows) => rows.run(&access, &client).await,
        Batches::Compare(compare) => compare.run(&access, &client).await,
        Batches::Export { named: Named { id }, columns, status } => {
            export(&client, &id, access.output.format(), &columns, &status).await
        }
        Batches::Estimate(Named { id }) => {
            let found = client.data(Call::post(&["batches", &id, "estimate"])).await?;
            access.output.item(&found, |found| details(found, &ESTIMATE, &[]))
        }
        Batches::Pause(Named { id }) => told(&access, &client, &id, "pause").await,
        Batches::Resume(Named { id }) => told(&access, &client, &id, "resume").await,
        Batches::Cancel(Named { id }) => told(&access, &client, &id, "cancel").await,
        Batches::Retry { named: Named { id }, codes, keys, watch } => {
            let body = Body::default().list("codes", &codes).list("keys", &keys).value();
            let call = ["batches", &id, "retry"];
            let batch = client.data(Call::post(&call).json(&body)).await?;
            end_of(&access, &client, batch, watch).await
        }
        Batches::Review(Review { named: Named { id }, top, step, order_by, field, blind }) => {
            let body = Body::default().set("top", Some(top)).set("step", step);
            let body = body.set("orderBy", order_by).set("field", field).flag("blind", blind);
            let call = Call::post(&["batches", &id, "review"]).json(&body.value());
            let found = client.data(call).await?;
            access.output.item(&found, |found| details(found, &REVIEWS, &[]))
        }
        Batches::Delete(Named { id }) => {
            access.output.item(&client.data(Call::delete(&["batches", &id])).await?, shown)
        }
    }
}

async fn told(access: &Access, client: &Client, id: &str, order: &str) -> Result<(), Failure> {
    let batch = client.data(Call::post(&["batches", id, order])).await?;
    access.output.item(&batch, shown)
}

/// A batch in words.
fn shown(batch: &Value) -> String {
    details(batch, &FIELDS, &[])
}

impl Create {
    async fn run(&self, client: &Client) -> Result<Value, Failure> {
        let bytes = input::bytes(&self.file)?;
        let kind = kind(&self.file, &bytes);
        let (template, version) = match self.template.split_once('@') {
            Some((template, version)) => (template, Some(version)),
            None => (self.template.as_str(), None),
        };
        let call = Call::post(&["batches"])
            .query("templateId", Some(template))
            .query("version", version)
            .query("name", self.name.as_ref())
            .commas("tags", &self.tags)
            .query("maxCost", self.max_cost)
            .query("reuse", self.reuse.as_ref())
            .query("concurrency", self.concurrency)
            .query("dedupe", self.dedupe.then_some("true"))
            .query("dryRun", self.dry_run.then_some("true"))
            .query("onInvalid", self.reject_invalid.then_some("reject"))
            .query("keyColumn", self.key.as_ref())
            .raw(kind, bytes);
        let made = client.data(call.idempotency_key(self.idempotency_key.as_deref())?).await?;
        warn(&made);
        Ok(made)
    }
}

/// The media type of a file of rows: by its extension; without one, lines of JSON begin with a brace.
fn kind(path: &Path, bytes: &[u8]) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => "text/csv",
        Some("jsonl" | "ndjson") => "application/x-ndjson",
        _ if bytes.trim_ascii_start().starts_with(b"{") => "application/x-ndjson",
        _ => "text/csv",
    }
}

/// Prints a batch, at its end if it is watched.
async fn end_of(
    access: &Access,
    client: &Client,
    batch: Value,
    watch: bool,
) -> Result<(), Failure> {
    if !watch {
        return access.output.item(&batch, shown);
    }
    let id = batch["id"].as_str().unwrap_or_default().to_owned();
    status_line(&id);
    let batch = tokio::select! {
        ended = watched(client, &id) => ended?,
        _ = tokio::signal::ctrl_c() => return Err(continues("batches watch", &id)),
    };
    access.output.item(&batch, shown)?;
    let count = |of: &str| batch["progress"][of].as_u64().unwrap_or(0);
    let bad = count("failed") + count("rejected") + count("cancelled") + count("invalid");
    if bad == 0 {
        return Ok(());
    }
    let says = format!(
        "{bad} of {} rows of {id} did not end well; callboard batches rows {id} --status failed,rejected,invalid",
        batch["rows"]
    );
    Err(Failure::WorkFailed(says))
}

/// The batch once it has ended, or is paused for a reason.
async fn watched(client: &Client, id: &str) -> Result<Value, Failure> {
    let mut last = String::new();
    loop {
        let batch = client.data(Call::get(&["batches", id])).await?;
        let line = line(&batch);
        let is_terminal = stderr().is_terminal();
        if line != last {
            if is_terminal {
                // The reader of standard error may be gone.
                let _ = write!(stderr(), "\r\x1b[K{line}");
            } else {
                status_line(&line);
            }
            last = line;
        }
        let status = batch["status"].as_str().unwrap_or_default();
        let is_over = matches!(status, "completed" | "cancelled");
        if is_over || status == "paused" {
            if is_terminal {
                let _ = writeln!(stderr());
            }
            if is_over {
                return Ok(batch);
            }
            let reason = batch["reason"].as_str().unwrap_or("it was paused");
            return Err(Failure::WorkFailed(format!(
                "{id} is paused: {reason}; callboard batches resume {id}"
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The progress on one line: a bar, done, failed, held, rate and time left.
fn line(batch: &Value) -> String {
    const WIDTH: u64 = 24;
    let count = |of: &str| batch["progress"][of].as_u64().unwrap_or(0);
    let bad = count("failed") + count("rejected") + count("cancelled") + count("invalid");
    let (done, all) = (count("completed") + bad, batch["rows"].as_u64().unwrap_or(0));
    let full = (done * WIDTH).checked_div(all).unwrap_or(0);
    let bar: String = (0..WIDTH).map(|at| if at < full { '#' } else { '.' }).collect();
    let counts = [("failed", bad), ("held", count("awaitingApproval"))];
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let mut parts = vec![format!("[{bar}] {done}/{all}")];
    parts.extend(counts.map(|(name, count)| format!("{count} {name}")));
    parts.extend(batch["ratePerMinute"].as_f64().map(|rate| format!("{rate:.0} a minute")));
    parts.extend(batch["estimatedEnd"].as_str().map(|end| format!("ends about {end}")));
    let reason = batch["reason"].as_str().map(|reason| format!(" ({reason})"));
    parts.join(", ") + &reason.unwrap_or_default()
}

/// Writes the export as it comes.
async fn export(
    client: &Client,
    id: &str,
    format: Format,
    columns: &[String],
    status: &[String],
) -> Result<(), Failure> {
    let (name, kind) = match format {
        Format::Table | Format::Csv => ("csv", "text/csv"),
        Format::Json | Format::Jsonl => ("jsonl", "application/x-ndjson"),
    };
    let path = ["batches", id, "export"];
    let call = Call::get(&path).query("format", Some(name)).commas("columns", columns);
    let mut response = client.stream(&call.commas("status", status).accepting(kind)).await?;
    let mut rest = Vec::new();
    loop {
        let part = response.chunk().await;
        let part =
            part.map_err(|error| Failure::Other(format!("the export broke off: {error}")))?;
        let Some(part) = part else { break };
        rest.extend_from_slice(&part);
        // Whole lines, so that no character is cut.
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let lines: Vec<u8> = rest.drain(..=end).collect();
        let lines = String::from_utf8_lossy(&lines);
        if name == "csv" { print(&lines)? } else { print_json(&lines)? }
    }
    Ok(())
}
