//! A pager for lists that are longer than the terminal.
//!
//! Deliberately absent: a pager in a pipe, and one that a user refused with `PAGER=cat` or `PAGER=`.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use super::screen::Screen;
use crate::failure::Failure;

/// Writes to standard output, through the pager if the text is longer than the terminal.
pub(super) fn print(text: &str, screen: &Screen) -> Result<(), Failure> {
    let Screen::Terminal { height, .. } = screen else { return super::print(text) };
    let is_long = text.lines().count() >= *height;
    match program(|name| std::env::var(name).ok()) {
        Some(program) if is_long && io::stdin().is_terminal() => match paged(&program, text) {
            Ok(()) => Ok(()),
            // The pager does not exist: the text must be shown all the same.
            Err(_) => super::print(text),
        },
        _ => super::print(text),
    }
}

/// The pager that the user chose, else `less`; `None` if the user wants none.
fn program(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let chosen = variable("CALLBOARD_PAGER").or_else(|| variable("PAGER"));
    let chosen = chosen.unwrap_or_else(|| "less".to_owned());
    let chosen = chosen.trim();
    (!chosen.is_empty() && chosen != "cat").then(|| chosen.to_owned())
}

fn paged(program: &str, text: &str) -> io::Result<()> {
    // Ctrl-C is the pager's while it runs; this process waits for its end. Outside of a runtime the
    // handler cannot be set, and is not needed.
    let _ctrl_c = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt());
    let mut words = program.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(program));
    command.args(words).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // `LESS` shows colours, prints a text of one page directly, and leaves the text on the
        // screen.
        command.env("LESS", "FRX");
    }
    let mut pager = command.spawn()?;
    if let Some(mut stdin) = pager.stdin.take() {
        // The reader may leave before the end.
        let _ = stdin.write_all(text.as_bytes());
    }
    pager.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_chooses_the_pager_or_none() {
        let chosen = |name: &'static str, value: &'static str| {
            program(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(chosen("X", "").as_deref(), Some("less"));
        assert_eq!(chosen("PAGER", "most -s").as_deref(), Some("most -s"));
        assert_eq!(chosen("CALLBOARD_PAGER", "more").as_deref(), Some("more"));
        assert_eq!(chosen("PAGER", "cat"), None);
        assert_eq!(chosen("PAGER", ""), None);
    }
}
