//! The output of a command: tables for people, JSON for programs.
//!
//! A table on a terminal fits its width; a table in a pipe or a file is whole and exact. Texts in a table
//! come from models and strangers, so control characters are escaped there, and in JSON as well.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use callboard_client::Page;
use callboard_common::text::{is_unsafe, safe_json};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::access::HEADING;
use super::failure::Failure;

mod cell;
mod pager;
mod screen;
mod table;

pub(super) use table::{Column, details, table};

use screen::Screen;

/// The format of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Aligned columns, for people.
    #[default]
    Table,
    /// One JSON value; a list is `{"data": […], "pagination": {…}}`.
    Json,
    /// One JSON value a line; of a list, each item.
    Jsonl,
    /// Comma-separated values, of an export.
    Csv,
}

/// The options of a command's output.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Output {
    /// Format of the data: table, json, or jsonl (one value a line); csv for `batches export`.
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        default_value_t,
        hide_possible_values = true,
        value_name = "FORMAT",
        global = true,
        help_heading = HEADING
    )]
    format: Format,
    /// Print only ids, one a line.
    #[arg(short, long, global = true, help_heading = HEADING)]
    quiet: bool,
    /// Print only the text of the output; commands that show one output have a flag for it.
    #[arg(skip)]
    text_only: bool,
}

impl PartialEq<Format> for Output {
    fn eq(&self, format: &Format) -> bool {
        self.format == *format
    }
}

impl Output {
    /// These options, limited to the text of an item's output if `only` is true.
    pub(super) const fn text_only(self, only: bool) -> Self {
        Self { text_only: only, ..self }
    }

    /// The format of the data.
    pub(super) const fn format(self) -> Format {
        self.format
    }

    /// Writes one item; `shown` makes its table.
    pub(super) fn item(
        self,
        data: &Value,
        shown: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        match self.format {
            Format::Table if self.text_only => output(data),
            Format::Table => match self.quiet.then(|| id(data)).flatten() {
                Some(id) => print(&format!("{}\n", escaped(id))),
                None => print(&shown(data)),
            },
            Format::Json => print_json(&format!("{data:#}\n")),
            Format::Jsonl => print_json(&format!("{data}\n")),
            Format::Csv => Err(no_csv()),
        }
    }

    /// Writes one page of a list of `nouns`, such as "tasks". Standard error gets a note if the table is
    /// empty, and in every format if the list has more pages.
    pub(super) fn list(self, nouns: &str, page: &Page, columns: &[Column]) -> Result<(), Failure> {
        match self.format {
            Format::Table if self.quiet => print(&ids(page, columns))?,
            Format::Table if page.data.is_empty() => status_line(&empty(nouns, page)),
            Format::Table => {
                let screen = Screen::of_stdout();
                let (text, hidden) = table::laid_out(columns, &page.data, &screen);
                pager::print(&text, &screen)?;
                if let Some(left_out) = table::left_out(&hidden) {
                    status_line(&left_out);
                }
            }
            Format::Json => {
                let whole = json!({"data": page.data, "pagination": page.pagination});
                print_json(&format!("{whole:#}\n"))?;
            }
            Format::Csv => return Err(no_csv()),
            Format::Jsonl => {
                let lines = page.data.iter().fold(String::new(), |mut lines, item| {
                    let _ = writeln!(lines, "{item}");
                    lines
                });
                print_json(&lines)?;
            }
        }
        if let Some(more) = more(page) {
            status_line(&more);
        }
        Ok(())
    }
}

/// Writes the text of an item's output: as it is in a pipe or a file, without control characters on a
/// terminal.
fn output(item: &Value) -> Result<(), Failure> {
    let text = match &item["output"] {
        Value::Null => {
            let (id, status) = (id(item).unwrap_or_default(), item["status"].as_str());
            let why = status.map(|status| format!(": its status is {status}")).unwrap_or_default();
            return Err(Failure::Other(format!("{id} has no output{why}")));
        }
        Value::String(text) => text.clone(),
        json @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            json.to_string()
        }
    };
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    if !io::stdout().is_terminal() {
        return print(&format!("{text}{newline}"));
    }
    let lines: Vec<_> = text.split('\n').map(escaped).collect();
    print(&format!("{}{newline}", lines.join("\n")))
}

/// The part of an item that is printed.
#[derive(Debug, Clone, Copy, Args)]
pub struct Only {
    /// Print only the text of the output.
    #[arg(long, conflicts_with_all = ["format", "quiet"])]
    pub(super) output_only: bool,
}

/// The id of an item of any kind.
fn id(item: &Value) -> Option<&str> {
    ["id", "taskId", "batchId", "name"].iter().find_map(|name| item[name].as_str())
}

/// The ids of a list, one a line; for items without an id, the first column.
fn ids(page: &Page, columns: &[Column]) -> String {
    let first = columns.first().map_or("id", |(_, path)| path);
    page.data.iter().fold(String::new(), |mut lines, item| {
        let id = if item["id"].is_string() { &item["id"] } else { &item[first] };
        let text = id.as_str().map_or_else(|| id.to_string(), escaped);
        let _ = writeln!(lines, "{text}");
        lines
    })
}

fn empty(nouns: &str, page: &Page) -> String {
    match page.pagination["total"].as_u64() {
        Some(total) if total > 0 => format!("No {nouns} at this offset; there are {total}."),
        _ => format!("No {nouns} found."),
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

/// The refusal of a format that only exports have.
fn no_csv() -> Failure {
    Failure::Usage("-o csv is for batches export; this command has table, json and jsonl".into())
}

/// Writes to standard output.
///
/// # Errors
/// [`Failure::OutputClosed`] if the reader is gone.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::Other(format!("standard output cannot be written: {error}"))
    })
}

/// Writes JSON, or lines of it, to standard output, so that it cannot command a terminal.
///
/// # Errors
/// As [`print`].
pub(super) fn print_json(text: &str) -> Result<(), Failure> {
    print(&safe_json(text))
}

/// Writes a note to standard error.
pub(super) fn status_line(text: &str) {
    // The reader of standard error may be gone.
    let _ = writeln!(io::stderr(), "{}", escaped(text));
}

/// Writes the warnings of an answer to standard error.
pub(super) fn warn(answer: &Value) {
    let warnings = answer["warnings"].as_array().into_iter().flatten();
    warnings.filter_map(Value::as_str).for_each(|text| status_line(&format!("warning: {text}")));
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

    #[test]
    fn an_empty_list_says_so_and_an_offset_beyond_the_end_says_how_many_there_are() {
        let page = |total: u64| Page { data: vec![], pagination: json!({"total": total}) };
        assert_eq!(empty("tasks", &page(0)), "No tasks found.");
        assert_eq!(empty("tasks", &page(7)), "No tasks at this offset; there are 7.");
    }

    #[test]
    fn a_quiet_list_has_ids_alone() {
        let data = vec![json!({"taskId": "a", "x": 1}), json!({"taskId": "b"})];
        let page = Page { data, pagination: json!({}) };
        assert_eq!(ids(&page, &[("TASK", "taskId"), ("X", "x")]), "a\nb\n");
        let page = Page { data: vec![json!({"item": 3})], pagination: json!({}) };
        assert_eq!(ids(&page, &[("ITEM", "item")]), "3\n");
        let page =
            Page { data: vec![json!({"id": "aud_1", "at": "10:00"})], pagination: json!({}) };
        assert_eq!(ids(&page, &[("AT", "at")]), "aud_1\n");
    }
}
