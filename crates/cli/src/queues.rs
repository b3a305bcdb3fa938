//! `callboard queues`.

use callboard_client::Call;
use clap::{ArgGroup, Args, Subcommand};
use serde_json::Value;

use super::access::Remote;
use super::bulk;
use super::failure::Failure;
use super::input::{Body, Window};
use super::output::{Column, details};

const COLUMNS: [Column; 8] = [
    ("NAME", "name"),
    ("READY", "depth"),
    ("OLDEST", "oldestAt"),
    ("RUNNING", "running"),
    ("WORKERS", "workers"),
    ("PAUSED", "paused"),
    ("CONCURRENT", "concurrent"),
    ("PER MINUTE", "requestsPerMinute"),
];

/// The commands on queues.
#[derive(Debug, Clone, Subcommand)]
pub enum Queues {
    /// List the queues that have ready tasks, workers or limits.
    List(Window),
    /// Pause a queue: no task of it starts; running tasks continue.
    Pause {
        /// The queue.
        name: String,
    },
    /// Resume a paused queue.
    Resume {
        /// The queue.
        name: String,
    },
    /// Set the limits of a queue.
    Limit(Limit),
    /// Cancel the pending tasks of a queue in the background, held outputs included.
    Purge {
        /// The queue.
        name: String,
        /// Expected number of pending tasks; with another number nothing is cancelled.
        #[arg(long, value_name = "TASKS")]
        expect: Option<u64>,
        /// Only count the pending tasks.
        #[arg(long)]
        dry_run: bool,
    },
}

/// The limits of a queue.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("limits").required(true).multiple(true)))]
pub struct Limit {
    /// The queue.
    name: String,
    /// Maximum number of running tasks; 0 removes the limit.
    #[arg(long, value_name = "TASKS", group = "limits")]
    concurrent: Option<u32>,
    /// Maximum number of started tasks in any 60 seconds; 0 removes the limit.
    #[arg(long, value_name = "LEASES", group = "limits")]
    requests_per_minute: Option<u32>,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Queues>) -> Result<(), Failure> {
    let client = access.client()?;
    let (name, change) = match command {
        Queues::List(window) => {
            let page = client.page(window.of(Call::get(&["queues"]))).await?;
            return access.output.list("queues", &page, &COLUMNS);
        }
        Queues::Purge { name, expect, dry_run } => {
            let filter = Body::default().list("status", &["pending".into()]);
            let body = Body::default()
                .set("action", Some("cancel"))
                .object("filter", filter.set("queue", Some(name)))
                .set("expect", expect)
                .flag("dryRun", dry_run);
            let job = client.data(Call::post(&["bulk"]).json(&body.value())).await?;
            return access.output.item(&job, bulk::shown);
        }
        Queues::Pause { name } => (name, Body::default().set("paused", Some(true))),
        Queues::Resume { name } => (name, Body::default().set("paused", Some(false))),
        Queues::Limit(Limit { name, concurrent, requests_per_minute }) => {
            let limits = Body::default().set("concurrent", concurrent);
            (name, limits.set("requestsPerMinute", requests_per_minute))
        }
    };
    let queue = client.data(Call::patch(&["queues", &name]).json(&change.value())).await?;
    access.output.item(&queue, shown)
}

fn shown(queue: &Value) -> String {
    details(queue, &COLUMNS.map(|(_, path)| (path, path)), &[])
}
