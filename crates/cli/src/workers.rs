//! `callboard workers`.

use callboard_client::Call;
use clap::Subcommand;

use super::access::Remote;
use super::failure::Failure;
use super::input;
use super::output::{Column, details};

const COLUMNS: [Column; 8] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("STATUS", "status"),
    ("RUNNING", "running"),
    ("OF", "concurrency"),
    ("QUEUES", "queues"),
    ("MODELS", "models"),
    ("LAST HEARTBEAT", "lastHeartbeatAt"),
];

/// The commands on workers.
#[derive(Debug, Clone, Subcommand)]
pub enum Workers {
    /// List workers; lost ones are listed for an hour.
    List {
        /// Items to list, 1 to 100; by default 20.
        #[arg(long)]
        limit: Option<u64>,
        /// Items to skip.
        #[arg(long)]
        offset: Option<u64>,
    },
    /// Drain a worker: it finishes its tasks and takes no new ones.
    Drain {
        /// The worker.
        #[arg(value_parser = input::id)]
        id: String,
    },
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Workers>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Workers::List { limit, offset } => {
            let call = Call::get(&["workers"]).query("limit", limit).query("offset", offset);
            access.output.list("workers", &client.page(call).await?, &COLUMNS)
        }
        Workers::Drain { id } => {
            let worker = client.data(Call::post(&["workers", &id, "drain"])).await?;
            let fields = COLUMNS.map(|(_, path)| (path, path));
            access.output.item(&worker, |worker| details(worker, &fields, &[]))
        }
    }
}
