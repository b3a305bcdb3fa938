//! `callboard budgets` and `callboard usage`.

use callboard_client::Call;
use clap::{Args, Subcommand};
use serde_json::Value;

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input::{self, Body, Window};
use super::output::{Column, Format, details};

const COLUMNS: [Column; 9] = [
    ("ID", "id"),
    ("LIMIT", "limit"),
    ("SPENT", "spent"),
    ("RESERVED", "reserved"),
    ("PERIOD", "period"),
    ("ON EXCEED", "onExceed"),
    ("TAGS", "match.tags"),
    ("ACCOUNT", "match.account"),
    ("MODEL", "match.model"),
];

const FIELDS: [Column; 15] = [
    ("id", "id"),
    ("limit (USD)", "limit"),
    ("spent (USD)", "spent"),
    ("reserved (USD)", "reserved"),
    ("period", "period"),
    ("since", "periodStart"),
    ("until", "periodEnd"),
    ("time zone", "timezone"),
    ("alerts at", "alertAt"),
    ("on exceed", "onExceed"),
    ("tags", "match.tags"),
    ("account", "match.account"),
    ("template", "match.templateId"),
    ("model", "match.model"),
    ("created", "createdAt"),
];

const USAGE: [Column; 5] = [
    ("KEY", "key"),
    ("TASKS", "tasks"),
    ("INPUT", "input"),
    ("OUTPUT", "output"),
    ("COST (USD)", "totalCost"),
];

/// The commands on budgets.
#[derive(Debug, Clone, Subcommand)]
pub enum Budgets {
    /// Create a budget; without a filter it covers every task.
    Create(Create),
    /// List budgets and their spending, the newest first.
    List(Window),
    /// Show a budget.
    Show {
        /// The budget.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Change a budget; its spending stays.
    Set {
        /// The budget.
        #[arg(value_parser = input::id)]
        id: String,
        /// Limit of a period, in USD.
        #[arg(long, value_name = "USD")]
        limit: Option<f64>,
        #[command(flatten)]
        rules: Rules,
    },
    /// Delete a budget; tasks that wait for it continue.
    Delete {
        /// The budget.
        #[arg(value_parser = input::id)]
        id: String,
    },
}

/// A budget to be created.
#[derive(Debug, Clone, Args)]
pub struct Create {
    /// Limit of a period, in USD.
    limit: f64,
    /// Period: day, week, month or total.
    #[arg(long)]
    period: String,
    /// Time zone of the period, such as Europe/Berlin; by default UTC.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Tasks that have all of these tags, separated by commas.
    #[arg(long = "tag", value_delimiter = ',', value_name = "TAG")]
    tags: Vec<String>,
    /// Tasks that this user or key submits.
    #[arg(long)]
    account: Option<String>,
    /// Executions of this template.
    #[arg(long)]
    template: Option<String>,
    /// Tasks of this model.
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    rules: Rules,
}

/// The alerts of a budget, and the rule beyond its limit.
#[derive(Debug, Clone, Args)]
pub struct Rules {
    /// Shares of the limit at which an event is sent; by default 0.5,0.8.
    #[arg(long, value_delimiter = ',', value_name = "SHARES")]
    alert_at: Vec<f64>,
    /// Rule beyond the limit: wait (by default), reject or alert.
    #[arg(long, value_name = "RULE")]
    on_exceed: Option<String>,
}

/// The grouping and the period of the usage.
#[derive(Debug, Clone, Args)]
pub struct Usage {
    /// Group by tag, account, template, model, day or tagKey.
    #[arg(long, default_value = "model")]
    group_by: String,
    /// For tagKey: `customer` groups by the rest of the tags `customer:…`.
    #[arg(long, value_name = "KEY")]
    tag_key: Option<String>,
    /// The time zone of the days, such as Europe/Berlin; by default UTC.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// Results at this time or later, such as 2026-11-01T00:00:00Z; by default 30 days ago.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Results before this time; by default now.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    #[command(flatten)]
    access: Access,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Budgets>) -> Result<(), Failure> {
    let client = access.client()?;
    let budget = match command {
        Budgets::List(window) => {
            let page = client.page(window.of(Call::get(&["budgets"]))).await?;
            return access.output.list("budgets", &page, &COLUMNS);
        }
        Budgets::Create(create) => {
            client.data(Call::post(&["budgets"]).json(&create.body())).await?
        }
        Budgets::Show { id } => client.data(Call::get(&["budgets", &id])).await?,
        Budgets::Set { id, limit, rules } => {
            let change = rules.add_to(Body::default().set("limit", limit)).value();
            client.data(Call::patch(&["budgets", &id]).json(&change)).await?
        }
        Budgets::Delete { id } => client.data(Call::delete(&["budgets", &id])).await?,
    };
    access.output.item(&budget, |budget| details(budget, &FIELDS, &[]))
}

/// Prints the usage.
pub(super) async fn usage(asked: Usage) -> Result<(), Failure> {
    let Usage { group_by, tag_key, timezone, from, to, access } = asked;
    let call = Call::get(&["usage"]).query("groupBy", Some(group_by));
    let call = call.query("tagKey", tag_key).query("timezone", timezone);
    let call = call.query("from", from).query("to", to);
    let usage = access.client()?.data(call).await?;
    if access.output != Format::Table {
        return access.output.item(&usage, Value::to_string);
    }
    let mut rows = usage["groups"].as_array().cloned().unwrap_or_default();
    let mut total = usage["total"].clone();
    total["key"] = "(total)".into();
    rows.push(total);
    let page = callboard_client::Page { data: rows, pagination: Value::Null };
    access.output.list("groups", &page, &USAGE)
}

impl Create {
    fn body(&self) -> Value {
        let matches = Body::default()
            .list("tags", &self.tags)
            .set("account", self.account.clone())
            .set("templateId", self.template.clone())
            .set("model", self.model.clone());
        let body = Body::default()
            .set("match", Some(matches.value()))
            .set("limit", Some(self.limit))
            .set("period", Some(self.period.clone()))
            .set("timezone", self.timezone.clone());
        self.rules.add_to(body).value()
    }
}

impl Rules {
    fn add_to(&self, body: Body) -> Body {
        let alerts = (!self.alert_at.is_empty()).then(|| self.alert_at.clone());
        body.set("alertAt", alerts).set("onExceed", self.on_exceed.clone())
    }
}
