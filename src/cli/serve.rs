//! `callboard serve`.

use std::pin::{Pin, pin};

use callboard_cli::process::{Signals, announce, block_on, exit};
use callboard_common::secret::Secret;
use callboard_common::tls;
use callboard_store::postgres::Address;
use tokio::sync::oneshot;

use super::Serve;
use crate::cluster::Node;
use crate::config::{Config, Flags};
use crate::service::{Error, Service};
use crate::telemetry;

/// Ready when the server is to stop.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves until a signal. Returns the exit code.
pub(super) fn run(serve: &Serve) -> u8 {
    exit(start(serve).and_then(|config| {
        block_on(async {
            if let Some(database) = config.store.shared.clone() {
                return Box::pin(share(config, database)).await;
            }
            let service = Service::start(config).await.map_err(|e| e.to_string())?;
            let signals = Signals::listen()?;
            announce(&format!("listening on {}", service.url()));
            if let Some(url) = service.setup_url() {
                announce(&format!("setup at {}", url.expose()));
            }
            finish(signals, |stop| service.serve(stop)).await
        })
    }))
}

/// Serves as a node of a cluster until a signal.
async fn share(config: Config, database: Address) -> Result<(), String> {
    let on_setup = |url: &Secret| announce(&format!("setup at {}", url.expose()));
    let node = Node::start(config, database, on_setup).await.map_err(|e| e.to_string())?;
    let signals = Signals::listen()?;
    announce(&format!("listening on {}", node.url()));
    finish(signals, |stop| Box::pin(node.serve(stop))).await
}

/// Serves until a signal, and ends in order unless a second one comes.
async fn finish<S: Future<Output = Result<(), Error>>>(
    mut signals: Signals,
    serve: impl FnOnce(Stop) -> S,
) -> Result<(), String> {
    let (stop, stops) = oneshot::channel::<()>();
    // A send that fails finds a server that has ended, and so does a wait without a sender.
    let mut served = pin!(serve(Box::pin(async move { drop(stops.await) })));
    tokio::select! {
        served = served.as_mut() => return served.map_err(|e| e.to_string()),
        () = signals.first() => {
            let _ = stop.send(());
        }
    }
    signals.finish(served).await.map_err(|e| e.to_string())
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
    let config = Config::load(flags, Config::environment()).map_err(|error| error.to_string())?;
    for warning in &config.ignored {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

/// Begins to log, as `CALLBOARD_LOG` says, and chooses the crypto.
pub(super) fn begin() -> Result<(), String> {
    let filter = std::env::var("CALLBOARD_LOG").ok();
    telemetry::start(filter.as_deref()).map_err(|error| error.to_string())?;
    tls::install_provider();
    Ok(())
}
