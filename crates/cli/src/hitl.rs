//! `callboard hitl`: outputs that wait for a reviewer (docs/reference/approvals.md).
//!
//! Deliberately absent: a decision on several items at once. A reviewer sees each item.

use std::time::Duration;

use callboard_client::{Call, Client};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input;
use super::output::{Column, Format, Only, details, status_line};
use super::people::People;

mod backtest;
mod decide;
mod editor;
mod history;
mod item;
mod review;
mod stats;
mod verify;

const COLUMNS: [Column; 9] = [
    ("TASK", "taskId"),
    ("STEP", "stepId"),
    ("STATUS", "status"),
    ("WHY", "why"),
    ("CONFIDENCE", "confidence"),
    ("WAITING", "waiting"),
    ("UNTIL", "timeoutAt"),
    ("ASSIGNED", "assignedTo"),
    ("CLAIMED", "claimedBy"),
];

const DECIDED: [Column; 6] = [
    ("TASK", "taskId"),
    ("STEP", "stepId"),
    ("STATUS", "status"),
    ("BY", "decision.by"),
    ("AT", "decision.at"),
    ("COMMENT", "decision.comment"),
];

const CLAIM: [Column; 3] =
    [("task", "taskId"), ("claimed by", "claimedBy"), ("until", "claimedUntil")];

const ASSIGNED: [Column; 3] =
    [("task", "taskId"), ("status", "status"), ("assignee", "assignedTo")];

const EXTENDED: [Column; 3] = [("task", "taskId"), ("status", "status"), ("until", "timeoutAt")];

const REOPENED: [Column; 5] = [
    ("task", "taskId"),
    ("status", "status"),
    ("assignee", "assignedTo"),
    ("until", "timeoutAt"),
    ("corrects", "corrects"),
];

/// The commands on outputs that wait for a reviewer.
#[derive(Debug, Clone, Subcommand)]
pub enum Hitl {
    /// List outputs that wait for a reviewer, overdue ones too, the newest first.
    List(List),
    /// Show an output with its prompt, why it is held, and its history.
    Show {
        /// The task.
        #[arg(value_parser = input::id)]
        task: String,
        #[command(flatten)]
        only: Only,
    },
    /// Claim an output for five minutes, so that other reviewers see it.
    Claim {
        /// The task.
        #[arg(value_parser = input::id)]
        task: String,
    },
    /// Release a claim.
    Release {
        /// The task.
        #[arg(value_parser = input::id)]
        task: String,
    },
    /// Give an output to a reviewer, who is then its assignee.
    Assign {
        /// The task.
        #[arg(value_parser = input::id)]
        task: String,
        /// The id of the user, such as `usr_…`: one who may decide.
        #[arg(long = "to", value_name = "USER", value_parser = input::id)]
        user: String,
    },
    /// Give the reviewers of an output more time, overdue ones too.
    Extend {
        /// The task.
        #[arg(value_parser = input::id)]
        task: String,
        /// The time from now on, such as 36h: at most 30 days.
        #[arg(long = "for", value_parser = input::duration, value_name = "DURATION")]
        time: Duration,
        /// The reason, for the history.
        #[arg(long)]
        reason: Option<String>,
    },
    /// Approve an output, as it is or edited; exit code 6 if it is already decided.
    Approve(decide::Approve),
    /// Reject an output; exit code 6 if it is already decided.
    Reject(decide::Reject),
    /// Take a decision back, so that the output waits again; exit code 6 and the uses if the output was used.
    Reopen {
        /// The task.
        #[arg(value_parser = input::id)]
        task: String,
        /// Ask for another decision beside the first if the output was used.
        #[arg(long)]
        as_correction: bool,
    },
    /// List the history of an output, the oldest entry first.
    History {
        /// The task.
        #[arg(value_parser = input::id)]
        task: String,
    },
    /// Show statistics: waiting outputs, time to a decision, reviewers.
    Stats,
    /// Recompute the chained history of one output, or of all; exit code 1 if one is broken.
    Verify {
        /// The task; by default every task that was ever held.
        #[arg(value_parser = input::id)]
        task: Option<String>,
    },
    /// Evaluate another threshold against the decisions of reviewers.
    Backtest(Backtest),
    /// Review waiting outputs one by one, on the terminal.
    Review(review::Wanted),
}

/// The filters of a list of items.
#[derive(Debug, Clone, Args)]
pub struct List {
    /// The queue.
    #[arg(long)]
    queue: Option<String>,
    /// Tasks of the rows of this batch; none for tasks outside batches.
    #[arg(long, value_name = "BATCH|none")]
    batch: Option<String>,
    /// Tags, separated by commas; an output must have all of them.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Assigned to this user, by e-mail or id.
    #[arg(long, value_name = "USER")]
    reviewer: Option<String>,
    /// The id, or beginnings of words of the title, tags or keys; an output must have all of them.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Statuses, separated by commas: pending, assigned, escalated, overdue, approved, rejected, cancelled.
    #[arg(long, value_delimiter = ',')]
    status: Vec<String>,
    /// All outputs, decided ones included.
    #[arg(long, conflicts_with = "status")]
    all: bool,
    /// Decided outputs, the latest decision first; with --reviewer those that this user decided.
    #[arg(long, conflicts_with_all = ["status", "all"])]
    decided: bool,
    /// Items to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// Items to skip.
    #[arg(long)]
    offset: Option<u64>,
}

/// The threshold to judge, and the outputs to judge it by.
#[derive(Debug, Clone, Args)]
pub struct Backtest {
    /// Minimum confidence to skip review, 0 to 1.
    #[arg(long)]
    threshold: f64,
    /// Outputs of this template.
    #[arg(long, value_name = "ID")]
    template: Option<String>,
    /// Outputs of this step.
    #[arg(long, value_name = "ID")]
    step: Option<String>,
    /// Confidences made by this method: logprobs, samples, judge, reported, none.
    #[arg(long)]
    method: Option<String>,
    /// Outputs of this model.
    #[arg(long)]
    model: Option<String>,
}

/// The wait of an item, and a mark if it is overdue; empty for an unknown item.
pub(super) fn in_short(item: &Value) -> String {
    let waits = item["waitingMs"].as_u64().map(|millis| format!(", {}", item::waited(millis)));
    let overdue = if item::is_overdue(item) { ", overdue" } else { "" };
    format!("{}{overdue}", waits.unwrap_or_default())
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Hitl>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Hitl::List(wanted) => list(&client, &access, &wanted).await,
        Hitl::Show { task, only } if only.output_only => {
            let item = client.data(Call::get(&["hitl", &task])).await?;
            access.output.text_only(true).item(&item, item::shown)
        }
        Hitl::Show { task, .. } => show(&client, &access, &task).await,
        Hitl::Claim { task } => claim(&client, &access, &task, "claim").await,
        Hitl::Release { task } => claim(&client, &access, &task, "release").await,
        Hitl::Assign { task, user } => {
            let call = Call::post(&["hitl", &task, "assign"]).json(&json!({"assignee": user}));
            let assigned = client.data(call).await?;
            access.output.item(&assigned, |assigned| details(assigned, &ASSIGNED, &[]))
        }
        Hitl::Extend { task, time, reason } => {
            let timeout_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let mut body = json!({"timeoutMs": timeout_ms});
            if let Some(reason) = reason {
                body["reason"] = reason.into();
            }
            let call = Call::post(&["hitl", &task, "extend"]).json(&body);
            let extended = client.data(call).await?;
            access.output.item(&extended, |extended| details(extended, &EXTENDED, &[]))
        }
        Hitl::Approve(asked) => decide::approve(&client, &access, &asked).await,
        Hitl::Reject(asked) => decide::reject(&client, &access, &asked).await,
        Hitl::Reopen { task, as_correction } => {
            let body = json!({"asCorrection": as_correction});
            let call = Call::post(&["hitl", &task, "reopen"]).json(&body);
            let reopened = client.data(call).await?;
            access.output.item(&reopened, |reopened| details(reopened, &REOPENED, &[]))
        }
        Hitl::History { task } => {
            let page = client.page(Call::get(&["hitl", &task, "history"])).await?;
            history::list(&access, page, &People::known_reviewers(&client).await)
        }
        Hitl::Stats => {
            let stats = client.data(Call::get(&["hitl", "stats"])).await?;
            let overdue = overdue(&client, Call::get(&["hitl"])).await;
            stats::show(&access, &stats, overdue)
        }
        Hitl::Verify { task } => verify::run(&client, &access, task.as_deref()).await,
        Hitl::Backtest(wanted) => backtest::run(&client, &access, &wanted).await,
        Hitl::Review(wanted) => review::run(&client, &wanted).await,
    }
}

async fn list(client: &Client, access: &Access, wanted: &List) -> Result<(), Failure> {
    let reviewer = match &wanted.reviewer {
        Some(user) => Some(People::reviewers(client).await?.named("reviewer", user)?),
        None => None,
    };
    let mut page = client.page(wanted.call(reviewer.as_ref())).await?;
    if access.output != Format::Table {
        return access.output.list("outputs", &page, &COLUMNS);
    }
    if wanted.decided {
        let people = People::known_reviewers(client).await;
        page.data.iter_mut().for_each(|item| people.show(item, &item::USERS));
        return access.output.list("outputs", &page, &DECIDED);
    }
    page.data = page.data.iter().map(item::row).collect();
    let people = People::known_reviewers(client).await;
    page.data.iter_mut().for_each(|row| people.show(row, &item::USERS));
    access.output.list("outputs", &page, &COLUMNS)?;
    if wanted.is_of_undecided() {
        let call = wanted.filtered(Call::get(&["hitl"]), reviewer.as_ref());
        match overdue(client, call).await {
            None | Some(0) => {}
            Some(1) => status_line("1 of them is overdue"),
            Some(overdue) => status_line(&format!("{overdue} of them are overdue")),
        }
    }
    Ok(())
}

/// The number of overdue items in the list of `call`; `None` if the server does not report it.
async fn overdue(client: &Client, call: Call<'_>) -> Option<u64> {
    let call = call.query("status", Some("expired")).query("limit", Some(1));
    client.page(call).await.ok()?.pagination["total"].as_u64()
}

async fn show(client: &Client, access: &Access, task: &str) -> Result<(), Failure> {
    let mut item = client.data(Call::get(&["hitl", task])).await?;
    let entries = client.data(Call::get(&["hitl", task, "history"])).await?;
    item["entries"] = entries;
    if access.output == Format::Table {
        let people = People::known_reviewers(client).await;
        people.show(&mut item, &item::USERS);
        let entries = item["entries"].as_array_mut().into_iter().flatten();
        entries.for_each(|entry| people.show(entry, &history::USERS));
    }
    access.output.item(&item, |item| {
        format!("{}\n{}", item::shown(item), history::in_short(&item["entries"]))
    })
}

async fn claim(client: &Client, access: &Access, task: &str, what: &str) -> Result<(), Failure> {
    let claim = client.data(Call::post(&["hitl", task, what])).await?;
    access.output.item(&claim, |claim| details(claim, &CLAIM, &[]))
}

impl List {
    /// True if the list holds every waiting item.
    const fn is_of_undecided(&self) -> bool {
        !self.all && !self.decided && self.status.is_empty()
    }

    fn call<'c>(&'c self, reviewer: Option<&'c String>) -> Call<'c> {
        let call = if self.is_of_undecided() {
            // An item whose time ran out is not decided, so it still waits.
            Call::get(&["hitl", "pending"]).query("includeExpired", Some(true))
        } else if self.decided {
            let call = Call::get(&["hitl"]).query("status", Some("approved,rejected"));
            call.query("orderBy", Some("decidedAt"))
        } else {
            let on_wire = |status: &String| match status.as_str() {
                "overdue" => "expired".to_owned(),
                _ => status.clone(),
            };
            let status: Vec<_> = self.status.iter().map(on_wire).collect();
            Call::get(&["hitl"]).commas("status", &status)
        };
        self.filtered(call, reviewer).query("limit", self.limit).query("offset", self.offset)
    }

    fn filtered<'c>(&'c self, call: Call<'c>, reviewer: Option<&'c String>) -> Call<'c> {
        call.query("queue", self.queue.as_ref())
            .query("batch", self.batch.as_ref())
            .commas("tags", &self.tags)
            .query("reviewerId", reviewer)
            .query("search", self.search.as_ref())
    }
}
