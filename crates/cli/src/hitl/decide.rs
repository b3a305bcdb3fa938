//! `callboard hitl approve` and `reject`.
//!
//! Deliberately absent: a second try. A decision that was not acknowledged may have been made; the
//! item shows it.

use std::path::PathBuf;

use callboard_client::{Call, Client};
use clap::Args;
use serde_json::Value;

use super::{editor, item};
use crate::access::Access;
use crate::failure::Failure;
use crate::input::{self, Body};
use crate::output::{Column, Format, details, status_line};
use crate::people::People;

const FIELDS: [Column; 10] = [
    ("task", "taskId"),
    ("status", "status"),
    ("approved by", "approvedBy"),
    ("at", "approvedAt"),
    ("modified", "wasModified"),
    ("comment", "comment"),
    ("rejected by", "rejectedBy"),
    ("at", "rejectedAt"),
    ("reason", "reason"),
    ("tried again as", "retryTaskId"),
];

/// The approval of an output.
#[derive(Debug, Clone, Args)]
pub struct Approve {
    /// The task.
    #[arg(value_parser = input::id)]
    task: String,
    /// Comment.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Edit the output in $VISUAL or $EDITOR; the edited text replaces it.
    #[arg(long, conflicts_with = "output_file")]
    edit: bool,
    /// File with the text that replaces the output; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Record the decision as this user, by e-mail or id.
    #[arg(long, value_name = "USER")]
    reviewer: Option<String>,
}

/// The rejection of an output, and its consequence.
#[derive(Debug, Clone, Args)]
pub struct Reject {
    /// The task.
    #[arg(value_parser = input::id)]
    task: String,
    /// Reason; with --retry, the prompt of the new task contains it.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Submit the task again, as a new task.
    #[arg(long)]
    retry: bool,
    /// Prompt of the new task, to which the reason is added; by default the same prompt.
    #[arg(long, value_name = "TEXT", requires = "retry", conflicts_with = "retry_prompt_file")]
    retry_prompt: Option<String>,
    /// File with the prompt of the new task; `-` reads standard input.
    #[arg(long, value_name = "FILE", requires = "retry")]
    retry_prompt_file: Option<PathBuf>,
    /// Record the decision as this user, by e-mail or id.
    #[arg(long, value_name = "USER")]
    reviewer: Option<String>,
}

/// Approves an output.
pub(super) async fn approve(
    client: &Client,
    access: &Access,
    asked: &Approve,
) -> Result<(), Failure> {
    let modified = match &asked.output_file {
        Some(file) => Some(input::text(file)?),
        None if asked.edit => edited(client, &asked.task).await?,
        None => None,
    };
    let body = Body::default()
        .set("comment", asked.comment.clone())
        .set("modifiedOutput", modified.clone())
        .set("reviewerId", reviewer(client, asked.reviewer.as_deref()).await);
    let sent = send(client, &asked.task, "approve", body).await;
    if let (Err(_), true, Some(text)) = (&sent, asked.edit, &modified) {
        editor::keep(&asked.task, text);
    }
    show(client, access, sent?).await
}

/// Rejects an output.
pub(super) async fn reject(
    client: &Client,
    access: &Access,
    asked: &Reject,
) -> Result<(), Failure> {
    let prompt = match &asked.retry_prompt_file {
        Some(file) => Some(input::text(file)?),
        None => asked.retry_prompt.clone(),
    };
    let body = Body::default()
        .set("reason", Some(asked.reason.clone()))
        .flag("retry", asked.retry)
        .set("retryPrompt", prompt)
        .set("reviewerId", reviewer(client, asked.reviewer.as_deref()).await);
    let decided = send(client, &asked.task, "reject", body).await?;
    show(client, access, decided).await
}

/// The identifier of the user in whose name the decision is made. An unknown name goes to the
/// server unchanged: a key may record a person of another system.
async fn reviewer(client: &Client, named: Option<&str>) -> Option<String> {
    let named = named?;
    let people = People::known_reviewers(client).await;
    Some(people.id(named).unwrap_or(named).to_owned())
}

async fn show(client: &Client, access: &Access, mut decided: Value) -> Result<(), Failure> {
    if access.output == Format::Table {
        let people = People::known_reviewers(client).await;
        people.show(&mut decided, &["approvedBy", "rejectedBy"]);
    }
    access.output.item(&decided, shown)
}

/// Sends a decision; `what` is `approve` or `reject`.
pub(super) async fn send(
    client: &Client,
    task: &str,
    what: &str,
    body: Body,
) -> Result<Value, Failure> {
    Ok(client.data(Call::post(&["hitl", task, what]).json(&body.value())).await?)
}

/// The edited output; `None` if the edit changes nothing.
async fn edited(client: &Client, task: &str) -> Result<Option<String>, Failure> {
    editor::needs_terminal("--edit")?;
    let item = client.data(Call::get(&["hitl", task])).await?;
    if item::is_decided(&item) {
        return Err(Failure::Conflict(format!("{}: nothing to edit", item::over(&item))));
    }
    let before = item::output(&item);
    let after = editor::edit(task, before).await?;
    if after.is_empty() {
        return Err(Failure::Other("the edited text is empty: nothing was decided".into()));
    }
    if after == before {
        status_line("the text is unchanged: it passes as it is");
        return Ok(None);
    }
    Ok(Some(after))
}

fn shown(decided: &Value) -> String {
    details(decided, &FIELDS, &[])
}
