//! Standard output: a terminal of some width, or a pipe or file.
//!
//! Deliberately absent: themes. The eight colours of a terminal follow the user's own scheme, light
//! or dark, and a colour only repeats a word of the text.

use std::io::{self, IsTerminal};

use jiff::Timestamp;
use rustix::termios::tcgetwinsize;

/// The output of a table.
#[derive(Debug, Clone, Copy)]
pub(super) enum Screen {
    /// A pipe or a file: whole and exact.
    Plain,
    Terminal {
        /// The terminal's columns.
        width: usize,
        /// The terminal's lines.
        height: usize,
        /// True if the terminal takes colours.
        colour: bool,
        /// The instant that relative times refer to.
        now: Timestamp,
    },
}

/// A colour or weight, as the number of its escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    /// The headings of the columns, in order.
    Bold = 1,
    /// States that ended without a result: cancelled, skipped.
    Dim = 2,
    /// States that failed, and warnings.
    Red = 31,
    /// States that ended well.
    Green = 32,
    /// States that wait for a person.
    Yellow = 33,
    /// States that are running.
    Cyan = 36,
}

impl Screen {
    /// The state of standard output.
    pub(super) fn of_stdout() -> Self {
        let out = io::stdout();
        if !out.is_terminal() {
            return Self::Plain;
        }
        let size = tcgetwinsize(&out).ok();
        // A terminal that does not know its size reports 0.
        let or = |given: Option<u16>, usual: usize| {
            given.map(usize::from).filter(|given| *given > 0).unwrap_or(usual)
        };
        Self::Terminal {
            width: or(size.map(|size| size.ws_col), 80).max(20),
            height: or(size.map(|size| size.ws_row), 24),
            colour: takes_colour(|name| std::env::var(name).ok()),
            now: Timestamp::now(),
        }
    }

    /// The width that lines must not exceed; `None` without a limit.
    pub(super) const fn width(&self) -> Option<usize> {
        match self {
            Self::Plain => None,
            Self::Terminal { width, .. } => Some(*width),
        }
    }

    /// The instant that relative times refer to; `None` for exact times.
    pub(super) const fn now(&self) -> Option<Timestamp> {
        match self {
            Self::Plain => None,
            Self::Terminal { now, .. } => Some(*now),
        }
    }

    /// The text in a colour, if the screen takes colours.
    pub(super) fn paint(&self, text: &str, paint: Option<Colour>) -> String {
        match (self, paint) {
            (Self::Terminal { colour: true, .. }, Some(paint)) if !text.is_empty() => {
                format!("\u{1b}[{}m{text}\u{1b}[0m", paint as u8)
            }
            _ => text.to_owned(),
        }
    }
}

/// True unless the environment refuses colours (no-color.org) or the terminal cannot show them.
fn takes_colour(variable: impl Fn(&str) -> Option<String>) -> bool {
    let refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && variable("TERM").is_none_or(|term| term != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_may_refuse_colours() {
        let with = |name: &'static str, value: &'static str| {
            takes_colour(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(with("TERM", "xterm-256color"));
        assert!(with("NO_COLOR", ""));
        assert!(!with("NO_COLOR", "1"));
        assert!(!with("TERM", "dumb"));
    }
}
