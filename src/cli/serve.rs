//! `callboard serve`.

use callboard_cli::process::{announce, block_on, exit, signal};
use callboard_common::tls;

use super::Serve;
use crate::config::{Config, Flags};
use crate::service::Service;
use crate::telemetry;

/// Serves until a signal. Returns the exit code.
pub(super) fn run(serve: &Serve) -> u8 {
    exit(start(serve).and_then(|config| {
        block_on(async {
            let service = Service::start(config).await.map_err(|e| e.to_string())?;
            let signal = signal()?;
            announce(&format!("listening on {}", service.url()));
            if let Some(url) = service.setup_url() {
                announce(&format!("setup at {}", url.expose()));
            }
            service.serve(signal).await.map_err(|e| e.to_string())
        })
    }))
}

/// Reads the settings and begins to log.
pub(super) fn start(serve: &Serve) -> Result<Config, String> {
    let flags = Flags {
        config: serve.config.clone(),
        listen: serve.listen.map(|address| address.to_string()),
        data_dir: serve.data_dir.as_ref().map(|dir| dir.display().to_string()),
        store: serve.store.clone(),
    };
    begin()?;
    Config::load(flags, Config::environment()).map_err(|error| error.to_string())
}

/// Begins to log, as `CALLBOARD_LOG` says, and chooses the crypto.
pub(super) fn begin() -> Result<(), String> {
    let filter = std::env::var("CALLBOARD_LOG").ok();
    telemetry::start(filter.as_deref()).map_err(|error| error.to_string())?;
    tls::install_provider();
    Ok(())
}
