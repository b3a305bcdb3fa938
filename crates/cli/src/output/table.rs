//! Tables of JSON values: columns by path, and one item with a field a line.
//!
//! Deliberately absent: a cut to the width of the terminal; whoever pipes a table wants all of it.

use std::fmt::Write as _;

use serde_json::Value;

use super::escaped;

/// A heading, and where its value stands: `progress.completed`.
pub(crate) type Column = (&'static str, &'static str);

/// The value at a path of members; null where there is none.
fn field<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(value, |value, name| &value[name])
}

/// Aligned columns under their headings; columns without a value in any row are left out.
pub(crate) fn table(columns: &[Column], rows: &[Value]) -> String {
    let used = |path: &str| rows.is_empty() || rows.iter().any(|row| !field(row, path).is_null());
    let columns: Vec<Column> = columns.iter().copied().filter(|(_, path)| used(path)).collect();
    let mut lines = vec![columns.iter().map(|(heading, _)| (*heading).to_owned()).collect()];
    lines.extend(rows.iter().map(|row| -> Vec<String> {
        columns.iter().map(|(_, path)| cell(field(row, path))).collect()
    }));
    aligned(&lines)
}

/// One item: every field that it has, then the long texts, indented.
pub(crate) fn details(item: &Value, fields: &[Column], texts: &[(&str, &str)]) -> String {
    let known = |(_, path): &&(&str, &str)| {
        let value = field(item, path);
        !value.is_null() && value.as_array().is_none_or(|items| !items.is_empty())
    };
    let lines: Vec<Vec<String>> = fields
        .iter()
        .filter(known)
        .map(|(heading, path)| vec![(*heading).to_owned(), cell(field(item, path))])
        .collect();
    let mut shown = aligned(&lines);
    for (heading, path) in texts.iter().filter(known) {
        let _ = writeln!(shown, "{}:\n{}", escaped(heading), indented(field(item, path)));
    }
    shown
}

fn aligned(lines: &[Vec<String>]) -> String {
    let width = |text: &String| text.chars().count();
    let columns = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().map(|line| width(&line[column])).max().unwrap_or(0))
        .collect();
    let mut shown = String::new();
    for line in lines {
        let mut row = String::new();
        for (text, wide) in line.iter().zip(&widths) {
            let _ = write!(row, "{text:wide$}  ");
        }
        let _ = writeln!(shown, "{}", row.trim_end());
    }
    shown
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escaped(text),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let texts: Vec<_> = items.iter().filter_map(Value::as_str).map(escaped).collect();
            texts.join(",")
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            escaped(&value.to_string())
        }
    }
}

fn indented(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| format!("{value:#}"), str::to_owned);
    let lines: Vec<_> = text.lines().map(|line| format!("  {}", escaped(line))).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_aligned_and_those_without_a_value_are_left_out() {
        let rows = [
            json!({"id": "a", "tags": ["x", "y"], "usage": {"total": 7}}),
            json!({"id": "längst", "tags": []}),
        ];
        let columns =
            [("ID", "id"), ("WORKER", "workerId"), ("TAGS", "tags"), ("T", "usage.total")];
        assert_eq!(table(&columns, &rows), "ID      TAGS  T\na       x,y   7\nlängst\n");
    }

    #[test]
    fn an_item_shows_its_texts_line_by_line_without_control_characters() {
        let item = json!({"id": "a", "status": "completed", "output": "one\ntwo\u{7}"});
        let fields = [("id", "id"), ("status", "status"), ("error", "error.message")];
        assert_eq!(
            details(&item, &fields, &[("output", "output")]),
            "id      a\nstatus  completed\noutput:\n  one\n  two\\u{7}\n"
        );
    }
}
