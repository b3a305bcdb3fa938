//! `callboard events`.

use callboard_client::{Client, Events as Stream, StreamItem};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input;
use super::output::{Format, escaped, print, print_json, status_line};

/// The commands on events.
#[derive(Debug, Clone, Subcommand)]
pub enum Events {
    /// Print events as they happen, one a line; reconnects after an interruption.
    Follow(Follow),
}

/// The filters of the printed events; by default all that the role may see.
#[derive(Debug, Clone, Args)]
pub struct Follow {
    /// Names or groups, such as task.completed,step.*.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    events: Vec<String>,
    /// Events of this task.
    #[arg(long, value_parser = input::id, value_name = "ID")]
    task: Option<String>,
    /// Events of this execution.
    #[arg(long, value_parser = input::id, value_name = "ID")]
    execution: Option<String>,
    /// Events of this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Events of tasks that have all of these tags, separated by commas.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Start after the event with this cursor.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Events>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Events::Follow(wanted) => follow(&client, &access, &wanted).await,
    }
}

async fn follow(client: &Client, access: &Access, wanted: &Follow) -> Result<(), Failure> {
    let (names, tags) = (wanted.events.join(","), wanted.tags.join(","));
    let query = [
        ("events", Some(names).filter(|names| !names.is_empty())),
        ("taskId", wanted.task.clone()),
        ("executionId", wanted.execution.clone()),
        ("queue", wanted.queue.clone()),
        ("tags", Some(tags).filter(|tags| !tags.is_empty())),
    ];
    let query: Vec<_> =
        query.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
    let mut stream = Stream::new(client, &query).after(wanted.after.as_deref());
    let mut is_broken = false;
    loop {
        match stream.next().await {
            StreamItem::Opened { resumed } => {
                if std::mem::take(&mut is_broken) {
                    let how = if resumed { "resumes where it broke off" } else { "starts again" };
                    status_line(&format!("connected again: the stream {how}"));
                }
            }
            StreamItem::Event(event) => show(access.output.format(), &event.name, &event.body)?,
            StreamItem::Broken => {
                if let Some(refusal) = stream.take_refusal() {
                    return Err(refusal.into());
                }
                if !std::mem::replace(&mut is_broken, true) {
                    status_line("connection lost: trying again");
                }
            }
        }
    }
}

fn show(format: Format, name: &str, body: &Value) -> Result<(), Failure> {
    match format {
        Format::Table => print(&line(name, body)),
        Format::Json => print_json(&format!("{:#}\n", whole(name, body))),
        Format::Jsonl | Format::Csv => print_json(&format!("{}\n", whole(name, body))),
    }
}

/// The event as JSON; a gap has no name of its own there.
fn whole(name: &str, body: &Value) -> Value {
    let mut whole = body.clone();
    if whole.is_object() && whole.get("event").is_none() {
        whole["event"] = json!(name);
    }
    whole
}

/// The event on one line: time, name, subject, details.
fn line(name: &str, body: &Value) -> String {
    let text = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None if value.is_null() => String::new(),
        None => value.to_string(),
    };
    let data = &body["data"];
    let last = match name {
        "gap" => format!("events after {} are missing", text(&body["from"])),
        "task.delta" => text(&data["text"]),
        "queue.depth" => text(&data["depth"]),
        _ => text(&data["status"]),
    };
    let shown = [text(&body["at"]), format!("{name:<22}"), text(&body["resource"]["id"]), last];
    let shown: Vec<_> = shown.iter().map(|part| escaped(part)).collect();
    format!("{}\n", shown.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_cannot_command_the_terminal() {
        let body = json!({
            "at": "2026-11-23T13:15:58.304Z", "event": "task.delta",
            "resource": {"id": "dt_task_1"}, "data": {"text": "a\n\u{1b}b", "offset": 0},
        });
        let expected =
            "2026-11-23T13:15:58.304Z  task.delta              dt_task_1  a\\n\\u{1b}b\n";
        assert_eq!(line("task.delta", &body), expected);
        let gap = json!({"from": "e1", "to": "e9", "reason": "expired"});
        assert_eq!(line("gap", &gap), "  gap                       events after e1 are missing\n");
        assert_eq!(whole("gap", &gap)["event"], "gap");
    }
}
