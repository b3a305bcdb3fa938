//! Load on the real program, beside the floors that no program of its kind can go below.
//!
//! ```text
//! cargo bench --bench load -- [--only T1,T2] [--seconds 5] [--rounds 3] [--json]
//!
//!   this process ──HTTP, WebSocket──▶ the program, on a directory of its own
//!        │
//!        └──HTTP, or nothing────────▶ a floor, in a process of its own (see `floor`)
//! ```
//!
//! Figures of one machine move from run to run. So each target that is a ratio is measured round by
//! round, floor and program in turn, and the median of the rounds' ratios is judged. Deliberately
//! absent: any code of the program. It is spoken to from outside, as anybody would.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod complete;
mod floor;
mod http;
mod meter;
mod program;
mod report;
mod runs;
mod start;
mod submit;
mod waiting;
mod worker;

use std::time::Duration;

use clap::Parser;

use report::Row;

/// How many requests are under way at once.
const IN_FLIGHT: usize = 64;

/// Load on the real program, beside its floors.
#[derive(Debug, Parser)]
struct Options {
    /// Only these targets: T1, T2, T3, T4, T5, T6, T9.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds that one measurement lasts.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How often floor and program take turns.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many items wait in T5 and T6.
    #[arg(long, default_value_t = 100_000)]
    items: usize,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// A target of the performance page and what measures it.
type Work = (&'static str, fn(&Options) -> Vec<Row>);

const WORKS: [Work; 7] = [
    ("T1", submit::run),
    ("T2", complete::run),
    ("T3", runs::chain),
    ("T4", runs::fan_out),
    ("T5", waiting::memory),
    ("T6", waiting::recovery),
    ("T9", start::run),
];

fn main() {
    if floor::is_asked_for() {
        return floor::run();
    }
    let options = Options::parse();
    let known = |name: &String| WORKS.iter().any(|(work, _)| work == name);
    if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
        println!("there is no target {unknown}");
        std::process::exit(2);
    }
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    let works = WORKS.iter().filter(|(name, _)| wanted(name));
    let rows: Vec<_> = works.flat_map(|(_, run)| run(&options)).collect();
    let shown = if options.json { report::json(&rows) } else { report::table(&rows) };
    println!("{shown}");
}

/// The runtime that load is made in: one thread, so that most of the two cores is left to what is
/// measured.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime can be had")
}
