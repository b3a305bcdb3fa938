//! `callboard keys`.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use callboard_client::{Call, Client};
use clap::{Args, Subcommand};
use serde_json::Value;

use super::access::{Access, Remote};
use super::failure::Failure;
use super::input::{self, Body, Window};
use super::output::{Column, Format, details, print, status_line, table};
use super::people;

/// The commands on API keys.
#[derive(Debug, Clone, Subcommand)]
pub enum Keys {
    /// Create a key and print it; it is shown only once.
    Create(Create),
    /// List keys, the newest first; revoked and expired ones too.
    List(Window),
    /// Revoke a key, or many: they are refused at once.
    Revoke(Revoke),
    /// Replace a key by a new one and print it; it is shown only once.
    Rotate {
        /// The key's id.
        #[arg(value_parser = input::id)]
        id: String,
        /// Time for which the old key stays valid, such as 1h; by default none.
        #[arg(long)]
        overlap: Option<String>,
    },
}

const COLUMNS: [Column; 10] = [
    ("ID", "id"),
    ("NAME", "name"),
    ("ROLE", "role"),
    ("QUEUES", "queues"),
    ("ENV", "environment"),
    ("STATUS", "status"),
    ("LAST FOUR", "last4"),
    ("MADE BY", "createdBy"),
    ("EXPIRES", "expiresAt"),
    ("LAST USED", "lastUsedAt"),
];

/// The keys to revoke.
#[derive(Debug, Clone, Args)]
#[group(id = "which", required = true, multiple = true)]
pub struct Revoke {
    /// The key's id.
    #[arg(group = "which", value_parser = input::id, conflicts_with_all = ["all", "made_by", "account", "before"])]
    id: Option<String>,
    /// Every key but the one of this command.
    #[arg(long, group = "which", conflicts_with_all = ["made_by", "account", "before"])]
    all: bool,
    /// Keys that this user (by e-mail or id) or key made, and those that they made in turn.
    #[arg(long, group = "which", value_name = "ACCOUNT")]
    made_by: Option<String>,
    /// Keys that this user answers for, by e-mail or id.
    #[arg(long, group = "which", value_name = "USER")]
    account: Option<String>,
    /// Keys that were created before this time, such as 2026-11-21T10:00:00Z.
    #[arg(long, group = "which", value_name = "TIME")]
    before: Option<String>,
    /// Reason that the audit log keeps.
    #[arg(long, value_name = "TEXT", conflicts_with = "id")]
    reason: Option<String>,
    /// Expected number of keys; with another number none is revoked.
    #[arg(long, value_name = "KEYS", conflicts_with = "id")]
    expect: Option<u64>,
    /// Only list the keys.
    #[arg(long, conflicts_with = "id")]
    dry_run: bool,
}

/// The properties of the key.
#[derive(Debug, Clone, Args)]
pub struct Create {
    /// Name.
    #[arg(long)]
    name: String,
    /// Role: admin, operator, reviewer, viewer, worker or backup.
    #[arg(long)]
    role: String,
    /// Days until the key ends, such as 365d. Without this, the command asks on a terminal, and takes 90d elsewhere.
    #[arg(long, value_name = "DAYS")]
    expires_in: Option<String>,
    /// Environment: live (by default) or test.
    #[arg(long)]
    environment: Option<String>,
    /// Rate limit plan: free, pro or enterprise; by default the server's.
    #[arg(long)]
    plan: Option<String>,
    /// Queues that a worker's key may serve; by default every queue.
    #[arg(long, value_name = "QUEUE", value_delimiter = ',')]
    queues: Vec<String>,
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Keys>) -> Result<(), Failure> {
    let client = access.client()?;
    let mut is_by_default = false;
    let key = match command {
        Keys::Create(mut asked) => {
            is_by_default = asked.expires_in.is_none();
            if is_by_default {
                asked.expires_in = days()?;
                is_by_default = asked.expires_in.is_none();
            }
            create(&client, asked).await?
        }
        Keys::List(window) => {
            let page = client.page(window.of(Call::get(&["auth", "keys"]))).await?;
            return access.output.list("keys", &page, &COLUMNS);
        }
        Keys::Revoke(wanted) => return revoke(&access, &client, wanted).await,
        Keys::Rotate { id, overlap } => {
            let body = Body::default().set("overlap", overlap).value();
            client.data(Call::post(&["auth", "keys", &id, "rotate"]).json(&body)).await?
        }
    };
    let text = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
    if access.output == Format::Table {
        // The key is printed alone, so that it can be sent into a file.
        let summary = [text("id"), text("role"), format!("valid until {}", text("expiresAt"))];
        status_line(&format!("{}; it is shown only once", summary.join(", ")));
        if is_by_default {
            status_line(&format!(
                "The key ends in 90 days, because --expires-in was not given. Programs that use it stop then. \
                 Make its successor before: callboard keys rotate {} --overlap 1d",
                text("id")
            ));
        }
        return print(&format!("{}\n", text("key")));
    }
    access.output.item(&key, |_| String::new())
}

async fn revoke(access: &Access, client: &Client, wanted: Revoke) -> Result<(), Failure> {
    if let Some(id) = wanted.id {
        let key = client.data(Call::delete(&["auth", "keys", &id])).await?;
        let fields = COLUMNS.map(|(_, path)| (path, path));
        return access.output.item(&key, |key| details(key, &fields, &[]));
    }
    let known = async |account: Option<String>| match account {
        Some(account) => people::user(client, account).await.map(Some),
        None => Ok(None),
    };
    let body = Body::default()
        .flag("all", wanted.all)
        .set("madeBy", known(wanted.made_by).await?)
        .set("userId", known(wanted.account).await?)
        .set("before", wanted.before)
        .set("reason", wanted.reason)
        .set("expect", wanted.expect)
        .flag("dryRun", wanted.dry_run)
        .value();
    let revoked = client.data(Call::post(&["auth", "keys", "revoke"]).json(&body)).await?;
    if let Some(kept) = revoked["kept"].as_str() {
        status_line(&format!("{kept} stays: it is the key of this command"));
    }
    access.output.item(&revoked, |revoked| {
        let keys = revoked["keys"].as_array().cloned().unwrap_or_default();
        let deed = if revoked["dryRun"] == true { "would be revoked" } else { "were revoked" };
        format!("{}{} keys {deed}\n", table(&COLUMNS, &keys), revoked["total"])
    })
}

/// The lifetime that the user wants, asked at a terminal: a key for a service may have to last longer than usual.
/// `None` for the server's default.
fn days() -> Result<Option<String>, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    let _ = write!(io::stderr(), "Days until the key ends, 1 to 36500 [90]: ");
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::Other(format!("the answer cannot be read: {error}")))?;
    let answer = line.trim().trim_end_matches('d');
    Ok(match answer {
        "" => Some("90d".to_owned()),
        days => Some(format!("{days}d")),
    })
}

async fn create(client: &Client, asked: Create) -> Result<Value, Failure> {
    let body = Body::default()
        .set("name", Some(asked.name))
        .set("role", Some(asked.role))
        .set("expiresIn", asked.expires_in)
        .set("environment", asked.environment)
        .set("plan", asked.plan)
        .list("queues", &asked.queues)
        .value();
    Ok(client.data(Call::post(&["auth", "keys"]).json(&body)).await?)
}
