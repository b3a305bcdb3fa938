//! `callboard tasks`.

use std::path::PathBuf;
use std::time::Duration;

use callboard_client::{Call, Client, EventStream};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::{Access, Remote};
use super::failure::Failure;
use super::gate::Gate;
use super::input::{self, Body};
use super::labels::Labels;
use super::output::{Column, Format, Only, details, status_line, warn};
use super::{turns, wait};

mod export;
mod import;
mod records;
mod shape;
mod state;
mod stream;

const COLUMNS: [Column; 9] = [
    ("ID", "id"),
    ("STATUS", "status"),
    ("WAITS FOR", "waitingFor"),
    ("MODEL", "model"),
    ("QUEUE", "queue"),
    ("PRIORITY", "priority"),
    ("TAGS", "tags"),
    ("STEP", "stepId"),
    ("CREATED", "createdAt"),
];

const FIELDS: [Column; 25] = [
    ("id", "id"),
    ("title", "title"),
    ("status", "status"),
    ("waits for", "waitingFor"),
    ("waits until", "waitingUntil"),
    ("error", "error.code"),
    ("", "error.message"),
    ("model", "model"),
    ("queue", "queue"),
    ("priority", "priority"),
    ("tags", "tags"),
    ("retry of", "retryOf"),
    ("execution", "planExecutionId"),
    ("step", "stepId"),
    ("attempt", "attempt"),
    ("workers lost", "workersLost"),
    ("worker", "workerId"),
    ("created", "createdAt"),
    ("completed", "completedAt"),
    ("cancelled", "cancelledAt"),
    ("texts erased", "erasedAt"),
    ("tokens", "usage.total"),
    ("cost (USD)", "usage.totalCost"),
    ("confidence", "confidence"),
    ("files", "files"),
];

const BATCH: [Column; 8] = [
    ("batch", "batchId"),
    ("tasks", "total"),
    ("pending", "counts.pending"),
    ("running", "counts.running"),
    ("completed", "counts.completed"),
    ("failed", "counts.failed"),
    ("cancelled", "counts.cancelled"),
    ("rejected", "counts.rejected"),
];

const TEXTS: [Column; 4] =
    [("earlier turns", "turns"), ("prompt", "prompt"), ("args", "args"), ("output", "output")];

/// The commands on tasks.
#[derive(Debug, Clone, Subcommand)]
pub enum Tasks {
    /// Submit a prompt, or the call of a function.
    Submit(Box<Submit>),
    /// List tasks, the newest first.
    List(Box<List>),
    /// Show a task with its prompt and its output.
    Show {
        /// The task.
        #[arg(value_parser = input::id)]
        id: String,
        #[command(flatten)]
        only: Only,
    },
    /// Cancel a task that has not ended.
    Cancel {
        /// The task.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Erase the texts of an ended task: prompt, context, output, edit and comment.
    ///
    /// Its status, usage and cost stay, and the history of its approval still verifies. The reason goes
    /// into the audit log. Requires the role admin.
    Erase {
        /// The task.
        #[arg(value_parser = input::id)]
        id: String,
        /// The reason, 1 to 256 characters.
        #[arg(long)]
        reason: String,
    },
    /// Submit a failed, cancelled or rejected task again, as a new task.
    Retry {
        /// The task.
        #[arg(value_parser = input::id)]
        id: String,
        /// Key that prevents a duplicate, so that the command is safe to repeat.
        #[arg(long, value_name = "KEY")]
        idempotency_key: Option<String>,
        /// Wait for the end of the new task; exit code 10 if it failed.
        #[arg(long)]
        wait: bool,
        #[command(flatten)]
        only: Only,
    },
    /// Show a batch with the number of its tasks in each status.
    Batch {
        /// The batch.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Submit one task for each record of a file; exit code 10 if a record was refused.
    ///
    /// After an interruption, run the same command again: FILE.state says where it continues.
    Import(import::Import),
    /// Write tasks with their prompts and outputs to a file, the oldest first.
    ///
    /// After an interruption, run the same command again: FILE.state says where it continues.
    Export(Box<export::Export>),
    /// Wait for the end of a task; exit code 10 if it failed.
    Wait {
        /// The task.
        #[arg(value_parser = input::id)]
        id: String,
        /// Maximum time to wait, such as 5m; exit code 8 after it.
        #[arg(long, value_parser = input::duration)]
        timeout: Option<Duration>,
        #[command(flatten)]
        only: Only,
    },
}

impl Tasks {
    /// True if the command wants the text of an output and does not wait for it.
    fn lacks_wait(&self) -> bool {
        match self {
            Self::Submit(asked) => asked.only.output_only && !asked.wait && !asked.stream,
            Self::Retry { wait, only, .. } => only.output_only && !*wait,
            Self::Show { .. }
            | Self::Wait { .. }
            | Self::List(_)
            | Self::Import(_)
            | Self::Export(_)
            | Self::Cancel { .. }
            | Self::Erase { .. }
            | Self::Batch { .. } => false,
        }
    }

    /// True if the command prints only the text of the output.
    fn output_only(&self) -> bool {
        match self {
            Self::Submit(asked) => asked.only.output_only,
            Self::Show { only, .. } | Self::Retry { only, .. } | Self::Wait { only, .. } => {
                only.output_only
            }
            Self::List(_)
            | Self::Import(_)
            | Self::Export(_)
            | Self::Cancel { .. }
            | Self::Erase { .. }
            | Self::Batch { .. } => false,
        }
    }
}

/// The submission.
#[derive(Debug, Clone, Args)]
pub struct Submit {
    /// Prompt for the model; `-` reads standard input.
    #[arg(required_unless_present_any = ["file", "function"], conflicts_with_all = ["file", "function"])]
    prompt: Option<String>,
    /// File with the prompt.
    #[arg(long, conflicts_with = "function")]
    file: Option<PathBuf>,
    /// Function that a worker calls in place of a model.
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Args of the function: a JSON object, or @FILE with one; by default none.
    #[arg(long, value_name = "JSON", requires = "function")]
    args: Option<String>,
    /// Uploaded file that the model sees with the prompt, or that the function reads; may be repeated.
    #[arg(long = "attach", value_name = "FILE_ID", value_parser = input::id)]
    files: Vec<String>,
    /// Model; by default the server's.
    #[arg(long)]
    model: Option<String>,
    /// Queue; by default `default`.
    #[arg(long)]
    queue: Option<String>,
    /// Priority from 1 to 10, 10 first; by default 5.
    #[arg(long)]
    priority: Option<u8>,
    /// System instructions.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Tag for filters; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    #[command(flatten)]
    labels: Labels,
    /// Maximum number of tokens in the answer.
    #[arg(long)]
    max_tokens: Option<u64>,
    /// Temperature, 0 to 1.
    #[arg(long)]
    temperature: Option<f64>,
    /// Seed of the choice of tokens, for providers that take one.
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<i64>,
    /// Share of the probability from which the next token is chosen, 0 to 1.
    #[arg(long)]
    top_p: Option<f64>,
    /// Sequence before which the output ends; may be repeated.
    #[arg(long)]
    stop: Vec<String>,
    /// Penalty for each earlier use of a token, -2 to 2.
    #[arg(long, allow_negative_numbers = true)]
    frequency_penalty: Option<f64>,
    /// Time limit of one attempt, such as 60s; by default 5m.
    #[arg(long, value_parser = input::duration)]
    timeout: Option<Duration>,
    /// Number of attempts, 1 to 20; by default 3.
    #[arg(long)]
    max_attempts: Option<u32>,
    /// Wait after the first failed attempt, such as 10s, doubled after each further one; by default 1s.
    #[arg(long, value_parser = input::duration)]
    backoff: Option<Duration>,
    /// Time before which no worker gets the task, such as 2026-12-01T06:00:00Z; by default none.
    #[arg(long, value_name = "TIME")]
    start_at: Option<String>,
    /// Hold the output for review, whatever its confidence.
    #[arg(long)]
    require_approval: bool,
    #[command(flatten)]
    gate: Gate,
    #[command(flatten)]
    flow: Box<Flow>,
    #[command(flatten)]
    shape: Box<shape::Shape>,
    /// Key that prevents a duplicate, so that the command is safe to repeat.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait for the end; exit code 10 if it failed, 8 if it timed out.
    #[arg(long)]
    wait: bool,
    /// Print the text as the model writes it; exit codes as with --wait.
    #[arg(long, conflicts_with = "wait")]
    stream: bool,
    /// Maximum time to wait, such as 5m.
    #[arg(long, requires = "wait", value_parser = input::duration, value_name = "DURATION")]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    only: Only,
}

/// The keys by which tasks run together or take turns.
#[derive(Debug, Clone, Args)]
struct Flow {
    /// At most `--concurrency-limit` tasks with this key run at the same time.
    #[arg(long, value_name = "KEY")]
    concurrency_key: Option<String>,
    /// Maximum number of running tasks with the key; by default 1.
    #[arg(long, value_name = "TASKS", requires = "concurrency_key")]
    concurrency_limit: Option<u32>,
    /// Rule at the limit: queue (by default), reject or `cancel_running`.
    #[arg(long, value_name = "RULE", requires = "concurrency_key")]
    on_conflict: Option<String>,
    /// Fairness key: keys of the same priority take turns in their queue.
    #[arg(long, value_name = "KEY")]
    fairness_key: Option<String>,
    /// Share of the turns, 1 to 100; by default 1.
    #[arg(long, requires = "fairness_key")]
    weight: Option<u8>,
}

/// The filters of a list of tasks.
#[derive(Debug, Clone, Args)]
pub struct List {
    /// Statuses, separated by commas: pending, running, completed, failed, cancelled, rejected.
    #[arg(long, value_delimiter = ',')]
    status: Vec<String>,
    /// The model.
    #[arg(long)]
    model: Option<String>,
    /// The queue.
    #[arg(long)]
    queue: Option<String>,
    /// Tasks of the rows of this batch; none for tasks outside batches.
    #[arg(long, value_name = "BATCH|none")]
    batch: Option<String>,
    /// Obstacles of pending tasks, separated by commas: worker, limit, paused, `queue_paused`, budget, backoff, approval,
    /// schedule.
    #[arg(long, value_delimiter = ',', value_name = "OBSTACLE")]
    waiting_for: Vec<String>,
    /// Tags, separated by commas; a task must have all of them.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Created at this time or later, such as 2026-11-21T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Created before this time.
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// The id, or beginnings of words of the title, the tags or the keys.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Completed, failed or rejected at this time or later.
    #[arg(long, value_name = "TIME")]
    ended_after: Option<String>,
    /// Completed, failed or rejected before this time.
    #[arg(long, value_name = "TIME")]
    ended_before: Option<String>,
    /// Order by createdAt, completedAt or priority.
    #[arg(long)]
    order_by: Option<String>,
    /// Direction of the order: asc or desc.
    #[arg(long)]
    order: Option<String>,
    /// Items to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// Items to skip.
    #[arg(long)]
    offset: Option<u64>,
}

/// Runs the command.
pub(super) async fn run(Remote { mut access, command }: Remote<Tasks>) -> Result<(), Failure> {
    if command.lacks_wait() {
        return Err(Failure::Usage("--output-only needs --wait here".into()));
    }
    access.output = access.output.text_only(command.output_only());
    let client = access.client()?;
    match command {
        Tasks::Submit(asked) => submit(&client, &access, *asked).await,
        Tasks::List(wanted) => {
            let page = client.page(wanted.call()).await?;
            access.output.list("tasks", &page, &COLUMNS)
        }
        Tasks::Show { id, .. } => {
            let task = client.data(Call::get(&["tasks", &id])).await?;
            access.output.item(&task, shown)
        }
        Tasks::Cancel { id } => {
            let task = client.data(Call::delete(&["tasks", &id])).await?;
            access.output.item(&task, shown)
        }
        Tasks::Erase { id, reason } => {
            let call = Call::delete(&["tasks", &id, "texts"]).json(&json!({"reason": reason}));
            access.output.item(&client.data(call).await?, shown)
        }
        Tasks::Retry { id, idempotency_key, wait, .. } => {
            let call = Call::post(&["tasks", &id, "retry"]);
            let task = client.data(call.idempotency_key(idempotency_key.as_deref())?).await?;
            warn(&task);
            match task["id"].as_str() {
                Some(id) if wait => {
                    status_line(&format!("{id} submitted"));
                    ended(&client, &access, id, None).await
                }
                _ => access.output.item(&task, shown),
            }
        }
        Tasks::Batch { id } => {
            let batch = client.data(Call::get(&["tasks", "batch", &id])).await?;
            access.output.item(&batch, |batch| details(batch, &BATCH, &[]))
        }
        Tasks::Import(import) => import.run(&client, &access).await,
        Tasks::Export(export) => export.run(&client).await,
        Tasks::Wait { id, timeout, .. } => ended(&client, &access, &id, timeout).await,
    }
}

async fn submit(client: &Client, access: &Access, asked: Submit) -> Result<(), Failure> {
    let body = asked.body()?;
    if let Some(words) = asked.gate.implied().filter(|_| !asked.require_approval) {
        status_line(words);
    }
    let key = asked.idempotency_key.as_deref();
    let call = Call::post(&["tasks"]).json(&body).idempotency_key(key)?;
    if asked.stream {
        let call = call.query("stream", Some(true)).events_after(None);
        let stream = EventStream::open(client, &call).await?;
        let task = stream::follow(client, access.output.format(), stream).await?;
        let is_shown = access.output.format() == Format::Table;
        let printed = if is_shown { Ok(()) } else { access.output.item(&task, shown) };
        return wait::conclude("task", &task, printed);
    }
    let task = client.data(call).await?;
    warn(&task);
    match task["id"].as_str() {
        Some(id) if asked.wait => {
            status_line(&format!("{id} submitted"));
            ended(client, access, id, asked.wait_timeout).await
        }
        _ => access.output.item(&task, shown),
    }
}

async fn ended(
    client: &Client,
    access: &Access,
    id: &str,
    limit: Option<Duration>,
) -> Result<(), Failure> {
    let task = wait::task(client, id, limit).await?;
    wait::conclude("task", &task, access.output.item(&task, shown))
}

fn shown(task: &Value) -> String {
    let mut task = task.clone();
    task["turns"] = turns::in_lines(&task["messages"]);
    details(&task, &FIELDS, &TEXTS)
}

impl Submit {
    fn body(&self) -> Result<Value, Failure> {
        let prompt = match (&self.prompt, &self.file) {
            (_, Some(file)) => Some(input::text(file)?),
            (Some(prompt), None) if prompt == "-" => Some(input::text("-".as_ref())?),
            (Some(prompt), None) => Some(prompt.clone()),
            (None, None) if self.function.is_some() => None,
            (None, None) => {
                return Err(Failure::Usage(
                    "a prompt is needed: as the argument, or with --file FILE".into(),
                ));
            }
        };
        let hitl = Body::default().flag("required", self.require_approval);
        let retry = Body::default()
            .set("maxAttempts", self.max_attempts)
            .set("backoffMs", self.backoff.map(input::millis));
        let task = Body::default()
            .set("prompt", prompt)
            .list("files", &self.files)
            .set("function", self.function.clone())
            .set("args", self.called_with()?)
            .set("model", self.model.clone())
            .set("queue", self.queue.clone())
            .set("priority", self.priority)
            .set("systemPrompt", self.system.clone())
            .list("tags", &self.tags)
            .set("maxTokens", self.max_tokens)
            .set("temperature", self.temperature)
            .set("seed", self.seed)
            .set("topP", self.top_p)
            .list("stop", &self.stop)
            .set("frequencyPenalty", self.frequency_penalty)
            .set("timeoutMs", self.timeout.map(input::millis))
            .object("retry", retry)
            .set("startAt", self.start_at.clone())
            .object("hitl", self.gate.add_to(hitl));
        Ok(self
            .shape
            .add_to(self.labels.add_to(task))?
            .set("concurrencyKey", self.flow.concurrency_key.clone())
            .set("concurrencyLimit", self.flow.concurrency_limit)
            .set("onConflict", self.flow.on_conflict.clone())
            .set("fairnessKey", self.flow.fairness_key.clone())
            .set("weight", self.flow.weight)
            .value())
    }
}

impl Submit {
    /// The args of the function.
    fn called_with(&self) -> Result<Option<Value>, Failure> {
        let Some(args) = self.args.as_deref() else { return Ok(None) };
        if let Some(file) = args.strip_prefix('@') {
            return Ok(Some(Value::Object(input::object(file.as_ref())?)));
        }
        let value = input::json_value(args);
        let object = value.ok().filter(Value::is_object);
        let missing = || Failure::Usage("--args must be a JSON object, or @FILE with one".into());
        object.map(Some).ok_or_else(missing)
    }
}

impl List {
    fn call(&self) -> Call<'_> {
        Call::get(&["tasks"])
            .commas("status", &self.status)
            .query("model", self.model.as_ref())
            .query("queue", self.queue.as_ref())
            .query("batch", self.batch.as_ref())
            .commas("waitingFor", &self.waiting_for)
            .commas("tags", &self.tags)
            .query("createdAfter", self.created_after.as_ref())
            .query("createdBefore", self.created_before.as_ref())
            .query("search", self.search.as_ref())
            .query("endedAfter", self.ended_after.as_ref())
            .query("endedBefore", self.ended_before.as_ref())
            .query("orderBy", self.order_by.as_ref())
            .query("order", self.order.as_ref())
            .query("limit", self.limit)
            .query("offset", self.offset)
    }
}
