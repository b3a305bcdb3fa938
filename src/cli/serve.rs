//! `callboard serve`.

use std::pin::pin;

use callboard_cli::process::{Signals, announce, block_on, exit};
use callboard_common::tls;
use tokio::sync::oneshot;

use super::Serve;
use crate::config::{Config, Flags};
use crate::service::Service;
use crate::telemetry;

/// Serves until a signal. Returns the exit code.
pub(super) fn run(serve: &Serve) -> u8 {
    exit(start(serve).and_then(|config| {
        block_on(async {
            let service = Service::start(config).await.map_err(|e| e.to_string())?;
            let mut signals = Signals::listen()?;
            announce(&format!("listening on {}", service.url()));
            if let Some(url) = service.setup_url() {
                announce(&format!("setup at {}", url.expose()));
            }
            let (stop, stops) = oneshot::channel();
            // A send that fails finds a server that has ended, and so does a wait without a sender.
            let served = service.serve(async move { drop(stops.await) });
            let mut served = pin!(served);
            tokio::select! {
                served = served.as_mut() => return served.map_err(|e| e.to_string()),
                () = signals.first() => {
                    let _ = stop.send(());
                }
            }
            signals.finish(served).await.map_err(|e| e.to_string())
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
