//! `callboard tasks import`: a task for each record of a file, each once over any interruption.
//!
//! Every line has an idempotency key, so that lines whose answer did not arrive are sent again. The state file is
//! written before the first line is sent, and after every load that is answered. Memory holds one load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use callboard_client::{ApiError, Call, Client};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::records::{Record, Records};
use super::state;
use crate::access::Access;
use crate::failure::Failure;
use crate::output::{Column, Format, details, print_json, status_line};

/// The most lines of a load, and its bytes.
const MAX_LINES: usize = 10_000;
const MAX_BYTES: usize = 4 << 20;
/// The times that a load without any new answer is sent again, and the longest pause between them.
const TRIES: u32 = 12;
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The refused lines that are listed.
const LISTED: u64 = 20;

const KIND: &str = "application/x-ndjson";

const FIELDS: [Column; 4] = [
    ("submitted", "submitted"),
    ("submitted before", "replayed"),
    ("refused", "refused"),
    ("lines", "lines"),
];

/// The notation of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Notation {
    /// Lines of JSON: bodies of tasks, or `OpenAI`'s batch format.
    Jsonl,
    /// A header that names members of a task, and a row for each task.
    Csv,
}

/// An import.
#[derive(Debug, Clone, Args)]
pub struct Import {
    /// The tasks: lines of JSON, `OpenAI`'s batch format, or CSV; - for standard input.
    file: PathBuf,
    /// Format of the file: jsonl or csv; by default that of its name.
    #[arg(long = "as", value_enum, hide_possible_values = true, value_name = "NOTATION")]
    notation: Option<Notation>,
    /// File from which an interrupted import continues; by default FILE.state.
    #[arg(long = "state", value_name = "FILE")]
    state: Option<PathBuf>,
}

/// The state of an import.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct State {
    /// The name of the import, with which its idempotency keys begin.
    import: String,
    server: String,
    #[serde(flatten)]
    place: Place,
}

/// A place in the file: the records before it are done.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Place {
    lines: u64,
    /// The digest of these records.
    digest: String,
}

/// The counts of an import.
#[derive(Debug, Default)]
struct Counts {
    submitted: u64,
    replayed: u64,
    refused: u64,
}

impl Import {
    pub(super) async fn run(self, client: &Client, access: &Access) -> Result<(), Failure> {
        let ends_in_csv =
            self.file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
        let is_csv = self.notation.map_or(ends_in_csv, |notation| notation == Notation::Csv);
        let path = state::path(self.state, &self.file);
        let mut records = Records::open(&self.file, is_csv)?;
        let server = client.server().to_string();
        let state = match path.as_deref().map(state::read::<State>).transpose()?.flatten() {
            Some(state) => resumed(state, &server, &mut records, path.as_deref())?,
            None => State {
                import: format!("import-{:032x}", rand::random::<u128>()),
                server,
                place: Place { lines: 0, digest: records.digest() },
            },
        };
        let mut importing = Importing {
            client,
            prints: access.output.format() == Format::Jsonl,
            path,
            state,
            counts: Counts::default(),
            first_refused: None,
        };
        importing.save()?;
        importing.all(&mut records).await?;
        importing.conclude(access, &self.file)
    }
}

/// Reads the records that an earlier run has done.
fn resumed(
    state: State,
    server: &str,
    records: &mut Records,
    path: Option<&Path>,
) -> Result<State, Failure> {
    let file = path.map(|path| path.display().to_string()).unwrap_or_default();
    let other = |says: &str| {
        Failure::Conflict(format!(
            "{says}: remove {file} to start over, or name another with --state"
        ))
    };
    if state.server != server {
        return Err(other(&format!("{file} is about an import to {}", state.server)));
    }
    let mut last = 0;
    while last < state.place.lines {
        match records.next(&state.import)? {
            Some(record) => last = record.number,
            None => break,
        }
    }
    if last != state.place.lines || records.digest() != state.place.digest {
        return Err(other(&format!(
            "the file has changed in its first {} lines, which are imported",
            state.place.lines
        )));
    }
    if last > 0 {
        status_line(&format!("continuing after line {last}"));
    }
    Ok(state)
}

struct Importing<'c> {
    client: &'c Client,
    prints: bool,
    path: Option<PathBuf>,
    state: State,
    counts: Counts,
    /// The place before the first load with a line that was refused.
    first_refused: Option<Place>,
}

/// The answers to a load, by the number of the line in it, and the reason for which it ended early.
type Answers = (BTreeMap<usize, Value>, Option<Failure>);

impl Importing<'_> {
    fn save(&self) -> Result<(), Failure> {
        self.path.as_deref().map_or(Ok(()), |path| state::write(path, &self.state))
    }

    async fn all(&mut self, records: &mut Records) -> Result<(), Failure> {
        let (mut load, mut bytes, mut is_over) = (Vec::new(), 0, false);
        while !is_over {
            match records.next(&self.state.import)? {
                Some(record) => {
                    bytes += record.task.len() + 1;
                    load.push(record);
                }
                None => is_over = true,
            }
            let Some(last) = load.last().map(|record: &Record| record.number) else { continue };
            if is_over || load.len() >= MAX_LINES || bytes >= MAX_BYTES {
                let is_refused = self.load(std::mem::take(&mut load)).await?;
                bytes = 0;
                let done = Place { lines: last, digest: records.digest() };
                let before = std::mem::replace(&mut self.state.place, done);
                if is_refused && self.first_refused.is_none() {
                    self.first_refused = Some(before);
                }
                // After a refusal, the file keeps the place of the line to mend.
                if self.first_refused.is_none() {
                    self.save()?;
                }
            }
        }
        Ok(())
    }

    /// Sends a load until each line has its answer; true if one was refused.
    async fn load(&mut self, mut load: Vec<Record>) -> Result<bool, Failure> {
        let (mut tries, mut has_refused) = (0, false);
        while !load.is_empty() {
            let (mut answers, ended) = match self.send(&load).await {
                Ok(answered) => answered,
                Err(failure) if failure.may_pass() => (BTreeMap::new(), Some(failure)),
                Err(failure) => return Err(failure),
            };
            let before = load.len();
            let mut open = Vec::new();
            for (index, record) in load.into_iter().enumerate() {
                match answers.remove(&(index + 1)) {
                    Some(answer) if answer["error"]["retryable"] != true => {
                        has_refused |= self.answered(record.number, answer)?;
                    }
                    Some(_) | None => open.push(record),
                }
            }
            load = open;
            if let Some(failure) = ended.filter(|failure| !failure.may_pass()) {
                return Err(failure);
            }
            if load.is_empty() {
                break;
            }
            tries = if load.len() < before { 0 } else { tries + 1 };
            if tries > TRIES {
                return Err(Failure::Unreachable {
                    server: self.state.server.clone(),
                    reason: "no line was accepted; run the command again to continue".into(),
                });
            }
            tokio::time::sleep(Duration::from_secs(1 << tries.min(5)).min(LONGEST_PAUSE)).await;
        }
        Ok(has_refused)
    }

    /// Counts and shows an answer; true if the line was refused.
    fn answered(&mut self, number: u64, mut answer: Value) -> Result<bool, Failure> {
        let is_refused = answer["error"].is_object();
        if answer["error"]["code"] == "QUOTA_EXCEEDED" {
            let says = answer["error"]["message"].as_str().unwrap_or_default();
            return Err(Failure::Other(format!(
                "line {number}: {says}; run the command again to continue"
            )));
        }
        if is_refused {
            self.counts.refused += 1;
            if self.counts.refused <= LISTED {
                let text = |member: &str| answer["error"][member].as_str().unwrap_or_default();
                status_line(&format!("line {number}: {} ({})", text("message"), text("code")));
            }
        } else if answer["replayed"] == true {
            self.counts.replayed += 1;
        } else {
            self.counts.submitted += 1;
        }
        if self.prints {
            answer["line"] = number.into();
            print_json(&format!("{answer}\n"))?;
        }
        Ok(is_refused)
    }

    async fn send(&self, load: &[Record]) -> Result<Answers, Failure> {
        let mut body = Vec::with_capacity(load.iter().map(|record| record.task.len() + 1).sum());
        for record in load {
            body.extend_from_slice(record.task.as_bytes());
            body.push(b'\n');
        }
        let call = Call::post(&["tasks", "bulk"]).raw(KIND, body).accepting(KIND).repeatable();
        let mut response = self.client.stream(&call).await?;
        let (mut answers, mut rest) = (BTreeMap::new(), Vec::new());
        loop {
            let part = match response.chunk().await {
                Ok(Some(part)) => part,
                Ok(None) => return Ok((answers, None)),
                // The server is gone: the lines without an answer are sent again.
                Err(error) => {
                    let (server, reason) = (self.state.server.clone(), error.to_string());
                    return Ok((answers, Some(Failure::Unreachable { server, reason })));
                }
            };
            rest.extend_from_slice(&part);
            let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
            let lines: Vec<u8> = rest.drain(..=end).collect();
            for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let strange =
                    |_| Failure::Other("the server answered with a line that is not JSON".into());
                let answer: Value = serde_json::from_slice(line).map_err(strange)?;
                match answer["line"].as_u64().and_then(|line| usize::try_from(line).ok()) {
                    Some(line) => drop(answers.insert(line, answer)),
                    None => {
                        return Ok((answers, Some(ended(&answer["error"], &self.state.server))));
                    }
                }
            }
        }
    }

    fn conclude(mut self, access: &Access, file: &Path) -> Result<(), Failure> {
        let Counts { submitted, replayed, refused } = self.counts;
        let lines = submitted + replayed + refused;
        let counts = json!({"submitted": submitted, "replayed": replayed, "refused": refused, "lines": lines});
        if self.prints {
            status_line(&counts.to_string());
        } else {
            access.output.item(&counts, |counts| details(counts, &FIELDS, &[]))?;
        }
        let Some(place) = self.first_refused.take() else {
            return self.path.as_deref().map_or(Ok(()), state::remove);
        };
        self.state.place = place;
        self.save()?;
        Err(Failure::WorkFailed(format!(
            "{refused} lines were refused: correct them in {}, each in its place, and run the command again; \
             no other line is submitted twice",
            crate::input::named(file)
        )))
    }
}

/// The reason for which the server ended a load early.
fn ended(error: &Value, server: &str) -> Failure {
    let text = |member: &str| error[member].as_str().unwrap_or_default().to_owned();
    if error["retryable"] == true || error["code"] == "TOKEN_EXPIRED" {
        return Failure::Unreachable { server: server.to_owned(), reason: text("message") };
    }
    let status = match error["code"].as_str() {
        Some("UNAUTHORIZED" | "INVALID_TOKEN") => 401,
        Some("FORBIDDEN") => 403,
        Some(_) | None => 400,
    };
    Failure::Refused(Box::new(ApiError {
        status,
        code: text("code"),
        message: text("message"),
        ..ApiError::default()
    }))
}
