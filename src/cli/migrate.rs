//! `callboard migrate`.

use callboard_cli::process::{announce, block_on};

use super::serve::start;
use super::{Migrate, Serve};
use crate::backend;

/// Copies the store, and prints the number of rows and bytes.
pub(super) fn run(asked: Migrate) -> Result<(), String> {
    let Migrate { from, to, config } = asked;
    let config = start(&Serve {
        listen: None,
        data_dir: Some(from),
        store: Some(to),
        config,
        init: false,
        check: false,
        paused: false,
    })?;
    let done = block_on(backend::migrate(&config))?;
    announce(&format!(
        "{} rows, {}.{} MB: {}",
        done.rows,
        done.bytes / 1_000_000,
        done.bytes / 100_000 % 10,
        if done.was_there { "copied before, and compared" } else { "copied and compared" }
    ));
    announce("give each node a copy of signing.key and webhook.secret from the data directory");
    Ok(())
}
