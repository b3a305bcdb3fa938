//! `callboard bulk`.

use callboard_client::{Call, Client};
use clap::{Args, Subcommand};
use serde_json::Value;

use super::access::Remote;
use super::failure::Failure;
use super::input::{self, Body, Window};
use super::output::{Column, details};
use super::wait;

const COLUMNS: [Column; 9] = [
    ("ID", "id"),
    ("ACTION", "action"),
    ("OF", "of"),
    ("STATUS", "status"),
    ("TOTAL", "total"),
    ("SUCCEEDED", "succeeded"),
    ("SKIPPED", "skipped"),
    ("FAILED", "failed"),
    ("CREATED", "createdAt"),
];

/// The commands on many tasks and executions.
#[derive(Debug, Clone, Subcommand)]
pub enum Bulk {
    /// Cancel every matching task or execution that has not ended.
    #[command(disable_version_flag = true)]
    Cancel(Start),
    /// Run everything again that matches and failed, was cancelled or was rejected.
    #[command(disable_version_flag = true)]
    Retry(Start),
    /// Change the priority of every matching task that waits for a worker.
    #[command(disable_version_flag = true)]
    Reprioritize {
        /// Priority from 1 to 10, 10 first.
        priority: u8,
        #[command(flatten)]
        start: Start,
    },
    /// Reject every matching output that waits for a reviewer.
    #[command(disable_version_flag = true)]
    Reject {
        /// Reason that the approvals record.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        start: Start,
    },
    /// Erase the texts of every matching task and execution that has ended.
    ///
    /// Without --of, both kinds are erased: executions with all their tasks, and tasks that were submitted alone.
    /// Tags, status, usage and cost stay. The reason, and a report at the end, go into the audit log. Requires the
    /// role admin.
    #[command(disable_version_flag = true)]
    Erase {
        /// The reason, 1 to 256 characters.
        #[arg(long, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        start: Start,
    },
    /// Show a job and its progress.
    Show {
        /// The job.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// End a job; what it has done stays.
    Stop {
        /// The job.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// List jobs, the newest first.
    List(Window),
}

/// The items of a job, and its options.
#[derive(Debug, Clone, Args)]
pub struct Start {
    /// Kind of items: tasks, executions or all. By default tasks; for erase all that the filters can match.
    #[arg(long, value_name = "KIND")]
    of: Option<String>,
    /// Statuses, separated by commas: pending, running, completed, failed, cancelled, rejected.
    #[arg(long, value_delimiter = ',')]
    status: Vec<String>,
    /// The model.
    #[arg(long)]
    model: Option<String>,
    /// The queue, or several with commas between them.
    #[arg(long)]
    queue: Option<String>,
    /// Tasks of the rows of this batch; none for tasks outside batches.
    #[arg(long, value_name = "BATCH|none")]
    batch: Option<String>,
    /// Obstacles of pending tasks, separated by commas: worker, limit, paused, `queue_paused`, budget, backoff, approval,
    /// schedule.
    #[arg(long, value_delimiter = ',', value_name = "OBSTACLE")]
    waiting_for: Vec<String>,
    /// The template of the executions.
    #[arg(long)]
    template: Option<String>,
    /// The version of the template.
    #[arg(long, requires = "template")]
    version: Option<String>,
    /// Beginnings of words of title, tags and keys, or an id.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Tags, separated by commas; an item must have all of them.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Created at this time or later, such as 2026-11-21T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Created before this time.
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Completed, failed or rejected at this time or later.
    #[arg(long, value_name = "TIME")]
    ended_after: Option<String>,
    /// Completed, failed or rejected before this time.
    #[arg(long, value_name = "TIME")]
    ended_before: Option<String>,
    /// Expected number of matching items; with another number the job does nothing.
    #[arg(long, value_name = "NUMBER")]
    expect: Option<u64>,
    /// Only count the matching items.
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Key that prevents a second job, so that the command is safe to repeat.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait until the job has acted on every item.
    #[arg(long)]
    wait: bool,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Bulk>) -> Result<(), Failure> {
    let client = access.client()?;
    let is_awaited = command.is_awaited();
    let job = match command {
        Bulk::List(window) => {
            let page = client.page(window.of(Call::get(&["bulk"]))).await?;
            return access.output.list("jobs", &page, &COLUMNS);
        }
        Bulk::Show { id } => client.data(Call::get(&["bulk", &id])).await?,
        Bulk::Stop { id } => client.data(Call::delete(&["bulk", &id])).await?,
        Bulk::Cancel(start) => start.run(&client, Body::default(), "cancel").await?,
        Bulk::Retry(start) => start.run(&client, Body::default(), "retry").await?,
        Bulk::Reprioritize { priority, start } => {
            let body = Body::default().set("priority", Some(priority));
            start.run(&client, body, "reprioritize").await?
        }
        Bulk::Reject { reason, start } => {
            let body = Body::default().set("reason", Some(reason));
            start.run(&client, body, "reject").await?
        }
        Bulk::Erase { reason, start } => {
            let body = Body::default().set("reason", Some(reason));
            start.run(&client, body, "erase").await?
        }
    };
    let printed = access.output.item(&job, shown);
    let (id, failed) = (job["id"].as_str().unwrap_or_default(), job["failed"].as_u64());
    if is_awaited && job["status"] == "cancelled" {
        let reason = job["reason"].as_str().unwrap_or_default();
        return Err(Failure::WorkFailed(format!("the job {id} was stopped: {reason}")));
    }
    match failed.filter(|failed| is_awaited && *failed > 0) {
        Some(failed) => Err(Failure::WorkFailed(format!(
            "the job {id} failed for {failed} of {} items",
            job["total"]
        ))),
        None => printed,
    }
}

/// A job in words.
pub(super) fn shown(job: &Value) -> String {
    let more = ["erased.executions", "erased.tasks", "erased.signals", "why"];
    let shown: Vec<_> = COLUMNS.map(|(_, path)| path).into_iter().chain(more).collect();
    let shown: Vec<_> = shown.into_iter().map(|path| (path, path)).collect();
    details(job, &shown, &[])
}

impl Bulk {
    /// True if the command waits for the end of its job.
    const fn is_awaited(&self) -> bool {
        match self {
            Self::Cancel(start)
            | Self::Retry(start)
            | Self::Reprioritize { start, .. }
            | Self::Reject { start, .. }
            | Self::Erase { start, .. } => start.wait,
            Self::Show { .. } | Self::Stop { .. } | Self::List(_) => false,
        }
    }
}

impl Start {
    async fn run(&self, client: &Client, body: Body, action: &str) -> Result<Value, Failure> {
        let filter = Body::default()
            .list("status", &self.status)
            .set("model", self.model.clone())
            .set("queue", self.queue.clone())
            .set("batch", self.batch.clone())
            .list("waitingFor", &self.waiting_for)
            .set("templateId", self.template.clone())
            .set("version", self.version.clone())
            .set("search", self.search.clone())
            .list("tags", &self.tags)
            .set("createdAfter", self.created_after.clone())
            .set("createdBefore", self.created_before.clone())
            .set("endedAfter", self.ended_after.clone())
            .set("endedBefore", self.ended_before.clone());
        let body = body
            .set("action", Some(action))
            .set("of", self.of.clone())
            .set("filter", Some(filter.value()))
            .set("expect", self.expect)
            .flag("dryRun", self.dry_run);
        let call = Call::post(&["bulk"]).json(&body.value());
        let job = client.data(call.idempotency_key(self.idempotency_key.as_deref())?).await?;
        match job["id"].as_str() {
            Some(id) if self.wait => wait::bulk_job(client, id).await,
            _ => Ok(job),
        }
    }
}
