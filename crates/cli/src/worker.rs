//! `callboard worker`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::usage::Prices;
use callboard_worker::{Options, provider};
use clap::{Args, ValueEnum};

use super::process::{block_on, signal};
use super::secret::api_key;

const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

/// Which models a worker runs, and how.
#[derive(Debug, Clone, Args)]
pub struct Provider {
    /// Who runs the model.
    #[arg(long, value_enum, default_value_t = ProviderName::Openai)]
    pub provider: ProviderName,
    /// Where the provider is, such as <http://127.0.0.1:11434/v1>.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// How many tasks run at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub concurrency: u16,
    /// How long the simulated provider takes to answer.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub simulated_delay: u64,
}

/// The providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProviderName {
    /// Any OpenAI-compatible server: OpenAI, vLLM, Ollama, llama.cpp; key from `OPENAI_API_KEY`.
    Openai,
    /// Anthropic; key from `ANTHROPIC_API_KEY`.
    Anthropic,
    /// No model at all: answers that are a function of the prompt.
    Simulated,
}

/// How a worker is started.
#[derive(Debug, Clone, Args)]
pub struct Worker {
    /// The server.
    #[arg(
        long,
        env = "CALLBOARD_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub server: String,
    /// A file that holds the worker's key; or `CALLBOARD_API_KEY`, or `CALLBOARD_API_KEY_FILE`.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// What people see in the list of workers; by default the host's name.
    #[arg(long)]
    pub name: Option<String>,
    /// The queues to serve, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "default")]
    pub queues: Vec<String>,
    /// The models to announce, separated by commas: names, prefixes such as `gpt-*`; by default all.
    #[arg(long, value_delimiter = ',')]
    pub models: Option<Vec<String>>,
    /// Who runs the model.
    #[command(flatten)]
    pub provider: Provider,
}

/// Runs tasks until a signal.
///
/// # Errors
/// There is no key, the provider cannot be used, or the server refuses the worker.
pub fn run(worker: Worker) -> Result<(), String> {
    let options = Options {
        server: worker.server,
        key: key(worker.key_file.as_deref())?,
        name: worker.name.unwrap_or_else(host_name),
        queues: worker.queues,
        models: worker.models,
        concurrency: u32::from(worker.provider.concurrency),
        provider: provider(&worker.provider)?,
    };
    block_on(async {
        let signal = signal()?;
        callboard_worker::run(options, signal).await.map_err(|error| error.to_string())
    })
}

/// Sets up the client of the model provider.
///
/// # Errors
/// Its address or its key cannot be used.
pub fn provider(asked: &Provider) -> Result<Arc<dyn provider::Provider>, String> {
    let base = |default: &str| asked.base_url.clone().unwrap_or_else(|| default.to_owned());
    let cannot = |error: provider::ConfigError| error.to_string();
    Ok(match asked.provider {
        ProviderName::Openai => {
            let key = secret("OPENAI_API_KEY");
            Arc::new(provider::openai::OpenAi::new(&base(OPENAI), key).map_err(cannot)?)
        }
        ProviderName::Anthropic => {
            let key = secret("ANTHROPIC_API_KEY");
            let prices = Prices::parse(include_str!("../../../config/models.json"))
                .map_err(|error| error.to_string())?;
            let base = base(ANTHROPIC);
            let client = provider::anthropic::Anthropic::new(&base, key, Arc::new(prices));
            Arc::new(client.map_err(cannot)?)
        }
        ProviderName::Simulated => {
            let latency = Duration::from_millis(asked.simulated_delay);
            let options = provider::simulated::Options { latency, ..Default::default() };
            Arc::new(provider::simulated::Simulated::new(options))
        }
    })
}

fn secret(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn key(file: Option<&Path>) -> Result<String, String> {
    let key = api_key(file).map_err(|failure| failure.words())?;
    key.map(|key| key.expose().to_owned()).ok_or_else(|| {
        "a worker needs a key: --key-file FILE, CALLBOARD_API_KEY or CALLBOARD_API_KEY_FILE".into()
    })
}

fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "worker".into())
}
