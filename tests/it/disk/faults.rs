//! The k-th write or sync fails, for every k of a short run: the server answers with an error or ends
//! in words, never with a 2xx for what is not on the disk, and another start shows all of the rest.
//!
//! After a sync that failed the files look as if it had not: so there the power goes as well, which
//! leaves nothing of what that sync was to cover; and a start without a power cut must have the system
//! forget what it shows of them, so that it finds the same.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use callboard_disk::{
    Call, Counts, Fault, Log, Model, Outcome, Random, Shim, Timing, copy, power_cut, reboot,
};

use super::ledger::{Fact, Ledger};
use super::load::{Amount, Keys, is_loss, set_up, starts_again, starts_again_with, work};
use super::long;
use super::pool::{Sum, run_until_met};
use super::program::{Ended, Program};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const PRETENDED: i32 = 0;

/// How much is done in a run.
const ROUNDS: usize = 4;
/// How many faults of a start are tried, and how many of a use; the long form tries all.
const SAMPLE: usize = 16;

/// Where faults are made.
struct Bench {
    directory: tempfile::TempDir,
    shim: Shim,
    empty: PathBuf,
    /// A directory that was in use, and what was acknowledged there.
    used: PathBuf,
    keys: Keys,
    facts: Vec<Fact>,
}

/// One run with a fault, or with none.
#[derive(Debug, Clone, Copy)]
struct Case {
    number: usize,
    /// Whether it begins with nothing.
    fresh: bool,
    fault: Option<Fault>,
}

impl Case {
    fn is_of_a_sync(&self) -> bool {
        self.fault.is_some_and(|fault| fault.call == Call::Sync)
    }
}

impl Bench {
    async fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be had");
        let shim = Shim::build(directory.path());
        let used = directory.path().join("used");
        let stderr = directory.path().join("stderr");
        let program = Program::start(&used.join("data"), &stderr, |_| ()).expect("it starts");
        let ledger = Arc::new(Ledger::default());
        let keys = set_up(&program.url, &ledger).await.expect("the server works");
        let amount = Amount { users: 2, rounds: 4, long: 6_000, seed: 1 };
        work(&program.url, &keys, &ledger, amount).await;
        assert_eq!(program.terminate().code, Some(0));
        let empty = directory.path().join("empty");
        std::fs::create_dir_all(&empty).expect("a directory can be made");
        Self { directory, shim, empty, used, keys, facts: ledger.facts() }
    }

    /// Starts, works, ends, starts again without the fault, and compares.
    async fn run(&self, case: Case, before: usize) -> Result<Counts, String> {
        let name = |what: &str| format!("{what}-{}-{before}", case.number);
        let path = |what: &str| self.directory.path().join(name(what));
        let (root, counts, stderr) = (path("disk"), path("counts"), path("stderr"));
        let (log, start) = (path("log"), if case.fresh { &self.empty } else { &self.used });
        copy(start, &root);
        let data = root.join("data");
        let ledger = Arc::new(Ledger::default());
        let started = Program::start(&data, &stderr, |command| {
            self.shim.load(command, &root);
            Shim::fail(command, case.fault, &counts);
            if case.is_of_a_sync() {
                Shim::log(command, &log);
            }
        });
        let ended = match started {
            Ok(mut program) => {
                self.load(&mut program, case, &ledger, (before > 0).then_some(&*counts)).await?;
                program.has_ended().unwrap_or_else(|| program.terminate())
            }
            Err(ended) => ended,
        };
        let met = Counts::read(&counts);
        in_order(&ended, case, met)?;
        let facts = if case.fresh { &[][..] } else { &self.facts };
        let facts = [facts, &ledger.facts()].concat();
        let told = |reason: String| format!("{reason}; before: {}", ended.stderr);
        let state = std::fs::read_to_string(data.join("store/callboard-state"));
        let closed = state.is_ok_and(|state| state.starts_with("closed"));
        let log_again = path("log-again");
        let again = |command: &mut Command| {
            if case.is_of_a_sync() {
                self.shim.load(command, &root);
                Shim::log(command, &log_again);
            }
        };
        starts_again_with(&data, &stderr, &facts, again).await.map_err(told)?;
        if case.is_of_a_sync() {
            let image = path("image");
            let (events, again) = (Log::read(&log, &root), Log::read(&log_again, &root));
            let believes = |file: &&str| {
                let file = Path::new("data/store").join(file);
                let dropped = !closed && again.dropped_caches().contains(&&*file);
                events.failed_syncs().contains(&&*file) && !dropped
            };
            if let Some(file) = ["db", "journal.0", "journal.1"].into_iter().find(believes) {
                return Err(told(format!("of {file} it believes what was not written")));
            }
            let mut random = Random::new(case.number as u64);
            let (all, model) = (events.events.len(), Model::Harsh);
            power_cut(start, &events.events, all, model, &mut random, &image);
            reboot(&image);
            let after = starts_again(&image.join("data"), &stderr, &facts).await;
            after.map_err(|reason| told(format!("after a power cut: {reason}")))?;
            for file in [log, log_again] {
                std::fs::remove_file(file).expect("a file of ours");
            }
            std::fs::remove_dir_all(image).expect("a directory of ours");
        }
        let _ = std::fs::remove_dir_all(root);
        Ok(met)
    }

    /// Works on the server; with `counts`, until the fault was met: how many calls a load makes depends on how
    /// many commits share a sync.
    async fn load(
        &self,
        program: &mut Program,
        case: Case,
        ledger: &Arc<Ledger>,
        counts: Option<&Path>,
    ) -> Result<(), String> {
        let url = program.url.clone();
        let load = async {
            let keys =
                if case.fresh { set_up(&url, ledger).await } else { Some(self.keys.clone()) };
            let Some(keys) = keys else { return };
            for part in 1.. {
                let seed = (case.number as u64 + 1) << 16 | part;
                work(&url, &keys, ledger, Amount { users: 1, rounds: ROUNDS, long: 6_000, seed })
                    .await;
                let met = counts.is_none_or(|counts| Counts::read(counts).faults > 0);
                if met || program.has_ended().is_some() {
                    break;
                }
            }
        };
        let over = tokio::time::timeout(Duration::from_mins(1), load).await;
        over.map_err(|_| format!("the server hangs: {}", program.stderr()))?;
        let refused = ledger.refusals();
        if refused.keys().any(|status| *status < 500) {
            return Err(format!("the fault is told as the client's: {refused:?}"));
        }
        Ok(())
    }

    /// Runs all of `cases`, some at a time.
    fn run_all(&self, cases: Vec<Case>) -> Sum<Case> {
        run_until_met(cases, async |case, before| {
            self.run(*case, before).await.map(|met| met.faults > 0)
        })
    }
}

/// Whether a server that met a fault went on, or ended in words.
fn in_order(ended: &Ended, case: Case, met: Counts) -> Result<(), String> {
    if ended.panicked() {
        return Err(format!("it panicked: {ended:?}"));
    }
    if ended.code == Some(0) {
        return Ok(());
    }
    if met.faults == 0 || !ended.in_words() {
        return Err(format!("it did not end in words: {ended:?}"));
    }
    let outcome = case.fault.map(|fault| fault.outcome);
    let full = matches!(outcome, Some(Outcome::Fails { errno: ENOSPC, .. }));
    if full && !ended.stderr.contains("free some") {
        return Err(format!("it does not say what to do about a full disk: {ended:?}"));
    }
    Ok(())
}

/// Every fault from the `first` to the `last` of these calls.
fn every(
    call: Call,
    (first, last): (u64, u64),
    errors: &[(i32, Timing)],
    fresh: bool,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for at in first..=last {
        for (errno, timing) in errors {
            let outcome = Outcome::Fails { errno: *errno, timing: *timing };
            let fault = Fault { call, at, outcome };
            cases.push(Case { number: 0, fresh, fault: Some(fault) });
        }
    }
    cases
}

fn numbered(cases: Vec<Case>) -> Vec<Case> {
    cases.into_iter().zip(1..).map(|(case, number)| Case { number, ..case }).collect()
}

/// The calls of a start alone, of a whole fresh run, and of a run of a used directory.
async fn counted(bench: &Bench) -> (Counts, Counts, Counts) {
    let root = bench.directory.path().join("counted");
    let (counts, stderr) = (root.join("counts"), root.join("stderr"));
    std::fs::create_dir_all(&root).expect("a directory can be made");
    let program = Program::start(&root.join("data"), &stderr, |command| {
        bench.shim.load(command, &root.join("data"));
        Shim::fail(command, None, &counts);
    });
    let started = Counts::read(&counts);
    program.expect("it starts").kill();
    let whole = Case { number: 0, fresh: true, fault: None };
    let fresh = bench.run(whole, 0).await.expect("it works without a fault");
    let used = Case { fresh: false, ..whole };
    (started, fresh, bench.run(used, 0).await.expect("it works without a fault"))
}

#[test]
fn no_failure_of_a_write_or_a_sync_is_answered_with_success() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let (mut random, seed) = Random::from_env();
    let bench = runtime.block_on(Bench::new());
    let (started, fresh, used) = runtime.block_on(counted(&bench));
    let errors = [
        (EIO, Timing::Once),
        (ENOSPC, Timing::FromThenOn),
        (EIO, Timing::FromThenOn),
        (ENOSPC, Timing::Once),
    ];
    let (write, sync) = (Call::Write, Call::Sync);
    let cases = if long() {
        [
            every(write, (1, fresh.writes), &errors, true),
            every(sync, (1, fresh.syncs), &errors, true),
            every(write, (1, used.writes), &errors, false),
            every(sync, (1, used.syncs), &errors, false),
        ]
        .concat()
    } else {
        let mut cases = [
            every(write, (1, started.writes), &errors[..1], true),
            every(sync, (1, started.syncs), &errors[..1], true),
        ]
        .concat();
        // Each run of the tests draws others.
        while cases.len() > SAMPLE {
            cases.swap_remove(random.below(cases.len()));
        }
        for _ in 0..SAMPLE {
            let (what, calls) =
                if random.below(2) == 0 { (write, used.writes) } else { (sync, used.syncs) };
            let at = 1 + random.below(usize::try_from(calls).expect("few")) as u64;
            cases.extend(every(what, (at, at), &[errors[random.below(4)]], false));
        }
        cases
    };
    let sum = bench.run_all(numbered(cases));
    eprintln!("{} runs, {} faults; {started:?} {fresh:?} {used:?}", sum.runs, sum.met);
    assert!(sum.wrong.is_empty(), "seed {seed}: {}", sum.wrong.join("\n"));
    assert!(sum.unmet.is_empty(), "seed {seed}: these were not met: {:?}", sum.unmet);
}

/// The test of the test: a write or a sync that fails while the program sees success.
#[test]
fn a_fault_that_is_ignored_is_caught() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let bench = runtime.block_on(Bench::new());
    let (_, _, used) = runtime.block_on(counted(&bench));
    // Of a single one the journal makes good what sled misses, and the other way round.
    let errors = [(PRETENDED, Timing::FromThenOn)];
    let half = |what, calls: u64| every(what, (calls / 2, calls / 2 + 5), &errors, false);
    let cases = [half(Call::Write, used.writes), half(Call::Sync, used.syncs)].concat();
    let sum = bench.run_all(numbered(cases));
    // Without its syncs it mostly knows that something is missing, and refuses to start.
    let told = |reason: &str| reason.contains("after a power cut") || is_loss(reason);
    for what in ["call: Write", "call: Sync"] {
        let lost = sum.wrong.iter().find(|reason| reason.contains(what) && told(reason));
        let lost = lost.unwrap_or_else(|| panic!("{what}: it went unnoticed: {sum:#?}"));
        eprintln!("it is caught: {lost}");
    }
}
