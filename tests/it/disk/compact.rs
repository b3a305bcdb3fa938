//! Compaction: it gives the disk back, keeps everything, and may be cut short anywhere.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use callboard_disk::{
    Call, Counts, Event, Fault, Log, Model, Moment, Outcome, Random, Shim, Timing, copy, power_cut,
    reboot,
};

use crate::disk::ledger::{Fact, Ledger};
use crate::disk::load::{Amount, set_up, starts_again, work};
use crate::disk::long;
use crate::disk::pool::{Sum, run_until_met};
use crate::disk::program::Program;
use crate::support::{Client, until};

/// How many of the calls that a compaction makes are tried in the short form.
const SAMPLE: usize = 16;

/// By how many calls a fault that was not met is made earlier at the next try.
const AIM_EARLIER: u64 = 4;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A directory that was worked with, and what was acknowledged there.
struct Used {
    directory: tempfile::TempDir,
    facts: Vec<Fact>,
}

impl Used {
    async fn new(rounds: usize) -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let (root, stderr) = (directory.path().join("used"), directory.path().join("stderr"));
        let ledger = Arc::new(Ledger::default());
        let program = Program::start(&root.join("data"), &stderr, |_| ()).expect("it starts");
        let keys = set_up(&program.url, &ledger).await.expect("the server works");
        work(&program.url, &keys, &ledger, Amount { users: 4, rounds, long: 20_000, seed: 1 })
            .await;
        assert_eq!(program.terminate().code, Some(0));
        Self { directory, facts: ledger.facts() }
    }

    /// A copy of it.
    fn copied(&self, name: &str) -> PathBuf {
        let root = self.directory.path().join(name);
        copy(&self.directory.path().join("used"), &root);
        root
    }
}

fn compact(data: &Path, prepare: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callboard"));
    command.args(["compact", "--data-dir"]).arg(data);
    prepare(&mut command);
    command.output().expect("the program starts")
}

fn size_of_db(data: &Path) -> u64 {
    std::fs::metadata(data.join("store/db")).expect("a store").len()
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{:?}: {}{}", output.status, text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compacted_store_has_everything_and_what_was_removed_is_off_the_disk() {
    let used = Used::new(30).await;
    let root = used.copied("compacted");
    let (data, stderr) = (root.join("data"), root.join("stderr"));
    let output = compact(&data, |_| ());
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains(" MB before, "), "{}", said(&output));
    // Everything ends here.
    starts_again(&data, &stderr, &used.facts).await.expect("everything is there");

    let retention = |command: &mut Command| {
        command.env("CALLBOARD_RETENTION__ENDED", "1s");
    };
    let program = Program::start(&data, &stderr, retention).expect("it starts");
    let Some(Fact::Key(key)) = used.facts.first() else { panic!("the key is made first") };
    let client = Client::new(&program.url, key);
    until("what ended is removed", async || {
        client.get("/api/tasks?limit=1").await.body["pagination"]["total"] == 0
    })
    .await;
    let output = compact(&data, |_| ());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("in use"), "{}", said(&output));
    assert_eq!(program.terminate().code, Some(0));

    let before = size_of_db(&data);
    let output = compact(&data, |_| ());
    assert!(output.status.success(), "{}", said(&output));
    let after = size_of_db(&data);
    assert!(2 * after < before, "{before} bytes before, {after} now");
    starts_again(&data, &stderr, &used.facts[..2]).await.expect("the key and the plan are there");
}

#[test]
fn without_a_store_there_is_nothing_to_compact() {
    let directory = tempfile::tempdir().expect("a directory can be had");
    let nowhere = directory.path().join("nowhere");
    let output = compact(&nowhere, |_| ());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("there is no store at"), "{}", said(&output));
    assert!(!nowhere.exists(), "nothing is made");
}

#[test]
fn a_compaction_that_is_cut_short_anywhere_leaves_everything() {
    let (mut random, seed) = Random::from_env();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let used = runtime.block_on(Used::new(4));
    let shim = Shim::build(used.directory.path());
    let root = used.copied("counted");
    let counts = root.join("counts");
    let output = compact(&root.join("data"), |command| {
        shim.load(command, &root);
        Shim::fail(command, None, &counts);
    });
    assert!(output.status.success(), "{}", said(&output));
    let calls = Counts::read(&counts);

    let outcomes = [
        Outcome::Kills(Moment::Before),
        Outcome::Kills(Moment::After),
        Outcome::Fails { errno: EIO, timing: Timing::Once },
        Outcome::Fails { errno: ENOSPC, timing: Timing::FromThenOn },
    ];
    let mut faults = Vec::new();
    for (call, last) in [(Call::Write, calls.writes), (Call::Sync, calls.syncs)] {
        for at in 1..=last {
            faults.extend(outcomes.map(|outcome| Fault { call, at, outcome }));
        }
    }
    while !long() && faults.len() > SAMPLE {
        faults.swap_remove(random.below(faults.len()));
    }
    let run = async |(number, fault): &(usize, Fault), before: usize| {
        let root = used.copied(&format!("case-{number}-{before}"));
        // sled makes some writes fewer in one compaction than in another of the same store.
        let at = fault.at.saturating_sub(AIM_EARLIER * before as u64).max(1);
        let fault = Fault { at, ..*fault };
        let (data, counts) = (root.join("data"), root.join("counts"));
        let output = compact(&data, |command| {
            shim.load(command, &root);
            Shim::fail(command, Some(fault), &counts);
        });
        let again = starts_again(&data, &root.join("stderr"), &used.facts).await;
        let left = data.join("store.compact").exists();
        let met = Counts::read(&counts).faults > 0;
        std::fs::remove_dir_all(&root).expect("a directory of ours");
        match again {
            // Nothing, or in words; `None` if it was killed.
            _ if output.status.code().is_some_and(|code| code > 1) => {
                Err(format!("{fault:?}: {}", said(&output)))
            }
            Err(why) => Err(format!("{fault:?}: {why}; the compaction: {}", said(&output))),
            Ok(()) if left => Err(format!("{fault:?}: what was cut short is still there")),
            Ok(()) => Ok(met),
        }
    };
    let Sum { runs, met, unmet, wrong } =
        run_until_met(faults.into_iter().enumerate().collect(), run);
    eprintln!("{met} compactions cut short, {runs} runs; {calls:?}");
    assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
    assert!(unmet.is_empty(), "seed {seed}: these faults were not met: {unmet:?}");
}

/// A compaction, and everything that it did to the disk.
struct Compaction {
    used: Used,
    events: Vec<Event>,
    /// Where the two directories change places.
    exchange: usize,
}

impl Compaction {
    async fn new() -> Self {
        let used = Used::new(4).await;
        let shim = Shim::build(used.directory.path());
        let (root, log) = (used.copied("logged"), used.directory.path().join("log"));
        let output = compact(&root.join("data"), |command| {
            shim.load(command, &root);
            Shim::log(command, &log);
        });
        assert!(output.status.success(), "{}", said(&output));
        let events = Log::read(&log, &root).events;
        let exchange = events.iter().position(|event| matches!(event, Event::Exchange { .. }));
        Self { used, exchange: exchange.expect("they change places"), events }
    }

    /// The place of a power cut: anywhere, near the exchange, or when all is done.
    fn place(&self, random: &mut Random) -> usize {
        const BEFORE: usize = 8;
        let end = self.events.len() + 1;
        let from = [0, self.exchange.saturating_sub(BEFORE), end - 1][random.below(3)];
        from + random.below(end - from)
    }

    /// A power cut before the event `at`, and a start after it.
    async fn cut(
        &self,
        number: usize,
        at: usize,
        model: Model,
        random: &mut Random,
    ) -> Result<(), String> {
        let image = self.used.directory.path().join(format!("image-{number}"));
        let start = self.used.directory.path().join("used");
        power_cut(&start, &self.events, at, model, random, &image);
        reboot(&image);
        let data = image.join("data");
        starts_again(&data, &image.join("stderr"), &self.used.facts).await.map_err(|why| {
            let exchange = self.exchange;
            format!("cut {number}, {model:?}, before event {at}, exchanged at {exchange}: {why}")
        })?;
        let left = data.join("store.compact").exists();
        std::fs::remove_dir_all(&image).expect("a directory of ours");
        if left { Err(format!("cut {number}: what was cut short is still there")) } else { Ok(()) }
    }

    /// Has the syncs that `skipped` names never been made.
    fn skip_syncs(&mut self, skipped: impl Fn(usize) -> bool) {
        for (at, event) in self.events.iter_mut().enumerate() {
            if skipped(at) && matches!(event, Event::Sync { .. }) {
                *event = Event::Acknowledged { text: String::new() };
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_anywhere_in_a_compaction_leaves_everything() {
    let cuts = if long() { 200 } else { 8 };
    let (mut random, seed) = Random::from_env();
    let compaction = Compaction::new().await;
    for number in 0..cuts {
        let at = compaction.place(&mut random);
        let model = if random.below(2) == 0 { Model::Ordered } else { Model::Harsh };
        if let Err(why) = compaction.cut(number, at, model, &mut random).await {
            let kept = compaction.used.directory.keep();
            panic!("seed {seed}: {why} (kept in {})", kept.display());
        }
    }
    eprintln!("{cuts} power cuts, {} events", compaction.events.len());
}

/// The test of the test: the new directory is not synced, which a power cut shows just after the
/// exchange, or the exchange is not before the old one goes, which one shows when all is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_that_leaves_a_sync_out_is_caught_by_power_cuts() {
    let (mut random, seed) = Random::from_env();
    for (what, after) in [("before", false), ("after", true)] {
        let mut compaction = Compaction::new().await;
        let exchange = compaction.exchange;
        compaction.skip_syncs(|at| (at > exchange) == after);
        let mut caught = None;
        let at = if after { compaction.events.len() } else { exchange + 1 };
        for number in 0..100 {
            caught = compaction.cut(number, at, Model::Harsh, &mut random).await.err();
            if caught.is_some() {
                break;
            }
        }
        let why = caught.unwrap_or_else(|| panic!("seed {seed}: none {what} it, and no cut tells"));
        eprintln!("no sync {what} the exchange: {why}");
    }
}
