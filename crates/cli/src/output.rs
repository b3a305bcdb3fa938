//! What a command found, on standard output: a table for people, JSON for programs.
//!
//! Deliberately absent: colour. Whatever stands in a table was written by models and strangers, so
//! control characters are escaped there; JSON escapes them by itself.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use callboard_client::Page;
use callboard_common::text::is_unsafe;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::failure::Failure;

mod table;

pub(super) use table::{Column, details, table};

/// How the data is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Aligned columns, for people.
    #[default]
    Table,
    /// One JSON value; a list is `{"data": […], "pagination": {…}}`.
    Json,
    /// One JSON value a line; of a list, each item.
    Jsonl,
}

impl Format {
    /// Writes one item; `shown` is its table.
    pub(super) fn item(
        self,
        data: &Value,
        shown: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        match self {
            Self::Table => print(&shown(data)),
            Self::Json => print(&format!("{data:#}\n")),
            Self::Jsonl => print(&format!("{data}\n")),
        }
    }

    /// Writes one page of a list, and says on standard error if there is more.
    pub(super) fn list(self, page: &Page, columns: &[Column]) -> Result<(), Failure> {
        match self {
            Self::Table => {
                print(&table(columns, &page.data))?;
                if let Some(more) = more(page) {
                    note(&more);
                }
                Ok(())
            }
            Self::Json => {
                let whole = json!({"data": page.data, "pagination": page.pagination});
                print(&format!("{whole:#}\n"))
            }
            Self::Jsonl => {
                let lines = page.data.iter().fold(String::new(), |mut lines, item| {
                    let _ = writeln!(lines, "{item}");
                    lines
                });
                print(&lines)
            }
        }
    }
}

fn more(page: &Page) -> Option<String> {
    let number = |name: &str| page.pagination[name].as_u64();
    let (total, offset) = (number("total")?, number("offset")?);
    let next = offset + page.data.len() as u64;
    page.pagination["hasMore"]
        .as_bool()?
        .then(|| format!("{} to {next} of {total}; --offset {next} shows more", offset + 1))
}

/// Writes to standard output.
///
/// # Errors
/// [`Failure::OutputClosed`] if nobody reads any more.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::Other(format!("standard output cannot be written: {error}"))
    })
}

/// Says something on standard error.
pub(super) fn note(text: &str) {
    // Nobody may be left to read it.
    let _ = writeln!(io::stderr(), "{}", escaped(text));
}

/// A text on one line that cannot command the terminal.
pub(super) fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, character| {
        if is_unsafe(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_command_a_terminal_or_end_a_line_is_escaped() {
        assert_eq!(escaped("plain äöü 🦀"), "plain äöü 🦀");
        assert_eq!(escaped("a\nb\u{1b}[31m\u{202e}x\u{9b}"), "a\\nb\\u{1b}[31m\\u{202e}x\\u{9b}");
    }

    #[test]
    fn a_list_says_how_to_see_more_of_it() {
        let page = |has_more: bool| Page {
            data: vec![json!(1), json!(2)],
            pagination: json!({"total": 7, "limit": 2, "offset": 2, "hasMore": has_more}),
        };
        assert_eq!(more(&page(true)).as_deref(), Some("3 to 4 of 7; --offset 4 shows more"));
        assert_eq!(more(&page(false)), None);
    }
}
