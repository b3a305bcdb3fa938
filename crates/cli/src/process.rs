//! Helpers of the commands that run until a signal.

use std::future::Future;
use std::io::{self, Write};
use std::time::Duration;

use tokio::signal::unix::{self, Signal, SignalKind};
use tokio::time::Instant;

/// The exit code of an interrupted command.
const INTERRUPTED: i32 = 130;

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

/// Listens for SIGTERM, SIGINT and SIGHUP; the future is ready at the first.
///
/// # Errors
/// The system refuses to report signals.
pub fn signal() -> Result<impl Future<Output = ()>, String> {
    let mut signals = Signals::listen()?;
    Ok(async move { signals.first().await })
}

/// The time after a signal within which one of another kind is the same request: a terminal
/// interrupts a script and its program, and the script passes that on as SIGTERM, once.
const SAME_WISH: Duration = Duration::from_millis(500);

/// SIGTERM, SIGINT and SIGHUP: the first asks to end in order, the second to end at once.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` if a hang-up does not ask to end.
    hangup: Option<Signal>,
    first: Option<(SignalKind, Instant)>,
}

impl Signals {
    /// Listens from now on. A hang-up that the process was started to ignore, as by nohup, stays ignored.
    ///
    /// # Errors
    /// The system refuses to report signals.
    pub fn listen() -> Result<Self, String> {
        let hangup = if ignores_hangups() { None } else { Some(hangups()?) };
        Ok(Self { hangup, ..Self::terminating()? })
    }

    /// Listens from now on for SIGTERM and SIGINT alone.
    ///
    /// # Errors
    /// The system refuses to report signals.
    pub fn terminating() -> Result<Self, String> {
        let (terminate, interrupt) =
            (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hangup: None, first: None })
    }

    /// Waits for the signal that asks to end in order.
    pub async fn first(&mut self) {
        self.first = Some((self.next().await, Instant::now()));
    }

    /// Finishes `work`; a second signal ends the process at once, with the exit code of an interrupt.
    pub async fn finish<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            () = self.second() => {
                let _ = writeln!(io::stderr(), "ended at once");
                std::process::exit(INTERRUPTED)
            }
        }
    }

    async fn second(&mut self) {
        let mut passed_on = None;
        loop {
            let kind = self.next().await;
            let is_same_wish = self.first.is_some_and(|(first, at)| {
                first != kind && passed_on != Some(kind) && at.elapsed() < SAME_WISH
            });
            if !is_same_wish {
                return;
            }
            passed_on = Some(kind);
        }
    }

    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            () = received(self.hangup.as_mut()) => SignalKind::hangup(),
        }
    }
}

/// Ready at the next signal, if there is any to wait for.
async fn received(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}

fn listen(kind: SignalKind) -> Result<Signal, String> {
    unix::signal(kind).map_err(|error| format!("cannot listen for signals: {error}"))
}

/// Listens for hang-ups, which end the process no more.
///
/// # Errors
/// The system refuses to report signals.
pub fn hangups() -> Result<Signal, String> {
    listen(SignalKind::hangup())
}

/// True if the process was started to ignore hang-ups. Linux alone says so.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The lowest bit is that of signal 1.
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// Writes a line to standard output. The reader may be gone.
pub fn announce(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes the reason of a failure to standard error and returns the exit code.
#[must_use]
pub fn exit(outcome: Result<(), String>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            let _ = writeln!(io::stderr(), "callboard: {why}");
            1
        }
    }
}
