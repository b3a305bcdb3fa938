//! The start of an execution: the common part of `plans execute` and `templates deploy`.

use std::path::PathBuf;
use std::time::Duration;

use callboard_client::{Call, Client};
use clap::Args;
use serde_json::{Map, Value};

use super::access::Access;
use super::executions;
use super::failure::Failure;
use super::gate::Gate;
use super::input::{self, Body, Setting};
use super::labels::Labels;
use super::output::warn;

/// The options of an execution's start.
#[derive(Debug, Clone, Args)]
pub struct Start {
    /// The input, in JSON or YAML; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// One field of the input: name=text, name:=JSON, or name=@FILE for the text of a file.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = input::setting)]
    settings: Vec<Setting>,
    /// Show the steps and the estimated cost, and start nothing.
    #[arg(long)]
    dry_run: bool,
    /// Maximum cost, in USD.
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Time limit of the execution, such as 10m.
    #[arg(long, value_parser = input::duration)]
    timeout: Option<Duration>,
    /// Cancel all other steps when a step fails.
    #[arg(long)]
    fail_fast: bool,
    /// Time before which the execution does not start, such as 2026-12-01T06:00:00Z; by default none.
    #[arg(long = "start-at", value_name = "TIME")]
    not_before: Option<String>,
    #[command(flatten)]
    labels: Labels,
    /// Tag; may be given several times.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Step whose output is held for review; may be given several times.
    #[arg(long, value_name = "STEP", value_delimiter = ',')]
    require_approval: Vec<String>,
    #[command(flatten)]
    gate: Gate,
    /// Key that prevents a duplicate, so that the command is safe to repeat.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Wait for the end; exit code 10 if it failed, 8 if it timed out.
    #[arg(long)]
    wait: bool,
    /// Maximum time to wait, such as 5m.
    #[arg(long, requires = "wait", value_parser = input::duration, value_name = "DURATION")]
    wait_timeout: Option<Duration>,
}

impl Start {
    /// True if an input was given.
    pub(super) const fn has_input(&self) -> bool {
        self.input.is_some()
    }

    /// Starts the execution with `call` and shows it; `body` holds the command's own members,
    /// `input` the first fields of the input.
    pub(super) async fn send(
        &self,
        client: &Client,
        access: &Access,
        call: Call<'_>,
        body: Body,
        mut input: Map<String, Value>,
    ) -> Result<(), Failure> {
        if let Some(path) = &self.input {
            input.extend(input::object(path)?);
        }
        input::apply(&self.settings, &mut input)?;
        let body = body
            .set("input", Some(input))
            .object("hitl", self.hitl())
            .object("options", self.options())
            .set("startAt", self.not_before.clone())
            .list("tags", &self.tags);
        let body = self.labels.add_to(body).value();
        let call = call.json(&body).idempotency_key(self.idempotency_key.as_deref())?;
        let execution = client.data(call).await?;
        warn(&execution);
        match execution["id"].as_str() {
            _ if execution["status"] == "dry_run" => executions::show_dry_run(access, &execution),
            Some(id) if self.wait => executions::wait(client, access, id, self.wait_timeout).await,
            _ => executions::show(access, &execution),
        }
    }

    fn hitl(&self) -> Body {
        self.gate.add_to(Body::default().list("requiredFor", &self.require_approval))
    }

    fn options(&self) -> Body {
        Body::default()
            .set("timeoutMs", self.timeout.map(input::millis))
            .set("maxCost", self.max_cost)
            .flag("failFast", self.fail_fast)
            .flag("dryRun", self.dry_run)
    }
}
