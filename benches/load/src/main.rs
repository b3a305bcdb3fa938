//! Load on the real program, beside the baselines that no program of its kind can go below.
//!
//! ```text
//!   this process ──HTTP, WebSocket──▶ `callboard serve`, on a directory of its own
//!        │
//!        └──HTTP, or nothing────────▶ a baseline, in a process of its own (see `baseline`)
//! ```
//!
//! Figures of one machine move from run to run. So each target that is a ratio is measured round by
//! round, baseline and program in turn, and the median of the rounds' ratios is judged. Deliberately
//! absent: any other code of the program, which is measured from outside, like any client would use
//! it.

mod arguments;
mod baseline;
mod commits;
mod complete;
mod error;
mod events;
mod growth;
mod http;
mod lists;
mod meter;
mod page;
mod place;
mod program;
mod report;
mod runs;
mod start;
mod stored;
mod submit;
mod waiting;
mod worker;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use arguments::{Arguments, Bench, Command};
use error::{Error, broken};
use http::Site;
use page::Page;
use program::Ground;
use report::Report;

/// The exit code if a target is missed.
const MISSED: u8 = 10;

/// The number of requests under way at once.
const IN_FLIGHT: usize = 64;

/// A target of docs/performance.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
enum Target {
    /// Submitting tasks.
    T1,
    /// Tasks from submission to completion.
    T2,
    /// A chain of steps.
    T3,
    /// A fan-out of steps and their join.
    T4,
    /// Memory of what waits.
    T5,
    /// Back after kill -9.
    T6,
    /// Lists over a million tasks.
    T7,
    /// Events to subscribers.
    T8,
    /// Start and idle memory.
    T9,
    /// T2 with a million tasks stored.
    T10,
}

/// The targets to measure, and the time for each.
#[derive(Debug, Clone)]
struct Options {
    /// The targets to measure; all if empty.
    only: Vec<Target>,
    /// The length of one measurement.
    span: Duration,
    /// The number of rounds of baseline and program, at least one.
    rounds: usize,
    /// The number of stored items, where a target names a number of its own.
    items: Option<usize>,
    /// The directory in which the measured servers keep their data.
    directory: PathBuf,
    /// The program that is measured.
    program: PathBuf,
    /// A running server, instead of one of our own.
    server: Option<Site>,
    /// The URL of an empty PostgreSQL database, on which T1 to T6 are measured as well.
    store: Option<String>,
}

impl Target {
    /// True if the target can be measured on a running server.
    const fn is_seen_from_outside(self) -> bool {
        match self {
            Self::T1 | Self::T2 | Self::T3 | Self::T4 | Self::T7 => true,
            Self::T5 | Self::T6 | Self::T8 | Self::T9 | Self::T10 => false,
        }
    }

    /// True if the target is measured on PostgreSQL too.
    const fn is_of_any_store(self) -> bool {
        match self {
            Self::T1 | Self::T2 | Self::T3 | Self::T4 | Self::T5 | Self::T6 => true,
            Self::T7 | Self::T8 | Self::T9 | Self::T10 => false,
        }
    }
}

impl Options {
    fn targets(&self) -> impl Iterator<Item = Target> + '_ {
        Target::value_variants().iter().copied().filter(|target| {
            let wanted = self.only.is_empty() || self.only.contains(target);
            wanted
                && (self.server.is_none() || target.is_seen_from_outside())
                && (self.store.is_none() || target.is_of_any_store())
        })
    }
}

fn main() -> ExitCode {
    let Arguments { baseline, bench } = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(Error::of("no thread starts")).and_then(|runtime| {
        runtime.block_on(async {
            match baseline {
                Some(Command::Baseline(baseline)) => {
                    baseline::be(&baseline, &announce).await.map(|()| true)
                }
                None => measure_and_show(bench).await,
            }
        })
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(MISSED),
        Err(error) => {
            note(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Measures, and shows the figures; false if a target is missed that was to be met.
async fn measure_and_show(asked: Bench) -> Result<bool, Error> {
    let page = asked.write.clone().map(Page::open).transpose()?;
    let (json, check, directory) = (asked.json, asked.check, asked.directory.clone());
    let report = tokio::select! {
        report = run(asked.options()?, note) => report?,
        // The measured servers end with the measurement, and the directories are removed.
        _ = tokio::signal::ctrl_c() => return Err(broken("interrupted")),
    };
    let table = report.table(&directory);
    let shown = if json { report.json(&directory) } else { table.clone() };
    if let Some(page) = page {
        // From here on, the sources differ from the commit.
        page.write(&table)?;
    }
    announce(shown.trim_end());
    let missed = report.missed();
    if check && !missed.is_empty() {
        note(&format!("missed: {}", missed.join("; ")));
        return Ok(false);
    }
    Ok(true)
}

/// Writes to standard output, whose reader may be gone.
fn announce(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Writes a line to standard error.
fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Measures the chosen targets; `tell` receives a line for each stage.
///
/// # Errors
/// The first figure that could not be measured.
async fn run(options: Options, tell: impl Fn(&str)) -> Result<Report, Error> {
    let mut report = Report::default();
    let targets: Vec<_> = options.targets().collect();
    let shared = match options.store.clone() {
        Some(url) => Some(Ground::on_postgres(options.clone(), &url).await?),
        None => None,
    };
    let ground = Ground::new(options)?;
    if let Some(shared) = &shared {
        tell("commits …");
        report.extend(commits::run(&ground).await?);
        report.extend(on_postgres(commits::run(shared).await?));
    }
    let mut stored = None;
    for target in targets {
        tell(&format!("{target:?} …"));
        if matches!(target, Target::T7 | Target::T10) && stored.is_none() && ground.is_own() {
            tell("storing tasks for T7 and T10 …");
            stored = Some(stored::make(&ground, &tell).await?);
        }
        report.extend(measure(target, &ground, stored.as_mut()).await?);
        if let Some(shared) = &shared {
            tell(&format!("{target:?} on PostgreSQL …"));
            report.extend(on_postgres(measure(target, shared, None).await?));
        }
    }
    if let Some(shared) = &shared {
        shared.empty().await?;
    }
    Ok(report)
}

async fn measure(
    target: Target,
    ground: &Ground,
    stored: Option<&mut stored::Stored>,
) -> Result<Vec<report::Row>, Error> {
    match target {
        Target::T1 => submit::run(ground).await,
        Target::T2 => complete::run(ground).await,
        Target::T3 => runs::chain(ground).await,
        Target::T4 => runs::fan_out(ground).await,
        Target::T5 => waiting::memory(ground).await,
        Target::T6 => waiting::recovery(ground).await,
        Target::T7 => lists::run(ground, stored).await,
        Target::T8 => events::run(ground).await,
        Target::T9 => start::run(ground).await,
        Target::T10 => growth::run(ground, stored).await,
    }
}

/// Rows of PostgreSQL, whose figures no target of the embedded store judges.
fn on_postgres(rows: Vec<report::Row>) -> impl Iterator<Item = report::Row> {
    rows.into_iter().map(|row| row.unjudged(", on PostgreSQL"))
}
