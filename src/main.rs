//! The `callboard` program.

use std::process::ExitCode;

use callboard::cli;
use callboard_cli::completions;

/// A quarter of a busy server's time went into the system's allocator, which also kept memory that had
/// been freed (docs/performance.md). A thread of its own gives back memory that has not been used for
/// ten seconds, also while the server has nothing to do.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    completions::answer(cli::command);
    ExitCode::from(cli::run(cli::read(std::env::args_os())))
}
