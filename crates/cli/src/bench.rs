//! `callboard bench`: the speed of this program on this machine, beside that of the machine itself.
//!
//! Deliberately absent: a server from the environment or from the last login. Load is made on a server
//! that was named on the command line, or on one of our own.

use std::path::PathBuf;
use std::time::Duration;

use callboard_bench::{Error, Floor, FloorSettings, Options, Page, Site, Target};
use clap::Args;

use super::access::Access;
use super::failure::Failure;
use super::output::{Output, note, print};
use super::process;

/// The measurements, and their length.
#[derive(Debug, Clone, Args)]
pub struct Bench {
    /// Targets of docs/performance.md to measure, separated by commas; by default all.
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    only: Vec<Target>,
    /// Seconds that one measurement lasts.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Number of rounds of floor and program.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Number of stored items; by default 100,000 in T5 and T6, 1,000,000 in T7 and T10.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2_000..))]
    items: Option<u32>,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Write the tables into this page, between its marks.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Exit code 10 if a target is missed.
    #[arg(long)]
    check: bool,
    /// Directory for the measured data, removed at the end; its disk is the one that is measured.
    #[arg(long, value_name = "DIRECTORY", default_value = ".")]
    directory: PathBuf,
    /// Running server to measure, with an admin's credentials: T1 to T4 and T7 only, and no floors
    /// unless it is on this machine.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Empty PostgreSQL database on which T1 to T6 are measured beside the embedded store; emptied at the end.
    #[arg(long, value_name = "URL", conflicts_with = "server")]
    store: Option<String>,
    /// File with an API key for that server; default: `CALLBOARD_API_KEY`,
    /// `CALLBOARD_API_KEY_FILE`, the stored login.
    #[arg(long, value_name = "FILE", requires = "server")]
    api_key_file: Option<PathBuf>,
}

/// A floor, in a process of its own.
#[derive(Debug, Clone, Args)]
pub struct BenchFloor {
    /// The floor.
    #[arg(value_enum)]
    floor: Floor,
    /// The directory of the floor's data.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// The length of the measurement, in milliseconds.
    #[arg(long, default_value_t = 0)]
    millis: u64,
    /// The number of items.
    #[arg(long, default_value_t = 0)]
    items: usize,
}

/// Measures, and shows the figures. Returns the exit code.
#[must_use]
pub fn run(asked: Bench) -> u8 {
    crate::block_on(measure(asked))
}

/// Runs a floor until the process is killed or the measurement has ended. Returns the exit code.
#[must_use]
pub fn run_floor(asked: BenchFloor) -> u8 {
    process::exit(process::block_on(be_floor(asked)))
}

async fn measure(asked: Bench) -> Result<(), Failure> {
    let page = asked.write.clone().map(Page::open).transpose()?;
    if let (Some(server), Some(target)) =
        (&asked.server, asked.only.iter().find(|target| !target.is_seen_from_outside()))
    {
        let text = format!("{target:?} cannot be measured on {server}: it needs its own server");
        return Err(Failure::Usage(text));
    }
    if let (Some(_), Some(target)) =
        (&asked.store, asked.only.iter().find(|target| !target.is_of_any_store()))
    {
        let text = format!("{target:?} is not measured on PostgreSQL: --store measures T1 to T6");
        return Err(Failure::Usage(text));
    }
    let server = match &asked.server {
        Some(url) => Some(site(url, asked.api_key_file.clone()).await?),
        None => None,
    };
    let options = Options {
        only: asked.only,
        span: Duration::from_secs_f64(asked.seconds),
        rounds: asked.rounds.into(),
        items: asked.items.map(|items| items as usize),
        directory: asked.directory.clone(),
        server,
        store: asked.store,
    };
    let signal = process::signal().map_err(Failure::Other)?;
    let report = tokio::select! {
        report = callboard_bench::run(options, note) => report?,
        // The measured servers end with the measurement, and the directories are removed.
        () = signal => return Err(Failure::Interrupted),
    };
    let table = report.table(&asked.directory);
    let shown = if asked.json { report.json(&asked.directory) } else { table.clone() };
    if let Some(page) = page {
        // From here on, the sources differ from the commit.
        page.write(&table)?;
    }
    print(&format!("{}\n", shown.trim_end()))?;
    let missed = report.missed();
    if asked.check && !missed.is_empty() {
        return Err(Failure::WorkFailed(format!("missed: {}", missed.join("; "))));
    }
    Ok(())
}

async fn be_floor(asked: BenchFloor) -> Result<(), String> {
    let BenchFloor { floor, directory, millis, items } = asked;
    let settings = FloorSettings { directory, span: Duration::from_millis(millis), items };
    let floor = callboard_bench::be_floor(floor, &settings, process::announce);
    floor.await.map_err(|error| error.to_string())
}

/// The server, in the name of the signed-in user.
async fn site(url: &str, api_key_file: Option<PathBuf>) -> Result<Site, Failure> {
    let access = Access { server: Some(url.to_owned()), api_key_file, output: Output::default() };
    let client = access.client()?;
    let Some(bearer) = client.bearer().await? else {
        let text = format!("not signed in at {url}: load needs an admin's credentials");
        return Err(Failure::NotSignedIn(text));
    };
    Ok(Site::parse(&client.server().to_string(), Some(bearer.expose().to_owned()))?)
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=3_600.0).contains(&seconds) { Ok(seconds) } else { Err("0.1 to 3600".into()) }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Client(error) => error.into(),
            Error::Broken(text) => Self::Other(text),
        }
    }
}
