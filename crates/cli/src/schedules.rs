//! `callboard schedules`.

use std::path::PathBuf;
use std::time::Duration;

use callboard_client::Call;
use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input::{self, Body, Setting, Window};
use super::output::{Column, Format, details, status_line, table};

const COLUMNS: [Column; 8] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("CRON", "cron"),
    ("ZONE", "timezone"),
    ("AT", "at"),
    ("ENABLED", "enabled"),
    ("NEXT", "nextRunAt"),
    ("OVERLAP", "overlap"),
];

const FIELDS: [Column; 24] = [
    ("id", "id"),
    ("name", "name"),
    ("cron", "cron"),
    ("timezone", "timezone"),
    ("at", "at"),
    ("overlap", "overlap"),
    ("catch-up", "catchUp"),
    ("jitter (ms)", "jitterMs"),
    ("enabled", "enabled"),
    ("next", "nextRunAt"),
    ("runs plan", "target.planId"),
    ("runs template", "target.templateId"),
    ("version", "target.version"),
    ("runs function", "target.task.function"),
    ("model", "target.task.model"),
    ("queue", "target.task.queue"),
    ("title", "target.title"),
    ("tags", "target.tags"),
    ("webhooks to", "target.callbackUrl"),
    ("max cost", "target.options.maxCost"),
    ("queued", "queued"),
    ("made by", "createdBy"),
    ("created", "createdAt"),
    ("updated", "updatedAt"),
];

const TEXTS: [Column; 3] = [
    ("runs a task with the prompt", "target.task.prompt"),
    ("args", "target.task.args"),
    ("input", "target.input"),
];

const RUNS: [Column; 6] = [
    ("SCHEDULED", "scheduledAt"),
    ("DECIDED", "decidedAt"),
    ("OUTCOME", "outcome"),
    ("TASK", "taskId"),
    ("EXECUTION", "executionId"),
    ("ERROR", "error"),
];

/// The commands on schedules.
#[derive(Debug, Clone, Subcommand)]
pub enum Schedules {
    /// Create a schedule.
    Create(Box<Create>),
    /// List schedules, the newest first.
    List {
        /// Only enabled schedules, or with false only paused ones.
        #[arg(long)]
        enabled: Option<bool>,
        /// The page of the list.
        #[command(flatten)]
        window: Window,
    },
    /// Show a schedule with its last occurrences.
    Show {
        /// The schedule.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// List the occurrences of a schedule, the newest first.
    Runs {
        /// The schedule.
        #[arg(value_parser = input::id)]
        id: String,
        /// The page of the list.
        #[command(flatten)]
        window: Window,
    },
    /// Pause a schedule: it starts nothing until it is resumed.
    Pause {
        /// The schedule.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Resume a paused schedule; missed occurrences are not made up for.
    Resume {
        /// The schedule.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Start the work of a schedule now, paused or not.
    Trigger {
        /// The schedule.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Delete a schedule; tasks and executions that it started continue.
    Delete {
        /// The schedule.
        #[arg(value_parser = input::id)]
        id: String,
    },
}

/// A schedule to be created.
#[derive(Debug, Clone, Args)]
pub struct Create {
    /// Name.
    name: String,
    /// Cron expression: minute, hour, day of month, month, day of week.
    #[arg(long, required_unless_present = "at", conflicts_with = "at")]
    cron: Option<String>,
    /// Run once, at this time, such as 2026-11-21T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The time zone of the cron expression, such as Europe/Berlin; by default UTC.
    #[arg(long, value_name = "ZONE", conflicts_with = "at")]
    timezone: Option<String>,
    /// Rule while an earlier run is in progress: skip (by default), queue, `cancel_running` or allow.
    #[arg(long)]
    overlap: Option<String>,
    /// Missed occurrences to make up for: none, last (by default) or all.
    #[arg(long)]
    catch_up: Option<String>,
    /// Maximum random delay, such as 30s.
    #[arg(long, value_parser = input::duration)]
    jitter: Option<Duration>,
    /// Create the schedule paused.
    #[arg(long)]
    paused: bool,
    /// Run a task with this prompt.
    #[arg(long, value_name = "TEXT", group = "work")]
    prompt: Option<String>,
    /// Run a task: file with its fields, in JSON or YAML; `-` reads standard input.
    #[arg(long, value_name = "FILE", group = "work")]
    task: Option<PathBuf>,
    /// Execute this plan.
    #[arg(long, value_name = "ID", group = "work")]
    plan: Option<String>,
    /// Deploy this template.
    #[arg(long, value_name = "ID", group = "work")]
    template: Option<String>,
    /// Version of the template; by default the highest at each occurrence.
    #[arg(long, requires = "template")]
    version_of_template: Option<String>,
    /// One field of the input: name=text, name:=JSON, or name=@FILE for the text of a file.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = input::setting)]
    settings: Vec<Setting>,
}

impl Create {
    fn body(&self) -> Result<Value, Failure> {
        let mut input = Map::new();
        input::apply(&self.settings, &mut input)?;
        let task = match (&self.prompt, &self.task) {
            (Some(prompt), _) => Some(Body::default().set("prompt", Some(prompt.clone())).value()),
            (None, Some(file)) => Some(Value::Object(input::object(file)?)),
            (None, None) => None,
        };
        let target = Body::default()
            .set("task", task)
            .set("planId", self.plan.clone())
            .set("templateId", self.template.clone())
            .set("version", self.version_of_template.clone())
            .set("input", (!input.is_empty()).then_some(input));
        let body = Body::default()
            .set("name", Some(self.name.clone()))
            .set("cron", self.cron.clone())
            .set("at", self.at.clone())
            .set("timezone", self.timezone.clone())
            .set("overlap", self.overlap.clone())
            .set("catchUp", self.catch_up.clone())
            .set("jitterMs", self.jitter.map(input::millis))
            .set("enabled", self.paused.then_some(false))
            .object("target", target);
        Ok(body.value())
    }
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Schedules>) -> Result<(), Failure> {
    let client = access.client()?;
    let enable = |enabled: bool| Body::default().set("enabled", Some(enabled)).value();
    let call = match &command {
        Schedules::Create(asked) => Call::post(&["schedules"]).json(&asked.body()?),
        Schedules::List { enabled, window } => {
            let call = window.of(Call::get(&["schedules"]).query("enabled", *enabled));
            return access.output.list("schedules", &client.page(call).await?, &COLUMNS);
        }
        Schedules::Show { id } => {
            let schedule = client.data(Call::get(&["schedules", id])).await?;
            let runs = client.page(Call::get(&["schedules", id, "runs"])).await?;
            show(&access, &schedule, &runs.data)?;
            if access.output == Format::Table && runs.pagination["hasMore"] == true {
                status_line(&format!(
                    "The last {} of {} occurrences; callboard schedules runs {id} lists all.",
                    runs.data.len(),
                    runs.pagination["total"]
                ));
            }
            return Ok(());
        }
        Schedules::Runs { id, window } => {
            let call = window.of(Call::get(&["schedules", id, "runs"]));
            return access.output.list("occurrences", &client.page(call).await?, &RUNS);
        }
        Schedules::Pause { id } => Call::patch(&["schedules", id]).json(&enable(false)),
        Schedules::Resume { id } => Call::patch(&["schedules", id]).json(&enable(true)),
        Schedules::Trigger { id } => {
            let run = client.data(Call::post(&["schedules", id, "trigger"])).await?;
            let fields = RUNS.map(|(_, path)| (path, path));
            return access.output.item(&run, |run| details(run, &fields, &[]));
        }
        Schedules::Delete { id } => Call::delete(&["schedules", id]),
    };
    show(&access, &client.data(call).await?, &[])
}

fn show(access: &Access, schedule: &Value, runs: &[Value]) -> Result<(), Failure> {
    access.output.item(schedule, |schedule| {
        let shown = details(schedule, &FIELDS, &TEXTS);
        if runs.is_empty() { shown } else { format!("{shown}\n{}", table(&RUNS, runs)) }
    })
}
