//! The `callboard` program.

use std::process::ExitCode;

use callboard::cli;
use callboard_cli::completions;

fn main() -> ExitCode {
    completions::answer(cli::command);
    ExitCode::from(cli::run(cli::read(std::env::args_os())))
}
