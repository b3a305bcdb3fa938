//! `callboard manual DIRECTORY`: the man pages of the program, for packages. The command is hidden.
//!
//! Deliberately absent: text of their own; the pages are the help of each command.

use std::fs;
use std::path::Path;

use callboard_cli::process::announce;

/// Writes `callboard.1`, and a page for each command: `callboard-tasks.1`, `callboard-tasks-submit.1`.
pub(super) fn run(directory: &Path) -> Result<(), String> {
    let cannot = |error: &dyn std::fmt::Display| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(|error| cannot(&error))?;
    // Without a date, two builds of one program make the same pages.
    clap_mangen::generate_to(super::command(), directory).map_err(|error| cannot(&error))?;
    announce(&format!("wrote the man pages to {}", directory.display()));
    Ok(())
}
