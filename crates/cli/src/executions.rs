//! `callboard executions`.

use std::path::PathBuf;
use std::time::Duration;

use callboard_client::{Call, Client};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input::{self, Body};
use super::output::{Column, Format, details, status_line, table};
use super::wait::conclude;
use super::watch::{self, View};

mod fork;
mod show;

pub(super) use show::show;

const COLUMNS: [Column; 9] = [
    ("ID", "id"),
    ("STATUS", "status"),
    ("DONE", "progress.completed"),
    ("OF", "progress.total"),
    ("PLAN", "planId"),
    ("TEMPLATE", "templateId"),
    ("VERSION", "templateVersion"),
    ("TITLE", "title"),
    ("STARTED", "startedAt"),
];

const ERASED: [Column; 6] = [
    ("id", "id"),
    ("status", "status"),
    ("texts erased", "erasedAt"),
    ("tasks", "tasks"),
    ("signals", "signals"),
    ("stays", "stays"),
];

const ITEMS: [Column; 7] = [
    ("ITEM", "item"),
    ("STATUS", "status"),
    ("MS", "durationMs"),
    ("ATTEMPT", "attempt"),
    ("TASK", "taskId"),
    ("OUTPUT", "shownOutput"),
    ("ERROR", "error.message"),
];

const DRY_STEPS: [Column; 11] = [
    ("LEVEL", "level"),
    ("STEP", "id"),
    ("ITEMS", "shownItems"),
    ("AFTER", "dependsOn"),
    ("MODEL", "model"),
    ("QUEUE", "queue"),
    ("SIGNAL", "signal"),
    ("CONDITION", "condition"),
    ("GATE", "gate"),
    ("REUSED", "reused"),
    ("COST (USD)", "shownCost"),
];

const DRY_FIELDS: [Column; 6] = [
    ("critical path", "criticalPath"),
    ("cost (USD)", "shownCost"),
    ("  at worst", "shownWorst"),
    ("budget (USD)", "budget.maxCost"),
    ("duration (ms)", "estimate.durationMs"),
    ("estimated from", "estimate.basis"),
];

/// The commands on executions.
#[derive(Debug, Clone, Subcommand)]
pub enum Executions {
    /// List executions, the newest first.
    #[command(disable_version_flag = true)]
    List(List),
    /// Show an execution with its steps and their outputs.
    Show(show::Show),
    /// List the items of a step with forEach, in the order of its list.
    Items(ListItems),
    /// Follow an execution to its end; exit code 10 if it failed.
    Watch {
        /// The execution.
        #[arg(value_parser = input::id)]
        id: String,
        /// Maximum time to watch, such as 5m; exit code 8 after it.
        #[arg(long, value_parser = input::duration)]
        timeout: Option<Duration>,
    },
    /// Cancel an execution that has not ended; completed steps are kept.
    Cancel {
        /// The execution.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Erase the texts of an ended execution and of all its tasks.
    ///
    /// Input, title, idempotency key, outputs, edits and comments go. Status, usage, cost and tags stay, and the
    /// histories of approvals still verify. The reason goes into the audit log. Requires the role admin.
    Erase {
        /// The execution.
        #[arg(value_parser = input::id)]
        id: String,
        /// The reason, 1 to 256 characters.
        #[arg(long)]
        reason: String,
    },
    /// Send a signal to an execution; the step that waits for it continues.
    Signal(Signal),
    /// Fork an execution: the new one reuses each completed step that has not changed.
    Fork(fork::Fork),
    /// Run the failed and cancelled steps of an execution again.
    Retry {
        /// The execution.
        #[arg(value_parser = input::id)]
        id: String,
        /// Wait for the end; exit code 10 if it failed.
        #[arg(long)]
        wait: bool,
        /// Maximum time to wait, such as 5m.
        #[arg(long, requires = "wait", value_parser = input::duration, value_name = "DURATION")]
        wait_timeout: Option<Duration>,
    },
}

/// The filters of a step's items.
#[derive(Debug, Clone, Args)]
pub struct ListItems {
    /// The execution.
    #[arg(value_parser = input::id)]
    id: String,
    /// The step, by its id in the plan.
    step: String,
    /// Statuses, separated by commas: pending, running, completed, failed, cancelled, rejected.
    #[arg(long, value_delimiter = ',')]
    status: Vec<String>,
    /// Items to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// Items to skip.
    #[arg(long)]
    offset: Option<u64>,
}

/// A signal.
#[derive(Debug, Clone, Args)]
pub struct Signal {
    /// The execution.
    #[arg(value_parser = input::id)]
    id: String,
    /// The name that the step waits for.
    name: String,
    /// Payload, as text.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["json", "file"])]
    payload: Option<String>,
    /// Payload, as JSON.
    #[arg(long, value_name = "JSON", value_parser = input::json_value, conflicts_with = "file")]
    json: Option<Value>,
    /// File with the payload, in JSON or YAML; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Replace an earlier signal that no step has used.
    #[arg(long)]
    replace: bool,
    /// Key that prevents a second signal, so that the command is safe to repeat.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Signal {
    fn call(&self) -> Result<Call<'_>, Failure> {
        let payload = match (&self.payload, &self.json, &self.file) {
            (Some(text), _, _) => Some(Value::String(text.clone())),
            (None, Some(json), _) => Some(json.clone()),
            (None, None, Some(file)) => Some(input::document(file)?),
            (None, None, None) => None,
        };
        let body = Body::default().set("payload", payload).flag("replace", self.replace);
        let call = Call::post(&["plans", "executions", &self.id, "signals", &self.name]);
        Ok(call.json(&body.value()).idempotency_key(self.idempotency_key.as_deref())?)
    }
}

/// The filters of a list of executions.
#[derive(Debug, Clone, Args)]
pub struct List {
    /// Statuses, separated by commas: running, completed, failed, cancelled.
    #[arg(long, value_delimiter = ',')]
    status: Vec<String>,
    /// Executions of this plan.
    #[arg(long, value_name = "ID")]
    plan: Option<String>,
    /// Executions of this template.
    #[arg(long, value_name = "ID")]
    template: Option<String>,
    /// Executions of this version of the template.
    #[arg(long, requires = "template")]
    version: Option<String>,
    /// Tags, separated by commas; an execution must have all of them.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Created at this time or later, such as 2026-11-21T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    created_after: Option<String>,
    /// Created before this time.
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
    /// Tasks of the rows of this batch; none for tasks outside batches.
    #[arg(long, value_name = "BATCH|none")]
    batch: Option<String>,
    /// The id, or beginnings of words of the title, the tags or the keys.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Ended at this time or later, however it ended.
    #[arg(long, value_name = "TIME")]
    ended_after: Option<String>,
    /// Ended before this time.
    #[arg(long, value_name = "TIME")]
    ended_before: Option<String>,
    /// Error codes, separated by commas; an execution ended with one of them.
    #[arg(long = "error", value_delimiter = ',', value_name = "CODE")]
    errors: Vec<String>,
    /// Error codes, separated by commas; an execution ended with none of them, such as REJECTED.
    #[arg(long = "except-error", value_delimiter = ',', value_name = "CODE")]
    except_errors: Vec<String>,
    /// Order by createdAt or completedAt.
    #[arg(long)]
    order_by: Option<String>,
    /// Direction of the order: asc or desc.
    #[arg(long)]
    order: Option<String>,
    /// Items to list, 1 to 100; by default 20.
    #[arg(long)]
    limit: Option<u64>,
    /// Items to skip.
    #[arg(long)]
    offset: Option<u64>,
}

impl List {
    /// Fails if the requested plan or template does not exist.
    async fn exists(&self, client: &Client) -> Result<(), Failure> {
        for (kind, id) in [("plans", &self.plan), ("templates", &self.template)] {
            if let Some(id) = id {
                client.data(Call::get(&[kind, id])).await?;
            }
        }
        Ok(())
    }
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Executions>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Executions::List(wanted) => {
            let call = Call::get(&["plans", "executions"])
                .commas("status", &wanted.status)
                .query("planId", wanted.plan.as_ref())
                .query("templateId", wanted.template.as_ref())
                .query("version", wanted.version.as_ref())
                .commas("tags", &wanted.tags)
                .query("createdAfter", wanted.created_after.as_ref())
                .query("createdBefore", wanted.created_before.as_ref())
                .query("batch", wanted.batch.as_ref())
                .query("search", wanted.search.as_ref())
                .query("endedAfter", wanted.ended_after.as_ref())
                .query("endedBefore", wanted.ended_before.as_ref())
                .commas("error", &wanted.errors)
                .commas("exceptError", &wanted.except_errors)
                .query("orderBy", wanted.order_by.as_ref())
                .query("order", wanted.order.as_ref())
                .query("limit", wanted.limit)
                .query("offset", wanted.offset);
            let page = client.page(call).await?;
            if page.data.is_empty() {
                wanted.exists(&client).await?;
            }
            access.output.list("executions", &page, &COLUMNS)
        }
        Executions::Show(wanted) => wanted.run(&client, &access).await,
        Executions::Items(wanted) => {
            let path = ["plans", "executions", &wanted.id, "steps", &wanted.step, "items"];
            let call = Call::get(&path)
                .commas("status", &wanted.status)
                .query("limit", wanted.limit)
                .query("offset", wanted.offset);
            let mut page = client.page(call).await?;
            if access.output == Format::Table {
                page.data.iter_mut().for_each(shorten_output);
            }
            access.output.list("items", &page, &ITEMS)
        }
        Executions::Watch { id, timeout } => {
            let mut view = View::watched(access.output.format());
            let execution = watch::follow(&client, &id, &mut view, timeout).await?;
            let is_last = access.output == Format::Json;
            let printed = if is_last { show(&access, &execution) } else { Ok(()) };
            conclude("execution", &execution, printed)
        }
        Executions::Cancel { id } => {
            let execution = client.data(Call::delete(&["plans", "executions", &id])).await?;
            show(&access, &execution)
        }
        Executions::Erase { id, reason } => {
            let call = Call::delete(&["plans", "executions", &id, "texts"]);
            let erased = client.data(call.json(&json!({"reason": reason}))).await?;
            access.output.item(&erased, |erased| details(erased, &ERASED, &[]))
        }
        Executions::Signal(signal) => {
            let execution = client.data(signal.call()?).await?;
            show(&access, &execution)
        }
        Executions::Fork(forked) => forked.send(&client, &access).await,
        Executions::Retry { id, wait, wait_timeout } => {
            let call = Call::post(&["plans", "executions", &id, "retry"]);
            let execution = client.data(call).await?;
            if wait {
                self::wait(&client, &access, &id, wait_timeout).await
            } else {
                show(&access, &execution)
            }
        }
    }
}

/// Shows an execution once it has ended, and its progress on standard error until then.
pub(super) async fn wait(
    client: &Client,
    access: &Access,
    id: &str,
    limit: Option<Duration>,
) -> Result<(), Failure> {
    status_line(&format!("{id} runs"));
    let execution = watch::follow(client, id, &mut View::awaited(), limit).await?;
    conclude("execution", &execution, show(access, &execution))
}

/// Shows the steps that would run.
pub(super) fn show_dry_run(access: &Access, plan: &Value) -> Result<(), Failure> {
    access.output.item(plan, |plan| {
        let (mut plan, mut steps) = (plan.clone(), plan["steps"].as_array().cloned());
        let steps = steps.get_or_insert_default();
        for step in steps.iter_mut() {
            step["shownItems"] = expected(&step["items"]);
            let is_known = step["priceUnknown"] != true;
            step["shownCost"] =
                if is_known { step["estimatedCost"].clone() } else { "unknown".into() };
        }
        let estimate = &plan["estimate"];
        let [cost, worst] = if estimate["priceUnknown"] == true {
            [format!("unknown, at least {}", estimate["cost"]).into(), "unknown".into()]
        } else {
            [estimate["cost"].clone(), estimate["costHigh"].clone()]
        };
        (plan["shownCost"], plan["shownWorst"]) = (cost, worst);
        format!("{}\n{}", table(&DRY_STEPS, steps), details(&plan, &DRY_FIELDS, &[]))
    })?;
    match plan["budget"]["message"].as_str() {
        Some(message) => Err(Failure::Other(format!("the budget would end the run: {message}"))),
        None => Ok(()),
    }
}

/// The number of items of a step that would run, or its upper bound.
fn expected(items: &Value) -> Value {
    match (items["expected"].as_u64(), items["maxItems"].as_u64()) {
        (Some(expected), _) => expected.into(),
        (None, Some(most)) => format!("up to {most}").into(),
        (None, None) => Value::Null,
    }
}

/// The characters of an item's output that a table shows.
const SHOWN_OUTPUT: usize = 60;

/// Adds the beginning of an item's output, in one line.
fn shorten_output(item: &mut Value) {
    let Some(output) = item["output"].as_str() else { return };
    let line: String = output.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = line.chars().take(SHOWN_OUTPUT).collect();
    if shown.len() < line.len() {
        shown.push('…');
    }
    item["shownOutput"] = shown.into();
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use serde_json::json;

    use super::*;

    #[derive(clap::Parser)]
    struct Parsed {
        #[command(flatten)]
        signal: Signal,
    }

    #[test]
    fn the_payload_of_a_signal_is_json_if_the_option_says_so() {
        let parsed =
            |option, value| Parsed::try_parse_from(["signal", "dt_exec_1", "paid", option, value]);
        for (given, expected) in [
            (r#"{"a":1}"#, json!({"a": 1})),
            ("[1,true,null]", json!([1, true, null])),
            ("12", json!(12)),
            (r#""text""#, json!("text")),
        ] {
            let signal = parsed("--json", given).expect("it is JSON").signal;
            assert_eq!(signal.json, Some(expected), "{given}");
        }
        for bad in ["{a:1}", "text", "", "1 2"] {
            assert!(parsed("--json", bad).is_err(), "{bad}");
        }
        let signal = parsed("--payload", r#"{"a":1}"#).expect("it is text").signal;
        assert_eq!(signal.payload.as_deref(), Some(r#"{"a":1}"#));
    }

    #[test]
    fn the_items_of_a_dry_run_are_a_number_or_a_bound() {
        assert_eq!(expected(&json!({"expected": 3, "maxItems": 10})), 3);
        assert_eq!(expected(&json!({"maxItems": 10})), "up to 10");
    }

    #[test]
    fn a_long_output_is_shown_by_its_beginning_in_one_line() {
        let mut item = json!({"output": format!("a\n  b {}", "ü".repeat(100))});
        shorten_output(&mut item);
        let shown = item["shownOutput"].as_str().unwrap();
        assert!(shown.starts_with("a b ü") && shown.ends_with("ü…"), "{shown}");
        assert_eq!(shown.chars().count(), SHOWN_OUTPUT + 1);
    }
}
