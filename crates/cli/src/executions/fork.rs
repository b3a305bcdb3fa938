//! `callboard executions fork`.

use std::path::PathBuf;
use std::time::Duration;

use callboard_client::{Call, Client};
use clap::Args;
use serde_json::Map;

use super::super::access::Access;
use super::super::failure::Failure;
use super::super::input::{self, Body, Setting};
use super::super::output::warn;
use super::{show, show_dry_run, wait};

/// The fork of an execution.
#[derive(Debug, Clone, Args)]
pub struct Fork {
    /// Execution to fork.
    #[arg(value_parser = input::id)]
    id: String,
    /// Step that runs again in any case.
    #[arg(long, value_name = "STEP")]
    from_step: Option<String>,
    /// Input in place of the original's, in JSON or YAML; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// One field of that input: name=text, name:=JSON, or name=@FILE for the text of a file.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = input::setting)]
    settings: Vec<Setting>,
    /// Another version of the template.
    #[arg(long, value_name = "VERSION")]
    template_version: Option<String>,
    /// Show the reused steps and the estimated cost of the others, and start nothing.
    #[arg(long)]
    dry_run: bool,
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

impl Fork {
    /// Forks the execution and shows the new one.
    pub(super) async fn send(&self, client: &Client, access: &Access) -> Result<(), Failure> {
        let mut input = match &self.input {
            Some(path) => Some(input::object(path)?),
            None if self.settings.is_empty() => None,
            None => Some(Map::new()),
        };
        if let Some(input) = &mut input {
            input::apply(&self.settings, input)?;
        }
        let body = Body::default()
            .set("fromStep", self.from_step.clone())
            .set("input", input)
            .set("version", self.template_version.clone())
            .flag("dryRun", self.dry_run)
            .value();
        let call = Call::post(&["plans", "executions", &self.id, "fork"]).json(&body);
        let call = call.idempotency_key(self.idempotency_key.as_deref())?;
        let execution = client.data(call).await?;
        warn(&execution);
        match execution["id"].as_str() {
            _ if execution["status"] == "dry_run" => show_dry_run(access, &execution),
            Some(id) if self.wait => wait(client, access, id, self.wait_timeout).await,
            _ => show(access, &execution),
        }
    }
}
