//! `callboard completions`, and the completion of words and values.
//!
//! The script of a shell calls the program with the line so far, and the program answers with words. Ids
//! and names come from the server that the command itself would use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use crate::failure::Failure;
use crate::{exit, output};

mod server;
mod values;

/// The variable by which a shell's script asks for completions.
const VARIABLE: &str = "_CALLBOARD_COMPLETE";

/// Answers a shell's script and ends the process, if a script called the program.
pub fn answer(command: impl Fn() -> clap::Command) {
    CompleteEnv::with_factory(|| values::known(command())).var(VARIABLE).complete();
}

/// Writes the script with which `shell` completes the program, to standard output. Returns the exit code.
#[must_use]
pub fn run(shell: Shell) -> u8 {
    exit(&script(shell, std::env::args_os().next()).and_then(|script| output::print(&script)))
}

/// The script; `called` is the path by which the program was called.
fn script(shell: Shell, called: Option<OsString>) -> Result<String, Failure> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let unknown = || Failure::Usage(format!("there are no completions for {name}"));
    let shell = shells.completer(&name).ok_or_else(unknown)?;
    let program = program(called).display().to_string();
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "callboard", "callboard", &program, &mut script)
        .map_err(|error| Failure::Other(format!("the script cannot be made: {error}")))?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// The program that the script calls: by its name if it was found on the path, else by its place.
fn program(called: Option<OsString>) -> PathBuf {
    let called = called.map_or_else(|| PathBuf::from("callboard"), PathBuf::from);
    if called.components().count() > 1 { absolute(&called) } else { called }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_calls_the_program_where_it_is() {
        let script = |called: &str| script(Shell::Bash, Some(called.into())).unwrap();
        assert!(script("callboard").contains("\"callboard\" -- "), "{}", script("callboard"));
        assert!(script("/opt/callboard").contains("\"/opt/callboard\" -- "));
        for shell in [Shell::Zsh, Shell::Fish, Shell::Elvish, Shell::PowerShell] {
            assert!(super::script(shell, None).unwrap().contains(VARIABLE));
        }
    }
}
