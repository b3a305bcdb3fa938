//! `callboard compact`.

use super::Compact;
use super::serve::{announce, begin};
use crate::config::{Config, Flags};
use crate::service;

/// Compacts the store, and says what came of it.
pub(super) fn run(asked: &Compact) -> Result<(), String> {
    let flags = Flags {
        config: asked.config.clone(),
        listen: None,
        data_dir: asked.data_dir.as_ref().map(|dir| dir.display().to_string()),
    };
    begin()?;
    let config = Config::load(flags, Config::environment()).map_err(|error| error.to_string())?;
    let done = service::compact(&config).map_err(|error| error.to_string())?;
    let megabytes = |bytes: u64| format!("{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10);
    announce(&format!("{} before, {} now", megabytes(done.before), megabytes(done.after)));
    Ok(())
}
