//! Helpers of the commands that run until a signal.

use std::future::Future;
use std::io::Write;

/// Runs `work` on all cores.
///
/// # Errors
/// The error of `work`, or the reason why no thread starts.
pub fn block_on<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?
        .block_on(work)
}

/// Listens for SIGTERM and SIGINT; the future is ready at the first.
///
/// # Errors
/// The system refuses to report signals.
pub fn signal() -> Result<impl Future<Output = ()>, String> {
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

/// Writes a line to standard output. Nobody may be left to read it.
pub fn announce(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes the reason of a failure to standard error and returns the exit code.
#[must_use]
pub fn exit(outcome: Result<(), String>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "callboard: {why}");
            1
        }
    }
}
