//! Tables of JSON values: columns by path, and one item with a field a line.
//!
//! A table that is wider than the terminal clips its texts, then leaves out whole columns. A table
//! in a pipe or a file is whole.

use std::fmt::Write as _;

use serde_json::Value;
use unicode_width::UnicodeWidthStr as _;

use super::cell::{Cell, Kind, relative};
use super::escaped;
use super::screen::{Colour, Screen};

/// A heading, and the path of its value: `progress.completed`.
pub(crate) type Column = (&'static str, &'static str);

/// The least width to which a text is clipped.
const LEAST: usize = 10;

/// The space between two columns.
const GAP: usize = 2;

/// The value at a path of members; null where there is none.
fn field<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, name| &value[name])
}

/// Aligned columns under their headings; columns without a value in any row are left out. Below the
/// table stand the headings of those that did not fit the terminal.
pub(crate) fn table(columns: &[Column], rows: &[Value]) -> String {
    let screen = Screen::of_stdout();
    let (text, hidden) = laid_out(columns, rows, &screen);
    match left_out(&hidden) {
        Some(note) => format!("{text}{}\n", screen.paint(&note, Some(Colour::Dim))),
        None => text,
    }
}

/// A note about the columns that did not fit.
pub(super) fn left_out(hidden: &[&str]) -> Option<String> {
    let note = || format!("left out to fit the terminal: {}", hidden.join(", "));
    (!hidden.is_empty()).then(note)
}

/// The table for a screen, and the headings of the columns that did not fit.
pub(super) fn laid_out(
    columns: &[Column],
    rows: &[Value],
    screen: &Screen,
) -> (String, Vec<&'static str>) {
    let used = |path: &str| rows.is_empty() || rows.iter().any(|row| !field(row, path).is_null());
    let mut columns: Vec<Shown> = columns
        .iter()
        .filter(|(_, path)| used(path))
        .map(|column| Shown::new(*column, rows, screen))
        .collect();
    // The first column names the item, and a clipped name is of no use.
    if let Some(first) = columns.first_mut() {
        first.kind = Kind::Rigid;
    }
    let (columns, hidden) = match screen.width() {
        Some(width) => fitted(columns, width),
        None => (columns, Vec::new()),
    };
    let mut text = line(&columns, screen, |column| (column.heading, Some(Colour::Bold)));
    for row in 0..rows.len() {
        text.push_str(&line(&columns, screen, |column| {
            let cell = &column.cells[row];
            (cell.text.as_str(), cell.colour)
        }));
    }
    (text, hidden)
}

/// A column with its cells.
#[derive(Debug)]
struct Shown {
    heading: &'static str,
    path: &'static str,
    kind: Kind,
    width: usize,
    cells: Vec<Cell>,
}

impl Shown {
    fn new((heading, path): Column, rows: &[Value], screen: &Screen) -> Self {
        let cells: Vec<_> =
            rows.iter().map(|row| Cell::new(path, field(row, path), screen)).collect();
        let has = |kind| cells.iter().any(|cell| cell.kind == kind);
        // One id, status or instant makes the column rigid; otherwise one text makes it a column of
        // texts.
        let kind = match (has(Kind::Rigid), has(Kind::Text)) {
            (true, _) => Kind::Rigid,
            (false, true) => Kind::Text,
            (false, false) => Kind::Number,
        };
        let width = cells.iter().map(|cell| cell.text.width()).max().unwrap_or(0);
        Self { heading, path, kind, width: width.max(heading.width()), cells }
    }

    /// The least useful width of the column.
    fn least(&self) -> usize {
        match self.kind {
            Kind::Rigid | Kind::Number => self.width,
            Kind::Text => self.width.min(LEAST.max(self.heading.width())),
        }
    }

    /// The rank of the column as the terminal gets narrower; the lowest rank goes first.
    fn weight(&self) -> u8 {
        match (self.path, self.kind) {
            ("status", _) => 3,
            ("createdAt" | "startedAt" | "waiting" | "nextRunAt" | "name", _) => 2,
            (path, Kind::Rigid) if path.ends_with("Id") || path.ends_with("By") => 0,
            _ => 1,
        }
    }
}

/// The columns that fit, with their widths, and the headings of the others. The first column stays.
fn fitted(mut columns: Vec<Shown>, width: usize) -> (Vec<Shown>, Vec<&'static str>) {
    let mut hidden = Vec::new();
    let total = |columns: &[Shown], of: fn(&Shown) -> usize| -> usize {
        columns.iter().map(of).sum::<usize>() + GAP * columns.len().saturating_sub(1)
    };
    while columns.len() > 1 && total(&columns, Shown::least) > width {
        let lightest = (1..columns.len()).rev().min_by_key(|column| columns[*column].weight());
        hidden.push(columns.remove(lightest.unwrap_or(1)).heading);
    }
    // The widest text gives way first, one character at a time.
    while total(&columns, |column| column.width) > width {
        let widest = columns
            .iter_mut()
            .filter(|column| column.width > column.least())
            .max_by_key(|column| column.width);
        match widest {
            Some(column) => column.width -= 1,
            None => break,
        }
    }
    if let [alone] = columns.as_mut_slice() {
        alone.width = alone.width.min(width);
    }
    hidden.reverse();
    (columns, hidden)
}

/// One line of the table, without spaces at its end.
fn line<'c>(
    columns: &'c [Shown],
    screen: &Screen,
    part: impl Fn(&'c Shown) -> (&'c str, Option<Colour>),
) -> String {
    let mut line = String::new();
    let mut gap = 0;
    for column in columns {
        let (text, paint) = part(column);
        let text = clipped(text, column.width);
        let space = column.width - text.width();
        // Numbers stand under each other by their last digit; in a pipe columns begin where they did.
        let before = match (column.kind, screen) {
            (Kind::Number, Screen::Terminal { .. }) => space,
            _ => 0,
        };
        if text.is_empty() {
            gap += before;
        } else {
            let _ = write!(line, "{:1$}", "", gap + before);
            line.push_str(&screen.paint(&text, paint));
            gap = 0;
        }
        gap += space - before + GAP;
    }
    line.push('\n');
    line
}

/// The beginning of a text that is too long, with `…` at its end.
fn clipped(text: &str, width: usize) -> String {
    use unicode_width::UnicodeWidthChar as _;
    if text.width() <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut shown = String::new();
    for character in text.chars() {
        let wide = character.width().unwrap_or(0);
        if wide > left {
            break;
        }
        left -= wide;
        shown.push(character);
    }
    let mut shown = shown.trim_end().to_owned();
    shown.push('…');
    shown
}

/// One item: every field that it has, then the long texts, indented.
pub(crate) fn details(item: &Value, fields: &[Column], texts: &[(&str, &str)]) -> String {
    details_for(item, fields, texts, &Screen::of_stdout())
}

fn details_for(item: &Value, fields: &[Column], texts: &[(&str, &str)], screen: &Screen) -> String {
    let known = |(_, path): &&(&str, &str)| {
        let value = field(item, path);
        !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty())
    };
    let fields: Vec<&Column> = fields.iter().filter(known).collect();
    let widest = fields.iter().map(|(heading, _)| heading.width()).max().unwrap_or(0);
    let mut shown = String::new();
    for (heading, path) in fields {
        let value = field(item, path);
        let space = widest - heading.width() + GAP;
        let line = format!("{heading}{:space$}{}", "", of_item(path, value, screen));
        let _ = writeln!(shown, "{}", line.trim_end());
    }
    for (heading, path) in texts.iter().filter(known) {
        let _ = writeln!(shown, "{}:\n{}", escaped(heading), indented(field(item, path)));
    }
    shown
}

/// A value of one item: exact, with the relative time beside an instant and the colour of a status.
fn of_item(path: &str, value: &Value, screen: &Screen) -> String {
    let exact = Cell::new(path, value, &Screen::Plain);
    let instant = value.as_str().and_then(|text| text.parse().ok());
    match (instant, screen.now(), exact.kind) {
        (Some(at), Some(now), Kind::Rigid) => format!("{} ({})", exact.text, relative(at, now)),
        _ => screen.paint(&exact.text, exact.colour),
    }
}

fn indented(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned);
    let lines: Vec<_> = text.lines().map(|line| format!("  {}", escaped(line))).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests;
