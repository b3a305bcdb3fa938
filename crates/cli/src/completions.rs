//! `callboard completions`.

pub use clap_complete::Shell;

use crate::{exit, output};

/// Writes the script with which `shell` completes `command`, to standard output. Returns the exit code.
#[must_use]
pub fn run(shell: Shell, command: &mut clap::Command) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "callboard", &mut script);
    exit(&output::print(&String::from_utf8_lossy(&script)))
}
