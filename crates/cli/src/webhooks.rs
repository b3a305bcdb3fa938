//! `callboard webhooks`.

use callboard_client::Call;
use clap::Subcommand;
use serde_json::json;

use super::access::Remote;
use super::failure::Failure;
use super::input::{self, Window};
use super::output::{Column, details, status_line};

const COLUMNS: [Column; 8] = [
    ("ID", "id"),
    ("EVENT", "event"),
    ("TASK", "taskId"),
    ("STATUS", "status"),
    ("ATTEMPTS", "attempts"),
    ("LAST", "lastStatus"),
    ("NEXT", "nextAttemptAt"),
    ("URL", "url"),
];

/// The commands on webhooks.
#[derive(Debug, Clone, Subcommand)]
pub enum Webhooks {
    /// List deliveries of webhooks and mails, the newest first.
    List {
        /// Statuses, separated by commas: pending, delivered, dead, dropped.
        #[arg(long)]
        status: Option<String>,
        /// Deliveries about this task.
        #[arg(long, value_parser = input::id)]
        task: Option<String>,
        /// The page of the list.
        #[command(flatten)]
        window: Window,
    },
    /// Send a delivery again, or at once if it waits for its next attempt.
    Redeliver {
        /// The delivery.
        #[arg(value_parser = input::id)]
        id: String,
    },
    /// Show the secret with which receivers verify signatures; requires the role admin.
    Secret {
        /// The secret of the sandbox, in place of production's.
        #[arg(long)]
        sandbox: bool,
    },
    /// Create a new secret and show it; the old one also signs until the overlap ends.
    RotateSecret {
        /// Time for which the old secret signs too: 0s, 1h, 24h, 7d.
        #[arg(long, default_value = "24h")]
        overlap: String,
    },
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Webhooks>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Webhooks::List { status, task, window } => {
            let call = window.of(Call::get(&["webhooks", "deliveries"]));
            let call = call.query("status", status).query("taskId", task);
            access.output.list("deliveries", &client.page(call).await?, &COLUMNS)
        }
        Webhooks::Redeliver { id } => {
            let call = Call::post(&["webhooks", "deliveries", &id, "redeliver"]);
            let delivery = client.data(call).await?;
            let fields = COLUMNS.map(|(_, path)| (path, path));
            access.output.item(&delivery, |delivery| details(delivery, &fields, &[]))
        }
        Webhooks::Secret { sandbox } => {
            let secret = client.data(Call::get(&["webhooks", "secret"])).await?;
            let shown = secret[if sandbox { "sandboxSecret" } else { "secret" }]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            access.output.item(&secret, |_| format!("{shown}\n"))
        }
        Webhooks::RotateSecret { overlap } => {
            let call = Call::post(&["webhooks", "secret", "rotate"]);
            let secret = client.data(call.json(&json!({"overlap": overlap}))).await?;
            match secret["previous"]["validUntil"].as_str() {
                Some(until) => status_line(&format!("the old secret also signs until {until}")),
                None => status_line("the old secret no longer signs"),
            }
            let shown = secret["secret"].as_str().unwrap_or_default().to_owned();
            access.output.item(&secret, |_| format!("{shown}\n"))
        }
    }
}
