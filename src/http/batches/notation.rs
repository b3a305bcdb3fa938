//! The notations of rows, read in pieces: lines of JSON, and CSV.
//!
//! The memory follows the longest row, which is bounded.

use callboard_domain::batch::MAX_INPUT;
use callboard_domain::{Error, Rule};
use callboard_wire::read::{Format, parse};
use csv_core::{ReadRecordResult, Reader};
use serde_json::{Map, Value};

use crate::http::body::lines::{Line, Lines, MARK};

/// The most columns of a CSV file.
const MAX_COLUMNS: usize = 1_000;

/// A row: its key, if one is given, and its cells or members.
#[derive(Debug, PartialEq)]
pub(super) struct Read {
    pub(super) key: Option<String>,
    pub(super) input: Result<Map<String, Value>, String>,
}

impl Read {
    fn fault(says: impl Into<String>) -> Self {
        Self { key: None, input: Err(says.into()) }
    }
}

/// A reader of a body.
pub(super) enum Notation {
    /// Lines of `{"key": …, "input": {…}}`.
    Lines(Lines),
    /// A header, and a record for each row. Boxed: the state of a reader of CSV is large.
    Csv(Box<Csv>),
}

impl Notation {
    /// Reads a piece of the body, and adds the rows that end in it.
    pub(super) fn feed(&mut self, piece: &[u8], rows: &mut Vec<Read>) -> Result<(), Error> {
        match self {
            Self::Lines(lines) => {
                lines.feed(piece, |line| rows.push(row_of(line)));
                Ok(())
            }
            Self::Csv(csv) => csv.feed(piece, rows),
        }
    }

    /// Adds the row that ends with the body.
    pub(super) fn finish(&mut self, rows: &mut Vec<Read>) -> Result<(), Error> {
        match self {
            Self::Lines(lines) => {
                lines.finish(|line| rows.push(row_of(line)));
                Ok(())
            }
            Self::Csv(csv) => csv.finish(rows),
        }
    }
}

fn row_of(line: Line<'_>) -> Read {
    let Some(text) = line.text else {
        return Read::fault(format!("the line has more than {MAX_INPUT} bytes"));
    };
    match parse(text, Format::Json) {
        Ok(value) => of_value(value),
        Err(error) => Read::fault(error.to_string().replace("the body", "the line")),
    }
}

/// A row as JSON.
pub(super) fn of_value(value: Value) -> Read {
    let Value::Object(mut members) = value else {
        return Read::fault("a row must be an object: {\"key\": \"a\", \"input\": {…}}");
    };
    let key = match members.shift_remove("key") {
        None | Some(Value::Null) => None,
        Some(Value::String(key)) => Some(key),
        Some(Value::Number(key)) => Some(key.to_string()),
        Some(_) => return Read::fault("key must be a text"),
    };
    let input = members.shift_remove("input");
    if let Some(name) = members.keys().next() {
        let says = format!("a row has the members key and input, not {name:?}: put it into input");
        return Read { key, input: Err(says) };
    }
    match input {
        Some(Value::Object(input)) => Read { key, input: Ok(input) },
        Some(_) => Read { key, input: Err("input must be an object".into()) },
        None => Read { key, input: Err("input is missing".into()) },
    }
}

/// A reader of CSV (RFC 4180), with commas.
pub(super) struct Csv {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The filled parts of the two.
    filled: (usize, usize),
    is_too_long: bool,
    /// The first bytes, until they are enough to see a mark.
    start: Option<Vec<u8>>,
    header: Option<Vec<String>>,
    key: Option<String>,
    /// The number of the key's column.
    key_at: Option<usize>,
    /// True if the key's column is a member of the input too.
    pub(super) keeps_key: bool,
}

impl Csv {
    /// A reader that finds the keys in the column `key`.
    pub(super) fn new(key: Option<String>) -> Self {
        Self {
            reader: Reader::new(),
            text: vec![0; 64 << 10],
            ends: vec![0; 64],
            filled: (0, 0),
            is_too_long: false,
            start: Some(Vec::new()),
            header: None,
            key,
            key_at: None,
            keeps_key: false,
        }
    }

    fn feed(&mut self, piece: &[u8], rows: &mut Vec<Read>) -> Result<(), Error> {
        let Some(mut start) = self.start.take() else { return self.read(piece, rows) };
        start.extend_from_slice(piece);
        if start.len() < MARK.len() {
            self.start = Some(start);
            return Ok(());
        }
        self.read(start.strip_prefix(MARK).unwrap_or(&start), rows)
    }

    fn read(&mut self, mut piece: &[u8], rows: &mut Vec<Read>) -> Result<(), Error> {
        while !piece.is_empty() {
            let taken = self.step(piece, rows)?.1;
            piece = &piece[taken..];
        }
        Ok(())
    }

    fn finish(&mut self, rows: &mut Vec<Read>) -> Result<(), Error> {
        if let Some(start) = self.start.take() {
            self.read(&start, rows)?;
        }
        // An empty input says that the body has ended.
        while self.step(&[], rows)?.0 {}
        if self.header.is_none() {
            return Err(refuse("the file is empty: its first line must name the columns"));
        }
        Ok(())
    }

    /// One step of the reader; false at the end. Returns the number of bytes that it has read.
    fn step(&mut self, piece: &[u8], rows: &mut Vec<Read>) -> Result<(bool, usize), Error> {
        let (text, ends) = (&mut self.text[self.filled.0..], &mut self.ends[self.filled.1..]);
        let (result, taken, written, ended) = self.reader.read_record(piece, text, ends);
        self.filled.0 += written;
        self.filled.1 += ended;
        match result {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::OutputFull if self.text.len() > MAX_INPUT => {
                self.is_too_long = true;
                self.filled.0 = 0;
            }
            ReadRecordResult::OutputFull => self.text.resize(self.text.len() * 2, 0),
            ReadRecordResult::OutputEndsFull if self.ends.len() > MAX_COLUMNS => {
                self.is_too_long = true;
                self.filled.1 = 0;
            }
            ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
            ReadRecordResult::Record => {
                self.record(rows)?;
                self.filled = (0, 0);
                self.is_too_long = false;
            }
            ReadRecordResult::End => return Ok((false, taken)),
        }
        Ok((true, taken))
    }

    fn record(&mut self, rows: &mut Vec<Read>) -> Result<(), Error> {
        let is_header = self.header.is_none();
        if self.is_too_long {
            let says = format!("has more than {MAX_INPUT} bytes, or {MAX_COLUMNS} columns");
            if is_header {
                return Err(refuse(&format!("the header {says}")));
            }
            rows.push(Read::fault(format!("the row {says}")));
            return Ok(());
        }
        let mut cells = Vec::with_capacity(self.filled.1);
        let mut from = 0;
        for end in &self.ends[..self.filled.1] {
            match std::str::from_utf8(&self.text[from..*end]) {
                Ok(cell) => cells.push(cell.to_owned()),
                Err(_) if is_header => {
                    return Err(refuse("the header is not UTF-8: save the file as UTF-8"));
                }
                Err(_) => {
                    rows.push(Read::fault("the row is not UTF-8: save the file as UTF-8"));
                    return Ok(());
                }
            }
            from = *end;
        }
        if is_header {
            return self.begin(cells);
        }
        let row = self.row(cells);
        rows.push(row);
        Ok(())
    }

    /// Takes the header.
    fn begin(&mut self, cells: Vec<String>) -> Result<(), Error> {
        if let [one] = cells.as_slice()
            && let Some(sign) = [';', '\t'].into_iter().find(|sign| one.contains(*sign))
        {
            let name = if sign == ';' { "semicolons" } else { "tabs" };
            return Err(refuse(&format!(
                "the columns are separated by {name}, and must be by commas: save the file as CSV with commas, \
                 or send lines of JSON as application/x-ndjson"
            )));
        }
        if let Some(at) = cells.iter().position(|name| name.trim().is_empty()) {
            return Err(refuse(&format!("column {} has no name in the header", at + 1)));
        }
        for (at, name) in cells.iter().enumerate() {
            if cells[..at].contains(name) {
                return Err(refuse(&format!("the header names the column {name:?} twice")));
            }
        }
        if let Some(key) = &self.key {
            self.key_at = cells.iter().position(|name| name == key);
            if self.key_at.is_none() {
                let says = format!(
                    "keyColumn must be a column of the header, which has {}",
                    cells.join(", ")
                );
                return Err(Error::invalid("keyColumn", Rule::Enum, says));
            }
        }
        self.header = Some(cells);
        Ok(())
    }

    fn row(&self, cells: Vec<String>) -> Read {
        let header = self.header.as_deref().unwrap_or_default();
        if cells.len() != header.len() {
            return Read::fault(format!(
                "the row has {} cells, and the header {} columns: put a text with a comma or a line break into \
                 double quotes",
                cells.len(),
                header.len()
            ));
        }
        let key = self.key_at.map(|at| cells[at].clone());
        let is_input = |at: &usize| Some(*at) != self.key_at || self.keeps_key;
        let cells = cells.into_iter().enumerate().filter(|(at, _)| is_input(at));
        let input = cells.map(|(at, cell)| (header[at].clone(), Value::String(cell))).collect();
        Read { key, input: Ok(input) }
    }
}

fn refuse(says: &str) -> Error {
    Error::invalid("body", Rule::Format, says)
}

/// The value of a cell for a member of this declared type: a text as it is; any other as the JSON that the cell is,
/// and none for an empty cell.
pub(super) fn typed(cell: &str, declared: Option<&str>) -> Result<Option<Value>, String> {
    let text = cell.trim();
    match declared {
        Some("number" | "integer" | "boolean" | "object" | "array" | "null") => {
            if text.is_empty() {
                return Ok(None);
            }
            let value = match text {
                "TRUE" | "True" => Ok(Value::Bool(true)),
                "FALSE" | "False" => Ok(Value::Bool(false)),
                _ => serde_json::from_str(text),
            };
            let declared = declared.unwrap_or_default();
            value.map(Some).map_err(|_| format!("must be of type {declared}, not {text:?}"))
        }
        _ => Ok(Some(Value::String(cell.to_owned()))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    type Shown = Result<Vec<(Option<String>, Value)>, String>;

    /// The rows of a text that arrives in pieces of every size.
    fn rows(of: impl Fn() -> Notation, text: &[u8]) -> Shown {
        let mut found: Option<Shown> = None;
        for size in 1..=text.len().max(1) {
            let (mut notation, mut rows) = (of(), Vec::new());
            let read = text.chunks(size).try_for_each(|piece| notation.feed(piece, &mut rows));
            let read = read.and_then(|()| notation.finish(&mut rows));
            let shown = |row: Read| {
                let input = row.input.map_or_else(Value::String, Value::Object);
                (row.key, input)
            };
            let read =
                read.map(|()| rows.into_iter().map(shown).collect()).map_err(|e| e.to_string());
            assert_eq!(*found.get_or_insert_with(|| read.clone()), read, "pieces of {size} bytes");
        }
        found.expect("there is a size")
    }

    fn csv(key: &str, text: &str) -> Result<Vec<(Option<String>, Value)>, String> {
        let key = (!key.is_empty()).then(|| key.to_owned());
        rows(|| Notation::Csv(Box::new(Csv::new(key.clone()))), text.as_bytes())
    }

    fn lines(text: &str) -> Vec<(Option<String>, Value)> {
        rows(|| Notation::Lines(Lines::new(MAX_INPUT)), text.as_bytes())
            .expect("lines never refuse a body")
    }

    #[test]
    fn csv_is_read_with_quotes_a_mark_line_breaks_and_no_end() {
        let text = "\u{feff}id,subject,body\r\n1,\"Hello, you\",\"a \"\"b\"\"\r\nc\"\r\n\r\n2,,x";
        let expected = vec![
            (Some("1".into()), json!({"subject": "Hello, you", "body": "a \"b\"\r\nc"})),
            (Some("2".into()), json!({"subject": "", "body": "x"})),
        ];
        assert_eq!(csv("id", text), Ok(expected));
        let quoted = csv("", "\u{feff}\"a b\",c\n1,2\n");
        assert_eq!(quoted, Ok(vec![(None, json!({"a b": "1", "c": "2"}))]));
    }

    #[test]
    fn a_file_that_is_no_csv_with_commas_is_refused_with_the_way_out() {
        for (text, says) in [
            ("a;b\n1;2\n", "separated by semicolons"),
            ("a\tb\n1\t2\n", "separated by tabs"),
            ("", "the file is empty"),
            ("a,a\n1,2\n", "names the column \"a\" twice"),
            ("a,\n1,2\n", "column 2 has no name"),
        ] {
            let refused = csv("", text).expect_err(text);
            assert!(refused.contains(says), "{refused}");
        }
        let refused = csv("key", "a,b\n1,2\n").expect_err("there is no such column");
        assert!(refused.contains("which has a, b"), "{refused}");
    }

    #[test]
    fn a_faulty_row_stops_no_other() {
        let rows = csv("", "a,b\n1\n1,2\n").expect("the header is right");
        assert!(matches!(&rows[0].1, Value::String(says) if says.contains("1 cells")), "{rows:?}");
        assert_eq!(rows[1].1, json!({"a": "1", "b": "2"}));
        let text = "{\"key\":1,\"input\":{\"a\":1}}\n\nno\n{\"input\":{},\"x\":1}\n{\"key\":\"k\"}\n[]\n{\"input\":{}}";
        let rows = lines(text);
        assert_eq!(rows.len(), 6);
        assert_eq!(rows[0], (Some("1".into()), json!({"a": 1})));
        assert_eq!(rows[5], (None, json!({})));
        assert!(rows[1..5].iter().all(|(_, input)| input.is_string()), "{rows:?}");
        assert_eq!(rows[3].0.as_deref(), Some("k"));
    }

    #[test]
    fn a_row_that_is_too_long_is_faulty_and_takes_no_memory() {
        let long = "x".repeat(4 * MAX_INPUT);
        let (mut lines, mut found) = (Notation::Lines(Lines::new(MAX_INPUT)), Vec::new());
        let mut csv = Notation::Csv(Box::new(Csv::new(None)));
        csv.feed(b"a\n", &mut found).expect("a header");
        for piece in long.as_bytes().chunks(60_000) {
            lines.feed(piece, &mut found).expect("lines never refuse a body");
            csv.feed(piece, &mut found).expect("a row");
        }
        assert_eq!(found, []);
        for notation in [&mut lines, &mut csv] {
            let mut found = Vec::new();
            notation.feed(b"\n", &mut found).expect("the end");
            assert!(
                matches!(&found[..], [Read { input: Err(says), .. }] if says.contains("more than"))
            );
        }
        let Notation::Csv(csv) = csv else { panic!("it is CSV") };
        assert!(csv.text.len() <= 2 * MAX_INPUT);
    }

    #[test]
    fn a_cell_has_the_type_that_its_member_declares() {
        assert_eq!(typed("7", Some("integer")), Ok(Some(json!(7))));
        assert_eq!(typed("7", Some("string")), Ok(Some(json!("7"))));
        assert_eq!(typed("7", None), Ok(Some(json!("7"))));
        assert_eq!(typed(" ", Some("number")), Ok(None));
        assert_eq!(typed("TRUE", Some("boolean")), Ok(Some(json!(true))));
        assert_eq!(typed("[1]", Some("array")), Ok(Some(json!([1]))));
        assert!(typed("x", Some("number")).is_err());
    }
}
