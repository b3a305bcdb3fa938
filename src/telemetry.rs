//! The log: one line for each event, on standard error.
//!
//! Human-readable on a terminal, JSON lines otherwise. `CALLBOARD_LOG`, or else `[server] log`, takes the filter
//! syntax of `tracing` (`info,callboard=debug`), but libraries that would write headers, frames or bodies
//! stay at info in any case: no credential, prompt or output is ever logged. Deliberately
//! absent: metrics, and spans that cross machines.

mod escape;

use std::io::{self, IsTerminal};
use std::panic::{self, PanicHookInfo};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{EnvFilter, FilterExt, filter_fn};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};
use tracing_subscriber::reload;

/// The variable that holds the filter.
pub const VARIABLE: &str = "CALLBOARD_LOG";

/// The filter of a server that is told none.
pub const DEFAULT: &str = "info";

/// Libraries that would log their payloads.
const CAPPED: [&str; 12] = [
    "h2",
    "hyper",
    "hyper_util",
    "lettre",
    "ractor",
    "reqwest",
    "rustls",
    "sled",
    "tokio_tungstenite",
    "tower",
    "tower_http",
    "tungstenite",
];

/// A filter that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "{VARIABLE}: {given:?} is not a valid log filter ({cause}); use \"info\" or \"warn,callboard=debug\""
)]
pub struct BadFilter {
    given: String,
    cause: String,
}

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A coloured line for people.
    Human,
    /// One JSON object.
    Json,
}

/// The filter of the running program.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts logging for the whole program by `filter` (none: info), in the format that standard error
/// asks for, and logs panics instead of printing them.
///
/// # Errors
///
/// [`BadFilter`].
pub fn start(filter: Option<&str>) -> Result<(), BadFilter> {
    let format = if io::stderr().is_terminal() { Format::Human } else { Format::Json };
    let (subscriber, handle) = reloadable(filter, format, io::stderr)?;
    // The second start of one process, as in tests, changes nothing.
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        panic::set_hook(Box::new(log_panic));
        let _ = FILTER.set(handle);
    }
    Ok(())
}

/// Logs by another filter from now on.
///
/// # Errors
///
/// [`BadFilter`].
pub fn set_filter(filter: &str) -> Result<(), BadFilter> {
    let filter = read(Some(filter))?;
    if let Some(handle) = FILTER.get() {
        // The subscriber lives as long as the program.
        let _ = handle.reload(filter);
    }
    Ok(())
}

/// The filter in this text (none: info).
///
/// # Errors
///
/// [`BadFilter`].
pub fn read(filter: Option<&str>) -> Result<EnvFilter, BadFilter> {
    match filter.map(str::trim) {
        None | Some("") => Ok(EnvFilter::new(DEFAULT)),
        Some(given) => EnvFilter::try_new(given)
            .map_err(|error| BadFilter { given: given.to_owned(), cause: error.to_string() }),
    }
}

/// A subscriber that writes to `writer`.
///
/// # Errors
///
/// [`BadFilter`].
pub fn subscriber<W>(
    filter: Option<&str>,
    format: Format,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, BadFilter>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    reloadable(filter, format, writer).map(|(subscriber, _)| subscriber)
}

/// A subscriber, and the handle of its filter.
type Reloadable = (Box<dyn Subscriber + Send + Sync>, reload::Handle<EnvFilter, Registry>);

fn reloadable<W>(filter: Option<&str>, format: Format, writer: W) -> Result<Reloadable, BadFilter>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(read(filter)?);
    let filter = filter.and(filter_fn(is_safe).with_max_level_hint(LevelFilter::TRACE));
    let layer = lines(format, writer).with_filter(filter);
    let counted = CountedEvents.with_filter(LevelFilter::WARN);
    Ok((Box::new(tracing_subscriber::registry().with(layer).with(counted)), handle))
}

fn lines<S, W>(format: Format, writer: W) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let layer = fmt::layer();
    match format {
        Format::Human => layer.with_writer(writer).fmt_fields(escape::fields()).boxed(),
        Format::Json => {
            let layer = layer.with_writer(escape::SafeJson(writer));
            layer.json().flatten_event(true).with_ansi(false).boxed()
        }
    }
}

/// The events of the process at the levels error and warn.
static LOGGED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// The number of errors and of warnings since the start.
pub(crate) fn logged() -> [u64; 2] {
    LOGGED.each_ref().map(|count| count.load(Ordering::Relaxed))
}

/// Counts errors and warnings, whether or not the filter lets their lines through.
struct CountedEvents;

impl<S: Subscriber> Layer<S> for CountedEvents {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let at = usize::from(*event.metadata().level() != Level::ERROR);
        LOGGED[at].fetch_add(1, Ordering::Relaxed);
    }
}

fn is_safe(metadata: &Metadata<'_>) -> bool {
    let krate = metadata.target().split("::").next().unwrap_or_default();
    let most = match krate {
        // It writes messages of assistants, which hold prompts, at every level below.
        "rmcp" => Level::ERROR,
        capped if CAPPED.contains(&capped) => Level::INFO,
        _ => Level::TRACE,
    };
    *metadata.level() <= most
}

/// A panic's place, and its message if that is fixed: one that was put together may hold anything.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = panic.payload().downcast_ref::<&'static str>().copied();
    let message = message.unwrap_or("(withheld)");
    tracing::error!(place, reason = message, "a panic was caught");
}

#[cfg(test)]
mod tests;
