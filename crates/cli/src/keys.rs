//! `callboard keys`.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use callboard_client::{Call, Client};
use clap::{Args, Subcommand};
use serde_json::Value;

use super::access::Remote;
use super::failure::Failure;
use super::input::{self, Body, Window};
use super::output::{Column, Format, details, note, print};

/// The commands on API keys.
#[derive(Debug, Clone, Subcommand)]
pub enum Keys {
    /// Create a key and print it; it is shown only once.
    Create(Create),
    /// List keys, the newest first; revoked and expired ones too.
    List(Window),
    /// Revoke a key: it is refused at once.
    Revoke {
        /// The key's id.
        #[arg(value_parser = input::id)]
        id: String,
    },
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
    ("ENDS WITH", "last4"),
    ("MADE BY", "createdBy"),
    ("EXPIRES", "expiresAt"),
    ("LAST USED", "lastUsedAt"),
];

/// The properties of the key.
#[derive(Debug, Clone, Args)]
pub struct Create {
    /// Name.
    #[arg(long)]
    name: String,
    /// Role: admin, operator, reviewer, viewer or worker.
    #[arg(long)]
    role: String,
    /// Days until the key ends, such as 365d. Without it the command asks at a terminal; elsewhere it is 90d.
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
        Keys::Revoke { id } => {
            let key = client.data(Call::delete(&["auth", "keys", &id])).await?;
            return access
                .output
                .item(&key, |key| details(key, &COLUMNS.map(|(_, path)| (path, path)), &[]));
        }
        Keys::Rotate { id, overlap } => {
            let body = Body::default().set("overlap", overlap).value();
            client.data(Call::post(&["auth", "keys", &id, "rotate"]).json(&body)).await?
        }
    };
    let text = |name: &str| key[name].as_str().unwrap_or_default().to_owned();
    if access.output == Format::Table {
        // The key is printed alone, so that it can be sent into a file.
        let summary = [text("id"), text("role"), format!("valid until {}", text("expiresAt"))];
        note(&format!("{}; it is shown only once", summary.join(", ")));
        if is_by_default {
            note(&format!(
                "A key lasts 90 days unless --expires-in says otherwise. What uses it stops then; before that: \
                 callboard keys rotate {} --overlap 1d",
                text("id")
            ));
        }
        return print(&format!("{}\n", text("key")));
    }
    access.output.item(&key, |_| String::new())
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
