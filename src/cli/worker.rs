//! `callboard worker`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use callboard_domain::usage::Prices;
use callboard_worker::{Options, provider};

use super::secret::api_key;
use super::serve::{begin, block_on, exit, signal};
use super::{Provider, ProviderName, Worker};

const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

/// Runs tasks until a signal. Returns the exit code.
pub(super) fn run(worker: Worker) -> u8 {
    exit(begin().and_then(|()| {
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
    }))
}

/// Whoever runs the model.
pub(super) fn provider(asked: &Provider) -> Result<Arc<dyn provider::Provider>, String> {
    let base = |default: &str| asked.base_url.clone().unwrap_or_else(|| default.to_owned());
    let cannot = |error: provider::ConfigError| error.to_string();
    Ok(match asked.provider {
        ProviderName::Openai => {
            let key = secret("OPENAI_API_KEY");
            Arc::new(provider::openai::OpenAi::new(&base(OPENAI), key).map_err(cannot)?)
        }
        ProviderName::Anthropic => {
            let key = secret("ANTHROPIC_API_KEY");
            let prices = Prices::parse(include_str!("../../config/models.json"))
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
