//! `callboard tasks export`: tasks with their texts as lines of JSON, CSV or `OpenAI`'s batch format.
//!
//! Pages follow the time of creation, so tasks that come or go meanwhile move no page. The state file is written
//! after every page. Memory holds one page.

use std::fs::{File, OpenOptions};
use std::io::{Seek as _, SeekFrom, Write};
use std::path::PathBuf;

use callboard_client::{Call, Client, Error};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::state;
use crate::failure::Failure;
use crate::output::status_line;

/// The tasks of a page, and those that are read at the same time.
const PAGE: usize = 100;
const AT_ONCE: usize = 8;

/// The columns of CSV, each with its member.
const COLUMNS: [(&str, &str); 14] = [
    ("id", "/id"),
    ("title", "/title"),
    ("status", "/status"),
    ("model", "/model"),
    ("queue", "/queue"),
    ("tags", "/tags"),
    ("prompt", "/prompt"),
    ("output", "/output"),
    ("errorCode", "/error/code"),
    ("errorMessage", "/error/message"),
    ("createdAt", "/createdAt"),
    ("completedAt", "/completedAt"),
    ("tokens", "/usage/total"),
    ("costUsd", "/usage/totalCost"),
];

/// The notation of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Notation {
    /// Each task as the server shows it, on a line.
    Jsonl,
    /// A header, and a row for each task.
    Csv,
    /// The output file of `OpenAI`'s batches; only tasks that have ended.
    Openai,
}

/// An export.
#[derive(Debug, Clone, Args)]
pub struct Export {
    /// The file to write; - for standard output.
    file: PathBuf,
    /// Format: jsonl, csv or openai; by default that of the file's name.
    #[arg(long = "as", value_enum, hide_possible_values = true, value_name = "NOTATION")]
    notation: Option<Notation>,
    /// Statuses, separated by commas: pending, running, completed, failed, cancelled, rejected.
    #[arg(long, value_delimiter = ',')]
    status: Vec<String>,
    /// The model.
    #[arg(long)]
    model: Option<String>,
    /// The queue.
    #[arg(long)]
    queue: Option<String>,
    /// Tags, separated by commas; a task must have all of them.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Created at this time or later, such as 2026-11-21T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Created before this time.
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// File from which an interrupted export continues; by default FILE.state.
    #[arg(long = "state", value_name = "FILE")]
    state: Option<PathBuf>,
}

/// The state of an export.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct State {
    server: String,
    /// The filters and the notation.
    asked: String,
    /// The time of creation of the last task that is written.
    after: Option<String>,
    /// The tasks of that time that are written.
    skip: u64,
    tasks: u64,
    /// The bytes of the file.
    bytes: u64,
}

impl Export {
    pub(super) async fn run(self, client: &Client) -> Result<(), Failure> {
        let is_stdout = self.file.as_os_str() == "-";
        let notation = self.notation.unwrap_or_else(|| {
            let is_csv =
                self.file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
            if is_csv { Notation::Csv } else { Notation::Jsonl }
        });
        let path = state::path(self.state.clone(), &self.file).filter(|_| !is_stdout);
        let asked = json!([
            self.status,
            self.model,
            self.queue,
            self.tags,
            self.created_after,
            self.created_before,
            format!("{notation:?}"),
        ]);
        let fresh = State {
            server: client.server().to_string(),
            asked: asked.to_string(),
            ..State::default()
        };
        let earlier = path.as_deref().map(state::read::<State>).transpose()?.flatten();
        let mut state = match (earlier, &path) {
            (Some(state), Some(path))
                if (&state.server, &state.asked) != (&fresh.server, &fresh.asked) =>
            {
                return Err(Failure::Conflict(format!(
                    "{0} is about another export: remove it to start over, or name another with --state",
                    path.display()
                )));
            }
            (Some(state), _) => state,
            (None, _) => fresh,
        };
        let (mut file, mut stdout) = (None, std::io::stdout());
        if !is_stdout {
            file = Some(self.opened(&state)?);
        }
        if state.tasks > 0 {
            status_line(&format!("continuing after {} tasks", state.tasks));
        }
        loop {
            let (text, is_last) = self.page(client, notation, &mut state).await?;
            let written = match &mut file {
                Some(file) => file.write_all(&text).and_then(|()| file.sync_data()),
                None => stdout.write_all(&text).and_then(|()| stdout.flush()),
            };
            match written {
                Ok(()) => {}
                Err(error) if is_stdout && error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return Err(Failure::OutputClosed);
                }
                Err(error) => return Err(self.unwritable(&error)),
            }
            state.bytes += text.len() as u64;
            if is_last {
                break;
            }
            if let Some(path) = &path {
                state::write(path, &state)?;
            }
        }
        status_line(&format!("{} tasks", state.tasks));
        match path {
            Some(path) if path.exists() => state::remove(&path),
            Some(_) | None => Ok(()),
        }
    }

    /// The file, cut to the tasks that the state has.
    fn opened(&self, state: &State) -> Result<File, Failure> {
        let opened = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(state.tasks == 0)
                .truncate(false)
                .open(&self.file)?;
            file.set_len(state.bytes)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        opened().map_err(|error| self.unwritable(&error))
    }

    fn unwritable(&self, error: &std::io::Error) -> Failure {
        Failure::Other(format!("{} cannot be written: {error}", self.file.display()))
    }

    /// The text of the next page, and whether it is the last.
    async fn page(
        &self,
        client: &Client,
        notation: Notation,
        state: &mut State,
    ) -> Result<(Vec<u8>, bool), Failure> {
        let ended = ["completed", "failed", "cancelled", "rejected"].map(str::to_owned);
        let is_batch = notation == Notation::Openai;
        let status =
            if is_batch && self.status.is_empty() { &ended } else { self.status.as_slice() };
        let call = Call::get(&["tasks"])
            .commas("status", status)
            .query("model", self.model.as_ref())
            .query("queue", self.queue.as_ref())
            .commas("tags", &self.tags)
            .query("createdAfter", state.after.as_ref().or(self.created_after.as_ref()))
            .query("createdBefore", self.created_before.as_ref())
            .query("orderBy", Some("createdAt"))
            .query("order", Some("asc"))
            .query("limit", Some(PAGE))
            .query("offset", Some(state.skip));
        let page = client.page(call).await?;
        let is_last = page.pagination["hasMore"] != true;
        let mut text = Vec::new();
        if state.tasks == 0 && state.skip == 0 && notation == Notation::Csv {
            row(&mut text, COLUMNS.iter().map(|(name, _)| (*name).to_owned()))?;
        }
        for some in page.data.chunks(AT_ONCE) {
            let reads: Vec<_> = some
                .iter()
                .map(|task| {
                    let id = task["id"].as_str().unwrap_or_default().to_owned();
                    let client = client.clone();
                    tokio::spawn(async move { client.data(Call::get(&["tasks", &id])).await })
                })
                .collect();
            for (read, listed) in reads.into_iter().zip(some) {
                let created = listed["createdAt"].as_str().unwrap_or_default();
                if state.after.as_deref() == Some(created) {
                    state.skip += 1;
                } else {
                    (state.after, state.skip) = (Some(created.to_owned()), 1);
                }
                let read = read.await.map_err(|_| Failure::Other("a read broke off".into()))?;
                let task = match read {
                    // It was removed after it was listed.
                    Err(Error::Api(error)) if error.status == 404 => continue,
                    read => read?,
                };
                state.tasks += 1;
                match notation {
                    Notation::Jsonl => line(&mut text, &task),
                    Notation::Openai => line(&mut text, &batch_line(&task)),
                    Notation::Csv => row(&mut text, COLUMNS.iter().map(|(_, at)| cell(&task, at)))?,
                }
            }
        }
        Ok((text, is_last))
    }
}

fn line(text: &mut Vec<u8>, value: &Value) {
    text.extend_from_slice(value.to_string().as_bytes());
    text.push(b'\n');
}

fn row(text: &mut Vec<u8>, cells: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut writer = csv::WriterBuilder::new().from_writer(text);
    let written = writer.write_record(cells).and_then(|()| Ok(writer.flush()?));
    written.map_err(|error| Failure::Other(format!("a row cannot be written: {error}")))
}

/// A cell: a text as it is, a list with commas.
fn cell(task: &Value, at: &str) -> String {
    match task.pointer(at) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
        }
        Some(value) => value.to_string(),
    }
}

/// A task as a line of the output file of a batch. Its `custom_id` is the title, which an import has set.
fn batch_line(task: &Value) -> Value {
    let id = task["id"].as_str().unwrap_or_default();
    let custom = task["title"].as_str().unwrap_or(id);
    let name = format!("batch_req_{id}");
    if task["status"] != "completed" {
        let status = task["status"].as_str().unwrap_or_default();
        let (code, message) = if task["error"].is_object() {
            (task["error"]["code"].clone(), task["error"]["message"].clone())
        } else {
            (json!(status), json!(format!("the task is {status}")))
        };
        let error = json!({"code": code, "message": message});
        return json!({"id": name, "custom_id": custom, "response": null, "error": error});
    }
    let output = &task["output"];
    let output = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
    let created = task["createdAt"].as_str().and_then(|at| at.parse::<jiff::Timestamp>().ok());
    let count = |of: &str| task["usage"][of].as_u64().unwrap_or(0);
    let body = json!({
        "id": id,
        "object": "chat.completion",
        "created": created.map_or(0, jiff::Timestamp::as_second),
        "model": task["model"],
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": output, "refusal": null},
            "logprobs": null,
            "finish_reason": task["finishReason"].as_str().unwrap_or("stop"),
        }],
        "usage": {
            "prompt_tokens": count("input"),
            "completion_tokens": count("output"),
            "total_tokens": count("input") + count("output"),
        },
    });
    let response = json!({"status_code": 200, "request_id": id, "body": body});
    json!({"id": name, "custom_id": custom, "response": response, "error": null})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_a_line_of_a_batch() {
        let task = json!({"id": "dt_task_1", "title": "r-1", "status": "completed", "model": "m",
            "output": "Blue", "createdAt": "2026-11-21T10:00:00.000Z", "usage": {"input": 3, "output": 1}});
        let line = batch_line(&task);
        assert_eq!((&line["custom_id"], &line["error"]), (&json!("r-1"), &Value::Null));
        let body = &line["response"]["body"];
        assert_eq!(body["choices"][0]["message"]["content"], "Blue");
        assert_eq!(
            (&body["created"], &body["usage"]["total_tokens"]),
            (&json!(1_795_255_200), &json!(4))
        );
        let failed = json!({"id": "dt_task_2", "status": "failed", "error": {"code": "TIMEOUT", "message": "late"}});
        let line = batch_line(&failed);
        assert_eq!((&line["custom_id"], &line["response"]), (&json!("dt_task_2"), &Value::Null));
        assert_eq!(line["error"], json!({"code": "TIMEOUT", "message": "late"}));
    }
}
