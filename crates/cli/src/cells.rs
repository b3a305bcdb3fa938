//! `callboard cells`.

use callboard_client::Call;
use clap::Subcommand;
use serde_json::{Value, json};

use super::access::Remote;
use super::failure::Failure;
use super::input::Window;
use super::output::{Column, details};

const COLUMNS: [Column; 6] = [
    ("NAME", "name"),
    ("STATUS", "status"),
    ("HEALTH", "health.status"),
    ("PROJECTS", "projects"),
    ("SEEN", "seenAt"),
    ("NODES", "nodes"),
];

/// The commands on cells.
#[derive(Debug, Clone, Subcommand)]
pub enum Cells {
    /// List the cells, home first.
    List(Window),
    /// Add a cell, or give one other addresses.
    Add {
        /// The name: lower-case letters, digits and -.
        name: String,
        /// Address of one of its nodes; may be repeated.
        #[arg(long = "node", value_name = "URL", required = true)]
        nodes: Vec<String>,
    },
    /// Remove a cell that has no project.
    Remove {
        /// The name.
        name: String,
    },
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Cells>) -> Result<(), Failure> {
    let client = access.client()?;
    let cell = match command {
        Cells::List(window) => {
            let page = client.page(window.of(Call::get(&["cells"]))).await?;
            return access.output.list("cells", &page, &COLUMNS);
        }
        Cells::Add { name, nodes } => {
            let body = json!({"name": name, "nodes": nodes});
            client.data(Call::post(&["cells"]).json(&body)).await?
        }
        Cells::Remove { name } => client.data(Call::delete(&["cells", &name])).await?,
    };
    access
        .output
        .item(&cell, |cell: &Value| details(cell, &COLUMNS.map(|(_, path)| (path, path)), &[]))
}
