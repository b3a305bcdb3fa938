//! `callboard cluster`.

use callboard_client::Call;
use clap::Subcommand;
use serde_json::json;

use super::access::Remote;
use super::failure::Failure;
use super::input;
use super::output::{Column, details};

const COLUMNS: [Column; 9] = [
    ("ID", "id"),
    ("ADDRESS", "address"),
    ("VERSION", "version"),
    ("STATUS", "status"),
    ("DRAINING", "draining"),
    ("PARTITIONS", "partitions"),
    ("EXPIRES IN MS", "expiresInMs"),
    ("TERM MS", "termMs"),
    ("HEARD MS AGO", "lastHeardMs"),
];

/// The commands on the nodes of a cluster.
#[derive(Debug, Clone, Subcommand)]
pub enum Cluster {
    /// List the nodes.
    Status {
        /// Items to list, 1 to 100; by default 20.
        #[arg(long)]
        limit: Option<u64>,
        /// Items to skip.
        #[arg(long)]
        offset: Option<u64>,
    },
    /// Have a node hand its work to another one, before it is stopped.
    Drain {
        /// The node.
        #[arg(value_parser = input::id)]
        id: String,
        /// Let the node take work again.
        #[arg(long)]
        undo: bool,
    },
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Cluster>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Cluster::Status { limit, offset } => {
            let call = Call::get(&["cluster"]).query("limit", limit).query("offset", offset);
            access.output.list("nodes", &client.page(call).await?, &COLUMNS)
        }
        Cluster::Drain { id, undo } => {
            let change = json!({"draining": !undo});
            let node = client.data(Call::patch(&["cluster", "nodes", &id]).json(&change)).await?;
            let fields = COLUMNS.map(|(_, path)| (path, path));
            access.output.item(&node, |node| details(node, &fields, &[]))
        }
    }
}
