//! `cargo bench --bench load -- …` is `callboard bench …`, built for it and on a disk of the target
//! directory. All of it is in `crates/bench`.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    // cargo adds `--bench`.
    let asked = std::env::args_os().skip(1).filter(|argument| argument != "--bench");
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.args(["bench", "--directory", env!("CARGO_TARGET_TMPDIR")]);
    // Comes back only if it could not be started.
    let error = command.args(asked).exec();
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{error}\n"));
    ExitCode::FAILURE
}
