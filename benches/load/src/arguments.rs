//! The command line of the benchmark.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use super::baseline::Baseline;
use super::error::{Error, broken};
use super::http::Site;
use super::{Options, Target};

/// The speed of Callboard on this machine, beside that of the machine itself.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) baseline: Option<Command>,
    #[command(flatten)]
    pub(super) bench: Bench,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// A baseline that a measurement is compared with; the benchmark starts it.
    #[command(hide = true)]
    Baseline(BaselineSettings),
}

/// The measurements, and their length.
#[derive(Debug, Clone, Args)]
pub(super) struct Bench {
    /// Targets of docs/performance.md to measure, separated by commas; by default all.
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    only: Vec<Target>,
    /// Seconds that one measurement lasts.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Number of rounds of baseline and program.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Number of stored items; by default 100,000 in T5 and T6, 1,000,000 in T7 and T10.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2_000..))]
    items: Option<u32>,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub(super) json: bool,
    /// Write the tables into this page, between its marks.
    #[arg(long, value_name = "FILE")]
    pub(super) write: Option<PathBuf>,
    /// Exit code 10 if a target is missed.
    #[arg(long)]
    pub(super) check: bool,
    /// Directory for the measured data, removed at the end; its disk is the one that is measured.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    pub(super) directory: PathBuf,
    /// Program to measure; by default `callboard` in the directory of this program.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Running server to measure: T1 to T4 and T7 only, and no baselines unless it is on this machine.
    #[arg(long, value_name = "URL", requires = "api_key")]
    server: Option<String>,
    /// Key of an admin on that server.
    #[arg(long, value_name = "KEY", env = "CALLBOARD_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Empty PostgreSQL database on which T1 to T6 are measured beside the embedded store; emptied at the end.
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    store: Option<String>,
}

/// A baseline, in a process of its own.
#[derive(Debug, Clone, Args)]
pub(super) struct BaselineSettings {
    /// The baseline.
    #[arg(value_enum)]
    pub(super) baseline: Baseline,
    /// The directory of the baseline's data.
    #[arg(long, default_value = ".")]
    pub(super) directory: PathBuf,
    /// The length of the measurement, in milliseconds.
    #[arg(long, default_value_t = 0)]
    pub(super) millis: u64,
    /// The number of items.
    #[arg(long, default_value_t = 0)]
    pub(super) items: usize,
}

impl Bench {
    /// The targets to measure, on which server.
    ///
    /// # Errors
    /// A target cannot be measured where it is asked for, or there is no program to measure.
    pub(super) fn options(self) -> Result<Options, Error> {
        let server = self.server.as_deref();
        let unseen = self.only.iter().find(|target| !target.is_seen_from_outside());
        if let (Some(server), Some(target)) = (server, unseen) {
            let why = "it needs its own server";
            return Err(broken(format!("{target:?} cannot be measured on {server}: {why}")));
        }
        let of_one_store = self.only.iter().find(|target| !target.is_of_any_store());
        if let (Some(_), Some(target)) = (&self.store, of_one_store) {
            let why = "--store measures T1 to T6";
            return Err(broken(format!("{target:?} is not measured on PostgreSQL: {why}")));
        }
        let server = server.map(|url| Site::parse(url, self.api_key)).transpose()?;
        let program = self.program.map_or_else(beside, Ok)?;
        Ok(Options {
            only: self.only,
            span: Duration::from_secs_f64(self.seconds),
            rounds: self.rounds.into(),
            items: self.items.map(|items| items as usize),
            directory: self.directory,
            program,
            server,
            store: self.store,
        })
    }
}

/// The program in the directory of this one.
fn beside() -> Result<PathBuf, Error> {
    let own = std::env::current_exe().map_err(Error::of("this program has no path"))?;
    Ok(own.with_file_name("callboard"))
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=3_600.0).contains(&seconds) { Ok(seconds) } else { Err("0.1 to 3600".into()) }
}
