//! `callboard keys`.

use callboard_client::Call;
use clap::{Args, Subcommand};

use super::access::Remote;
use super::failure::Failure;
use super::input::Body;
use super::output::{Format, note, print};

/// What to do with API keys.
#[derive(Debug, Clone, Subcommand)]
pub enum Keys {
    /// Make a key. It is written to standard output, this once.
    Create(Create),
}

/// What the key is like.
#[derive(Debug, Clone, Args)]
pub struct Create {
    /// What it is called.
    #[arg(long)]
    name: String,
    /// admin, operator, viewer or worker.
    #[arg(long)]
    role: String,
    /// A number of days; by default 90d.
    #[arg(long, value_name = "DAYS")]
    expires_in: Option<String>,
    /// live or test; by default live.
    #[arg(long)]
    environment: Option<String>,
    /// free, pro or enterprise; by default the server's.
    #[arg(long)]
    plan: Option<String>,
}

/// Does it.
pub(super) async fn run(Remote { access, command }: Remote<Keys>) -> Result<(), Failure> {
    let Keys::Create(asked) = command;
    let client = access.client()?;
    let body = Body::default()
        .set("name", Some(asked.name))
        .set("role", Some(asked.role))
        .set("expiresIn", asked.expires_in)
        .set("environment", asked.environment)
        .set("plan", asked.plan)
        .value();
    let key = client.data(Call::post(&["auth", "keys"]).json(&body)).await?;
    let text = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
    if access.output == Format::Table {
        // The key alone, so that it can be sent into a file.
        let told = [text("id"), text("role"), format!("until {}", text("expiresAt"))].join(", ");
        note(&format!("{told}; it is shown this once"));
        return print(&format!("{}\n", text("key")));
    }
    access.output.item(&key, |_| String::new())
}
