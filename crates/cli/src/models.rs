//! `callboard models`.

use callboard_client::Call;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::access::Remote;
use super::failure::Failure;
use super::input::Window;
use super::output::{Column, details};

/// The use of the last minute, each figure before its limit.
const COLUMNS: [Column; 13] = [
    ("MODEL", "name"),
    ("WORKERS", "workers"),
    ("REQUESTS", "used.requests"),
    ("OF", "limits.requestsPerMinute"),
    ("INPUT", "used.inputTokens"),
    ("OF", "limits.inputTokensPerMinute"),
    ("OUTPUT", "used.outputTokens"),
    ("OF", "limits.outputTokensPerMinute"),
    ("TOGETHER", "limits.tokensPerMinute"),
    ("IN FLIGHT", "used.inFlight"),
    ("OF", "limits.concurrent"),
    ("CLOSED UNTIL", "closedUntil"),
    ("BECAUSE", "closedBecause"),
];

const FIELDS: [Column; 9] = [
    ("model", "name"),
    ("workers", "workers"),
    ("requests a minute", "limits.requestsPerMinute"),
    ("input tokens a minute", "limits.inputTokensPerMinute"),
    ("output tokens a minute", "limits.outputTokensPerMinute"),
    ("tokens a minute", "limits.tokensPerMinute"),
    ("calls in flight", "limits.concurrent"),
    ("closed until", "closedUntil"),
    ("closed because", "closedBecause"),
];

/// The commands on models.
#[derive(Debug, Clone, Subcommand)]
pub enum Models {
    /// List models with their limits and the use of the last minute.
    List {
        /// The page of the list.
        #[command(flatten)]
        window: Window,
    },
    /// Set all limits of a model; a limit that is left out is removed.
    Limit {
        /// The model.
        model: String,
        /// The limits.
        #[command(flatten)]
        limits: Limits,
    },
    /// End the pause of a model whose provider refused calls.
    Resume {
        /// The model.
        model: String,
    },
}

/// The limits of a model.
#[derive(Debug, Clone, Copy, Args)]
pub struct Limits {
    /// Requests in any minute.
    #[arg(long)]
    requests: Option<u64>,
    /// Input tokens in any minute.
    #[arg(long)]
    input_tokens: Option<u64>,
    /// Output tokens in any minute.
    #[arg(long)]
    output_tokens: Option<u64>,
    /// Input and output tokens together in any minute.
    #[arg(long)]
    tokens: Option<u64>,
    /// Calls in flight.
    #[arg(long)]
    concurrent: Option<u64>,
}

impl Limits {
    fn body(self) -> Value {
        let members = [
            ("requestsPerMinute", self.requests),
            ("inputTokensPerMinute", self.input_tokens),
            ("outputTokensPerMinute", self.output_tokens),
            ("tokensPerMinute", self.tokens),
            ("concurrent", self.concurrent),
        ];
        let given = members.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
        Value::Object(
            given.map(|(name, limit)| (name.to_owned(), json!(limit))).collect::<Map<_, _>>(),
        )
    }
}

/// Runs the command.
pub(super) async fn run(Remote { access, command }: Remote<Models>) -> Result<(), Failure> {
    let client = access.client()?;
    match command {
        Models::List { window } => {
            let call = Call::get(&["models"]);
            access.output.list("models", &client.page(window.of(call)).await?, &COLUMNS)
        }
        Models::Limit { model, limits } => {
            let call = Call::put(&["models", &model, "limits"]).json(&limits.body());
            let set = client.data(call).await?;
            access.output.item(&set, |model| details(model, &FIELDS, &[]))
        }
        Models::Resume { model } => {
            let open = client.data(Call::delete(&["models", &model, "pause"])).await?;
            access.output.item(&open, |model| details(model, &FIELDS, &[]))
        }
    }
}
