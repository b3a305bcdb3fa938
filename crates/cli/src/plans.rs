//! `callboard plans`.

use std::path::PathBuf;

use callboard_client::Call;
use clap::{Args, Subcommand};
use serde_json::Map;

use super::access::Remote;
use super::failure::Failure;
use super::input::{self, Body};
use super::output::{Column, details, table};
use super::start::Start;

const COLUMNS: [Column; 5] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("TAGS", "tags"),
    ("CREATED", "createdAt"),
    ("DESCRIPTION", "description"),
];

const STEPS: [Column; 6] = [
    ("STEP", "id"),
    ("AFTER", "dependsOn"),
    ("MODEL", "model"),
    ("QUEUE", "queue"),
    ("SIGNAL", "signal"),
    ("CONDITION", "condition"),
];

/// The commands on plans.
#[derive(Debug, Clone, Subcommand)]
pub enum Plans {
    /// Create a plan from a file.
    Create {
        /// The plan, in JSON or YAML; `-` reads standard input.
        file: PathBuf,
    },
    /// List plans, the newest first.
    List(List),
    /// Show a plan with its steps.
    Show {
        /// The plan.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Run a plan.
    Execute {
        /// The plan.
        #[arg(value_parser = input::id)]
        id: String,
        /// The start of the execution.
        #[command(flatten)]
        start: Box<Start>,
    },
}

/// The filters of a list of plans.
#[derive(Debug, Clone, Args)]
pub struct List {
    /// Tags, separated by commas; a plan must have all of them.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Text in the name or the description.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Items to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// Items to skip.
    #[arg(long)]
    offset: Option<u64>,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Plans>) -> Result<(), Failure> {
    let client = access.client()?;
    let plan = match command {
        Plans::Create { file } => {
            let plan = input::document(&file)?;
            client.data(Call::post(&["plans"]).json(&plan)).await?
        }
        Plans::List(wanted) => {
            let call = Call::get(&["plans"])
                .commas("tags", &wanted.tags)
                .query("search", wanted.search.as_ref())
                .query("limit", wanted.limit)
                .query("offset", wanted.offset);
            return access.output.list("plans", &client.page(call).await?, &COLUMNS);
        }
        Plans::Show { id } => client.data(Call::get(&["plans", &id])).await?,
        Plans::Execute { id, start } => {
            let call = Call::post(&["plans", &id, "execute"]);
            return start.send(&client, &access, call, Body::default(), Map::new()).await;
        }
    };
    access.output.item(&plan, |plan| {
        let fields = COLUMNS.map(|(_, path)| (path, path));
        let steps = plan["steps"].as_array().cloned().unwrap_or_default();
        format!("{}\n{}", details(plan, &fields, &[]), table(&STEPS, &steps))
    })
}
