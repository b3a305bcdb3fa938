//! `callboard migrate`.

use callboard_cli::process::{announce, block_on};

use super::serve::start;
use super::{Migrate, Serve};
use crate::engine;

/// Copies the store, and says how much it was.
pub(super) fn run(asked: Migrate) -> Result<(), String> {
    let Migrate { from, to, config } = asked;
    let config = start(&Serve { listen: None, data_dir: Some(from), store: Some(to), config })?;
    let done = block_on(engine::migrate(&config))?;
    announce(&format!(
        "{} rows, {}.{} MB: copied and compared",
        done.rows,
        done.bytes / 1_000_000,
        done.bytes / 100_000 % 10
    ));
    announce("give each node a copy of signing.key and webhook.secret from the data directory");
    Ok(())
}
