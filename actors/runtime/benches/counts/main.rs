//! How many instructions the hot paths take, by callgrind: the same on a busy machine and on a quiet
//! one, so that a slowdown is seen where a clock sees noise.
//!
//! ```text
//! cargo bench --profile counts -p callboard-runtime --bench counts              compares
//! cargo bench --profile counts -p callboard-runtime --bench counts -- --update  writes expected.toml
//! ```
//!
//! Each case runs twice under valgrind, the second time twice as often: the difference of the runs is the cost of the
//! operations, without the start.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod cases;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cases::{CASES, Case};

/// The tolerated excess over the expected count. Hash maps are seeded by chance, which moves counts by
/// less than half of it.
const TOLERANCE: f64 = 0.03;
const CASE: &str = "--case";

type Counts = BTreeMap<String, f64>;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] => compare(),
        ["--update"] => update(),
        [CASE, name, times] => run(name, times),
        _ => Err("it takes nothing, or --update".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("counts: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a case in this process, which valgrind looks at.
fn run(name: &str, times: &str) -> Result<(), String> {
    let case = CASES.iter().find(|case| case.name == name).ok_or("there is no such case")?;
    (case.run)(times.parse().map_err(|_| "not a number")?);
    Ok(())
}

fn compare() -> Result<(), String> {
    let text = std::fs::read_to_string(file()).map_err(|error| error.to_string())?;
    let expected: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
    let expected = |name: &str| expected["counts"].get(name)?.as_integer();
    let mut more = Vec::new();
    println!("{:<44} {:>12} {:>12} {:>8}", "instructions", "expected", "now", "");
    for (name, count) in measure()? {
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        let Some(before) = expected(&name).map(|count| count as f64) else {
            more.push(format!("{name}: there is no expected count"));
            continue;
        };
        let change = count / before - 1.0;
        let percent = 100.0 * change;
        println!("{name:<44} {before:>12.0} {count:>12.0} {percent:>+7.1} %");
        if change > TOLERANCE {
            more.push(format!("{name}: {percent:+.1} %"));
        }
    }
    if more.is_empty() {
        return Ok(());
    }
    let now = compiler();
    let by = text.parse::<toml::Table>().ok().and_then(|t| Some(t["rustc"].as_str()?.to_owned()));
    let other = if by.as_deref() == Some(&now) {
        String::new()
    } else {
        format!(" (counted by {}, now it is {now})", by.unwrap_or_default())
    };
    Err(format!("more than expected{other}: {}; --update if it is wanted", more.join("; ")))
}

fn update() -> Result<(), String> {
    let mut text = String::from(
        "# Instructions an operation; benches/counts.rs compares with them and renews them.\n",
    );
    let _ = writeln!(text, "rustc = \"{}\"\n\n[counts]", compiler());
    for (name, count) in measure()? {
        println!("{name:<44} {count:>12.0}");
        let _ = writeln!(text, "\"{name}\" = {count:.0}");
    }
    std::fs::write(file(), text).map_err(|error| error.to_string())
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/counts/expected.toml")
}

fn measure() -> Result<Counts, String> {
    CASES
        .iter()
        .map(|case| {
            let Case { name, times, operations, .. } = *case;
            let (once, twice) = (collected(name, times)?, collected(name, 2 * times)?);
            #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
            let each = twice.saturating_sub(once) as f64 / (times * operations) as f64;
            Ok((name.to_owned(), each))
        })
        .collect()
}

/// How many instructions a process takes that runs a case so often.
fn collected(name: &str, times: usize) -> Result<u64, String> {
    let executable = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(executable);
    let output = command.args([CASE, name, &times.to_string()]).output();
    let output = output.map_err(|error| format!("valgrind does not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.split_once("Collected : "));
    let count = count.filter(|_| output.status.success()).and_then(|(_, n)| n.trim().parse().ok());
    count.ok_or_else(|| format!("{name} fails under valgrind: {said}"))
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}
