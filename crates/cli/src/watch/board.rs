//! The steps of an execution on a terminal, one line each, redrawn in place.
//!
//! Deliberately absent: colour, and a hidden cursor, which a killed program would leave behind.

use std::io::{self, Write};

use rustix::termios::tcgetwinsize;

use super::step::Step;
use crate::failure::Failure;
use crate::output::escaped;

/// The last drawing.
#[derive(Debug, Default)]
pub(super) struct Board {
    lines: usize,
}

impl Board {
    /// True if the terminal has room for so many steps; lines that scrolled away cannot be redrawn.
    pub(super) fn has_room_for(steps: usize) -> bool {
        tcgetwinsize(io::stderr()).is_ok_and(|size| steps + 2 < usize::from(size.ws_row))
    }

    /// Draws the steps over those drawn last, and `below` under them, each on a line of its own.
    pub(super) fn draw(&mut self, steps: &[Step], below: &[String]) -> Result<(), Failure> {
        let width = tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col)).max(20);
        let text = drawn(self.lines, steps, below, width);
        self.lines = steps.len() + below.len();
        write(&text)
    }

    /// Clears the steps, so that other lines can be written.
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        let lines = std::mem::take(&mut self.lines);
        if lines == 0 { Ok(()) } else { write(&format!("\u{1b}[{lines}A\r\u{1b}[J")) }
    }
}

fn write(text: &str) -> Result<(), Failure> {
    let mut terminal = io::stderr().lock();
    let written = terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush());
    written.map_err(|_| Failure::OutputClosed)
}

/// Moves up to the first of the lines drawn before, replaces each old line, and clears the rest.
fn drawn(before: usize, steps: &[Step], below: &[String], width: usize) -> String {
    let widest = steps.iter().map(|step| step.id.chars().count()).max().unwrap_or(0);
    let mut text = if before == 0 { String::new() } else { format!("\u{1b}[{before}A") };
    for step in steps {
        let Step { id, status, duration, error, .. } = step;
        let duration = duration.as_deref().unwrap_or_default();
        let error = error.as_deref().unwrap_or_default();
        let line = format!("{id:widest$}  {status:18}  {duration:>12}  {error}");
        text.push_str(&cleared(&line, width));
    }
    for line in below {
        text.push_str(&cleared(line, width));
    }
    text.push_str("\u{1b}[J");
    text
}

/// A text as exactly one line of the terminal.
fn cleared(line: &str, width: usize) -> String {
    let line: String = escaped(line).chars().take(width - 1).collect();
    format!("\r\u{1b}[2K{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_is_drawn_over_the_one_before_and_never_wraps() {
        let step = Step {
            id: "extract".into(),
            status: "failed".into(),
            duration: Some("1.0 s".into()),
            error: Some("\u{1b}]0;title\u{7} and much more that does not fit".into()),
            since: None,
            next: None,
        };
        let text = drawn(2, &[step], &["1 of 1".into()], 60);
        assert!(text.starts_with("\u{1b}[2A\r\u{1b}[2Kextract  failed "), "{text:?}");
        assert!(text.ends_with("1 of 1\n\u{1b}[J"), "older lines below are erased: {text:?}");
        let text = text.trim_end_matches("\u{1b}[J");
        assert_eq!(text.lines().count(), 2);
        assert!(!text.contains('\u{7}') && !text.contains("\u{1b}]"));
        let longest = text.lines().map(|line| line.trim_start_matches("\u{1b}[2A").len());
        assert!(longest.max().unwrap() <= 60 + "\r\u{1b}[2K".len(), "{text:?}");
    }
}
