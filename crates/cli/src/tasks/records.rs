//! The records of a file to import: lines of JSON, or rows of CSV whose header names members of a task.
//!
//! The memory follows the longest record, which is bounded.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};

use callboard_protocol::document::json;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::failure::Failure;
use crate::input::{invalid, named};

/// The longest record, in bytes; the server takes no longer line.
const MAX_RECORD: usize = 2 << 20;

/// The members of a task that are no texts: their cells are JSON.
const JSON: [&str; 20] = [
    "args",
    "callbackDetails",
    "callbackEvents",
    "concurrencyLimit",
    "confidence",
    "context",
    "frequencyPenalty",
    "hitl",
    "maxTokens",
    "messages",
    "models",
    "outputSchema",
    "priority",
    "retry",
    "seed",
    "temperature",
    "timeoutMs",
    "topP",
    "weight",
    "stop",
];

/// One record.
pub(super) struct Record {
    /// The number of the record, from 1.
    pub(super) number: u64,
    /// The body of the task, on one line.
    pub(super) task: String,
}

/// The members by which a line says that it cannot be submitted twice.
#[derive(Deserialize)]
struct Keyed {
    #[serde(rename = "idempotencyKey")]
    key: Option<IgnoredAny>,
    custom_id: Option<IgnoredAny>,
}

/// The records of a file, in order.
pub(super) struct Records {
    path: PathBuf,
    of: Notation,
    number: u64,
    digest: Sha256,
}

enum Notation {
    Lines(Box<dyn BufRead>),
    Csv(Box<csv::Reader<Box<dyn Read>>>, csv::StringRecord),
}

impl Records {
    /// Opens a file, or standard input for `-`; lines of JSON unless it is CSV.
    pub(super) fn open(path: &Path, is_csv: bool) -> Result<Self, Failure> {
        let source: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(stdin())
        } else {
            let unread = |error| Failure::Other(format!("{} cannot be read: {error}", named(path)));
            Box::new(File::open(path).map_err(unread)?)
        };
        let of = if is_csv {
            let mut reader = csv::ReaderBuilder::new().from_reader(source);
            let header = reader.headers().map_err(|error| invalid(path, error))?.clone();
            if header.iter().all(str::is_empty) {
                return Err(invalid(
                    path,
                    "the first line must name members of a task, such as prompt",
                ));
            }
            Notation::Csv(Box::new(reader), header)
        } else {
            Notation::Lines(Box::new(BufReader::new(source)))
        };
        Ok(Self { path: path.to_owned(), of, number: 0, digest: Sha256::new() })
    }

    /// The digest of the records that were read.
    pub(super) fn digest(&self) -> String {
        let digest = self.digest.clone().finalize();
        digest.iter().fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes every write");
            text
        })
    }

    /// The next record, with a key that follows from the import and its number, unless it has one.
    pub(super) fn next(&mut self, import: &str) -> Result<Option<Record>, Failure> {
        loop {
            let Some(text) = self.read()? else { return Ok(None) };
            self.number += 1;
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            self.digest.update(text.as_bytes());
            self.digest.update(b"\n");
            let key = format!("{import}-{}", self.number);
            return Ok(Some(Record { number: self.number, task: keyed(text, &key) }));
        }
    }

    fn read(&mut self) -> Result<Option<String>, Failure> {
        let Self { path, of, number, .. } = self;
        let number = *number + 1;
        match of {
            Notation::Lines(lines) => {
                let mut line = Vec::new();
                let read = lines.take(MAX_RECORD as u64 + 1).read_until(b'\n', &mut line);
                let read = read.map_err(|error| {
                    Failure::Other(format!("{} cannot be read: {error}", named(path)))
                })?;
                if read == 0 {
                    return Ok(None);
                }
                if line.len() > MAX_RECORD {
                    let says = format!("line {number} has more than {MAX_RECORD} bytes");
                    return Err(invalid(path, says));
                }
                let text = String::from_utf8(line);
                let mut text =
                    text.map_err(|_| invalid(path, format!("line {number} is not valid UTF-8")))?;
                if number == 1 && text.starts_with('\u{feff}') {
                    text.remove(0);
                }
                Ok(Some(text))
            }
            Notation::Csv(reader, header) => {
                let mut row = csv::StringRecord::new();
                if !reader.read_record(&mut row).map_err(|error| invalid(path, error))? {
                    return Ok(None);
                }
                let task = of_cells(header, &row)
                    .map_err(|says| invalid(path, format!("row {number}: {says}")))?;
                let task = Value::Object(task).to_string();
                if task.len() > MAX_RECORD {
                    return Err(invalid(
                        path,
                        format!("row {number} has more than {MAX_RECORD} bytes"),
                    ));
                }
                Ok(Some(task))
            }
        }
    }
}

/// The line with a key, unless it has one. A line that is no object is left to the server, which refuses it.
fn keyed(line: &str, key: &str) -> String {
    let is_open = serde_json::from_str::<Keyed>(line)
        .is_ok_and(|line| line.key.is_none() && line.custom_id.is_none());
    match line.strip_prefix('{').filter(|_| is_open) {
        Some(rest) => {
            let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
            format!("{{\"idempotencyKey\":\"{key}\"{comma}{rest}")
        }
        None => line.to_owned(),
    }
}

/// The members of a row. `a.b` is the member b of a; a cell is a text, unless the member has another type or the
/// name ends in `:`, which makes it JSON; tags are separated by commas; an empty cell is absent.
fn of_cells(
    header: &csv::StringRecord,
    row: &csv::StringRecord,
) -> Result<Map<String, Value>, String> {
    let mut task = Map::new();
    for (name, cell) in header.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
        let (name, is_json) = match name.strip_suffix(':') {
            Some(name) => (name, true),
            None => (name, JSON.contains(&name)),
        };
        let value = if is_json {
            json::parse(cell.as_bytes())
                .map_err(|error| format!("the cell of {name} is not JSON: {error}"))?
        } else if name == "tags" {
            cell.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect()
        } else {
            Value::from(cell)
        };
        match name.split_once('.') {
            None => {
                task.insert(name.to_owned(), value);
            }
            Some((of, member)) => {
                let of = task.entry(of).or_insert_with(|| Map::new().into());
                let members = of.as_object_mut();
                let members = members.ok_or_else(|| format!("{name} is a member of no object"))?;
                members.insert(member.to_owned(), value);
            }
        }
    }
    Ok(task)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(header: &[&str], cells: &[&str]) -> Result<Value, String> {
        let (header, cells) = (header.to_vec(), cells.to_vec());
        of_cells(&header.into(), &cells.into()).map(Value::Object)
    }

    #[test]
    fn a_row_of_csv_is_a_task() {
        let header = ["prompt", "priority", "tags", "context.city", "args.count:", "model"];
        assert_eq!(
            row(&header, &["Hi, you", "7", "a, b", "07", "7", ""]),
            Ok(json!({"prompt": "Hi, you", "priority": 7, "tags": ["a", "b"],
                "context": {"city": "07"}, "args": {"count": 7}}))
        );
        let refused = row(&["priority"], &["high"]).expect_err("no JSON");
        assert!(refused.contains("priority is not JSON"), "{refused}");
    }

    #[test]
    fn a_line_gets_a_key_unless_it_has_one() {
        assert_eq!(
            keyed("{\"prompt\":\"x\"}", "i-1"),
            "{\"idempotencyKey\":\"i-1\",\"prompt\":\"x\"}"
        );
        assert_eq!(keyed("{ }", "i-1"), "{\"idempotencyKey\":\"i-1\" }");
        for kept in ["{\"idempotencyKey\":\"k\"}", "{\"custom_id\":\"k\"}", "[1]", "{\"a\"", "no"] {
            assert_eq!(keyed(kept, "i-1"), kept);
        }
    }
}
