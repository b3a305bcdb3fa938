//! `callboard compact`.

use callboard_cli::process::announce;

use super::serve::start;
use super::{Compact, Serve};
use crate::service;

/// Compacts the store, and prints the result.
pub(super) fn run(asked: Compact) -> Result<(), String> {
    let Compact { data_dir, config } = asked;
    let config = start(&Serve {
        listen: None,
        data_dir,
        store: None,
        config,
        init: false,
        check: false,
        paused: false,
    })?;
    let done = service::compact(&config).map_err(|error| error.to_string())?;
    let megabytes = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    announce(&format!("{} before, {} now", megabytes(done.before), megabytes(done.after)));
    Ok(())
}
