//! `callboard serve`.

use std::future::Future;
use std::io::Write;

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
            announce(&format!("listening on http://{}", service.address()));
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

/// Runs `work` on all cores.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?
        .block_on(work)
}

/// Ready at SIGTERM or SIGINT.
pub(super) fn signal() -> Result<impl Future<Output = ()>, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let cannot = |error| format!("cannot listen for signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Writes a line to standard output; whoever started the program may have stopped reading.
pub(super) fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The exit code, and why, on standard error.
pub(super) fn exit(outcome: Result<(), String>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "callboard: {why}");
            1
        }
    }
}
