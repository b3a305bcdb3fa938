//! `callboard functions`.

use callboard_client::Call;
use clap::Subcommand;

use super::access::Remote;
use super::failure::Failure;
use super::output::Column;

const COLUMNS: [Column; 3] =
    [("NAME", "name"), ("WORKERS", "workers"), ("DESCRIPTION", "description")];

/// The commands on functions.
#[derive(Debug, Clone, Subcommand)]
pub enum Functions {
    /// List the functions that connected workers run; `-o json` shows their schemas.
    List {
        /// Items to list, 1 to 100; by default 20.
        #[arg(long)]
        limit: Option<u64>,
        /// Items to skip.
        #[arg(long)]
        offset: Option<u64>,
    },
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Functions>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Functions::List { limit, offset } => {
            let call = Call::get(&["functions"]).query("limit", limit).query("offset", offset);
            access.output.list("functions", &client.page(call).await?, &COLUMNS)
        }
    }
}
