//! `callboard search`.

use callboard_client::{Call, Page};
use clap::Args;
use serde_json::{Value, json};

use super::access::Access;
use super::failure::Failure;
use super::output::{Column, status_line};

const COLUMNS: [Column; 7] = [
    ("ID", "id"),
    ("TEXT", "text"),
    ("WHERE", "where"),
    ("TITLE", "title"),
    ("EXECUTION", "executionId"),
    ("STEP", "stepId"),
    ("CREATED", "createdAt"),
];

/// A search of the texts of tasks.
#[derive(Debug, Clone, Args)]
pub struct Search {
    #[command(flatten)]
    access: Access,
    /// Beginnings of words: the prompts and outputs of a task have all of them.
    #[arg(required = true)]
    words: Vec<String>,
    /// Kind of the tasks: task (on its own) or step (of an execution); by default both.
    #[arg(long, value_parser = ["task", "step"])]
    kind: Option<String>,
    /// Days back; by default, and at most, those of the server's setting search.days.
    #[arg(long)]
    days: Option<u16>,
    /// Hits to list, 1 to 50; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// Place to continue from: the `next` of an earlier search.
    #[arg(long, value_name = "TASK")]
    cursor: Option<String>,
}

/// Runs the command.
pub(super) async fn run(asked: Search) -> Result<(), Failure> {
    let Search { access, words, kind, days, limit, cursor } = asked;
    let call = Call::get(&["search"])
        .query("q", Some(words.join(" ")))
        .query("kinds", kind)
        .query("days", days)
        .query("limit", limit)
        .query("cursor", cursor);
    let mut found = access.client()?.data(call).await?;
    let Value::Array(mut hits) = found["hits"].take() else { return Ok(()) };
    for hit in &mut hits {
        hit["text"] = text(&hit["snippet"]).into();
    }
    let next = &found["next"];
    let pagination = json!({"searchedTo": found["searchedTo"], "next": next});
    access.output.list("hits", &Page { data: hits, pagination }, &COLUMNS)?;
    if let (Some(next), Some(to)) = (next.as_str(), found["searchedTo"].as_str()) {
        status_line(&format!("searched back to {to}; to go on: --cursor {next}"));
    }
    Ok(())
}

/// The text of a snippet, with its matches in brackets.
fn text(snippet: &Value) -> String {
    let pieces = snippet.as_array().into_iter().flatten();
    let shown = pieces.map(|piece| {
        let text = piece["text"].as_str().unwrap_or_default();
        if piece["match"] == true { format!("[{text}]") } else { text.to_owned() }
    });
    shown.collect()
}
