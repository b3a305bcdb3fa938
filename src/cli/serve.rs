//! `callboard serve`.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::pin::{Pin, pin};

use callboard_cli::process::{Signals, announce, block_on, exit, hangups};
use callboard_common::secret::Secret;
use callboard_common::tls;
use callboard_store::postgres::Address;
use tokio::signal::unix::Signal;
use tokio::sync::oneshot;

use super::{Serve, first, notify, upgrade};
use crate::cluster::{self, Node};
use crate::config::{Config, Flags};
use crate::service::{Error, Reload, Service};
use crate::telemetry;

/// Ready when the server is to stop.
type Stop = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Serves until a signal. Returns the exit code.
pub(super) fn run(serve: &Serve) -> u8 {
    if serve.init {
        return exit(init(serve));
    }
    if serve.check {
        return exit(start(serve).and_then(|config| {
            announce("settings    every setting is known and valid");
            upgrade::look(&config)
        }));
    }
    exit(start(serve).and_then(|config| {
        block_on(async {
            // From here on a hang-up ends nothing; one that comes before the server is ready counts then.
            let hangups = Hangups(hangups()?, flags(serve));
            if let Some(database) = config.store.shared.clone() {
                return Box::pin(share(config, database, hangups)).await;
            }
            let data_dir = config.server.data_dir.clone();
            let service = Service::start(config).await.map_err(|e| e.to_string())?;
            let signals = Signals::terminating()?;
            let url = service.url();
            announce(&format!("listening on {url}"));
            if let Some(setup) = service.setup_url() {
                announce(&format!("setup at {}", setup.expose()));
                first::announce_worker(&service.handle(), &data_dir, &url).await;
            }
            notify::ready(&url);
            let reload = service.reload();
            Box::pin(finish(signals, hangups.follow(reload, url), |stop| {
                service.serve_behind(cluster::front, stop)
            }))
            .await
        })
    }))
}

/// Writes a settings file with every default in a comment, and the settings of the command line.
fn init(serve: &Serve) -> Result<(), String> {
    let path = serve.config.clone().unwrap_or_else(|| "callboard.toml".into());
    let text = Config::template(flags(serve));
    let cannot = |error| format!("{} cannot be written: {error}", path.display());
    let mut options = OpenOptions::new();
    // The file names paths of secrets and holds none.
    let made = options.write(true).create_new(true).mode(0o644).open(&path);
    let mut file = made.map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            return format!("{} is there already; name another file with --config", path.display());
        }
        cannot(error)
    })?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(cannot)?;
    announce(&format!(
        "wrote {path}; start: callboard serve --config {path}",
        path = path.display()
    ));
    Ok(())
}

/// Serves as a node of a cluster until a signal.
async fn share(config: Config, database: Address, hangups: Hangups) -> Result<(), String> {
    let on_setup = |url: &Secret| announce(&format!("setup at {}", url.expose()));
    let node = Node::start(config, database, on_setup).await.map_err(|e| e.to_string())?;
    let signals = Signals::terminating()?;
    announce(&format!("listening on {}", node.url()));
    notify::ready(&node.url());
    let (reload, url) = (node.reload(), node.url());
    Box::pin(finish(signals, hangups.follow(reload, url), |stop| Box::pin(node.serve(stop)))).await
}

/// The hang-ups that ask for the settings to be read again, and where those are.
struct Hangups(Signal, Flags);

impl Hangups {
    /// Reads the settings again at each hang-up. Never returns.
    async fn follow(self, reload: Reload, url: String) {
        let Self(mut hangups, flags) = self;
        while hangups.recv().await.is_some() {
            notify::reloading();
            reload.run(flags.clone(), Config::environment()).await;
            notify::ready(&url);
        }
        std::future::pending::<()>().await;
    }
}

/// Serves until a signal, and ends in order unless a second one comes. `beside` runs until then.
async fn finish<S: Future<Output = Result<(), Error>>>(
    mut signals: Signals,
    beside: impl Future<Output = ()>,
    serve: impl FnOnce(Stop) -> S,
) -> Result<(), String> {
    let (stop, stops) = oneshot::channel::<()>();
    // A send that fails finds a server that has ended, and so does a wait without a sender.
    let mut served = pin!(serve(Box::pin(async move { drop(stops.await) })));
    tokio::select! {
        served = served.as_mut() => return served.map_err(|e| e.to_string()),
        () = signals.first() => {
            notify::stopping();
            let _ = stop.send(());
        }
        () = beside => {}
    }
    signals.finish(served).await.map_err(|e| e.to_string())
}

/// Reads the settings and begins to log.
pub(super) fn start(serve: &Serve) -> Result<Config, String> {
    begin()?;
    let config = Config::load(flags(serve), Config::environment());
    let config = config.map_err(|error| error.to_string())?;
    if std::env::var_os(telemetry::VARIABLE).is_none() {
        telemetry::set_filter(&config.server.log).map_err(|error| error.to_string())?;
    }
    for warning in &config.ignored {
        tracing::warn!("{warning}");
    }
    Ok(config)
}

/// The settings on the command line.
fn flags(serve: &Serve) -> Flags {
    Flags {
        config: serve.config.clone(),
        listen: serve.listen.map(|address| address.to_string()),
        data_dir: serve.data_dir.as_ref().map(|dir| dir.display().to_string()),
        store: serve.store.clone(),
        paused: serve.paused,
    }
}

/// Begins to log, as `CALLBOARD_LOG` says, and chooses the crypto.
pub(super) fn begin() -> Result<(), String> {
    let filter = std::env::var("CALLBOARD_LOG").ok();
    telemetry::start(filter.as_deref()).map_err(|error| error.to_string())?;
    tls::install_provider();
    Ok(())
}
