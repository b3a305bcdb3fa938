//! `callboard worker`.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use callboard_common::secret::Secret;
use callboard_domain::usage::Prices;
use callboard_otlp::Exporter;
use callboard_worker::{Identity, Options, provider};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use tokio::sync::oneshot;
use url::Url;

use super::input;
use super::process::{Signals, block_on};
use super::secret::api_key;

const OPENAI: &str = "https://api.openai.com/v1";
const ANTHROPIC: &str = "https://api.anthropic.com";

/// The provider of the models, and its options.
#[derive(Debug, Clone, Args)]
pub struct Provider {
    /// Provider that runs the model.
    #[arg(long, value_enum, default_value_t = ProviderName::Openai)]
    pub provider: ProviderName,
    /// Address of the provider, such as <http://127.0.0.1:11434/v1>.
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Number of tasks that run at the same time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub concurrency: u16,
    /// Delay of the simulated provider.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub simulated_delay: u64,
    /// Share of the samples and verdicts of `simulated-unsure` that disagree, 0 to 1; by default half of them.
    #[arg(long, value_name = "SHARE")]
    pub simulated_disagreement: Option<f64>,
}

/// The providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProviderName {
    /// Any OpenAI-compatible server: OpenAI, vLLM, Ollama, llama.cpp; key from `OPENAI_API_KEY`.
    Openai,
    /// Anthropic; key from `ANTHROPIC_API_KEY`.
    Anthropic,
    /// No model: answers that are computed from the prompt.
    Simulated,
}

/// The options of a worker's start.
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
    /// File with the worker's key; by default `CALLBOARD_API_KEY`, then `CALLBOARD_API_KEY_FILE`.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// The certificate to present where the server asks for one (`[tls] client_ca`), in PEM.
    #[arg(long, value_name = "FILE", requires = "client_key_file")]
    pub client_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub client_key_file: Option<PathBuf>,
    /// Name in the list of workers; by default the host's name.
    #[arg(long)]
    pub name: Option<String>,
    /// The queues to serve, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "default", value_parser = NonEmptyStringValueParser::new())]
    pub queues: Vec<String>,
    /// The models to announce, separated by commas: names, prefixes such as `gpt-*`; by default all.
    #[arg(long, value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub models: Option<Vec<String>>,
    /// Time for running tasks to finish after SIGTERM or Ctrl-C, such as `25s`; then other workers start them again.
    #[arg(long, value_name = "DURATION", value_parser = input::duration, default_value = "25s")]
    pub grace: Duration,
    /// Provider that runs the model.
    #[command(flatten)]
    pub provider: Provider,
    /// Receiver of the spans of model calls, OTLP over HTTP; by default `OTEL_EXPORTER_OTLP_ENDPOINT`.
    #[arg(long, value_name = "URL")]
    pub otel_endpoint: Option<Url>,
    /// File with headers for that receiver, name=value; by default `OTEL_EXPORTER_OTLP_HEADERS`.
    #[arg(long, value_name = "FILE")]
    pub otel_headers_file: Option<PathBuf>,
}

/// Runs tasks until a signal.
///
/// # Errors
/// The key is missing, the provider cannot be used, or the server refuses the worker.
pub fn run(worker: Worker) -> Result<(), String> {
    let otel = (worker.otel_endpoint, worker.otel_headers_file);
    let mut options = Options {
        server: worker.server,
        key: key(worker.key_file.as_deref())?,
        identity: worker
            .client_cert
            .zip(worker.client_key_file)
            .map(|(cert, key)| Identity { cert, key }),
        name: worker.name.unwrap_or_else(host_name),
        queues: worker.queues,
        models: worker.models,
        concurrency: u32::from(worker.provider.concurrency),
        provider: provider(&worker.provider)?,
        spans: None,
        grace: worker.grace,
    };
    block_on(async {
        let mut signals = Signals::listen()?;
        let exporter = exporter(otel)?;
        options.spans = exporter.as_ref().map(Exporter::spans);
        let (leave, leaves) = oneshot::channel();
        // A send that fails finds a worker that has ended, and so does a wait without a sender.
        let work = callboard_worker::run(options, async move { drop(leaves.await) });
        let mut work = pin!(work);
        let ended = tokio::select! {
            ended = work.as_mut() => ended,
            () = signals.first() => {
                let _ = leave.send(());
                signals.finish(work).await
            }
        };
        if let Some(exporter) = exporter {
            exporter.finish().await;
        }
        ended.map_err(|error| error.to_string())
    })
}

/// The export of spans, if a receiver is named.
fn exporter(
    (endpoint, headers_file): (Option<Url>, Option<PathBuf>),
) -> Result<Option<Exporter>, String> {
    if endpoint.is_none() && !callboard_otlp::named_by_environment() {
        return Ok(None);
    }
    let headers = headers_file.map(|path| {
        let read = std::fs::read_to_string(&path).map(Secret::new);
        read.map_err(|error| format!("{} cannot be read: {error}", path.display()))
    });
    let headers = headers.transpose()?;
    let options = callboard_otlp::Options { service: "callboard-worker", endpoint, headers };
    Exporter::start(options).map(Some).map_err(|error| error.to_string())
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
            let disagreement = asked.simulated_disagreement;
            let options =
                provider::simulated::Options { latency, disagreement, ..Default::default() };
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
